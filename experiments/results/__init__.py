"""What a sweep found: its plan, trials and result tables joined, and the words for them. Spark writes the tables; no Spark is needed to read them."""
