"""What an experiment is, in the types of JSON: to compare with when it goes on, and to make it again from its folder.

`training_spec` and `trainable_spec` write down what `tune.run` was given. What no import finds, such as a class in a
script, is named in ``in_code``: such an experiment goes on when its script is run again.
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
from rookery.tune.space import Domain, written
from rookery.tune.spec import outline

FREE = ("num_samples", "place", "cpus", "gpus", "max_concurrent", "max_failures", "max_losses", "save_every",
        "seconds", "console", "seed")  # fmt: skip
"""Settings that may be others when an experiment goes on; the seed is that of its beginning."""


def training_spec(layers: Sequence[Layer], preset: str, in_code: Mapping[str, Any]) -> dict[str, Any]:
    """Writes down how trainings can be made again.

    Args:
        layers: All values, domains among them.
        preset: Name of the preset.
        in_code: Arguments that a file cannot hold, such as callbacks; those that are empty do not count.
    """
    config = outline((layer.values for layer in layers), keep_classes=True)
    lost = [*_nameless(config, ""), *(name for name, value in in_code.items() if value)]
    return {"trainable": None, "preset": preset, "config": named(config), "stop": None, "in_code": lost}


def trainable_spec(trainable: Any, config: Mapping[str, Any], stop: Any) -> dict[str, Any]:
    """Writes down how trials of a class or function can be made again."""
    lost = [*_nameless({"trainable": trainable}, ""), *_nameless(dict(config), "config.")]
    lost += ["stop"] if callable(stop) else []
    return {"trainable": written(trainable), "preset": "none", "config": named(dict(config)),
            "stop": None if callable(stop) else dict(stop or {}), "in_code": lost}  # fmt: skip


def settings_spec(cfg: TuneConfig, objects: Mapping[str, Any]) -> dict[str, Any]:
    """Writes down section ``tune`` as it was resolved; a search or scheduler that came as an object by its class."""
    found = {name: getattr(cfg, name) for name in fields_of(TuneConfig)}
    found |= {name: part_spec(found[name]) for name in ("search", "scheduler")}
    found |= {name: {"object": object_name(type(thing))} for name, thing in objects.items()}
    return {name: written(value) for name, value in found.items()}


def part_spec(cfg: Settings) -> dict[str, Any]:
    """Writes down settings of a search or scheduler, with the name that chooses them."""
    path = object_name(type(cfg))
    name = next((name for name, known in {**SEARCHES, **SCHEDULERS}.items() if known == path), path)
    return {"name": name, **{field: written(getattr(cfg, field)) for field in fields_of(type(cfg))}}


def refuse_changes(folder: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Sees to it that an experiment goes on as what it began as.

    Raises:
        ConfigError: With a line for each difference that matters.
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
    """A tree by dotted path."""
    if not isinstance(tree, Mapping) or not tree:
        return {above.rstrip("."): tree}
    return {path: leaf for key, inner in tree.items() for path, leaf in _flat(inner, f"{above}{key}.").items()}


def described(value: Any) -> Any:
    """Writes domains among settings of a search or scheduler, such as PBT's mutations, as a file has them."""
    if isinstance(value, Domain):
        return value.describe()
    if isinstance(value, Mapping):
        return {key: described(inner) for key, inner in value.items()}
    if isinstance(value, Settings) and is_undecided(value):
        return value.replace(**{name: described(getattr(value, name)) for name in value.given})
    return value


def named(value: Any) -> Any:
    """Writes a configuration as files have it: settings with the name that chooses their class, domains as mappings
    with one key, classes and functions by their names.
    """
    if isinstance(value, Domain):
        return value.describe()
    if isinstance(value, Settings):
        return named(mapping_of(value))
    if isinstance(value, Mapping):
        tree = {str(key): named(inner) for key, inner in value.items() if key != CLASS}
        made = value.get(CLASS)
        if made is None or not hasattr(made, "algorithm"):
            return tree
        return {"name": algorithm_name(object.__new__(made)), **tree}
    if isinstance(value, list | tuple):
        return [named(inner) for inner in value]
    return written(value)


def _nameless(value: Any, path: str) -> Iterator[str]:
    """Paths of what no import would find."""
    if isinstance(value, Settings):
        value = mapping_of(value)
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _nameless(inner, path if key == CLASS else f"{path}{key}.")
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            yield from _nameless(inner, f"{path}{number}.")
    elif isinstance(value, Domain):
        for inner in (*getattr(value, "values", ()), *filter(None, [getattr(value, "function", None)])):
            yield from _nameless(inner, path)
    elif isinstance(value, type | types.FunctionType | types.BuiltinFunctionType):
        if not _is_found_again(value):
            yield path.rstrip(".")
    elif not (value is None or isinstance(value, bool | int | float | str)) and written(value) == repr(value):
        yield path.rstrip(".")


def _is_found_again(value: Any) -> bool:
    try:
        return not object_name(value).startswith("__main__:") and import_object(object_name(value)) is value
    except ConfigError:
        return False


def experiment_yaml(record: Mapping[str, Any]) -> str:
    """Writes what an experiment is as YAML; that of trainings is a file that ``rookery tune`` takes."""
    from ruamel.yaml import YAML

    spec, stream = record["spec"], io.StringIO()
    stream.write(f"# {record['title']}; rookery tune resume goes on with it\n")
    if not spec["trainable"]:
        stream.write(f"# the same again: rookery tune experiment.yaml --preset {spec['preset']}\n")
    for name in spec["in_code"]:
        stream.write(f"# {name} was given in code\n")
    writer = YAML(typ="safe", pure=True)
    writer.default_flow_style = False
    writer.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    trainable = {"trainable": spec["trainable"]} if spec["trainable"] else {}
    writer.dump({**trainable, **spec["config"], SECTION: {**record["tune"], "seed": record["seed"]}}, stream)
    return stream.getvalue()
