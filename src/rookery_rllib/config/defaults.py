"""The configurations of 2021 as dicts: every key with its default, and how two of them are merged.

The defaults are in the rows of `table.py`, and the changes of an algorithm in `algorithms.py`. The dicts are made on
first use, because one value, the class of `callbacks`, imports much that other names do not need.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from rookery.face import ConfigError, nearest
from rookery_rllib.base.imports import find
from rookery_rllib.config.algorithms import ALGORITHMS
from rookery_rllib.config.key_order import ORDER
from rookery_rllib.config.rows import NO_DEFAULT, Row
from rookery_rllib.config.table import ROWS

Config = dict[str, Any]

REPLACED_BY_TYPE = ("exploration_config",)
"""Sections that are replaced as a whole where their ``type`` changes."""


def copied(value: Any) -> Any:
    """Copies dicts and lists at every depth, and shares all other objects in them."""
    if isinstance(value, dict):
        return {key: copied(inner) for key, inner in value.items()}
    return [copied(inner) for inner in value] if type(value) is list else value


def _defaults(rows: Sequence[Row], order: str) -> Config:
    """Returns the keys of rows with their defaults: from the first of these rows that has one, else from all rows.

    The keys have the given order; keys that it does not list come last.
    """
    keys, places = {row.key for row in rows}, order.split()
    defaults: Config = {}
    for row in (*rows, *ROWS):
        if row.key in keys and row.default is not NO_DEFAULT:
            defaults.setdefault(row.key, row.default)
    config: Config = {}
    for key in sorted(defaults, key=lambda key: _place(key, places)):
        section, _, name = key.rpartition(".")
        (config.setdefault(section, {}) if section else config)[name] = copied(defaults[key])
    return config


def _place(key: str, places: list[str]) -> int:
    """Returns the place of a key, or else of its section, in an order."""
    return next((places.index(name) for name in (key, key.partition(".")[0]) if name in places), len(places))


COMMON = _defaults([row for row in ROWS if not row.only or row.key in ORDER[""].split()], ORDER[""])
"""Configuration of all algorithms, without the class of ``callbacks``."""

FREE = tuple(key for key, default in COMMON.items() if isinstance(default, dict))
"""Sections that `merge_trainer_configs` lets take new keys."""

MODEL_DEFAULTS: Config = COMMON["model"]

COMMON_CONFIG: Config

DEFAULT_CONFIGS: dict[str, Config]


def __getattr__(name: str) -> Any:
    """Builds the configurations on first access; ``PPO_DEFAULT_CONFIG`` is that of PPO.

    Raises:
        AttributeError: For another name.
    """
    owner = next((each for each in ALGORITHMS if name == f"{each.upper()}_DEFAULT_CONFIG"), None)
    if owner is not None:
        found: Config = __getattr__("DEFAULT_CONFIGS")[owner]
        return found
    if name not in ("COMMON_CONFIG", "DEFAULT_CONFIGS"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    common = copied(COMMON) | {"callbacks": default_callbacks()}
    made = {algorithm: _config_of(algorithm, common) for algorithm in ALGORITHMS}
    globals().update(COMMON_CONFIG=common, DEFAULT_CONFIGS=made)
    return globals()[name]


def _config_of(algorithm: str, common: Config) -> Config:
    """Returns the configuration of an algorithm: that of its base, its own keys, and its changes."""
    one = ALGORITHMS[algorithm]
    base = _config_of(one.base, common) if one.base else common
    own = [row for row in ROWS if algorithm in row.only and row.key.partition(".")[0] not in base]
    whole = merge_trainer_configs(base, _defaults(own, ORDER.get(algorithm, "")), True)
    return merge_trainer_configs(whole, one.changes, True)


def default_callbacks() -> Any:
    return find("ray.rllib.agents.callbacks.DefaultCallbacks")


def legacy_callbacks(functions: Mapping[str, Any]) -> Any:
    """Makes the callbacks of a dict of functions by hook, as scripts before 2020 gave them."""
    return default_callbacks()(legacy_callbacks_dict=dict(functions))


def with_common_config(extra_config: Mapping[str, Any]) -> Config:
    return merge_trainer_configs(__getattr__("COMMON_CONFIG"), extra_config, True)


def merge_trainer_configs(
    config1: Mapping[str, Any], config2: Mapping[str, Any], _allow_unknown_configs: bool | None = None
) -> Config:
    """Merges one configuration into another: dicts merge by key at every depth, other values are replaced.

    Raises a ConfigError with a line for each key that is unknown; sections such as ``env_config`` and ``model`` take
    new keys in any case.
    """
    over = dict(config2)
    if type(over.get("callbacks")) is dict:
        over["callbacks"] = partial(legacy_callbacks, over["callbacks"])
    problems: list[str] = []
    merged = _over(copied(dict(config1)), over, bool(_allow_unknown_configs), "", problems)
    if problems:
        raise ConfigError(*problems)
    return merged


def _over(low: Config, high: Mapping[str, Any], free: bool, above: str, problems: list[str]) -> Config:
    for key, value in high.items():
        before = low.get(key)
        if key not in low and not free:
            problems.append(f"rllib config: {above}{key}: there is no such key{nearest(str(key), list(low))}")
        elif not (isinstance(before, dict) and isinstance(value, dict)) or _other_type(above + str(key), before, value):
            low[key] = copied(value)
        else:
            low[key] = _over(before, value, free or (not above and key in FREE), f"{above}{key}.", problems)
    return low


def _other_type(path: str, before: Config, value: Mapping[str, Any]) -> bool:
    """Returns whether a section has a new ``type``, which replaces the section as a whole."""
    return path in REPLACED_BY_TYPE and value.get("type", before.get("type")) != before.get("type")
