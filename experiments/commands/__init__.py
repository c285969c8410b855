"""The subcommands of `ackbench`, one module each; `commands.cli` defines names and options."""
