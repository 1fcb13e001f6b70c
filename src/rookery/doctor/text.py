"""Diagnoses of runs and environments as text: a line if nothing was found, else a paragraph for each finding."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from textwrap import wrap

from rookery.core.settings.script_objects import PREFIX
from rookery.doctor.examine_env import EnvExamination
from rookery.doctor.examine_run import Diagnosis
from rookery.doctor.result_rows import KEYS
from rookery.doctor.stored_run import StoredRun
from rookery.report.finding import Finding
from rookery.report.panel import LEVELS, number, sparkline
from rookery.run.findings.catalog import CHECK_ENV
from rookery.run.findings.history import History
from rookery.run.findings.window import windows_of

WIDTH = 96
INDENT = 10

WHOLE = 2
"""Findings that are explained; of the others the first line is shown, so that the text fits a screen."""

TRIED = 3
"""Remedies that are shown."""

NAMES = ("--run-id", "--run-dir")
"""Options that name the folder of a run."""


def diagnosis_lines(diagnosis: Diagnosis) -> list[str]:
    """Returns the text of a diagnosis: one line for a run without findings."""
    run, findings = diagnosis.run, diagnosis.findings
    found = counts(findings) if findings else without_findings(run)
    if diagnosis.is_unplayed and not findings:
        found = f"only {'rows and ' * bool(run.rows)}files were examined, and {found}"
    return [f"{headline(run)}: {found}{more(diagnosis)}", *paragraphs(findings, run)]


def examination_lines(examined: EnvExamination) -> list[str]:
    """Returns the text of the examination of an environment: findings, then measurements."""
    findings = examined.findings
    return [f"{examined.env}: {counts(findings)}", *paragraphs(findings), *[""] * bool(findings), *examined.facts]


def without_findings(run: StoredRun) -> str:
    """Returns in words that nothing was found in a run, and since when its return has stood still if its critic, too,
    has learned nothing.
    """
    history = History(windows_of(run.rows), run.settings) if run.rows else None
    if history is None or history.still_since is None or history.are_alike or not history.explains_nothing:
        return counts(())
    return f"no fault found; the return has stood still since iteration {history.still_since:,}"


def counts(findings: Sequence[Finding]) -> str:
    """Returns the number of findings in words."""
    if not findings:
        return "nothing found"
    counted = sum(one.counts for one in findings)
    notes = len(findings) - counted
    words = f"{counted or 'no'} finding{'' if counted == 1 else 's'}"
    return words + (f", {notes} note{'' if notes == 1 else 's'}" if notes else "")


def paragraphs(findings: Sequence[Finding], run: StoredRun | None = None) -> list[str]:
    """Returns the first findings with their explanations, and a line or two for each further one.

    Args:
        findings: The findings.
        run: The run; None for an environment.
    """
    lines = [line for one in findings[:WHOLE] for line in ("", *finding_lines(one, run))]
    rest = findings[WHOLE:]
    return [*lines, *[""] * bool(rest), *(line for one in rest for line in short_lines(one))]


def headline(run: StoredRun) -> str:
    """Returns the run in a few words: folder, iterations, course of its return."""
    rows = run.rows
    if not rows:
        return f"{run.folder}: no iteration is over"
    returns = [row["return_mean"] for row in rows if row.get("return_mean") is not None]
    course = f"return {number(returns[0])} to {number(returns[-1])}" if returns else "no episode has ended"
    return f"{run.folder}: {rows[-1]['iteration']:,} iterations, {course}"


def more(diagnosis: Diagnosis) -> str:
    """Returns facts and notes of a diagnosis as the end of its first line."""
    return "".join(f"; {text}" for text in (*diagnosis.facts, *diagnosis.notes))


def short_lines(finding: Finding) -> list[str]:
    """Returns a finding in a line or two, with its page."""
    whose = f" ({finding.subject})" if finding.subject else ""
    return _wrapped(finding.severity, f"{finding.rule}{whose}: {finding.message}; {finding.page}")


def finding_lines(finding: Finding, run: StoredRun | None = None) -> list[str]:
    """Returns the paragraph of a finding: message, evidence, curve, causes, commands to try, page.

    Args:
        finding: The finding.
        run: The run, for its command and folder; None for an environment.
    """
    whose = f" ({finding.subject})" if finding.subject else ""
    lines = [f"{finding.severity:<{INDENT}}{finding.rule}{whose}"]
    lines += _wrapped("", finding.message)
    for text in finding.evidence:
        lines += _wrapped("", text)
    if finding.curve and max(finding.curve) > min(finding.curve):
        drawn = sparkline(finding.curve, len(finding.curve), LEVELS)
        span = f"{number(finding.curve[0])} to {number(finding.curve[-1])}"
        if finding.iterations is not None:
            span += f", iterations {finding.iterations[0]:,} to {finding.iterations[1]:,}"
        lines.append(f"{'':<{INDENT}}{drawn}  {span}")
    for place, cause in enumerate(finding.causes, 1):
        lines += _wrapped("causes" if place == 1 else "", f"{place}. {cause}")
    remedies = [one for one in finding.remedies if run is None or fits(one, run)]
    for place, remedy in enumerate(remedies[:TRIED]):
        lines.append(f"{'' if place else 'try':<{INDENT}}{command(remedy, run)}")
    return [*lines, f"{'page':<{INDENT}}{finding.page}"]


def _wrapped(label: str, text: str) -> list[str]:
    """Returns a text below a label, broken into lines."""
    return wrap(
        text, WIDTH, initial_indent=f"{label:<{INDENT}}", subsequent_indent=" " * INDENT, break_on_hyphens=False,
        break_long_words=False,
    )  # fmt: skip


def fits(remedy: str, run: StoredRun) -> bool:
    """Returns whether a remedy can be tried: a setting is one of the run, and has another value there."""
    path, equals, value = remedy.strip("'").partition("=")
    if remedy == CHECK_ENV and (not run.env or run.env.startswith(PREFIX)):
        return False  # the environment of a script has no name for another command
    if not is_setting(remedy) or not equals:
        return True
    now = run.settings.get(path)
    if path.startswith(("env.config.", "env.parameters.")):
        return True
    return str(now) != value and (path in run.settings or any(one.startswith(f"{path}.") for one in run.settings))


def command(remedy: str, run: StoredRun | None) -> str:
    """Returns a remedy as a command to copy, if the command that started the run is known.

    For a trial of `tune.run` of 2021 it is a key of its ``config``.

    Args:
        remedy: Setting or command.
        run: The run; None for an environment.
    """
    if run is None:
        return remedy
    steps = run.rows[-1].get("env_steps") or 0 if run.rows else 0
    known = {"RUN": str(run.folder), "ENV": run.env or "ENV", "env_steps=N": f"env_steps={2 * steps or 'N'}"}
    text = " ".join(known.get(word, word) for word in remedy.split(" "))
    if text.startswith("rookery ") or not is_setting(text):
        return text
    path, _, value = text.strip("'").partition("=")
    if run.is_trial and not path.startswith("--"):
        name = path.split(".", 2 if path.startswith("policies.") else 1)[-1]
        key = KEYS.get(name, "")
        return f"config: {key} = {value}" if key else f"{text}, a setting of Rookery that no key of RLlib has"
    shown = text if text.startswith(("'", "-")) else shlex.quote(text)
    return " ".join([*run_again(run.command, path), shown])


def is_setting(text: str) -> bool:
    """Returns whether a remedy is an argument of `rookery train`."""
    path, equals, _ = text.lstrip("'").partition("=")
    return text.startswith("--") or bool(equals and "." in path and " " not in path)


def run_again(started: str, path: str) -> list[str]:
    """Returns the words of a command that starts a run once more, in another folder, without one of its settings; empty
    if it was not started by `rookery train`.
    """
    words = shlex.split(started)
    if len(words) < 2 or words[1] != "train":
        return []
    kept, skipped = ["rookery"], False
    for word in words[1:]:
        name, equals, _ = word.partition("=")
        replaced = equals and (path == name or path.endswith(f".{name}"))
        if not (skipped or replaced or name in NAMES or word == "--force"):
            kept.append(shlex.quote(word))
        skipped = name in NAMES and not equals and not skipped
    return kept
