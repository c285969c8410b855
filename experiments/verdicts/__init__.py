"""What Kafka guarantees for a cell, and what became of each guarantee. Knows no results and no report: those hold verdicts."""
