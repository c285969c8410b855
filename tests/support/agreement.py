"""Whether two sweeps of the same cells agree, as `ackbench compare` finds it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from e2e.command import AckbenchCommand
from rich.console import Console

_SHARES = ("loss", "duplicates")


def disagreements(
    bench: AckbenchCommand, sweeps: Mapping[str, str], console: Console
) -> Iterator[str]:
    """Print how two sweeps compare, and yield each difference that must not be.

    Args:
        bench: runs the comparison.
        sweeps: the two sweeps, each with its name in a sentence, as in `the local cluster`.
        console: what it is printed on.
    """
    (a, a_name), (b, b_name) = sweeps.items()
    console.print(bench.run("compare", a, b).stdout)
    result = json.loads(bench.run("compare", a, b, "--json").stdout)
    if not result["cells"]:
        yield f"{a} and {b} have no cell in common"
    for cell in result["cells"]:
        for verdict in cell["verdicts"]:
            # What was observed of a thing that is not guaranteed is a question of shares.
            a_verdict, b_verdict = (str(verdict[side]).partition(":")[0] for side in ("a", "b"))
            if a_verdict != b_verdict:
                yield (
                    f"{cell['b_label']}: {verdict['guarantee']} is {a_verdict} on {a_name} and "
                    f"{b_verdict} on {b_name}"
                )
        for one in cell["differences"]:
            interval = one["difference_interval"]
            if one["measure"] in _SHARES and interval and not _includes_zero(interval):
                yield f"{cell['b_label']}: {one['measure']} differs by {interval}"


def _includes_zero(interval: Mapping[str, float]) -> bool:
    """Return whether an interval of `compare --json` allows that there is no difference."""
    return interval["low"] <= 0 <= interval["high"]
