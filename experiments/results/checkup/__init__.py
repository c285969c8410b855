"""Settings without a sweep: what Kafka guarantees with them under each fault, and what to change.

`configuration` reads property files, `diagnosis` applies the contract to each fault, `changes`
looks for the smallest change, `seen` for the same settings in stored sweeps, `text` prints it.
`running_cluster` reads the settings of a cluster instead of files. No cluster is started.
"""
