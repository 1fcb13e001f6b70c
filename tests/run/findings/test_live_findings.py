"""Findings during a training: in rows and results, without any other effect, and the same in a resumed run."""

from __future__ import annotations

import json
import time

import pytest
import torch

from rookery import ConfigError, DQNConfig, PPOConfig, Trainer
from rookery.run.findings.diagnose import findings_of, plain_settings
from rookery.run.findings.window import windows_of
from rookery.run.settings import DoctorConfig

BROKEN = PPOConfig(lr=1.0, fragment_length=16, epochs=2)


def rows_of(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def without_clock(row):
    return {name: value for name, value in row.items() if not name.startswith("time/")}


def trained(folder, steps=4_000, **settings):
    trainer = Trainer("CartPole-v1", BROKEN, num_envs=8, seed=1, run_dir=folder, **settings)
    trainer.train(stop={"env_steps": steps})
    return trainer


def test_findings_are_in_rows_and_results_and_change_nothing_else(tmp_path):
    with trained(tmp_path / "on") as on, trained(tmp_path / "off", config={"doctor.enabled": False}) as off:
        found = on.diagnose()
        assert found[0].rule == "lr-out-of-range"
        assert found[0].remedies == ("algorithm.lr=3e-4",)
        assert off.diagnose() == []
        for ours, theirs in zip(on.policies["main"].parameters(), off.policies["main"].parameters(), strict=True):
            assert torch.equal(ours, theirs)
    with_findings, plain = map(rows_of, (tmp_path / "on", tmp_path / "off"))
    assert not any("findings" in row for row in plain)
    assert "findings" not in with_findings[0]  # only where there are any
    assert "lr-out-of-range" in [one["rule"] for one in with_findings[-1]["findings"]]
    for row, other in zip(with_findings, plain, strict=True):
        assert without_clock({k: v for k, v in row.items() if k != "findings"}) == without_clock(other)


def test_a_reader_of_the_rows_finds_the_same(tmp_path):
    with trained(tmp_path / "run") as trainer:
        found = findings_of(windows_of(rows_of(tmp_path / "run")), plain_settings(trainer.resolved))
        assert found == trainer.diagnose() != []


@pytest.mark.parametrize("stop", [2_500])
def test_a_resumed_run_has_the_same_findings(tmp_path, stop):
    trained(tmp_path / "whole").close()
    trained(tmp_path / "parts", stop).close()
    with Trainer.load(tmp_path / "parts", resume=True) as trainer:
        trainer.train(stop={"env_steps": 4_000})
    whole, parts = map(rows_of, (tmp_path / "whole", tmp_path / "parts"))
    assert [without_clock(row) for row in whole] == [without_clock(row) for row in parts]
    assert "findings" in parts[-1]


def test_a_run_of_an_earlier_version_gets_an_empty_window(tmp_path):
    with trained(tmp_path / "run", 1_000) as trainer:
        state = trainer.state_dict()
        del state["window"]
        state["@versions"]["Trainer"] = 2
        trainer.load_state_dict(state)
        assert trainer.diagnose() == []
        assert trainer.train_iteration().iteration == 9


def test_rules_are_ignored_by_name(tmp_path):
    with trained(tmp_path / "run", config={"doctor.ignore": ["lr-out-of-range"]}) as trainer:
        assert "lr-out-of-range" not in [one.rule for one in trainer.diagnose()]
        assert trainer.diagnose()
    with pytest.raises(ConfigError, match="'entropy-colapsed' is not a rule; did you mean 'entropy-collapsed'"):
        Trainer("CartPole-v1", doctor=DoctorConfig(ignore=("entropy-colapsed",)))


def test_findings_cost_less_than_a_hundredth_of_an_iteration():
    class Timed(Trainer):
        looked = 0.0

        def _make_parts(self):
            parts = super()._make_parts()
            (look,) = [one for one in parts.after_iteration if "FindingsPart" in one.__qualname__]

            def timed(result):
                began = time.thread_time()
                try:
                    return look(result)
                finally:
                    Timed.looked += time.thread_time() - began

            parts.after_iteration = [timed if one == look else one for one in parts.after_iteration]
            return parts

    shares = []
    for _ in range(3):  # the machine may be busy
        Timed.looked = 0.0
        with Timed("CartPole-v1", PPOConfig(), num_envs=8, seed=1) as trainer:
            began = time.thread_time()
            trainer.train(stop={"iterations": 40})
            shares.append(Timed.looked / (time.thread_time() - began))
        if shares[-1] < 0.01:
            break
    assert min(shares) < 0.01


def test_off_policy_runs_have_findings_too(tmp_path):
    late = DQNConfig(learning_starts=100_000)
    with Trainer(
        "CartPole-v1", late, num_envs=4, seed=0, iteration_steps=100, config={"stop.env_steps": 2_000}
    ) as trainer:
        result = trainer.train()
        assert "replay-young" in [one.rule for one in trainer.diagnose()]
        assert "replay-young" in [one.rule for one in result.findings]
