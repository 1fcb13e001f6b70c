"""Which of the code that the folder of an experiment names may be run: see `core/trust.py` and docs/trust.md."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rookery.core.signing import is_signed
from rookery.core.trust import CodeKind, Named, Trust, TrustCode, leaves_in, name_in, texts_in
from rookery.training.trust import named_code
from rookery.tune.journal import FILE, Record
from rookery.tune.names import SCHEDULERS, SEARCHES
from rookery.tune.scheduler import SchedulerConfig
from rookery.tune.search import SearchConfig
from rookery.tune.settings import SECTION
from rookery.tune.space import FUNCTIONS

CALLED = ("sample_from", "explore", "trainable")
"""Keys under which stands what is called as it is."""

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
    """Refuses an experiment of others that names code of others, unless it is trusted.

    Args:
        folder: Folder of the experiment.
        record: First record of its journal.
        trust_code: What of the code that it names may be run.

    Raises:
        ConfigError: With a line for each name.
    """
    own = is_signed(FILE, record)
    Trust.of(own, trust_code).check(folder / FILE, code_of_experiment(record))


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
        if (kind and name and name not in known) or (path.rpartition(".")[2] in CALLED and leaf is not None):
            yield Named(path, name or str(leaf), kind)
    yield from (named for named in named_code(values, FUNCTIONS) if named.path not in PARTS)


def check_params(folder: Path, records: Iterable[Record], now: Record) -> None:
    """Refuses parameters of trainings in a journal that name other code than the experiment itself does; what a
    function chose, of `sample_from`, is as good as that function.

    Args:
        folder: Folder of the experiment.
        records: The journal.
        now: The first record as the experiment has it that goes on, whose code is trusted.

    Raises:
        ConfigError: With a line for each name.
    """
    if now["spec"]["trainable"]:  # whose parameters name code to nobody but the user's own
        return
    trust = Trust(names=frozenset(texts_in([now["space"], now["spec"], now["tune"]])))
    computed = {path for path, domain in now["space"].items() if "sample_from" in domain}
    for record in records:
        for params in _params_in(record):
            given = {path: value for path, value in params.items() if path not in computed}
            trust.check(folder / FILE, code_in(given))


def _params_in(record: Record) -> Iterator[Mapping[str, Any]]:
    """The parameters that a record gives to trials."""
    for part in (record, *record.get("actions", {}).values()):
        if isinstance(part, Mapping) and isinstance(part.get("params"), Mapping):
            yield part["params"]
