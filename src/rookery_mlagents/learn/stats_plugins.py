"""`StatsPlugins`: runs the stats writers of ML-Agents that installed packages add by ``mlagents.stats_writer``.

An entry point names a function from the options of a run to a list of `StatsWriter`. Their modules import
``mlagents.trainers``, whose names this package provides if ML-Agents is not installed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rookery.face import ConfigError, PluginTable, TrustCode, described, is_signed_text
from rookery_mlagents.api.importing import install
from rookery_mlagents.api.stats import StatsAggregationMethod, StatsPropertyType, StatsSummary, StatsWriter
from rookery_mlagents.files.run_files import CONFIGURATION
from rookery_mlagents.files.run_options import RunOptions

STATS_WRITERS = PluginTable("mlagents.stats_writer", {})
"""Stats writers that installed packages add to ML-Agents."""

MLAGENTS = "mlagents"
"""The package whose own writers, for TensorBoard and the console, are not run: Rookery writes the same."""


class StatsPlugins:
    """Passes the summaries of a run to stats writers. One that raises an error is left out from then on, with a note.

    Args:
        writers: The writers, each with its source for messages.
        notes: Notes so far, for the user.
    """

    def __init__(self, writers: Sequence[tuple[str, StatsWriter]] = (), notes: Sequence[str] = ()) -> None:
        self.writers = list(writers)
        self.notes = list(notes)

    def begin(self, behavior: str, settings: Mapping[str, object], plays_itself: bool) -> list[str]:
        """Passes on the settings of a behavior; returns notes for the user."""

        def call(writer: StatsWriter) -> None:
            writer.add_property(behavior, StatsPropertyType.HYPERPARAMETERS, dict(settings))
            if plays_itself:
                writer.add_property(behavior, StatsPropertyType.SELF_PLAY, True)

        return self._each(call)

    def summary(self, behavior: str, values: Mapping[str, tuple[str, Sequence[float]]], step: int) -> list[str]:
        """Passes on a summary.

        Args:
            behavior: Its behavior.
            values: The values of each statistic since the previous summary, after the name of their aggregation.
            step: Steps of the behavior.

        Returns:
            Notes for the user.
        """
        found = {
            key: StatsSummary(list(numbers), StatsAggregationMethod[how.upper()])
            for key, (how, numbers) in values.items()
            if len(numbers)
        }

        def call(writer: StatsWriter) -> None:
            for key, one in found.items():
                for number in one.full_dist:
                    writer.on_add_stat(behavior, key, number, one.aggregation_method)
            writer.write_stats(behavior, dict(found), step)

        return self._each(call)

    def _each(self, call: Callable[[StatsWriter], None]) -> list[str]:
        notes, self.notes = self.notes, []
        for source, writer in list(self.writers):
            try:
                call(writer)
            except Exception as error:  # whatever code of others raises, training continues
                self.writers.remove((source, writer))
                notes.append(f"{source}: {described(error)}; this stats writer is left out")
        return notes


def load_stats_writers(options: RunOptions) -> StatsPlugins:
    """Imports the stats writers of installed packages, and calls them with the options of a run. Those that fail are
    left out, with a note.
    """
    writers: list[tuple[str, StatsWriter]] = []
    notes = []
    others = [name for name, plugin in STATS_WRITERS.added.items() if plugin.package != MLAGENTS]
    if others:
        install()
    for name in others:
        source = f"mlagents.stats_writer {name} of the package {STATS_WRITERS.package_of(name)}"
        try:
            writers += [(source, writer) for writer in STATS_WRITERS.load(name)(options)]
        except Exception as error:
            text = str(error) if isinstance(error, ConfigError) else f"{source}: {described(error)}"
            notes.append(f"{text}; this stats writer is left out")
    return StatsPlugins(writers, notes)


def is_own_run(folder: Path) -> bool:
    """Returns whether the settings of a run carry the user's signature; True for a folder without settings."""
    config = folder / "config.yaml"
    return not config.is_file() or is_signed_text("config.yaml", config.read_text(encoding="utf-8", errors="replace"))


def stats_writers_of(folder: Path | None, options: RunOptions, trust_code: TrustCode) -> StatsPlugins:
    """Returns the stats writers for a run; none for a run of another user, unless its code is trusted.

    Args:
        folder: The run that is resumed; None = a new run.
        options: Its options.
        trust_code: Whether code that the run names may be run.
    """
    if folder is None or trust_code is True or is_own_run(folder):
        return load_stats_writers(options)
    names = [f"{name} ({one.package})" for name, one in STATS_WRITERS.added.items() if one.package != MLAGENTS]
    why = f"{folder / CONFIGURATION}: another user wrote this run, so stats writers are not loaded"
    return StatsPlugins((), [f"{why}: {', '.join(names)}; --trust-code loads them"] if names else [])
