"""SAC: its losses against torch.distributions, its temperature, what each step changes, and that it learns."""

import contextlib
import itertools
import math
import signal

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from reaching import Reach, experience, reached
from stepping import optimizers, step
from torch.distributions import Normal, TanhTransform, TransformedDistribution

from each_step import after_each_step
from rookery import Trainer
from rookery.algorithms.off_policy.critics import CriticConfig, StateAction
from rookery.algorithms.off_policy.sac import (
    SAC,
    ActorBatch,
    ActorOutputs,
    EntropyBatch,
    SACActor,
    SACConfig,
    actor_gradient,
    actor_loss,
    temperature_loss,
)
from rookery.core.errors import ConfigError
from rookery.core.optim import gradient_step
from rookery.core.process.interrupt import Interrupted
from rookery.core.schedules import Linear
from rookery.core.seeding import Role, Streams
from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.native.critics import action_values
from rookery.policies.policy import Policy
from rookery.replay.buffer import ReplayConfig
from selection import slow, slow_except

SMALL = {"model": {"hidden": (16, 16)}, "batch_size": 32, "learning_starts": 50, "replay": {"capacity": 2000}}
SEEN, MOVES = spaces.Box(-5, 5, (3,), np.float32), spaces.Box(-1, 1, (2,), np.float32)


def sac(seed=0, obs=SEEN, action=MOVES, **settings):
    cfg = SACConfig(**{**SMALL, **settings})
    generator = torch.Generator().manual_seed(seed)
    policy = Policy(obs_spec(obs, action), action_spec(action), cfg.model, "hero", generator=generator, head=cfg.head)
    return SAC(policy, cfg, Streams(seed), "hero")


def transitions(**changes):
    """32 rows, every fourth of which ends its episode."""
    return experience(**({"discount": 0.9 * (torch.arange(32) % 4 > 0)} | changes))


def learn_from(algorithm, rows):
    """Makes an algorithm draw the same rows every time."""
    algorithm.replay.sample = lambda *size, **window: rows
    algorithm.explore = lambda: None
    return algorithm


def squashed(policy, obs):
    """Returns the action distribution by torch.distributions, and its normal part."""
    mean, log_std = policy.head.linear(policy.trunk(obs)).chunk(2, -1)
    normal = Normal(mean.double(), log_std.clamp(-20, 2).exp().double())
    return TransformedDistribution(normal, [TanhTransform(cache_size=1)]), normal


# --- losses ----------------------------------------------------------------------------------------------------------


def test_the_actor_loss_is_that_of_torch_distributions():
    learner = sac()
    rows, noise = transitions(), torch.randn(32, 2)
    batch = ActorBatch(rows.obs, noise, torch.tensor(0.3))
    loss, metrics = actor_loss(SACActor(learner.policy, learner.critics.detached_forward)(batch), batch, learner.cfg)
    distribution, normal = squashed(learner.policy, rows.obs)
    action = torch.tanh(normal.mean + normal.stddev * noise)
    logp = distribution.log_prob(action).sum(1)
    value = learner.critics.net(StateAction(rows.obs, action.float())).amin(0)
    assert float(loss.detach()) == pytest.approx(float((0.3 * logp - value).detach().mean()), rel=1e-5)
    assert metrics["entropy"].tolist() == pytest.approx((-logp).tolist(), rel=1e-4, abs=1e-5)


def test_the_actor_gradient_is_that_of_torch_distributions():
    learner = sac()
    rows, noise = transitions(), torch.randn(32, 2)
    batch = ActorBatch(rows.obs, noise, torch.tensor(0.3))
    weights = list(learner.policy.parameters())
    loss, _ = actor_loss(SACActor(learner.policy, learner.critics.detached_forward)(batch), batch, learner.cfg)
    ours = torch.autograd.grad(loss, weights)
    distribution, normal = squashed(learner.policy, rows.obs)
    action = torch.tanh(normal.mean + normal.stddev * noise)
    value = learner.critics.net(StateAction(rows.obs, action.float())).amin(0)
    theirs = torch.autograd.grad((0.3 * distribution.log_prob(action).sum(1) - value).mean(), weights)
    for mine, wanted in zip(ours, theirs, strict=True):
        assert torch.allclose(mine, wanted.float(), rtol=1e-3, atol=1e-6)


def test_the_critics_learn_the_soft_value_of_a_fresh_next_action():
    learner = learn_from(sac(alpha=0.3), rows := transitions())
    noise = torch.from_numpy(Streams(0).generator(Role.LEARNER, "hero").standard_normal((2, 32, 2), dtype=np.float32))
    distribution, normal = squashed(learner.policy, rows.next_obs)
    action = torch.tanh(normal.mean + normal.stddev * noise[0])
    q = learner.critics.target(StateAction(rows.next_obs, action.float())).amin(0)
    target = rows.reward + rows.discount * (q - 0.3 * distribution.log_prob(action).sum(1))
    error = learner.critics.net(StateAction(rows.obs, rows.action)) - target
    metrics = step(learner)
    assert float(metrics["critic_loss"]) == pytest.approx(float(0.5 * error.square().mean(1).sum().detach()), rel=1e-5)
    assert float(metrics["td_error"]) == pytest.approx(float(error.abs().mean().detach()), rel=1e-5)


def test_with_a_subset_for_targets_the_actor_follows_the_mean_of_all_critics():
    algorithm = sac(critic={"number": 5}, target_critics=2)
    batch = ActorBatch({"obs": torch.randn(8, 3)}, torch.randn(8, 2), torch.tensor(0.3))
    q = torch.randn(5, 8, requires_grad=True)
    logp = torch.randn(8)
    loss, _ = actor_loss(ActorOutputs(logp, q), batch, algorithm.cfg)
    assert loss.item() == pytest.approx((0.3 * logp - q.mean(0)).mean().item(), abs=1e-6)
    loss.backward()
    outputs = ActorOutputs(logp, q.detach(), lambda by_logp, by_q: by_q)
    (by_q,), _ = actor_gradient(outputs, batch, algorithm.cfg)
    torch.testing.assert_close(by_q, q.grad)


@pytest.mark.parametrize("native", [True, False])
def test_target_critics_that_were_not_drawn_are_not_computed(native, monkeypatch):
    model = {"hidden": (16, 16), "native": native}
    algorithm = sac(critic={"number": 5}, target_critics=2, model=model)
    targets = algorithm.critics.target.networks
    pair = StateAction(transitions().next_obs, torch.rand(len(transitions().action), 2))
    with torch.no_grad():
        wanted = algorithm.critics.target(pair)[[3, 1]]
        for number in (0, 2, 4):
            for weight in targets[number].parameters():
                weight.fill_(torch.nan)
        found = action_values(algorithm.critics.target_forward, pair, [3, 1])
    assert algorithm.critics.target_forward.on_kernels == native
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)
    monkeypatch.setattr(algorithm, "rng", Drawn(algorithm.rng, [3, 1]))
    assert torch.isfinite(algorithm.learn_rows(transitions(), algorithm.now())["q_mean"]).all()


class Drawn:
    """A generator whose choices are given."""

    def __init__(self, rng, chosen):
        self.rng, self.chosen = rng, np.array(chosen)

    def standard_normal(self, *args, **settings):
        return self.rng.standard_normal(*args, **settings)

    def choice(self, *args, **settings):
        return self.chosen


def test_actor_and_temperature_move_in_every_policy_delay_th_step():
    algorithm = sac(policy_delay=3)
    moved = []
    for _ in range(6):
        before = algorithm.actor_optimizer.flat.data.clone(), algorithm.temperature.log_alpha.item()
        critics = algorithm.critics.optimizer.flat.data.clone()
        metrics = algorithm.learn_rows(transitions(), algorithm.now())
        assert not torch.equal(critics, algorithm.critics.optimizer.flat.data)
        changed = not torch.equal(before[0], algorithm.actor_optimizer.flat.data)
        assert changed == (before[1] != algorithm.temperature.log_alpha.item()) == ("entropy" in metrics)
        moved.append(changed)
        algorithm.replay.gradient_steps += 1
    assert moved == [False, False, True] * 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"target_critics": 3}, "target_critics = 3 is more than critic.number = 2"),
        ({"target_critics": 2, "critic": {"quantiles": 25}}, "not for critics with quantiles"),
        ({"critic": {"dropout": 0.1, "norm": "batch"}}, "dropout = 0.1 is not for norm = batch"),
    ],
)
def test_critics_that_exclude_each_other_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        sac(**settings)


def test_quantiles_reach_the_actor_as_the_mean_of_all():
    learner = sac(critic=CriticConfig(quantiles=5))
    batch = ActorBatch(transitions().obs, torch.randn(32, 2), torch.tensor(0.0))
    judged = SACActor(learner.policy, learner.critics.detached_forward)(batch)
    assert judged.q.shape == (2, 32, 5)
    assert float(actor_loss(judged, batch, learner.cfg)[0].detach()) == pytest.approx(
        -float(judged.q.detach().mean()), rel=1e-5
    )


# --- temperature -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("entropy", "rises"), [(-3.0, True), (-1.0, False)])
def test_entropy_below_its_target_raises_the_temperature(entropy, rises):
    log_alpha = torch.tensor(0.0, requires_grad=True)
    loss, _ = temperature_loss(log_alpha, EntropyBatch(torch.full((4,), entropy), -2.0), SACConfig())
    loss.backward()
    assert float(loss) == 0.0
    assert float(-log_alpha.grad) == pytest.approx(-2.0 - entropy)  # the way it will go
    assert (float(-log_alpha.grad) > 0) == rises


@pytest.mark.parametrize("target", [50.0, -50.0])
def test_the_temperature_follows_the_entropy_of_the_policy(target):
    learner = learn_from(sac(target_entropy=target, lr=1e-2), transitions())
    alphas = [float(step(learner)["alpha"]) for _ in range(20)]
    assert alphas[0] == 1.0
    assert sorted(alphas, reverse=target < 0) == alphas
    assert alphas[-1] != 1.0


def test_the_target_is_minus_one_for_each_number_where_actions_span_one_to_one():
    wide = spaces.Box(-100, 300, (3,), np.float32)
    assert sac(action=wide).target_entropy(transitions()) == -3.0
    assert sac(action=wide, target_entropy=-1.5).target_entropy(transitions()) == -1.5


def test_a_fixed_temperature_stays_and_a_scheduled_one_goes_by_env_steps():
    learner = learn_from(sac(alpha=0.2), transitions())
    assert learner.temperature is None
    assert [float(step(learner)["alpha"]) for _ in range(3)] == pytest.approx([0.2] * 3)
    learner = learn_from(sac(alpha=Linear(1.0, 0.0, 100)), transitions())
    learner.env_steps = 25
    assert float(step(learner)["alpha"]) == pytest.approx(0.75)


# --- what a step changes ---------------------------------------------------------------------------------------------


def test_the_actors_step_leaves_critics_and_their_gradients_alone():
    learner = learn_from(sac(), transitions())
    step(learner)
    critics = learner.critics.optimizer.flat
    data, grad = critics.data.clone(), critics.grad.clone()
    batch = ActorBatch(transitions().obs, torch.randn(32, 2), torch.tensor(1.0))
    before = learner.actor_optimizer.flat.data.clone()
    gradient_step(learner.actor, actor_loss, batch, learner.actor_optimizer, learner.cfg)
    assert torch.equal(critics.data, data)
    assert torch.equal(critics.grad, grad)
    assert not torch.equal(learner.actor_optimizer.flat.data, before)


def test_the_critics_step_leaves_the_actor_and_its_gradients_alone():
    learner = learn_from(sac(), rows := transitions())
    step(learner)
    actor = learner.actor_optimizer.flat
    data, grad = actor.data.clone(), actor.grad.clone()
    learner.critics.learn(rows, rows.action, None, learner.cfg)
    assert torch.equal(actor.data, data)
    assert torch.equal(actor.grad, grad)


def test_three_vectors_hold_every_weight_that_learns():
    learner = sac()
    actor, critics, temperature = optimizers(learner)
    assert actor.flat.data.numel() == sum(weight.numel() for weight in learner.policy.parameters())
    assert critics.flat.data.numel() == sum(weight.numel() for weight in learner.critics.net.parameters())
    assert temperature.flat.data.numel() == 1


def test_targets_of_critics_follow_in_every_step_and_there_is_none_of_the_actor():
    learner = learn_from(sac(tau=0.1), transitions())
    for _ in range(3):
        before = learner.critics._target_data.clone()
        step(learner)
        source = learner.critics.optimizer.flat.data
        assert torch.allclose(learner.critics._target_data, 0.9 * before + 0.1 * source, atol=1e-7)


def test_each_part_may_have_its_own_rate_and_targets_may_wait():
    learners = [learn_from(sac(**rates), transitions()) for rates in (
        {}, {"actor_lr": 1e-4, "alpha_lr": 1e-2, "target_every": 2}
    )]  # fmt: skip
    before = [optimizer.flat.data.clone() for optimizer in optimizers(learners[0])]
    target = learners[1].critics._target_data.clone()
    for learner in learners:
        step(learner)
    usual, own = ([each.flat.data for each in optimizers(learner)] for learner in learners)
    rate = learners[0].cfg.lr
    assert torch.allclose(own[0] - before[0], 1e-4 / rate * (usual[0] - before[0]), atol=2e-7)
    assert torch.equal(own[1], usual[1])
    assert torch.allclose(own[2] - before[2], 1e-2 / rate * (usual[2] - before[2]), atol=2e-7)
    assert torch.equal(learners[1].critics._target_data, target)
    step(learners[1])
    assert not torch.equal(learners[1].critics._target_data, target)


def test_importance_weights_scale_the_critics_loss_and_errors_become_priorities():
    rows = transitions(weight=torch.linspace(0, 1, 32))
    learner = learn_from(sac(alpha=0.0, replay=ReplayConfig(kind="prioritized", capacity=1000)), rows)
    noted = []
    learner.replay.buffer.update_priorities = lambda row, priority: noted.append((row, priority))
    metrics = step(learner)
    ((row, priority),) = noted
    assert torch.equal(row, rows.row)
    assert float(priority.mean()) == pytest.approx(float(metrics["td_error"]))
    assert "priority" not in metrics


# --- through the trainer ---------------------------------------------------------------------------------------------


LEARNING = {**SMALL, "lr": 1e-2, "tau": 0.02, "learning_starts": 200, "gamma": 0.5}


@pytest.mark.parametrize(
    "option",
    [
        {},
        slow({"critic": CriticConfig(quantiles=5)}),
        slow({"critic": CriticConfig(norm="batch")}),
        slow({"critic": CriticConfig(norm="layer"), "n_step": 2, "replay": {"kind": "prioritized", "capacity": 2000}}),
        slow({"exploration": {"kind": "gsde", "every": 4}, "model": {"hidden": (16, 16), "normalize_obs": True}}),
        slow({"exploration": {"kind": "ou"}, "log_std": "tanh"}),
    ],
    ids=["plain", "tqc", "crossq", "layer norm, n-step, prioritized", "gsde, normalized", "ou"],
)
def test_it_learns_to_reach(option):
    assert reached(SACConfig(**{**LEARNING, **option})) > -2.0


def test_without_learning_nothing_is_reached():
    assert reached(SACConfig(**{**LEARNING, "lr": 1e-12})) < -4.0


class Endless(gymnasium.Env):
    """Every step earns 1 and nothing ever ends, but for a time limit that has nothing to do with it."""

    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.clock = 0
        return self.np_random.uniform(-1, 1, 2).astype(np.float32), {}

    def step(self, action):
        self.clock += 1
        return self.np_random.uniform(-1, 1, 2).astype(np.float32), 1.0, False, self.clock == 4, {}


@pytest.mark.parametrize("n_step", [slow(1), 3])
def test_a_time_limit_takes_nothing_from_a_value(n_step):
    cfg = SACConfig(**{**SMALL, "alpha": 0.0, "gamma": 0.9, "tau": 0.1, "lr": 3e-3, "n_step": n_step})
    with Trainer(Endless, cfg, num_envs=4, seed=0, iteration_steps=600) as trainer:
        trainer.train({"env_steps": 600})
        learner = trainer.learners["main"]
        rows = learner.replay.sample(64, n_step=1, gamma=0.9, beta=0.0)
        q = learner.critics.net(StateAction(rows.obs, rows.action))
        assert float(q.detach().mean()) == pytest.approx(1 / (1 - 0.9), rel=0.05)


class Bounds(gymnasium.Env):
    """Notes every action."""

    observation_space = spaces.Box(-1, 1, (1,), np.float32)
    action_space = spaces.Box(-1, 1, (2,), np.float32)
    seen = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.clock = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.seen.append(action)
        self.clock += 1
        return np.zeros(1, np.float32), 0.0, False, self.clock == 20, {}


ASYMMETRIC = spaces.Box(np.array([-1, 2], np.float32), np.array([3, 10], np.float32))
WHOLE = spaces.Box(np.array([0, -3]), np.array([5, 1]), dtype=np.int64)


@pytest.mark.parametrize(
    ("space", "warm_up"),
    slow_except((ASYMMETRIC, True), (WHOLE, False), of=itertools.product([ASYMMETRIC, WHOLE], [True, False])),
)
def test_actions_span_bounds_of_any_kind(space, warm_up):
    class Env(Bounds):
        action_space = space
        seen = []

    cfg = SACConfig(**{**SMALL, "learning_starts": 2000 if warm_up else 0, "updates_per_step": 0.0})
    with Trainer(Env, cfg, num_envs=1, seed=0) as trainer:
        trainer.train({"env_steps": 1000})
    actions = np.stack(Env.seen)
    share = (actions - space.low) / (space.high - space.low)
    assert share.min() < 0.05
    assert share.max() > 0.95
    assert share.mean(0) == pytest.approx([0.5, 0.5], abs=0.05)
    if warm_up and space.dtype == np.float32:  # all alike: the standard deviation of a uniform number
        assert share.std(0) == pytest.approx([math.sqrt(1 / 12)] * 2, abs=0.02)


@pytest.mark.parametrize(
    "option", [{}, slow({"critic": CriticConfig(norm="batch", quantiles=5)})], ids=["plain", "crossq"]
)
def test_stopping_in_the_middle_of_an_iteration_changes_nothing(option, tmp_path):
    cfg = SACConfig(**{**SMALL, **option, "updates_per_step": 0.4, "learning_starts": 100})
    settings = {"num_envs": 3, "seed": 4, "iteration_steps": 300}

    def weights(trainer):
        learner = trainer.learners["main"]
        return [tensor.clone() for one in optimizers(learner) for tensor in (one.flat.data, one.mean)]

    with Trainer(Reach, cfg, **settings) as through:
        through.train({"iterations": 2})
        wanted, buffer = weights(through), through.learners["main"].replay.buffer
        drawn = buffer.sample(8, n_step=2, gamma=0.9, beta=0.4)
    for stop in (20, 90, 150):
        trainer = (
            Trainer(Reach, cfg, **settings, run_dir=tmp_path) if stop == 20 else Trainer.load(tmp_path, resume=True)
        )
        with trainer, contextlib.suppress(Interrupted):

            def come(worker, stop=stop, trainer=trainer):
                if worker.vector_steps == stop:
                    trainer._interrupt.number = signal.SIGINT

            after_each_step(trainer._pool.worker, come)
            trainer.train({"iterations": 2})
    with Trainer.load(tmp_path, resume=True) as trainer:
        trainer.train({"iterations": 2})
        assert all(torch.equal(a, b) for a, b in zip(weights(trainer), wanted, strict=True))
        again = trainer.learners["main"].replay.buffer.sample(8, n_step=2, gamma=0.9, beta=0.4)
        assert torch.equal(again.row, drawn.row)
        assert torch.equal(again.reward, drawn.reward)
