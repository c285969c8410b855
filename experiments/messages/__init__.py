"""The wording of one-line messages: counts, lists, values, suggestions and validation errors.

Also how they get to the terminal.

Imports nothing else of this project but `infra.kafka.secrets`, the names of secret settings.
"""
