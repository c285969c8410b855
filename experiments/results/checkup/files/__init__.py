"""Settings of Kafka in the files that people have: recognised by content, with the line of each.

`reading` finds out what a file is; each other module reads one kind of files into a `FoundFile`.
"""
