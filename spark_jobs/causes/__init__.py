"""Why a record was lost, duplicated or reordered: anomalies, and the evidence for their causes.

What belongs here: screening for anomalous records, the evidence of brokers and clients, and the
rules that attribute causes. Counts of records belong to `spark_jobs.measures`.
"""
