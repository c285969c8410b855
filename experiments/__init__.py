"""The questions, the trials that answer them, and what is made of the answers."""
