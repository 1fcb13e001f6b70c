"""Capabilities of algorithms, declared once on the settings class: `Capabilities`.

Messages, tables in the documentation, ``rookery algos`` and lists in tests follow from the declarations.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from inspect import getattr_static
from typing import Any

from rookery.algorithms.names import ALGORITHMS
from rookery.core.settings.layers import import_object
from rookery.core.settings.script_objects import import_beside


@dataclass(frozen=True)
class Capabilities:
    """Capabilities of an algorithm, and its needs.

    Settings classes inherit `capabilities` from their base class, with two rules. `supports_multi_learner` holds only
    for the class that declares it. `supports_staleness` and `supports_memory` hold as long as the algorithm is the one
    for which they were declared, or derives from it.
    """

    offline: bool = False
    """Whether the algorithm learns from stored data before it plays."""
    supports_online_finetune: bool = False
    """Whether an offline algorithm can continue by playing and learn from the new experience."""
    supports_staleness: bool = False
    """Whether it corrects for actions of older weights (`sampling.staleness`, `sampling.asynchronous`)."""
    supports_memory: bool = False
    """Whether it learns policies with a memory (`model.memory`), whose rows come in sequences."""
    supports_multi_learner: bool = False
    """Whether several learners (`cluster.learners`) can share all of its updates."""
    uses_replay: bool = False
    """Whether it learns from a replay buffer."""
    needs_team: bool = False
    """Whether its policy acts for all members of a team at once (`teams`)."""
    uses_central_obs: bool = True
    """Whether its critic uses the observations that the environment shows only to critics; if not, they are not stored.
    """
    needs_group_obs: bool = False
    """Whether its critic uses the observations of all members of a group. Members that end before their group then
    remain as rows without actions (`envs/groups.py:GroupEnv`).
    """
    needs_timestep_id: bool = False
    """Whether observations have a number that is the same for all members of a group at one time step."""
    learns_single_decisions: bool = False
    """Whether it learns the rewards of single decisions, without a future (contextual bandits). An iteration of such
    algorithms alone has 1000 env steps, and metrics have the regret that an environment reports.
    """
    speed_hints: Mapping[str, str] = field(default_factory=dict, hash=False)
    """How to make learning cheaper per step, by the name of a setting, for ``rookery bench``."""


@cache
def known_capabilities() -> Mapping[str, Capabilities]:
    """Returns the capabilities of all algorithms that have a short name, by that name."""
    built_in = {name: import_object(path) for name, path in ALGORITHMS.own.items()}
    return {name: cls.capabilities for name, cls in {**built_in, **ALGORITHMS.load_added()}.items()}


def algorithms_with(**wanted: bool) -> list[str]:
    """Returns the short names of the algorithms whose capabilities have certain values.

    Args:
        **wanted: Values by the name of a field of `Capabilities`.
    """
    return [
        name
        for name, known in known_capabilities().items()
        if all(getattr(known, field) == value for field, value in wanted.items())
    ]


def one_of(names: Sequence[str], word: str = "or") -> str:
    """Returns names as text: ``ppo, a2c or dqn``."""
    return f" {word} ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


TABLE_HEAD = ("algorithm", "learns from", "memory", "stale rollouts", "several learners", "acts for")
"""Columns of `capability_table`."""


def capability_table() -> list[tuple[str, ...]]:
    """Returns a row of texts for each algorithm with a short name; the columns are those of `TABLE_HEAD`."""
    rows = []
    for name, known in known_capabilities().items():
        source = "replay" if known.uses_replay else "play"
        if known.offline:
            source = "data, then play" if known.supports_online_finetune else "data"
        flags = known.supports_memory, known.supports_staleness, known.supports_multi_learner
        acts_for = "a team as one" if known.needs_team else "a group" if known.needs_group_obs else "any"
        rows.append((name, source, *("yes" if flag else "no" for flag in flags), acts_for))
    return rows


def capabilities_of(settings: type, learner: object) -> Capabilities:
    """Returns the capabilities of a learner.

    Args:
        settings: Its settings class, an `AlgorithmConfig`.
        learner: The `Algorithm`. Flags of version 0.1 that its class sets replace what is declared.
    """
    found: Capabilities = settings.capabilities  # type: ignore[attr-defined]
    path, declared = (getattr(cls, "algorithm", "") for cls in (settings, _declaring(settings)))
    if declared not in ("", path) and not isinstance(learner, import_beside(settings, declared)):
        found = replace(found, supports_staleness=False, supports_memory=False)
    own = [old for old in OLD_ALGORITHM_FLAGS if not isinstance(getattr_static(learner, old), OldFlag)]
    if own:
        _warn(type(learner), own)
    return replace(found, **{OLD_ALGORITHM_FLAGS[old]: getattr(learner, old) for old in own})


def supports_multi_learner(settings: type) -> bool:
    """Returns whether settings support several learners: a derived class may support fewer."""
    declared: Capabilities = vars(settings).get("capabilities", Capabilities())
    return declared.supports_multi_learner


def _declaring(settings: type) -> type:
    """Returns the class that declares the capabilities of a settings class: itself or a base."""
    return next(cls for cls in settings.__mro__ if "capabilities" in vars(cls))


# --- flags of version 0.1 ---------------------------------------------------------------------------------------------

OLD_FLAGS = {
    "from_data": "offline",
    "plays_later": "supports_online_finetune",
    "sees_central": "uses_central_obs",
    "sees_group": "needs_group_obs",
    "sees_moment": "needs_timestep_id",
    "learns_together": "supports_multi_learner",
    "cheaper": "speed_hints",
}
"""Flags that settings classes had before `Capabilities`, with the fields that replaced them."""

OLD_ALGORITHM_FLAGS = {"corrects_staleness": "supports_staleness", "learns_memory": "supports_memory"}
"""Flags that algorithm classes had before `Capabilities`, with the fields that replaced them."""


class OldFlag:
    """Reads a capability under its former flag.

    Args:
        new: Name of the field of `Capabilities`.
    """

    def __init__(self, new: str) -> None:
        self.new = new

    def __get__(self, instance: Any, owner: type) -> Any:
        holder: Any = owner if instance is None else instance
        return getattr(holder.capabilities, self.new)


def translate_flags(settings: type) -> None:
    """Declares the capabilities of a settings class that sets flags of version 0.1, with a deprecation warning."""
    if "tells_member" in vars(settings):
        settings.adds_member_id = vars(settings)["tells_member"]  # type: ignore[attr-defined]
    own = {old: value for old, value in vars(settings).items() if old in OLD_FLAGS}
    if not own:
        return
    _warn(settings, list(own))
    inherited: Capabilities = settings.capabilities  # type: ignore[attr-defined]
    if "capabilities" not in vars(settings):
        inherited = replace(inherited, supports_multi_learner=False)
    for old in own:
        delattr(settings, old)  # `OldFlag` of the base reads it from now on
    flags: dict[str, Any] = {OLD_FLAGS[old]: value for old, value in own.items()}
    settings.capabilities = replace(inherited, **flags)  # type: ignore[attr-defined]


def _warn(cls: type, old: Sequence[str]) -> None:
    fields = ", ".join(f"{name} is {(OLD_FLAGS | OLD_ALGORITHM_FLAGS)[name]}" for name in old)
    text = f"{cls.__module__}:{cls.__qualname__}: declare Capabilities on the settings class instead ({fields})"
    warnings.warn(text, DeprecationWarning, stacklevel=4)  # the line of the class
