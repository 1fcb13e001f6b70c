"""Where the settings of a run name code, and which of it may be run: see `core/trust.py` and docs/trust.md."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rookery.algorithms.algorithm import AlgorithmConfig
from rookery.algorithms.names import ALGORITHMS
from rookery.core.files import is_own
from rookery.core.layers import CLASS, Layer, mapping_of, nested
from rookery.core.settings import Settings
from rookery.core.signing import is_signed_text, why_unsigned
from rookery.core.trust import CodeKind, Named, Trust, TrustCode, is_ours, leaves_in, name_in
from rookery.envs.make import ENVIRONMENT, WRAPPER, code_of
from rookery.models.build import NETWORK
from rookery.training.checkpoint import Saved
from rookery.training.parameters import SAMPLER

SETTINGS = CodeKind("settings of an algorithm", lambda found: issubclass(found, AlgorithmConfig))

REWARDS = CodeKind("a function that gives rewards", lambda _: False, functions=True)

WORDS = ("policy_mapping", "init_from", "start_from", "mix", "replay")
"""Settings whose texts are names of policies and paths of runs, which may look like names of code."""


def named_code(values: Mapping[str, Any], between: Collection[str] = ()) -> Iterator[Named]:
    """Yields all code that settings name.

    Args:
        values: Settings by path, or as a tree.
        between: Keys that stand between a setting and its values, and are no part of its path.
    """
    for where, leaf in leaves_in(values):
        keys = where.split(".")
        path = ".".join(key for key in keys if key not in between)
        if path == "env.name":
            name = code_of(leaf) if isinstance(leaf, str) else name_in(leaf, is_code=True)
            kind: CodeKind | None = ENVIRONMENT
        else:
            kind = kind_at(path)
            name = name_in(leaf, is_code=kind is not None)
            if isinstance(leaf, str) and kind is None and (is_ours(name) or keys[-1] in WORDS or keys[0] in WORDS):
                continue  # a text that nobody takes for code
        if name and not (kind is SETTINGS and name in ALGORITHMS):
            yield Named(where, name, kind, again_at(path))


def kind_at(path: str) -> CodeKind | None:
    """Gives the kind of code that a setting names; None where none is expected."""
    if path == "env.wrappers":
        return WRAPPER
    if path.endswith(".model.module"):
        return NETWORK
    if path.endswith(".replay.relabel.function"):
        return REWARDS
    if path.startswith(("env.parameters.", "curriculum.")) and path.endswith(".sampler"):
        return SAMPLER
    first, *rest = path.split(".")
    if (first == "algorithm" and rest == ["name"]) or (first == "policies" and rest[1:] == ["name"]):
        return SETTINGS
    return None


def again_at(path: str) -> str:
    """Says how a setting is given again to `Trainer.load`."""
    known = {"env.name": "env=MyEnv", "env.wrappers": "wrappers=[...]", "policy_mapping": "policy_mapping=..."}
    return f"as in Trainer.load(..., {known.get(path) or f'config={{{path!r}: ...}}'})"


def without_foreign_code(saved: Saved, layers: Iterable[Layer], trust_code: TrustCode) -> Saved:
    """Refuses a checkpoint of others that names code of others, unless the caller gives it again, or trusts it.

    Args:
        saved: The checkpoint.
        layers: What the caller says.
        trust_code: What of the code that it names may be run.

    Returns:
        The checkpoint without the names that the caller's own words take the place of, which are not even imported.

    Raises:
        ConfigError: With a line for each name.
    """
    trust = Trust.of(is_own(saved.facts), trust_code)
    trees = [nested(layer.values) for layer in layers]
    values = {}
    for path, value in saved.values.items():
        is_foreign = any(map(trust.objection, named_code({path: value})))
        if not (is_foreign and any(says(tree, path) for tree in trees)):
            values[path] = value
    trust.check(saved.path / "config.json", named_code(values))
    return replace(saved, values=values)


def says(tree: Any, path: str) -> bool:
    """Says whether settings given as a tree decide a setting by themselves, whatever a lower layer says of it."""
    key, _, rest = path.partition(".")
    if not isinstance(tree, Mapping | Settings):
        return False
    inside = mapping_of(tree)
    if not rest:
        return key in inside or (key == "name" and CLASS in inside)
    return key in inside and says(inside[key], rest)


def unsigned_notes() -> list[str]:
    """Gives a line to be told where nothing that is written has the user's signature; none where it has."""
    why = why_unsigned()
    told = "its files are not signed, so that going on with it needs --trust-code if it names code of your own"
    return [f"{why}: {told} (docs/trust.md)"] if why else []


def check_settings(file: Path, values: Mapping[str, Any], trust_code: TrustCode) -> None:
    """Refuses a settings file of a run of others that names code of others, unless it is trusted.

    Args:
        file: The file, ``config.yaml``.
        values: What was read from it.
        trust_code: What of the code that it names may be run.

    Raises:
        ConfigError: With a line for each name.
    """
    own = is_signed_text("config.yaml", file.read_text(encoding="utf-8"))
    Trust.of(own, trust_code).check(file, (replace(named, again="") for named in named_code(values)))


def check_stored(folder: Path, values: Mapping[str, Any], trust_code: TrustCode) -> None:
    """Refuses settings that ``provenance.json`` of a run tells, which nobody signs, if they name code of others.

    What a ``config.yaml`` with the user's signature names too is the user's own.

    Args:
        folder: Directory of the run.
        values: The settings.
        trust_code: What of the code that they name may be run.

    Raises:
        ConfigError: With a line for each name.
    """
    text = (folder / "config.yaml").read_text(encoding="utf-8")
    is_known = is_signed_text("config.yaml", text)
    others = (named for named in named_code(values) if not (is_known and named.name in text))
    Trust.of(False, trust_code).check(folder / "provenance.json", (replace(named, again="") for named in others))
