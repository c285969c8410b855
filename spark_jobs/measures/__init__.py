"""The measures of every trial: fates, order, latency, availability, throughput. `docs/metrics.md` has the formulas."""
