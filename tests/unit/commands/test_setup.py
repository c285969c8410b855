"""Set-up writes its marker only after the work is complete."""

from __future__ import annotations

import subprocess
import sys

from experiments.commands.setup import COMPILED_MODULES

PROGRAM = """
import sys
from pathlib import Path
from experiments.commands import setup

class Cache:
    def __init__(self):
        self.made = False
    def __truediv__(self, name):
        return self
    def exists(self):
        return False
    @property
    def parent(self):
        return self
    def mkdir(self, **_):
        pass
    def touch(self):
        self.made = True

cache = Cache()
setup.cache_folder = lambda: cache
setup.ensure_compiled(print)
print("imported:", *[name for name in setup.COMPILED_MODULES if name in sys.modules])
print("marked:", cache.made)
"""


def test_the_marker_is_written_after_the_clients_were_compiled() -> None:
    """Importing the clients' loops compiles them; a marker without that would hide the cost."""
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    lines = ran.stdout.splitlines()

    assert COMPILED_MODULES
    assert f"imported: {' '.join(COMPILED_MODULES)}" in lines
    assert "marked: True" in lines
