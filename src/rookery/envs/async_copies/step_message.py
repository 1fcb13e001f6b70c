"""Messages of asynchronously running environments ("copies"), and the interface to all of them.

A game, a simulator or a program requests actions at its own times. A `StepMessage` is one such message of one copy: the
agents that have ended since the last one, and those that request an action now. Agent ids are those of the copy; an id
may end and another begin in the same message, and no id comes back.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from rookery.core.spaces.arrays import ActionSpec, ObsSpec, Tree
from rookery.envs.base import SeedPlan


@dataclass(frozen=True)
class CopyBehavior:
    """Spaces and slots of the agents of one behaviour.

    Attributes:
        obs: Layout of their observations.
        action: Layout of their actions.
        slots: For each known agent of a copy, the number of its group, -1 for none; others may come. Groups of a copy
            are counted through all behaviours, as `slots_of` does.
        names: For agents that are always the same, their ids, in the order of `slots`: each has its own slot and its id
            as name; empty where ids have no meaning.
        sensors: Names of the leaves in the program beside, by path, for messages; others have their path.
    """

    obs: ObsSpec
    action: ActionSpec
    slots: tuple[int, ...] = (-1,)
    names: tuple[str, ...] = ()
    sensors: Mapping[str, str] = field(default_factory=dict, compare=False)


@dataclass
class Asking:
    """The N agents of one behaviour that request an action.

    ids: ``[N]`` their ids.
        obs: ``[N, ...]`` their observations.
        reward: ``[N]`` their rewards since they last asked.
        groups: ``[N]`` the group of each, None for an agent without one; empty if there are no groups.
        group_reward: ``[N]`` the rewards of their groups since then; None if there were none.
        own: ``[N, ...]`` actions they have chosen themselves, as actions are stored; the answers are not used then.
            None where all ask.
        own: ``[N, ...]`` what each has done by itself, as actions are stored; its answer is not used then. None where
            all ask.
    """

    ids: Sequence[Hashable]
    obs: Tree
    reward: np.ndarray
    groups: Sequence[Hashable | None] = ()
    group_reward: np.ndarray | None = None
    own: np.ndarray | None = field(default=None, kw_only=True)


@dataclass
class Ended(Asking):
    """The N agents of one behaviour whose episode has ended; `obs` is their last observation.

    Attributes:
        truncated: ``[N]`` bool, which were truncated, so that the final value is bootstrapped.
    """

    truncated: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=bool))


@dataclass
class StepMessage:
    """One message of one copy.

    Attributes:
        lane: Lane of the copy.
        asking: By behaviour, the agents that request an action; all of them get one before the copy sends another
            message.
        ended: By behaviour, the agents that have ended since the copy's last message, before `asking`.
        over: Whether the episode of the whole copy is over, for copies that have one; then no agent asks.
        lost: Whether the copy has failed, so that the episodes of all its agents are not counted; `asking` is then the
            start of its replacement.
        unlearned: Whether the experience of the asking agents is neither learned from nor counted. Such an episode ends
            as `lost`.
    """

    lane: int
    asking: Mapping[str, Asking] = field(default_factory=dict)
    ended: Mapping[str, Ended] = field(default_factory=dict)
    over: bool = False
    lost: bool = False
    unlearned: bool = False


@dataclass
class Answer:
    """Actions for agents of one behaviour in one copy.

    Attributes:
        ids: ``[N]`` ids of the agents.
        actions: ``[N, ...]`` the environment's own actions (`ActionSpec.to_env`), in their order.
    """

    ids: Sequence[Hashable]
    actions: np.ndarray


def slots_of(message: StepMessage) -> dict[str, tuple[int, ...]]:
    """Numbers the groups of the agents in a copy's first message, in the order in which they appear.

    Returns:
        By behaviour, the value for `CopyBehavior.slots`.
    """
    numbers: dict[Hashable, int] = {}
    found = {}
    for name, asking in message.asking.items():
        groups = asking.groups or [None] * len(asking.ids)
        found[name] = tuple(-1 if group is None else numbers.setdefault(group, len(numbers)) for group in groups)
    return found


class Copies(Protocol):
    """Interface of all copies, for an `AsyncCopiesEnv`.

    Attributes:
        name: Name of the environment for messages and logs.
        notes: Lines a user should read once.
        behaviors: Spaces and slots by the name of the behaviour. May grow, before a message has agents of a new
            behaviour.
        own_episodes: Whether episodes are those of agents, in copies that never end (`VectorBase.own_episodes`).
        parameters: Parameters that episodes can be given, as environments declare them (`envs/parameters.py`).
        counters: Number of tolerated failures so far, by name in the result row.
    """

    name: str
    notes: tuple[str, ...]
    behaviors: Mapping[str, CopyBehavior]
    own_episodes: bool
    parameters: Mapping[str, Any]
    counters: dict[str, int]

    def begin(self, lane: int, episode: int, plan: SeedPlan) -> None:
        """Restarts a copy, with the seed and the parameters that a plan has for an episode.

        Messages that were not taken are dropped.
        """

    def replan(self, plan: SeedPlan) -> None:
        """Sets another plan, or the same plan after a change, for the seeds and parameters of later episodes."""

    def step_messages(self, seconds: float) -> list[StepMessage]:
        """Waits up to `seconds` for a message; returns all messages that have come by then.

        Each copy has one at most, and sends no other until it is answered.

        Raises:
            EnvError: If a copy cannot continue and has no replacement.
        """

    def answer(self, lane: int, episode: int, answers: Mapping[str, Answer]) -> None:
        """Answers the last message of a copy.

        Args:
            lane: Lane of the copy.
            episode: Number of its episode.
            answers: By behaviour, an action for each agent that requested one; empty if none did.
        """

    def close(self) -> None:
        """Releases the resources of the copies."""
