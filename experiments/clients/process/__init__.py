"""Client processes: how they are started, what they write to files that survive them, and how a parent talks to them."""
