"""SAC, TD3 and DDPG on kernels: the same as by torch, on every build that this processor can run."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stepping import optimizers, step

from rookery.algorithms.experience import Experience
from rookery.algorithms.off_policy.critics import CriticConfig, StateAction
from rookery.algorithms.off_policy.ddpg import DDPG, DDPGConfig
from rookery.algorithms.off_policy.hybrid_actions import ActorBatch
from rookery.algorithms.off_policy.sac import ACTOR_GRADIENT, SAC, SACConfig, actor_loss
from rookery.algorithms.off_policy.td3 import TD3, TD3Config
from rookery.core.batch import Transitions
from rookery.core.native import kernel_threads
from rookery.core.optim import compute_gradients
from rookery.core.seeding import Streams
from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.models.build import ModelConfig
from rookery.models.squashed import Squashed
from rookery.models.structure import Inputs
from rookery.native.critics import SquashedDrawing, action_values
from rookery.policies.policy import Policy
from rookery.replay.buffer import ReplayConfig
from selection import slow_except, slow_repeats

VECTOR, NUMBERS = spaces.Box(-1.0, 1.0, (7,), np.float32), spaces.Box(-2.0, 2.0, (3,), np.float32)
MIXED = spaces.Dict({"place": spaces.Discrete(4), "flags": spaces.MultiBinary(3), "at": VECTOR})
FIVE = spaces.Discrete(5)
# Adam divides each gradient by its size: with its usual eps the rounding of the smallest ones would be compared
COMMON = {
    "adam_eps": 1e-3,
    "lr": 1e-3,
    "tau": 0.1,
    "replay": ReplayConfig(capacity=1000),
    "model": ModelConfig(hidden=(33, 16), activation="relu"),
}
KINDS = {
    "sac": (SAC, SACConfig(**COMMON)),
    "sac, fixed alpha": (SAC, SACConfig(**COMMON, alpha=0.2, log_std="tanh")),
    "sac, three critics": (SAC, SACConfig(**COMMON, critic=CriticConfig(number=3))),
    "sac, normalized": (SAC, SACConfig(**COMMON, critic=CriticConfig(norm="layer"))),
    "sac, quantiles": (SAC, SACConfig(**COMMON, critic=CriticConfig(quantiles=5, drop=1))),
    "sac, weighted": (SAC, SACConfig(**{**COMMON, "replay": ReplayConfig(capacity=1000, kind="prioritized")})),
    "sac, discrete": (SAC, SACConfig(**COMMON, discrete=True)),
    "td3": (TD3, TD3Config(**COMMON)),
    "ddpg": (DDPG, DDPGConfig(**COMMON)),
}

pytestmark = pytest.mark.usefixtures("kernels")


def learner(name, obs=VECTOR, *, native=True, **model):
    kind, cfg = KINDS[name]
    cfg = replace(cfg, model=replace(cfg.model, native=native, **model))
    action = FIVE if name == "sac, discrete" else NUMBERS
    spec = obs_spec(obs, action), action_spec(action), cfg.model
    generator = torch.Generator().manual_seed(0)
    algo = kind(Policy(*spec, name="hero", generator=generator, head=cfg.head), cfg, Streams(0), "hero")
    for optimizer in (algo.actor_optimizer, algo.critics.optimizer):  # away from where all is nearly 0
        shape = optimizer.flat.data.shape
        optimizer.flat.data.add_(torch.randn(shape, generator=generator), alpha=0.1)
    return algo


def seen(policy, rows, rng):
    space = policy.obs_spec.space
    space.seed(int(rng.integers(1000)))
    trees = [policy.obs_spec.read(space.sample())[0] for _ in range(rows)]
    return {path: torch.from_numpy(np.concatenate([tree[path] for tree in trees])) for path in trees[0]}


def drawn(algo, seed, rows=130):
    """Returns transitions as of a replay buffer."""
    rng, policy = np.random.default_rng(seed), algo.policy

    def numbers(*shape):
        return torch.from_numpy(rng.standard_normal(shape, dtype=np.float32))

    discrete = policy.action_spec.kind == "discrete"
    return Transitions(
        obs=seen(policy, rows, rng),
        action=torch.from_numpy(rng.integers(5, size=rows)) if discrete else numbers(rows, 3).clamp(-1.0, 1.0),
        reward=numbers(rows),
        next_obs=seen(policy, rows, rng),
        discount=torch.from_numpy(np.where(rng.random(rows) < 0.2, 0.0, 0.97).astype(np.float32)),
        weight=numbers(rows).abs() if algo.cfg.replay.kind == "prioritized" else None,
        row=torch.arange(rows),
    )


def updates(algo, number):
    """Makes updates on given rows; returns the weights of actor and critics before and after, and the last metrics."""
    flats = [optimizer.flat.data for optimizer in optimizers(algo)] + [algo.critics._target_data]
    before = [flat.double() for flat in flats]
    for seed in range(number):
        algo.replay.buffer.sample = lambda *_, seed=seed, **__: drawn(algo, seed)
        algo.replay.buffer.update_priorities = lambda row, priority: None
        metrics = step(algo)
    return before, [flat.double() for flat in flats], metrics


def same(name, obs=VECTOR, **model):
    """Asserts that five updates are those of torch."""
    mine, theirs = learner(name, obs, **model), learner(name, obs, native=False, **model)
    assert mine.critics.forward.kernels is not None
    assert theirs.critics.forward.kernels is None
    before, after, metrics = updates(mine, 5)
    _, expected, known = updates(theirs, 5)
    for start, made, wanted in zip(before, after, expected, strict=True):
        change = (wanted - start).norm()
        assert change > 0
        assert (made - wanted).norm() < 1e-5 * change
    assert {key: float(value) for key, value in metrics.items()} == pytest.approx(
        {key: float(value) for key, value in known.items()}, rel=1e-3, abs=1e-4
    )


@pytest.mark.parametrize(
    "name", slow_except(*(name for name in KINDS if name not in ("sac, weighted", "sac, three critics")), of=KINDS)
)
def test_updates_are_those_of_torch(name):
    same(name)


@pytest.mark.parametrize(
    ("name", "activation"), slow_repeats(of=itertools.product(["sac", "td3"], ["relu", "gelu", "linear"]))
)
def test_updates_of_normalized_layers_are_those_of_torch(name, activation):
    same(name, MIXED, layer_norm=True, activation=activation)


@pytest.mark.parametrize("name", ["sac", "td3"])
def test_updates_are_those_of_torch_whatever_is_seen(name):
    same(name, MIXED, activation="tanh")


@pytest.mark.parametrize("name", ["sac", "td3", "sac, quantiles"])
def test_the_gradient_of_actions_is_that_of_torch(name):
    mine, theirs = learner(name), learner(name, native=False)
    rows, gradients = drawn(mine, 0), []
    for algo in (mine, theirs):
        action = rows.action.clone().requires_grad_()
        judged = action_values(algo.critics.detached_forward, StateAction(rows.obs, action))
        (judged.amin(0) if judged.dim() == 2 else judged.mean((0, 2))).sum().backward()
        gradients.append(action.grad)
    assert gradients[0].abs().max() > 1e-3
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)


def test_layers_whose_panels_are_lent_make_the_updates_of_torch():
    same("sac", hidden=(128, 128))


def test_an_actor_learns_the_same_from_what_is_known_of_the_pass_ahead():
    algo, found = learner("sac", hidden=(128, 128)), []
    noise = torch.from_numpy(np.random.default_rng(1).standard_normal((2, 130, 3), dtype=np.float32))
    alpha = torch.tensor(0.2)
    for seed in range(2):  # with other weights the second time
        rows = Experience.of(drawn(algo, seed))
        _, _, known = algo.actor.net.draw_next_actions(algo.actor, rows, noise[0])
        assert torch.equal(known, algo.actor.kernels.run(Inputs(rows.obs))[0])
        for given in (known, None):
            batch = ActorBatch(rows.obs, noise[1], alpha, None, given)
            compute_gradients(algo.actor, actor_loss, batch, algo.actor_optimizer, algo.cfg, ACTOR_GRADIENT)
            found.append(algo.actor_optimizer.flat.grad.clone())
        assert found[-1].abs().max() > 0
        algo.actor_optimizer.flat.data.mul_(-0.9)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[2], found[3])
    assert not torch.equal(found[0], found[2])


def test_two_threads_change_no_bit():
    alone = updates(learner("sac, three critics"), 5)[1]
    with kernel_threads(2):
        helped = updates(learner("sac, three critics"), 5)[1]
    assert all(torch.equal(one, other) for one, other in zip(alone, helped, strict=True))


def test_rounding_to_bfloat16_changes_an_update_by_little():
    exact, rounded = learner("sac"), learner("sac", precision="bfloat16")
    before, wanted, _ = updates(exact, 10)
    _, made, _ = updates(rounded, 10)
    for start, mine, theirs in zip(before, made, wanted, strict=True):
        assert (mine - theirs).norm() < 0.1 * (theirs - start).norm()


def test_critics_that_normalize_batches_run_in_torch():
    kind, cfg = KINDS["sac"]
    spec = obs_spec(VECTOR, NUMBERS), action_spec(NUMBERS), cfg.model
    policy = Policy(*spec, generator=torch.Generator().manual_seed(0), head=cfg.head)
    algo = kind(policy, replace(cfg, critic=CriticConfig(norm="batch")), Streams(0), "hero")
    assert algo.critics.forward.kernels is None
    before = algo.actor_optimizer.flat.data.clone()
    algo.replay.buffer.sample = lambda *_, **__: drawn(algo, 0)
    step(algo)
    assert not torch.equal(algo.actor_optimizer.flat.data, before)


@pytest.mark.parametrize("log_std", ["clamp", "tanh"])
@pytest.mark.parametrize("count", [1, 3])
def test_squashed_numbers_are_drawn_and_led_back_as_by_autograd(kernels, log_std, count):
    generator = torch.Generator().manual_seed(0)
    action = action_spec(spaces.Box(-1.0, 1.0, (count,)))
    head = Squashed(log_std=log_std).build(4, action, log_std_init=0.0, generator=generator)
    head.random.fill_(1.0)  # of no account in learning
    drawing = SquashedDrawing(kernels, head)
    for rows in (1, 8, 17, 70):
        output = torch.randn(rows, 2 * count, generator=generator) * 2
        output[0, count:] = 3.0  # beyond the range that is cut off
        noise = torch.randn(rows, count, generator=generator)
        by_read, by_logp = torch.randn(3, rows, 5 + count, generator=generator), torch.randn((), generator=generator)
        by_action = by_read.sum(0)[:, 5:]  # three critics read five numbers and the action
        exact = output.double().requires_grad_()
        expected = head.behavior(exact).sample_logp(noise.double())
        (expected[0] * by_action).sum().add((expected[1] * by_logp).sum()).backward()
        found = drawing.sample_logp(output, noise)
        torch.testing.assert_close(found[0].double(), expected[0].detach(), rtol=0, atol=1e-5)
        torch.testing.assert_close(found[1].double(), expected[1].detach(), rtol=1e-5, atol=1e-4)
        gradient = drawing.gradient(output, noise, found[0], by_logp, by_read)
        torch.testing.assert_close(gradient.double(), exact.grad, rtol=1e-4, atol=1e-4)
