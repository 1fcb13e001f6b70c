"""Names of version 0.1 resolve: those of all public classes and functions, and those that stored runs hold.

The tables in `core/former_names/` lead from old names to present ones. `make_names.py` wrote the list.
"""

import ast
import re
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
from make_names import NAMES, ROOT, all_names

from rookery.core import moved
from rookery.core.packages import is_own
from rookery.core.settings.layers import import_object

STORED = Path(__file__).parent / "checkpoints"

EACH = 25
"""Modules from one that is imported to the next."""

COMMANDS = ("rookery", "rookery_mlagents", "rookery_rllib", "rookery_mlagents.testing")
"""What users run with ``python -m``."""


def modules():
    """Returns the names of each module of version 0.1."""
    lines = (line.partition(":") for line in NAMES.read_text(encoding="utf-8").splitlines())
    return {module: names.split() for module, _, names in lines}


@cache
def file_of(module):
    """Returns the file of a module in the source; None if there is none."""
    path = ROOT.joinpath("src", *module.split("."))
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)


@cache
def text_of(module):
    return "" if (file := file_of(module)) is None else file.read_text(encoding="utf-8")


@cache
def defined(module):
    """Returns the classes and functions at the top level of a module, found without parsing it."""
    return set(re.findall(r"^(?:class|(?:async )?def) (\w+)", text_of(module), re.MULTILINE))


@cache
def offered(module):
    return all_names(ast.parse(text_of(module)))


def imported(module):
    """Imports a module; None if it needs a package that is not installed here."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if is_own(str(error.name)):
            raise
        return None


def test_every_public_name_of_0_1_is_somewhere():
    missing = []
    for module, names in modules().items():
        if not moved.why_removed(module) and file_of(moved.new_name(module)) is None:
            missing.append(module)
            continue
        for name in names:
            old = f"{module}:{name}"
            place, _, now = moved.new_name(old).partition(":")
            if not (moved.why_removed(old) or now in defined(place) or now in offered(place)):
                missing.append(f"{old}, now {place}:{now}")
    assert not missing, "give each a row in core/former_names/"


def test_modules_of_0_1_can_be_imported_and_hold_what_they_held():
    for module, names in list(modules().items())[::EACH]:
        if moved.why_removed(module):
            continue
        found = imported(module)
        lost = [name for name in names if not (moved.why_removed(f"{module}:{name}") or hasattr(found, name))]
        assert found is None or not lost


def test_what_has_left_its_module_can_be_imported_from_it():
    rows = [row.partition(":") for row in moved.MOVED_NAMES if not moved.why_removed(row)]
    found = {module: imported(module) for module, _, _ in rows}
    assert [
        f"{module}:{name}" for module, _, name in rows if found[module] is not None and not hasattr(found[module], name)
    ] == []


def test_names_in_stored_runs_resolve():
    texts = [path.read_text(encoding="utf-8") for path in STORED.rglob("*") if path.suffix in (".json", ".yaml")]
    names = {name for text in texts for name in re.findall(r"\brookery(?:\.\w+)+:\w+", text)}
    assert {"rookery.models.heads:DistributionHead", "rookery.tasks:Basic"} < names
    assert all(callable(import_object(name)) for name in names)


@pytest.mark.parametrize("name", COMMANDS)
def test_modules_that_users_run_are_found(name):
    spec = find_spec(f"{name}.__main__")
    assert spec is not None and spec.loader.get_code(spec.name)


def test_rows_lead_from_what_is_gone_to_what_is_there():
    for table in (moved.MOVED, moved.MOVED_NAMES, moved.REMOVED):
        assert list(table) == sorted(table)
        assert all(map(is_own, table)), "`OldNames` asks for modules of these packages alone"
    for old, new in moved.MOVED.items():
        assert file_of(old) is None or new.startswith(f"{old}."), f"{old} is there again, and cannot be found"
        assert file_of(moved.new_name(old)) is not None, f"{old}: there is no {moved.new_name(old)}"
        above = old.rpartition(".")[0]
        assert above in moved.MOVED or file_of(above) is not None, f"{above} has no row, which {old} needs"
