"""The reference of the public names, read from the source by griffe: signatures and docstrings, nothing is imported."""

from __future__ import annotations

import ast
import logging
import re
from collections.abc import Iterable
from functools import cache
from itertools import groupby
from pathlib import Path

import griffe

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"

logging.getLogger("griffe").setLevel(logging.ERROR)

PAGES = {
    "rookery": "Trainer, settings of algorithms and runs, environments, reports: what `from rookery import NAME` has.",
    "rookery.extend": "What own algorithms, models, signals, environments and schedulers are written with.",
    "rookery_rllib": "Configurations and algorithms of RLlib 2.x, and what makes scripts of RLlib 1.x import. "
    "[Coming from RLlib](../../from-rllib.md) has the scripts, [keys](../rllib-keys.md) the settings.",
    "rookery_mlagents": "The names of `mlagents_envs`. [Coming from ML-Agents](../../from-mlagents.md) has the files, "
    "[keys](../mlagents-keys.md) the settings.",
}
"""Packages, and what their page says first."""

MOST_USED = {
    "rookery": ("Trainer", "PPOConfig", "DQNConfig", "SACConfig", "ModelConfig", "EvaluationConfig", "CheckpointConfig",
                "Callback", "Linear", "load_policy", "write_generic", "evaluate_offline"),
    "rookery.extend": ("AlgorithmConfig", "Algorithm", "Logger"),
}  # fmt: skip
"""Names that stand before all others on the page of a package."""

FACES = {
    "rookery_rllib": [
        f"rookery_rllib.{name}" for name in ("script.finder:install", "rllib2.config", "rllib2.algorithm")
    ],
    "rookery_mlagents": [
        f"rookery_mlagents.api.{name}"
        for name in (
            "importing:install", "base_env", "unity_environment", "specs", "steps", "side_channels", "channel_messages",
            "gym_wrapper", "pettingzoo_wrappers", "player_registry", "stats", "exceptions",
        )
    ],
}  # fmt: skip
"""Modules of the faces whose names are documented; ``MODULE:NAME`` is one name."""


@cache
def module(path: str) -> griffe.Module:
    """Returns a module, read without those below it."""
    file = file_of(path)
    return griffe.visit(path, filepath=file, code=file.read_text(encoding="utf-8"))


def file_of(path: str) -> Path:
    """Returns the file of a module."""
    place = SOURCE / path.replace(".", "/")
    return place / "__init__.py" if place.is_dir() else place.with_suffix(".py")


def imports(path: str) -> dict[str, str]:
    """Returns the module of each public name that a module imports."""
    file = file_of(path)
    found = {}
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in PAGES:
            found |= {name.name: str(node.module) for name in node.names if name.asname in (None, name.name)}
    return {name: home for name, home in found.items() if not name.startswith("_") and name[0] != "_"}


def documented(package: str) -> list[griffe.Object]:
    """Returns the public objects of a package, in the order of their pages."""
    found: list[griffe.Object] = []
    if package not in FACES:
        for name, home in imports(package).items():
            found.append(resolved(home, name))
    for path in FACES.get(package, ()):
        home, _, name = path.partition(":")
        members = [name] if name else public(module(home))
        found += [resolved(home, one) for one in members]
    return [one for one in found if one.is_class or one.is_function or one.has_docstring]


def public(of: griffe.Module) -> list[str]:
    """Returns the names that a module defines for others."""
    return [
        name
        for name, one in of.members.items()
        if not name.startswith("_") and not one.is_alias and (one.is_class or one.is_function)
    ]


def resolved(home: str, name: str) -> griffe.Object:
    """Returns an object of a module, or of the module that it comes from."""
    found = module(home).members[name]
    if isinstance(found, griffe.Alias):
        return resolved(*str(found.target_path).rsplit(".", 1))
    return found


def api_pages() -> dict[str, str]:
    """Returns the text of each page, by its package."""
    return {package: page(package, text) for package, text in PAGES.items()}


def page(package: str, text: str) -> str:
    """Returns the page of a package."""
    objects = sorted(documented(package), key=lambda one: (not one.is_class, one.name.lower()))
    lines = [f"# API: {package}", "", text, "", "Read from the source; private names are left out.", ""]
    if package in MOST_USED:
        lines += [f"Most used: {', '.join(f'[{name}](#{name.lower()})' for name in MOST_USED[package])}", ""]
    for kind, group in groupby(objects, key=lambda one: "Classes" if one.is_class else "Functions"):
        of = list(group)
        names = ", ".join(f"[{one.name}](#{one.name.lower()})" for one in of)
        lines += [f"{kind}: {names}", ""]
        for one in of:
            lines += class_lines(one) if one.is_class else function_lines(one, 2)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)) + "\n"


def class_lines(one: griffe.Object) -> list[str]:
    """Returns a class: its bases, docstring, attributes with a docstring, and public methods."""
    bases = [str(base) for base in getattr(one, "bases", [])]
    init = one.members.get("__init__")
    call = signature(init) if isinstance(init, griffe.Function) else ""
    lines = [f"## {one.name}", "", f"`{one.path.removesuffix('.' + one.name)}`", ""]
    lines += ["```python", f"class {one.name}{'(' + ', '.join(bases) + ')' if bases else ''}"]
    lines += [f"{one.name}{call}"] if call else []
    lines += ["```", "", *docstring(one)]
    if isinstance(init, griffe.Function):
        lines += docstring(init)
    attributes = [
        member
        for member in one.members.values()
        if member.is_attribute and not member.name.startswith("_") and member.has_docstring and not member.is_alias
    ]
    if attributes:
        lines += ["| attribute | type | default | meaning |", "|---|---|---|---|"]
        lines += [attribute_row(member) for member in attributes]
        lines.append("")
    for member in one.members.values():
        if member.is_function and not member.name.startswith("_") and member.has_docstring:
            lines += function_lines(member, 3, f"{one.name}.")
    return lines


def attribute_row(one: griffe.Object) -> str:
    """Returns a row of the table of attributes."""
    kind, value = (str(part) if part is not None else "" for part in (one.annotation, getattr(one, "value", None)))
    if len(value) > 60:
        value = "..."
    text = " ".join(one.docstring.value.split()) if one.docstring else ""
    cells = (one.name, kind, value)
    return (
        "| "
        + " | ".join([*(f"`{cell}`".replace("|", "\\|") if cell else "" for cell in cells), text.replace("|", "\\|")])
        + " |"
    )


def function_lines(one: griffe.Object, level: int, prefix: str = "") -> list[str]:
    """Returns a function, or a name for a type: its signature and docstring."""
    return [
        f"{'#' * level} {prefix}{one.name}",
        "",
        "```python",
        f"{one.name}{signature(one)}"
        if isinstance(one, griffe.Function)
        else f"{one.name} = {getattr(one, 'value', '')}",
        "```",
        "",
        *docstring(one),
    ]


def signature(one: griffe.Function) -> str:
    """Returns parameters and result, one parameter a line if they are long."""
    parts, star = [], False
    for parameter in one.parameters:
        if parameter.name in ("self", "cls"):
            continue
        kind = parameter.kind
        if kind is griffe.ParameterKind.keyword_only and not star:
            parts.append("*")
            star = True
        star = star or kind is griffe.ParameterKind.var_positional
        marks = {griffe.ParameterKind.var_positional: "*", griffe.ParameterKind.var_keyword: "**"}
        text = marks.get(kind, "") + parameter.name
        text += f": {parameter.annotation}" if parameter.annotation else ""
        if parameter.default is not None and kind not in marks:
            text += f" = {parameter.default}" if parameter.annotation else f"={parameter.default}"
        parts.append(text)
    result = f" -> {one.returns}" if one.returns else ""
    flat = f"({', '.join(parts)}){result}"
    if len(flat) < 90:
        return flat
    return "(\n    " + ",\n    ".join(parts) + f",\n){result}"


def docstring(one: griffe.Object) -> list[str]:
    """Returns a docstring as Markdown."""
    if one.docstring is None:
        return []
    lines: list[str] = []
    for section in one.docstring.parse("google", warnings=False):
        kind = section.kind.value
        if kind == "text":
            lines += [plain(section.value), ""]
        elif kind in ("parameters", "other parameters", "attributes"):
            lines += [f"**{'Attributes' if kind == 'attributes' else 'Parameters'}**", ""]
            lines += [f"- `{item.name}`: {flat(item.description)}" for item in section.value] + [""]
        elif kind in ("raises", "warns"):
            lines += [f"**{kind.capitalize()}**", ""]
            lines += [f"- `{item.annotation}`: {flat(item.description)}" for item in section.value] + [""]
        elif kind in ("returns", "yields", "receives"):
            lines += [f"**{kind.capitalize()}**", ""] + [f"- {flat(item.description)}" for item in section.value] + [""]
        elif kind == "examples":
            lines += [*(f"```python\n{value}\n```" for _, value in section.value), ""]
        else:
            lines += [plain(str(getattr(section.value, "description", ""))), ""]
    return lines


def flat(text: str) -> str:
    """Returns a description on one line."""
    return plain(" ".join(text.split()))


def plain(text: str) -> str:
    """Returns text of a docstring as Markdown: code between double backquotes, other marks as they are."""
    text = re.sub(r"``([^`]+)``", r"`\1`", text)
    return "\n".join(escaped(text.splitlines()))


def escaped(lines: Iterable[str]) -> list[str]:
    """Returns lines with brackets and stars outside of code escaped, so that they are text."""
    found = []
    for line in lines:
        parts = line.split("`")
        parts[::2] = [re.sub(r"([*_<\[\]])", r"\\\1", part) for part in parts[::2]]
        found.append("`".join(parts))
    return found
