"""MLflow: a sweep's trials as runs, and its summary. Everything there can be made again from the sweep's folder."""
