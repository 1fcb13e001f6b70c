"""Self-play: policies that learn by playing against their current and earlier versions.

The sides of a game are the groups that its environment names, or else its agents. A *snapshot* is a frozen copy of a
policy, named ``main@3``. A *lineup* has the possible opponents of each policy (`rollout/mapping.py:OpponentMapping`).
It changes when a policy has learned (`SelfPlay.learned`), and is distributed together with weights. Ratings are updated
with the result of each game.
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
"""Suffix of the name of an exploiter, after the name of its policy."""

EXPLOITER_SHARE = 1 / 3
"""Share of a league's episodes in which the exploiter learns instead of the main policy."""

BEATEN = 0.7
"""Mean score of its latest games against the main policy at which an exploiter has found a weakness."""

PATIENCE = 5
"""Multiple of `snapshot_every` after which an exploiter restarts in any case."""

OLD_SCORE = 0.98
"""Decay of a game's weight with each further game, where opponents are drawn by win rate."""

EVEN_AFTER = 200
"""Number of drawn games without any other result after which a note reports that ratings are meaningless."""


@dataclass(frozen=True)
class SelfPlayConfig(Settings):
    """Self-play of a policy against itself, or against another policy in turn."""

    snapshot_every: Count = 20_000
    """Decisions that the policy learns from between two snapshots; the first is taken before it has learned."""
    window: Few | None = 10
    """Number of latest snapshots that are opponents; none = all."""
    latest_ratio: Fraction = 0.5
    """Share of opponents that are the current policy; the others are snapshots. A policy that plays against itself
    learns from both sides.
    """
    swap_every: CountFromZero = 2000
    """Decisions that the policy learns from between two draws of opponents, which apply from the next episode of each
    environment; 0 = drawn for every episode. A draw also follows each snapshot.
    """
    team_change_every: Count | None = None
    """For two policies: decisions after which the other one learns; none = 5 times `snapshot_every`."""
    opponents: Literal["uniform", "prioritized", "league"] = "uniform"
    """Sampling of snapshots: ``uniform``; ``prioritized``: by how often the policy loses to them; ``league``:
    prioritized, and an exploiter learns to beat the policy, whose snapshots are opponents too.
    """
    weighting: Literal["hard", "even"] = "hard"
    """Weight of an opponent against which the policy wins a share p of the games: ``hard`` (1 - p)^2, ``even``
    p (1 - p) (Vinyals et al. 2019, prioritized fictitious self-play).
    """
    initial_rating: float = 1200.0
    """Initial rating of the policy, and fixed rating of the first anchor."""
    k_factor: PositiveFloat = 16.0
    """Maximum number of rating points by which a game changes a rating."""
    anchors: dict[Label, Annotated[str, Reaches("code", but=("random",))]] = field(default_factory=dict)
    """Fixed opponents, for ratings only: a player by name, ``random`` or ``my.module:function``. The rating of the
    first is fixed.
    """
    rating_games: CountFromZero = 20
    """Rating games against each anchor and the previous snapshot, played with each snapshot; 0 = none. Asynchronous
    environments have none: ratings come from training games.
    """

    @property
    def turn(self) -> int:
        """Number of decisions after which the other policy learns."""
        return self.team_change_every or 5 * self.snapshot_every


class Contender(Stateful):
    """Progress of one policy in self-play.

    Args:
        cfg: Its settings.
    """

    saved = ("taken", "window", "snapshot_at", "deal", "deal_at", "turn_at", "scores", "recent", "games", "anchors",
             "began_at")  # fmt: skip
    fixed = ("cfg",)

    def __init__(self, cfg: SelfPlayConfig) -> None:
        self.cfg = cfg
        self.taken = 0
        """Number of snapshots so far, which is the number of the latest."""
        self.window: list[int] = []
        """Numbers of the snapshots that are opponents."""
        self.snapshot_at = cfg.snapshot_every
        """Decisions at which the next snapshot is taken."""
        self.deal = 0
        """Number of draws of opponents."""
        self.deal_at = cfg.swap_every
        self.turn_at = cfg.turn
        self.began_at = 0
        """Decisions at which an exploiter restarted."""
        self.scores: dict[str, list[float]] = {}
        """Against each opponent: weighted score and weight of the games; later games count more."""
        self.recent: deque[float] = deque(maxlen=WINDOW)
        """Scores of the latest games, without those against itself."""
        self.games = 0
        self.anchors: dict[str, float] = {}
        """Mean score in the latest rating games against each anchor."""

    def played(self, opponent: str, score: float) -> None:
        """Adds the score of a game, in [0, 1]."""
        self.games += 1
        self.recent.append(score)
        kept = self.scores.setdefault(opponent, [0.0, 0.0])
        kept[0], kept[1] = OLD_SCORE * kept[0] + score, OLD_SCORE * kept[1] + 1.0

    def win_rate(self, opponent: str) -> float | None:
        """Returns the mean score against an opponent, where later games count more; None before the first game."""
        score, weight = self.scores.get(opponent, (0.0, 0.0))
        return score / weight if weight else None

    def take(self) -> list[int]:
        """Counts a snapshot; returns the numbers of the snapshots that are opponents from now on."""
        self.taken += 1
        size = self.cfg.window
        self.window = [*self.window, self.taken][-size:] if size else [*self.window, self.taken]
        return self.window

    def weights(self, opponents: Sequence[str]) -> dict[str, float]:
        """Returns the probability of each opponent."""
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
    """Self-play of a run: opponents of each policy, ratings and snapshots.

    Args:
        resolved: Settings of the run.
        env: Its vectorized environments.
        mapping: The policy of each agent.
        streams: Its streams.

    Attributes:
        sides: Agents of each side, by the name of their group or agent.
        contenders: Policies in self-play, and exploiters.
        snapshots: Snapshots of each contender, by number.
        ratings: Ratings of contenders, snapshots and anchors.
        turn: The policy that learns now, where several learn in turn.
        lineup: The possible opponents of each policy.

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
        """Policies that have reached their `max_decisions`."""
        self.exploiters = exploiters_of(settings)
        self.contenders = {name: Contender(cfg) for name, cfg in settings.items()}
        self.contenders |= {name: Contender(settings[of]) for name, of in self.exploiters.items()}
        self.snapshots: dict[str, dict[int, Policy]] = {name: {} for name in self.contenders}
        self.templates: dict[str, Policy] = {}
        self.initial: dict[str, tuple[Any, Any]] = {}
        """Initial states of the policy and learner of each exploiter."""
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
        """Adds the number of draws of opponents to states of version 1, where it had no effect."""
        return {**state, "lineup": {"round": 0, **state["lineup"]}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores the result of `state_dict`, once all policies exist."""
        for name, snapshots in state["snapshots"].items():
            mine = self.snapshots[name]  # workers hold this dict
            mine.clear()
            for number, weights in snapshots.items():
                mine[number] = frozen(self.templates[name])
                mine[number].load_state_dict(weights)
        held = self.snapshots
        super().load_state_dict({**state, "snapshots": {}})
        self.snapshots = held

    # --- policies -----------------------------------------------------------------------------------------------------

    def with_exploiters(self, kinds: Mapping[str, Kind]) -> dict[str, Kind]:
        """Returns the policies of a run with the kinds of their agents, including exploiters."""
        return {**kinds, **{name: kinds[of] for name, of in self.exploiters.items() if of in kinds}}

    def introduce(self, name: str, learner: Algorithm[Any], pool: WorkerPool) -> None:
        """Adds a policy to self-play if enabled in the settings: the policy and its first snapshot are opponents from
        now on.
        """
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
        """Returns the policies that a policy competes with: those of the other teams, or else itself."""
        own = self.exploiters.get(name, name)
        return [team for team in self.teams if team != own] or [own]

    def is_learning(self, name: str) -> bool:
        """Returns whether a policy learns from current episodes."""
        return name not in self.contenders or name in self.lineup["learn"]

    # --- learning -----------------------------------------------------------------------------------------------------

    def learned(self, name: str, decisions: int, learner: Algorithm[Any], pool: WorkerPool, match: Match) -> None:
        """Takes a snapshot, draws new opponents or changes the learning policy, if it is time.

        Args:
            name: The policy that has learned.
            decisions: Number of decisions that it has learned from.
            learner: Its learner.
            pool: Receives the lineup if it changes.
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
        """Passes the turn to a team that still learns, if the current one has stopped learning and another has not.

        Args:
            pool: Receives the lineup if it changes.
        """
        if self.turn in self.retired and (following := self._next_turn(self.turn)) not in self.retired:
            self.turn = following
            pool.change_opponents(self._deal())

    def _next_turn(self, name: str) -> str:
        """Returns the next team that still learns, possibly the same one; if none does, the next team."""
        place = self.teams.index(name)
        following = [*self.teams[place + 1 :], *self.teams[: place + 1]]
        return next((team for team in following if team not in self.retired), following[0])

    def _exploit(self, name: str, decisions: int, learner: Algorithm[Any]) -> bool:
        """Makes an exploiter that wins, or has tried for long, an opponent of the main policy, and restarts it; returns
        whether it does.
        """
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
        """Takes a snapshot, with the rating of its policy."""
        mine = self.contenders[name]
        window = mine.take()
        self.snapshots[name][mine.taken] = frozen(policy)
        self.ratings.add(f"{name}{SNAPSHOT}{mine.taken}", self.ratings.of(name))
        self.lineup["kept"] = {**self.lineup["kept"], name: list(window)}

    def _deal(self) -> dict[str, Any]:
        """Makes a new lineup, for which all opponents are drawn again."""
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
        """Returns the players of a policy's sides against one that learns, and their probabilities."""
        mine = self.contenders[name]
        past: list[str] = []
        if name not in self.exploiters:  # exploiters only play the current main policy
            rivals = [policy, *(one for one, of in self.exploiters.items() if of == policy)]
            past = [f"{one}{SNAPSHOT}{number}" for one in rivals for number in self.lineup["kept"][one]]
        now = mine.cfg.latest_ratio if past else 1.0
        shares = {name if policy == name else policy + NOW: now}
        shares |= {one: (1.0 - now) * weight for one, weight in mine.weights(past).items()}
        met = {one: share for one, share in shares.items() if share > 0.0}
        each = not mine.cfg.swap_every
        return {"names": list(met), "shares": list(met.values()), "deal": mine.deal, "each": each}

    # --- games --------------------------------------------------------------------------------------------------------

    def on_episodes(self, finished: Iterable[EpisodeResult], note: Callable[[str], None]) -> None:
        """Rates finished games.

        Args:
            finished: The games.
            note: Called with notes for the user.
        """
        for earned in self._games(finished):
            if len(earned) < 2:
                continue
            self.games += 1
            self.is_even &= all(score_of(earned[0][1], other) == 0.5 for _, other in earned)
            for place, (name, mine) in enumerate(earned):
                for other, its in earned[place + 1 :]:
                    self._note(name, other, score_of(mine, its))
        if self.is_even and not self.told and self.games >= EVEN_AFTER:
            self.told = True
            note(
                f"self_play: in {self.games} games no side has earned more than another, so ratings mean nothing: an "
                "environment in which sides compete must give the winner more"
            )

    def _games(self, finished: Iterable[EpisodeResult]) -> Iterator[list[tuple[str, float]]]:
        """Yields for each game the policy and the return of each side.

        Where agents have their own episodes, those that end in one step of a lane are one game; it counts if it has
        several sides with one policy each. They are several games if equally many groups of each side end, as in scenes
        with several areas: the first group of a side played against the first groups of the others.
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
        """Counts a game between two players, with the score of the first."""
        if a == b:
            return
        self.ratings.played(a, b, score)
        for name, other, its in ((a, b, score), (b, a, 1.0 - score)):
            if name in self.lineup["learn"] and self.exploiters.get(other) != name:  # the exploiter's fixed target
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
        """Returns the progress of each policy, for results."""
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
        """Returns the policies and their mapping for evaluations: policies of two teams unchanged, a single one against
        its latest snapshot, on each side in turn.

        Args:
            policies: All current policies of the run.
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
"""Scores of a policy in games, each with the policy of the other side."""


class Match(Protocol):
    """Plays games of a policy without learning."""

    def __call__(self, name: str, policy: Policy, others: Mapping[str, Policy], games: int, key: str) -> Scores:
        """Returns the scores of a policy in some games, in [0, 1].

        Args:
            name: Name of the policy: it plays one of its sides in each game.
            policy: The policy.
            others: Players of the other sides, by the policy of the side.
            games: Number of games.
            key: Key of the random stream, together with the policy's name.
        """
        ...


LATER = "later"
"""Name of the side of a team that has not appeared yet."""


def sides_of(env: VectorEnv) -> dict[str, tuple[str, ...]]:
    """Returns the agents of each side of a game: the groups of an environment, and each other agent by itself; those
    of each team, where agents have their own episodes and teams (``Striker#2?team=1``). If only one team is there, the
    other has no agents yet: in a game of turns, a team appears with its first turn.
    """
    if has_own_episodes(env):
        teams: dict[str, list[str]] = {}
        for kind in env.kinds:
            for agent in kind.agents:
                teams.setdefault(team_of(agent), []).append(agent)
        if "" not in teams:
            found = {team: tuple(agents) for team, agents in sorted(teams.items())}
            return found if len(found) > 1 else {**found, LATER: ()}
    groups = groups_of(env)
    grouped = {agent for members in groups.values() for agent in members}
    return {**groups, **{agent: (agent,) for kind in env.kinds for agent in kind.agents if agent not in grouped}}


def returns_of(sides: Mapping[str, Sequence[str]], episode: EpisodeResult) -> list[tuple[str, float]]:
    """Returns the policy and the return of each side of an episode, its agents and their group together; sides without
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
    """Splits the episodes of agents and groups that ended in one step of a lane into games.

    Args:
        ended: Finished episodes, by side.

    Returns:
        The episodes of each game, by side: the nth group of each side, if all sides have equally many groups and no
        other agents; otherwise all episodes as one game, since the opponents of an agent are unknown.
    """
    number = min(map(len, ended.values()))
    if all(len(side) == number and all(one.groups for one in side) for side in ended.values()):
        return [{side: (mine[place],) for side, mine in ended.items()} for place in range(number)]
    return [dict(ended)]


def one_side(sides: Sequence[Sequence[str]], name: str, other: str, *, stays: bool) -> MappingFunction:
    """Returns a mapping in which a policy plays one side and another policy the other sides: each side in turn, or
    (`stays`) always the same in a lane.
    """
    side_of = side_finder(sides)

    def rule(agent: str, episode: EpisodeInfo) -> str:
        turn = episode.lane if stays else episode.lane + episode.index
        return name if side_of(agent) == turn % len(sides) else other

    return rule


def frozen(policy: Policy) -> Policy:
    """Returns a copy of a policy that does not learn."""
    copy = deepcopy(policy)
    copy.requires_grad_(False)
    return copy


def scripted(like: Policy, name: str, player: str) -> ScriptedPolicy:
    """Returns a player as a policy for the agents of another policy."""
    return ScriptedPolicy(like.obs_spec, like.action_spec, find_player(player), name)


def snapshots_of(state: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Returns weights and statistics of each snapshot in the state of a run, by its name, ``main@3``."""
    kept = state["self_play"]["snapshots"]
    return {f"{name}{SNAPSHOT}{number}": each[number] for name, each in kept.items() for number in each}


def next_at(decisions: int, every: int) -> int:
    """Returns the next multiple of a number."""
    return (decisions // every + 1) * every


def exploiters_of(settings: Mapping[str, SelfPlayConfig]) -> dict[str, str]:
    """Returns the exploiters, each with the policy that it learns to beat."""
    return {name + EXPLOITER: name for name, cfg in settings.items() if cfg.opponents == "league"}


def entry_layers(resolved: Resolved[Any]) -> list[Layer]:
    """Returns the implicit entries of policies: that of a single policy, and those of exploiters, which have the
    settings of the policy that they learn to beat.
    """
    layers = [] if resolved.config.policies else [Layer("default", {"policies.main": {}})]
    for exploiter, name in exploiters_of(resolved.config.self_play).items():
        before, after = f"policies.{name}.", f"policies.{exploiter}."
        given = {path: values[-1] for path, values in resolved.history.items() if path.startswith(before)}
        copied = {path.replace(before, after, 1): value for path, (source, value) in given.items() if source != DEFAULT}
        layers.append(Layer("league", {f"policies.{exploiter}": {}, **copied}))
    return layers


def check_self_play(resolved: Resolved[Any], env: VectorEnv, mapping: PolicyMapping) -> dict[str, str]:
    """Refuses settings of self-play that do not fit the game; returns the policy of each agent.

    Raises:
        ConfigError: With a line for each wrong setting.
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
            f"{source('self_play')}: self_play: policy_mapping is a function, but self-play draws the opponents: "
            "give a dict from agent to policy, or none if one policy plays all agents"
        )
    episode = EpisodeInfo(0, 0, Streams(0))
    rule = {agent: mapping(agent, episode) for kind in env.kinds for agent in kind.agents}
    for name, cfg in settings.items():
        if name not in policies:
            wrong(name, f"no such policy{nearest(name, list(policies))}; there are {', '.join(policies)}")
        elif policies[name].frozen:
            wrong(name, f"the policy is frozen and learns nothing; remove policies.{name}.frozen")
        elif name not in rule.values():
            wrong(name, f"it plays no agent; policy_mapping has {', '.join(dict.fromkeys(rule.values()))}")
        if cfg.opponents == "league" and len(settings) > 1:
            wrong(name, "opponents = league is for games of one policy against itself; use prioritized")
        if cfg.anchors and has_own_episodes(env):
            wrong(name, f"anchors: {env.name} cannot play games against them outside the training; remove them")
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
            f"{source('self_play')}: self_play: {env.name} has one side only ({', '.join(rule)}), and no opponent: "
            "leave self_play out, or name groups in the environment that play against each other"
        )
    for side in filter(None, sides.values()):
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
                f"which is missing; add self_play: {{{given}: {{}}, {team}: {{}}}}, so that both learn in turn (in a "
                f"file of ML-Agents, a section self_play of {team}); agents that take no side cannot be in the game"
            )
    refuse(problems)
    return rule
