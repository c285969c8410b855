"""The user's settings of Spark: repeated `--conf key=value`, and spark-defaults.conf.

Spark reads the file by itself. Planning and the job need to know which settings are the user's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Final

MASTER: Final = "spark.master"
_PROPERTY: Final = re.compile(r"([^\s=:]+)\s*[=:\s]\s*(.*)")
"""A line of spark-defaults.conf: `key value`, `key=value` or `key: value` (Java properties)."""


class SparkSetupError(Exception):
    """Spark cannot run the job as it is configured; one line, with what to check."""


def parse_settings(texts: Iterable[str]) -> dict[str, str]:
    """Return the settings of repeated `--conf key=value`; of a repeated key, the last one.

    Raises:
        SparkSetupError: a text has another form, or the key is not one of Spark's.
    """
    settings = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or "\n" in text or not re.fullmatch(r"spark\.\S+", key):
            raise SparkSetupError(
                f"--conf {text}: give Spark's settings as key=value, where the key begins with "
                "spark., such as spark.executor.memory=2g"
            )
        settings[key] = value
    return settings


def spark_home() -> Path | None:
    """Return the folder of the Spark in use: SPARK_HOME, or that of the package pyspark."""
    named = os.environ.get("SPARK_HOME")
    if named:
        return Path(named)
    package = find_spec("pyspark")  # an import takes 0.3 s
    return Path(package.origin).parent if package and package.origin else None


def default_settings() -> dict[str, str]:
    """Return the user's spark-defaults.conf, of SPARK_CONF_DIR or `<Spark's folder>/conf`.

    Raises:
        SparkSetupError: the file cannot be read.
    """
    home = spark_home()
    folder = os.environ.get("SPARK_CONF_DIR") or (home and home / "conf")
    if not folder:
        return {}
    try:
        text = Path(folder, "spark-defaults.conf").read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise SparkSetupError(f"{folder}/spark-defaults.conf cannot be read: {reason}") from error
    lines = (line.strip() for line in text.splitlines())
    found = (_PROPERTY.fullmatch(line) for line in lines if not line.startswith(("#", "!")))
    return {match[1]: match[2] for match in found if match}
