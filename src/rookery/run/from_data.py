"""Offline training: runs without an environment, which take their spaces from stored replay."""

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
"""Room for online decisions in replay after training on data."""


def data_of(config: RunConfig) -> dict[str, list[StoredReplay]]:
    """Returns the data of each policy that learns from data only, by its name.

    Raises:
        ConfigError: If a source is ambiguous.
        FileError: If a source has no data.
    """
    found = {}
    for name in list(config.policies) or ["main"]:
        cfg: Any = settings_of(config, name)
        if not cfg.capabilities.offline:
            continue
        if cfg.replay.mix and not cfg.capabilities.supports_online_finetune:
            raise ConfigError(
                f"policies.{name}.replay.mix: this algorithm uses all of its data equally, and draws no part of "
                "a batch from each; name them as replay.start_from (--replay PATH, without *PART)"
            )
        found[name] = [find_replay(source, name) for source in (*cfg.replay.start_from, *cfg.replay.mix)]
    return found


def capacity_layers(config: RunConfig) -> list[Layer]:
    """Returns the settings with which the replay of policies that learn from data only holds all copied data, and
    twice as much, with room of at least `ROOM`, for policies that can be fine-tuned online.
    """
    values = {}
    for name, data in data_of(config).items():
        prefix = f"policies.{name}" if config.policies else "algorithm"
        cfg: Any = settings_of(config, name)
        if data:
            copied = data[: len(cfg.replay.start_from)]  # sources of `mix` have their own buffers
            size = sum(count_filtered(stored, cfg.replay.select) for stored in copied)
            room = max(size, ROOM) if cfg.capabilities.supports_online_finetune else 0
            values[f"{prefix}.replay.capacity"] = max(size + room, cfg.batch_size)
    return [Layer("size of the data", values)] if values else []


def env_of_data(config: RunConfig) -> PlaceholderEnv | None:
    """Returns a placeholder for the environment if none is named and all policies learn from data only; else None.

    Its agents have the spaces of the data. A single policy plays the agent of a Gymnasium environment; several play
    agents of their names.

    Raises:
        ConfigError: If a policy has no data.
        SpaceError: If the data of a policy have different spaces.
    """
    names = list(config.policies) or ["main"]
    if config.env.name is not None or not all(settings_of(config, name).capabilities.offline for name in names):
        return None
    kinds = []
    for name, data in data_of(config).items():
        if not data:
            raise ConfigError(
                f"policies.{name} learns from data, but none is given: set --replay PATH, or "
                f"policies.{name}.replay.start_from to the directory of a run or of a replay"
            )
        for other in data[1:]:
            check_spaces(other, data[0].spaces, str(data[0]))
        agents = (AGENT,) if len(names) == 1 else (name,)
        kinds.append(Kind(agents, data[0].spaces.obs, data[0].spaces.action))
    return PlaceholderEnv(description(DATA, 1, True, kinds))
