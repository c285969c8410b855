"""One trial, from a new topic to a sealed ledger. Verdicts are formed in `experiments.verdicts`."""
