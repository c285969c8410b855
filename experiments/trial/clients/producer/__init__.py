"""The producer under test: its job, its process, the send loop, transactions and attempts."""
