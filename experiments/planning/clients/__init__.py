"""The clients of a cell: which it requests, what they accept and what they are given."""
