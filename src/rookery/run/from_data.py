"""Training on data alone: what a run is made of where nobody plays, and its spaces come from replay of others."""

from __future__ import annotations

from typing import Any

from rookery.core.errors import ConfigError
from rookery.core.settings.layers import Layer
from rookery.envs.adapters.gym_env import AGENT
from rookery.envs.base import Kind
from rookery.envs.placeholder_env import DATA, PlaceholderEnv, description
from rookery.replay.filtered_rows import count_filtered
from rookery.replay.segments import StoredReplay, check_spaces, find_replay
from rookery.run.settings import RunConfig, settings_of

ROOM = 100_000
"""Decisions that a policy can play after its training on data before replay forgets the oldest of these."""


def data_of(config: RunConfig) -> dict[str, list[StoredReplay]]:
    """Finds the data of each policy that learns from data alone, by its name.

    Raises:
        ConfigError: If it is not clear which is meant.
        FileError: If there are none where they are looked for.
    """
    found = {}
    for name in list(config.policies) or ["main"]:
        cfg: Any = settings_of(config, name)
        if not cfg.capabilities.offline:
            continue
        if cfg.replay.mix and not cfg.capabilities.supports_online_finetune:
            raise ConfigError(
                f"policies.{name}.replay.mix: this algorithm goes through all of its data alike, and draws no part of "
                "a batch from each; name them as replay.start_from (--replay PATH, without *PART)"
            )
        found[name] = [find_replay(source, name) for source in (*cfg.replay.start_from, *cfg.replay.mix)]
    return found


def capacity_layers(config: RunConfig) -> list[Layer]:
    """Gives the settings with which the replay of policies that learn from data alone holds all that is copied of
    these; of those that can go on by playing, as much again, and `ROOM` at least.
    """
    values = {}
    for name, data in data_of(config).items():
        prefix = f"policies.{name}" if config.policies else "algorithm"
        cfg: Any = settings_of(config, name)
        if data:
            copied = data[: len(cfg.replay.start_from)]  # what is mixed in has buffers of its own
            size = sum(count_filtered(stored, cfg.replay.select) for stored in copied)
            room = max(size, ROOM) if cfg.capabilities.supports_online_finetune else 0
            values[f"{prefix}.replay.capacity"] = max(size + room, cfg.batch_size)
    return [Layer("size of the data", values)] if values else []


def env_of_data(config: RunConfig) -> PlaceholderEnv | None:
    """Gives what stands for an environment where none is named, and every policy learns from data alone; else None.

    Its agents see and do what the data show. A single policy plays an agent as Gymnasium's environments have it;
    several play agents of their names.

    Raises:
        ConfigError: If a policy is told no data.
        SpaceError: If those of a policy have different spaces.
    """
    names = list(config.policies) or ["main"]
    if config.env.name is not None or not all(settings_of(config, name).capabilities.offline for name in names):
        return None
    kinds = []
    for name, data in data_of(config).items():
        if not data:
            raise ConfigError(
                f"policies.{name} learns from data, and nobody says from which: --replay PATH, or "
                f"policies.{name}.replay.start_from: the directory of a run or of a replay"
            )
        for other in data[1:]:
            check_spaces(other, data[0].spaces, str(data[0]))
        agents = (AGENT,) if len(names) == 1 else (name,)
        kinds.append(Kind(agents, data[0].spaces.obs, data[0].spaces.action))
    return PlaceholderEnv(description(DATA, 1, True, kinds))
