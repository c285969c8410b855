"""What a sweep found: the plan, the trials and Spark's tables joined into one object."""
