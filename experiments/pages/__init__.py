"""Pages of what was measured: of a sweep, of a running one, of all of a home."""
