"""The subcommands of `ackbench`, one module each; `experiments.cli` defines names and options."""
