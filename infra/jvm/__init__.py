"""The JVM: which one, its start-up caches and the certificates it trusts."""
