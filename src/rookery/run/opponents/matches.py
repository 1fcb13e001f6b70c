"""Matches: games between policies with exchanged sides, their results and ratings.

The groups of an environment are its sides; an agent without a group is a side of its own. All pairs play at once,
assigned to the environments in turn, on random streams that no training uses. So the same command gives the same games,
and the run does not change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import combinations

from rookery.core.errors import ConfigError, nearest
from rookery.core.process.interrupt import Interrupt
from rookery.core.seeding import Role, Streams
from rookery.envs.base import Kind, VectorEnv, has_own_episodes
from rookery.policies.policy import Policy
from rookery.policies.scripted import ScriptedPolicy, find_player
from rookery.report.standings import Record, Standing
from rookery.rollout.hooks import EpisodeResult
from rookery.rollout.mapping import SNAPSHOT, EpisodeInfo, PolicyMapping
from rookery.run.evaluate.episode_limit import BoundedEpisodes
from rookery.run.opponents.ratings import Ratings, score_of
from rookery.run.opponents.self_play import sides_of
from rookery.run.run import Run

POOL_MEAN = 1200.0
"""Mean rating of a pool without a fixed player."""

LOOK_EVERY = 256
"""Vector steps between two reports of progress."""


@dataclass(frozen=True)
class Entrant:
    """Player in a match: policies or a scripted function.

    Attributes:
        name: Its name in tables and messages.
        policies: Its policies, by agent; it cannot play missing agents.
    """

    name: str
    policies: Mapping[str, Policy]

    def fits(self, agents: Sequence[str]) -> bool:
        """Returns whether the entrant can play all of these agents."""
        return all(agent in self.policies for agent in agents)


@dataclass(frozen=True)
class Game:
    """A game that is over.

    Attributes:
        a: One entrant.
        b: The other entrant.
        sides: Sides that `a` played.
        others: Sides that `b` played.
        score: Score of `a`: 1 won, 0.5 drawn, 0 lost.
        returns: Mean return of the sides of `a`, and of those of `b`.
        length: Environment steps.
    """

    a: str
    b: str
    sides: tuple[str, ...]
    others: tuple[str, ...]
    score: float
    returns: tuple[float, float]
    length: int


def check_sides(env: VectorEnv) -> dict[str, tuple[str, ...]]:
    """Returns the sides of an environment whose sides compete.

    Raises:
        ConfigError: If all its agents are one side, or have their own episodes, so that no game has a result.
    """
    if has_own_episodes(env):
        raise ConfigError(
            f"{env.name}: its agents have their own episodes, which do not show which of them were one game, so "
            "matches cannot be counted; rookery evaluate measures returns, and self_play rates policies as they train"
        )
    sides = sides_of(env)
    if len(sides) < 2:
        (agents,) = sides.values()
        why = f"all its agents ({', '.join(agents)}) are one side" if len(agents) > 1 else "it has one agent"
        raise ConfigError(f"{env.name}: {why}, so there is no opponent; rookery evaluate measures its return")
    return sides


# --- players ----------------------------------------------------------------------------------------------------------


def players_of_run(run: Run) -> dict[str, Policy]:
    """Returns all policies of a run by name, each after its snapshots: ``main@1``, ``main@2``, ``main``."""
    kept = run._self_play.snapshots
    found: dict[str, Policy] = {}
    for name, policy in run.policies.items():
        found |= {f"{name}{SNAPSHOT}{number}": snapshot for number, snapshot in sorted(kept.get(name, {}).items())}
        found[name] = policy
    return found


def entrant_of_run(run: Run, env: VectorEnv, name: str | None, called: str) -> Entrant:
    """Returns an entrant from a policy of a run, or from all of them as the run maps them.

    A policy plays the agents that the run maps to it, a snapshot those of its policy; if the mapping is a function, all
    agents with its spaces.

    Args:
        run: The run of the policies.
        env: Vectorized environments of the match.
        name: The policy, ``main`` or ``main@3``; None for all.
        called: Name of the entrant.

    Raises:
        ConfigError: If there is no such policy, or it has other spaces.
    """
    players = players_of_run(run)
    if name is None and len(run.policies) == 1:
        (name,) = run.policies
    if name is not None and name not in players:
        known = list(players)
        raise ConfigError(f"{called}: there is no policy {name!r}; there are {', '.join(known)}{nearest(name, known)}")
    base = None if name is None else name.partition(SNAPSHOT)[0]
    if base is not None:
        base = run._self_play.exploiters.get(base, base)
    found: dict[str, Policy] = {}
    seats: dict[tuple[str, Kind], Policy] = {}
    for kind in env.kinds:
        for agent in kind.agents:
            mapped = policy_of_agent(run, agent)
            if name is None and mapped is None:
                why = "is decided in every episode" if not run._mapping.is_static else "is not set in policy_mapping"
                raise ConfigError(
                    f"{called}: which of its policies plays {agent!r} {why}; name one of {', '.join(run.policies)}"
                )
            if base is not None and mapped not in (None, base):
                continue
            policy = seats.get((name or str(mapped), kind)) or adapted_to(players[name or str(mapped)], kind)
            if policy is not None:
                found[agent] = seats[name or str(mapped), kind] = policy
    if not found:
        raise ConfigError(misfit(called, run, env, name))
    return Entrant(called, found)


def adapted_to(policy: Policy, kind: Kind) -> Policy | None:
    """Returns a policy that can play agents of a kind, with the same weights; None if it has other spaces.

    Observations for critics only may differ.
    """
    if policy.action_spec != kind.action or policy.obs_spec.own != kind.obs.own:
        return None
    if policy.obs_spec == kind.obs:
        return policy
    seated = copy(policy)
    seated.obs_spec = kind.obs
    seated.own_spec = kind.obs.own
    seated.has_central = seated.own_spec is not kind.obs
    return seated


def policy_of_agent(run: Run, agent: str) -> str | None:
    """Returns the policy that a run maps an agent to; None if that is decided in every episode, or not set."""
    if not run._mapping.is_static:
        return None
    try:
        return run._mapping(agent, EpisodeInfo(0, 0, Streams(0)))
    except ConfigError:
        return None


def misfit(called: str, run: Run, env: VectorEnv, name: str | None) -> str:
    """Returns the reason why a run can play none of the agents."""
    players = players_of_run(run)
    policies = run.policies if name is None else {name: players[name]}
    made = "; ".join(
        f"{which} observes {policy.obs_spec.space} and acts in {policy.action_spec.space}"
        for which, policy in policies.items()
    )
    there = "; ".join(
        f"{', '.join(kind.agents)} observe {kind.obs.space} and act in {kind.action.space}" for kind in env.kinds
    )
    return f"{called}: it can play no agent of {env.name}: {made}, but {there}"


def scripted_entrant(env: VectorEnv, player: str, called: str, streams: Streams) -> Entrant:
    """Returns an entrant from a player function, ``my.module:function``, or ``random``.

    Raises:
        ConfigError: If there is no such function.
    """
    function, seed = find_player(player), streams.integer(Role.MATCH, called)
    found: dict[str, Policy] = {}
    for kind in env.kinds:
        policy = ScriptedPolicy(kind.obs, kind.action, function, called, seed)
        found |= dict.fromkeys(kind.agents, policy)
    return Entrant(called, found)


# --- games ------------------------------------------------------------------------------------------------------------


class Matches:
    """Games of pairs of entrants in a run's environment; sides are exchanged after every game.

    With more than two sides, the two entrants alternate around them, and the mean returns of their sides are compared.

    Args:
        run: The run of the environment.
        env: Its vectorized environments.
        entrants: The players; names must differ.
        pairs: Pairs of players, by name; None = each against each.
        games: Games of each pair, one more if the sides could not be exchanged evenly.
        deterministic: Whether the most likely actions are played.
        seed: Random seed of the games.
        interrupt: Ends the games if the user stops them.

    Attributes:
        pairs: The pairs that can play: the others cannot fill the sides.
        played: Finished games, in the order of their numbers.
        cut: Number of games that were cut at `evaluation.max_episode_steps`, and count with their returns so far.

    Raises:
        ConfigError: If no pair can play, or two entrants have the same name.
    """

    def __init__(
        self,
        run: Run,
        env: VectorEnv,
        entrants: Sequence[Entrant],
        pairs: Sequence[tuple[str, str]] | None,
        games: int,
        *,
        deterministic: bool,
        seed: int,
        interrupt: Interrupt | None = None,
    ) -> None:
        self.sides, self.entrants = check_sides(env), {entrant.name: entrant for entrant in entrants}
        if len(self.entrants) < len(entrants):
            names = ", ".join(entrant.name for entrant in entrants)
            raise ConfigError(f"match: every player needs a name of its own: {names}")
        wanted = list(combinations(self.entrants, 2)) if pairs is None else list(pairs)
        self._seatings = {pair: found for pair in wanted if (found := self._seated(*pair))}
        self.pairs = list(self._seatings)
        if not self.pairs:
            raise ConfigError(self._why_no_game(wanted))
        self.games = games + games % 2
        self.played: list[Game] = []
        self._policies: dict[str, Policy] = {}
        self._name_of: dict[tuple[str, int], str] = {}
        for entrant in entrants:
            for policy in dict.fromkeys(entrant.policies.values()):
                name = f"{entrant.name}/{len(self._policies)}"
                self._policies[name], self._name_of[entrant.name, id(policy)] = policy, name
        self._env, self._lanes = env, env.num_lanes
        self._episodes = BoundedEpisodes(
            env,
            self._policies,
            PolicyMapping(self._policy_of, list(self._policies)),
            Streams(run._streams.integer(Role.MATCH, seed)),
            deterministic=deterministic,
            episodes=self.games * len(self.pairs),
            limit=run.config.evaluation.max_episode_steps,
            interrupt=interrupt,
            draws=run._draws,
            lessons=run._draws.last() if run.config.evaluation.lesson == "last" else run._curriculum.lessons,
        )

    def _seated(self, a: str, b: str) -> list[dict[str, str]]:
        """Returns the possible assignments of sides to a pair: two, alternating, if both can play all sides."""
        ways: list[dict[str, str]] = []
        for pair in ((a, b), (b, a)):
            way = {}
            for number, (side, agents) in enumerate(self.sides.items()):
                turns = pair[number % 2], pair[1 - number % 2]
                able = [name for name in turns if self.entrants[name].fits(agents)]
                if able:
                    way[side] = able[0]
            if len(way) == len(self.sides) and {*way.values()} == {a, b} and way not in ways:
                ways.append(way)
        return ways

    def _why_no_game(self, wanted: Sequence[tuple[str, str]]) -> str:
        """Returns the reason why there is no game."""
        if not wanted:
            return f"match: {', '.join(self.entrants)} has no opponent"
        able = []
        for name, entrant in self.entrants.items():
            fitting = [side for side, agents in self.sides.items() if entrant.fits(agents)]
            able.append(f"{name} can play {', '.join(fitting) or 'none'}")
        return f"match: no two players fill the sides {', '.join(self.sides)}: {'; '.join(able)}"

    def _policy_of(self, agent: str, episode: EpisodeInfo) -> str:
        """Returns the policy of an agent in a game."""
        seating = self._seating(episode.index * self._lanes + episode.lane)
        side = next(side for side, agents in self.sides.items() if agent in agents)
        entrant = self.entrants[seating[side]]
        return self._name_of[entrant.name, id(entrant.policies[agent])]

    def _seating(self, number: int) -> dict[str, str]:
        """Returns the player of each side in a game; uncounted further episodes start again with the first game."""
        pair, game = divmod(number % (self.games * len(self.pairs)), self.games)
        ways = self._seatings[self.pairs[pair]]
        return ways[game % len(ways)]

    @property
    def total(self) -> int:
        """Number of games to play."""
        return self.games * len(self.pairs)

    @property
    def cut(self) -> int:
        """Number of games that were cut at the limit of steps."""
        return self._episodes.cut

    def play(self, watch: Callable[[int, int], None] = lambda played, total: None) -> list[Game]:
        """Plays all games; returns them.

        Args:
            watch: Called now and then with the number of finished games and of all games.

        Raises:
            EnvError: If the environment breaks its contract.
            Interrupted: If the user stops the match.
        """
        while not self._episodes.over:
            self._episodes.play(LOOK_EVERY)
            watch(len(self._episodes.finished), self.total)
        numbered = sorted((result.index * self._lanes + result.lane, result) for result in self._episodes.finished)
        self.played = [self._game(number, result) for number, result in numbered]
        return self.played

    def _game(self, number: int, result: EpisodeResult) -> Game:
        (a, b), seating = self.pairs[number // self.games], self._seating(number)
        earned = side_returns(result, self.sides)

        def mean(entrant: str) -> float:
            own = [value for side, value in earned.items() if seating[side] == entrant]
            return sum(own) / len(own)

        sides, others = (tuple(side for side, player in seating.items() if player == name) for name in (a, b))
        return Game(a, b, sides, others, score_of(mean(a), mean(b)), (mean(a), mean(b)), result.length)


def side_returns(result: EpisodeResult, sides: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """Returns the return of each side in an episode, including that of its group."""
    return {
        side: sum(result.agents.get(agent, 0.0) for agent in agents) + result.groups.get(side, 0.0)
        for side, agents in sides.items()
    }


# --- results ----------------------------------------------------------------------------------------------------------


def standings_of(games: Sequence[Game], names: Sequence[str], anchors: Mapping[str, float]) -> list[Standing]:
    """Returns the standings of players: ratings that make the games most likely, and the games behind them.

    Args:
        games: All games.
        names: The players.
        anchors: Rating of each player with a fixed rating. Without any, the mean of all is `POOL_MEAN`.
    """
    ratings = Ratings(POOL_MEAN, 1.0)
    for name in names:
        ratings.add(name, anchors.get(name, POOL_MEAN), name in anchors)
    counts: dict[str, Record] = dict.fromkeys(names, Record())
    against: dict[str, dict[str, Record]] = {name: {} for name in names}
    by_side: dict[str, dict[str, Record]] = {name: {} for name in names}
    for game in games:
        ratings.played(game.a, game.b, game.score)
        for me, other, score, sides in (
            (game.a, game.b, game.score, game.sides),
            (game.b, game.a, 1.0 - game.score, game.others),
        ):
            counts[me] = counts[me].plus(score)
            against[me][other] = against[me].get(other, Record()).plus(score)
            if len(sides) == 1:
                by_side[me][sides[0]] = by_side[me].get(sides[0], Record()).plus(score)
    return [
        Standing(name, rating, error, name in anchors, counts[name], against[name], by_side[name])
        for name, (rating, error) in ratings.fit().items()
    ]


def remarks(games: Sequence[Game], cut: int, certain: Sequence[str]) -> list[str]:
    """Returns remarks on games that make their ratings less meaningful, a line each.

    Args:
        games: All games.
        cut: Number of games that were cut at the limit of steps.
        certain: Deterministic players.
    """
    found = []
    if games and all(game.score == 0.5 for game in games):
        earned = {value for game in games for value in game.returns}
        why = "all returns were the same" if len(earned) == 1 else "both sides always earned the same"
        found.append(
            f"all {len(games):,} games were drawn ({why}), so these ratings mean nothing: does a win pay more?"
        )
    if cut:
        found.append(f"{cut:,} games were cut at evaluation.max_episode_steps and count with their returns so far")
    alike: dict[tuple[str, str, tuple[str, ...]], list[Game]] = {}
    for game in games:
        if game.a in certain and game.b in certain:
            alike.setdefault((game.a, game.b, game.sides), []).append(game)
    repeated = [some[0] for some in alike.values() if len(some) > 2 and all(game == some[0] for game in some)]
    if repeated:
        one = repeated[0]
        found.append(
            f"{len(repeated)} of {len(alike)} deterministic pairings had the same result in every game, such as "
            f"{one.a} and {one.b}: without randomness many games are one, and error bars are too short; make policies "
            "sample their actions"
        )
    return found
