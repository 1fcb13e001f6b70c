"""The environments that are installed, by suite; each is made as a training makes it, so that every name works."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import warnings
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import gymnasium
from gymnasium.envs.registration import load_env_creator

from rookery.cli.environments.about import ABOUT
from rookery.core.errors import RookeryError
from rookery.envs.adapters.bundled import OURS
from rookery.envs.adapters.gym_ids import PROVIDERS, newest_ids
from rookery.envs.catalog import family_of, missing_families
from rookery.envs.make import env_name, make_env
from rookery.run.choose_algorithm import USUAL, algorithm_of_spaces, algorithms_with_preset

MOST = 12
"""Number of environments up to which a suite is listed whole."""

SHOWN = 3
"""Number of environments that are listed of a larger suite."""

SUITES = {
    "gymnasium.envs.classic_control": "Gymnasium: classic control",
    "gymnasium.envs.box2d": "Gymnasium: Box2D",
    "gymnasium.envs.toy_text": "Gymnasium: toy text",
    "gymnasium.envs.mujoco": "Gymnasium: MuJoCo robots",
    "ale_py": "Atari",
    "minigrid.envs.babyai": "BabyAI",
    "minigrid.envs": "MiniGrid",
    "rookery.envs.adapters.minatar": "MinAtar",
}
"""Suites of Gymnasium's ids, by the beginning of the module of their environments."""

MARKUP = ("#", "`", "!", "<", "|", "-", "*")
"""Beginnings of paragraphs that are no sentences."""

MODULES = {"mpe2": "PettingZoo: particles", "pettingzoo.classic": "PettingZoo: board and card games",
           "pettingzoo.butterfly": "PettingZoo: games with images"}  # fmt: skip
"""Suites whose environments are modules of a package."""


@dataclass(frozen=True)
class Found:
    """An environment that can be made.

    Attributes:
        name: Name, as for ``rookery train``.
        about: Description in a line.
        agents: Number of agents.
        spaces: Observation and action space, as text.
        presets: Algorithms with a preset for it, the preferred one first.
        algorithm: The algorithm that the rule chooses (`run/choose_algorithm.py`).
    """

    name: str
    about: str
    agents: int
    spaces: tuple[str, str]
    presets: tuple[str, ...]
    algorithm: str


def names_by_suite() -> dict[str, list[str]]:
    """Returns names of environments whose packages are installed, by suite."""
    for module, _ in dict.fromkeys(PROVIDERS.values()):
        with suppress(ImportError):
            gymnasium.register_envs(importlib.import_module(module))
    suites: dict[str, list[str]] = {"Rookery": list(OURS)}
    for name in newest_ids():
        spec = gymnasium.spec(name)
        place = str(spec.entry_point)
        suite = next((title for start, title in SUITES.items() if place.startswith(start)), spec.namespace or "others")
        if suite != "Atari" or name.startswith("ALE/"):  # the ids without it are those of older versions
            suites.setdefault(suite, []).append(name)
    for package, title in MODULES.items():
        with suppress(ImportError):
            place_of = find_spec(package)
            if place_of and place_of.submodule_search_locations:
                found = [one.name for one in pkgutil.iter_modules(place_of.submodule_search_locations)]
                suites[title] = [f"{package}.{name}" for name in sorted(found) if re.search(r"_v\d+$", name)]
    missing = missing_families()
    here = {
        title: [name for name in names if family_of(name.rpartition(".")[2]) not in missing]
        for title, names in suites.items()
    }
    return {title: names for title, names in here.items() if names}


def environment(name: str) -> Found | None:
    """Returns the description of an environment; None if it cannot be made by its name alone."""
    try:
        with warnings.catch_warnings(action="ignore"), closing(make_env(name, {}, (), 1, "auto")) as env:
            spaces = [(kind.obs.space, kind.action.space) for kind in env.kinds for _ in kind.agents]
            presets = algorithms_with_preset(env_name(name))
            algorithm = presets[0] if presets else algorithm_of_spaces(spaces)[0]
            shown = space(spaces[0][0]), space(spaces[0][1])
            return Found(name, about(name), len(spaces), shown, presets, algorithm)
    except (RookeryError, ImportError):
        return None


def about(name: str) -> str:
    """Returns a line about an environment: the first sentence of its documentation if it is not a well-known one."""
    short = re.sub(r"[-_]v\d+$", "", name.rpartition(".")[2])
    if short in ABOUT:
        return ABOUT[short]
    if short.startswith("ALE/"):
        return f"The Atari game {re.sub(r'(?<=[a-z])(?=[A-Z])', ' ', short[4:])}."
    made: Any = None
    with suppress(Exception):  # of a third party's code
        point: Any = gymnasium.spec(name).entry_point if name in gymnasium.registry else importlib.import_module(name)
        made = load_env_creator(point) if isinstance(point, str) else point
    paragraphs = re.split(r"\n\s*\n", inspect.getdoc(made) or "")
    texts = (" ".join(text.replace("`", "").split()) for text in paragraphs if not text.lstrip().startswith(MARKUP))
    sentences = (re.split(r"(?<=[.;:])\s", text)[0] for text in texts)
    return next((text for text in sentences if text and not text.endswith(":")), "")


def space(found: Any) -> str:
    """Returns a space in a few characters: ``Box(4)``, ``Discrete(2)``, ``Dict(board, action_mask)``."""
    if isinstance(found, gymnasium.spaces.Dict):
        return f"Dict({', '.join(found)})"
    if isinstance(found, gymnasium.spaces.Box):
        images = " uint8" if found.dtype == "uint8" else ""
        return f"Box({' x '.join(map(str, found.shape))}){images}"
    return " ".join(str(found).split())


def lines(text: str = "") -> Iterator[str]:
    """Yields the lines of the list: a heading for each suite, and two lines for each environment.

    Args:
        text: Part of a name or of a suite: all environments with it are listed, and no others. Empty = no such filter.
    """
    for title, names in names_by_suite().items():
        wanted = [name for name in names if text.lower() in name.lower() or text.lower() in title.lower()]
        shown = wanted if text or len(wanted) <= MOST or title == "Rookery" else first_of(wanted)
        found = [one for one in map(environment, shown) if one is not None]
        if not found:
            continue
        yield title
        for one in found:
            yield cut(f"  {one.name:<24}  {one.about}")
            presets = f"; presets: {', '.join(one.presets)}" if one.presets else ""
            presets += f"; without --algo: {one.algorithm}" if one.algorithm != USUAL else ""
            yield (f"      {one.agents} agent{'s' * (one.agents > 1)}; observes {one.spaces[0]}; acts in "
                   f"{one.spaces[1]}{presets}")  # fmt: skip
        if len(shown) < len(wanted):
            yield f"  {len(wanted) - len(shown)} more: rookery envs list {title}"


def first_of(names: list[str]) -> list[str]:
    """Returns some environments of a large suite: the best-known first."""
    known = [name for name in names if name in ("ALE/Pong-v5", "ALE/Breakout-v5", "MiniGrid-Empty-5x5-v0")]
    return [*known, *(name for name in names if name not in known)][:SHOWN]


def cut(text: str) -> str:
    """Returns a text shortened to a line."""
    return text.rstrip() if len(text) <= 110 else f"{text[:107].rstrip()}..."
