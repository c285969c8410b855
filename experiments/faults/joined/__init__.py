"""A fault as it is asked for, a single one or several joined: how it is written, what it amounts to, drawn at random, and let strike."""
