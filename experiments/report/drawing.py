"""What all charts share: size, palette, and how a figure becomes an SVG that stands inside a page. Text stays text."""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Iterable
from io import StringIO
from typing import TYPE_CHECKING, Any, Final, Literal

from infra.machine.home import Home

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH_IN: Final = 4.8
"""A phone of 360 px shows this 1:1, so that text of 9 points is read as such."""
_LINE: Final = 46
"""Characters of a row's name that fit beside its count."""
_ROW_IN: Final = 0.4
_LINE_IN: Final = 0.15
INK, FAINT, GRID, SHADE = "#24292f", "#6e7781", "#d8dee4", "#f0e6d8"
BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#e69f00",
    "#56b4e9",
)
"""Okabe and Ito's colours, told apart by the colour-blind (Wong, Nature Methods 8, 441, 2011)."""
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
"""The page's style sheet gives these their values, so that a dark page has dark charts."""
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
    """Give matplotlib's own cache its place below the home; to be called before anything draws."""
    os.environ.setdefault("MPLCONFIGDIR", str(home.cache / "matplotlib"))


def new_figure(height_in: float, *, constrained: bool = True) -> tuple[Figure, Axes]:
    """Return an empty figure with its one pair of axes, as high as asked for; unconstrained, its caller places the axes, which is twice as fast."""
    import matplotlib as mpl
    from matplotlib.figure import Figure as NewFigure

    with mpl.rc_context(_SETTINGS):
        drawn = NewFigure(
            figsize=(WIDTH_IN, height_in), layout="constrained" if constrained else None
        )
        return drawn, drawn.add_subplot()


def to_svg(drawn: Figure, name: str, alt: str) -> str:
    """Return the figure as an `<svg>` element; equal figures give equal text.

    Args:
        drawn: what was drawn.
        name: unique in the page; the element's internal references hang on it.
        alt: what the figure shows, for those who do not see it.
    """
    import matplotlib as mpl

    text = StringIO()
    with mpl.rc_context({**_SETTINGS, "svg.hashsalt": name}):
        drawn.savefig(
            text,
            format="svg",
            metadata={"Date": None, "Creator": None, "Format": None, "Type": None},
        )
    return _inlined(text.getvalue(), name, alt)


def standalone_svg(element: str) -> str:
    """Return an `<svg>` element of `svg` as a file of its own, with the colours that a page would give it, on white."""
    colours = "".join(f"--{variable}: {colour}; " for colour, variable in _VARIABLES.items())
    style = f"<style>svg {{ {colours}background: #ffffff; font-family: sans-serif; }}</style>"
    head, body = element.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1).split(">", 1)
    return f"{head}>{style}{body}\n"


def _inlined(document: str, name: str, alt: str) -> str:
    """Return the document's element alone: no address, no size of its own, no colour that the page cannot change."""
    element = document[document.index("<svg") :]
    box = re.search(r'viewBox="([^"]+)"', element)
    body = element[element.index(">") + 1 :]
    body = re.sub(
        r"<metadata>.*?</metadata>|<defs>\s*<style.*?</style>\s*</defs>", "", body, flags=re.DOTALL
    )  # a style would hold for the whole page
    body = re.sub(r"<!--.*?-->\n?", "", body, flags=re.DOTALL)
    body = re.sub(r'<g id="[^"]*"', "<g", body).replace("xlink:href", "href")
    body = re.sub(r'id="([^"]+)"', rf'id="{name}-\1"', body)
    body = re.sub(r'href="#', f'href="#{name}-', body)
    body = re.sub(r"url\(#", f"url(#{name}-", body)
    body = re.sub(r"font: ([\d.]+)px [^;\"]+", r"font-size: \1px", body)
    body = re.sub(r"font-family: [^;\"]+;? ?", "", body)
    for colour, variable in _VARIABLES.items():
        body = body.replace(colour, f"var(--{variable})")
    return f'<svg viewBox="{box[1] if box else ""}" role="img" aria-label="{_escaped(alt)}">{_compact(body)}'.rstrip()


def _compact(body: str) -> str:
    """Return the same drawing in fewer bytes: a tenth of a point is more than a screen shows."""
    body = re.sub(
        r'\b(?:d|x|y|transform)="[^"]*"',
        lambda found: re.sub(r"(\d+\.\d)\d+", r"\1", found[0]),
        body,
    )
    return re.sub(r"\s*\n\s*", "\n", body)


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")


def wrap_label(name: str) -> str:
    """Return a name in lines that fit into a chart's width, broken between its words."""
    return "\n".join(textwrap.wrap(name, _LINE, break_on_hyphens=False)) or name


def row_height_in(names: Iterable[str]) -> float:
    """Return how high a chart's rows must be for their names, inches."""
    return _ROW_IN + _LINE_IN * max((wrap_label(name).count("\n") for name in names), default=0)


def write_label(
    axes: Axes, at: tuple[float, float], text: str, *, above: bool = False, right: bool = False
) -> None:
    """Write a row's name into the chart, at a part of its width and a row; the axes keep their size, whatever it says."""
    va: Literal["bottom", "center"] = "bottom" if above else "center"
    ha: Literal["left", "right"] = "right" if right else "left"
    told = axes.annotate(
        escape_label(wrap_label(text)),
        at,
        xycoords=("axes fraction", "data"),
        fontsize=9.5,
        color=INK,
        va=va,
        ha=ha,
        annotation_clip=False,
    )
    told.set_in_layout(False)


def escape_label(text: str) -> str:
    """Return a label that matplotlib takes as it is: a dollar begins a formula there."""
    return text.replace("$", r"\$")


def style_time_axis(axes: Axes, label: str = "seconds after the load began") -> None:
    """Give the axes their quiet grid and their name."""
    axes.set_xlabel(label)
    _quiet_grid(axes)


def style_rows_axis(axes: Axes, rows: int, above: float = 0.75) -> None:
    """Give the axes a row a cell from above, so many rows of room above the first one's mark for its name, and nothing at their left edge."""
    axes.set_ylim(rows - 0.5, -above)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    _quiet_grid(axes)


def _quiet_grid(axes: Axes) -> None:
    axes.grid(visible=True, axis="x")
    axes.set_axisbelow(True)
