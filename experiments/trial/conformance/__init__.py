"""Whether a program is a client that can be tested: it is run on a real broker and judged."""
