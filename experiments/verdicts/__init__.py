"""What Kafka guarantees to a cell, and whether the trials show that each guarantee held.

Depends on no results and no report: those contain verdicts.
"""
