"""Checks of the code that the folder of an experiment names: see `core/settings/trust.py` and docs/trust.md."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rookery.core.io.signing import is_signed
from rookery.core.settings.class_names import ClassNames
from rookery.core.settings.fields import fields_of
from rookery.core.settings.layers import nested
from rookery.core.settings.reach import Objection, of_settings
from rookery.core.settings.trust import CodeKind, Named, Trust, TrustCode, leaves_in, name_in, refuse_reach, texts_in
from rookery.run.checks.foreign_settings import objections_in
from rookery.run.checks.trusted_code import named_code
from rookery.tune.journal import FILE, Record
from rookery.tune.names import SCHEDULERS, SEARCHES
from rookery.tune.scheduler import SchedulerConfig
from rookery.tune.search import SearchConfig
from rookery.tune.settings import SECTION, TuneConfig
from rookery.tune.space import FUNCTIONS

CALLABLE_KEYS = ("sample_from", "explore", "trainable")
"""Keys whose values are called directly."""

SEARCH = CodeKind("settings of a search", lambda found: issubclass(found, SearchConfig))
SCHEDULER = CodeKind("settings of a scheduler", lambda found: issubclass(found, SchedulerConfig))
PARTS = {
    f"{SECTION}.search": (SEARCH, SEARCHES),
    f"{SECTION}.search.name": (SEARCH, SEARCHES),
    f"{SECTION}.scheduler": (SCHEDULER, SCHEDULERS),
    f"{SECTION}.scheduler.name": (SCHEDULER, SCHEDULERS),
}
"""Settings of an experiment whose names choose a class, with its kind and the short names."""


def check_experiment(folder: Path, record: Record, trust_code: TrustCode) -> None:
    """Refuses a foreign experiment that names code of other packages, unless the code is trusted.

    Args:
        folder: Folder of the experiment.
        record: First record of its journal.
        trust_code: Which of the named code may be run.

    Raises:
        ConfigError: With a line for each name.
    """
    trust = Trust.of(is_signed(FILE, record), trust_code)
    trust.check(folder / FILE, code_of_experiment(record))
    if not trust.everything:
        refuse_reach(folder / FILE, objections_to_experiment(record))


def code_of_experiment(record: Record) -> Iterator[Named]:
    """Yields all code that the first record of a journal names."""
    spec, section = record["spec"], record["tune"]
    if spec["trainable"]:
        yield Named("trainable", str(spec["trainable"]), None)
    yield from code_in(spec["config"])
    yield from code_in({SECTION: {name: part for name, part in section.items() if name != "points"}})
    for point in section.get("points", ()):
        yield from code_in(point)


def code_in(values: Mapping[str, Any]) -> Iterator[Named]:
    """Yields the code in settings with domains among them."""
    for path, leaf in leaves_in(values):
        kind, known = PARTS.get(path, (None, ()))
        name = name_in(leaf, is_code=True)
        if (kind and name and name not in known) or (path.rpartition(".")[2] in CALLABLE_KEYS and leaf is not None):
            yield Named(path, name or str(leaf), kind)
    yield from (named for named in named_code(values, FUNCTIONS) if named.path not in PARTS)


def check_params(folder: Path, records: Iterable[Record], now: Record) -> None:
    """Refuses parameters of trainings in a journal that name other code than the experiment itself; values of
    `sample_from` are trusted like their function.

    Args:
        folder: Folder of the experiment.
        records: The journal.
        now: The first record of the resumed experiment, whose code is trusted.

    Raises:
        ConfigError: With a line for each name.
    """
    if now["spec"]["trainable"]:  # only the user's own code reads its parameters
        return
    trust = Trust(names=frozenset(texts_in([now["space"], now["spec"], now["tune"]])))
    allowed = list(objections_to_experiment(now))
    texts = {(one.path, repr(one.value)) for one in allowed}
    sizes = {one.path for one in allowed if not isinstance(one.value, str)}  # a search draws other values between them
    config = variant(now["spec"]["config"], 0)
    computed = {path for path, domain in now["space"].items() if "sample_from" in domain}
    for record in records:
        for params in _params_in(record):
            given = {path: value for path, value in params.items() if path not in computed}
            trust.check(folder / FILE, code_in(given))
            found = objections_in(given, [nested({**config, **given})])
            refuse_reach(
                folder / FILE,
                (one for one in found if one.path not in sizes and (one.path, repr(one.value)) not in texts),
            )


def _params_in(record: Record) -> Iterator[Mapping[str, Any]]:
    """Yields the parameters of trials in a record."""
    for part in (record, *record.get("actions", {}).values()):
        if isinstance(part, Mapping) and isinstance(part.get("params"), Mapping):
            yield part["params"]


def objections_to_experiment(record: Record) -> Iterator[Objection]:
    """Yields the objections to the first record of a foreign journal."""
    section = {name: part for name, part in record["tune"].items() if name != "points"}
    config = {} if record["spec"]["trainable"] else record["spec"]["config"]
    trees = [nested(variant(config, 0))]
    for number in range(max_alternatives(config)):
        yield from objections_in(variant(config, number))
    for point in record["tune"].get("points", ()):
        yield from objections_in(point, trees)
    yield from of_settings(TuneConfig, variant(section, 0), SECTION)
    for name in section.keys() - fields_of(TuneConfig).keys():  # keywords of `tune.run` that are not settings
        yield Objection(f"{SECTION}.{name}", section[name], "is not a setting of an experiment")
    for name, known in (("search", SEARCHES), ("scheduler", SCHEDULERS)):
        part = section.get(name)
        if isinstance(part, Mapping):
            yield from _objections_to_part(part, known, f"{SECTION}.{name}", trees)


def _objections_to_part(
    part: Mapping[str, Any], known: Mapping[str, str], path: str, trees: list[Any]
) -> Iterator[Objection]:
    """Yields the objections to a search or scheduler, and to the parameters that it changes."""
    names = ClassNames(known)
    cls, _ = names.find(names.spelled(part.get("name")))
    if cls is not None:
        yield from of_settings(cls, part, path)
    for varied in (part.get("mutations"), part.get("bounds")):
        for setting, domain in varied.items() if isinstance(varied, Mapping) else ():
            values = domain if isinstance(domain, list | tuple) else [domain]
            for value in values:
                for number in range(max_alternatives(value)):
                    yield from objections_in({setting: variant(value, number)}, trees)


def max_alternatives(node: Any) -> int:
    """Returns the largest number of alternatives of a domain in a tree."""
    if _is_domain(node):
        return len(_alternatives(node))
    parts = node.values() if isinstance(node, Mapping) else node if isinstance(node, list | tuple) else ()
    return max(map(max_alternatives, parts), default=1)


def variant(node: Any, number: int) -> Any:
    """Returns a tree with each domain replaced by its alternative `number`, modulo their count."""
    if _is_domain(node):
        found = _alternatives(node)
        return found[number % len(found)]
    if isinstance(node, Mapping):
        return {key: variant(inner, number) for key, inner in node.items()}
    return [variant(inner, number) for inner in node] if isinstance(node, list | tuple) else node


def _is_domain(node: Any) -> bool:
    return isinstance(node, Mapping) and len(node) == 1 and next(iter(node)) in FUNCTIONS


def _alternatives(domain: Mapping[str, Any]) -> list[Any]:
    """Returns values of a domain, including the ends of a range; [None] for a function."""
    ((name, arguments),) = domain.items()
    if name == "sample_from":
        return [None]
    if isinstance(arguments, Mapping):
        arguments = [one for part in arguments.values() for one in (part if isinstance(part, list) else [part])]
    return list(arguments) if isinstance(arguments, list | tuple) and arguments else [arguments]
