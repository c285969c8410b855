"""What the commands do, one file each; `experiments.cli` says what they are called."""
