"""The measuring job: from the ledgers of a sweep to its result tables, in one Spark session."""
