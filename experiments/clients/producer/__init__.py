"""The producer under test: its job, its process, the compiled send loop, transactions, and the attempts it recorded."""
