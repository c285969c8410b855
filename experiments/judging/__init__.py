"""What became of each promise, cell by cell, and whether the sweep can be believed."""
