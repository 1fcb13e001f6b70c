"""Self-play: policies that learn by playing against themselves, as they are and as they were.

The sides of a game are the groups that its environment names, or else its agents. A *snapshot* is a frozen copy of a
policy, called ``main@3``. Who meets whom is a *lineup* (`rollout/mapping.py:OpponentMapping`): it changes when a policy
has learned (`SelfPlay.learned`), and is handed out where weights are. Of what came of each game hear the ratings.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, Protocol

from rookery.algorithms.algorithm import Algorithm
from rookery.core.config import DEFAULT, Resolved
from rookery.core.errors import ConfigError, SpaceError, nearest, refuse
from rookery.core.seeding import Streams
from rookery.core.settings.fields import Fraction, PositiveFloat, Settings
from rookery.core.settings.layers import Layer
from rookery.core.settings.reach import Count, CountFromZero, Few, Label, Reaches
from rookery.core.state import Stateful
from rookery.envs.async_copies.async_env import team_of
from rookery.envs.base import Kind, VectorEnv, has_own_episodes
from rookery.envs.groups import groups_of
from rookery.policies.policy import Policy
from rookery.policies.scripted import ScriptedPolicy, find_player
from rookery.report.results import WINDOW, SelfPlayResult
from rookery.rollout.hooks import EpisodeResult
from rookery.rollout.mapping import (
    NOW,
    SNAPSHOT,
    EpisodeInfo,
    MappingFunction,
    OpponentMapping,
    PolicyMapping,
    side_finder,
)
from rookery.rollout.pool import WorkerPool
from rookery.run.opponents.ratings import Ratings, score_of

EXPLOITER = "_exploiter"
"""What follows the name of a policy in that of its exploiter."""

EXPLOITER_SHARE = 1 / 3
"""Episodes of a league in which the exploiter learns, and not the main policy."""

BEATEN = 0.7
"""Share of its latest games that an exploiter must make against the main policy to have found its weakness."""

PATIENCE = 5
"""Times `snapshot_every` after which an exploiter begins anew in any case."""

OLD_SCORE = 0.98
"""Weight that a game keeps when another one follows, where opponents are drawn by win rate."""

EVEN_AFTER = 200
"""Games without any difference between the sides after which a user is told that they mean nothing."""


@dataclass(frozen=True)
class SelfPlayConfig(Settings):
    """How a policy plays against itself, or against another policy in turn."""

    snapshot_every: Count = 20_000
    """Decisions that the policy learns from between two snapshots; the first is taken before it has learned."""
    window: Few | None = 10
    """Latest snapshots that stay; none = all."""
    latest_ratio: Fraction = 0.5
    """Share of opponents that are the policy as it is now; the others are snapshots. A policy that meets itself learns
    from both sides.
    """
    swap_every: CountFromZero = 2000
    """Decisions that the policy learns from between two draws of opponents, which a lane has from its next episode on;
    0 = drawn for every episode. A snapshot is followed by a draw in any case.
    """
    team_change_every: Count | None = None
    """Where two policies meet: decisions after which the other one learns; none = 5 times `snapshot_every`."""
    opponents: Literal["uniform", "prioritized", "league"] = "uniform"
    """How snapshots are drawn: ``uniform``; ``prioritized``: by how often the policy loses to them; ``league``: so, and
    an exploiter learns to beat the policy, whose snapshots are opponents too.
    """
    weighting: Literal["hard", "even"] = "hard"
    """Weight of an opponent against which the policy wins a share p of the games: ``hard`` (1 - p)^2, ``even``
    p (1 - p) (Vinyals et al. 2019, prioritized fictitious self-play).
    """
    initial_rating: float = 1200.0
    """Rating of the policy before it has played, and of the first anchor for ever."""
    k_factor: PositiveFloat = 16.0
    """Rating points that a game moves at most."""
    anchors: dict[Label, Annotated[str, Reaches("code", but=("random",))]] = field(default_factory=dict)
    """Opponents that never change, for ratings only: by name a player, ``random`` or ``my.module:function``. The rating
    of the first is fixed.
    """
    rating_games: CountFromZero = 20
    """Games against each anchor and the snapshot before that are played for the rating with each snapshot; 0 = none. In
    copies that keep their own clock none are: ratings come from the games of training.
    """

    @property
    def turn(self) -> int:
        """Decisions after which the other policy learns."""
        return self.team_change_every or 5 * self.snapshot_every


class Contender(Stateful):
    """How far one policy is in self-play.

    Args:
        cfg: Its settings.
    """

    saved = ("taken", "window", "snapshot_at", "deal", "deal_at", "turn_at", "scores", "recent", "games", "anchors",
             "began_at")  # fmt: skip
    fixed = ("cfg",)

    def __init__(self, cfg: SelfPlayConfig) -> None:
        self.cfg = cfg
        self.taken = 0
        """Snapshots so far; the number of the latest."""
        self.window: list[int] = []
        """Numbers of those that may be met."""
        self.snapshot_at = cfg.snapshot_every
        """Decisions at which the next one is taken."""
        self.deal = 0
        """How often opponents have been drawn."""
        self.deal_at = cfg.swap_every
        self.turn_at = cfg.turn
        self.began_at = 0
        """Decisions at which an exploiter began anew."""
        self.scores: dict[str, list[float]] = {}
        """Against each opponent: weighted score and weight of the games, late ones counting more."""
        self.recent: deque[float] = deque(maxlen=WINDOW)
        """Scores of the latest games, those against itself left out."""
        self.games = 0
        self.anchors: dict[str, float] = {}
        """Mean score in the latest rating games against each anchor."""

    def played(self, opponent: str, score: float) -> None:
        """Takes the score of a game, in [0, 1]."""
        self.games += 1
        self.recent.append(score)
        kept = self.scores.setdefault(opponent, [0.0, 0.0])
        kept[0], kept[1] = OLD_SCORE * kept[0] + score, OLD_SCORE * kept[1] + 1.0

    def win_rate(self, opponent: str) -> float | None:
        """Gives the mean score against an opponent, of late games above all; None before the first one."""
        score, weight = self.scores.get(opponent, (0.0, 0.0))
        return score / weight if weight else None

    def take(self) -> list[int]:
        """Counts a snapshot; gives the numbers of those that may be met from now on."""
        self.taken += 1
        size = self.cfg.window
        self.window = [*self.window, self.taken][-size:] if size else [*self.window, self.taken]
        return self.window

    def weights(self, opponents: Sequence[str]) -> dict[str, float]:
        """Gives how likely each of some opponents is to be drawn, as shares of 1."""
        found = dict.fromkeys(opponents, 1.0)
        if self.cfg.opponents != "uniform":
            rates = {name: 0.5 if (rate := self.win_rate(name)) is None else rate for name in opponents}
            if self.cfg.weighting == "hard":
                found = {name: (1.0 - p) ** 2 for name, p in rates.items()}
            else:
                found = {name: p * (1.0 - p) for name, p in rates.items()}
        if math.fsum(found.values()) <= 0.0:
            found = dict.fromkeys(opponents, 1.0)
        total = math.fsum(found.values())
        return {name: weight / total for name, weight in found.items()}


class SelfPlay(Stateful):
    """Who plays whom in a run, how strong they are, and their snapshots.

    Args:
        resolved: Settings of the run.
        env: Its copies.
        mapping: The policy of each agent.
        streams: Its streams.

    Attributes:
        sides: Agents of each side, by the name of their group or agent.
        contenders: Policies that play against themselves or each other, and exploiters.
        snapshots: Of each of them, by number.
        ratings: Ratings of these, of their snapshots and of anchors.
        turn: The policy that learns now, where several learn in turn.
        lineup: Who may meet whom.

    Raises:
        ConfigError: If a setting does not fit the game.
    """

    state_version = 2
    saved: ClassVar[tuple[str, ...]] = ("contenders", "snapshots", "ratings", "turn", "lineup", "games", "is_even",
                                        "told")  # fmt: skip
    fixed: ClassVar[tuple[str, ...]] = ("sides", "teams", "retired", "mapping", "base", "streams", "exploiters",
                                        "templates", "initial", "anchors", "own_episodes", "_side_of")  # fmt: skip

    def __init__(self, resolved: Resolved[Any], env: VectorEnv, mapping: PolicyMapping, streams: Streams) -> None:
        settings: Mapping[str, SelfPlayConfig] = resolved.config.self_play
        self.base = self.mapping = mapping
        self.streams = streams
        self.sides: dict[str, tuple[str, ...]] = {}
        self.own_episodes, self._side_of = has_own_episodes(env), side_finder([])
        self.teams = list(settings)
        self.retired: list[str] = []
        """Policies that have learned all they are to."""
        self.exploiters = exploiters_of(settings)
        self.contenders = {name: Contender(cfg) for name, cfg in settings.items()}
        self.contenders |= {name: Contender(settings[of]) for name, of in self.exploiters.items()}
        self.snapshots: dict[str, dict[int, Policy]] = {name: {} for name in self.contenders}
        self.templates: dict[str, Policy] = {}
        self.initial: dict[str, tuple[Any, Any]] = {}
        """Of each exploiter, policy and learner as they began."""
        self.anchors: dict[str, str] = {}
        self.turn = self.teams[0] if self.teams else ""
        self.lineup: dict[str, Any] = {}
        self.games = 0
        self.is_even, self.told = True, False
        first = settings[self.turn] if settings else SelfPlayConfig()
        self.ratings = Ratings(first.initial_rating, first.k_factor)
        if not settings:
            return
        rule = check_self_play(resolved, env, mapping)
        self.sides = sides_of(env)
        self._side_of = side_finder(list(self.sides.values()))
        for cfg in settings.values():
            for anchor, player in cfg.anchors.items():
                if anchor not in self.anchors:
                    self.anchors[anchor] = player
                    self.ratings.add(anchor, first.initial_rating, fixed=len(self.anchors) == 1)
        for name in self.contenders:
            self.ratings.add(name, first.initial_rating)
        kept: dict[str, list[int]] = {name: [] for name in self.contenders}
        self.lineup = {"learn": {}, "stand_for": {}, "pools": {}, "kept": kept, "round": 0}
        self._deal()
        sides = list(self.sides.values())
        self.mapping = OpponentMapping(rule, sides, streams, env.num_lanes, self.lineup, self.own_episodes)

    # --- state --------------------------------------------------------------------------------------------------------

    def upgrade(self, state: dict[str, Any], version: int) -> dict[str, Any]:
        """Adds to states of version 1 how often opponents were drawn again, which nothing depended on."""
        return {**state, "lineup": {"round": 0, **state["lineup"]}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes over what `state_dict` gave, once all policies are here."""
        for name, snapshots in state["snapshots"].items():
            mine = self.snapshots[name]  # workers know this dict
            mine.clear()
            for number, weights in snapshots.items():
                mine[number] = frozen(self.templates[name])
                mine[number].load_state_dict(weights)
        held = self.snapshots
        super().load_state_dict({**state, "snapshots": {}})
        self.snapshots = held

    # --- policies -----------------------------------------------------------------------------------------------------

    def with_exploiters(self, kinds: Mapping[str, Kind]) -> dict[str, Kind]:
        """Gives policies that a run is to make, with the kinds of their agents, exploiters included."""
        return {**kinds, **{name: kinds[of] for name, of in self.exploiters.items() if of in kinds}}

    def introduce(self, name: str, learner: Algorithm[Any], pool: WorkerPool) -> None:
        """Makes a policy one that plays itself, if settings say so: it is met from now on as it is, and as it began."""
        if name not in self.contenders:
            return
        policy = self.templates[name] = learner.behaviour
        pool.add_opponents(name, policy, self.snapshots[name])
        if name in self.exploiters:
            self.initial[name] = deepcopy(dict(policy.state_dict())), learner.state_dict()
        else:
            self._take(name, policy)
            pool.change_opponents(self._deal())

    def rivals(self, name: str) -> list[str]:
        """Gives the policies that a policy competes with: those of the other teams, or else its own."""
        own = self.exploiters.get(name, name)
        return [team for team in self.teams if team != own] or [own]

    def is_learning(self, name: str) -> bool:
        """Whether a policy learns from what is played now."""
        return name not in self.contenders or name in self.lineup["learn"]

    # --- learning -----------------------------------------------------------------------------------------------------

    def learned(self, name: str, decisions: int, learner: Algorithm[Any], pool: WorkerPool, match: Match) -> None:
        """Takes a snapshot, draws opponents anew or lets the other policy learn, if it is time.

        Args:
            name: The policy that has learned.
            decisions: How many it has learned from in all.
            learner: Its learner.
            pool: Is told of the lineup if it changes.
            match: Plays rating games.
        """
        mine = self.contenders.get(name)
        if mine is None:
            return
        cfg, changed = mine.cfg, not mine.cfg.swap_every
        if name in self.exploiters:
            changed |= self._exploit(name, decisions, learner)
        elif decisions >= mine.snapshot_at:
            mine.snapshot_at = next_at(decisions, cfg.snapshot_every)
            self._rate(name, learner.behaviour, match)
            self._take(name, learner.behaviour)
            changed = True
        if cfg.swap_every and decisions >= mine.deal_at:
            mine.deal_at = next_at(decisions, cfg.swap_every)
            changed = True
        if len(self.teams) > 1 and (decisions >= mine.turn_at or name in self.retired):
            mine.turn_at = decisions + cfg.turn
            self.turn = self._next_turn(name)
            changed = True
        if changed:
            pool.change_opponents(self._deal())

    def skip_retired(self, pool: WorkerPool) -> None:
        """Gives the turn to a team that still learns, if the one that has it does not and there is one.

        Args:
            pool: Is told of the lineup if it changes.
        """
        if self.turn in self.retired and (following := self._next_turn(self.turn)) not in self.retired:
            self.turn = following
            pool.change_opponents(self._deal())

    def _next_turn(self, name: str) -> str:
        """Gives the next team after another that still learns, which may be that one; where none does, the next."""
        place = self.teams.index(name)
        following = [*self.teams[place + 1 :], *self.teams[: place + 1]]
        return next((team for team in following if team not in self.retired), following[0])

    def _exploit(self, name: str, decisions: int, learner: Algorithm[Any]) -> bool:
        """An exploiter that wins, or has tried for long, becomes an opponent of the main policy and begins anew."""
        mine = self.contenders[name]
        wins = len(mine.recent) == WINDOW and math.fsum(mine.recent) / WINDOW >= BEATEN
        if not wins and decisions - mine.began_at < PATIENCE * mine.cfg.snapshot_every:
            return False
        self._take(name, learner.behaviour)
        weights, state = deepcopy(self.initial[name])
        learner.policy.load_state_dict(weights)
        learner.load_state_dict(state)
        mine.began_at = decisions
        mine.recent.clear()
        mine.scores.clear()
        self.ratings.restart(name)
        return True

    def _take(self, name: str, policy: Policy) -> None:
        """Keeps a snapshot, as strong as its policy is."""
        mine = self.contenders[name]
        window = mine.take()
        self.snapshots[name][mine.taken] = frozen(policy)
        self.ratings.add(f"{name}{SNAPSHOT}{mine.taken}", self.ratings.of(name))
        self.lineup["kept"] = {**self.lineup["kept"], name: list(window)}

    def _deal(self) -> dict[str, Any]:
        """Makes the lineup anew: all opponents are drawn again."""
        learn = {self.turn: 1.0}
        for name, of in self.exploiters.items():
            learn = {of: 1.0 - EXPLOITER_SHARE, name: EXPLOITER_SHARE}
        for name in learn:
            self.contenders[name].deal += 1
        pools = {name: {policy: self._pool(name, policy) for policy in self.teams} for name in learn}
        stand_for = {name: self.exploiters.get(name, name) for name in self.contenders}
        number = self.lineup["round"] + 1
        self.lineup = {**self.lineup, "learn": learn, "stand_for": stand_for, "pools": pools, "round": number}
        return self.lineup

    def _pool(self, name: str, policy: str) -> dict[str, Any]:
        """Who plays the sides of a policy against one that learns, and how often."""
        mine = self.contenders[name]
        past: list[str] = []
        if name not in self.exploiters:  # these meet the main policy alone, as it is
            rivals = [policy, *(one for one, of in self.exploiters.items() if of == policy)]
            past = [f"{one}{SNAPSHOT}{number}" for one in rivals for number in self.lineup["kept"][one]]
        now = mine.cfg.latest_ratio if past else 1.0
        shares = {name if policy == name else policy + NOW: now}
        shares |= {one: (1.0 - now) * weight for one, weight in mine.weights(past).items()}
        met = {one: share for one, share in shares.items() if share > 0.0}
        each = not mine.cfg.swap_every
        return {"names": list(met), "shares": list(met.values()), "deal": mine.deal, "each": each}

    # --- games --------------------------------------------------------------------------------------------------------

    def hear(self, finished: Iterable[EpisodeResult], note: Callable[[str], None]) -> None:
        """Takes games that have ended.

        Args:
            finished: The games.
            note: Is given lines to be read.
        """
        for earned in self._games(finished):
            if len(earned) < 2:
                continue
            self.games += 1
            self.is_even &= all(score_of(earned[0][1], other) == 0.5 for _, other in earned)
            for place, (name, mine) in enumerate(earned):
                for other, theirs in earned[place + 1 :]:
                    self._note(name, other, score_of(mine, theirs))
        if self.is_even and not self.told and self.games >= EVEN_AFTER:
            self.told = True
            note(
                f"self_play: in {self.games} games no side has earned more than another, so ratings say nothing: an "
                "environment in which sides compete gives the winner more"
            )

    def _games(self, finished: Iterable[EpisodeResult]) -> Iterator[list[tuple[str, float]]]:
        """Gives for each game who played each side, and what it earned.

        Where episodes are those of agents, a game is what ends in one step of a lane; it counts if several sides are in
        it, and one policy played each. Several games end in one step where as many groups of each side do, as in scenes
        with several areas: the first of a side met the first of the others.
        """
        if not self.own_episodes:
            yield from (returns_of(self.sides, episode) for episode in finished)
            return
        together: dict[tuple[int, int], dict[int, list[EpisodeResult]]] = {}
        for episode in finished:
            side = self._side_of(next(iter(episode.agents)))
            if side is not None:
                together.setdefault((episode.lane, episode.index), {}).setdefault(side, []).append(episode)
        for game in (game for ended in together.values() for game in games_apart(ended)):
            players = [{name for one in side for name in one.policies.values()} for side in game.values()]
            if all(len(names) == 1 for names in players):
                totals = [math.fsum(one.total for one in side) for side in game.values()]
                yield [(names.pop(), total) for names, total in zip(players, totals, strict=True)]

    def _note(self, a: str, b: str, score: float) -> None:
        """A game between two players, with the score of the first."""
        if a == b:
            return
        self.ratings.played(a, b, score)
        for name, other, its in ((a, b, score), (b, a, 1.0 - score)):
            if name in self.lineup["learn"] and self.exploiters.get(other) != name:  # which meets it as a fixed target
                self.contenders[name].played(other, its)

    def _rate(self, name: str, policy: Policy, match: Match) -> None:
        """Plays rating games of a policy against the anchors and the latest snapshots."""
        mine = self.contenders[name]
        if not mine.cfg.rating_games or self.own_episodes:
            return
        rivals = self.rivals(name)
        latest = {one: f"{one}{SNAPSHOT}{self.contenders[one].taken}" for one in rivals}
        for opponent in (*mine.cfg.anchors, latest[rivals[0]]):
            players: dict[str, Policy]
            if opponent in self.anchors:
                players = {one: scripted(self.templates[one], opponent, self.anchors[opponent]) for one in rivals}
            else:
                players = {one: self.snapshots[one][self.contenders[one].taken] for one in rivals}
            try:
                scores = match(name, policy, players, mine.cfg.rating_games, f"{mine.taken}/{opponent}")
            except SpaceError as error:
                raise SpaceError(f"self_play.{name}, rating games against {opponent}: {error}") from None
            for one, score in scores:
                self.ratings.played(name, opponent if opponent in self.anchors else latest[one], score)
            if opponent in self.anchors and scores:
                mine.anchors[opponent] = math.fsum(score for _, score in scores) / len(scores)

    def standing(self) -> dict[str, SelfPlayResult]:
        """Gives where each policy stands, for results."""
        found = {}
        for name, mine in self.contenders.items():
            rival = self.rivals(name)[0]
            latest = rival if name in self.exploiters else f"{rival}{SNAPSHOT}{self.contenders[rival].taken}"
            found[name] = SelfPlayResult(
                rating=self.ratings.of(name),
                games=mine.games,
                win_rate=math.fsum(mine.recent) / len(mine.recent) if mine.recent else None,
                win_rate_latest=mine.win_rate(latest),
                snapshots=mine.taken,
                learns=name in self.lineup["learn"],
                anchors={anchor: mine.anchors.get(anchor) for anchor in mine.cfg.anchors},
            )
        return found

    # --- measuring ----------------------------------------------------------------------------------------------------

    def to_measure(self, policies: Mapping[str, Policy]) -> tuple[Mapping[str, Policy], PolicyMapping]:
        """Gives who plays where nothing is learned, and which agents: policies of two teams as they are, one against
        its latest snapshot otherwise, on each side in turn.

        Args:
            policies: All policies of the run, as they are.
        """
        if len(self.teams) != 1:
            return policies, self.base
        (name,) = self.teams
        number = self.contenders[name].taken
        latest = f"{name}{SNAPSHOT}{number}"
        players = {name: policies[name], latest: self.snapshots[name][number]}
        rule = one_side(list(self.sides.values()), name, latest, stays=self.own_episodes)
        return players, PolicyMapping(rule, list(players))


Scores = list[tuple[str, float]]
"""Scores of a policy in games, each with the policy that the other side belongs to."""


class Match(Protocol):
    """Plays games of a policy from which nothing is learned."""

    def __call__(self, name: str, policy: Policy, others: Mapping[str, Policy], games: int, key: str) -> Scores:
        """Gives the scores of a policy in some games, in [0, 1].

        Args:
            name: The policy whose sides it plays: one of them in each game.
            policy: Its weights.
            others: Who plays the other sides, by the policy that they belong to.
            games: How many.
            key: Names the random numbers, with the policy's name.
        """
        ...


def sides_of(env: VectorEnv) -> dict[str, tuple[str, ...]]:
    """Gives the agents of each side of a game: the groups of an environment, and each other agent by itself; those of
    each team, where agents have episodes and teams of their own (``Striker#2?team=1``).
    """
    if has_own_episodes(env):
        teams: dict[str, list[str]] = {}
        for kind in env.kinds:
            for agent in kind.agents:
                teams.setdefault(team_of(agent), []).append(agent)
        if "" not in teams:
            return {team: tuple(agents) for team, agents in sorted(teams.items())}
    groups = groups_of(env)
    grouped = {agent for members in groups.values() for agent in members}
    return {**groups, **{agent: (agent,) for kind in env.kinds for agent in kind.agents if agent not in grouped}}


def returns_of(sides: Mapping[str, Sequence[str]], episode: EpisodeResult) -> list[tuple[str, float]]:
    """Gives who played each side of an episode, and what it earned, its agents and their group together; sides without
    agents are left out.
    """
    found = []
    for name, side in sides.items():
        there = [agent for agent in side if agent in episode.agents]
        if there:
            earned = [episode.agents[agent] for agent in there]
            found.append((episode.policies[there[0]], math.fsum([*earned, episode.groups.get(name, 0.0)])))
    return found


def games_apart(ended: Mapping[int, Sequence[EpisodeResult]]) -> list[dict[int, Sequence[EpisodeResult]]]:
    """Tells apart the games that ended in one step of a lane in which episodes are those of agents and groups.

    Args:
        ended: What ended, by side.

    Returns:
        By side, what is of one game: the nth group of each side, where all sides have as many groups and nobody
        beside; otherwise all that ended, since agents do not say whom they met.
    """
    number = min(map(len, ended.values()))
    if all(len(side) == number and all(one.groups for one in side) for side in ended.values()):
        return [{side: (mine[place],) for side, mine in ended.items()} for place in range(number)]
    return [dict(ended)]


def one_side(sides: Sequence[Sequence[str]], name: str, other: str, *, stays: bool) -> MappingFunction:
    """Gives a mapping in which a policy plays one side and another the others: each side in turn, or (`stays`) always
    the same in a lane.
    """
    side_of = side_finder(sides)

    def rule(agent: str, episode: EpisodeInfo) -> str:
        turn = episode.lane if stays else episode.lane + episode.index
        return name if side_of(agent) == turn % len(sides) else other

    return rule


def frozen(policy: Policy) -> Policy:
    """Gives a copy of a policy that does not learn."""
    copy = deepcopy(policy)
    copy.requires_grad_(False)
    return copy


def scripted(like: Policy, name: str, player: str) -> ScriptedPolicy:
    """Gives a player as a policy for the agents of another."""
    return ScriptedPolicy(like.obs_spec, like.action_spec, find_player(player), name)


def snapshots_of(state: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Gives weights and statistics of each snapshot in the state of a run, by its name, ``main@3``."""
    kept = state["self_play"]["snapshots"]
    return {f"{name}{SNAPSHOT}{number}": each[number] for name, each in kept.items() for number in each}


def next_at(decisions: int, every: int) -> int:
    """Gives the next multiple of a number."""
    return (decisions // every + 1) * every


def exploiters_of(settings: Mapping[str, SelfPlayConfig]) -> dict[str, str]:
    """Gives the exploiters that there are, each with the policy that it learns to beat."""
    return {name + EXPLOITER: name for name, cfg in settings.items() if cfg.opponents == "league"}


def entry_layers(resolved: Resolved[Any]) -> list[Layer]:
    """Gives the entries of policies that a user need not write: the only policy's, and those of exploiters, which have
    the settings of the policy that they learn to beat.
    """
    layers = [] if resolved.config.policies else [Layer("default", {"policies.main": {}})]
    for exploiter, name in exploiters_of(resolved.config.self_play).items():
        before, after = f"policies.{name}.", f"policies.{exploiter}."
        given = {path: values[-1] for path, values in resolved.history.items() if path.startswith(before)}
        said = {path.replace(before, after, 1): value for path, (source, value) in given.items() if source != DEFAULT}
        layers.append(Layer("league", {f"policies.{exploiter}": {}, **said}))
    return layers


def check_self_play(resolved: Resolved[Any], env: VectorEnv, mapping: PolicyMapping) -> dict[str, str]:
    """Refuses settings of self-play that do not fit the game; gives the policy of each agent.

    Raises:
        ConfigError: With a line for each that is wrong.
    """
    settings: Mapping[str, SelfPlayConfig] = resolved.config.self_play
    policies, problems = resolved.config.policies, []

    def source(path: str) -> str:
        inside = (given for known, given in resolved.history.items() if known == path or known.startswith(f"{path}."))
        return next((given[-1][0] for given in inside), "code")

    def wrong(name: str, text: str) -> None:
        problems.append(f"{source(f'self_play.{name}')}: self_play.{name}: {text}")

    if not mapping.is_static:
        raise ConfigError(
            f"{source('self_play')}: self_play: policy_mapping is a function, and self-play draws who plays whom: "
            "give a dict from agent to policy, or none where one policy plays all"
        )
    episode = EpisodeInfo(0, 0, Streams(0))
    rule = {agent: mapping(agent, episode) for kind in env.kinds for agent in kind.agents}
    for name, cfg in settings.items():
        if name not in policies:
            wrong(name, f"no such policy{nearest(name, list(policies))}; there are {', '.join(policies)}")
        elif policies[name].frozen:
            wrong(name, f"the policy is frozen and learns nothing; remove policies.{name}.frozen")
        elif name not in rule.values():
            wrong(name, f"nobody plays it; policy_mapping has {', '.join(dict.fromkeys(rule.values()))}")
        if cfg.opponents == "league" and len(settings) > 1:
            wrong(name, "opponents = league is for games of one policy against itself; use prioritized")
        if cfg.anchors and has_own_episodes(env):
            wrong(name, f"anchors: games against them are played beside the training, not in {env.name}; remove them")
        for anchor, player in cfg.anchors.items():
            try:
                find_player(player)
            except ConfigError as error:
                problems.append(f"{source(f'self_play.{name}.anchors')}: self_play.{name}.anchors.{anchor}: {error}")
            if anchor in {*policies, *exploiters_of(settings)} or not re.fullmatch(r"[^\s/@=]+", anchor):
                wrong(name, f"anchors.{anchor}: a name of a policy, or one with spaces, @, / or =; choose another")
            first = next(one.anchors[anchor] for one in settings.values() if anchor in one.anchors)
            if player != first:
                wrong(name, f"anchors.{anchor} = {player}: is {first} for another policy; give one another name")
    for part in ("initial_rating", "k_factor"):
        if len({getattr(cfg, part) for cfg in settings.values()}) > 1:
            wrong(next(iter(settings)), f"{part} differs between policies, which are rated together: give all the same")
    refuse(problems)
    sides = sides_of(env)
    if len(sides) < 2:
        raise ConfigError(
            f"{source('self_play')}: self_play: {env.name} has one side only ({', '.join(rule)}), and nobody to play "
            "against: leave self_play out, or name groups in the environment that play against each other"
        )
    for side in sides.values():
        players = list(dict.fromkeys(rule[agent] for agent in side))
        if len(players) > 1:
            problems.append(
                f"policy_mapping: {', '.join(side)} are one side and are played by {', '.join(players)}: in self-play "
                "one policy plays a side"
            )
        elif players[0] not in settings:
            given, team = next(iter(settings)), players[0]
            problems.append(
                f"{source(f'self_play.{given}')}: self_play: side {', '.join(side)} is played by policy {team!r}, "
                f"which is missing; add self_play: {{{given}: {{}}, {team}: {{}}}}, so that both learn in turn"
            )
    refuse(problems)
    return rule
