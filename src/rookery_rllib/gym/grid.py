"""Classes of `gym.envs.toy_text` that scripts inherit from: today's, with the methods of 2021."""

from __future__ import annotations

from gymnasium.envs.toy_text.cliffwalking import CliffWalkingEnv as TodaysCliffWalking
from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv as TodaysFrozenLake
from gymnasium.envs.toy_text.taxi import TaxiEnv as TodaysTaxi

from rookery_rllib.gym.core import OldForm


class FrozenLakeEnv(OldForm, TodaysFrozenLake):  # type: ignore[misc]
    """A frozen lake with holes."""


class TaxiEnv(OldForm, TodaysTaxi):  # type: ignore[misc]
    """A taxi that carries passengers."""


class CliffWalkingEnv(OldForm, TodaysCliffWalking):  # type: ignore[misc]
    """A walk along a cliff."""
