"""The measures of every trial. `docs/metrics.md` has the formulas."""
