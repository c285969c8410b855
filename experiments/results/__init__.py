"""The results of a sweep: plan, trials and result tables joined, and the words for them.

The Spark job writes the tables; reading them needs no Spark.
"""
