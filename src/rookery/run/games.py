"""Connects learners to what their environments know: judges of goals, rules and symmetries of games."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rookery.algorithms.algorithm import Algorithm
from rookery.core.errors import ConfigError
from rookery.envs.base import VectorEnv
from rookery.envs.placeholder_env import PlaceholderEnv
from rookery.models.search_head import SearchHead
from rookery.rollout.searching import rules_of
from rookery.run.goals import replay_goals


def connect_env(learner: Algorithm[Any], env: VectorEnv, make_copies: Callable[[int], VectorEnv]) -> None:
    """Gives a learner what it needs of its environment: judges of goals, symmetries of games; see `replay_goals`."""
    replay_goals(learner, env, make_copies)
    prepare_search(learner, env)


def prepare_search(learner: Algorithm[Any], env: VectorEnv) -> None:
    """Checks that the policy of a learner can search in an environment, and passes the symmetries of the game to the
    learner; does nothing for a policy that does not search.

    Raises:
        ConfigError: If the environment has no rules that a search can use.
    """
    if not isinstance(learner.policy.head_spec, SearchHead) or isinstance(env, PlaceholderEnv):
        return
    game = rules_of(env)
    if game is None:
        raise ConfigError(
            f"policies.{learner.name}.name = alphazero: a search cannot play on from states of {env.name}: it needs "
            "a BoardGame (rookery.tasks.games.board_games), or a Gymnasium environment with get_state() and "
            "set_state(state), or one of Gymnasium's own, in this process (env.implementation=serial, "
            "sampling.helpers=0); without these use ppo or dqn"
        )
    learner.symmetry = game.symmetries  # type: ignore[attr-defined]
