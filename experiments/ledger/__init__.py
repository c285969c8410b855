"""The raw record of a trial: schemas, the folder they lie in, and the seal. Imports nothing of ours."""
