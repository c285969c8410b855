"""Comparisons of two sweeps, or of the cells of one, in pairs of trials with the same seed.

Also the gate that fails a build on differences or violations, and the table of faults against
client settings.
"""
