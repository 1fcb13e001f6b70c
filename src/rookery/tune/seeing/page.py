"""The page of a report: what was tried, the best, pictures, and a table of trials that a click sorts. One file."""

from __future__ import annotations

import html
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from rookery import __version__
from rookery.core.layers import flow
from rookery.report.panel import number, span
from rookery.tune.analysis import Analysis, TrialResult
from rookery.tune.seeing.figures import Panel
from rookery.tune.seeing.words import short_names, told, told_params, varying
from rookery.tune.trial import is_number

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


def page(analysis: Analysis, pictures: Iterable[tuple[Panel, str]]) -> str:
    """The whole page.

    Args:
        analysis: What is told.
        pictures: With their SVG elements.

    Raises:
        ConfigError: If no trial has a number yet.
    """
    sections = [_summary(analysis)]
    for panel, picture in pictures:
        head = f'<h2>{_text(panel.title)}</h2><p class="caption">{_text(panel.caption)}</p>'
        sections.append(f"<section>{head}{picture}</section>")
    sections.append(_trials(analysis))
    title = _text(_title(analysis))
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}</style></head><body><main><header><h1>{title}</h1>"
        f"<p>{_text(str(analysis.folder))}</p></header>{''.join(sections)}"
        f'<p class="caption">Rookery {__version__}</p></main><script>{SCRIPT}</script></body></html>\n'
    )


def _title(analysis: Analysis) -> str:
    title = analysis.experiment.get("title") or analysis.experiment["job"].get("title")
    return str(title or analysis.folder.name)


def _summary(analysis: Analysis) -> str:
    """What was tried, how it was judged, and the best."""
    tune, best = analysis.experiment["tune"], analysis.best()
    leading = analysis.suggestions()[0]
    paths = varying([trial.params for trial in analysis.trials])
    counts = Counter(trial.status.value for trial in analysis.trials)
    scores = [
        f"<div><b>{_text(number(best.score))}</b><span>best {_text(best.judge.metric)}, trial {best.name}</span></div>"
    ]
    if len(leading.trials) > 1:
        low, high = leading.intervals[0]
        told_mean = f"{number(leading.score)} <small>{number(low)} to {number(high)}</small>"
        scores.append(f"<div><b>{told_mean}</b><span>mean of {len(leading.trials)} seeds, 95 % interval</span></div>")
    spent = sum(float(trial.trial.row.get("seconds") or 0.0) for trial in analysis.trials)
    scores.append(f"<div><b>{len(analysis)}</b><span>trials</span></div>")
    scores.append(f"<div><b>{span(spent)}</b><span>time of all trials together</span></div>")
    facts = {
        "Best parameters": told_params(best.params, paths or best.params, short_names(best.params)) or "-",
        "Judged by": ", ".join(f"{metric} ({mode}, {analysis.scope} of a trial)"
                               for metric, mode in zip(analysis.metrics, analysis.modes, strict=True)),
        "Trials": ", ".join(f"{count} {status}" for status, count in counts.items()),
        "Search": _part(tune.get("search")),
        "Scheduler": _part(tune.get("scheduler")),
        "Search space": "; ".join(f"{path}: {_domain(domain)}" for path, domain in analysis.space.items()),
        "Seed": str(analysis.experiment.get("seed", "-")),
    }  # fmt: skip
    listed = "".join(f"<dt>{name}</dt><dd>{_text(value)}</dd>" for name, value in facts.items() if value)
    return f'<section><div class="scores">{"".join(scores)}</div><dl>{listed}</dl></section>'


def _part(settings: Any) -> str:
    """A search or scheduler with its settings."""
    if not isinstance(settings, dict):
        return ""
    name = settings.get("name") or settings.get("object") or ""
    rest = ", ".join(
        f"{key} {told(value)}"
        for key, value in settings.items()
        if key not in ("name", "object") and value not in (None, [], {})
    )
    return f"{name} ({rest})" if rest else str(name)


def _domain(description: dict[str, Any]) -> str:
    ((kind, arguments),) = description.items()
    inside = flow(arguments)
    return f"{kind}({inside[1:-1] if isinstance(arguments, list) else inside})"


def _trials(analysis: Analysis) -> str:
    """The table, the best first."""
    paths = varying([trial.params for trial in analysis.trials])
    names = short_names(paths)
    heads = [("trial", 0), ("status", 0), *((names[path], 1) for path in paths), ("iteration", 1), ("time", 1)]
    heads += [("env steps", 1), *((metric, 1) for metric in analysis.metrics), ("so far", 0), ("ended by", 0)]
    judges = analysis.judges(None, None, None)
    scores = {trial.name: [TrialResult(trial.trial, judge, {}).score for judge in judges] for trial in analysis.trials}

    def place(trial: TrialResult) -> float:
        score = scores[trial.name][0]
        return math.inf if score is None else -judges[0].worth(score)

    best = analysis.best().name
    head = "".join(f'<th class="{"n" if numeric else ""}">{_text(name)}</th>' for name, numeric in heads)
    body = "".join(
        _row(trial, paths, scores[trial.name], trial.name == best) for trial in sorted(analysis.trials, key=place)
    )
    return (
        '<section><h2>Trials</h2><p class="caption">A click on a head sorts.</p><div class="wide">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div></section>"
    )


def _row(trial: TrialResult, paths: Sequence[str], scores: Sequence[float | None], best: bool) -> str:
    """A line of the table."""
    status = f'<span class="status {trial.status.value}">{trial.status.value}</span>'
    end = f'<span class="caption">{_text(trial.reason)}</span>'
    if trial.error:
        log = trial.folder / "error.txt"
        trace = log.read_text(encoding="utf-8", errors="replace")[-LONGEST_ERROR:] if log.exists() else trial.error
        end = f"<details><summary>{_text(trial.error)}</summary><pre>{_text(trace)}</pre></details>"
    seconds, steps = trial.trial.row.get("seconds"), trial.trial.row.get("env_steps")
    cells = [_cell(trial.name, trial.name), _cell(trial.status.value, status, raw=True)]
    cells += [_cell(trial.params.get(path), told(trial.params.get(path, "")), numeric=True) for path in paths]
    cells += [_cell(trial.iteration, str(trial.iteration), numeric=True)]
    cells += [_cell(seconds, "-" if seconds is None else span(seconds), numeric=True)]
    cells += [_cell(steps, number(steps), numeric=True)]
    cells += [_cell(score, number(score), numeric=True) for score in scores]
    cells += [_cell("", _curve([row.get(trial.judge.metric) for row in trial.history]), raw=True)]
    cells += [_cell(trial.error or trial.reason, end, raw=True)]
    return f'<tr class="{"best" if best else ""}">{"".join(cells)}</tr>'


def _cell(key: Any, shown: str, *, numeric: bool = False, raw: bool = False) -> str:
    """A cell, and what it is sorted by."""
    sortable = repr(float(key)) if is_number(key) else "" if key is None else told(key)
    kind = ' class="n"' if numeric else ""
    return f'<td{kind} data-key="{_text(sortable)}">{shown if raw else _text(shown)}</td>'


def _curve(values: Sequence[Any]) -> str:
    """A learning curve in the height of a line."""
    known = [(place, float(value)) for place, value in enumerate(values) if is_number(value)]
    if len(known) < 2:
        return ""
    step = max(1, len(known) // 60)
    known = known[::step] + known[-1:]
    low, high = min(value for _, value in known), max(value for _, value in known)
    size, length = (high - low) or 1.0, known[-1][0] - known[0][0]
    points = " ".join(
        f"{1 + 88 * (place - known[0][0]) / length:.1f},{18 - 16 * (value - low) / size:.1f}" for place, value in known
    )
    return (
        f'<svg viewBox="0 0 90 20" aria-hidden="true"><polyline points="{points}" fill="none" stroke="#0072b2" '
        'stroke-width="1.3"/></svg>'
    )


def _text(value: str) -> str:
    return html.escape(value)
