"""Description of a replay buffer for ``rookery replay show`` and ``rookery replay import``."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rookery.replay.segments import StoredReplay
    from rookery.replay.summary import Summary

AGES = ((86400.0, "day"), (3600.0, "hour"), (60.0, "minute"), (1.0, "second"))


def report(stored: StoredReplay, summary: Summary) -> None:
    """Prints the description of a replay buffer."""
    typer.echo(str(stored))
    for label, text in lines(stored, summary).items():
        typer.echo(f"  {label:<13} {text}")


def lines(stored: StoredReplay, summary: Summary) -> dict[str, str]:
    """Returns the lines of the description by label."""
    from rookery.replay.recording import MISSING
    from rookery.replay.summary import between, spread

    episodes = summary.episodes
    room = "" if stored.capacity is None else f" of {stored.capacity:,}"
    finished = episodes.terminated + episodes.truncated
    ends = f"{finished:,} ended: {episodes.terminated:,} terminated, {episodes.truncated:,} truncated"
    unfinished = {"broken off": episodes.broken, "under way": episodes.running}
    others = [f"{number:,} {word}" for word, number in unfinished.items() if number]
    unknown = "reward" in stored.missing
    files, oldest, newest = len(stored.segments), time_since(summary.oldest), time_since(summary.newest)
    ranges = {f"{name} range": between(low, summary.ranges.most[name]) for name, low in summary.ranges.least.items()}
    others_ = {
        "missing": "; ".join(MISSING.get(name, name) for name in stored.missing),
        "columns": "; ".join(stored.taken),
        "dropped": ", ".join(stored.dropped),
        "notes": "; ".join(stored.notes),
        "imported": ", ".join(stored.imported),
        "warning": summary.warning if stored.imported else "",
    }
    return {
        "decisions": f"{len(stored):,}{room}",
        "observations": str(stored.spaces.obs.space),
        "actions": str(stored.spaces.action.space),
        "on disk": f"{stored.bytes / 1e6:,.1f} MB in {files} file{'' if files == 1 else 's'}",
        "episodes": "; ".join([ends, *others]),
        "returns": "not known"
        if unknown
        else spread(episodes.returns, "no episode is in it from its first decision to its end", deviation=True)
        + ", undiscounted" * bool(episodes.returns),
        "lengths": spread(episodes.lengths, "likewise"),
        "rewards": "not known" if unknown else spread(summary.rewards, "none"),
        **ranges,
        **{label: text for label, text in others_.items() if text},
        "written": oldest if oldest == newest else f"{oldest} to {newest}",
    }


def time_since(moment: float) -> str:
    """Returns the time since a moment, as text."""
    seconds = max(time.time() - moment, 0.0)
    length, unit = next((pair for pair in AGES if seconds >= pair[0]), AGES[-1])
    count = int(seconds // length)
    return f"{count} {unit}{'' if count == 1 else 's'} ago"
