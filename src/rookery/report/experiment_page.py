"""An experiment on one page: ``.html`` that needs nothing else, or the pictures alone as ``.png``."""

from __future__ import annotations

import html
import io
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery import __version__
from rookery.core.errors import ConfigError, nearest
from rookery.core.files import write_file
from rookery.core.layers import flow
from rookery.report.experiment import (
    ExperimentSummary,
    TrialSummary,
    format_params,
    format_value,
    is_number,
    short_names,
    varying_paths,
)
from rookery.report.experiment_figures import INK, WIDTH, ExperimentFigure, figures
from rookery.report.panel import number, span

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = (".html", ".png")

LOOK: dict[Any, Any] = {
    "font.size": 9.5,
    "axes.edgecolor": "#999999",
    "svg.fonttype": "path",
    "svg.hashsalt": "rookery",
}

LONGEST_ERROR = 6000
"""Characters of tracebacks that a trial shows, the last ones."""

STYLE = """
:root { color-scheme: light; --ink: #24292f; --soft: #667079; --line: #e4e7ea; --best: #d55e00; }
* { box-sizing: border-box; }
body { margin: 0; background: #f6f7f8; color: var(--ink); font: 15px/1.5 system-ui, -apple-system, "Segoe UI",
  Roboto, "Helvetica Neue", sans-serif; }
main { max-width: 1080px; margin: 0 auto; padding: 32px 20px 64px; }
h1 { font-size: 26px; margin: 0; } h2 { font-size: 17px; margin: 0; }
header p, .caption { color: var(--soft); margin: 2px 0 0; }
section { background: #fff; border: 1px solid var(--line); border-radius: 10px; padding: 18px 20px; margin-top: 18px; }
section svg { width: 100%; height: auto; display: block; margin-top: 8px; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 3px 18px; margin: 10px 0 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
.scores { display: flex; flex-wrap: wrap; gap: 28px; margin-top: 4px; }
.scores b { display: block; font-size: 24px; font-weight: 650; line-height: 1.25; }
.scores span { color: var(--soft); font-size: 13px; }
.wide { overflow-x: auto; margin-top: 10px; }
table { border-collapse: collapse; width: 100%; font-size: 13px; font-variant-numeric: tabular-nums; }
th { text-align: left; color: var(--soft); font-weight: 600; cursor: pointer; user-select: none; white-space: nowrap; }
th.up::after { content: " \\2191"; color: var(--ink); }
th.down::after { content: " \\2193"; color: var(--ink); }
th, td { padding: 5px 8px; border-bottom: 1px solid var(--line); vertical-align: top; }
td.n, th.n { text-align: right; } td svg { width: 90px; height: 20px; margin: 0; display: inline-block; }
tr.best td { background: #fff6ef; } tr.best td:first-child { font-weight: 700; color: var(--best); }
.status { padding: 1px 8px; border-radius: 9px; font-size: 11px; font-weight: 600; letter-spacing: .02em; }
.TERMINATED { background: #dff3ea; color: #00684a; } .ERROR { background: #fbe3e0; color: #a02a1b; }
.RUNNING { background: #dcebf8; color: #00508a; } .PAUSED { background: #fdf0cf; color: #7a5600; }
.PENDING { background: #eceff1; color: #56606a; }
details { margin-top: 3px; max-width: 640px; } summary { cursor: pointer; color: #a02a1b; overflow-wrap: anywhere; }
pre { background: #f6f7f8; border-radius: 6px; padding: 10px; overflow-x: auto; font-size: 12px; line-height: 1.4; }
code { background: #f0f2f4; border-radius: 4px; padding: 1px 5px; font-size: 13px; }
"""

SCRIPT = """
for (const [column, head] of document.querySelectorAll("th").entries()) head.onclick = () => {
  const body = head.closest("table").tBodies[0], up = head.className.includes("down");
  document.querySelectorAll("th").forEach(other => other.classList.remove("up", "down"));
  head.classList.add(up ? "up" : "down");
  const key = row => row.cells[column].dataset.key, sign = up ? 1 : -1;
  [...body.rows].sort((a, b) => {
    const [x, y] = [key(a), key(b)];
    if (x === "" || y === "") return (x === "") - (y === "");
    return sign * (isNaN(x) || isNaN(y) ? x.localeCompare(y) : x - y);
  }).forEach(row => body.append(row));
};
"""


def write_page(summary: ExperimentSummary[TrialSummary], target: str | Path) -> None:
    """Writes an experiment to a file.

    Args:
        summary: Experiment to show.
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
        shown = figures(summary)
        content = page(summary, shown).encode() if kind == ".html" else png(shown, summary.folder)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_file(target, content)
    except OSError as error:
        raise ConfigError(f"-o {target}: cannot be written: {error.strerror}") from None


def svg(shown: ExperimentFigure) -> str:
    """Draws a picture as an element of HTML."""
    figure = _figure(shown.height)
    shown.draw(figure)
    written = io.StringIO()
    figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = written.getvalue()
    return text[text.index("<svg") :]


def png(shown: Sequence[ExperimentFigure], title: str) -> bytes:
    """Draws all pictures, one under the other."""
    heights = [each.height + 0.45 for each in shown]
    figure = _figure(sum(heights) + 0.5)
    figure.suptitle(title, x=0.01, ha="left", fontsize=13, fontweight="bold", color=INK)
    parts = figure.subfigures(len(shown), 1, height_ratios=heights, squeeze=False).flat
    for each, part in zip(shown, parts, strict=True):
        part.suptitle(each.title, x=0.01, ha="left", fontsize=11, fontweight="bold", color=INK)
        each.draw(part)
    written = io.BytesIO()
    figure.savefig(written, format="png", dpi=130)
    return written.getvalue()


def _figure(height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(WIDTH, height), layout="constrained")


def page(summary: ExperimentSummary[TrialSummary], shown: Iterable[ExperimentFigure]) -> str:
    """Writes the whole page: facts, pictures, and a table of trials that a click sorts.

    Raises:
        ConfigError: If no trial has a number yet.
    """
    title = _text(summary.title)
    sections = [_facts(summary), *(_section(each.title, each.caption, svg(each)) for each in shown), _trials(summary)]
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}</style></head><body><main><header><h1>{title}</h1>"
        f"<p>{_text(summary.folder)}</p></header>{''.join(sections)}"
        f'<p class="caption">Rookery {__version__}</p></main><script>{SCRIPT}</script></body></html>\n'
    )


def _section(title: str, caption: str, content: str) -> str:
    return f'<section><h2>{_text(title)}</h2><p class="caption">{_text(caption)}</p>{content}</section>'


def _facts(summary: ExperimentSummary[TrialSummary]) -> str:
    """What was tried, how it was judged, and the best."""
    best, leading, settings = summary.best, summary.suggestions[0], summary.settings
    paths = varying_paths([trial.params for trial in summary.trials])
    counts = Counter(str(trial.status) for trial in summary.trials)
    spent = sum(float(trial.last.get("seconds") or 0.0) for trial in summary.trials)
    scores = {f"best {_text(summary.metrics[0])}, trial {best.name}": _text(number(best.score))}
    if len(leading.trials) > 1:
        low, high = map(number, leading.intervals[0])
        shown = f"{number(leading.score)} <small>{low} to {high}</small>"
        scores[f"mean of {len(leading.trials)} seeds, 95 % interval"] = shown
    scores |= {"trials": str(len(summary.trials)), "time of all trials together": span(spent)}
    judged = zip(summary.metrics, summary.modes, strict=True)
    facts = {
        "Best parameters": format_params(best.params, paths or list(best.params), short_names(best.params)) or "-",
        "Judged by": ", ".join(f"{metric} ({mode}, {summary.scope} of a trial)" for metric, mode in judged),
        "Trials": ", ".join(f"{count} {status}" for status, count in counts.items()),
        "Search": _part(settings.get("search")),
        "Scheduler": _part(settings.get("scheduler")),
        "Search space": "; ".join(f"{path}: {_domain(domain)}" for path, domain in summary.space.items()),
        "Seed": str(settings.get("seed", "-")),
    }
    told = "".join(f"<div><b>{shown}</b><span>{what}</span></div>" for what, shown in scores.items())
    listed = "".join(f"<dt>{name}</dt><dd>{_text(value)}</dd>" for name, value in facts.items() if value)
    return f'<section><div class="scores">{told}</div><dl>{listed}</dl></section>'


def _part(settings: Any) -> str:
    """A search or scheduler with its settings."""
    if not isinstance(settings, Mapping):
        return ""
    name = settings.get("name") or settings.get("object") or ""
    rest = {key: value for key, value in settings.items() if key not in ("name", "object")}
    words = ", ".join(f"{key} {format_value(value)}" for key, value in rest.items() if value not in (None, [], {}))
    return f"{name} ({words})" if words else str(name)


def _domain(description: Mapping[str, Any]) -> str:
    ((kind, arguments),) = description.items()
    inside = flow(arguments)
    return f"{kind}({inside[1:-1] if isinstance(arguments, list) else inside})"


def _trials(summary: ExperimentSummary[TrialSummary]) -> str:
    """The table, the best first."""
    paths = varying_paths([trial.params for trial in summary.trials])
    heads = ["iteration", "time", "env steps", *summary.metrics]
    heads = [*short_names(paths).values(), *heads]
    numeric = "".join(f'<th class="n">{_text(head)}</th>' for head in heads)
    trials = sorted(summary.trials, key=summary.worth, reverse=True)
    body = "".join(_row(trial, paths, summary.metrics[0], trial is summary.best) for trial in trials)
    table = (
        f'<div class="wide"><table><thead><tr><th>trial</th><th>status</th>{numeric}<th>so far</th><th>ended by</th>'
        f"</tr></thead><tbody>{body}</tbody></table></div>"
    )
    return _section("Trials", "A click on a head sorts.", table)


def _row(trial: TrialSummary, paths: Sequence[str], metric: str, best: bool) -> str:
    """A line of the table."""
    status = f'<span class="status {trial.status}">{trial.status}</span>'
    end = f'<span class="caption">{_text(trial.reason)}</span>'
    if trial.error:
        log = trial.folder / "error.txt"
        trace = log.read_text(encoding="utf-8", errors="replace")[-LONGEST_ERROR:] if log.exists() else trial.error
        end = f"<details><summary>{_text(trial.error)}</summary><pre>{_text(trace)}</pre></details>"
    seconds, steps = trial.last.get("seconds"), trial.last.get("env_steps")
    cells = [_cell(trial.name, _text(trial.name)), _cell(str(trial.status), status)]
    cells += [_cell(trial.params.get(path), _text(format_value(trial.params.get(path, ""))), "n") for path in paths]
    cells += [_cell(trial.iteration, str(trial.iteration), "n")]
    cells += [_cell(seconds, "-" if seconds is None else span(seconds), "n"), _cell(steps, number(steps), "n")]
    cells += [_cell(score, number(score), "n") for score in trial.scores]
    cells += [_cell("", _curve([row.get(metric) for row in trial.history])), _cell(trial.error or trial.reason, end)]
    return f'<tr class="{"best" if best else ""}">{"".join(cells)}</tr>'


def _cell(key: Any, shown: str, style: str = "") -> str:
    """A cell, and what it is sorted by."""
    sortable = repr(float(key)) if is_number(key) else "" if key is None else format_value(key)
    return f'<td class="{style}" data-key="{_text(sortable)}">{shown}</td>'


def _curve(values: Sequence[Any]) -> str:
    """A learning curve in the height of a line."""
    known = [(place, float(value)) for place, value in enumerate(values) if is_number(value)]
    if len(known) < 2:
        return ""
    known = known[:: max(1, len(known) // 60)] + known[-1:]
    low, high = min(value for _, value in known), max(value for _, value in known)
    size, begin, length = (high - low) or 1.0, known[0][0], known[-1][0] - known[0][0]
    points = " ".join(f"{1 + 88 * (x - begin) / length:.1f},{18 - 16 * (y - low) / size:.1f}" for x, y in known)
    line = f'<polyline points="{points}" fill="none" stroke="#0072b2" stroke-width="1.3"/>'
    return f'<svg viewBox="0 0 90 20" aria-hidden="true">{line}</svg>'


def _text(value: str) -> str:
    return html.escape(value)
