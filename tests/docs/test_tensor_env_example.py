"""The example of an environment of tensors learns, and gives nothing that waits for the device."""

import sys

import torch
from pages import ROOT

from rookery import PPOConfig, Trainer
from rookery.envs.check import check_env

sys.path.append(str(ROOT / "examples"))

import tensor_env


def test_lifts_learn_to_stop(capsys):
    before, after = tensor_env.main()
    assert after > before + 15.0
    assert "fragments" in capsys.readouterr().out


def test_a_lift_keeps_the_contract():
    found = check_env(tensor_env.Lift, {}, (), episodes=2, max_steps=60, seed=0)
    assert [finding.text for finding in found if finding.severity != "note"] == []


def test_a_run_of_lifts_goes_on_to_the_same_weights(tmp_path):
    cfg = PPOConfig(fragment_length=25, model={"hidden": (16,)})
    with Trainer(tensor_env.Lift, cfg, num_envs=8, seed=0) as trainer:
        trainer.train_iteration()
        trainer.save(tmp_path / "half")
        trainer.train_iteration()
        weights = [weight.clone() for weight in trainer.policies["main"].parameters()]
    with Trainer.load(tmp_path / "half", env=tensor_env.Lift) as trainer:
        trainer.train_iteration()
        assert all(map(torch.equal, trainer.policies["main"].parameters(), weights))
