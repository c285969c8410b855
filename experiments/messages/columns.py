"""A table as lines of text, for output that no person reads, or that is long.

rich lays out each part of each cell on its own, and takes 0.3 ms per row; these lines take a
hundredth, and rich is not loaded. They have neither colours nor folded cells.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from ackbench.experiments.messages.phrases import one_line
from ackbench.experiments.messages.visible import visible


def column_lines(
    heads: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[str] = ()
) -> Iterator[str]:
    """Yield the heads, a rule, and the rows, in columns as wide as their widest cell.

    Args:
        heads: one per column.
        rows: one cell per column.
        right: the heads of the columns that are aligned to the right.
    """
    shown = [[one_line(visible(cell)) for cell in row] for row in rows]
    columns = zip(heads, *shown, strict=True)
    widths = [max(map(len, column)) for column in columns]
    form = "  ".join(
        f"{{:{'>' if head in right else '<'}{width}}}"
        for head, width in zip(heads, widths, strict=True)
    )
    yield form.format(*heads).rstrip()
    yield "─" * (sum(widths) + 2 * (len(widths) - 1))
    yield from (form.format(*row).rstrip() for row in shown)
