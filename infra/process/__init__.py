"""Processes of this machine: identities, signals, children that die with their parent, and the one place that waits."""
