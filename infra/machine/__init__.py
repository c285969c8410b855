"""This machine: its memory, disk and cores, the home folder, and files that processes share."""
