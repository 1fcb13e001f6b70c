"""Rule that chooses the algorithm where none is named: by the presets of a known environment, else by its spaces.

It applies where environment presets do (``preset="auto"``), as a layer below all others. An environment with a preset
gets the algorithm of the preset, one with several the first of `PREFERRED` among these. Of the others, a single agent
that observes a small `Discrete` space and acts in another learns by DQN, every other one by PPO. How these were
measured: docs/how-to/choose-an-algorithm.md.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from fnmatch import fnmatchcase
from typing import Any

from gymnasium.envs.registration import EnvSpec
from gymnasium.spaces import Box, Discrete, Space

from rookery.algorithms.names import ALGORITHMS
from rookery.core.config import resolve
from rookery.core.errors import ConfigError, RookeryError
from rookery.core.process.torch_modes import users_modes
from rookery.core.settings.fields import Settings
from rookery.core.settings.layers import CLASS, Layer, mapping_of, nested
from rookery.envs.make import env_name, find_maker, lane_maker
from rookery.envs.process_bound import why_process_bound
from rookery.envs.schemes import NotSingleEnv, scheme_of_maker
from rookery.envs.vector.closing import close_env
from rookery.envs.vector.serial import SerialEnv
from rookery.run.presets import ENV_PRESETS
from rookery.run.settings import EnvConfig, RunConfig

NAME = "algorithm.name"

CHOSEN = "chosen for "
"""Prefix of the source of a chosen algorithm."""

OVERRIDE = "; --algo overrides"
"""Suffix of the source."""

USUAL = "ppo"
"""Algorithm where nothing speaks for another one."""

PREFERRED = (USUAL, "sac", "pqn", "dqn", "linucb", "alphazero", "ppo_lagrangian")
"""Algorithms with presets, the first choice first: those whose preset is measured before others
(benchmarks/results/learning.md).
"""

MOST_STATES = 1_000
"""Largest size of a small `Discrete` observation space."""


def with_algorithm(layers: Sequence[Layer], preset: str) -> list[Layer]:
    """Returns layers of settings with one below them that names the algorithm, if the rule applies.

    It does not apply if the algorithm or a policy is named, if the policy has a memory, if there is no environment, or
    without ``preset="auto"``; then PPO is the default.

    Args:
        layers: Settings, weakest first.
        preset: Name of the preset.
    """
    trees = [nested(layer.values) for layer in layers]
    memory = _given(trees, "algorithm.model.memory.kind")
    if preset != "auto" or any(map(_names_algorithm, trees)) or memory not in (None, "none"):
        return list(layers)
    sections = [Layer(one.source, {"env": tree["env"]}, folder=one.folder, stored_folders=one.stored_folders,
                      stored=one.stored) for one, tree in zip(layers, trees, strict=True) if "env" in tree]  # fmt: skip
    try:
        env = resolve(RunConfig, sections, ALGORITHMS).config.env
        chosen = None if env.name is None else choose_algorithm(env)
    except RookeryError:  # reported with all other mistakes later
        chosen = None
    if chosen is None:
        return list(layers)
    return [Layer(f"{CHOSEN}{env_name(env.name)}{chosen[1]}{OVERRIDE}", {NAME: chosen[0]}), *layers]


def choose_algorithm(env: EnvConfig) -> tuple[str, str] | None:
    """Returns the algorithm for an environment, and the reason as the end of a sentence; None if it cannot be made."""
    known = algorithms_with_preset(env_name(env.name))
    if known:
        several = len(known) > 1
        return known[
            0
        ], f", which has presets of {known[0]} and others" if several else f", whose preset is of {known[0]}"
    found = find_maker(env.name)
    single = isinstance(found, EnvSpec) or inspect.isclass(found)  # what a function makes is not known before
    if not single or scheme_of_maker(found) is not None or why_process_bound(env.name):
        return USUAL, ", which has no preset"
    try:
        with users_modes():
            one = SerialEnv(lane_maker(env.name, env.config, env.wrappers, max_entities=env.max_entities), 1, "")
    except NotSingleEnv as made:
        close_env(made.made, env_name(env.name))
        return USUAL, ", which has no preset"
    except Exception:  # of any kind, from the environment's code; reported when the run makes its own
        return None
    with closing(one):
        spaces = [(kind.obs.space, kind.action.space) for kind in one.kinds for _ in kind.agents]
    return algorithm_of_spaces(spaces)


def algorithm_of_spaces(spaces: Sequence[tuple[Space[Any], Space[Any]]]) -> tuple[str, str]:
    """Returns the algorithm for an environment without a preset, and the reason as the end of a sentence.

    Args:
        spaces: Observation and action space of each agent.
    """
    if len(spaces) != 1:
        return USUAL, ", where several agents act"
    obs, action = spaces[0]
    if isinstance(obs, Discrete) and isinstance(action, Discrete) and obs.n <= MOST_STATES:
        return "dqn", f", whose one agent observes {obs} and acts in {action}"
    return USUAL, ", which has no preset, and whose spaces are not both small and Discrete"


def algorithms_with_preset(name: str) -> tuple[str, ...]:
    """Returns the algorithms with a preset for an environment, the preferred one first."""
    known = [algo for algo, by_env in ENV_PRESETS.items() if any(fnmatchcase(name, one) for one in by_env)]
    first = next((algo for algo in PREFERRED if algo in known), "")
    return tuple(sorted(known, key=lambda algo: algo != first))


def alternatives(name: str, action: Space[Any], current: str) -> list[str]:
    """Returns algorithms to try in place of another one, by the rule: those with a preset, then those for the actions.

    Args:
        name: Name of the environment.
        action: Action space of its one agent.
        current: Name of the algorithm to replace.
    """
    fitting = ["dqn"] if isinstance(action, Discrete) else ["sac"] if isinstance(action, Box) else []
    known = dict.fromkeys([*algorithms_with_preset(name), *fitting, USUAL])
    return [algo for algo in known if algo != current]


def choice_notes(layers: Sequence[Layer]) -> list[str]:
    """Returns the note on the algorithm that the rule has chosen, if it is among these layers."""
    return [
        f"algorithm {_given([nested(one.values)], NAME)}: {one.source}"
        for one in layers
        if one.source.startswith(CHOSEN)
    ]


@contextmanager
def explain_choice(layers: Sequence[Layer]) -> Iterator[None]:
    """Adds the rule and the remedy to errors about settings that a chosen algorithm does not have."""
    try:
        yield
    except ConfigError as error:
        notes = choice_notes(layers)
        if not notes or notes[0].startswith(f"algorithm {USUAL}:"):
            raise
        why = notes[0].removesuffix(OVERRIDE).replace(": ", " was ", 1)
        hint = f"; {why}: --algo {USUAL} for the settings of {USUAL}"
        of_it = [": algorithm." in line and "there is no such setting" in line for line in error.problems]
        lines = [f"{line}{hint * of}" for line, of in zip(error.problems, of_it, strict=True)]
        raise ConfigError(*lines) from None


def _names_algorithm(tree: Mapping[str, Any]) -> bool:
    """Returns whether a layer, as a tree, names the algorithm or a policy."""
    algorithm = tree.get("algorithm")
    named = algorithm is not None and (not isinstance(algorithm, Mapping) or bool({"name", CLASS} & {*algorithm}))
    return named or bool(tree.get("policies")) or tree.get("policy_mapping") is not None


def _given(trees: Sequence[Any], path: str) -> Any:
    """Returns the value of a setting in the strongest tree that gives it; None if there is none."""
    for tree in reversed(trees):
        for key in path.split("."):
            tree = mapping_of(tree).get(key) if isinstance(tree, Mapping | Settings) else None
        if tree is not None:
            return tree
    return None
