"""TD3 and DDPG: smoothed targets, delays, what they share, and that they learn."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from reaching import Reach, experience, reached
from stepping import step

from rookery import Trainer
from rookery.algorithms.off_policy.critics import CriticConfig, StateAction
from rookery.algorithms.off_policy.ddpg import DDPG, DDPGConfig, actor_loss
from rookery.algorithms.off_policy.td3 import TD3, TD3Config
from rookery.core.optim import gradient_step
from rookery.core.schedules import Linear
from rookery.core.seeding import Role, Streams
from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.policies.policy import Policy
from selection import slow

SMALL = {"model": {"hidden": (16, 16)}, "batch_size": 32, "learning_starts": 50, "replay": {"capacity": 2000}}
SEEN, MOVES = spaces.Box(-5, 5, (3,), np.float32), spaces.Box(-1, 1, (2,), np.float32)


def made(kind, config, action=MOVES, **settings):
    cfg = config(**{**SMALL, **settings})
    generator = torch.Generator().manual_seed(0)
    policy = Policy(obs_spec(SEEN, action), action_spec(action), cfg.model, generator=generator, head=cfg.head)
    return kind(policy, cfg, Streams(0), "hero")


def td3(**settings):
    return made(TD3, TD3Config, **settings)


def ddpg(**settings):
    return made(DDPG, DDPGConfig, **settings)


def learn_from(algorithm, rows):
    """Makes an algorithm draw the same rows every time."""
    algorithm.replay.sample = lambda *size, **window: rows
    return algorithm


def update(algorithm):
    """A gradient step, counted."""
    algorithm.learn(1)
    return algorithm.replay.means


def vectors(algorithm):
    """Weights of actor, critics, and their targets."""
    return [
        algorithm.actor_optimizer.flat.data.clone(),
        algorithm.critics.optimizer.flat.data.clone(),
        algorithm._actor_target_data.clone(),
        algorithm.critics._target_data.clone(),
    ]


def same(before, after):
    return [torch.equal(a, b) for a, b in zip(before, after, strict=True)]


# --- targets ---------------------------------------------------------------------------------------------------------


def test_targets_are_smoothed_by_clipped_noise_in_units_of_the_range():
    learner = td3(target_noise=3.0, target_noise_clip=0.25)
    obs = experience(400).obs
    action = learner.actor_target.head(learner.actor_target.trunk(obs)).mode()
    drawn = Streams(0).generator(Role.LEARNER, "hero").standard_normal((400, 2), dtype=np.float32)
    noise = np.clip(drawn * 3.0, -0.25, 0.25)
    wanted = np.clip(action.detach().numpy() + noise, -1, 1)
    assert learner.next_action(obs).numpy() == pytest.approx(wanted, abs=1e-6)
    assert np.abs(noise).max() == 0.25


def test_smoothed_actions_stay_between_the_bounds():
    learner = td3(target_noise=3.0, target_noise_clip=5.0)
    action = learner.next_action(experience(400).obs)
    assert (float(action.min()), float(action.max())) == (-1.0, 1.0)


def test_the_lower_of_two_target_critics_counts():
    learner = learn_from(td3(target_noise=0.0), rows := experience())
    with torch.no_grad():
        q = learner.critics.target(StateAction(rows.next_obs, learner.next_action(rows.next_obs)))
        target = rows.reward + rows.discount * torch.minimum(q[0], q[1])
        error = learner.critics.net(StateAction(rows.obs, rows.action)) - target
    metrics = step(learner)
    assert float(metrics["critic_loss"]) == pytest.approx(float(0.5 * error.square().mean(1).sum()), rel=1e-5)


# --- the actor -------------------------------------------------------------------------------------------------------


def test_the_actor_climbs_the_first_critic_by_the_chain_rule():
    learner = td3()
    batch = experience()
    loss, _ = actor_loss(learner.actor(batch), batch, learner.cfg)
    weights = list(learner.policy.parameters())
    ours = torch.autograd.grad(loss, weights)
    action = learner.policy.head(learner.policy.trunk(batch.obs)).mode()
    leaf = action.detach().requires_grad_()
    q = learner.critics.net(StateAction(batch.obs, leaf))[0]
    (slope,) = torch.autograd.grad(q.mean(), leaf)  # of the value, by the action
    theirs = torch.autograd.grad(action, weights, -slope)
    assert all(torch.allclose(mine, wanted, atol=1e-7) for mine, wanted in zip(ours, theirs, strict=True))


def test_the_actors_step_leaves_critics_and_their_gradients_alone():
    learner = learn_from(td3(), experience())
    step(learner)
    flat = learner.critics.optimizer.flat
    data, grad = flat.data.clone(), flat.grad.clone()
    gradient_step(learner.actor, actor_loss, experience(), learner.actor_optimizer, learner.cfg)
    assert torch.equal(flat.data, data)
    assert torch.equal(flat.grad, grad)


def test_actor_and_all_targets_wait_for_every_third_step():
    learner = learn_from(td3(policy_delay=3), experience())
    moved = []
    for _ in range(6):
        before = vectors(learner)
        update(learner)
        moved.append([not equal for equal in same(before, vectors(learner))])
    waits, moves = [False, True, False, False], [True, True, True, True]
    assert moved == [waits, waits, moves, waits, waits, moves]
    assert learner.replay.means.result()["actor_loss"] is not None


def test_targets_follow_by_tau():
    learner = learn_from(ddpg(tau=0.25), experience())
    before = vectors(learner)
    update(learner)
    after = vectors(learner)
    for source, target in ((0, 2), (1, 3)):
        assert torch.allclose(after[target], 0.75 * before[target] + 0.25 * after[source], atol=1e-7)


def test_targets_may_follow_less_often():
    learner = learn_from(ddpg(target_every=2), experience())
    moved = []
    for _ in range(4):
        before = vectors(learner)
        update(learner)
        moved.append([not equal for equal in same(before, vectors(learner))])
    waits, moves = [True, True, False, False], [True, True, True, True]
    assert moved == [waits, moves, waits, moves]


def test_the_actor_may_have_its_own_rate_and_critics_their_own_layers():
    learners = [learn_from(ddpg(lr=1e-3, actor_lr=rate), experience()) for rate in (None, 1e-3, 1e-4)]
    before = vectors(learners[0])
    for learner in learners:
        update(learner)
    usual, given, slower = (vectors(learner) for learner in learners)
    assert all(same(usual, given))
    assert torch.equal(usual[1], slower[1])
    assert torch.allclose(slower[0] - before[0], 0.1 * (usual[0] - before[0]), atol=2e-7)
    narrow = ddpg(critic=CriticConfig(number=1, widths=(4,)))
    assert len(vectors(narrow)[1]) == (3 + 2 + 1) * 4 + 4 + 1
    assert len(vectors(narrow)[0]) == len(before[0])


# --- what they share -------------------------------------------------------------------------------------------------


def test_ddpg_is_td3_with_one_critic_without_delay_and_smoothing():
    plain = {"policy_delay": 1, "target_noise": 0.0, "critic": CriticConfig(number=1)}
    one, other = learn_from(td3(**plain), experience()), learn_from(ddpg(), experience())
    assert all(same(vectors(one), vectors(other)))
    for _ in range(5):
        update(one)
        update(other)
        assert all(same(vectors(one), vectors(other)))
    update(third := learn_from(td3(), experience()))
    assert len(vectors(third)[1]) == 2 * len(vectors(other)[1])


# --- playing ---------------------------------------------------------------------------------------------------------


def test_noise_is_tried_out_after_random_actions_and_follows_its_schedule():
    learner = td3(exploration={"std": Linear(0.4, 0.0, 100)}, learning_starts=50)
    head = learner.policy.head
    assert (float(head.random), float(head.std)) == (1.0, pytest.approx(0.4))
    learner.replay.cfg = learner.cfg.replace(learning_starts=0)
    learner.env_steps = 75
    learner.explore()
    assert (float(head.random), float(head.std)) == (0.0, pytest.approx(0.1))


LEARNING = {**SMALL, "lr": 1e-2, "tau": 0.05, "learning_starts": 200, "gamma": 0.5}
NOISE = {"std": 0.3}


@pytest.mark.parametrize(
    "cfg",
    [
        TD3Config(**LEARNING, exploration=NOISE),
        slow(TD3Config(**LEARNING, exploration={"kind": "ou", **NOISE}, n_step=2, critic={"quantiles": 5})),
        slow(DDPGConfig(**LEARNING, exploration=NOISE)),
        slow(DDPGConfig(**LEARNING, exploration={"kind": "gsde", **NOISE}, critic={"norm": "layer"})),
    ],
    ids=["td3", "td3 with quantiles and drift", "ddpg", "ddpg with layer norm and gsde"],
)
def test_it_learns_to_reach(cfg):
    assert reached(cfg) > -2.0


def test_without_learning_nothing_is_reached():
    assert reached(TD3Config(**{**LEARNING, "lr": 1e-12})) < -4.0


@pytest.mark.parametrize("config", [TD3Config, slow(DDPGConfig)])
def test_stopping_between_two_steps_of_the_actor_changes_nothing(config, tmp_path):
    cfg = config(**SMALL)
    settings = {"num_envs": 3, "seed": 4, "iteration_steps": 101}
    with Trainer(Reach, cfg, **settings) as through:
        through.train({"iterations": 2})
        wanted = vectors(through.learners["main"])
    with Trainer(Reach, cfg, **settings) as first:
        first.train({"iterations": 1})
        place = first.save(tmp_path / "half")
    with Trainer.load(place, env=Reach) as second:
        second.train({"iterations": 2})
        assert all(same(vectors(second.learners["main"]), wanted))
