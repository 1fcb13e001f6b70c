"""Rating games: games for ratings only, in separate environments and with separate random streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager

from rookery.core.seeding import Role, Streams
from rookery.envs.base import VectorEnv
from rookery.envs.parameters import Draws
from rookery.policies.policy import Policy
from rookery.rollout.mapping import EpisodeInfo, PolicyMapping
from rookery.run.evaluate.episode_limit import BoundedEpisodes
from rookery.run.opponents.ratings import score_of
from rookery.run.opponents.self_play import Scores, returns_of, sides_of
from rookery.run.settings import RunConfig

RIVAL = "rival of "
"""Prefix of the name of a policy whose sides another player plays."""


class RatingGames:
    """Plays games of a run's environment between two players, without learning and without an effect on training.

    Args:
        config: Settings of the run.
        draws: Samplers of environment parameters, in their last lessons.
        streams: Streams of the run.
        mapping: The policy of each agent.
        copies: Returns vectorized environments of a size (`Run._copies`).
    """

    def __init__(
        self,
        config: RunConfig,
        draws: Draws,
        streams: Streams,
        mapping: PolicyMapping,
        copies: Callable[[int], AbstractContextManager[VectorEnv]],
    ) -> None:
        self._config, self._draws, self._streams, self._mapping = config, draws, streams, mapping
        self._copies = copies

    def __call__(self, name: str, policy: Policy, others: Mapping[str, Policy], games: int, key: str) -> Scores:
        """Returns the scores of a policy in games; see `run/opponents/self_play.py:Match`."""
        with self._copies(min(games, self._config.evaluation.num_envs)) as env:
            sides = sides_of(env)
            owner = [self._mapping(side[0], EpisodeInfo(0, 0, Streams(0))) for side in sides.values()]
            own = [number for number, one in enumerate(owner) if one == name]
            side_of = {agent: number for number, side in enumerate(sides.values()) for agent in side}

            def rule(agent: str, episode: EpisodeInfo) -> str:
                side = side_of[agent]
                mine = own[(episode.lane + episode.index) % len(own)]
                rival = RIVAL + owner[side]
                return name if side == mine or rival not in players else rival

            players = {name: policy, **{RIVAL + one: other for one, other in others.items()}}
            played = BoundedEpisodes(
                env,
                players,
                PolicyMapping(rule, list(players)),
                Streams(self._streams.integer(Role.MATCH, name, key)),
                deterministic=False,
                episodes=games,
                limit=self._config.evaluation.max_episode_steps,
                draws=self._draws,
                lessons=self._draws.last(),
            )
            played.play()
        return [score for episode in played.finished for score in _scores(returns_of(sides, episode), name)]


def _scores(earned: Sequence[tuple[str, float]], name: str) -> Scores:
    """Returns the scores of a player against each other side, with the policy of that side."""
    mine = [value for one, value in earned if one == name]
    return [(one.removeprefix(RIVAL), score_of(value, other)) for value in mine for one, other in earned if one != name]
