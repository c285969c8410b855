"""MLflow: one run per trial and one summary run per sweep.

The sweep's folder has all of the content, so the runs can be written again from it.
"""
