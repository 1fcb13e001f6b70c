"""Errors: problems of one file are sorted by line."""

from rookery.core.errors import ConfigError


def test_problems_of_a_file_are_in_the_order_of_its_lines():
    given = ("a.yaml:12: x", "command line: lr", "b.yaml:3: y", "a.yaml:2: z", "b.yaml:1: w", "a.yaml:2: a")
    error = ConfigError(*given)
    assert error.problems == (
        "a.yaml:2: z", "command line: lr", "b.yaml:1: w", "a.yaml:2: a", "b.yaml:3: y", "a.yaml:12: x"
    )  # fmt: skip
    assert str(error).splitlines() == list(error.problems)
