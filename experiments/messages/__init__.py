"""The wording of one-line messages: counts, lists, values, suggestions; and errors, which have one.

Also how they get to the terminal. Imports nothing else of this project but `infra`: the base
classes of errors, and the names of secret settings.
"""
