"""The self-test: the real job must find known faults in copies of a real ledger."""
