"""Which of many cases ``make test`` runs; ``make test-all`` runs them all."""

import pytest


def slow_except(*quick, of):
    """Parameters for `pytest.mark.parametrize`: all of `of`, marked slow unless they are among `quick`.

    Args:
        quick: Cases that every run of the tests has; a name that `of` does not have is an error.
        of: All cases, names or tuples of arguments.
    """
    cases = list(of)
    assert [case for case in quick if case not in cases] == [], "a quick case that is none of the cases"
    return [case if case in quick else slow(*case) if isinstance(case, tuple) else slow(case) for case in cases]


def slow(*arguments):
    """One case that only ``make test-all`` runs."""
    return pytest.param(*arguments, marks=pytest.mark.slow)
