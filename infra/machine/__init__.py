"""This machine: its memory, disk and cores, and the folder that everything is written to."""
