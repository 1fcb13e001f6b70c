"""Replay buffers on the disk: writes them into checkpoints, and loads the experience with which a run starts.

A checkpoint holds a replay buffer as segments (`replay/segments.py`). Only rows that are new since the previous
checkpoint are written; the other segments get a second name in its directory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from rookery.algorithms.algorithm import Algorithm
from rookery.core.device import device_of
from rookery.core.errors import ConfigError, RookeryError
from rookery.core.io.files import Content, FileError, last_good, mapped_files, read_manifest, with_last_good
from rookery.core.settings.starting_folder import shown
from rookery.core.state import Stateful
from rookery.replay.buffer import ReplayBuffer, ReplayConfig
from rookery.replay.demonstrations import StoredDemonstrations, check_finite
from rookery.replay.filtered_rows import copy_filtered, count_filtered
from rookery.replay.mixture import Mixture
from rookery.replay.replay import Replay
from rookery.replay.segments import (
    FACTS,
    Segment,
    Spaces,
    StoredReplay,
    check_spaces,
    copy_rows,
    facts_of,
    find_replay,
    new_segments,
    open_segment,
    segments_of,
    spaces_of,
)
from rookery.run.checkpoint.checkpoint import Saved

Note = Callable[[str], None]


class SavedReplays(Stateful):
    """Record of the rows of the policies' replay that are on the disk already.

    Attributes:
        sealed: Segments of each policy in the last checkpoint, in the order of time.
    """

    fixed = ("sealed",)

    def __init__(self) -> None:
        self.sealed: dict[str, list[Segment]] = {}

    def files(self, replays: Mapping[str, Replay]) -> tuple[dict[str, Content], dict[str, Any]]:
        """Returns the replay files of a checkpoint by name, and their facts for its manifest.

        Segments whose rows are all overwritten are left out; rows whose segment was removed are written again.
        """
        files: dict[str, Content] = {}
        facts = {}
        for policy, replay in replays.items():
            memory = replay.own
            if not memory.cfg.save:
                continue
            facts[policy] = facts_of(memory)
            next_row = memory.first
            for segment in self.sealed.get(policy, ()):
                if segment.last > memory.first and segment.is_there:
                    files |= new_segments(memory, policy, next_row, segment.first)
                    files[segment.file.path.name] = segment.file
                    next_row = segment.last
            files |= new_segments(memory, policy, next_row, memory.total)
        return files, {FACTS: facts}

    def note_checkpoint(self, place: Path) -> None:
        """Records the segments of the checkpoint `place`, which was just written."""
        manifest = read_manifest(place)
        self.sealed = segments_of(mapped_files(place, manifest), manifest)

    def restore(self, saved: Saved, replays: Mapping[str, Replay], note: Note) -> None:
        """Fills replay buffers, whose own state is loaded, with the rows of a checkpoint.

        Args:
            saved: The checkpoint.
            replays: The experience that each policy's learner keeps.
            note: Called with a line for each replay buffer that stays empty.

        Raises:
            FileError: If a segment is missing, broken or foreign; names it and the last good checkpoint.
        """
        found = segments_of(saved.memories, saved.facts)
        for policy, replay in replays.items():
            memory = replay.own
            segments = found.get(policy)
            if segments is None or not memory.cfg.save:
                why = "is not in the checkpoint" if segments is None else "is left out"
                note(f"policy {policy!r}: its replay {why} (replay.save = false) and starts empty")
                continue
            try:
                memory.restore(open_segment(segment).rows for segment in segments)
            except RookeryError as error:
                explained = with_last_good(error, saved.path)
                if last_good(saved.path.parent, besides=saved.path) is None:
                    without = f'Trainer.load("{shown(saved.path)}", config={{"algorithm.replay.save": False}})'
                    explained = FileError(f"{explained}; all but the replay can be loaded: {without}")
                raise explained from None
            self.sealed[policy] = segments
        for policy, replay in replays.items():  # sources given in addition to the checkpoint
            _copy_sources(policy, replay.own, note)


def load_sources(policy: str, learner: Algorithm[Any], note: Note) -> None:
    """Loads the rows of other replay buffers that a learner's settings name, to copy or to draw from.

    Args:
        policy: Name of the policy.
        learner: The learner.
        note: Called with a line about each source.

    Raises:
        FileError: If a source does not exist or is broken.
        SpaceError: If its spaces differ from those of the policy.
    """
    for imitator, sources in imitators(learner):
        imitator.imitate(*demonstrations(sources, policy, learner, imitator.rng, note))
    if learner.replay is None:
        return
    memory, cfg = learner.replay.own, learner.replay.own.cfg
    _copy_sources(policy, memory, note)
    if cfg.mix:
        found = [_fitting(source, policy, memory) for source in cfg.mix]
        others = [_only_read(stored, memory) for stored in found]
        learner.replay.buffer = Mixture(memory, others, tuple(cfg.mix.values()), [stored.mark for stored in found])
        for stored, other, share in zip(found, others, cfg.mix.values(), strict=True):
            note(
                f"policies.{policy}.replay.mix: {share:.0%} of each batch from {len(other):,} decisions of {stored}"
                f"{_changes(cfg)}"
            )


class Imitator(Protocol):
    """A part of a learner that learns from demonstrations."""

    rng: np.random.Generator

    def imitate(self, demonstrations: StoredDemonstrations, mark: str) -> None:
        """Takes demonstrations, and a text that identifies them."""
        ...


def imitators(learner: Algorithm[Any]) -> Iterator[tuple[Imitator, tuple[str, ...]]]:
    """Yields the parts of a learner that need demonstrations, each with the paths of these."""
    signals = getattr(learner, "signals", None)
    for part in () if signals is None else signals.others.values():
        if hasattr(part, "imitate"):
            yield part, part.cfg.replay
    imitation = getattr(learner, "imitation", None)
    if imitation is not None:
        yield imitation, imitation.cfg.replay


def demonstrations(
    sources: Sequence[str], policy: str, learner: Algorithm[Any], rng: np.random.Generator, note: Note
) -> tuple[StoredDemonstrations, str]:
    """Reads demonstrations for a policy; returns them and a text that identifies them.

    Args:
        sources: Runs, checkpoints or replay directories.
        policy: Name of the policy.
        learner: Its learner.
        rng: Random generator of the batches.
        note: Called with a line about each source.

    Raises:
        ConfigError: If no source is named, or all are empty.
        FileError: If a replay does not exist or is broken.
        SpaceError: If its spaces differ from those of the policy.
    """
    if not sources:
        raise ConfigError(
            f"policies.{policy}: imitation needs demonstrations: set replay to the directory of a run or of a replay "
            "(rookery replay record makes one, rookery replay import converts files of other libraries)"
        )
    one = learner.policy
    found = [find_replay(source, policy) for source in sources]
    for stored in found:
        wanted = Spaces(one.obs_spec, one.action_spec, stored.spaces.memory_size)
        check_spaces(stored, wanted, f"policy {policy!r}")
    count = sum(len(stored) for stored in found)
    if not count:
        raise ConfigError(f"policies.{policy}: there are no decisions in {', '.join(sources)}")
    cfg = ReplayConfig(capacity=count)
    memory = ReplayBuffer(one.obs_spec, one.action_spec, cfg, rng, memory_size=0, memory_every=1)
    for stored in found:
        copy_rows(stored, memory)
        note(f"policies.{policy}: {len(stored):,} decisions of {stored} to imitate")
    check_finite(memory)
    return StoredDemonstrations(memory, rng, device_of(one)), " ".join(stored.mark for stored in found)


def _copy_sources(policy: str, memory: ReplayBuffer, note: Note) -> None:
    for source in memory.cfg.start_from:
        stored = _fitting(source, policy, memory)
        count = copy_filtered(stored, memory)
        note(f"policies.{policy}.replay.start_from: {count:,} decisions of {stored}{_changes(memory.cfg)}")


def _changes(cfg: ReplayConfig) -> str:
    """Returns the filter of the data and the change of their rewards, for a note."""
    chosen = f" ({cfg.select.describe()})" if cfg.select.describe() else ""
    return f"{chosen}, rewards {cfg.relabel.describe()}" if cfg.relabel.describe() else chosen


def _fitting(source: str, policy: str, memory: ReplayBuffer) -> StoredReplay:
    stored = find_replay(source, policy)
    check_spaces(stored, spaces_of(memory), f"policy {policy!r}")
    if "reward" in stored.missing and memory.cfg.relabel.function is None:
        raise ConfigError(
            f"policies.{policy}: {stored} has no rewards to learn from; it can be imitated "
            "(algorithm.signals.gail.replay), or given rewards (replay.relabel.function)"
        )
    return stored


def _only_read(stored: StoredReplay, beside: ReplayBuffer) -> ReplayBuffer:
    """Returns a replay buffer of all rows of a stored one, with the settings and generator of the buffer `beside`."""
    cfg = beside.cfg.replace(capacity=count_filtered(stored, beside.cfg.select))
    memory = ReplayBuffer(
        beside.obs_spec,
        beside.action_spec,
        cfg,
        beside.rng,
        memory_size=beside.memory_size,
        memory_every=beside.memory_every,
    )
    copy_filtered(stored, memory)
    return memory
