"""Every key of a configuration of RLlib and of ML-Agents: its status, and what it is translated to.

What is taken from inside the two faces for the texts is imported here and in `names_of_2021.py` alone.
"""

from __future__ import annotations

import json
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from public_api import described, object_lines

from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery_mlagents.api.importing import module as module_of_mlagents
from rookery_mlagents.api.mlagents_names import GONE, NAMES
from rookery_mlagents.files.behaviors import BehaviorSpaces
from rookery_mlagents.files.run_options import read_options
from rookery_mlagents.keys import CONSTANTS, DIFFERENCES, PARAMETER_KEYS
from rookery_mlagents.keys import ROWS as MLAGENTS_ROWS
from rookery_mlagents.learn.translate import layers_of
from rookery_rllib.config.defaults import COMMON_CONFIG, DEFAULT_CONFIGS
from rookery_rllib.config.table import ROWS as RLLIB_ROWS
from rookery_rllib.config.translation import translated

FILES = {
    "ppo": "behaviors: {B: {trainer_type: ppo}}",
    "sac": "behaviors: {B: {trainer_type: sac}}",
    "poca": "behaviors: {B: {trainer_type: poca}}",
    "ppo with memory, signals and self-play": """
behaviors:
  B:
    trainer_type: ppo
    network_settings: {memory: {sequence_length: 16, memory_size: 32}}
    reward_signals: {extrinsic: {gamma: 0.9}, curiosity: {strength: 0.1}, rnd: {strength: 0.2}}
    self_play: {window: 5, save_steps: 1000, swap_steps: 500}
""",
    "sac with signals": """
behaviors: {B: {trainer_type: sac, reward_signals: {extrinsic: {strength: 2.0}, rnd: {strength: 0.1}}}}
""",
    "parameters": """
default_settings: {trainer_type: poca, max_steps: 1000}
environment_parameters:
  mass: {sampler_type: uniform, sampler_parameters: {min_value: 1, max_value: 3}}
  size:
    curriculum:
    - {name: Easy, value: 1.0, completion_criteria: {measure: reward, behavior: B, threshold: 0.5}}
    - {name: Hard, value: {sampler_type: gaussian, sampler_parameters: {mean: 2, st_dev: 1}}}
engine_settings: {time_scale: 5}
env_settings: {seed: 3}
""",
}
"""Files of ML-Agents whose translation is stored."""

ASKED: Mapping[str, Mapping[str, Any]] = {"R2D2": {"model": {"use_lstm": True}}}
"""What an algorithm of RLlib cannot do without."""


def key_lines(rows: Iterable[Any]) -> Iterator[str]:
    """Yields what becomes of each key."""
    for row in rows:
        of = f" ({', '.join(row.only)})" if row.only else ""
        fine = f" [fine: {', '.join(map(plain, row.fine))}]" if row.fine else ""
        players = " [of players]" if getattr(row, "of_players", False) else ""
        paths = f" -> {' '.join(row.paths)}" if row.paths else ""
        yield f"{row.key}{of}: {row.status.value}{paths}{fine}{players}: {row.text}"


def plain(value: Any) -> str:
    """Returns a value as text; classes and functions by name."""
    return json.dumps(value, default=lambda held: getattr(held, "__qualname__", None) or repr(held))


def flat(config: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yields the values of a configuration by their path."""
    for key, value in config.items():
        if isinstance(value, dict) and value:
            yield from flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def rllib_keys() -> list[str]:
    """Returns the status of each key of RLlib, and what it is if nothing is given."""
    common = dict(flat(COMMON_CONFIG))
    lines = [*key_lines(RLLIB_ROWS), "", *(f"{key} = {plain(value)}" for key, value in common.items())]
    for algorithm, config in DEFAULT_CONFIGS.items():
        own = dict(flat(config))
        lines += ["", *(f"{algorithm} {key} = {plain(own[key])}" for key in own if own[key] != common.get(key, own))]
        lines += [f"{algorithm} {key} is no key" for key in common if key not in own]
    return lines


def rllib_translations() -> list[str]:
    """Returns the settings of RLlib's algorithms where nothing is given: values, with the algorithms that have them."""
    owners: dict[str, list[str]] = defaultdict(list)
    for algorithm in DEFAULT_CONFIGS:
        found = translated(algorithm, ASKED.get(algorithm, {}))
        lines = [f"{path} = {plain(value)}" for path, value in found.settings.items()]
        lines += [f"{key} (used) = {plain(value)}" for key, value in found.trainer.items()]
        for line in (*lines, *(f"prints {note!r}" for note in found.notes)):
            owners[line].append(algorithm)
    everyone = list(DEFAULT_CONFIGS)
    return [f"{line}: {'all' if owners[line] == everyone else ', '.join(owners[line])}" for line in sorted(owners)]


def mlagents_keys() -> list[str]:
    """Returns the status of each key of ML-Agents, and what has none."""
    return [
        *key_lines(MLAGENTS_ROWS),
        "",
        *(f"{key} ({of}): {text}" for key, of, text in PARAMETER_KEYS),
        "",
        *(f"{name}: {text}" for name, text in CONSTANTS.items()),
        "",
        *(f"{what} | {theirs} | {here}" for what, theirs, here in DIFFERENCES),
    ]


def mlagents_translations() -> list[str]:
    """Returns the settings of a few files of ML-Agents, with the key that each comes from."""
    actions = action_spec(spaces.Discrete(3))
    behavior = BehaviorSpaces(obs_spec(spaces.Box(-1, 1, (3,), np.float32), actions.space), actions, ("left", "right"))
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trainer.yaml"
        for name, text in FILES.items():
            path.write_text(text)
            for layer in layers_of(read_options(path, {}), {"B": behavior}):
                for setting, value in sorted(layer.values.items()):
                    source = str(layer.where(setting)).replace(f"{folder}/", "")
                    lines.append(f"{name}: {setting} = {plain(value)} ({source})")
    return lines


def names_of_mlagents() -> list[str]:
    """Returns what stands behind each name of ML-Agents' low-level API, and what became of others."""
    lines = []
    for path in sorted(NAMES):
        lines.append(f"{path}: module")
        lines += [
            f"{path}.{name}: {described(getattr(module_of_mlagents(path), name))}" for name in sorted(NAMES[path])
        ]
    return [*lines, "", *(f"{path}: {text}" for path, text in sorted(GONE.items()))]


def api_of_mlagents() -> list[str]:
    """Returns the classes and functions behind those names, with their members."""
    found = [getattr(module_of_mlagents(path), name) for path, names in NAMES.items() for name in names]
    return object_lines(found, hints=False)
