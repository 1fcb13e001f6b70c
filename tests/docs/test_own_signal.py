"""The example with a signal of one's own pays less for what was seen, and is resumed exactly."""

import sys

import torch
from pages import ROOT

from rookery import PPOConfig, Trainer

sys.path.append(str(ROOT / "examples"))

from own_signal import EllipsoidConfig

CFG = PPOConfig(signals={"own": {"ellipsoid": EllipsoidConfig()}}, fragment_length=20, epochs=2, minibatch_size=64)


def weights(trainer):
    return {key: value.clone() for key, value in trainer.learners["main"].net.state_dict().items()}


def test_what_was_seen_is_paid_less_and_a_run_goes_on_to_the_same_weights(tmp_path):
    with Trainer("KeyDoor", CFG, num_envs=4, seed=3, run_dir=tmp_path / "whole") as trainer:
        paid = [result.policies["main"].learning["ellipsoid_reward"] for result in trainer.results({"iterations": 6})]
        whole = weights(trainer)
    assert paid[-1] < 0.7 * paid[0]
    with Trainer("KeyDoor", CFG, num_envs=4, seed=3, run_dir=tmp_path / "part") as trainer:
        trainer.train(stop={"iterations": 3})
        checkpoint = trainer.save()
    with Trainer.load(checkpoint) as again:
        again.train(stop={"iterations": 6})
        found = weights(again)
    assert whole.keys() == found.keys() and all(torch.equal(whole[key], found[key]) for key in whole)
