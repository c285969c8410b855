"""Settings without a sweep: what Kafka guarantees with them under each fault, and what to change.

`configuration` reads property files, `diagnosis` applies the contract to each fault, `changes`
looks for the smallest change, `text` prints it. No cluster is started or contacted.
"""
