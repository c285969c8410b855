"""The command `ackbench`: find ackbench's own folder on the path, and run `infra/start.py` of it.

The wheel has this module at its top. `experiments` and `infra` are names that a user's folder may
have too, so the command must not begin with an import of one of them.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

FILES = ("infra/start.py", "experiments/cli.py")
"""What a folder has that is ackbench's."""


def main() -> None:
    """Run the command with this process's arguments."""
    for entry in sys.path:
        folder = Path(entry)
        if all((folder / file).is_file() for file in FILES):
            runpy.run_path(str(folder / FILES[0]))["main"]()
            return
    sys.stderr.write("ackbench: ackbench is not installed completely: install it again\n")
    sys.exit(2)
