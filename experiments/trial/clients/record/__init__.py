"""The content of records: the layout of values, the keys, and the code that writes and checks them.

Reading and writing records is up to the producers and consumers.
"""
