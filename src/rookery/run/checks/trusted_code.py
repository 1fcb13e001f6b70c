"""Check of code named in the settings of a run: which of it may run (`core/settings/trust.py`, docs/trust.md)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from rookery.algorithms.algorithm import AlgorithmConfig
from rookery.algorithms.names import ALGORITHMS
from rookery.core.config import resolve
from rookery.core.io.files import is_own
from rookery.core.io.signing import is_signed_text, why_unsigned
from rookery.core.moved import new_name
from rookery.core.plugins import LOGGERS
from rookery.core.settings.class_names import ClassNames
from rookery.core.settings.fields import show
from rookery.core.settings.layers import Layer, nested, yaml_layer
from rookery.core.settings.trust import CodeKind, Named, Trust, TrustCode, is_ours, leaves_in, name_in, refuse_reach
from rookery.envs.adapters.import_paths import ENVIRONMENT, WRAPPER
from rookery.envs.schemes import code_of
from rookery.models.build import NETWORK
from rookery.run.checkpoint.checkpoint import Saved, argument_at
from rookery.run.checkpoint.client_tokens import with_new_token, with_own_token
from rookery.run.checkpoint.run_dir import RunDir
from rookery.run.checkpoint.script_file import stored_script, with_classes
from rookery.run.checks.foreign_settings import objections_in, says
from rookery.run.lessons.parameters import SAMPLER
from rookery.run.settings import RunConfig
from rookery.signals.signal import SignalConfig

V = TypeVar("V")

SETTINGS = CodeKind("settings of an algorithm", lambda found: issubclass(found, AlgorithmConfig))

SIGNAL = CodeKind("settings of a reward signal", lambda found: issubclass(found, SignalConfig))

LOGGER = CodeKind("a logger of an installed package", lambda _: False)

REWARDS = CodeKind("a function that gives rewards", lambda _: False, functions=True)

WORDS = ("policy_mapping", "init_from", "start_from", "mix", "replay")
"""Settings whose texts are names of policies or paths of runs, which may look like names of code."""


def named_code(values: Mapping[str, Any], between: Collection[str] = ()) -> Iterator[Named]:
    """Yields all code that settings name.

    Args:
        values: Settings by path, or as a tree.
        between: Keys between a setting and its values that are not part of its path.
    """
    # Objects are imported directly; settings are read as a tree, where a text `env` beside `env.config` is a name.
    yield from dict.fromkeys(named for tree in (values, nested(values)) for named in _named_in(tree, between))


def _named_in(values: Mapping[str, Any], between: Collection[str]) -> Iterator[Named]:
    for where, leaf in leaves_in(values):
        keys = where.split(".")
        path = ".".join(key for key in keys if key not in between)
        if path == "env.name":
            name = code_of(leaf) if isinstance(leaf, str) else name_in(leaf, is_code=True)
            kind: CodeKind | None = ENVIRONMENT
        else:
            kind = kind_at(path)
            name = name_in(leaf, is_code=kind is not None) or _plugged(leaf, kind)
            if isinstance(leaf, str) and kind is None and (is_ours(name) or keys[-1] in WORDS or keys[0] in WORDS):
                continue  # a text that is never imported
        if name and not (kind is SETTINGS and name in ALGORITHMS.own):
            yield Named(where, name, kind, again_at(path))


def _plugged(leaf: Any, kind: CodeKind | None) -> str:
    """Returns the import path of a plug-in that a text names, or an empty string."""
    table = ALGORITHMS if kind is SETTINGS else LOGGERS if kind is LOGGER else None
    if table is None or not isinstance(leaf, str):
        return ""
    name = ClassNames(table).spelled(leaf)
    return table[name] if name in table and name not in table.own else ""


def kind_at(path: str) -> CodeKind | None:
    """Returns the kind of code that a setting names; None if it names no code."""
    if path == "env.wrappers":
        return WRAPPER
    if path == "logging.loggers":
        return LOGGER
    if path.endswith(".model.module"):
        return NETWORK
    if path.endswith(".replay.relabel.function"):
        return REWARDS
    if path.startswith(("env.parameters.", "curriculum.")) and path.endswith(".sampler"):
        return SAMPLER
    first, *rest = path.split(".")
    *_, above, _, last = ["", "", "", *rest]
    if last == "name" and above == "own" and "signals" in rest:
        return SIGNAL
    if (first == "algorithm" and rest == ["name"]) or (first == "policies" and rest[1:] == ["name"]):
        return SETTINGS
    return None


def again_at(path: str) -> str:
    """Returns how to give a setting again to `Trainer.load`."""
    return f"as in Trainer.load(..., {argument_at(path)})"


def without_foreign_code(
    saved: Saved, layers: Iterable[Layer], trust_code: TrustCode, run_dir: RunDir | None = None
) -> Saved:
    """Refuses code and values of another user's checkpoint, unless the caller gives them again or trusts it.

    Args:
        saved: The checkpoint.
        layers: Settings of the caller.
        trust_code: Named code that may run.
        run_dir: Directory of the run, if it is resumed there.

    Returns:
        The checkpoint without names that the caller's settings replace, which are not imported, and without values
        that are replaced by defaults, which its notes list.

    Raises:
        ConfigError: With a line for each name and each value.
    """
    trust = Trust.of(is_own(saved.facts), trust_code)
    if trust.everything:
        return with_own_token(saved)
    file = saved.path / "config.json"
    trees = [nested(layer.values) for layer in layers]
    values = {}
    for path, value in saved.values.items():
        is_foreign = any(map(trust.objection, named_code({path: value})))
        if not (is_foreign and any(says(tree, path) for tree in trees)):
            values[path] = value
    trust.check(file, named_code(values))
    kept, notes = _without_reach(file, values, trees)
    # The next checkpoint takes its values from the history, so the history must hold checked values only.
    history = {
        path: [*given[:-1], (given[-1][0], kept[path])]
        for path, given in saved.history.items()
        if path in kept and given
    }
    saved = replace(saved, values=kept, history=history, notes=(*saved.notes, *notes))
    return saved if run_dir is None else with_new_token(saved, run_dir.path)


def without(values: Mapping[str, V], paths: Collection[str]) -> dict[str, V]:
    """Returns settings by path, or as a tree, without those at some paths."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        if any(key == path or key.startswith(f"{path}.") for path in paths):
            continue
        inside = [path.removeprefix(f"{key}.") for path in paths if path.startswith(f"{key}.")]
        found[key] = without(value, inside) if inside and isinstance(value, Mapping) else value
    return found


def notes_of_directory(run_dir: RunDir | None) -> list[str]:
    """Returns notes on the directory of a run; empty if there is none."""
    return [] if run_dir is None else [*run_dir.take_notes(), *unsigned_notes()]


def unsigned_notes() -> list[str]:
    """Returns a note if files cannot be signed; else an empty list."""
    why = why_unsigned()
    effect = "its files are not signed, so that resuming it needs --trust-code if it names code of your own or paths"
    return [f"{why}: {effect} (docs/trust.md)"] if why else []


def check_settings(
    file: Path, values: Mapping[str, Any], trust_code: TrustCode, over: Sequence[Layer] = ()
) -> dict[str, Any]:
    """Refuses code and values of the settings file of another user's run, unless it is trusted.

    Args:
        file: The file, ``config.yaml``.
        values: Its values.
        trust_code: Named code that may run.
        over: Layers over it.

    Returns:
        The values without those that are replaced by defaults.

    Raises:
        ConfigError: With a line for each name and each value.
    """
    trust = Trust.of(is_signed_text("config.yaml", file.read_text(encoding="utf-8")), trust_code)
    trust.check(file, (replace(named, again="") for named in named_code(values)))
    if trust.everything:
        return dict(values)
    return _without_reach(file, values, [nested(layer.values) for layer in over])[0]


def stored_config(file: Path, trust_code: TrustCode) -> RunConfig:
    """Returns the settings of a run from its ``config.yaml``, with the classes of its script.

    Raises:
        ConfigError: If it is another user's and names code or values that are not trusted, or is no longer valid.
    """
    layer = yaml_layer(file)
    values = with_classes(check_settings(file, layer.values, trust_code), stored_script(file.parent))
    checked = replace(layer, values=values)
    return resolve(RunConfig, [checked], ALGORITHMS).config


def restarted_run(
    folder: Path, stored: Layer, layers: Sequence[Layer], trust_code: TrustCode
) -> tuple[Layer, list[str]]:
    """Refuses values in ``provenance.json`` of a run without a checkpoint, which is restarted from them.

    Args:
        folder: Directory of the run.
        stored: Its settings; `check_stored` has checked the code that they name.
        layers: Layers over them.
        trust_code: Named code that may run.

    Returns:
        The settings without those that are replaced by defaults, and lines that list these.

    Raises:
        ConfigError: With a line for each value.
    """
    if trust_code is True:
        return stored, []
    file = folder / "config.yaml"
    own: set[tuple[str, str]] = set()
    if is_signed_text("config.yaml", file.read_text(encoding="utf-8")):  # the user's own settings at the start
        own = {(one.path, repr(one.value)) for one in objections_in(yaml_layer(file).values)}
    trees = [nested(layer.values) for layer in layers]
    values, notes = _without_reach(folder / "provenance.json", stored.values, trees, own)
    return replace(stored, values=values), notes


def _without_reach(
    file: Path, values: Mapping[str, Any], trees: Sequence[Any], mine: Collection[tuple[str, str]] = ()
) -> tuple[dict[str, Any], list[str]]:
    """Returns foreign settings without those that are replaced by defaults, and lines that list these.

    Args:
        file: The file with the settings.
        values: The settings.
        trees: Settings over them, as trees.
        mine: Paths and values that are the user's own.

    Raises:
        ConfigError: With a line for each refused value that no default can replace.
    """
    found = [
        one
        for one in objections_in(values, trees)
        if (one.path, repr(one.value)) not in mine and not any(says(tree, one.path) for tree in trees)
    ]
    refuse_reach(file, (one for one in found if not one.default_will_do), again=again_at)
    listed = dict.fromkeys(f"{one.path} = {show(one.value)} ({one.why})" for one in found)
    line = f"{file} was not written by you on this machine; left out, so that defaults hold: {', '.join(listed)}"
    return without(values, [one.path for one in found]), [f"{line} (docs/trust.md)"] if listed else []


def check_stored(folder: Path, values: Mapping[str, Any], trust_code: TrustCode) -> None:
    """Refuses settings in ``provenance.json`` of a run, which has no signature, if they name third-party code.

    Code that a ``config.yaml`` with the user's signature also names is the user's own.

    Args:
        folder: Directory of the run.
        values: The settings.
        trust_code: Named code that may run.

    Raises:
        ConfigError: With a line for each name.
    """
    file, own = folder / "config.yaml", set()
    if is_signed_text("config.yaml", file.read_text(encoding="utf-8")):
        own = {new_name(named.name) for named in named_code(yaml_layer(file).values)}
    others = (replace(named, again="") for named in named_code(values) if new_name(named.name) not in own)
    Trust.of(False, trust_code).check(folder / "provenance.json", others)
