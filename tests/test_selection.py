"""Which cases every run of the tests has."""

import itertools

import pytest

import selection
from selection import slow_except, slow_repeats


@pytest.fixture(autouse=True)
def _with_slow(monkeypatch):
    monkeypatch.setattr(selection, "WITHOUT_SLOW", False)


def quick(cases):
    return [case for case in cases if not isinstance(case, type(pytest.param()))]


def test_of_a_product_each_value_is_in_a_quick_case_and_as_few_are_quick_as_can_be():
    cases = list(itertools.product("abc", [1, 2], [{}, {"x": 3}]))
    marked = slow_repeats(of=cases)
    assert [getattr(case, "values", case) for case in marked] == cases
    assert len(quick(marked)) == 3
    assert [{case[place] for case in quick(marked)} for place in (0, 1)] == [set("abc"), {1, 2}]
    assert {str(case[2]) for case in quick(marked)} == {"{}", "{'x': 3}"}
    assert all(case.marks[0].name == "slow" for case in marked if case not in quick(marked))


def test_values_that_go_with_some_of_the_others_alone_are_all_met():
    cases = [("a", 1), ("a", 2), ("b", 1), ("c", 3)]
    assert quick(slow_repeats(of=cases)) == cases
    assert quick(slow_repeats(of=[*cases, ("b", 2)])) == [("a", 1), ("c", 3), ("b", 2)]


def test_where_one_argument_has_more_values_those_of_the_others_take_turns():
    found = quick(slow_repeats(of=itertools.product(range(6), [True, False])))
    assert [number for number, _ in found] == list(range(6))
    assert sum(flag for _, flag in found) == 3


def test_a_quick_case_that_is_none_is_an_error():
    with pytest.raises(AssertionError, match="none of the cases"):
        slow_except("c", of=["a", "b"])


def test_where_slow_cases_are_left_out_anyway_none_is_made(monkeypatch):
    monkeypatch.setattr(selection, "WITHOUT_SLOW", True)
    assert slow_except("c", "a", of="abc") == ["a", "c"]
    assert slow_repeats(of=[("a", 1), ("b", 1), ("b", 2), ("c", 3)]) == [("a", 1), ("b", 2), ("c", 3)]
