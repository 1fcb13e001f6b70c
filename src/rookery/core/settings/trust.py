"""Trust in code that files name: a user's own files may run any code; files of other users only code of this library
and its environments.

A name in a file is ``module:Name``. Even importing its module runs code, so a name is checked before that (`Trust`),
and its object before it is called (`CodeKind`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType, ModuleType
from typing import Any

from rookery.core.errors import ConfigError, refuse
from rookery.core.moved import new_name
from rookery.core.packages import OWN
from rookery.core.settings.fields import Settings, object_name, show
from rookery.core.settings.layers import import_object, mapping_of
from rookery.core.settings.reach import Objection
from rookery.core.settings.script_objects import import_beside

OBJECT = "~object"
"""Key of the name of a class or function in saved settings."""

PACKAGES = (*OWN, "gymnasium", "pettingzoo")
"""Packages whose classes untrusted files may name."""

MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
"""Pattern of module names in these packages; other modules may have unusual names."""

IMPORT_PATH = re.compile(r"[^:/]+:[^\W\d][\w./-]*")
"""Pattern of an import path: ``module:Name``, or ``module:Id-v0`` of an environment that the module registers.

All that `import_object` imports is like this, whatever the file of the module is called.
"""

COMPILED = BuiltinFunctionType | MethodDescriptorType

WAY_OUT = "if you trust its author, use --trust-code (in code: trust_code=True)"

TrustCode = bool | Collection[str]
"""Code that a file may name: True = all code, False = only `PACKAGES`, or additional names ``module:Name``."""


@dataclass(frozen=True)
class CodeKind:
    """Kind of code that a setting in a file may name.

    Attributes:
        label: Its name in messages.
        fits: Returns whether a class is of this kind.
        functions: Whether trusted functions are allowed too; their result can only be checked afterwards.
        makers: Names of PettingZoo's functions that are allowed in untrusted files.
        compiled: Whether compiled functions are allowed, such as those of ``math`` and ``os``.
        is_own: Whether classes of `PACKAGES` are allowed in untrusted files.
    """

    label: str
    fits: Callable[[type], bool]
    functions: bool = False
    makers: tuple[str, ...] = ()
    compiled: bool = False
    is_own: bool = True

    def accepts(self, found: Any) -> bool:
        """Returns whether a class or function may be called."""
        if isinstance(found, type):
            return self.fits(found)
        return self.functions and callable(found) and (self.compiled or not isinstance(found, COMPILED))

    def find(self, name: str, named_by: Any = None) -> Any:
        """Returns the class or function that ``module:Name`` names.

        Args:
            name: The import path.
            named_by: The object that has it, which may be of a script.

        Raises:
            ConfigError: If there is none, or it is of another kind.
        """
        found = import_beside(named_by, name)
        if not self.accepts(found):
            raise ConfigError(f"{name}: is {a_kind(found)}, not {self.label}")
        return found


@dataclass(frozen=True)
class Named:
    """Code named in a file.

    Attributes:
        path: Its path in the file.
        name: ``module:Name``, or the name of a module.
        kind: The expected kind; None if code of any kind might be called.
        again: How a caller can pass it instead of the file; empty if impossible.
    """

    path: str
    name: str
    kind: CodeKind | None
    again: str = ""


@dataclass(frozen=True)
class Trust:
    """Decides which code named in a file may run.

    Attributes:
        everything: Whether all of it may: it is the user's own, or the user has said so.
        names: Names that the user has said otherwise.
    """

    everything: bool = False
    names: frozenset[str] = frozenset()

    @classmethod
    def of(cls, is_own: bool, trust_code: TrustCode) -> Trust:
        """Creates the trust for a file, given its ownership and the caller's `trust_code`."""
        if isinstance(trust_code, bool):
            return cls(is_own or trust_code)
        return cls(is_own, frozenset([trust_code] if isinstance(trust_code, str) else trust_code))

    def objection(self, named: Named) -> str:
        """Returns the reason why code may not run, or an empty string."""
        name = new_name(named.name)
        if self.everything or name in map(new_name, self.names):
            return ""
        if named.kind is None:
            return "may be code of any kind"
        if not is_ours(name):
            return "is no code of Rookery, Gymnasium or PettingZoo"
        try:
            found = import_object(named.name) if ":" in name else import_module(name)
        except (ConfigError, ImportError) as error:
            return f"cannot be found ({error})"
        if is_ours(str(getattr(found, "__module__", ""))) and isinstance(found, type):
            if reached := getattr(found, "reaches_when_made", ""):
                return f"reaches {reached} as soon as it is made"
            return "" if named.kind.is_own and named.kind.fits(found) else f"is {a_kind(found)}, not {named.kind.label}"
        if any(is_maker(maker) for maker in _makers(named, found)):
            return ""
        return f"is {a_kind(found)}, not {named.kind.label} of Rookery, Gymnasium or PettingZoo"

    def check(self, file: Path, code: Iterable[Named], way_out: str = WAY_OUT) -> None:
        """Raises an error for code that may not run, before any of it is imported.

        Args:
            file: The file, for messages.
            code: The code that it names.
            way_out: How it can be run all the same.

        Raises:
            ConfigError: With a line for each name: its path, the code it would run, and the remedies.
        """
        objections = ((named, self.objection(named)) for named in code)
        refuse(
            f"{file}: {named.path} = {named.name}: reading this would run {named.name}, which {why}, and the file was "
            f"not written by you on this machine (it does not have your signature); "
            f"{f'give it again yourself, {named.again}, or, ' if named.again else ''}{way_out}"
            for named, why in objections
            if why
        )


def refuse_reach(
    file: Path, found: Iterable[Objection], way_out: str = WAY_OUT, again: Callable[[str], str] = lambda _: ""
) -> None:
    """Raises an error for foreign values with effects beyond the training.

    Args:
        file: The file with the values.
        found: The objections to them.
        way_out: How to take them all the same, as text.
        again: Returns how a caller gives the value of a path again; empty if that is impossible.

    Raises:
        ConfigError: With a line for each value: its path, the objection, and the remedy.
    """
    refuse(
        dict.fromkeys(
            f"{file}: {one.path} = {show(one.value)}: {one.why}, and the file was not written by you on this machine "
            "(it does not have your signature); "
            f"{f'give it again yourself, {again(one.path)}, or, ' if again(one.path) else ''}{way_out}"
            for one in found
        )
    )


def is_ours(name: str) -> bool:
    """Returns whether a module, or ``module:Name``, belongs to one of `PACKAGES`."""
    module = name.partition(":")[0]
    return bool(MODULE.fullmatch(module)) and module.partition(".")[0] in PACKAGES


def is_maker(found: Any) -> bool:
    """Returns whether an object is an environment function of PettingZoo."""
    return isinstance(found, FunctionType) and found.__module__.partition(".")[0] == "pettingzoo"


def _makers(named: Named, found: Any) -> Iterator[Any]:
    """Yields the functions that create environments: those of a module, or the given one."""
    wanted = named.kind.makers if named.kind else ()
    if isinstance(found, ModuleType):
        yield from (getattr(found, maker) for maker in wanted if hasattr(found, maker))
    elif named.name.rpartition(":")[2] in wanted:
        yield found


def a_kind(found: Any) -> str:
    """Describes a found object for a message."""
    if isinstance(found, COMPILED):
        return "a compiled function"
    kinds: dict[type, str] = {type: "a class", FunctionType: "a function", ModuleType: "a module"}
    return next((label for kind, label in kinds.items() if isinstance(found, kind)), f"a {type(found).__name__}")


def texts_in(value: Any) -> Iterator[str]:
    """Yields all texts in settings, and the names of classes and functions."""
    if isinstance(value, Settings):
        value = mapping_of(value)
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from texts_in(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from texts_in(inner)
    elif isinstance(value, str):
        yield value
    elif name := object_name(value):
        yield name


def leaves_in(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yields the plain values in mappings and lists with their dotted paths; saved names of objects are yielded
    whole.
    """
    if isinstance(value, Mapping) and OBJECT not in value:
        for key, inner in value.items():
            yield from leaves_in(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from leaves_in(inner, path)
    else:
        yield path, value


def name_in(leaf: Any, *, is_code: bool) -> str:
    """Returns the code named by a leaf; empty if it names none.

    Args:
        leaf: A plain value, or the saved name of an object.
        is_code: Whether every text with a colon is one, as where a setting is a class; else it has to look like it.
    """
    if isinstance(leaf, Mapping):
        return leaf[OBJECT] if isinstance(leaf[OBJECT], str) else show(leaf)
    if not isinstance(leaf, str):
        return ""
    return leaf if (":" in leaf if is_code else IMPORT_PATH.fullmatch(leaf)) else ""
