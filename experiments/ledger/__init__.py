"""The raw record of a trial: the schemas of its tables, its folder, its seal, its location.

The schemas of the result tables that Spark derives from it are here too, because both sides read
them. The ledger imports no other package of the project.
"""
