"""Which of many cases ``make test`` runs; ``make test-all`` runs them all.

A case that repeats a check with other values is slow. Each value of an argument (an algorithm, a kind of memory or
action, a back end) stays in a quick case: of one test or, where several go through the same values, of one of these.
"""

from collections import Counter

import pytest

WITHOUT_SLOW = False
"""Whether the tests run with ``-m "not slow"``: then slow cases of many need not even be made (set by conftest.py)."""


def slow_except(*quick, of):
    """Parameters for `pytest.mark.parametrize`: all of `of`, marked slow unless they are among `quick`.

    Args:
        quick: Cases that every run of the tests has; a name that `of` does not have is an error.
        of: All cases, names or tuples of arguments.
    """
    cases = list(of)
    assert [case for case in quick if case not in cases] == [], "a quick case that is none of the cases"
    return made((case, case in quick) for case in cases)


def slow_repeats(of):
    """Parameters for `pytest.mark.parametrize` of several names: all of `of`, marked slow unless the quick ones need
    them to have each value of each argument at least once.

    Each quick case has as many new values as there are, and of the others those that were seen least.

    Args:
        of: All cases, tuples of arguments: ``itertools.product`` where every value goes with every other.
    """
    cases = list(of)
    values = [{(place, repr(value)) for place, value in enumerate(case)} for case in cases]
    missing, seen, quick = set().union(*values), Counter(), set()
    while missing:
        number = max(range(len(cases)), key=lambda number: news(values[number], missing, seen))
        quick.add(number)
        missing -= values[number]
        seen.update(values[number])
    return made((case, number in quick) for number, case in enumerate(cases))


def made(cases):
    """Parameters of cases, each with whether it is quick."""
    if WITHOUT_SLOW:
        return [case for case, quick in cases if quick]
    return [case if quick else slow(*case) if isinstance(case, tuple) else slow(case) for case, quick in cases]


def news(values, missing, seen):
    """Returns how new a case is: the number of missing values, then how seldom all its values have been seen."""
    return len(values & missing), -sum(seen[value] for value in values)


def slow(*arguments):
    """One case that only ``make test-all`` runs."""
    return pytest.param(*arguments, marks=pytest.mark.slow)
