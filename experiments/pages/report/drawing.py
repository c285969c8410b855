"""What all charts share: size, palette and axes, and the conversion of a figure to SVG.

A chart is an `<svg>` element inside the page. Its text stays text, and its colours are variables of
the page's style sheet, so that a dark page has dark charts.
"""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Sequence
from io import StringIO
from typing import TYPE_CHECKING, Any, Final, Literal

from ackbench.experiments.messages.visible import visible
from ackbench.infra.machine.home import Home

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH_IN: Final = 4.8
"""Width of a chart. A phone with 360 px shows it unscaled, so that text keeps its 9 points."""
_LINE_CHARACTERS: Final = 46
"""Characters per line of a row's name, so that its value fits on the right."""
_ROW_IN: Final = 0.4
_LINE_IN: Final = 0.17
_ABOVE_ROWS: Final = 0.75
"""Room above the first row's mark, in rows: also for its name, which begins above the mark."""
_NAME_ROWS: Final = 0.48
"""Part of that room for the name."""
INK, FAINT, GRID, SHADE = "#24292f", "#6e7781", "#d8dee4", "#f0e6d8"
BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#e69f00",
    "#56b4e9",
)
"""Okabe and Ito's palette, for colour-blind readers too (Wong, Nature Methods 8, 441, 2011)."""
SERIES: Final = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY)
STYLES: Final = ("-", "--", "-.", ":")
_VARIABLES: Final = {
    INK: "ink",
    FAINT: "faint",
    GRID: "grid",
    SHADE: "shade",
    BLUE: "blue",
    VERMILLION: "vermillion",
    GREEN: "green",
    PURPLE: "purple",
    ORANGE: "orange",
    SKY: "sky",
}
"""The variable of the style sheet that replaces each colour."""
_SETTINGS: Final[Any] = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9.5,
    "text.color": INK,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.labelsize": 9.5,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "xtick.color": FAINT,
    "xtick.labelcolor": INK,
    "xtick.labelsize": 9,
    "ytick.color": FAINT,
    "ytick.labelcolor": INK,
    "ytick.labelsize": 9,
    "grid.color": GRID,
    "grid.linewidth": 0.5,
    "lines.linewidth": 1.3,
    "path.simplify": True,
    "path.simplify_threshold": 0.2,
}


def set_matplotlib_cache(home: Home) -> None:
    """Put matplotlib's cache below the home; must be called before anything is drawn."""
    os.environ.setdefault("MPLCONFIGDIR", str(home.cache / "matplotlib"))


def load_matplotlib(home: Home) -> None:
    """Import what draws figures, with its cache below the home."""
    set_matplotlib_cache(home)
    import matplotlib.backends.backend_svg
    import matplotlib.figure
    import matplotlib.ticker  # noqa: F401 - imported ahead


def new_figure(height_in: float, *, constrained: bool = True) -> tuple[Figure, Axes]:
    """Return an empty figure with its axes.

    Args:
        height_in: height of the figure, inches.
        constrained: whether matplotlib places the axes. If not, the caller does, which takes half
            the time.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure as NewFigure

    with mpl.rc_context(_SETTINGS):
        drawn = NewFigure(
            figsize=(WIDTH_IN, height_in), layout="constrained" if constrained else None
        )
        return drawn, drawn.add_subplot()


def to_svg(drawn: Figure, name: str, alt: str) -> str:
    """Return the figure as an `<svg>` element; equal figures give equal text on every processor.

    Args:
        drawn: the figure.
        name: unique in the page; prefix of the element's internal ids.
        alt: the figure's content in words, for readers who do not see it.
    """
    import matplotlib as mpl

    text = StringIO()
    with mpl.rc_context({**_SETTINGS, "svg.hashsalt": name}):
        drawn.savefig(
            text,
            format="svg",
            metadata={"Date": None, "Creator": None, "Format": None, "Type": None},
        )
    return _inline(text.getvalue(), name, alt)


def standalone_svg(element: str) -> str:
    """Return an element of `to_svg` as an SVG file, with the colours of the light page."""
    colours = "".join(f"--{variable}: {colour}; " for colour, variable in _VARIABLES.items())
    style = f"<style>svg {{ {colours}background: #ffffff; font-family: sans-serif; }}</style>"
    head, body = element.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1).split(">", 1)
    return f"{head}>{style}{body}\n"


def _inline(document: str, name: str, alt: str) -> str:
    """Return the document's element without ids, size and colours of its own."""
    element = document[document.index("<svg") :]
    box = re.search(r'viewBox="([^"]+)"', element)
    body = element[element.index(">") + 1 :]
    body = re.sub(
        r"<metadata>.*?</metadata>|<defs>\s*<style.*?</style>\s*</defs>", "", body, flags=re.DOTALL
    )  # a style would apply to the entire page
    body = re.sub(r"<!--.*?-->\n?", "", body, flags=re.DOTALL)
    body = re.sub(r'<g id="[^"]*"', "<g", body).replace("xlink:href", "href")
    body = _with_numbered_ids(body, name)
    body = re.sub(r"font: ([\d.]+)px [^;\"]+", r"font-size: \1px", body)
    body = re.sub(r"font-family: [^;\"]+;? ?", "", body)
    for colour, variable in _VARIABLES.items():
        body = body.replace(colour, f"var(--{variable})")
    view_box = box[1] if box else ""
    label = _escape_attribute(alt)
    opening = f'<svg viewBox="{view_box}" role="img" aria-label="{label}">'
    return f"{opening}{_compact(body)}".rstrip()


def _with_numbered_ids(body: str, name: str) -> str:
    """Return the drawing with ids by place.

    Matplotlib's are digests of coordinates in full precision, whose last bits are those of the
    processor's matrix multiplication.
    """
    numbers = {
        written: f"{name}-{number}"
        for number, written in enumerate(dict.fromkeys(re.findall(r'\bid="([^"]+)"', body)))
    }
    return re.sub(
        r'(\bid="|href="#|url\(#)([^")]+)', lambda found: found[1] + numbers[found[2]], body
    )


def _compact(body: str) -> str:
    """Return the same drawing in fewer bytes: coordinates with one decimal of a point."""
    body = re.sub(r' transform="rotate\(-?0(?:\.0*)? [^"]*"', "", body)
    body = re.sub(
        r'\b(?:d|x|y|width|height|transform)="[^"]*"',
        lambda match: re.sub(r"-?\d+(?:\.\d+)?", _rounded, match[0]),
        body,
    )
    body = re.sub(r' d="[^"]*"', lambda match: re.sub(r"\s*([MLQCz])\s*", r"\1", match[0]), body)
    return re.sub(r"\s*\n\s*", "\n", _without_bare_groups(body))


def _rounded(coordinate: re.Match[str]) -> str:
    return f"{round(float(coordinate[0]), 1) + 0.0:g}"  # a negative zero is a zero


def _without_bare_groups(body: str) -> str:
    """Return the drawing without `<g>` elements that have no attribute."""
    kept: list[bool] = []

    def keep(match: re.Match[str]) -> str:
        if match[0] == "</g>":
            return match[0] if kept.pop() else ""
        kept.append(match[0] != "<g>")
        return match[0] if kept[-1] else ""

    return re.sub(r"<g(?: [^>]*)?>|</g>", keep, body)


def share_styles(page: str) -> str:
    """Return a page whose drawings name their styles by classes; it is a quarter smaller.

    Args:
        page: HTML with a `</style>`, before which the rules are inserted.
    """
    styles: dict[str, str] = {}

    def classes(drawing: re.Match[str]) -> str:
        return re.sub(
            r' style="([^"]*)"',
            lambda style: f' class="{styles.setdefault(style[1], f"d{len(styles)}")}"',
            drawing[0],
        )

    shared = re.sub(r"<svg.*?</svg>", classes, page, flags=re.DOTALL)
    rules = "".join(f".{name}{{{style}}}\n" for style, name in styles.items())
    return shared.replace("</style>", f"{rules}</style>", 1)


def _escape_attribute(text: str) -> str:
    return visible(text).replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")


def wrap_label(name: str) -> str:
    """Return a name in lines that fit into a chart, broken between words."""
    return "\n".join(textwrap.wrap(name, _LINE_CHARACTERS, break_on_hyphens=False)) or name


def rows_height_in(names: Sequence[str]) -> float:
    """Return the height of a chart's rows with these names, inches.

    A name takes half of its row (`style_rows_axis`), the longest one that of all.
    """
    lines = max((wrap_label(name).count("\n") + 1 for name in names), default=1)
    row_in = max(_ROW_IN, _LINE_IN * lines / _NAME_ROWS)
    return row_in * len(names) + (row_in - _ROW_IN) * (_ABOVE_ROWS - 0.5)


def write_label(
    axes: Axes, at: tuple[float, float], text: str, *, above: bool = False, right: bool = False
) -> None:
    """Write a row's name into the chart; its length does not change the size of the axes.

    Args:
        axes: the axes.
        at: a part of the axes' width, and a row.
        text: the name.
        above: whether the text ends at `at` vertically; if not, it is centred.
        right: whether the text ends at `at` horizontally; if not, it begins there.
    """
    va: Literal["bottom", "center"] = "bottom" if above else "center"
    ha: Literal["left", "right"] = "right" if right else "left"
    label = axes.annotate(
        escape_label(wrap_label(text)),
        at,
        xycoords=("axes fraction", "data"),
        fontsize=9.5,
        color=INK,
        va=va,
        ha=ha,
        annotation_clip=False,
    )
    label.set_in_layout(False)


def escape_label(text: str) -> str:
    """Return a label for matplotlib, in which a dollar would begin a formula."""
    return visible(text).replace("$", r"\$")


def style_time_axis(axes: Axes, label: str = "seconds after the begin of the load") -> None:
    """Set the label and the grid of a time axis."""
    axes.set_xlabel(label)
    _vertical_grid(axes)


def style_rows_axis(axes: Axes, rows: int, above: float = _ABOVE_ROWS) -> None:
    """Set up one row per cell, from top to bottom, without a y axis.

    Args:
        axes: the axes.
        rows: number of rows.
        above: room above the first row for its name, in rows.
    """
    axes.set_ylim(rows - 0.5, -above)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    _vertical_grid(axes)


def _vertical_grid(axes: Axes) -> None:
    axes.grid(visible=True, axis="x")
    axes.set_axisbelow(True)
