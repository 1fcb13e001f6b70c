"""Check of foreign settings: refuses values of another user's run that reach files or too much memory.

See `core/settings/reach.py` and docs/trust.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rookery.algorithms.names import ALGORITHMS
from rookery.core.settings.class_names import ClassNames
from rookery.core.settings.fields import Settings
from rookery.core.settings.foreign_arguments import objections_to_arguments
from rookery.core.settings.layers import CLASS, import_object, mapping_of, nested
from rookery.core.settings.reach import MOST_WEIGHTS, Label, Objection, objections, of_settings, weights_in
from rookery.core.settings.trust import OBJECT, is_ours
from rookery.envs.foreign_config import objections_to, objections_to_parameters
from rookery.run.settings import EnvConfig, PolicyEntry, RunConfig

MOST_ROWS = 67_108_864
"""Maximum number of rows of a fragment in a foreign run: environments times steps."""


def objections_in(values: Mapping[str, Any], trees: Sequence[Any] = ()) -> Iterator[Objection]:
    """Yields the objections to foreign settings.

    Args:
        values: Settings by path, or as a tree; all code that they name may be imported.
        trees: The caller's own settings over them, as trees, lowest first.
    """
    tree = nested(values)
    env = tree.get("env")
    if isinstance(env, Mapping):
        yield from _in_env(env, _given("env.name", trees, env.get("name")))
        yield from of_settings(EnvConfig, env, "env")
    algorithm = _opened(tree.get("algorithm"))
    common = _class_of(_given("algorithm.name", trees, algorithm.get("name", algorithm.get(CLASS))), "ppo")
    signals = _own_signals(algorithm, "algorithm", trees, {})
    yield from _in_algorithm(common, algorithm, "algorithm", trees, signals)
    for name, entry in _opened(tree.get("policies")).items():
        entry = _opened(entry)
        chosen = _class_of(_given(f"policies.{name}.name", trees, entry.get("name", entry.get(CLASS))), common)
        own = _own_signals(entry, f"policies.{name}", trees, signals)
        yield from _in_algorithm(chosen, entry, f"policies.{name}", trees, own)
        yield from of_settings(PolicyEntry, entry, f"policies.{name}")
        yield from objections(Label, name, f"policies.{name}")
    courses = _opened(tree.get("curriculum"))
    lessons = {name: _lesson_values(course) for name, course in courses.items()}
    named = _given("env.name", trees, env.get("name") if isinstance(env, Mapping) else None)
    yield from objections_to_parameters(named, lessons, "curriculum")
    rest = {name: part for name, part in tree.items() if name not in ("env", "algorithm", "policies")}
    yield from of_settings(RunConfig, rest, "")
    yield from _too_many_rows(tree, algorithm)
    yield from _too_many_weights(tree, algorithm)


def _in_env(env: Mapping[str, Any], named: Any) -> Iterator[Objection]:
    """Yields the objections to the arguments and parameters of an environment."""
    config, parameters = env.get("config"), env.get("parameters")
    if isinstance(config, Mapping):
        yield from objections_to(named, config)
    if isinstance(parameters, Mapping):
        yield from objections_to_parameters(named, parameters)


def _own_signals(
    values: Mapping[str, Any], path: str, trees: Sequence[Any], common: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the config classes of the own signals of an algorithm, by name; those in `common` where it names none."""
    found = _opened(_opened(values.get("signals")).get("own"))
    named = {name: _given(f"{path}.signals.own.{name}.name", trees, _opened(found[name]).get("name")) for name in found}
    return {name: _class_of(called, common.get(name)) for name, called in named.items()}


def _in_algorithm(
    cls: Any, values: Mapping[str, Any], path: str, trees: Sequence[Any], own: Mapping[str, Any]
) -> Iterator[Objection]:
    """Yields the objections to the settings of an algorithm or signal, its modules and its own signals.

    Args:
        cls: The config class.
        values: The settings.
        path: Path of the settings.
        trees: The caller's own settings over them, as trees, lowest first.
        own: Config classes of its own signals, by name.
    """
    if isinstance(cls, type) and issubclass(cls, Settings) and "__dataclass_fields__" in vars(cls):
        is_own = is_ours(cls.__module__)
        yield from of_settings(cls, values, path, foreign=not is_own)
    signals = _opened(values.get("signals"))
    for name, signal in own.items():
        where = f"{path}.signals.own.{name}"
        yield from _in_algorithm(signal, _opened(_opened(signals.get("own")).get(name)), where, trees, {})
    if isinstance(values.get("signals"), Mapping):
        values = {**values, "signals": {name: part for name, part in signals.items() if name != "own"}}
    yield from _in_modules(values, path, trees)


def _in_modules(values: Any, path: str, trees: Sequence[Any]) -> Iterator[Objection]:
    """Yields the objections to arguments of modules, at any depth."""
    if not isinstance(values, Mapping):
        return
    config = values.get("module_config")
    if isinstance(config, Mapping):
        module = _given(f"{path}.module", trees, values.get("module"))
        made = import_object(module) if isinstance(module, str) else module
        yield from objections_to_arguments(made, config, f"{path}.module_config")
    for name, inner in values.items():
        if name != "module_config":
            yield from _in_modules(inner, f"{path}.{name}", trees)


def _lesson_values(course: Any) -> list[Any]:
    """Returns the values of the lessons of a course, and the ends of a range that grows."""
    found, widen = _opened(course).get("lessons"), _opened(_opened(course).get("widen"))
    entries = found if isinstance(found, list | tuple) else []
    values = [entry["value"] if isinstance(entry, Mapping) and "value" in entry else entry for entry in entries]
    return [*values, widen.get("start"), widen.get("end")]


def _too_many_rows(tree: Mapping[str, Any], algorithm: Mapping[str, Any]) -> Iterator[Objection]:
    """Yields an objection for each fragment that is too large for the number of environments."""
    sampling = _opened(tree.get("sampling"))
    lanes = sampling.get("num_envs", 1)
    for path, part in (("algorithm", algorithm), *_opened(tree.get("policies")).items()):
        where = path if path == "algorithm" else f"policies.{path}"
        length = _opened(part).get("fragment_length", 1)
        if isinstance(lanes, int) and isinstance(length, int) and lanes * length > MOST_ROWS:
            rows = f"{lanes * length:,} rows of {lanes:,} environments"
            why = f"makes {rows}, above {MOST_ROWS:,}, which could fill the memory"
            yield Objection(f"{where}.fragment_length", length, why)


def _too_many_weights(tree: Mapping[str, Any], algorithm: Mapping[str, Any]) -> Iterator[Objection]:
    """Yields an objection if the networks of all policies are too large together."""
    common = weights_in(algorithm)
    policies = _opened(tree.get("policies")).values()
    weights = sum(weights_in(_opened(part)) or common for part in policies) if policies else common
    if weights > MOST_WEIGHTS:
        why = (
            f"makes networks of about {weights:,} weights together, above {MOST_WEIGHTS:,}, which could fill the memory"
        )
        yield Objection("algorithm.model.hidden", _opened(algorithm.get("model")).get("hidden"), why)


def _opened(value: Any) -> Mapping[str, Any]:
    """Returns a section as a mapping; a name or class alone is a section with nothing else."""
    if isinstance(value, Mapping):
        return {"name": value} if OBJECT in value else value
    return {"name": value} if isinstance(value, str) else {}


def _given(path: str, trees: Sequence[Any], otherwise: Any) -> Any:
    """Returns the value of a setting in the last tree that has one, else `otherwise`."""
    for tree in reversed(trees):
        if says(tree, path):
            *above, last = path.split(".")
            for key in above:
                tree = mapping_of(tree)[key]
            found = mapping_of(tree)
            return found.get(last, found.get(CLASS))
    if isinstance(otherwise, Mapping) and OBJECT in otherwise:
        return otherwise[OBJECT]
    return otherwise


def _class_of(name: Any, otherwise: Any) -> Any:
    """Returns the config class of a name or class; of `otherwise`, a class or its name, where none is named."""
    names = ClassNames(ALGORITHMS)
    if isinstance(name, Mapping) and OBJECT in name:
        name = name[OBJECT]
    found, wrong = names.find(names.spelled(name)) if name is not None else (None, "")
    if found is None and not wrong and isinstance(otherwise, str):
        found, _ = names.find(otherwise)
    return found if found is not None or isinstance(otherwise, str) else otherwise


def says(tree: Any, path: str) -> bool:
    """Returns whether a tree of settings sets a path, so that lower layers do not matter."""
    key, _, rest = path.partition(".")
    if not isinstance(tree, Mapping | Settings):
        return False
    inside = mapping_of(tree)
    if not rest:
        return key in inside or (key == "name" and CLASS in inside)
    return key in inside and says(inside[key], rest)
