"""The forms of a sweep's results: terminal tables, DataFrames, JUnit's XML, Markdown."""
