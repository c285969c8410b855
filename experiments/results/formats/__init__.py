"""What a sweep's results are written as: terminal tables, DataFrames, JUnit's XML, Markdown."""
