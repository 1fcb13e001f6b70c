"""What a run's results are made of: windows, means and updates of an iteration, their numbers redone by hand."""

from __future__ import annotations

import pytest

from rookery.report.results import WINDOW
from rookery.rollout.hooks import EpisodeResult
from rookery.training.results import mean, mean_rows
from rookery.training.run import Windows


def episode(total, length=10, index=0):
    """An episode in which `a` earned one more than `b`."""
    agents = {"a": (total + 1) / 2, "b": (total - 1) / 2}
    return EpisodeResult(0, index, length, total, agents, {"a": "shared", "b": "shared"})


def test_windows_hold_the_last_100_episodes_and_count_all():
    windows = Windows()
    windows.add(episode(float(number)) for number in range(150))
    assert windows.episodes == 150
    assert WINDOW == len(windows.totals) == 100
    assert mean(windows.totals) == 99.5  # of 50 ... 149
    assert mean(windows.agents["a"]) == 50.25  # (99.5 + 1) / 2


def test_a_shared_policy_counts_each_of_its_agents():
    windows = Windows()
    windows.add([episode(3.0), episode(5.0)])
    assert list(windows.policies["shared"]) == [2.0, 1.0, 3.0, 2.0]
    assert windows.agent_episodes == {"shared": 4}


def test_windows_go_on_from_their_state():
    windows, other = Windows(), Windows()
    windows.add(episode(float(number)) for number in range(120))
    other.load_state_dict(windows.state_dict())
    for each in (windows, other):
        each.add([episode(1000.0)])
    assert other.totals == windows.totals
    assert (len(other.totals), other.totals.maxlen, other.totals[0]) == (100, 100, 21.0)
    assert other.agents == windows.agents


def test_the_mean_of_nothing_is_none():
    assert mean([]) is None
    assert mean([1.0, 2.0, 6.0]) == 3.0


def test_updates_of_an_iteration_are_averaged_and_counts_keep_the_last():
    rows = [
        {"kl": 0.1, "updates": 1, "ev": None},
        {"kl": 0.3, "updates": 2, "ev": 0.5},
        {"kl": None, "updates": 3, "ev": None},
    ]
    assert mean_rows(rows) == {"kl": pytest.approx(0.2), "updates": 3, "ev": 0.5}
    assert mean_rows([]) == {}
