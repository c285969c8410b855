"""Faults as an experiment requests them, one or several joined.

`notation` parses them, `composite` derives their joint effects and requirements, and `execution`
injects them.
"""
