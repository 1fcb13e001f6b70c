"""A2C: that it is PPO's first gradient step, what its update does, and its state."""

import pytest
import torch

from rookery import A2CConfig, PPOConfig, Trainer
from rookery.algorithms.on_policy.a2c import a2c_loss
from rookery.algorithms.on_policy.ppo import ppo_loss
from rookery.core.batch import Minibatch
from rookery.core.errors import TrainingError
from rookery.core.optim import compute_gradients
from rookery.core.schedules import Linear
from rookery.models.distributions import Categorical
from rookery.models.heads import Outputs

SAME = {
    "gamma": 0.95, "gae_lambda": 0.9, "fragment_length": 8, "value_coef": 0.4, "entropy_coef": 0.02,
    "normalize_values": False,
}  # fmt: skip


def pair(env, **settings):
    """A2C and PPO with the same first weights, and a rollout."""
    trainers = [Trainer(env, cls(**SAME | settings), seed=3, num_envs=4) for cls in (A2CConfig, PPOConfig)]
    (rollout,) = trainers[0]._pool.sample(10_000).rollouts.values()
    return *(trainer.learners["main"] for trainer in trainers), rollout


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
@pytest.mark.parametrize("normalize", [False, True])
def test_a2c_is_the_first_gradient_step_of_ppo(env, normalize):
    # at ratio 1 nothing is clipped, and the gradient of ratio x advantage is that of log-probability x advantage
    a2c, ppo, rollout = pair(env, normalize_advantage=normalize, scale_rewards=False)
    assert torch.equal(a2c.optimizer.flat.data, ppo.optimizer.flat.data)
    data = ppo.targets(rollout)
    (batch,) = data.shuffled(10**6, ppo.rng)
    metrics = compute_gradients(ppo.forward, ppo.loss, batch, ppo.optimizer, ppo.now())
    assert not torch.as_tensor(metrics["clip_fraction"]).any()
    theirs = compute_gradients(a2c.forward, a2c.loss, data, a2c.optimizer, a2c.now())
    mine, other = a2c.optimizer.flat.grad, ppo.optimizer.flat.grad
    assert mine.norm() > 0.1
    assert (mine - other).norm() < 1e-6 * mine.norm()
    assert theirs["value_loss"] == pytest.approx(float(metrics["value_loss"]))


def test_a_whole_update_of_a2c_steps_along_the_gradient_of_ppo():
    a2c, ppo, rollout = pair("CartPole-v1", normalize_advantage=False, max_grad_norm=0.5)
    before = a2c.optimizer.flat.data.clone()
    compute_gradients(ppo.forward, ppo.loss, ppo.targets(rollout), ppo.optimizer, ppo.now())
    gradient = ppo.optimizer.flat.grad * 0.5 / ppo.optimizer.flat.grad.norm()  # it is longer than 0.5
    square = 0.99 * 1.0 + 0.01 * gradient.square()
    row = a2c.training_step(rollout)
    assert row["grad_norm"] == pytest.approx(ppo.optimizer.flat.grad.norm().item(), rel=1e-5)
    expected = before - 7e-4 * gradient / (square + 1e-5).sqrt()
    assert torch.allclose(a2c.optimizer.flat.data, expected, atol=3e-8, rtol=0)  # a unit in the last place of 0.25
    assert row["updates"] == a2c.updates == 1


def test_the_first_step_of_adam_divides_the_gradient_by_its_size():
    a2c, ppo, rollout = pair("CartPole-v1", normalize_advantage=False, max_grad_norm=None)
    trainer = Trainer("CartPole-v1", A2CConfig(**SAME, optimizer="adam", adam_eps=0.1), seed=3, num_envs=4)
    adam = trainer.learners["main"]
    before = adam.optimizer.flat.data.clone()
    assert torch.equal(before, a2c.optimizer.flat.data)
    compute_gradients(ppo.forward, ppo.loss, ppo.targets(rollout), ppo.optimizer, ppo.now())
    gradient = ppo.optimizer.flat.grad.clone()
    gradient *= min(1.0, adam.cfg.max_grad_norm / gradient.norm().item())
    adam.training_step(rollout)
    expected = before - 7e-4 * gradient / (gradient.abs() + 0.1)
    assert torch.allclose(adam.optimizer.flat.data, expected, atol=3e-8, rtol=0)  # a unit in the last place of 0.25


def test_the_loss_of_two_rows_by_hand():
    # log(1/4) and log(1/2), advantages 2 and -1; values miss by 1 and 3
    distribution = Categorical(torch.tensor([[0.25, 0.75], [0.5, 0.5]]).log())
    rows = {"logp": torch.zeros(2), "value": torch.zeros(2, 1)}
    batch = Minibatch(
        {}, torch.tensor([0, 1]), advantage=torch.tensor([2.0, -1.0]), value_target=torch.zeros(2, 1), **rows
    )
    loss, metrics = a2c_loss(Outputs(distribution, torch.tensor([[1.0], [3.0]])), batch, A2CConfig(entropy_coef=0.1))
    policy_loss = -(2 * -1.386294 + 1 * 0.693147) / 2
    entropy = (0.562335 + 0.693147) / 2
    assert metrics["policy_loss"].item() == pytest.approx(policy_loss, abs=1e-5)
    assert metrics["value_loss"].item() == 5.0
    assert loss.item() == pytest.approx(policy_loss + 0.5 * 5.0 - 0.1 * entropy, abs=1e-5)


def test_an_update_is_one_gradient_step_on_all_decisions():
    a2c, _, rollout = pair("CartPole-v1")
    sizes = []

    def watched(outputs, batch, cfg):
        sizes.append(len(batch))
        return a2c_loss(outputs, batch, cfg)

    a2c.loss = watched
    a2c.training_step(rollout)
    assert sizes == [32]


def test_it_wants_fragments_of_five_and_says_how_it_is_called():
    with Trainer("CartPole-v1", A2CConfig(), seed=0, num_envs=3) as trainer:
        result = trainer.train_iteration()
    assert result.env_steps == 15
    expected = {
        "policy_loss",
        "value_loss",
        "entropy",
        "grad_norm",
        "explained_variance",
        "lr",
        "skipped_steps",
        "updates",
        "value_unit",
    }
    assert set(result.policies["main"].learning) == expected


def test_schedules_go_by_the_env_steps_of_the_run():
    with Trainer("CartPole-v1", A2CConfig(lr=Linear(1e-3, 0.0, 100)), seed=0, num_envs=2) as trainer:
        rates = [trainer.train_iteration().policies["main"].lr for _ in range(3)]
    assert rates == pytest.approx([9e-4, 8e-4, 7e-4])


def test_a_learner_goes_on_from_its_saved_state_bit_by_bit():
    cfg = A2CConfig(scale_rewards=True, model={"normalize_obs": True})
    old, new = (Trainer("CartPole-v1", cfg, seed=seed, num_envs=4) for seed in (1, 2))
    for _ in range(3):
        old.train_iteration()
    mine, theirs = old.learners["main"], new.learners["main"]
    theirs.load_state_dict(mine.state_dict())
    (rollout,) = old._pool.sample(10_000).rollouts.values()
    for learner in (mine, theirs):
        learner.training_step(rollout)
    assert torch.equal(mine.optimizer.flat.data, theirs.optimizer.flat.data)
    assert torch.equal(mine.optimizer.square, theirs.optimizer.square)


def test_ten_steps_in_a_row_that_are_not_finite_stop_the_run():
    a2c, _, rollout = pair("CartPole-v1")
    before = a2c.optimizer.flat.data.clone()
    rollout.reward[:] = torch.nan
    skipped = [a2c.training_step(rollout)["skipped_steps"] for _ in range(9)]
    assert skipped == list(range(1, 10))
    with pytest.raises(TrainingError, match="10 gradient steps in a row were not finite"):
        a2c.training_step(rollout)
    assert torch.equal(a2c.optimizer.flat.data, before)
    assert (a2c.optimizer.square == 1).all()


def test_the_losses_part_when_the_policy_has_moved():
    a2c, ppo, rollout = pair("CartPole-v1", normalize_advantage=False)
    data = ppo.targets(rollout)
    moved = data.map(lambda tensor: tensor)
    moved.logp.sub_(1.0)  # as if the choices had been less likely: ratio e, clipped where that helps
    _, metrics = ppo_loss(ppo.net(moved), moved, ppo.now())
    assert metrics["clip_fraction"].all()
