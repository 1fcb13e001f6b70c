"""Settings of networks without effect are noted once for the user who set them."""

import pytest

from rookery import ModelConfig, PPOConfig, Trainer
from small_envs import Noise


def told(what="picture", cfg=None, **config):
    with Trainer(Noise, cfg, num_envs=1, config={"env.config": {"what": what}, **config}) as trainer:
        return [note for note in trainer._notes if "changes nothing" in note]


NORMALIZED = (
    "algorithm.model.normalize_obs = true (code) changes nothing: no observation is normalized "
    "(boxes are, images of bytes and sets are not)"
)


@pytest.mark.parametrize("what", ["picture", "category"])
def test_normalizing_what_is_not_normalized_says_so(what):
    assert told(what, PPOConfig(model=ModelConfig(normalize_obs=True))) == [NORMALIZED]


def test_normalizing_bytes_does_something():
    assert told("bytes", PPOConfig(model=ModelConfig(normalize_obs=True, obs_clip=5.0))) == []


@pytest.mark.parametrize(
    ("setting", "value", "reason"),
    [
        ("obs_clip", 5.0, "nothing is normalized"),
        ("cnn", "small", "no image is observed"),
        ("cnn_width", 2, "no image is observed"),
        ("entity_size", 32, "no set of entities is observed"),
        ("goal_conditioning", "none", "no part of the observation is a goal"),
        ("memory.size", 32, "nothing is remembered"),
        ("log_std_init", -1.0, "no part of an action is a number"),
    ],
)
def test_settings_of_what_is_not_there_say_so(setting, value, reason):
    (line,) = told("bytes", **{f"algorithm.model.{setting}": value})
    assert line.startswith(f"algorithm.model.{setting} = {value} (code) changes nothing: {reason}")


def test_defaults_and_what_matters_for_another_policy_are_not_told():
    assert told("bytes", PPOConfig(model=ModelConfig(obs_clip=10.0, cnn="auto"))) == []
    policies = {"a": None, "b": {"model": {"normalize_obs": False}}}
    assert told("bytes", **{"algorithm.model.obs_clip": 5.0, "algorithm.model.normalize_obs": True}) == []
    config = {"env.config": {"what": "bytes"}, "algorithm.model": {"obs_clip": 5.0, "normalize_obs": True}}
    with Trainer(Noise, policies=policies, policy_mapping=lambda agent, episode: "a", config=config) as trainer:
        assert not any("changes nothing" in note for note in trainer._notes)


def test_a_run_that_goes_on_does_not_tell_again(tmp_path):
    cfg = PPOConfig(fragment_length=8, epochs=1, minibatch_size=8, model=ModelConfig(normalize_obs=True))
    with Trainer(Noise, cfg, num_envs=1, run_dir=tmp_path / "run") as trainer:
        assert NORMALIZED in trainer._notes
        trainer.train(stop={"env_steps": 8})
    with Trainer.load(tmp_path / "run") as resumed:
        assert NORMALIZED not in resumed._notes
