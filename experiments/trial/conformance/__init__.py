"""The check of a program that is to be tested as a client: it is run on a broker and judged."""
