"""The public API, which `import ackbench` offers: sweeps, trials, cells and verdicts as tables.

What is computed here belongs elsewhere: this package only turns results into pandas DataFrames.
"""
