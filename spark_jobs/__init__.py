"""From the ledgers of a sweep to its results."""
