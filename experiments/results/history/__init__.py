"""Many sweeps over time: a summary of each, the index, trends with their changes, and pruning.

Nothing here reads a ledger twice: the summary of a sweep is kept in the home's `index` folder.
What one sweep says is in `experiments.results`; two sweeps side by side are in
`experiments.results.comparing`.
"""
