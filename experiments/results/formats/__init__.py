"""What a sweep's results are written as: tables of a terminal, JUnit's XML and Markdown."""
