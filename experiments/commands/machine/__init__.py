"""Commands about this machine: what it has, what it serves, one step on it, a cluster by hand."""
