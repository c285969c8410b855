"""The content of records: the layout of values, and the keys.

Reading and writing records is up to the producers and consumers; the compiled code that writes and
checks values is `librdkafka.value`.
"""
