"""Real Kafka clusters on this machine: nodes, the JVM that runs them, and the process that owns them."""
