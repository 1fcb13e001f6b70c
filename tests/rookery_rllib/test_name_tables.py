"""The tables of names of 2021: how their texts are read, that each name has an object, that the rest is reported."""

import importlib
import pkgutil

import pytest

from rookery_rllib.base import imports, names
from rookery_rllib.base.names import gone_in, names_in

AREAS = sorted(area.name for area in pkgutil.iter_modules(names.__path__))


def test_an_entry_has_modules_of_2021_and_what_stands_behind_their_names():
    read = names_in("""
old.first old.second  ours.one: Same Old=New
    =package.part: Theirs
old  ours.two: below.Below below.Other=There own  ours.three: *
""")
    first = {"Same": "ours.one:Same", "Old": "ours.one:New", "Theirs": "=package.part:Theirs"}
    assert read == {
        "old.first": first,
        "old.second": first,
        "old.below": {"Below": "ours.two:Below", "Other": "ours.two:There"},
        "old": {"own": "ours.two:own", "*": "ours.three:"},
    }


def test_names_are_taken_from_modules_below():
    read = names_in("""
old  ours: one.A one.B two.C  .one: A
all  ours: one.A two.B
all  .*: *
old.one  ours: D
old  .one: *
""")
    assert read["old"] == {"A": "ours:A", "B": "ours:B", "D": "ours:D"}
    assert read["all"] == {"A": "ours:A", "B": "ours:B"}


def test_names_that_are_not_here_are_told_by_package():
    assert gone_in("""
old
    One below.One: something: use another,
        and so on
    Two
        Three: nothing
other
    Four: less
""") == {
        "old.One": "something: use another, and so on",
        "old.below.One": "something: use another, and so on",
        "old.Two": "nothing",
        "old.Three": "nothing",
        "other.Four": "less",
    }


def table_of(area):
    if area == "tensorflow":
        pytest.importorskip("keras")
    return importlib.import_module(f"{names.__name__}.{area}")


@pytest.mark.parametrize("area", AREAS)
def test_every_name_of_a_table_stands_for_something(area):
    table = table_of(area)
    for module, entries in table.NAMES.items():
        for name in entries.keys() - {"*", "__needs__"}:
            assert imports.find(f"{module}.{name}") is not None


@pytest.mark.parametrize("area", AREAS)
def test_what_is_gone_is_told_and_nowhere_else(area):
    table = table_of(area)
    targets = imports.known()[0]
    for path, told in table.GONE.items():
        module, _, name = path.rpartition(".")
        assert told and not targets.get(path) and name not in targets.get(module, {})
        if path not in targets:
            with pytest.raises(ImportError, match="is not supported"):
                imports.find(path)
