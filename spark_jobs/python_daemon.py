"""The parent of Spark's Python workers, for a local master: pyspark.daemon with compiled modules.

Spark puts `pyspark.zip` first on a worker's path. Python keeps no bytecode of a zip, so each worker
would compile PySpark again. Without it, workers import the installed package, and a session's first
job takes 0.9 s instead of 2.3 s.
"""

import sys

sys.path[:] = [entry for entry in sys.path if not entry.endswith(".zip")]

if __name__ == "__main__":
    from pyspark.daemon import manager

    manager()
