"""Ledgers in, results out: which files are read, checked and written."""
