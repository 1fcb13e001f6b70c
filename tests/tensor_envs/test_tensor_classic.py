"""The cart-pole and the pendulum in tensors: Gymnasium's dynamics, step for step; episodes that end and begin."""

import gymnasium
import numpy as np
import pytest
import torch

from rookery import PPOConfig, Trainer
from rookery.envs.check import check_env
from rookery.envs.make import make_env
from rookery.tensor_envs.classic import TensorCartPole, TensorPendulum

CLOSE = 1e-5


def test_a_cart_pole_moves_as_gymnasiums_in_every_step_of_many_episodes():
    theirs, ours, rng = gymnasium.make("CartPole-v1").unwrapped, TensorCartPole(2), np.random.default_rng(0)
    ours.reset(0)
    ends = 0
    for seed in range(40):
        theirs.reset(seed=seed)
        for _ in range(100):
            ours.state[:, 1] = torch.from_numpy(np.array(theirs.state, np.float32))
            ours.steps.zero_()
            action = int(rng.integers(2))
            obs, reward, terminated, truncated, _ = theirs.step(action)
            step = ours.step(torch.tensor([0, action]))
            assert np.abs(step.final_obs[1].numpy() - obs).max() < CLOSE
            assert (float(step.reward[1]), bool(step.truncated[1])) == (reward, truncated)
            near = np.abs(np.abs(obs[[0, 2]]) - [2.4, 12 * 2 * np.pi / 360]).min() < CLOSE
            assert near or bool(step.terminated[1]) == terminated
            if terminated:
                ends += 1
                assert step.obs[1].abs().max() <= 0.05  # the next episode
                break
            assert torch.equal(step.obs[1], step.final_obs[1])
    assert ends > 30


def test_a_cart_pole_that_is_left_alone_stays_close_to_gymnasiums():
    theirs, ours = gymnasium.make("CartPole-v1").unwrapped, TensorCartPole(1)
    ours.reset(0)
    theirs.reset(seed=3)
    ours.state[:, 0] = torch.from_numpy(np.array(theirs.state, np.float32))
    for t in range(60):
        action = int(theirs.state[2] + theirs.state[3] > 0)  # balances
        obs, _, terminated, _, _ = theirs.step(action)
        step = ours.step(torch.tensor([action]))
        assert not terminated
        assert np.abs(step.obs[0].numpy() - obs).max() < (t + 2) * CLOSE


def test_a_pendulum_moves_as_gymnasiums_in_every_step():
    theirs, ours, rng = gymnasium.make("Pendulum-v1").unwrapped, TensorPendulum(2), np.random.default_rng(0)
    ours.reset(0)
    for seed in range(10):
        theirs.reset(seed=seed)
        for _ in range(100):
            angle, turning = theirs.state
            ours.angle[1] = (angle + np.pi) % (2 * np.pi) - np.pi
            ours.turning[1] = turning
            ours.steps.zero_()
            torque = rng.uniform(-3.0, 3.0, 1).astype(np.float32)
            obs, reward, *_ = theirs.step(torque)
            step = ours.step(torch.from_numpy(np.stack((torque, torque))))
            assert np.abs(step.final_obs[1].numpy() - obs).max() < CLOSE
            assert abs(float(step.reward[1]) - reward) < CLOSE
            assert not step.terminated.any()


def test_episodes_are_cut_off_at_their_limit_and_begin_anew():
    ours = TensorPendulum(3, max_episode_steps=4)
    ours.reset(1)
    for t in range(8):
        step = ours.step(torch.zeros(3, 1))
        assert step.truncated.all() == (t % 4 == 3)
        assert torch.equal(step.obs, step.final_obs) == (t % 4 != 3)
    ours = TensorCartPole(3, max_episode_steps=2)
    ours.reset(1)
    assert not ours.step(torch.zeros(3, dtype=torch.int64)).truncated.any()
    assert ours.step(torch.zeros(3, dtype=torch.int64)).truncated.all()
    assert not ours.steps.any()


@pytest.mark.parametrize("make", [TensorCartPole, TensorPendulum])
def test_starts_are_drawn_from_the_seed_as_in_gymnasium(make):
    one, same, other = make(500), make(500), make(500)
    first = one.reset(7)
    assert torch.equal(first, same.reset(7))
    assert not torch.equal(first, other.reset(8))
    if make is TensorCartPole:
        assert float(first.abs().max()) <= 0.05 < float(first.abs().max()) + 0.001
        assert abs(float(first.mean())) < 0.005
    else:
        assert torch.allclose(first[:, :2].square().sum(1), torch.ones(500))
        assert abs(float(first[:, 0].mean())) < 0.15
        assert 0.98 < float(first[:, 2].abs().max()) <= 1.0


@pytest.mark.parametrize("make", [TensorCartPole, TensorPendulum])
def test_a_state_goes_on_in_another_object_to_the_bit(make):
    one, other = make(5, max_episode_steps=3), make(5, max_episode_steps=3)
    actions = torch.ones(5, dtype=torch.int64) if make is TensorCartPole else torch.ones(5, 1)
    one.reset(7)
    other.reset(9)
    one.step(actions)
    other.load_state_dict(one.state_dict())
    for _ in range(7):
        for mine, theirs in zip(one.step(actions), other.step(actions), strict=True):
            assert torch.equal(mine, theirs)


@pytest.mark.parametrize("name", ["TensorCartPole", "TensorPendulum"])
def test_they_keep_the_contract_of_vector_environments(name):
    found = check_env(name, {}, (), episodes=2, max_steps=300, seed=0)
    assert [finding.text for finding in found if finding.severity != "note"] == []


def test_they_can_be_named():
    env = make_env("TensorCartPole", {"max_episode_steps": 3}, (), 4, "auto")
    assert env.name == "TensorCartPole"
    assert env.exact
    assert env.render_fps == 50
    env.reset(lambda lane, episode: 5)
    assert env.render(2).shape == (400, 600, 3)
    assert env.tensors.max_episode_steps == 3


@pytest.mark.parametrize(("lr", "learns"), [(3e-3, True), (1e-9, False)])
def test_a_policy_learns_to_balance_and_one_that_cannot_change_does_not(lr, learns):
    cfg = PPOConfig(lr=lr, fragment_length=32, epochs=6, minibatch_size=256, model={"hidden": (32,)})
    with Trainer("TensorCartPole", cfg, num_envs=64, seed=1) as trainer:
        for _ in range(15):
            result = trainer.train_iteration()
    assert result.return_mean is not None
    assert (result.return_mean > 100.0) == learns
