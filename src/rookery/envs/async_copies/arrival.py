"""What a copy that keeps its own clock says when it has something to say, and who speaks for all copies.

A game, a simulator or a program asks for actions when it wants them. An `Arrival` is one such moment of one copy: who
has ended since the last one, and who asks for an action now. Agents have ids here that the copy gives them; an id may
end and another begin in the same moment, and none comes back.
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
    """What agents of one sort see and do.

    Attributes:
        obs: Their observations.
        action: Their actions.
        seats: For each of them that a copy is known to have, the number of its group, -1 for none; others may come.
            Groups of a copy are counted through all behaviours, as `seats_of` does.
        names: Of agents that are always the same, their ids, in the order of `seats`: each has its own seat, and is
            called so; empty where ids say nothing.
    """

    obs: ObsSpec
    action: ActionSpec
    seats: tuple[int, ...] = (-1,)
    names: tuple[str, ...] = ()


@dataclass
class Asking:
    """The N agents of one behaviour that ask for an action.

    Attributes:
        ids: ``[N]`` who they are.
        obs: ``[N, ...]`` what they see.
        reward: ``[N]`` what each got since it asked last.
        groups: ``[N]`` the group of each, None for an agent without one; empty where nobody has one.
        group_reward: ``[N]`` what each one's group got since then; None where no group got anything.
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
    """The N agents of one behaviour whose episode has ended; `obs` is what they saw last.

    Attributes:
        truncated: ``[N]`` bool, whose was cut off, so that it would have had a future.
    """

    truncated: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=bool))


@dataclass
class Arrival:
    """One moment of one copy.

    Attributes:
        lane: Which copy.
        asking: By behaviour, those who ask for an action; all of them get one before the copy says anything more.
        ended: By behaviour, those who have ended since the copy's last arrival, before `asking`.
        over: Whether the episode of the whole copy is over, for copies that have such; then nobody asks.
        lost: Whether the copy has failed, so that the episodes of all its agents count for nothing; `asking` is the
            beginning of what took its place.
        unlearned: Whether nobody is to learn from what those who ask do, nor to count it. Such an episode ends as
            `lost`.
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
        ids: ``[N]`` the agents.
        actions: ``[N, ...]`` the environment's own actions (`ActionSpec.to_env`), in their order.
    """

    ids: Sequence[Hashable]
    actions: np.ndarray


def seats_of(arrival: Arrival) -> dict[str, tuple[int, ...]]:
    """Counts the groups of those who ask in a copy's first arrival, in the order in which it names them.

    Returns:
        By behaviour, what `CopyBehavior.seats` is to be.
    """
    numbers: dict[Hashable, int] = {}
    found = {}
    for name, asking in arrival.asking.items():
        groups = asking.groups or [None] * len(asking.ids)
        found[name] = tuple(-1 if group is None else numbers.setdefault(group, len(numbers)) for group in groups)
    return found


class Copies(Protocol):
    """All copies, as a `env.ClockedEnv` drives them.

    Attributes:
        name: What runs, in words a user knows.
        notes: Lines a user should read once.
        behaviors: What agents see and do, by the name of their behaviour. May grow, before an arrival has agents of a
            behaviour that is new.
        own_episodes: Whether episodes are those of agents, in copies that never end (`VectorBase.own_episodes`).
        parameters: Parameters that episodes can be given, as environments declare them (`envs/parameters.py`).
        counters: What went wrong so far and was borne, by the name it has in the result row.
    """

    name: str
    notes: tuple[str, ...]
    behaviors: Mapping[str, CopyBehavior]
    own_episodes: bool
    parameters: Mapping[str, Any]
    counters: dict[str, int]

    def begin(self, lane: int, episode: int, plan: SeedPlan) -> None:
        """Lets a copy begin anew, with the seed and the parameters that a plan has for an episode.

        What it said before and nobody has taken is forgotten.
        """

    def replan(self, plan: SeedPlan) -> None:
        """Lets episodes to come have the seeds and parameters of another plan, or of the same that has changed."""

    def arrivals(self, seconds: float) -> list[Arrival]:
        """Waits until a copy has something to say, `seconds` at most; gives what all copies have said by then.

        A copy is in it once at most, and says nothing more until it is answered.

        Raises:
            EnvError: If a copy cannot go on and none takes its place.
        """

    def answer(self, lane: int, episode: int, answers: Mapping[str, Answer]) -> None:
        """Answers the last arrival of a copy.

        Args:
            lane: Which copy.
            episode: Number of the episode that it is in.
            answers: By behaviour, an action for each agent that asked for one; none where nobody did.
        """

    def close(self) -> None:
        """Frees what the copies hold."""
