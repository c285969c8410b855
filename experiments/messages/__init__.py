"""How a line to a person is written: counts, lists, shortened values, suggestions. Imports nothing else of this project."""
