"""Commands about this machine: what it has, what it serves, and a cluster to break by hand."""
