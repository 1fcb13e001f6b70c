"""Environments in C for tests."""

from pathlib import Path

import pytest

from rookery.envs.native.compiler import find_compiler

needs_compiler = pytest.mark.skipif(not find_compiler(), reason="no C compiler")

RACE = Path(__file__).with_name("race.c")
"""Two who take turns: all that the interface has, in one file."""

SMALL = Path(__file__).with_name("small.c")
"""A walk that breaks the contract as its setting says."""


def breach(name):
    """The number of a way to break the contract, by the name it has in the file."""
    text = SMALL.read_text()
    names = text[text.index("enum { NONE") : text.index("NUM_BREACHES")].removeprefix("enum {").split(",")
    return [word.strip() for word in names].index(name)
