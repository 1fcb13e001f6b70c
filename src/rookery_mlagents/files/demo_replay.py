"""Demonstrations of Unity's ML-Agents (``.demo``) as recordings, and recordings as such files.

A row of such a file is what an agent saw when it decided, what it had earned since it last did, and what it did. So a
reward stands a row later than the action that earned it, and an episode ends with a row in which nothing is decided.
So does the recording of an agent, in files of recorders before 0.15.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.face import (
    CATEGORIES,
    MASK,
    ActionSpec,
    ConfigError,
    FileError,
    Growth,
    Leaf,
    ObsSpec,
    RecordedEpisode,
    Recording,
    ReplayFormat,
    SpaceError,
    Spaces,
    StoredReplay,
    Tree,
    Wanted,
    action_spec,
    growth_of,
    obs_spec,
    recording_of,
)
from rookery_mlagents.files.demo_file import DemoFile, read_demo, write_demo
from rookery_mlagents.link.image_messages import PLAIN, encoded
from rookery_mlagents.link.layouts import (
    CHOICES,
    NUMBERS,
    VARIABLE_SIZE,
    SensorLayout,
    decided_space,
    names_of,
    sensed_space,
    sensor_layouts,
    with_presence,
)
from rookery_mlagents.link.messages import (
    CONTINUOUS,
    DISCRETE,
    ActionSpecProto,
    AgentActionProto,
    AgentInfoActionPairProto,
    AgentInfoProto,
    BrainParametersProto,
    FloatData,
    ObservationProto,
)
from rookery_mlagents.link.protobuf_wire import WireError

PROPERTIES = {1: (PLAIN,), 2: (PLAIN, PLAIN), 3: (PLAIN, PLAIN, PLAIN)}
"""Properties of the dimensions of vector observations: unspecified."""


TOGETHER = 1024
"""Number of decisions of an episode whose arrays are concatenated at a time."""


@dataclass
class OpenEpisode:
    """Episode of one agent so far.

    Attributes:
        seen: Observations, of one decision or several in each.
        actions: Stored actions, in the same form.
        rewards: Rewards up to each row after the first.
        decisions: Number of decisions.
        blocks: Number of the first parts that are concatenated.
        undecided: Observation of the row without an action; only the last row of an agent may have none.
        undecided_row: Number of this row, from 1; 0 = there is none.
    """

    seen: list[Tree] = field(default_factory=list)
    actions: list[np.ndarray] = field(default_factory=list)
    rewards: array[float] = field(default_factory=lambda: array("d"))
    decisions: int = 0
    blocks: int = 0
    undecided: Tree | None = None
    undecided_row: int = 0

    def add(self, seen: Tree, action: np.ndarray) -> None:
        """Adds a decision; all but the last are concatenated from time to time, because small arrays need much
        memory.
        """
        self.seen.append(seen)
        self.actions.append(action)
        self.decisions += 1
        if len(self.seen) - self.blocks > TOGETHER:
            self.seen[self.blocks : -1] = [joined(self.seen[self.blocks : -1])]
            self.actions[self.blocks : -1] = [np.concatenate(self.actions[self.blocks : -1])]
            self.blocks += 1

    def without_last(self) -> Tree:
        """Removes the last decision; returns its observation."""
        self.actions.pop()
        self.decisions -= 1
        return self.seen.pop()


def joined(trees: Sequence[Tree]) -> Tree:
    """Concatenates observations."""
    return {path: np.concatenate([tree[path] for tree in trees]) for path in trees[0]}


# --- reading ----------------------------------------------------------------------------------------------------------


def read_unity(path: Path, wanted: Wanted) -> dict[str, Recording]:
    """Reads a file, or all files ``*.demo`` of a directory, which must have the same spaces.

    The last decision of an agent before a recording stopped is left out, because its result is not in the file. A row
    without an action is no decision; only the last row of an agent may be one.

    Raises:
        FileError: If there is none, or it is empty or broken.
        ConfigError: If a row cannot be used; names it.
        SpaceError: If files are of different spaces, or of others than are wanted.
    """
    files = sorted(path.glob("*.demo")) if path.is_dir() else [path]
    if not files:
        raise FileError(f"{path}: there are no files .demo in it")
    found: dict[str, Recording] = {}
    for file in files:
        demo = read_demo(file)
        name = demo.brain.brain_name.partition("?")[0] or wanted.policy
        one = recording_of_demo(file, demo, wanted.spaces, growth_of(file, wanted.max_unpacked))
        had = found.setdefault(name, Recording(one.spaces, ()))
        if had.spaces.obs != one.spaces.obs or had.spaces.action != one.spaces.action:
            raise SpaceError(f"{file}: holds {one.spaces}, and others of behaviour {name!r} {had.spaces}")
        found[name] = Recording(had.spaces, had.episodes + one.episodes)
    return found


def recording_of_demo(file: Path, demo: DemoFile, wanted: Spaces | None, growth: Growth) -> Recording:
    """Converts the rows of a demonstration to episodes; see `read_unity`."""
    first = next((pair.agent_info for pair in demo.rows()), None)
    if first is None:
        raise FileError(f"{file}: holds no rows: nothing was recorded")
    try:
        action = action_spec(decided_space(demo.brain))
        sensors = sensor_layouts(first.observations)
        masked = bool(action.sizes) and demo.has_masks()
        made_of = Spaces(obs_spec(sensed_space(sensors), action.space, info_mask=masked), action, 0)
    except (SpaceError, ValueError, OverflowError) as error:
        raise FileError(f"{file}: {error}") from None
    if wanted is not None and not (_can_be(sensors, made_of.obs, wanted.obs) and wanted.action == action):
        raise SpaceError(f"{file}: holds {made_of}, and {wanted} are wanted")
    made_of = made_of if wanted is None else Spaces(wanted.obs, wanted.action, 0)
    agents: dict[int, OpenEpisode] = {}
    episodes: list[RecordedEpisode] = []
    for row, pair in enumerate(demo.rows()):
        info = pair.agent_info
        if info is None:
            raise ConfigError(f"{file}: row {row + 1}: has no agent")
        try:
            seen = _seen(info, sensors, made_of)
            growth.take(sum(leaf.nbytes for leaf in seen.values()))
            given = pair.action_info or AgentActionProto()
            is_undecided = not info.ended and given == AgentActionProto(value=given.value)
            stored = None if info.ended or is_undecided else action.from_env([_decided(given, action)])
        except (SpaceError, WireError, ValueError, OverflowError) as error:
            raise ConfigError(f"{file}: row {row + 1}: {error}") from None
        if not np.isfinite(info.reward + info.group_reward):
            raise ConfigError(f"{file}: row {row + 1}: the reward is {info.reward}, which is no finite number")
        one = agents.setdefault(info.id, OpenEpisode())
        if one.undecided_row:
            raise ConfigError(f"{file}: row {one.undecided_row}: has no action, and its agent has further rows")
        if one.seen:
            one.rewards.append(info.reward + info.group_reward)
        if is_undecided:
            one.undecided, one.undecided_row = seen, row + 1
        elif stored is not None:
            one.add(seen, stored)
        elif one.seen:
            cut = info.max_step_reached
            episodes.append(_episode(one, not cut, cut, seen if cut else None))
        if info.ended:
            del agents[info.id]
    for one in agents.values():  # the recording stopped
        if one.undecided is not None and one.decisions:
            episodes.append(_episode(one, False, False, one.undecided))
        elif one.undecided is None and one.decisions > 1:  # the outcome of the last decision is unknown
            last = one.without_last()
            episodes.append(_episode(one, False, False, last))
    return Recording(made_of, tuple(episodes))


def _can_be(sensors: Sequence[SensorLayout], seen: ObsSpec, wanted: ObsSpec) -> bool:
    """Returns whether the observations of a file fit a layout. A file has shapes, and distinguishes images from
    vectors, but it has no names of an environment's parts, does not mark flags, and only contains the forbidden actions
    of masks.
    """
    leaves = [leaf for leaf in wanted.leaves if leaf.kind != "mask"]
    if (seen.has_mask and not wanted.has_mask) or len(leaves) != len(sensors):
        return False
    return all(
        (_is_set_of(sensor, leaf) or leaf.shape in (sensor.shape, sensor.space.shape))
        and (not sensor.is_constant or leaf.sizes == (1,))
        and sensor.is_packed == (leaf.dtype == np.uint8 and leaf.kind == "box")
        for sensor, leaf in zip(sensors, leaves, strict=True)
    )


def _is_set_of(sensor: SensorLayout, leaf: Leaf) -> bool:
    """Returns whether a leaf is a set of entities with the shape of a sensor."""
    return leaf.kind == "entities" and sensor.shape == (leaf.shape[0], leaf.shape[1] - 1)


def _seen(info: AgentInfoProto, sensors: Sequence[SensorLayout], made_of: Spaces) -> Tree:
    """Returns the observation of an agent, ``[1, ...]`` by leaf path."""
    leaves = [leaf for leaf in made_of.obs.leaves if leaf.kind != "mask"]
    if len(info.observations) != len(leaves):
        raise SpaceError(f"{len(info.observations)} observations, and the first row has {len(leaves)}")
    tree: Tree = {}
    for leaf, sensor, obs in zip(leaves, sensors, info.observations, strict=True):
        array = sensor.value(obs)[None]
        if _is_set_of(sensor, leaf):
            array = with_presence(array)
        elif leaf.shape != sensor.shape:
            array = sensor.stored(array)
        if leaf.dtype.kind in "iub" and not np.isin(array, np.arange(256)).all():
            raise SpaceError(f"observation {leaf.path!r} holds {array[0].tolist()}, where whole numbers are wanted")
        tree[leaf.path] = array.astype(leaf.dtype, copy=False)
    if made_of.obs.has_mask:
        width = made_of.obs.leaves[-1].shape[0]
        forbidden = np.array(info.action_mask or [False] * width, bool)
        if forbidden.shape != (width,):
            raise SpaceError(f"a mask of {len(forbidden)} actions, where there are {width}")
        tree[MASK] = ~forbidden[None]
    if problem := made_of.obs.check(tree, slice(None), names_of(sensors)):
        raise SpaceError(problem)
    return tree


def _decided(action: AgentActionProto, spec: ActionSpec) -> Any:
    """Returns the action of an agent, in the form of its space."""
    numbers = np.array(action.continuous_actions, np.float32)
    choices = np.array(action.discrete_actions, np.int64)
    if action.vector_actions_deprecated and not len(numbers) and not len(choices):
        old = np.array(action.vector_actions_deprecated, np.float32)
        numbers, choices = (old, choices) if spec.kind == "box" else (numbers, old.astype(np.int64))
    if len(numbers) != spec.num_numbers or len(choices) != len(spec.sizes):
        raise SpaceError(
            f"{len(numbers)} numbers and {len(choices)} choices were decided, where {spec.num_numbers} and "
            f"{len(spec.sizes)} are to be"
        )
    if isinstance(spec.space, spaces.Dict):
        return {NUMBERS: numbers, CHOICES: choices}
    return numbers if spec.kind == "box" else choices[0] if spec.kind == "discrete" else choices


def _episode(one: OpenEpisode, terminated: bool, truncated: bool, last: Tree | None) -> RecordedEpisode:
    return RecordedEpisode(
        joined(one.seen),
        np.concatenate(one.actions),
        np.array(one.rewards, np.float32),
        None,
        terminated,
        truncated,
        last,
    )


# --- writing ----------------------------------------------------------------------------------------------------------


def write_unity(recording: Recording, path: Path, name: str) -> None:
    """Writes a recording as a demonstration.

    Images of bytes become PNGs, and categories as many numbers as there are, of which one is 1. Numbers that are
    decided go from -1 to 1, as everywhere in Unity. The last observation of a terminated episode is unknown: its
    last row repeats the observation before. Where a record just ends, the episode counts as cut off.

    Args:
        recording: The episodes.
        path: Where.
        name: Name of the behaviour.

    Raises:
        SpaceError: If something that is seen cannot be said there.
        FileError: If the file cannot be written.
    """
    spec = recording.spaces.action
    branches = (*spec.sizes, *[2] * spec.num_flags)
    action_proto = ActionSpecProto(spec.num_numbers, len(branches), branches)
    old_sizes = branches or (spec.num_numbers,)
    brain = BrainParametersProto(old_sizes, (), DISCRETE if branches else CONTINUOUS, name, False, action_proto)
    write_demo(path, name, brain, list(_pairs(recording)))


def _pairs(recording: Recording) -> Iterator[AgentInfoActionPairProto]:
    """Yields the rows of all episodes, each with a final row without a decision."""
    leaves, spec = recording.spaces.obs.leaves, recording.spaces.action
    for number, episode in enumerate(recording.episodes):
        last = episode.last_obs or {path: array[-1:] for path, array in episode.obs.items()}
        length = len(episode)
        rewards = np.zeros(length, np.float32) if episode.reward is None else episode.reward
        for row in range(length + 1):
            tree = {path: array[row] for path, array in episode.obs.items()} if row < length else None
            seen = {path: array[0] for path, array in last.items()} if tree is None else tree
            info = AgentInfoProto(
                reward=float(rewards[row - 1]) if row else 0.0,
                ended=row == length,
                max_step_reached=row == length and not episode.terminated,
                id=number,
                action_mask=tuple((~seen[MASK]).tolist()) if MASK in seen else (),
                observations=tuple(_shown(leaf, seen[leaf.path]) for leaf in leaves if leaf.kind != "mask"),
            )
            action = _action_proto(spec, episode.action[row]) if row < length else _nothing(spec)
            yield AgentInfoActionPairProto(info, action)


def _shown(leaf: Leaf, value: np.ndarray) -> ObservationProto:
    """Returns one observation of one sensor as a message."""
    name = leaf.path
    if leaf.is_image:
        return encoded(value, name)
    if leaf.kind in CATEGORIES:
        chosen = np.ravel(value)
        value = np.concatenate(
            [np.eye(size, dtype=np.float32)[one] for one, size in zip(chosen, leaf.sizes, strict=True)]
        )
    array = np.asarray(value, np.float32)
    array = array.reshape(1) if array.ndim == 0 else array
    if leaf.kind == "entities":  # rows of zeros are no entities
        array = array[:, 1:] * array[:, :1]
    if array.ndim not in PROPERTIES:
        raise SpaceError(f"observation {name!r} has shape {array.shape}; such files have 1, 2 or 3 dimensions")
    data = FloatData(tuple(array.ravel().tolist()))
    properties = (VARIABLE_SIZE, PLAIN) if leaf.kind == "entities" else PROPERTIES[array.ndim]
    return ObservationProto(array.shape, float_data=data, dimension_properties=properties, name=name)


def _action_proto(spec: ActionSpec, stored: np.ndarray) -> AgentActionProto:
    """Returns a stored action as a message: discrete actions and flags as branches, continuous ones in units of half
    their range.
    """
    values = np.ravel(stored)
    number = len(spec.sizes) + spec.num_flags
    choices = tuple(int(value) for value in values[:number])
    numbers = values[number:].astype(np.float32)
    if spec.num_numbers and spec.kind == "box":
        assert isinstance(spec.space, spaces.Box)
        bounded = (np.isfinite(spec.space.low) & np.isfinite(spec.space.high)).ravel()
        numbers = np.where(bounded, np.clip(numbers, -1.0, 1.0), numbers)
    return AgentActionProto(continuous_actions=tuple(numbers.tolist()), discrete_actions=choices)


def _nothing(spec: ActionSpec) -> AgentActionProto:
    """Returns the action of a row without a decision: zeros."""
    return AgentActionProto(
        continuous_actions=(0.0,) * spec.num_numbers, discrete_actions=(0,) * (len(spec.sizes) + spec.num_flags)
    )


def _write_demo(stored: StoredReplay, path: Path, name: str, advance: Callable[[int], object]) -> None:
    write_unity(recording_of(stored), path, name)


UNITY_DEMO = ReplayFormat(read_unity, _write_demo, (".demo",))
