"""The commands about many sweeps: index, trends, pins and pruning, and the static site."""
