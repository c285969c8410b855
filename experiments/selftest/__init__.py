"""Faults of a known size planted into copies of a real trial's ledger, and looked for with the real measuring job."""
