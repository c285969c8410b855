"""Two sweeps side by side, in pairs of the same seed, and the gate that says which differences are too much."""
