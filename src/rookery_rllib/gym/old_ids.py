"""Environment ids of `gym` of 2021, and their current ids: `current_id`."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import gymnasium

from rookery.face import install_line


@dataclass(frozen=True)
class CurrentId:
    """Current environment of an id of 2021.

    Attributes:
        id: Gymnasium's id.
        kwargs: Keyword arguments of the environment.
        max_episode_steps: Step limit of an episode, if it differs from Gymnasium's.
        line: Note for the user; empty if nothing has changed.
    """

    id: str
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    max_episode_steps: int | None = None
    line: str = ""

    def __str__(self) -> str:
        settings = f" with {dict(self.kwargs)}" if self.kwargs else ""
        return f"{self.id}{settings}" + (f", {self.max_episode_steps} steps" if self.max_episode_steps else "")


_SAME_TASK = "the same task"
OLD_IDS = {
    "CartPole-v0": CurrentId("CartPole-v1", {}, 200, "the same task, with the 200 steps an episode of v0"),
    "Pendulum-v0": CurrentId("Pendulum-v1", {}, None, _SAME_TASK),
    "LunarLander-v2": CurrentId("LunarLander-v3", {}, None, "wind and a few constants were repaired"),
    "LunarLanderContinuous-v2": CurrentId(
        "LunarLander-v3", {"continuous": True}, None, "a few constants were repaired"
    ),
    "BipedalWalker-v2": CurrentId("BipedalWalker-v3", {}, None, "the reward was repaired"),
    "BipedalWalkerHardcore-v2": CurrentId("BipedalWalkerHardcore-v3", {}, None, "the reward was repaired"),
    "CarRacing-v0": CurrentId("CarRacing-v3", {}, None, "physics and track were repaired"),
    "FrozenLake-v0": CurrentId("FrozenLake-v1", {}, None, _SAME_TASK),
    "FrozenLake8x8-v0": CurrentId("FrozenLake8x8-v1", {}, None, _SAME_TASK),
    "Taxi-v2": CurrentId("Taxi-v3", {}, None, _SAME_TASK),
    "CliffWalking-v0": CurrentId("CliffWalking-v1", {}, None, _SAME_TASK),
    "Blackjack-v0": CurrentId("Blackjack-v1", {}, None, _SAME_TASK),
}
"""Ids of 2021 whose environments have another id today."""

GONE_IDS = {
    "NChain-v0": "Gym removed it in 2021; the chain of five states is easily written as an environment",
    "Roulette-v0": "Gym removed it in 2021",
    "CubeCrash-v0": "Gym removed it in 2021",
    "MemorizeDigits-v0": "Gym removed it in 2021",
    "Copy-v0": "Gym removed the algorithmic tasks in 2021; rookery.tasks has RepeatPrevious",
    "FetchReach-v1": "install gymnasium-robotics and use its current id",
    "HandReach-v0": "install gymnasium-robotics and use its current id",
}
"""Ids of 2021 that no longer exist."""

MUJOCO = re.compile(
    r"(Ant|HalfCheetah|Hopper|Humanoid|HumanoidStandup|InvertedPendulum|InvertedDoublePendulum|Pusher|Reacher|Swimmer|"
    r"Walker2d)-v([1-4])"
)
ATARI = re.compile(r"([A-Z]\w*?)(-ram)?(NoFrameskip|Deterministic)?-v([04])")


def current_id(name: str) -> CurrentId:
    """Returns the current environment of an id of 2021; the id itself if it is still in use."""
    if (found := OLD_IDS.get(name)) is not None:
        return replace(found, id=_registered(found.id))
    if MUJOCO.fullmatch(name) is not None:
        line = "MuJoCo's new bindings; observations and rewards of some tasks differ a little"
        return CurrentId(_registered(name.rpartition("-v")[0] + "-v5"), line=line)
    if (match := ATARI.fullmatch(name)) is not None and (atari := _atari(name, match)) is not None:
        return atari
    newest = _registered(name)
    return CurrentId(newest, line="" if newest == name else "a later version of the task")


def _registered(name: str) -> str:
    """Returns the id, or its highest registered version if it is not registered."""
    base, _, version = name.rpartition("-v")
    if name in gymnasium.registry or not version.isdigit():
        return name
    versions = [int(known.rpartition("-v")[2]) for known in gymnasium.registry if _is_version(known, base)]
    return f"{base}-v{max(versions)}" if versions else name


def _is_version(known: str, base: str) -> bool:
    return known.rpartition("-v")[0] == base and known.rpartition("-v")[2].isdigit()


def _atari(name: str, match: re.Match[str]) -> CurrentId | None:
    """Returns a game of ALE with the settings of its id of 2021, None if ALE has no such game."""
    game, ram, kind, version = match.groups()
    if importlib.util.find_spec("ale_py") is None:
        if kind is not None:
            needs = f"{name} needs the package ale-py: {install_line('atari')}"
            raise gymnasium.error.DependencyNotInstalled(needs)
        return None
    gymnasium.register_envs(importlib.import_module("ale_py"))
    if f"ALE/{game}-v5" not in gymnasium.registry:
        return None
    fixed_skip = 3 if game == "SpaceInvaders" else 4
    frames: dict[str | None, int | tuple[int, int]] = {"NoFrameskip": 1, "Deterministic": fixed_skip, None: (2, 5)}
    kwargs = {
        "frameskip": frames[kind],
        "repeat_action_probability": 0.25 if version == "0" else 0.0,
        "obs_type": "ram" if ram else "rgb",
    }
    limit = 400_000 if kind == "NoFrameskip" else 10_000 if (kind, version) == (None, "0") else 100_000
    return CurrentId(f"ALE/{game}-v5", kwargs, limit, "the same game, by ALE")
