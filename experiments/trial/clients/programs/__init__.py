"""Programs as clients under test: they report each record as a line of JSON."""
