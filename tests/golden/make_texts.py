"""Writes tests/golden/texts/: what a user of Rookery can name, one name a line, compared by test_texts.py.

Run it after a change that a user is meant to notice, and read its diff::

    PYTHONPATH=src python tests/golden/make_texts.py [NAME ...]

The names that RLlib's example scripts import are facts about Ray 1.4 and are not written anew; with the wheel of Ray
they can be: ``--examples ray-1.4.0-....whl``.
"""

from __future__ import annotations

import argparse
import ast
import zipfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from face_tables import (
    api_of_mlagents,
    mlagents_keys,
    mlagents_translations,
    names_of_mlagents,
    rllib_keys,
    rllib_translations,
)
from help_texts import help_texts
from names_of_2021 import api_of_rllib, example_scripts, names_gone, names_of_2021
from public_api import public_api
from schema_lines import schema_lines

PLACE = Path(__file__).with_name("texts")

TEXTS: dict[str, Callable[[], list[str]]] = {
    "schema": schema_lines,
    "help": help_texts,
    "rllib-keys": rllib_keys,
    "rllib-translations": rllib_translations,
    "mlagents-keys": mlagents_keys,
    "mlagents-translations": mlagents_translations,
    "names-of-2021": names_of_2021,
    "names-of-2021-gone": names_gone,
    "names-of-mlagents": names_of_mlagents,
    "public-api": public_api,
    "public-api-rllib": api_of_rllib,
    "public-api-mlagents": api_of_mlagents,
    "rllib-examples": example_scripts,
}
"""What gives the lines of each text."""

EXAMPLES = "imports-of-rllib-examples"
"""The text that is read from the wheel of Ray."""


def stored(name: str) -> list[str]:
    """Returns the lines of a text that is stored."""
    return (PLACE / f"{name}.txt").read_text(encoding="utf-8").splitlines()


def store(name: str, lines: list[str]) -> None:
    """Writes a text."""
    (PLACE / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")


def imports_of_examples(wheel: Path) -> list[str]:
    """Returns each name that example scripts of RLlib import, with the scripts, one name a line."""
    users: dict[str, set[str]] = defaultdict(set)
    with zipfile.ZipFile(wheel) as files:
        for name in files.namelist():
            _, found, script = name.partition("rllib/examples/")
            if not found or not script.endswith(".py") or script.startswith(("env/", "models/", "policy/")):
                continue
            for line in ast.walk(ast.parse(files.read(name))):
                if isinstance(line, ast.ImportFrom) and line.module:
                    asked = [f"{line.module}.{each.name}" for each in line.names]
                else:
                    asked = [each.name for each in line.names] if isinstance(line, ast.Import) else []
                for each in asked:
                    if each.partition(".")[0] in ("ray", "gym", "tensorflow"):
                        users[each].add(script.removesuffix(".py"))
    return [f"{name}: {' '.join(sorted(users[name]))}" for name in sorted(users)]


def main() -> None:
    """Writes the texts that are named, or all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(TEXTS))
    parser.add_argument("--examples", type=Path, metavar="WHEEL", help="the wheel of Ray 1.4, to read imports from")
    given = parser.parse_args()
    if unknown := set(given.names) - TEXTS.keys():
        parser.error(f"no text is called {', '.join(sorted(unknown))}")
    PLACE.mkdir(exist_ok=True)
    if given.examples:
        store(EXAMPLES, imports_of_examples(given.examples))
    for name in given.names or TEXTS:
        store(name, TEXTS[name]())


if __name__ == "__main__":
    main()
