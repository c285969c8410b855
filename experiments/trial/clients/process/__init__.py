"""Client processes: how they are forked, their line protocol, and the files that outlive them."""
