"""Real Kafka clusters on this machine: nodes, their JVM, processes, networks and disks."""
