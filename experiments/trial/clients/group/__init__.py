"""Consumer groups under test: members, their processes, and copiers (consume-process-produce)."""
