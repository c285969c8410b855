"""The page of a sweep: `report.html`, made from its folder alone."""
