"""The start of the command `ackbench`: check the machine before anything else is imported."""

from __future__ import annotations

import platform
import sys

from ackbench.infra.start import INVALID, unsupported


def main() -> None:
    """Run the command with this process's arguments."""
    if reason := unsupported(sys.platform, platform.machine(), sys.version_info[:2]):
        sys.stderr.write(f"ackbench: {reason}\n")
        sys.exit(INVALID)
    from ackbench.experiments.commands import cli

    cli.main()


if __name__ == "__main__":
    main()
