"""Public names with their signatures: of Rookery itself, of `rookery.extend`, and of both faces.

Classes and functions are written by name, never by the module that they are in, so that files may move.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import functools
import importlib
import inspect
import re
import textwrap
import types
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Annotated, Any

ALIASES = ("rookery.compat.rllib", "rookery.compat.mlagents")

PACKAGES = ("rookery", "rookery.extend", "rookery_rllib", "rookery_mlagents", *ALIASES)

LONGEST = 100
"""Characters of a value that is written out."""

PLAIN = (
    str, int, float, tuple, list, type(None), enum.Enum, types.GenericAlias, types.UnionType, type(Annotated[int, 1])
)  # fmt: skip
"""Types of values that are written out."""

HIDDEN = ("saved", "fixed", "state", "state_version")
"""Members that say what a state is made of, which test_saved_attributes.py looks after."""


def is_ours(found: Any) -> bool:
    """Returns whether a class or function is written in Rookery."""
    return str(getattr(found, "__module__", "")).partition(".")[0].startswith("rookery")


def own_names(home: ModuleType) -> list[str]:
    """Returns the public names that a module defines itself."""
    return sorted(
        name for name, held in vars(home).items()
        if not name.startswith("_") and not isinstance(held, ModuleType)
        and getattr(held, "__module__", home.__name__) == home.__name__
    )  # fmt: skip


def without_modules(text: str) -> str:
    """Returns text without modules before names, and without addresses of objects."""
    text = re.sub(
        r"\b(?:rookery\w*|typing|collections\.abc|numpy|torch|gymnasium)(?:\.[a-z_0-9]\w*)*\.(?=\w)", "", text
    )
    return re.sub(r" at 0x[0-9a-f]+", "", text)


def written(value: Any) -> str:
    """Returns a value as text that is the same on every machine, and names no module of ours."""
    if isinstance(value, str) and re.fullmatch(r"[a-z_.\d]+:\w+", value):
        return repr(value.partition(":")[2])
    if isinstance(value, enum.Enum):
        return repr(value.value)
    if isinstance(value, type) or inspect.isroutine(value):
        return str(value.__qualname__)
    if isinstance(value, functools.partial):
        return f"partial of {written(value.func)}"
    if isinstance(value, set | frozenset):
        return f"{type(value).__name__} of {', '.join(sorted(map(written, value)))}"
    return without_modules(repr(value))


def annotation(hint: Any) -> str:
    """Returns a type as text."""
    return without_modules(hint if isinstance(hint, str) else inspect.formatannotation(hint))


def signature(found: Any, hints: bool = True) -> str:
    """Returns how a class or function is called; without types if `hints` are not wanted."""
    try:
        known = inspect.signature(found)
    except (TypeError, ValueError):
        return "(...)"
    parts, before = [], None
    for each in known.parameters.values():
        if each.kind is each.KEYWORD_ONLY and before not in (each.KEYWORD_ONLY, each.VAR_POSITIONAL):
            parts.append("*")
        if before is each.POSITIONAL_ONLY and each.kind is not before:
            parts.append("/")
        before = each.kind
        text = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "") + each.name
        if hints and each.annotation is not each.empty:
            text += f": {annotation(each.annotation)}"
        if each.default is not each.empty:
            text += f" = {written(each.default)}"
        parts.append(text)
    if before is inspect.Parameter.POSITIONAL_ONLY:
        parts.append("/")
    returned = known.return_annotation
    return f"({', '.join(parts)})" + (f" -> {annotation(returned)}" if hints and returned is not known.empty else "")


def described(found: Any) -> str:
    """Returns the kind and the name of an object."""
    if isinstance(found, ModuleType):
        return "module"
    if isinstance(found, type):
        return f"class {found.__qualname__}"
    if inspect.isroutine(found):
        return f"function {found.__qualname__}"
    if isinstance(found, dict):
        keys = " ".join(map(str, found))
        return f"dict of {keys if len(keys) < LONGEST else f'{len(found)} keys'}"
    text = written(found)
    is_plain = isinstance(found, PLAIN) and len(text) < LONGEST
    return text if is_plain and "/" not in text else f"a {type(found).__qualname__}"


def member_lines(found: type, apart: Iterable[type], hints: bool) -> Iterator[str]:
    """Yields the public members of a class, but those of bases that are listed themselves."""
    of_others = {parent for other in apart if other in found.__mro__[1:] for parent in other.__mro__}
    homes = [base for base in found.__mro__ if is_ours(base) and base not in of_others]
    fields = {each.name: each for each in dataclasses.fields(found)} if dataclasses.is_dataclass(found) else {}
    members: dict[str, str] = {}
    for home in homes:
        for name in inspect.get_annotations(home):
            if name in fields:
                members.setdefault(name, field_text(fields[name]))
        for name, held in vars(home).items():
            members.setdefault(name, member_text(held, hints))
    for home in homes:
        for name in attributes_set(home):
            members.setdefault(name, " [set by __init__]")
    for name in sorted(members):
        if (not name.startswith("_") or name == "__call__") and name not in HIDDEN:
            yield f"{found.__qualname__}.{name}{members[name]}"


def attributes_set(home: type) -> Iterator[str]:
    """Yields the attributes that the ``__init__`` of a class sets."""
    maker = vars(home).get("__init__")
    if not isinstance(maker, types.FunctionType) or dataclasses.is_dataclass(home):
        return
    for part in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(maker)))):
        if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store):
            if isinstance(part.value, ast.Name) and part.value.id == "self":
                yield part.attr


def field_text(field: dataclasses.Field[Any]) -> str:
    """Returns type and default of a field."""
    text = f": {annotation(field.type)}"
    if field.default is not dataclasses.MISSING:
        return f"{text} = {written(field.default)}"
    if field.default_factory is not dataclasses.MISSING:
        made = written(field.default_factory)
        return f"{text} = {'...' if 'lambda' in made else f'{made}()'}"
    return text


def member_text(held: Any, hints: bool) -> str:
    """Returns what a member is."""
    if isinstance(held, property | functools.cached_property):
        getter = held.fget if isinstance(held, property) else held.func
        hint = getattr(getter, "__annotations__", {}).get("return")
        return ": property" + (f" {annotation(hint)}" if hints and hint is not None else "")
    if isinstance(held, staticmethod | classmethod):
        return f"{signature(held.__func__, hints)} [{type(held).__name__}]"
    if inspect.isroutine(held):
        return signature(held, hints)
    return f" = {described(held)}"


def made_by(found: type, hints: bool) -> str:
    """Returns how an object of a class is made, where Rookery says so; fields are listed as members."""
    maker = next((base for base in found.__mro__ if "__init__" in vars(base) or "__new__" in vars(base)), object)
    is_plain = not is_ours(maker) or issubclass(found, enum.Enum) or getattr(found, "_is_protocol", False)
    if is_plain or dataclasses.is_dataclass(maker) and maker is found:
        return ""
    return signature(found, hints).removesuffix(" -> None")


def class_lines(found: type, apart: Iterable[type], hints: bool) -> Iterator[str]:
    """Yields a class with its listed bases, how it is made, and its members."""
    bases = [base.__qualname__ for base in found.__mro__[1:] if base in apart]
    yield f"class {found.__qualname__}{made_by(found, hints)}" + (f" [is {', '.join(bases)}]" if bases else "")
    yield from member_lines(found, apart, hints)


def object_lines(objects: Iterable[Any], hints: bool = True) -> list[str]:
    """Returns the lines of classes and functions of Rookery."""
    distinct = {id(each): each for each in objects if (isinstance(each, type) or inspect.isroutine(each))}.values()
    ours = [each for each in distinct if is_ours(each)]
    classes = [each for each in ours if isinstance(each, type)]
    texts = [list(class_lines(each, classes, hints)) for each in classes]
    texts += [[f"function {each.__qualname__}{signature(each, hints)}"] for each in ours if each not in classes]
    return [line for text in sorted(texts) for line in text]


def public_api() -> list[str]:
    """Returns the names of the public packages, then what they are."""
    objects, lines = [], []
    for package in PACKAGES:
        module = importlib.import_module(package)
        found = {name: getattr(module, name) for name in sorted(module.__all__)}
        lines += [f"{package}.{name}: {described(each)}" for name, each in found.items()]
        objects += found.values()
    return [*lines, "", *object_lines(objects)]
