"""The storage of a cluster's nodes: plain folders, disk images, and their faults."""
