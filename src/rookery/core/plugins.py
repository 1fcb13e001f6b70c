"""Plug-in tables: components by name, extensible by installed packages (`PluginTable`).

A row is a name and an import path, ``module:Name``. Rookery's own rows are here, including those of the packages
`rookery_rllib` and `rookery_mlagents`, so that they work from a source tree without installation. Any other package
adds rows by entry points in the group of a table (docs/how-to/plug-in.md). A part is imported when its name is looked
up; entry points are read for an unknown name, or when all names are listed.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from rookery.core.errors import ConfigError
from rookery.core.settings.layers import import_object

PREFIXES = ("rookery.", "mlagents.")
"""Beginnings of the groups of entry points that are read: Rookery's, and those of ML-Agents for `rookery_mlagents`."""

METADATA = (".dist-info", ".egg-info")
"""Suffixes of metadata folders of installed packages."""


@dataclass(frozen=True)
class Plugin:
    """Component that an installed package adds to a table.

    Attributes:
        name: Name of the row.
        path: Import path of the part, ``module:Name``.
        package: Name of the package that adds it.
    """

    name: str
    path: str
    package: str


class PluginWarning(UserWarning):
    """Warning about a plug-in that is left out; the text names the plug-in, its package and the reason."""


class PluginTable(Mapping[str, str]):
    """Import paths of components of one kind by name: built-in components, and those of installed packages.

    Args:
        group: Group of the entry points, such as ``rookery.verbs``.
        own: Import paths of the built-in parts by name, in the order in which they are listed. No plug-in replaces one.
        needs: Names of the attributes that a part has.
    """

    def __init__(self, group: str, own: Mapping[str, str], needs: tuple[str, ...] = ()) -> None:
        self.group, self.own, self.needs = group, own, needs

    def __getitem__(self, name: str) -> str:
        return self.own[name] if name in self.own else self.added[name].path

    def __iter__(self) -> Iterator[str]:
        yield from self.own
        yield from self.added  # iteration that stops at a built-in name reads no entry points

    def __len__(self) -> int:
        return len(self.own) + len(self.added)

    def __bool__(self) -> bool:
        return bool(self.own or self.added)

    @cached_property
    def added(self) -> Mapping[str, Plugin]:
        """Plug-ins by name; read once per process."""
        found: dict[str, Plugin] = {}
        for plugin in installed_plugins().get(self.group, ()):
            if plugin.name in self.own:
                self._leave_out(plugin, f"{plugin.name!r} is built in")
            elif plugin.name in found:
                self._leave_out(plugin, f"the package {found[plugin.name].package} has one of this name")
            else:
                found[plugin.name] = plugin
        return found

    def package_of(self, name: str) -> str:
        """Returns the name of the package that adds a component; an empty string for a built-in one."""
        return "" if name in self.own else self.added[name].package

    def load(self, name: str) -> Any:
        """Imports a component.

        Raises:
            ConfigError: If it cannot be imported, or is no part of this kind; names the package that it comes from.
        """
        path = self[name]
        package = self.package_of(name) or path.partition(".")[0]
        try:
            found = import_object(path)
        except ConfigError as error:
            raise ConfigError(f"{self.group}: {name} of the package {package}: {error}") from error
        if missing := [need for need in self.needs if not hasattr(found, need)]:
            raise ConfigError(f"{self.group}: {name} of the package {package}: {path} has no {missing[0]!r}")
        return found

    def load_added(self) -> dict[str, Any]:
        """Imports all plug-ins; leaves out those that cannot be imported, with a `PluginWarning`."""
        found = {}
        for name, plugin in self.added.items():
            try:
                found[name] = self.load(name)
            except ConfigError as error:
                self._leave_out(plugin, str(error.__cause__ or error))
        return found

    def _leave_out(self, plugin: Plugin, reason: str) -> None:
        text = f"{self.group}: plug-in {plugin.name!r} of the package {plugin.package} is left out: {reason}"
        warnings.warn(text, PluginWarning, stacklevel=3)


@cache
def installed_plugins() -> Mapping[str, tuple[Plugin, ...]]:
    """Returns the entry points of installed packages in the groups of `PREFIXES`, by group; read once per process.

    The metadata of packages is read here and not by `importlib.metadata`, whose import alone takes ten times as long
    (docs/how-to/plug-in.md). A package that lies in the working directory alone is not seen: the directory may have
    been given by anyone.
    """
    groups: dict[str, list[Plugin]] = {}
    seen: set[str] = set()
    for folder in sys.path:
        if folder and os.path.abspath(folder) != os.getcwd():
            for package, text in _entry_point_files(folder):
                if package not in seen:  # Python imports the first of two
                    seen.add(package)
                    for group, plugin in _plugins_in(text, package):
                        groups.setdefault(group, []).append(plugin)
    return {group: tuple(found) for group, found in groups.items()}


def _entry_point_files(folder: str) -> Iterator[tuple[str, str]]:
    """Yields the names of packages that have entry points, each with the text of its file of entry points."""
    try:
        with os.scandir(folder) as entries:
            inside = sorted((entry.name, entry.path) for entry in entries if entry.name.endswith(METADATA))
    except OSError:  # no folder: an archive, or a removed path
        return
    for name, path in inside:
        try:
            with open(os.path.join(path, "entry_points.txt"), encoding="utf-8") as file:
                text = file.read()
        except (OSError, UnicodeDecodeError):
            continue
        if any(f"[{prefix}" in text for prefix in PREFIXES):
            yield name.partition("-")[0].replace("_", "-"), text


def _plugins_in(text: str, package: str) -> Iterator[tuple[str, Plugin]]:
    """Yields the groups and plug-ins in the text of ``entry_points.txt``."""
    group = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            group = line.strip("[] ")
        elif "=" in line and group.startswith(PREFIXES) and not line.startswith(("#", ";")):
            name, _, path = line.partition("=")
            yield group, Plugin(name.strip(), path.partition("[")[0].strip(), package)


def missing_package(error: BaseException | None) -> str:
    """Returns the name of the third-party module whose absence caused an error; '' if there is none."""
    while error is not None:
        if isinstance(error, ModuleNotFoundError) and not str(error.name).startswith("rookery"):
            return str(error.name).partition(".")[0]
        error = error.__cause__
    return ""


ENV_SCHEMES = PluginTable(
    "rookery.environment_schemes",
    {
        "c": "rookery.envs.native.scheme:C_FILES",
        "bundled": "rookery.envs.adapters.import_paths:BUNDLED",
        "registered": "rookery.envs.adapters.gym_ids:REGISTERED",
        "unity": "rookery_mlagents.link.scheme:UNITY",
        "external": "rookery.envs.external.scheme:EXTERNAL",
        "envpool": "rookery.envs.vector.envpool:ENVPOOL",
        "code": "rookery.envs.adapters.import_paths:CODE",
        "gymnasium": "rookery.envs.adapters.gym_ids:PROVIDED",
        "vector": "rookery.envs.vector.makers:VECTOR_CLASS",
        "foreign": "rookery.envs.vector.makers:FOREIGN",
        "tensors": "rookery.tensor_envs.rows:TENSORS",
    },
    ("find",),
)
"""Kinds of environments (`envs/schemes.py`); the name of a plug-in is the prefix of environment names, before the
colon.
"""

EXPORTERS = PluginTable(
    "rookery.exporters",
    {"unity": "rookery_mlagents.onnx_unity:UNITY", "onnx": "rookery.onnx.generic:GENERIC"},
    ("write", "suffix", "options", "rules"),
)
"""Formats for exporting policies (`onnx/exporter.py`)."""

REPLAY_FORMATS = PluginTable(
    "rookery.replay_formats",
    {
        "unity": "rookery_mlagents.files.demo_replay:UNITY_DEMO",
        "npz": "rookery.replay.formats.npz_file:NPZ",
        "csv": "rookery.replay.formats.csv_file:CSV",
        "parquet": "rookery.replay.formats.parquet_file:PARQUET",
        "rllib": "rookery.replay.formats.rllib_json:RLLIB_JSON",
        "hdf5": "rookery.replay.formats.hdf5_file:HDF5",
        "minari": "rookery.replay.formats.minari_data:MINARI",
    },
    ("read", "write", "suffixes"),
)
"""File formats for reading and writing replay data (`replay/formats/replay_format.py`)."""

VERBS = PluginTable(
    "rookery.verbs",
    {
        "init": "rookery.cli.new.init:init",
        "train": "rookery.cli.train:train",
        "resume": "rookery.cli.resume:resume",
        "learn": "rookery.cli.learn:learn",
        "bench": "rookery.cli.bench.bench:bench",
        "zoo": "rookery.cli.zoo.zoo:app",
        "evaluate": "rookery.cli.evaluate:evaluate",
        "record": "rookery.cli.record:record",
        "plot": "rookery.cli.plot:plot",
        "timers": "rookery.cli.timers:timers",
        "doctor": "rookery.cli.doctor:doctor",
        "explain": "rookery.cli.explain:explain",
        "diff": "rookery.cli.settings.diff:diff",
        "algos": "rookery.cli.algos:algos",
        "envs": "rookery.cli.envs:app",
        "config": "rookery.cli.config:app",
        "match": "rookery.cli.games.match:match",
        "elo": "rookery.cli.games.elo:elo",
        "play": "rookery.cli.games.play:play",
        "serve": "rookery.cli.serve:serve",
        "export": "rookery.cli.onnx.export:export",
        "check-onnx": "rookery.cli.onnx.check_onnx:check_onnx",
        "replay": "rookery.cli.replay.replay:app",
        "memory": "rookery.cli.replay.replay:app",  # the old name of replay
        "tune": "rookery.cli.tune:app",
        "rllib": "rookery_rllib.verbs:app",
        "mlagents": "rookery_mlagents.verbs.mlagents:app",
    },
)
"""Verbs of the command line (`cli/verbs.py`): functions, or apps of Typer."""

TUNED_FILES = PluginTable(
    "rookery.tuned_files", {"mlagents": "rookery_mlagents.verbs.tuning:MLAGENTS_FILES"}, ("arguments", "stop")
)
"""Files of other libraries that ``rookery tune`` takes: objects whose `arguments` returns the arguments of `tune.run`
for the words of a command line, or None, and whose `stop` returns the criteria that always end a trial.
"""

LOGGERS = PluginTable("rookery.loggers", {"mlagents": "rookery_mlagents.learn.learn:RUN_FILES"}, ("make",))
"""Loggers, which write additional files of a run (`run/loggers.py`)."""
