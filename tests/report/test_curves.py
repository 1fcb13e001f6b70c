"""Learning curves: grouping, labels, and what is drawn of several seeds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rookery.core.errors import ConfigError
from rookery.report.curves import (
    GRID,
    Curve,
    caption,
    curve_of,
    distinct,
    draw,
    draw_mean,
    flat,
    group,
    nearest_metrics,
    new_figure,
    on_grid,
    shared_title,
)
from rookery.report.statistics import aggregate_scores


def curve(run="a", seed=None, y=(0.0, 1.0), **changes):
    tree = {"env": {"name": "my.module:Maze"}, "algorithm": {"name": "ppo", "lr": 0.1, "clip": {"start": 1, "end": 0}}}
    tree["policies"] = {"main": {"lr": 0.1}}
    return Curve([float(at) for at in range(len(y))], list(y), flat(tree) | changes, Path("runs") / run, seed)


def test_a_curve_has_the_rows_where_the_metric_is_a_number():
    rows = [
        {"env_steps": 64, "return_mean": None, "time/seconds": 0.5},
        {"env_steps": 128, "return_mean": 3.0, "time/seconds": 1.0},
        {"env_steps": 192, "return_mean": 5, "evaluation/return_mean": 9.0, "time/seconds": 1.5},
    ]
    config = {"env": {"name": "x"}, "seed": 3, "logging": {"console": "quiet"}}
    found = curve_of(Path("run"), rows, config, "return_mean", "seconds")
    assert (found.x, found.y, found.settings, found.seed) == ([1.0, 1.5], [3.0, 5.0], {"env.name": "x"}, 3)
    assert curve_of(Path("run"), rows, config, "evaluation/return_mean", "env_steps").x == [192.0]
    with pytest.raises(ConfigError, match="there is no number of it yet"):
        curve_of(Path("run"), rows[:1], config, "return_mean", "env_steps")


def test_metrics_are_found_by_their_last_part_too():
    known = ["env_steps", "return_mean", "policies/main/kl", "policies/main/entropy", "evaluation/return_mean"]
    assert nearest_metrics("entrpy", known)[0] == "policies/main/entropy"
    assert nearest_metrics("main/kls", known)[0] == "policies/main/kl"
    assert nearest_metrics("return_maen", known)[:2] == ["return_mean", "evaluation/return_mean"]
    assert len(nearest_metrics("?", known)) == 3


def test_labels_say_what_sets_curves_apart():
    slow = {"algorithm.lr": 0.01, "policies.main.lr": 0.01}
    assert list(group([curve(), curve(), curve(**slow)])) == ["lr 0.1 (2 seeds)", "lr 0.01"]
    assert list(group([curve("mine")])) == ["mine"]
    assert list(group([curve(), curve()])) == ["2 seeds"]
    falling = curve(**{"algorithm.lr": {"start": 0.1, "end": 0.0}})
    assert list(group([curve(), falling])) == ["lr 0.1", "lr 0.1 to 0"]
    assert flat({"clip": {"start": 1, "end": 0}}) == {"clip": {"start": 1, "end": 0}}


def test_environment_and_algorithm_are_named_first_and_in_the_title_where_all_share_them():
    other = curve(**{"algorithm.name": "dqn", "algorithm.lr": 0.5, "algorithm.double": True})
    assert list(group([curve(), other])) == ["ppo", "dqn"]
    assert list(group([curve(), curve(**{"algorithm.lr": 0.2}), other])) == ["ppo, lr 0.1", "ppo, lr 0.2", "dqn"]
    assert shared_title([curve(), curve(**{"algorithm.lr": 0.2})]) == "Maze, ppo"
    assert shared_title([curve(), other]) == "Maze"
    assert list(group([curve(), curve(**{"env.name": "Cave"})])) == ["Maze", "Cave"]


def test_labels_name_more_than_three_settings_only_to_tell_curves_apart():
    names = [f"algorithm.option_{number}" for number in range(5)]
    together = curve(**dict.fromkeys(names, 1))
    base = curve(**dict.fromkeys(names, 0))
    assert list(group([base, together])) == ["option_0 0, option_1 0, option_2 0", "option_0 1, option_1 1, option_2 1"]
    last = curve(**{**dict.fromkeys(names, 0), names[4]: 1})
    assert len(set(group([base, together, last]))) == 3
    assert "option_3" not in "".join(group([base, together, last]))
    long = [curve(run, **{"env.config.path": "x" * 50 + run}) for run in ("a", "b")]
    assert list(group(long)) == [f"path {'x' * 39}…", f"path {'x' * 39}…, runs/b"]


def test_one_run_is_one_seed():
    first, copy = curve("a", 1), curve("b", 1, (0.0, 1.0, 2.0))
    assert [same.run.name for _, same in distinct([first, copy, curve("c", 2)])] == ["b", "b", "c"]
    longer = curve("d", 1, (0.0, 1.0, 2.0, 3.0), **{"stop.env_steps": 9})
    assert [same.run.name for _, same in distinct([first, longer])] == ["d", "d"]
    apart = curve("e", 1, (0.0, 5.0, 2.0, 3.0), **{"stop.env_steps": 9})
    assert [same.run.name for _, same in distinct([first, apart])] == ["a", "e"], "it learned otherwise from the start"
    assert [same.run.name for _, same in distinct([first, curve("f", 1, **{"algorithm.lr": 0.2})])] == ["a", "f"]
    assert [same.run.name for _, same in distinct([curve("g"), curve("h")])] == ["g", "h"]


def test_curves_are_compared_where_all_runs_are_known():
    first = Curve([0.0, 10.0, 20.0], [0.0, 10.0, 20.0], {})
    second = Curve([5.0, 15.0], [1.0, 21.0], {})
    x, values = on_grid([first, second])
    assert (x[0], x[-1], len(x)) == (5.0, 15.0, GRID)
    assert values[:, 0].tolist() == [5.0, 1.0]
    assert values[:, -1].tolist() == [15.0, 21.0]


def test_few_seeds_are_drawn_one_by_one_and_four_have_an_interval():
    axes = new_figure(4, 3, "a test").add_subplot()
    seeds = [curve(seed=number, y=(0.0, float(number), number**2)) for number in range(4)]
    draw_mean(axes, seeds[:3], "three", "#0072b2", 2.0)
    assert (len(axes.lines), len(axes.collections)) == (4, 0)
    assert axes.lines[-1].get_ydata()[-1] == pytest.approx((0 + 1 + 4) / 3)
    draw_mean(axes, seeds, "four", "#0072b2", 2.0)
    assert (len(axes.lines), len(axes.collections)) == (5, 1)
    area = axes.collections[0].get_paths()[0].vertices
    ends = aggregate_scores([[0.0, 1.0, 4.0, 9.0]])
    at_end = area[area[:, 0] == 2.0][:, 1]
    assert (at_end.min(), at_end.max()) == (ends.low, ends.high)
    draw_mean(axes, seeds, "iqm", "#0072b2", 2.0, statistic="iqm")
    assert axes.lines[-1].get_ydata()[-1] == pytest.approx((1 + 4) / 2)


def test_the_caption_says_what_lines_are():
    assert caption([1]) == ""
    assert caption([1, 2]) == "mean over seeds; thin lines: single seeds"
    assert caption([4], "iqm") == "interquartile mean over seeds; area: its 95 % interval (bootstrap)"


def test_twenty_curves_of_one_point_are_drawn_too(tmp_path):
    draw({f"curve {n}": [Curve([1.0], [float(n)], {})] for n in range(20)}, "kl", "episodes", tmp_path / "many.png")
    assert (tmp_path / "many.png").stat().st_size > 1000
    many = [Curve([0.0, 1.0], [0.0, float(np.sin(n))], {}, seed=n) for n in range(50)]
    draw({"50 seeds": many}, "kl", "episodes", tmp_path / "seeds.png", "iqm")
