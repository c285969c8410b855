"""One trial, from a new topic to a sealed ledger. Verdicts are not formed here."""
