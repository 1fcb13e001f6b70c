"""JSON description of an experiment, to check that a resumed one is the same, and to make it again from its folder.

`training_spec` and `trainable_spec` write down the arguments of `tune.run`. Objects that cannot be imported, such as a
class in a script, are listed in ``in_code``: such an experiment is resumed by running its script again.
"""

from __future__ import annotations

import io
import types
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rookery.core.errors import ConfigError, refuse
from rookery.core.moved import new_names
from rookery.core.settings.fields import Settings, fields_of, is_undecided, object_name
from rookery.core.settings.layers import CLASS, Layer, flow, import_object, mapping_of
from rookery.run.settings import algorithm_name
from rookery.tune.names import SCHEDULERS, SEARCHES
from rookery.tune.settings import SECTION, TuneConfig
from rookery.tune.space import Domain, to_json
from rookery.tune.spec import merged_values

FREE = ("num_samples", "place", "cpus", "gpus", "max_concurrent", "max_failures", "max_losses", "save_every",
        "seconds", "console", "seed")  # fmt: skip
"""Settings that may change when an experiment is resumed; the seed stays the first one."""


def training_spec(layers: Sequence[Layer], preset: str, in_code: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a JSON description from which trainings can be made again.

    Args:
        layers: All values, domains among them.
        preset: Name of the preset.
        in_code: Arguments that a file cannot hold, such as callbacks; empty ones are ignored.
    """
    config = merged_values((layer.values for layer in layers), keep_classes=True)
    lost = [*_unimportable_paths(config, ""), *(name for name, value in in_code.items() if value)]
    return {"trainable": None, "preset": preset, "config": as_in_file(config), "stop": None, "in_code": lost}


def trainable_spec(trainable: Any, config: Mapping[str, Any], stop: Any) -> dict[str, Any]:
    """Returns a JSON description from which trials of a class or function can be made again."""
    lost = [*_unimportable_paths({"trainable": trainable}, ""), *_unimportable_paths(dict(config), "config.")]
    lost += ["stop"] if callable(stop) else []
    return {"trainable": to_json(trainable), "preset": "none", "config": as_in_file(dict(config)),
            "stop": None if callable(stop) else dict(stop or {}), "in_code": lost}  # fmt: skip


def settings_spec(cfg: TuneConfig, objects: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the resolved section ``tune`` for JSON; a search or scheduler given as an object by its class."""
    found = {name: getattr(cfg, name) for name in fields_of(TuneConfig)}
    found |= {name: part_spec(found[name]) for name in ("search", "scheduler")}
    found |= {name: {"object": object_name(type(thing))} for name, thing in objects.items()}
    return {name: to_json(value) for name, value in found.items()}


def part_spec(cfg: Settings) -> dict[str, Any]:
    """Returns settings of a search or scheduler for JSON, with the name that chooses them."""
    path = object_name(type(cfg))
    name = next((name for name, known in {**SEARCHES, **SCHEDULERS}.items() if known == path), path)
    return {"name": name, **{field: to_json(getattr(cfg, field)) for field in fields_of(type(cfg))}}


def refuse_changes(folder: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuses to resume an experiment with another description.

    Raises:
        ConfigError: With a line for each difference.
    """
    wrong = []
    for what, title in (("space", "search space"), ("job", "training"), ("tune", "section tune")):
        old, new = _flat(new_names(before[what])), _flat(new_names(now[what]))
        for path in dict.fromkeys([*old, *new]):
            free = what == "tune" and path.split(".")[0] in FREE
            if old.get(path) != new.get(path) and not free:
                wrong.append(
                    f"{folder}: {title}: {path} = {flow(new.get(path))}, and this experiment began with "
                    f"{flow(old.get(path))}; change it back, or begin a new one in another folder (or with force)"
                )
    refuse(wrong)


def _flat(tree: Any, above: str = "") -> dict[str, Any]:
    """Returns the leaves of a tree by dotted path."""
    if not isinstance(tree, Mapping) or not tree:
        return {above.rstrip("."): tree}
    return {path: leaf for key, inner in tree.items() for path, leaf in _flat(inner, f"{above}{key}.").items()}


def describe_domains(value: Any) -> Any:
    """Returns settings of a search or scheduler with domains, such as PBT's mutations, written as in a file."""
    if isinstance(value, Domain):
        return value.describe()
    if isinstance(value, Mapping):
        return {key: describe_domains(inner) for key, inner in value.items()}
    if isinstance(value, Settings) and is_undecided(value):
        return value.replace(**{name: describe_domains(getattr(value, name)) for name in value.given})
    return value


def as_in_file(value: Any) -> Any:
    """Returns a configuration as in a file: settings with the name that chooses their class, domains as mappings with
    one key, classes and functions by their names.
    """
    if isinstance(value, Domain):
        return value.describe()
    if isinstance(value, Settings):
        return as_in_file(mapping_of(value))
    if isinstance(value, Mapping):
        tree = {str(key): as_in_file(inner) for key, inner in value.items() if key != CLASS}
        made = value.get(CLASS)
        if made is None or not hasattr(made, "algorithm"):
            return tree
        return {"name": algorithm_name(object.__new__(made)), **tree}
    if isinstance(value, list | tuple):
        return [as_in_file(inner) for inner in value]
    return to_json(value)


def _unimportable_paths(value: Any, path: str) -> Iterator[str]:
    """Yields the paths of objects that cannot be imported by name."""
    if isinstance(value, Settings):
        value = mapping_of(value)
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _unimportable_paths(inner, path if key == CLASS else f"{path}{key}.")
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            yield from _unimportable_paths(inner, f"{path}{number}.")
    elif isinstance(value, Domain):
        for inner in (*getattr(value, "values", ()), *filter(None, [getattr(value, "function", None)])):
            yield from _unimportable_paths(inner, path)
    elif isinstance(value, type | types.FunctionType | types.BuiltinFunctionType):
        if not _is_importable(value):
            yield path.rstrip(".")
    elif not (value is None or isinstance(value, bool | int | float | str)) and to_json(value) == repr(value):
        yield path.rstrip(".")


def _is_importable(value: Any) -> bool:
    try:
        return not object_name(value).startswith("__main__:") and import_object(object_name(value)) is value
    except ConfigError:
        return False


def experiment_yaml(record: Mapping[str, Any]) -> str:
    """Returns the YAML of an experiment; for trainings, ``rookery tune`` accepts it."""
    from ruamel.yaml import YAML

    spec, stream = record["spec"], io.StringIO()
    stream.write(f"# {record['title']}; resume it with: rookery tune resume\n")
    if not spec["trainable"]:
        stream.write(f"# repeat it with: rookery tune experiment.yaml --preset {spec['preset']}\n")
    for name in spec["in_code"]:
        stream.write(f"# {name} was given in code\n")
    writer = YAML(typ="safe", pure=True)
    writer.default_flow_style = False
    writer.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    trainable = {"trainable": spec["trainable"]} if spec["trainable"] else {}
    writer.dump({**trainable, **spec["config"], SECTION: {**record["tune"], "seed": record["seed"]}}, stream)
    return stream.getvalue()
