"""`ackbench site`: all sweeps of a home as a folder of pages that needs no server."""

from __future__ import annotations

import time
from pathlib import Path

from ackbench.experiments.messages.phrases import format_bytes
from ackbench.experiments.messages.terminal import echo, echo_error
from ackbench.experiments.pages.site.build import build_site
from ackbench.infra.machine.home import Home
from ackbench.infra.machine.paths import user_path


def site(home: Home, folder: Path) -> int:
    """Build the site and print the path of its first page.

    Raises:
        InputError: the folder has other content, cannot be written, or there is no sweep.
    """
    begin_s = time.monotonic()
    built = build_site(home, user_path(str(folder)))
    for remark in built.remarks:
        echo_error(f"ackbench: {remark}")
    echo(built.index)
    size, took_s = format_bytes(built.bytes), time.monotonic() - begin_s
    echo_error(f"{built.pages:,} pages, {size}, in {took_s:.1f} s")
    return 0
