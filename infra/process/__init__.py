"""Processes of this machine: identities, signals, parent death, sessions, logs and waiting."""
