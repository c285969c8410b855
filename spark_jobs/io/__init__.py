"""Ledgers in, results out: which files the job reads, checks and writes."""
