"""The wording of one-line messages: counts, lists, values, suggestions and validation errors.

Imports nothing else of this project.
"""
