"""What is known of a sweep while it runs: figures of the trial under way, a page and metrics.

A process of its own reads what the run writes anyway: the sweep's folder, the event journal and the
clients' mapped files. The run does not know of it, and it writes nothing that the run reads.
"""
