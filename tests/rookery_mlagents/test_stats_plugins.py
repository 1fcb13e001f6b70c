"""Stats writers of ML-Agents that installed packages add: they run without ML-Agents, and not in a run of others."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from rookery.core import plugins
from rookery_mlagents.files.reading_behaviors import TRAINER_PLUGINS
from rookery_mlagents.files.run_options import read_options
from rookery_mlagents.learn.stats_plugins import STATS_WRITERS

FILE = """\
behaviors:
  Cart:
    trainer_type: ppo
    hyperparameters: {batch_size: 32, buffer_size: 128, num_epoch: 1}
    network_settings: {hidden_units: 16, num_layers: 1}
    max_steps: 300
    summary_freq: 100
"""

PACKAGE = """\
import json

from mlagents.trainers.settings import RunOptions
from mlagents.trainers.stats import StatsPropertyType, StatsSummary, StatsWriter


class Lines(StatsWriter):
    def __init__(self, options: RunOptions) -> None:
        self.path = options.checkpoint_settings.write_path + ".lines"

    def note(self, *words):
        with open(self.path, "a") as file:
            print(json.dumps(words), file=file)

    def add_property(self, category, property_type: StatsPropertyType, value) -> None:
        self.note(category, property_type.value, value["summary_freq"])

    def write_stats(self, category: str, values: dict[str, StatsSummary], step: int) -> None:
        reward = values["Environment/Cumulative Reward"]
        self.note(category, step, reward.mean, reward.num, values["Is Training"].mean)


class Broken(StatsWriter):
    def write_stats(self, category, values, step):
        raise OSError("no room")


def lines(options):
    return [Lines(options)]


def broken(options):
    return [Broken()]


def late(options):
    raise KeyError("nothing")
"""
ENTRIES = """\
[mlagents.stats_writer]
lines = stats_lines:lines
broken = stats_lines:broken
late = stats_lines:late

[mlagents.trainer_type]
gossip = stats_lines:trainers
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Installs a package with stats writers and a trainer."""
    site = tmp_path / "site"
    (site / "stats_lines-1.0.dist-info").mkdir(parents=True)
    (site / "stats_lines-1.0.dist-info" / "entry_points.txt").write_text(ENTRIES)
    (site / "stats_lines.py").write_text(PACKAGE)
    monkeypatch.setattr(sys, "path", [*sys.path, str(site)])

    def forget():
        plugins.installed_plugins.cache_clear()
        for table in (STATS_WRITERS, TRAINER_PLUGINS):
            table.__dict__.pop("added", None)
        sys.modules.pop("stats_lines", None)

    forget()
    yield
    forget()


def learned(rookery):
    Path("cart.yaml").write_text(FILE)
    code, _, error = rookery("mlagents", "learn", "cart.yaml", "--env", "CartPole-v1", "--run-id", "cart", "--seed", 1)
    assert code == 0, error
    return error


def lines_of():
    path = Path("results/cart.lines")
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_stats_writers_get_every_summary_without_ml_agents(package, rookery):
    told = learned(rookery)
    first, *rows = lines_of()
    assert first == ["Cart", "hyperparameters", 100]
    assert [row[:2] for row in rows] == [["Cart", 100], ["Cart", 200], ["Cart", 300]]
    assert all(row[2] > 5 and row[3] > 0 for row in rows)
    assert rows[0][4] == 1.0
    assert told.count("mlagents.stats_writer broken of the package stats-lines: OSError: no room") == 1
    assert "mlagents.stats_writer late of the package stats-lines: KeyError: 'nothing'; this stats writer" in told


@pytest.mark.regression("foreign code", "The resumed ML-Agents run of another user loads no stats writer")
def test_a_run_of_another_user_loads_no_stats_writer(package, rookery):
    learned(rookery)
    Path("results/cart.lines").unlink()
    del sys.modules["stats_lines"]
    config = Path("results/cart/config.yaml")
    config.write_text("\n".join(line for line in config.read_text().splitlines() if "signature" not in line))
    shutil.copytree("results/cart", "results/again")
    Path("cart.yaml").write_text(FILE.replace("300", "500"))
    for words in (["mlagents", "learn", "cart.yaml", "--env", "CartPole-v1", "--run-id", "again", "--resume"],
                  ["resume", "results/cart", "--stop", "env_steps=700"]):  # fmt: skip
        code, _, error = rookery(*words)
        assert code == 0, error
    assert "stats_lines" not in sys.modules
    assert not lines_of()


def test_trainers_of_packages_are_named_and_refused_without_an_import(package, tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text("behaviors: {B: {trainer_type: gossip}}")
    with pytest.raises(Exception, match=r"package stats-lines, built on classes of ML-Agents \(stats_lines:trainers\)"):
        read_options(path, {})
    assert "stats_lines" not in sys.modules
