"""Results of a run: windows, means and updates of an iteration, with numbers redone by hand."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from rookery.envs.adapters.reported import ReportedNumbers
from rookery.report.results import WINDOW, together
from rookery.rollout.hooks import EpisodeResult
from rookery.run.results import mean, mean_rows
from rookery.run.run import Windows


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


def test_what_an_environment_reports_is_of_the_iteration_in_which_it_came():
    env = SimpleNamespace(reported=ReportedNumbers())
    for number in (1.0, 3.0, float("nan")):
        env.reported.add("Game/Speed", number, "average")
        env.reported.add("Game/Kills", number, "sum")
        env.reported.add("Game/Level", number, "most_recent")
    windows = Windows()
    windows.add([], env)
    assert windows.reported == {
        "Game/Speed": ("average", [1.0, 3.0]),
        "Game/Kills": ("sum", [1.0, 3.0]),
        "Game/Level": ("most_recent", [3.0]),
    }
    assert {name: together(how, told) for name, (how, told) in windows.reported.items()} == {
        "Game/Speed": 2.0,
        "Game/Kills": 4.0,
        "Game/Level": 3.0,
    }
    windows.add([], env)
    assert not windows.reported
