"""`python tests/golden --again KIND...`: run the stored sweeps again and store them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from golden.making import KINDS, make


def main() -> None:
    """Make the kinds of sweeps that are named."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python tests/golden")
    parser.add_argument("--again", nargs="+", choices=KINDS, required=True, metavar="KIND")
    for kind in parser.parse_args().again:
        make(kind)


if __name__ == "__main__":
    main()
