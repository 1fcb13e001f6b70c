"""PQN: its targets, its loss, its updates."""

import numpy as np
import pytest
import torch
from q_learners import MASKED, NUMBERS, THREE, fragments

from rookery import PQNConfig, Trainer
from rookery.algorithms.off_policy.q_values import QBatch
from rookery.algorithms.on_policy.pqn import PQN, pqn_gradient, pqn_loss, shuffled
from rookery.core.schedules import Linear
from rookery.core.seeding import Streams
from rookery.core.spaces.arrays import MASK, action_spec, obs_spec
from rookery.policies.policy import Policy


def learner(obs=NUMBERS, seed=0, **settings):
    settings.setdefault("model", {"hidden": (16,), "layer_norm": True})
    cfg = PQNConfig(**settings)
    generator = torch.Generator().manual_seed(seed)
    specs = obs_spec(obs, THREE), action_spec(THREE)
    policy = Policy(*specs, cfg.model, name="hero", generator=generator, head=cfg.head)
    return PQN(policy, cfg, Streams(seed), "hero")


def test_layers_are_normalized_by_default():
    assert PQNConfig().model.layer_norm
    normalized = [name for name, _ in learner().net.named_parameters() if "norm" in name]
    assert normalized


@pytest.mark.parametrize("masked", [False, True])
def test_targets_are_those_of_a_slow_loop(masked):
    pqn = learner(MASKED if masked else NUMBERS, gamma=0.9, trace_lambda=0.7)
    rollout = fragments(9, 3, masked=masked, length=[9, 4, 9])
    finals = {(t, f): k for k, (t, f) in enumerate(rollout.boot_index.tolist())}

    def best(tree, *at):
        row = {path: leaf[at].unsqueeze(0) for path, leaf in tree.items()}
        with torch.no_grad():
            values = pqn.net.value(row)
        return float((values if MASK not in row else torch.where(row[MASK], values, -torch.inf)).max())

    expected = {}
    for f in range(3):
        after = None
        for t in reversed(range(int(rollout.length[f]))):
            reward, last = float(rollout.reward[t, f]), t + 1 == rollout.length[f]
            if rollout.terminated[t, f]:
                after = reward
            elif (t, f) in finals:
                after = reward + 0.9 * best(rollout.final_obs, finals[t, f])
            elif last:
                after = reward + 0.9 * best(rollout.last_obs, f)
            else:
                after = reward + 0.9 * (0.3 * best(rollout.obs, t + 1, f) + 0.7 * after)
            expected[t, f] = after
    batch = pqn.targets(rollout)
    places = list(map(tuple, rollout.valid.nonzero().tolist()))
    assert len(batch) == len(places) == 22
    for place, target, action in zip(places, batch.target, batch.action, strict=True):
        assert target.item() == pytest.approx(expected[place], abs=1e-5)
        assert action == rollout.action[place]


def test_the_loss_is_half_the_squared_error_of_the_action_that_was_played():
    values = torch.tensor([[1.0, 9, 9], [9, 9, 5]])
    loss, metrics = pqn_loss(values, QBatch({}, torch.tensor([0, 2]), torch.tensor([1.5, 2.0])), None)
    assert loss.item() == pytest.approx((0.25 + 9) / 4)
    assert metrics["td_error"] == 1.75


def test_the_closed_form_is_the_gradient_of_the_loss():
    generator = torch.Generator().manual_seed(3)
    values = torch.randn(7, 3, generator=generator).requires_grad_()
    batch = QBatch({}, torch.randint(3, (7,), generator=generator), torch.randn(7, generator=generator))
    loss, metrics = pqn_loss(values, batch, None)
    (expected,) = torch.autograd.grad(loss, values)
    (found,), closed = pqn_gradient(values.detach(), batch, None)
    assert torch.allclose(found, expected, atol=1e-7)
    assert all(torch.allclose(metrics[name], closed[name], atol=1e-6) for name in metrics)


def test_an_epoch_sees_every_row_once_in_parts_of_nearly_equal_size():
    rows = torch.arange(23)
    data = QBatch({"obs": rows.float()}, rows, rows.float())
    parts = list(shuffled(data, 8, np.random.default_rng(0)))
    assert [len(part) for part in parts] == [8, 8, 7]
    assert sorted(torch.cat([part.action for part in parts]).tolist()) == rows.tolist()
    assert torch.cat([part.action for part in parts]).tolist() != rows.tolist()
    assert all(torch.equal(part.action.float(), part.obs["obs"]) for part in parts)


def test_random_actions_follow_the_schedule_by_environment_steps():
    pqn = learner(epsilon=Linear(1.0, 0.2, 100))
    assert pqn.policy.head.epsilon == 1
    for steps, expected in ((50, 0.6), (1000, 0.2)):
        pqn.env_steps = steps
        assert pqn.training_step(fragments(8, 2))["epsilon"] == pytest.approx(expected)
        assert pqn.policy.head.epsilon.item() == pytest.approx(expected)


def test_an_update_is_epochs_of_minibatches(monkeypatch):
    pqn = learner(epochs=3, minibatch_size=8)
    steps = []
    monkeypatch.setattr(
        "rookery.algorithms.on_policy.pqn.gradient_step", lambda *args: steps.append(len(args[2])) or {"loss": 0.0}
    )
    row = pqn.training_step(fragments(10, 2))
    assert steps == [7, 7, 6] * 3
    assert row["updates"] == 1


def test_it_learns_what_a_table_would():
    pqn = learner(lr=0.01, gamma=0.5, trace_lambda=0.5, epochs=4, minibatch_size=32)
    for seed in range(40):
        rollout = fragments(40, 2, seed=seed, ends=0, cuts=0)
        number = torch.arange(40).unsqueeze(1).expand(40, 2) % 2
        obs = torch.stack((1.0 - number, 1.0 * number), -1).float()
        reward = torch.where(number == 1, rollout.action.float(), 0.0)
        parts = {"obs": {"obs": obs}, "reward": reward, "terminated": number == 1, "last_obs": {"obs": obs[0]}}
        pqn.training_step(type(rollout)(**{**vars(rollout), **parts}))
    with torch.no_grad():
        values = pqn.net.value({"obs": torch.eye(2)})
    assert torch.allclose(values[1], torch.tensor([0.0, 1.0, 2.0]), atol=0.15)
    # half of the second state's best value and half of what random actions earn there
    assert torch.allclose(values[0], torch.full((3,), 0.5 * (0.5 * 2 + 0.5 * 1)), atol=0.2)


def test_a_run_that_stopped_goes_on_to_the_last_bit(tmp_path):
    cfg = PQNConfig(fragment_length=16, minibatch_size=32, model={"hidden": (8,), "normalize_obs": True})
    with Trainer("CartPole-v1", cfg, num_envs=4, seed=3) as through:
        through.train({"iterations": 3})
    with Trainer("CartPole-v1", cfg, num_envs=4, seed=3) as first:
        first.train({"iterations": 2})
        place = first.save(tmp_path / "half")
    with Trainer.load(place, env="CartPole-v1") as second:
        second.train({"iterations": 3})
    wanted, found = through.policies["main"].state_dict(), second.policies["main"].state_dict()
    assert all(torch.equal(value, found[name]) for name, value in wanted.items())


def test_cartpole_is_learned_and_a_learner_that_takes_no_steps_learns_nothing():
    def trained(lr, steps):
        cfg = PQNConfig(lr=lr, epsilon=Linear(1.0, 0.05, 15_000), model={"activation": "relu", "layer_norm": True})
        with Trainer("CartPole-v1", cfg, num_envs=8, seed=1) as trainer:
            trainer.train({"env_steps": steps})
            return trainer.evaluate(10).return_mean

    assert trained(2e-3, 30_000) > 150
    assert trained(1e-12, 1_000) < 60
