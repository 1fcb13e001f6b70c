"""Which policy plays which agent."""

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
from rookery.core.seeding import LastWord, Role, Streams
from rookery.core.state import Stateful
from rookery.envs.async_copies.async_env import behaviors_of, team_of


@dataclass(frozen=True)
class EpisodeInfo:
    """What a mapping function may look at.

    Attributes:
        lane: Which copy of the environment.
        index: Number of the episode in that lane, from 0.
        parameters: Environment parameters drawn for the episode.
        rng: A generator of the episode's own, for mappings that draw (opponents, say). It starts afresh for each
            agent, so that all agents of an episode see the same numbers and can agree on who plays what.
    """

    lane: int
    index: int
    streams: Streams = field(repr=False)
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def rng(self) -> np.random.Generator:
        """Made when first used."""
        return self.streams.generator(Role.MAPPING, self.lane, self.index)


MappingFunction = Callable[[str, EpisodeInfo], str]


class PolicyMapping:
    """Asked once for each agent when it first appears in an episode.

    Args:
        rule: A dict from agent to policy (agents that come and go, as ``Striker#2?team=1``, may be named all at once by
            their behaviour, ``Striker?team=1`` or ``Striker``), a function ``(agent, episode) -> policy`` or
            ``(agent) -> policy``, or None: the only policy plays everyone, or, where agents and policies have the same
            names, each agent its own. A function may have an attribute `spaces`, observation and action space by
            policy: it says what policies are made for whose agents may all appear later.
        policies: Names of the policies there are.

    Raises:
        ConfigError: If the rule is neither, names a policy that there is not, or takes other arguments.
    """

    def __init__(self, rule: Mapping[str, str] | MappingFunction | None, policies: list[str]) -> None:
        self.rule = _two_arguments(rule) if callable(rule) else rule
        self.spaces: Mapping[str, tuple[Space[Any], Space[Any]]] = dict(getattr(rule, "spaces", ()))
        self.policies = policies
        self.is_static = not callable(rule)
        self.moves = False
        """Whether policies go from one side to another at the next episode."""
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
        """The policy of `agent` in `episode`.

        Raises:
            ConfigError: If the agent has no policy, or one that does not exist.
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
    """Gives a mapping function that is called with the agent and the episode.

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
"""What stands between the name of a policy and the number of its snapshot: ``main@3``."""

NOW = "@now"
"""What follows the name of a policy where it plays as it is, and nothing is kept."""


def snapshot_number(name: str) -> int:
    """Gives the number of a snapshot, 3 of ``main@3``."""
    return int(name.rpartition(SNAPSHOT)[2])


def side_finder(sides: Sequence[Sequence[str]]) -> Callable[[str], int | None]:
    """Gives what finds the number of an agent's side: its own, or that of its team if it has come later."""
    side_of = {agent: number for number, side in enumerate(sides) for agent in side}
    of_team = {team: number for agent, number in side_of.items() if (team := team_of(agent))}
    return lambda agent: side_of.get(agent, of_team.get(team_of(agent)))


class OpponentMapping(PolicyMapping, Stateful):
    """Draws who plays whom: in each episode one side is played by a policy that learns, the others by opponents.

    Everything comes from the stream OPPONENT of the lane, so that it does not depend on who steps which lane: which
    policy learns and on which side, by the episode; opponents by the deal, a number that grows when they are to be
    drawn again, or by the episode where a deal lasts for one. A lineup changes between two steps; an episode keeps the
    players that it began with. Where episodes are those of agents, several games may run in a lane that never ends: who
    learns on which side then stays until the lineup changes, so that whoever comes to a running game fits into it.

    Args:
        rule: The policy of each agent, before anybody is drawn.
        sides: Agents of each side.
        streams: The run's streams.
        lanes: Copies of the environment.
        lineup: The first lineup: ``learn``, the policies that learn, with their shares of the episodes; ``stand_for``,
            the policy of `rule` on whose sides each of them plays; ``pools``, by it and by the policy of another side
            the opponents there: ``names`` with their ``shares``, the number of the ``deal``, and whether ``each``
            episode is one; ``kept``, the numbers of the snapshots of each policy that there still are;
            ``round``, how often there has been another one.
        own_episodes: Whether episodes are those of agents (`VectorBase.own_episodes`).
    """

    saved = ("lineup", "episode", "players")
    fixed = ("rule", "policies", "spaces", "is_static", "moves", "sides", "streams", "own_episodes", "_side_of",
             "_policy_of_side", "_words", "_dealt")  # fmt: skip

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
        """Of each lane, who plays each side."""
        self.own_episodes, self._side_of = own_episodes, side_finder(self.sides)
        self._policy_of_side = [rule[side[0]] for side in self.sides]
        self._words: dict[tuple[int | str, ...], LastWord] = {}
        self._dealt: dict[tuple[int | str, ...], tuple[int, str]] = {}

    def __call__(self, agent: str, episode: EpisodeInfo) -> str:
        """Who plays `agent` in `episode`.

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
                f"self_play: agent {agent!r} was not there when the run began, and belongs to no side; there are "
                f"{known}"
            )
        return self.players[lane][side]

    def snapshots_in_use(self, policy: str) -> set[int]:
        """Gives the numbers of the snapshots of a policy that play now, or may be met in an episode to come."""
        names = {name for players in self.players for name in players if name.startswith(policy + SNAPSHOT)}
        return {*self.lineup["kept"][policy], *(snapshot_number(name) for name in names if name != policy + NOW)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes over what `state_dict` gave."""
        super().load_state_dict(state)
        self._dealt.clear()

    def _draw(self, lane: int, index: int) -> list[str]:
        """The players of an episode, side by side."""
        lineup = self.lineup
        names, moment = list(lineup["learn"]), lineup["round"] if self.own_episodes else index
        learns = names[0] if len(names) == 1 else self._drawn(lineup["learn"], moment, lane, "learns")
        stands_for = lineup["stand_for"][learns]
        own = [side for side, policy in enumerate(self._policy_of_side) if policy == stands_for]
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
        """Who plays the side of a policy, as the so-manieth opponent of one that learns."""
        pool = self.lineup["pools"][learns][policy]
        deal, key = (index if pool["each"] else pool["deal"]), (lane, learns, policy, met)
        if pool["each"] or self._dealt.get(key, (-1, ""))[0] != deal:
            shares = dict(zip(pool["names"], pool["shares"], strict=True))
            self._dealt[key] = deal, self._drawn(shares, deal, *key)
        return self._dealt[key][1]

    def _drawn(self, shares: Mapping[str, float], last: int, *key: int | str) -> str:
        """One of some names by their shares, which sum to 1."""
        at = self._number(last, *key) / 2**31
        for name, share in shares.items():
            at -= share
            if at < 0:
                return name
        return list(shares)[-1]  # what rounding has left over

    def _number(self, last: int, *key: int | str) -> int:
        """An integer in [0, 2**31) of the stream with that key and, as the last of it, a number."""
        words = self._words.get(key)
        if words is None:
            numbers = [zlib.crc32(part.encode()) if isinstance(part, str) else part for part in key]
            words = self._words[key] = LastWord(self.streams, Role.OPPONENT, *numbers)
        return words.integer(last)
