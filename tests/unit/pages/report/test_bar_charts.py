"""Charts with one row per cell: what is written in them."""

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Annotation

from ackbench.experiments.pages.report.bar_charts import FRAME_IN, write_row_title
from ackbench.experiments.pages.report.drawing import (
    new_figure,
    rows_height_in,
    style_rows_axis,
    wrap_label,
)

WORDS = "client.version=2.16.0 acks=all enable.idempotence=true replication.factor=3 partitions=6 "


@pytest.mark.parametrize("lines", [1, 2, 3, 4, 5])
def test_a_cells_name_is_within_the_chart_and_meets_no_other(lines: int) -> None:
    """A name of four lines was cut off at the top, and covered the mark of the row above."""
    name = next(
        text
        for words in range(1, 60)
        if wrap_label(text := " ".join((WORDS * 9).split()[:words])).count("\n") + 1 == lines
    )
    drawn, axes = new_figure(FRAME_IN + rows_height_in([name, name]))
    for place in range(2):
        write_row_title(axes, place, name)
    style_rows_axis(axes, 2)
    axes.set_xlabel("share of trials")
    canvas = FigureCanvasAgg(drawn)
    canvas.draw()  # type: ignore[no-untyped-call]
    boxes = [
        one.get_window_extent()
        for one in axes.get_children()
        if isinstance(one, Annotation) and one.get_text()
    ]
    marks = [axes.transData.transform((0, place))[1] for place in range(2)]
    assert len(boxes) == 2
    assert all(box.y1 <= drawn.bbox.height + 1 for box in boxes)
    assert all(box.y0 > mark for box, mark in zip(boxes, marks, strict=True))
    assert boxes[1].y1 < marks[0]
