"""What the nodes of a cluster keep their data on."""
