"""Imitation beside PPO and SAC: what it changes, when, and what it leaves alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces

from recorded import keep, poles
from rookery import ConfigError, ModelConfig, PPOConfig, SACConfig, Trainer
from rookery.core.errors import SpaceError
from rookery.core.io.files import FileError
from selection import slow

FAST = PPOConfig(fragment_length=16, minibatch_size=32, epochs=1, model=ModelConfig(hidden=(16,), normalize_obs=True))
SLOW = SACConfig(
    batch_size=16, learning_starts=20, replay={"capacity": 500}, model=ModelConfig(hidden=(16,), normalize_obs=True)
)


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """A few good episodes of CartPole."""
    return poles(tmp_path_factory.mktemp("data") / "poles", 4)


@pytest.fixture(scope="module")
def swung(tmp_path_factory):
    """Decisions in Pendulum that always push with half the strength."""
    rng = np.random.default_rng(0)
    seen = spaces.Box(np.array([-1, -1, -8], np.float32), np.array([1, 1, 8], np.float32))
    angle = rng.uniform(-np.pi, np.pi, 201)
    obs = np.stack([np.cos(angle), np.sin(angle), rng.uniform(-8, 8, 201)], 1)
    one = {"obs": obs, "action": np.full((200, 1), 0.5), "reward": np.zeros(200)}
    push = spaces.Box(-2.0, 2.0, (1,), np.float32)
    return keep(tmp_path_factory.mktemp("data") / "swings", seen, push, [one])


def weights(module):
    return torch.cat([weight.detach().flatten() for weight in module.parameters()])


def ppo(shown, env="CartPole-v1", cfg=FAST, **imitation):
    imitated = cfg.replace(imitation={"replay": [shown], **imitation}) if imitation else cfg
    return Trainer(env, imitated, seed=3, num_envs=2, warmup_steps=20)


def test_pretraining_comes_before_the_first_step_and_leaves_values_alone(shown):
    with ppo(shown, pretrain_steps=150, strength=0.0) as trainer, ppo(shown) as plain:
        assert trainer.env_steps == 0
        learner, other = trainer.learners["main"], plain.learners["main"]
        assert not torch.equal(weights(trainer.policies["main"]), weights(plain.policies["main"]))
        assert torch.equal(weights(learner.net.critic_trunk), weights(other.net.critic_trunk))
        assert torch.equal(weights(learner.net.value_head), weights(other.net.value_head))
        assert not learner.optimizer.steps  # of PPO itself
        assert trainer.evaluate(5).return_mean > 2 * plain.evaluate(5).return_mean
        acting = trainer._pool.worker.policies["main"].policy
        assert torch.equal(weights(acting), weights(trainer.policies["main"])), "what plays is what was pre-trained"
        first = trainer.train_iteration().policies["main"]
        assert first.imitation_strength == 0
        assert first.kl < 0.1


def test_the_statistics_of_observations_start_with_the_demonstrations(shown):
    with ppo(shown, pretrain_steps=1) as trainer, ppo(shown, strength=1.0) as other:
        shown_rows = len(trainer.learners["main"].imitation.demonstrations)
        assert trainer.policies["main"].normalizer.count == 20 + shown_rows
        assert other.policies["main"].normalizer.count == 20


def test_imitation_beside_an_update_comes_after_it(shown):
    with ppo(shown, strength=1.0, epochs=2, batch_size=512) as trainer, ppo(shown) as plain:
        steps = -(-len(trainer.learners["main"].imitation.demonstrations) // 512)
        one, other = trainer.train_iteration().policies["main"], plain.train_iteration().policies["main"]
        imitation = trainer.learners["main"].imitation
        assert float(imitation.optimizer.steps) == 2 * steps
        assert 0 < one.imitation_loss < 0.75
        for name in ("policy_loss", "value_loss", "kl"):  # the update itself is what it was
            assert getattr(one, name) == getattr(other, name)
        assert not torch.equal(weights(trainer.policies["main"]), weights(plain.policies["main"]))
        assert torch.equal(
            weights(trainer.learners["main"].net.value_head), weights(plain.learners["main"].net.value_head)
        )
        following = trainer.train_iteration().policies["main"]
        assert following.kl < 0.1, "the next update starts from the policy that played"


def test_its_strength_falls_to_0(shown):
    with ppo(shown, strength=0.5, steps=96) as trainer:
        imitation, seen, steps = trainer.learners["main"].imitation, [], []
        for _ in range(5):
            trainer.train_iteration()
            seen.append(trainer._last_learning["main"]["imitation_strength"])
            steps.append(float(imitation.optimizer.steps))
        assert seen == pytest.approx([0.5 * 2 / 3, 0.5 / 3, 0, 0, 0])
        assert steps[1] == steps[2] == steps[4] > steps[0] > 0
        assert trainer._last_learning["main"]["imitation_loss"] is None


def test_its_strength_may_fall_by_decisions(shown):
    falling = {"start": 0.5, "end": 0.0, "steps": 96, "by": "decisions"}
    with ppo(shown, strength=falling, batch_size=8) as trainer:
        seen = []
        for _ in range(4):
            trainer.train_iteration()
            seen.append(trainer._last_learning["main"]["imitation_strength"])
        assert seen == pytest.approx([0.5 * 2 / 3, 0.5 / 3, 0, 0])


def test_a_pass_takes_no_more_samples_than_asked(shown):
    with ppo(shown, strength=1.0, batch_size=20, epochs=2, samples_per_epoch=50) as trainer:
        taken, imitation = [], trainer.learners["main"].imitation
        improve = imitation.improve
        imitation.improve = lambda seen, strength: (taken.append(seen), improve(seen, strength))
        trainer.train_iteration()
    assert [len(seen) for seen in taken] == [17, 17, 16] * 2
    first, second = (torch.cat([seen.obs["obs"] for seen in taken[k : k + 3]]) for k in (0, 3))
    assert len(first.unique(dim=0)) == 50
    assert not torch.equal(first.sort(0).values, second.sort(0).values), "drawn anew"


def test_passes_are_not_for_replay(swung):
    cfg = SLOW.replace(imitation={"replay": [swung], "samples_per_epoch": 10})
    with pytest.raises(ConfigError, match=r"imitation.samples_per_epoch = 10: this algorithm learns from replay"):
        Trainer("Pendulum-v1", cfg, num_envs=1)


def test_sac_imitates_with_each_gradient_step(swung):
    cfg = SLOW.replace(imitation={"replay": [swung], "strength": 1.0})
    with Trainer("Pendulum-v1", cfg, seed=1, num_envs=1, warmup_steps=20) as trainer:
        trainer.train({"env_steps": 60})
        learner = trainer.learners["main"]
        assert float(learner.imitation.optimizer.steps) == learner.replay.gradient_steps > 0
        assert trainer._last_learning["main"]["imitation_loss"] is not None


def test_sac_is_pretrained(swung):
    cfg = SLOW.replace(imitation={"replay": [swung], "pretrain_steps": 1000, "strength": 0.0})
    with Trainer("Pendulum-v1", cfg, seed=1, num_envs=1, warmup_steps=20) as trainer:
        obs = np.array([[0.5, 0.5, 1.0], [-1.0, 0.0, -3.0]], np.float32)
        np.testing.assert_allclose(trainer.policies["main"].predict(obs), [[1.0], [1.0]], atol=0.25)
        assert float(trainer.learners["main"].actor_optimizer.steps) == 0


@pytest.mark.parametrize("name", ["ppo", slow("sac")])
def test_a_run_goes_on_bit_for_bit(name, shown, swung, tmp_path):
    env, cfg, data = ("CartPole-v1", FAST, shown) if name == "ppo" else ("Pendulum-v1", SLOW, swung)
    cfg = cfg.replace(imitation={"replay": [data], "steps": 500, "pretrain_steps": 3, "batch_size": 64})
    setting = {"seed": 3, "num_envs": 2, "warmup_steps": 20, "config": {"sampling.iteration_steps": 40}}
    with Trainer(env, cfg, run_dir=tmp_path / "whole", **setting) as trainer:
        trainer.train({"iterations": 3})
        whole = weights(trainer.policies["main"])
    with Trainer(env, cfg, run_dir=tmp_path / "parts", **setting) as trainer:
        trainer.train({"iterations": 2})
    with Trainer.load(tmp_path / "parts", resume=True) as trainer:
        assert trainer.learners["main"].imitation.cfg.pretrain_steps == 0, "not again"
        trainer.train({"iterations": 3})
        assert torch.equal(whole, weights(trainer.policies["main"]))


def test_demonstrations_that_changed_are_noticed(tmp_path):
    poles(tmp_path / "data", 2)
    with ppo(str(tmp_path / "data"), strength=1.0) as trainer:
        trainer.train_iteration()
        saved = trainer.save(tmp_path / "saved")
    poles(tmp_path / "data", 3, seed=7)
    with pytest.raises(
        ConfigError, match=r"imitation: the demonstrations in .* are not those that the run has learned"
    ):
        Trainer.load(saved)


def test_what_cannot_be_imitated_is_refused(shown, tmp_path):
    with pytest.raises(FileError, match="nowhere"):
        ppo(str(tmp_path / "nowhere"), strength=1.0)
    with pytest.raises(SpaceError, match="it holds observations"):
        ppo(shown, env="Pendulum-v1", strength=1.0)
    with pytest.raises(ConfigError, match="demonstrations have no memory of the policy"):
        ppo(shown, cfg=FAST.replace(model=ModelConfig(memory={"kind": "gru"})), strength=1.0)
    with pytest.raises(ConfigError, match=r"strength.*-1"):
        ppo(shown, strength=-1.0)
    bad = np.zeros((4, 4))
    bad[2] = np.inf
    with Trainer("CartPole-v1", FAST) as trainer:
        seen = trainer.policies["main"].obs_spec.space
    path = keep(tmp_path / "bad", seen, spaces.Discrete(2), [{"obs": bad, "action": [0] * 3, "reward": np.ones(3)}])
    with pytest.raises(ConfigError, match="demonstrations: row 3: its observation obs has a number that is not finite"):
        ppo(path, strength=1.0)
