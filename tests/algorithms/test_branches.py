"""SAC where an action has several parts: exact in the choices, one temperature each, numbers through the critics."""

import itertools
import math

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stepping import step

from rookery import Trainer
from rookery.algorithms.experience import Experience
from rookery.algorithms.off_policy.critics import StateAction
from rookery.algorithms.off_policy.hybrid_actions import (
    ActorBatch,
    branch_actor_loss,
    chosen_indices,
    continuous_part,
    pad_options,
)
from rookery.algorithms.off_policy.sac import SAC, DiscreteBatch, SACConfig, discrete_actor_loss
from rookery.core.seeding import Streams
from rookery.core.spaces.arrays import MASK, action_spec, obs_spec
from rookery.models.squashed import Hybrid
from rookery.policies.policy import Policy
from rookery.tasks import OneDimension
from selection import slow, slow_except

SEEN = spaces.Box(-5, 5, (3,), np.float32)
TWO = spaces.MultiDiscrete([2, 3])
BOTH = spaces.Dict({"choices": spaces.MultiDiscrete([2, 3]), "numbers": spaces.Box(-2, 2, (2,))})
SMALL = {"model": {"hidden": (16, 16)}, "batch_size": 32, "learning_starts": 50, "replay": {"capacity": 2000}}
LINE = {
    "lr": 5e-3, "batch_size": 64, "learning_starts": 100, "tau": 0.01, "alpha_init": 0.01, "entropy_share": 0.2,
    "model": {"hidden": (16,), "activation": "silu"}, "replay": {"capacity": 5000}, "updates_per_step": 0.25,
}  # fmt: skip


def sac(actions, masked=False, **settings):
    cfg = SACConfig(**{**SMALL, "discrete": actions is not BOTH, **settings})
    generator = torch.Generator().manual_seed(0)
    policy = Policy(
        obs_spec(SEEN, actions, info_mask=masked), action_spec(actions), cfg.model, "hero", generator=generator,
        head=cfg.head,
    )  # fmt: skip
    with torch.no_grad():
        policy.head.linear.weight.mul_(100)  # else all actions are alike
    return SAC(policy, cfg, Streams(0), "hero")


def rows_for(learner, masked=False, number=32):
    generator, action = torch.Generator().manual_seed(0), learner.policy.action_spec

    def seen():
        obs = {"obs": torch.randn(number, 3, generator=generator)}
        if masked:
            obs[MASK] = torch.rand(number, sum(action.sizes), generator=generator) < 0.5
            obs[MASK][:, np.cumsum((0, *action.sizes[:-1]))] = True  # the first option of each choice
        return obs

    chosen = torch.stack([torch.arange(number) % size * (not masked) for size in action.sizes], 1)
    numbers = torch.rand(number, action.num_numbers, generator=generator) * 2 - 1
    return Experience(
        obs=seen(),
        action=torch.cat((chosen.float(), numbers), 1) if action.num_numbers else chosen,
        reward=torch.randn(number, generator=generator),
        next_obs=seen(),
        discount=torch.full((number,), 0.9) * (torch.arange(number) % 5 > 0),
        weight=None,
        row=torch.arange(number),
    )


def learn_from(learner, rows):
    learner.replay.sample = lambda *size, **window: rows
    return learner


def test_values_of_choices_of_different_widths_stand_side_by_side():
    values = torch.arange(10.0).view(2, 5)
    assert pad_options(values, (2, 3)).tolist() == [[[0, 1, 0], [2, 3, 4]], [[5, 6, 0], [7, 8, 9]]]
    action = torch.tensor([[1.0, 2.0, 0.5, -0.5], [0.0, 1.0, 0.25, 1.0]])
    assert chosen_indices(action, action_spec(BOTH)).tolist() == [[1, 4], [0, 3]]
    assert continuous_part(action, action_spec(BOTH)).tolist() == [[0.5, -0.5], [0.25, 1.0]]


@pytest.mark.parametrize("masked", [False, True])
def test_critics_learn_what_an_expectation_over_all_joint_actions_gives(masked):
    learner = sac(TWO, masked, alpha=0.3)
    rows = rows_for(learner, masked)
    learn_from(learner, rows)
    with torch.no_grad():
        q = learner.critics.target(StateAction(rows.next_obs, rows.action)).amin(0)
        policy = learner.policy.head(learner.policy.trunk(rows.next_obs), rows.next_obs.get(MASK))
        value = torch.zeros(32)
        for one, two in itertools.product(range(2), range(3)):
            logp = policy.log_prob(torch.tensor([[one, two]]).expand(32, 2))
            value += logp.exp() * (q[:, one] + q[:, 2 + two] - 0.3 * logp.clamp_min(-1e6))
        now = learner.critics.net(StateAction(rows.obs, rows.action))
        every = torch.arange(32)
        played = now[:, every, rows.action[:, 0]] + now[:, every, 2 + rows.action[:, 1]]
        error = played - (rows.reward + rows.discount * value)
    assert float(step(learner)["critic_loss"]) == pytest.approx(float(0.5 * error.square().mean(1).sum()), rel=1e-4)


def test_with_one_choice_it_is_discrete_sac():
    branch, plain = sac(spaces.MultiDiscrete([4])), sac(spaces.Discrete(4))
    rows = rows_for(branch)
    one = ActorBatch(rows.obs, torch.zeros(32, 0), torch.tensor([0.3]))
    loss, metrics = branch_actor_loss(branch.branches(one), one, branch.cfg)
    with torch.no_grad():
        q = plain.critics.net(StateAction(rows.obs, rows.action)).amin(0)
    other = DiscreteBatch(rows.obs, q, torch.tensor(0.3))
    expected, told = discrete_actor_loss(plain.distribution(other), other, plain.cfg)
    assert float(loss.detach()) == pytest.approx(float(expected.detach()), rel=1e-5)
    assert torch.allclose(metrics["entropy"].squeeze(1), told["entropy"])
    learned = learn_from(branch, rows), learn_from(plain, Experience(**{**vars(rows), "action": rows.action[:, 0]}))
    for metric in ("critic_loss", "actor_loss", "alpha", "temperature_loss"):
        assert float(step(learned[0])[metric]) == pytest.approx(float(step(learned[1])[metric]), rel=1e-4)


def test_the_gradient_of_numbers_goes_through_critics_and_leaves_them_alone():
    learner = sac(BOTH, critic={"number": 1}, model={"hidden": (16, 16), "activation": "tanh"})  # no kinks
    rows = rows_for(learner)
    batch = ActorBatch(rows.obs, torch.randn(32, 2), torch.tensor([0.0, 0.0, 0.0]))
    before = learner.critics.optimizer.flat.grad.clone()
    branch_actor_loss(learner.branches(batch), batch, learner.cfg)[0].backward()
    found = learner.policy.head.linear.bias.grad
    assert (found.abs() > 0).all()  # logits, means and spreads, without any entropy
    assert torch.equal(learner.critics.optimizer.flat.grad, before)

    def shifted(by):  # by finite differences
        with torch.no_grad():
            learner.policy.head.linear.bias[5] += by
            value = -branch_actor_loss(learner.branches(batch), batch, learner.cfg)[0]
            learner.policy.head.linear.bias[5] -= by
        return float(value)

    assert -float(found[5]) == pytest.approx((shifted(1e-2) - shifted(-1e-2)) / 2e-2, rel=0.02, abs=1e-4)


def test_each_part_has_a_target_of_its_own():
    learner = sac(BOTH, entropy_share=0.2)
    target = learner.target_entropy(rows_for(learner))
    assert target.tolist() == pytest.approx([0.2 * math.log(2), 0.2 * math.log(3), -2.0])
    mask = torch.tensor([[True, False, True, True, False], [True] * 5])
    rows = Experience(**{**vars(rows_for(learner)), "obs": {MASK: mask}})
    expected = [[0.0, 0.2 * math.log(2), -2.0], [0.2 * math.log(2), 0.2 * math.log(3), -2.0]]
    assert [pytest.approx(row, abs=1e-6) for row in expected] == learner.target_entropy(rows).tolist()


def test_entropy_below_its_target_raises_the_temperature_of_that_part_alone():
    learner = learn_from(sac(BOTH, entropy_share=1.0, lr=1e-2), rows_for(sac(BOTH)))
    step(learner)
    log_alpha = learner.temperature.log_alpha
    assert log_alpha.shape == (3,)
    assert (log_alpha[:2] > 0).all()  # an even choice is the most there could be
    assert log_alpha[2] < 0  # its spread of 1 is more than is asked


def test_what_is_stored_is_what_is_drawn():
    learner = sac(BOTH)
    obs = {"obs": torch.randn(500, 3)}
    behavior = learner.policy.head(learner.policy.trunk(obs))
    assert isinstance(behavior, Hybrid)
    noise = torch.cat((torch.rand(500, 2), torch.randn(500, 2)), 1)
    action, logp = behavior.sample_logp(noise)
    inside = (action[:, 2:].abs() < 0.99).all(1)  # nearer to a bound float32 does not hold where it came from
    assert inside.sum() > 100
    assert torch.allclose(logp[inside], behavior.log_prob(action)[inside], atol=1e-3)
    assert torch.equal(behavior.sample(noise), action)
    assert set(action[:, 1].tolist()) == {0.0, 1.0, 2.0}
    learner.policy.head.random.fill_(1.0)
    even, _ = learner.policy.head.draw(learner.policy.trunk(obs), None, noise, None)
    assert torch.equal(even[:, :2], action[:, :2])
    assert abs(float((even[:, 2:] > 0.5).float().mean()) - 0.25) < 0.05


@pytest.mark.parametrize(
    ("numbers", "learns"), slow_except((1, True), (1, False), of=itertools.product([0, 1], [True, False]))
)
def test_it_walks_to_where_the_sign_points(numbers, learns):
    cfg = SACConfig(**{**LINE, "lr": 5e-3 if learns else 1e-12})
    config = {"algorithm.discrete": numbers == 0}
    kind = {"numbers": numbers, "choices": 2 - numbers, "step_size": 0.8, "max_steps": 30}
    with Trainer(OneDimension, cfg, env_config=kind, num_envs=2, seed=0, config=config) as trainer:
        trainer.train({"env_steps": 1000 if learns else 100})
        score = trainer.evaluate(20).return_mean
    assert (score > 0.9) == learns


@pytest.mark.parametrize("memory", [slow("none"), "lstm"])
def test_a_run_with_both_goes_on_as_if_it_had_not_stopped(tmp_path, memory):
    model = {"hidden": (8,), "memory": {"kind": memory, "size": 8, "sequence_length": 4}}
    settings = {**LINE, "model": model, "batch_size": 8, "learning_starts": 20}
    config = {"algorithm": settings, "sampling.iteration_steps": 30}
    where = {"env_config": {"choices": 1, "remember": True}, "num_envs": 1, "seed": 0, "config": config}

    def weights(trainer):
        return {name: value.clone() for name, value in trainer.policies["main"].state_dict().items()}

    with Trainer(OneDimension, "sac", run_dir=tmp_path / "whole", **where) as trainer:
        trainer.train({"env_steps": 60})
        whole = weights(trainer)
    with Trainer(OneDimension, "sac", run_dir=tmp_path / "two", **where) as trainer:
        trainer.train({"env_steps": 30})
        early = weights(trainer)
    with Trainer.load(tmp_path / "two") as trainer:
        trainer.train({"env_steps": 60})
        late = weights(trainer)
    assert all(torch.equal(whole[name], late[name]) for name in whole)
    assert any(not torch.equal(whole[name], early[name]) for name in whole)
