"""An experiment on one page: ``.html`` that needs nothing else, or the pictures alone as ``.png``."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.core.errors import ConfigError, nearest
from rookery.core.files import write_file
from rookery.tune.analysis import Analysis
from rookery.tune.seeing.figures import INK, WIDTH, Panel, panels
from rookery.tune.seeing.page import page

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = (".html", ".png")

LOOK: dict[Any, Any] = {
    "font.size": 9.5,
    "axes.edgecolor": "#999999",
    "svg.fonttype": "path",
    "svg.hashsalt": "rookery",
}


def write_report(analysis: Analysis, target: str | Path) -> None:
    """Writes a report.

    Args:
        analysis: What is told.
        target: File to write, ``.html`` or ``.png``; its folder is made if it is missing.

    Raises:
        ConfigError: If it is to be of another kind, matplotlib is not installed, no trial has a number yet, or the file
            cannot be written.
    """
    target = Path(target)
    kind = target.suffix.lower()
    if kind not in KINDS:
        raise ConfigError(f"-o {target}: must end with {' or '.join(KINDS)}{nearest(kind, list(KINDS))}")
    try:
        from matplotlib import rc_context
    except ImportError:
        raise ConfigError("a report needs matplotlib: pip install 'rookery[plot]'") from None
    with rc_context(LOOK):
        shown = panels(analysis)
        if kind == ".html":
            content = page(analysis, [(panel, svg(panel)) for panel in shown]).encode()
        else:
            content = png(shown, f"{analysis.folder}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_file(target, content)
    except OSError as error:
        raise ConfigError(f"-o {target}: cannot be written: {error.strerror}") from None


def svg(panel: Panel) -> str:
    """A picture as an element of HTML."""
    figure = _figure(panel.height)
    panel.draw(figure)
    written = io.StringIO()
    figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = written.getvalue()
    return text[text.index("<svg") :]


def png(shown: list[Panel], title: str) -> bytes:
    """All pictures, one under the other."""
    heights = [panel.height + 0.45 for panel in shown]
    figure = _figure(sum(heights) + 0.5)
    figure.suptitle(title, x=0.01, ha="left", fontsize=13, fontweight="bold", color=INK)
    parts = figure.subfigures(len(shown), 1, height_ratios=heights, squeeze=False).flat
    for panel, part in zip(shown, parts, strict=True):
        part.suptitle(panel.title, x=0.01, ha="left", fontsize=11, fontweight="bold", color=INK)
        panel.draw(part)
    written = io.BytesIO()
    figure.savefig(written, format="png", dpi=130)
    return written.getvalue()


def _figure(height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(WIDTH, height), layout="constrained")
