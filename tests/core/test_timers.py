"""Timers and their tree."""

import json
import time

import pytest

from rookery.core.timers import Timers


def used():
    timers = Timers()
    for _ in range(2):
        with timers["train"]:
            with timers["sample"]:
                time.sleep(0.002)
            for _ in range(3):
                with timers["step"]:
                    pass
    with timers["step"]:
        pass
    return timers


def test_timers_nest_as_the_calls_do():
    state = used().state_dict()["children"]
    assert list(state) == ["train", "step"]
    assert list(state["train"]["children"]) == ["sample", "step"]
    assert (state["train"]["count"], state["train"]["children"]["step"]["count"], state["step"]["count"]) == (2, 6, 1)
    inner = state["train"]["children"]
    assert 0.004 <= inner["sample"]["seconds"] <= state["train"]["seconds"]
    json.dumps(state)


def test_a_label_within_itself_is_a_child():
    timers = Timers()
    with timers["a"], timers["a"]:
        pass
    assert timers.root.children["a"].children["a"].count == 1


def test_an_error_leaves_the_tree_where_it_was():
    timers = Timers()
    with pytest.raises(ValueError), timers["a"], timers["b"]:
        raise ValueError
    assert timers.current is timers.root
    assert timers.root.children["a"].count == 1


def test_the_tree_prints_the_slowest_first_with_shares_of_the_parent():
    lines = used().tree().splitlines()
    assert [line.split()[0] for line in lines] == ["train", "sample", "step", "step"]
    assert lines[1].startswith("  sample")
    assert [line.split()[-2] for line in lines] == ["2", "2", "6", "1"]


def test_a_tree_can_include_what_another_counted():
    timers, other = used(), used()
    with other["ahead"], other["act"]:
        pass
    timers.include(other)
    state = timers.state_dict()["children"]
    assert list(state) == ["train", "step", "ahead"]
    assert (state["train"]["count"], state["train"]["children"]["step"]["count"], state["step"]["count"]) == (4, 12, 2)
    assert state["train"]["seconds"] == pytest.approx(timers.root.children["train"].seconds, abs=1e-6)
    assert state["train"]["children"]["sample"]["seconds"] >= 0.008
    assert state["ahead"]["children"]["act"]["count"] == 1
    with timers["ahead"]:  # the tree continues separately
        assert timers.current is timers.root.children["ahead"]
    assert timers.current is timers.root


def test_timers_go_on_counting_from_a_saved_state():
    timers = Timers()
    timers.load_state_dict(used().state_dict())
    with timers["train"], timers["sample"]:
        pass
    node = timers.root.children["train"]
    assert (node.count, node.children["sample"].count) == (3, 3)
    assert node.children["sample"].seconds >= 0.004
    assert timers.current is timers.root
