"""Mapping of agents to policies."""

from __future__ import annotations

import inspect
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from gymnasium import Space

from rookery.core.errors import ConfigError, nearest
from rookery.core.process.torch_modes import users_modes
from rookery.core.seeding import FastSeeds, Role, Streams
from rookery.core.state import Stateful
from rookery.envs.async_copies.async_env import behaviors_of, team_of


@dataclass(frozen=True)
class EpisodeInfo:
    """Episode data passed to a mapping function.

    Attributes:
        lane: Number of the environment among the vectorized environments.
        index: Number of the episode in that lane, from 0.
        parameters: Environment parameters drawn for the episode.
        rng: Generator of the episode's own, for mappings that draw (opponents, for example). It starts afresh for each
            agent, so all agents of an episode get the same numbers and can agree on their policies.
    """

    lane: int
    index: int
    streams: Streams = field(repr=False)
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def rng(self) -> np.random.Generator:
        """Generator of the episode; created when first used."""
        return self.streams.generator(Role.MAPPING, self.lane, self.index)


MappingFunction = Callable[[str, EpisodeInfo], str]


class PolicyMapping:
    """Maps agents to policies; called once for each agent when it first appears in an episode.

    Args:
        rule: A dict from agent to policy (agents that come and go, as ``Striker#2?team=1``, may be named all at once by
            their behaviour, ``Striker?team=1`` or ``Striker``), a function ``(agent, episode) -> policy`` or
            ``(agent) -> policy``, or None: the only policy plays everyone, or, where agents and policies have the same
                names, each agent its own. A function may have an attribute `spaces`, observation and action space by
                policy: policies are then created from it if all their agents may appear later.
        policies: Names of the policies.

    Raises:
        ConfigError: If the rule is of another type, names an unknown policy, or takes other arguments.
    """

    def __init__(self, rule: Mapping[str, str] | MappingFunction | None, policies: list[str]) -> None:
        self.rule = _two_arguments(rule) if callable(rule) else rule
        self.spaces: Mapping[str, tuple[Space[Any], Space[Any]]] = dict(getattr(rule, "spaces", ()))
        self.policies = policies
        self.is_static = not callable(rule)
        self.moves = False
        """Whether an agent may change from one policy to another at the next episode."""
        if rule is not None and not callable(rule) and not isinstance(rule, Mapping):
            raise ConfigError(
                f"policy_mapping = {rule!r}: must be a dict from agent to policy, or (in code) a function "
                f"(agent, episode) -> policy"
            )
        if isinstance(rule, Mapping):
            wrong = [
                f"policy_mapping.{agent} = {policy!r}: no such policy; there are {', '.join(policies)}"
                f"{nearest(str(policy), policies)}"
                for agent, policy in rule.items()
                if policy not in policies
            ]
            if wrong:
                raise ConfigError(*wrong)

    def __call__(self, agent: str, episode: EpisodeInfo) -> str:
        """Returns the policy of `agent` in `episode`.

        Raises:
            ConfigError: If the agent has no policy, or an unknown one.
        """
        if callable(self.rule):
            with users_modes():
                policy = self.rule(agent, episode)
            if policy not in self.policies:
                raise ConfigError(
                    f"policy_mapping returned {policy!r} for agent {agent!r}: no such policy; there are "
                    f"{', '.join(self.policies)}{nearest(str(policy), self.policies)}"
                )
            return policy
        if self.rule is not None:
            found = next((self.rule[name] for name in (agent, *behaviors_of(agent)) if name in self.rule), None)
            if found is None:
                raise ConfigError(
                    f"policy_mapping: agent {agent!r} has no policy; mapped agents are {', '.join(self.rule)}"
                    f"{nearest(agent, list(self.rule))}; add {agent!r} to policy_mapping"
                )
            return found
        for name in (agent, *behaviors_of(agent)):
            if name in self.policies:
                return name
        if len(self.policies) == 1:
            return self.policies[0]
        raise ConfigError(
            f"policy_mapping is missing: agent {agent!r} could play any of {', '.join(self.policies)}; "
            f"pass policy_mapping={{{agent!r}: {self.policies[0]!r}, ...}} or a function (agent, episode) -> policy"
        )


def _two_arguments(rule: Callable[..., str]) -> MappingFunction:
    """Returns a mapping function that is called with the agent and the episode.

    Raises:
        ConfigError: If the rule can be called neither with both nor with the agent alone.
    """
    try:
        signature = inspect.signature(rule)
    except (TypeError, ValueError):  # some built-in callables have none
        return rule
    for arguments in (("agent", "episode"), ("agent",)):
        try:
            signature.bind(*arguments)
        except TypeError:
            continue
        return rule if len(arguments) == 2 else lambda agent, episode: rule(agent)
    name = getattr(rule, "__name__", type(rule).__name__)
    raise ConfigError(
        f"policy_mapping = {name}{signature}: it is called with the agent's name and the episode; write "
        "(agent, episode) -> policy, or (agent) -> policy"
    )


SNAPSHOT = "@"
"""Separates the name of a policy from the number of its snapshot: ``main@3``."""

NOW = "@now"
"""Suffix of the name of a policy that plays with its current weights, without recording."""


def snapshot_number(name: str) -> int:
    """Returns the number of a snapshot, 3 of ``main@3``."""
    return int(name.rpartition(SNAPSHOT)[2])


def side_finder(sides: Sequence[Sequence[str]]) -> Callable[[str], int | None]:
    """Returns a function that maps an agent to its side's number: its own, or that of its team if it joined later. A
    side without agents is that of the next team to appear.
    """
    side_of = {agent: number for number, side in enumerate(sides) for agent in side}
    of_team = {team: number for agent, number in side_of.items() if (team := team_of(agent))}
    empty = [number for number, side in enumerate(sides) if not side]

    def find(agent: str) -> int | None:
        team = team_of(agent)
        if empty and team and team not in of_team:
            of_team[team] = empty.pop(0)
        return side_of.get(agent, of_team.get(team))

    return find


class OpponentMapping(PolicyMapping, Stateful):
    """Draws the policies of each episode: a learning policy plays one side, opponents play the others.

    Everything comes from the stream OPPONENT of the lane, so it does not depend on which worker steps which lane: the
    learning policy and its side, by the episode; opponents by the deal, a number that grows when they are to be drawn
    again, or by the episode where a deal lasts for one. A lineup changes between two steps; an episode keeps the
    policies that it began with. Where agents have their own episodes, several games may run in a lane that never ends:
    the learning policy and its side then stay until the lineup changes, so that agents that join a running game fit
    into it.

    Args:
        rule: The policy of each agent before opponents are drawn.
        sides: Agents of each side; none of the side of a team that has not appeared yet, if one policy plays all.
        streams: The run's streams.
        lanes: Number of vectorized environments.
        lineup: The first lineup: ``learn``, the policies that learn, with their shares of the episodes; ``stand_for``,
            the policy of `rule` on whose sides each of them plays; ``pools``, by it and by the policy of another side
            the opponents there: ``names`` with their ``shares``, the number of the ``deal``, and whether ``each``
            episode is one; ``kept``, the numbers of the snapshots of each policy that there still are;
            ``round``, how often there has been another one.
        own_episodes: Whether agents have their own episodes (`VectorBase.own_episodes`).
    """

    saved = ("lineup", "episode", "players")
    fixed = ("rule", "policies", "spaces", "is_static", "moves", "sides", "streams", "own_episodes", "_side_of",
             "_policy_of_side", "_there", "_words", "_dealt")  # fmt: skip

    def __init__(
        self,
        rule: Mapping[str, str],
        sides: Sequence[tuple[str, ...]],
        streams: Streams,
        lanes: int,
        lineup: dict[str, Any],
        own_episodes: bool,
    ) -> None:
        super().__init__(rule, list(dict.fromkeys(rule.values())))
        self.is_static, self.moves = False, True
        self.sides, self.streams, self.lineup = tuple(sides), streams, lineup
        self.episode = [-1] * lanes
        """Episode of each lane for which `players` were drawn."""
        self.players: list[list[str]] = [[] for _ in range(lanes)]
        """Policy of each side, per lane."""
        self.own_episodes, self._side_of = own_episodes, side_finder(self.sides)
        self._policy_of_side = [rule[side[0]] if side else self.policies[0] for side in self.sides]
        self._there = {number for number, side in enumerate(self.sides) if side}
        """Sides whose agents have appeared; no policy learns on another one."""
        self._words: dict[tuple[int | str, ...], FastSeeds] = {}
        self._dealt: dict[tuple[int | str, ...], tuple[int, str]] = {}

    def __call__(self, agent: str, episode: EpisodeInfo) -> str:
        """Returns the policy of `agent` in `episode`.

        Raises:
            ConfigError: If the agent belongs to no side.
        """
        lane = episode.lane
        if self.episode[lane] != episode.index:
            self.players[lane] = self._draw(lane, episode.index)
            self.episode[lane] = episode.index
        side = self._side_of(agent)
        if side is None:
            known = ", ".join(agent for side in self.sides for agent in side)
            raise ConfigError(
                f"self_play: agent {agent!r} did not exist when the run began, and belongs to no side; there are "
                f"{known}"
            )
        self._there.add(side)
        return self.players[lane][side]

    def snapshots_in_use(self, policy: str) -> set[int]:
        """Returns the numbers of the snapshots of a policy that play now, or may play in a later episode."""
        names = {name for players in self.players for name in players if name.startswith(policy + SNAPSHOT)}
        return {*self.lineup["kept"][policy], *(snapshot_number(name) for name in names if name != policy + NOW)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores the result of `state_dict`."""
        super().load_state_dict(state)
        self._dealt.clear()

    def _draw(self, lane: int, index: int) -> list[str]:
        """Draws the policies of an episode, one per side."""
        lineup = self.lineup
        names, moment = list(lineup["learn"]), lineup["round"] if self.own_episodes else index
        learns = names[0] if len(names) == 1 else self._drawn(lineup["learn"], moment, lane, "learns")
        stands_for = lineup["stand_for"][learns]
        own = [side for side in sorted(self._there) if self._policy_of_side[side] == stands_for]
        chosen = own[self._number(moment, lane, "side") % len(own)]
        players, met = [], 0
        for side, policy in enumerate(self._policy_of_side):
            if side == chosen:
                players.append(learns)
                continue
            players.append(self._opponent(lane, index, learns, policy, met))
            met += 1
        return players

    def _opponent(self, lane: int, index: int, learns: str, policy: str, met: int) -> str:
        """Returns the policy of a side, as opponent number `met` of a learning policy."""
        pool = self.lineup["pools"][learns][policy]
        deal, key = (index if pool["each"] else pool["deal"]), (lane, learns, policy, met)
        if pool["each"] or self._dealt.get(key, (-1, ""))[0] != deal:
            shares = dict(zip(pool["names"], pool["shares"], strict=True))
            self._dealt[key] = deal, self._drawn(shares, deal, *key)
        return self._dealt[key][1]

    def _drawn(self, shares: Mapping[str, float], last: int, *key: int | str) -> str:
        """Returns one of the names, drawn by shares that sum to 1."""
        at = self._number(last, *key) / 2**31
        for name, share in shares.items():
            at -= share
            if at < 0:
                return name
        return list(shares)[-1]  # rounding error

    def _number(self, last: int, *key: int | str) -> int:
        """Returns an integer in [0, 2**31) of the stream with that key, whose last word is `last`."""
        words = self._words.get(key)
        if words is None:
            numbers = [zlib.crc32(part.encode()) if isinstance(part, str) else part for part in key]
            words = self._words[key] = FastSeeds(self.streams, Role.OPPONENT, *numbers)
        return words.integer(last)
