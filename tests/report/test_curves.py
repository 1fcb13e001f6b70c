"""Learning curves: grouping, labels and means."""

from __future__ import annotations

from pathlib import Path

import pytest

from rookery.core.errors import ConfigError
from rookery.report.curves import GRID, Curve, average, curve_of, draw, flat, group


def test_a_curve_has_the_rows_where_the_metric_is_a_number():
    rows = [
        {"env_steps": 64, "return_mean": None, "time/seconds": 0.5},
        {"env_steps": 128, "return_mean": 3.0, "time/seconds": 1.0},
        {"env_steps": 192, "return_mean": 5, "evaluation/return_mean": 9.0, "time/seconds": 1.5},
    ]
    config = {"env": {"name": "x"}, "seed": 3, "logging": {"console": "quiet"}}
    curve = curve_of(Path("run"), rows, config, "return_mean", "seconds")
    assert (curve.x, curve.y, curve.settings) == ([1.0, 1.5], [3.0, 5.0], {"env.name": "x"})
    assert curve_of(Path("run"), rows, config, "evaluation/return_mean", "env_steps").x == [192.0]
    with pytest.raises(ConfigError, match="there is no number of it yet"):
        curve_of(Path("run"), rows[:1], config, "return_mean", "env_steps")


def test_labels_say_what_sets_curves_apart():
    def curve(**changes):
        tree = {
            "env": {"name": "my.module:Maze"},
            "algorithm": {"name": "ppo", "lr": 0.1, "clip": {"start": 1, "end": 0}},
        }
        tree["policies"] = {"main": {"lr": 0.1}}
        return Curve([0.0], [0.0], flat(tree) | changes)

    slow = {"algorithm.lr": 0.01, "policies.main.lr": 0.01}
    labels = group([curve(), curve(), curve(**slow)])
    assert list(labels) == ["Maze ppo, lr 0.1 (2 seeds)", "Maze ppo, lr 0.01"]
    assert list(group([curve()])) == ["Maze ppo"]
    assert flat({"clip": {"start": 1, "end": 0}}) == {"clip": {"start": 1, "end": 0}}


def test_a_mean_is_taken_where_all_runs_are_known():
    first = Curve([0.0, 10.0, 20.0], [0.0, 10.0, 20.0], {})
    second = Curve([5.0, 15.0], [1.0, 21.0], {})
    x, mean, low, high = average([first, second])
    assert (x[0], x[-1], len(x)) == (5.0, 15.0, GRID)
    assert mean[0] == 3.0  # (5 + 1) / 2
    assert mean[-1] == 18.0  # (15 + 21) / 2
    assert low[0] == pytest.approx(3.0 - 12.706204736 * 2.0)  # deviation sqrt(8), over sqrt(2)
    assert high[0] == pytest.approx(3.0 + 12.706204736 * 2.0)


def test_twenty_curves_of_one_point_are_drawn_too(tmp_path):
    draw({f"curve {n}": [Curve([1.0], [float(n)], {})] for n in range(20)}, "kl", "episodes", tmp_path / "many.png")
    assert (tmp_path / "many.png").stat().st_size > 1000
