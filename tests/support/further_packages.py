"""An environment with packages that only one check needs, together with those of this one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path


def environment_with(packages: Sequence[str], folder: Path) -> Path:
    """Return the Python of an environment that has this one's packages and further ones.

    Args:
        packages: requirements; this environment's versions stay where they satisfy them.
        folder: the environment; it is made if it is missing, which needs the package registry.

    Raises:
        subprocess.CalledProcessError: the packages cannot be installed.
    """
    python, stamp = folder / "bin" / "python", folder / "packages.json"
    if stamp.is_file() and json.loads(stamp.read_text()) == [*packages]:
        return python
    subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
    (site,) = (folder / "lib").glob("python*/site-packages")
    own = Path(sys.prefix) / site.relative_to(folder)
    # These come second, so that the version that a further package needs goes first.
    (site / "ackbench.pth").write_text(f"import site; site.addsitedir({str(own)!r})\n")
    install = ("pip", "install", "--quiet", "--disable-pip-version-check", *packages)
    subprocess.run([str(python), "-m", *install], check=True)
    stamp.write_text(json.dumps([*packages]))
    return python
