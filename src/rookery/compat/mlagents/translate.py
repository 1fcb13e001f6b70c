"""Settings of a Rookery run from the options of an ML-Agents run: `layers_of`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rookery.compat.mlagents.options import RunOptions
from rookery.core.layers import Layer
from rookery.core.spaces import ActionSpec, ObsSpec


@dataclass(frozen=True)
class BehaviorSpaces:
    """What agents of a behaviour see and do.

    Attributes:
        obs: Observations.
        actions: Actions.
        agents: Names of the agents that belong to the behaviour; empty = all.
        teams: Numbers of its teams, as ``Name?team=0`` says them; one or none where it does not play against itself.
    """

    obs: ObsSpec
    actions: ActionSpec
    agents: tuple[str, ...] = ()
    teams: tuple[int, ...] = ()


def layers_of(options: RunOptions, behaviors: Mapping[str, BehaviorSpaces]) -> list[Layer]:
    """Gives the settings of our run, lowest layer first.

    The source of each value is the line of the file that decided it, ``ball.yaml:12 max_steps``, so that ``rookery
    explain`` names it.

    Args:
        options: Options of the run.
        behaviors: What the environment has, by the names of behaviours.

    Raises:
        ConfigError: If a behaviour has no options, or a key means nothing here; says which, where, and what to do.
    """
    raise NotImplementedError
