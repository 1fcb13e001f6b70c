"""The stored healthy runs: they have learned, their settings can be read, and ten are kept aside."""

import pytest
from healthy_runs import FOLDER, healthy_runs

from rookery.algorithms.names import ALGORITHMS
from rookery.core.config import resolve
from rookery.core.settings.layers import Layer
from rookery.run.settings import RunConfig

RUNS = [*healthy_runs(aside=False), *healthy_runs(aside=True)]


def test_every_third_run_by_name_is_kept_aside():
    names = sorted(run.name for run in RUNS)
    assert len(names) >= 30
    assert [run.name for run in healthy_runs(aside=True)] == names[2::3]
    assert sum(path.stat().st_size for path in FOLDER.rglob("*.gz")) < 1_500_000


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_a_healthy_run_reached_its_goal_in_at_most_200_rows(run):
    assert [row["iteration"] for row in run.rows] == list(range(1, len(run.rows) + 1))
    assert len(run.rows) <= 200
    assert run.rows[-1]["return_mean"] >= run.about["goal"]
    assert not any(row.get("policies/main/skipped_steps") for row in run.rows)


def test_settings_of_a_healthy_run_resolve():
    for run in RUNS[:3]:
        config = resolve(RunConfig, [Layer("stored", run.settings)], ALGORITHMS).config
        assert config.seed == 0 and config.stop["env_steps"] > 0
