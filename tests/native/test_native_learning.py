"""Learning on kernels: the same as by torch, on every build that this processor can run."""

import copy
import itertools
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from gymnasium import spaces
from q_learners import fresh
from test_loss_gradients import replaced
from torch import nn

from rookery import A2CConfig, APPOConfig, IMPALAConfig, ModelConfig, PPOConfig, ReinforceConfig
from rookery.algorithms.on_policy.a2c import A2C
from rookery.algorithms.on_policy.actor_critic import ActorCritic
from rookery.algorithms.on_policy.appo import APPO
from rookery.algorithms.on_policy.impala import IMPALA
from rookery.algorithms.on_policy.ppo import PPO
from rookery.algorithms.on_policy.reinforce import Reinforce
from rookery.core.flat import flatten
from rookery.core.native import SWITCH, best_build
from rookery.core.optim import Adam, apply_gradients
from rookery.core.seeding import Streams
from rookery.core.spaces.arrays import MASK, action_spec, obs_spec
from rookery.models.heads import ActionHead
from rookery.native.forward import attach
from rookery.policies.policy import Policy
from selection import WITHOUT_SLOW, slow_repeats

UPDATES = 4 if WITHOUT_SLOW else 10
"""How many updates it is after which learners are compared."""

VECTOR = spaces.Box(-1.0, 1.0, (5,), np.float32)
MIXED = spaces.Dict(
    {"place": spaces.Discrete(4), "kinds": spaces.MultiDiscrete([2, 3]), "flags": spaces.MultiBinary(3), "at": VECTOR}
)
THREE, NUMBERS = spaces.Discrete(3), spaces.Box(-1.0, 1.0, (2,), np.float32)
ACTIONS = {
    "discrete": THREE,
    "wide": spaces.Discrete(20),
    "multi_discrete": spaces.MultiDiscrete([2, 5, 3]),
    "multi_binary": spaces.MultiBinary(4),
    "box": NUMBERS,
    "composite": spaces.Dict({"a": spaces.MultiDiscrete([2, 4]), "b": spaces.MultiBinary(3), "c": NUMBERS}),
}
# Adam divides each gradient by its size, so with its usual eps the rounding of the smallest ones would be compared; and
# steps of RMSprop are so short at first that, with its usual rate, the rounding of the weights would be.
ALGORITHMS = {
    "ppo": (
        PPO,
        PPOConfig(
            rollout_size=64,
            fragment_length=16,
            epochs=2,
            minibatch_size=32,
            lr=1e-3,
            adam_eps=1e-3,
            normalize_values=False,
        ),  # fmt: skip
    ),
    "a2c": (A2C, A2CConfig(rollout_size=64, fragment_length=16, entropy_coef=0.01, lr=1e-2, normalize_values=False)),
    "impala": (
        IMPALA,
        IMPALAConfig(rollout_size=64, fragment_length=16, lr=1e-3, adam_eps=1e-3, normalize_values=False),
    ),
    "appo": (
        APPO,
        APPOConfig(
            rollout_size=64,
            fragment_length=16,
            minibatch_size=32,
            lr=1e-3,
            adam_eps=1e-3,
            target_every=3,
            normalize_values=False,
        ),
    ),
    "reinforce": (Reinforce, ReinforceConfig(rollout_size=64, entropy_coef=0.01, adam_eps=1e-3)),
}


pytestmark = pytest.mark.usefixtures("kernels")


def with_mask(action):
    """Observations with a mask for these actions."""
    return spaces.Dict({"obs": VECTOR, MASK: spaces.MultiBinary(sum(action_spec(action).sizes))})


def learner(algorithm="ppo", obs=VECTOR, action=THREE, settings=None, kind=None, **model):
    """A learner with two small layers."""
    known, cfg = ALGORITHMS[algorithm]
    cfg = replace(cfg, **(settings or {}), model=ModelConfig(**{"hidden": (16, 9), **model}))
    generator = torch.Generator().manual_seed(0)
    policy = Policy(obs_spec(obs, action), action_spec(action), cfg.model, name="hero", generator=generator)
    return (kind or known)(policy, cfg, Streams(0), "hero")


@cache
def fifty(spec, sizes):
    """Fifty observations, some of whose choices are allowed, if there is a mask."""
    spec.space.seed(0)
    trees = [spec.read(spec.space.sample())[0] for _ in range(50)]
    tree = {path: torch.from_numpy(np.concatenate([tree[path] for tree in trees])) for path in trees[0]}
    if MASK in tree:
        tree[MASK][:, np.cumsum((0, *sizes[:-1]))] = True
    return tree


@torch.no_grad()
def rollout(algo, seed, *, cut=True):
    """Experience of a learner's policy in a world of noise: 16 decisions of 4 slots, one of which may fall short."""
    policy, rng, (length, slots) = algo.policy, np.random.default_rng(seed), (16, 4)

    def seen(*shape):
        rows = torch.from_numpy(rng.integers(50, size=shape))
        return {path: leaf[rows] for path, leaf in fifty(policy.obs_spec, policy.action_spec.sizes).items()}

    def drawn(width, draw):
        return torch.from_numpy(draw((length * slots, width), dtype=np.float32))

    obs = seen(length, slots)
    noise = torch.cat((drawn(policy.noise.uniform, rng.random), drawn(policy.noise.normal, rng.standard_normal)), 1)
    action, logp = policy.act({path: leaf.flatten(0, 1) for path, leaf in obs.items()}, noise)
    terminated = torch.from_numpy(rng.random((length, slots)) < 0.1)
    lengths = torch.tensor([16, 16, 13 if cut else 16, 16])
    truncated = torch.from_numpy(rng.random((length, slots)) < 0.1) & ~terminated
    truncated &= torch.arange(length).unsqueeze(1) < lengths
    truncated[3, 1], terminated[3, 1] = True, False
    index = truncated.nonzero()
    return fresh(
        lengths,
        obs=obs,
        action=action.view(length, slots, *action.shape[1:]),
        logp=logp.view(length, slots) + 0.2 * torch.from_numpy(rng.standard_normal((length, slots), dtype=np.float32)),
        reward=torch.from_numpy(rng.standard_normal((length, slots), dtype=np.float32)),
        terminated=terminated,
        truncated=truncated,
        last_obs=seen(slots),
        final_obs=seen(len(index)),
        boot_index=index,
    )


def weights(algo):
    return algo.optimizer.flat.data.double()


def share(mine, theirs, start):
    """The distance between two vectors as a share of the way that both went."""
    return ((mine - theirs).norm() / (theirs - start).norm()).item()


def started(algorithm, stale, native, case):
    """A learner that has seen what its observations are like."""
    algo = learner(algorithm, **case, native=native)
    algo.staleness = stale
    if algo.policy.normalizer is not None:
        algo.policy.normalizer.update({path: leaf.flatten(0, 1) for path, leaf in rollout(algo, 99).obs.items()})
    return algo


KNOWN = {}
"""What updates in torch lead to, once for all builds: the experience, the weights before and those after."""


def by_torch(algorithm, updates, stale, case):
    key = algorithm, updates, stale, repr(case)
    if key not in KNOWN:
        algo, experience = started(algorithm, stale, False, case), []
        start = weights(algo)
        for seed in range(updates):
            experience.append(rollout(algo, seed))
            algo.training_step(experience[-1])
        assert not algo.on_kernels
        KNOWN[key] = experience, start, weights(algo)
    return KNOWN[key]


def learn_alike(algorithm="ppo", case=None, *, updates=UPDATES, stale=0):
    """Asserts that updates on kernels and in torch end at the same weights."""
    experience, start, end = by_torch(algorithm, updates, stale, case or {})
    algo = started(algorithm, stale, True, case or {})
    assert torch.equal(weights(algo), start)
    assert algo.on_kernels
    for data in experience:
        algo.training_step(data)
    assert share(weights(algo), end, start) < 1e-5


# --- whole updates ---------------------------------------------------------------------------------------------------

CASES = {
    **{name: {"action": action} for name, action in ACTIONS.items()},
    **{
        f"masked {name}": {"obs": with_mask(ACTIONS[name]), "action": ACTIONS[name]}
        for name in ("discrete", "multi_discrete", "composite")
    },
    "shared trunk, narrow": {"shared_trunk": True},
    "shared trunk, wide": {"shared_trunk": True, "action": ACTIONS["wide"]},
    "shared trunk, numbers": {"shared_trunk": True, "action": NUMBERS},
    "normalized": {"normalize_obs": True, "obs_clip": 1.0},
    "categories": {"obs": spaces.MultiDiscrete([3, 4, 2])},
    "a category": {"obs": spaces.Discrete(5)},
    "mixed": {"obs": MIXED, "action": ACTIONS["composite"], "normalize_obs": True},
    "mixed, shared trunk": {"obs": MIXED, "shared_trunk": True},
    "bytes": {"obs": spaces.Box(0, 255, (7,), np.uint8)},
    "no layers": {"hidden": ()},
    "no layers, shared trunk": {"hidden": (), "shared_trunk": True},
    "one wide layer": {"hidden": (64,)},
    **{name: {"activation": name} for name in ("tanh", "relu", "elu", "silu", "gelu", "linear")},
    "no entropy bonus": {"settings": {"entropy_coef": 0.0}, "action": ACTIONS["composite"]},
    "long gradients": {"settings": {"max_grad_norm": None}},
    "short gradients": {"settings": {"max_grad_norm": 0.01}},
}
REACHES_ALL = ("discrete", "box", "composite", "masked multi_discrete", "shared trunk, numbers", "mixed", "no layers")


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_updates_of_ppo_are_those_of_torch(case):
    learn_alike("ppo", case)


PPO_SETTINGS = {
    "values clipped": {"value_clip": 0.1},
    "value losses clipped": {"value_loss_clip": 0.5},
    "no value loss": {"value_coef": 0.0},
    "large entropy bonus": {"entropy_coef": 0.5},
    "advantages as they are": {"normalize_advantage": False},
    "advantages of the batch": {"normalize_advantage": "batch"},
    "rewards scaled": {"scale_rewards": True},
    "narrow": {"clip": 0.02},
    "uneven minibatches": {"minibatch_size": 23},
    "penalty": {"kl_coef": 0.2},
    "large penalty, clipping far off": {"kl_coef": 5.0, "clip": 9.0},
}


@pytest.mark.parametrize(
    ("settings", "action"), slow_repeats(of=itertools.product(PPO_SETTINGS, ["discrete", "composite"]))
)
def test_updates_of_ppo_are_those_of_torch_with_any_settings(settings, action):
    learn_alike("ppo", {"action": ACTIONS[action], "settings": PPO_SETTINGS[settings]})


def test_gradient_steps_on_single_rows_are_those_of_torch():
    settings = {"minibatch_size": 1, "epochs": 1}
    learn_alike("ppo", {"action": ACTIONS["composite"], "settings": settings}, updates=2)


@pytest.mark.parametrize(
    ("case", "algorithm"), slow_repeats(of=itertools.product(REACHES_ALL, ["a2c", "impala", "appo", "reinforce"]))
)
def test_updates_of_others_are_those_of_torch(algorithm, case):
    learn_alike(algorithm, CASES[case])


@pytest.mark.parametrize(
    ("action", "algorithm"), slow_repeats(of=itertools.product(["discrete", "composite"], ["ppo", "a2c"]))
)
def test_updates_on_experience_of_older_weights_are_those_of_torch(algorithm, action):
    learn_alike(algorithm, {"action": ACTIONS[action]}, stale=1)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("action", ["discrete", "box", "composite"])
def test_what_an_update_reports_is_what_torch_reports(algorithm, action):
    native, torch_only = (learner(algorithm, action=ACTIONS[action], native=native) for native in (True, False))
    for seed in range(3):
        data = rollout(torch_only, seed, cut=False)
        mine, theirs = native.training_step(data), torch_only.training_step(data)
        assert mine.keys() == theirs.keys()
        for name, value in theirs.items():
            assert mine[name] == pytest.approx(value, rel=1e-4, abs=1e-5), name


def surprised(outputs, batch, cfg):
    """A loss of no algorithm: no closed form, and it reaches everything that the networks put out."""
    logp, entropy = outputs.distribution.log_prob(batch.action), outputs.distribution.entropy()
    value = torch.log1p((outputs.value - batch.value_target).abs()).mean()
    loss = (-(logp * batch.advantage) + 0.01 * (logp - batch.logp).square()).mean() + value - 0.1 * entropy.mean()
    return loss, {"kl": (batch.logp - logp).detach()}


def short_sighted(outputs, batch, cfg):
    """A loss that the values have no part in."""
    logp = outputs.distribution.log_prob(batch.action)
    return -(logp * batch.advantage).mean(), {"kl": (batch.logp - logp).detach()}


class Surprised(PPO):
    loss = staticmethod(surprised)


class ShortSighted(PPO):
    loss = staticmethod(short_sighted)


@pytest.mark.parametrize(("case", "kind"), slow_repeats(of=itertools.product(REACHES_ALL, [Surprised, ShortSighted])))
def test_a_loss_of_ones_own_goes_by_autograd_on_the_outputs(kind, case):
    learn_alike("ppo", {**CASES[case], "kind": kind})


class Curious(PPO):
    def loss(self, outputs, batch, cfg):
        with torch.no_grad():
            neighbours = self.net.value(batch.map(lambda tensor: tensor.roll(1, 0)).obs)
        return surprised(outputs, replaced(batch, advantage=batch.advantage + neighbours), cfg)


@pytest.mark.parametrize("shared_trunk", [True, False])
def test_a_loss_may_ask_for_other_values_before_the_backward_pass(shared_trunk):
    learn_alike("ppo", {"shared_trunk": shared_trunk, "kind": Curious}, updates=3)


def test_the_same_again_is_the_same_bit_for_bit():
    first, second = (learner("ppo", **CASES["mixed"]) for _ in range(2))
    for seed in range(5):
        data = rollout(first, seed)
        first.training_step(data)
        second.training_step(data)
        assert torch.equal(first.optimizer.flat.data, second.optimizer.flat.data)


@pytest.mark.parametrize("algorithm", ["ppo", "a2c"])
def test_values_are_those_of_torch(algorithm):
    for case in REACHES_ALL:
        algo = learner(algorithm, **CASES[case])
        obs = {path: leaf.flatten(0, 1) for path, leaf in rollout(algo, 0).obs.items()}
        with_graph = algo.net.value(obs)
        assert with_graph.requires_grad
        with torch.no_grad():
            assert torch.allclose(algo.net.value(obs), with_graph, rtol=1e-5, atol=1e-5)


# --- weights ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("algorithm", "from_native"), slow_repeats(of=itertools.product(ALGORITHMS, [True, False])))
def test_checkpoints_cross_over(algorithm, from_native):
    first = learner(algorithm, **CASES["mixed"], native=from_native)
    for seed in range(3):
        first.training_step(rollout(first, seed))
    second = learner(algorithm, **CASES["mixed"], native=not from_native)
    second.training_step(rollout(second, 7))  # so that what is loaded finds something to replace
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    assert torch.equal(weights(first), weights(second))
    start = weights(first)
    for seed in range(3, 6):
        data = rollout(first, seed)
        first.training_step(data)
        second.training_step(data)
    assert share(weights(first), weights(second), start) < 1e-5


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("late", [True, False])
def test_frozen_weights_stay_and_the_others_learn(native, late):
    algo = learner("a2c", native=native)  # whose RMSprop has no momentum
    if late:
        algo.training_step(rollout(algo, 9))
    algo.policy.trunk.requires_grad_(False)
    trunk, head = copy.deepcopy(algo.policy.trunk.state_dict()), algo.policy.head.linear.weight.detach().clone()
    for seed in range(3):
        algo.training_step(rollout(algo, seed))
    after = algo.policy.trunk.state_dict()
    assert all(torch.equal(after[name], before) for name, before in trunk.items())
    assert not torch.equal(algo.policy.head.linear.weight, head)


def test_a_copy_of_a_learner_learns_by_itself():
    algo = learner("ppo")
    algo.training_step(rollout(algo, 0))
    net = copy.deepcopy(algo.net)
    optimizer = Adam(flatten(net.parts), betas=(0.9, 0.999), eps=1e-5)
    before = weights(algo)
    data = algo.targets(rollout(algo, 1))
    kernels = attach(net).kernels
    assert kernels is not algo.forward.kernels
    kernels.write_gradients([torch.ones_like(part) for part in kernels.forward(data)])
    assert optimizer.flat.grad.any()
    optimizer.on_kernels = True
    apply_gradients(optimizer, lr=0.1, max_grad_norm=None)
    assert torch.equal(weights(algo), before)
    assert not torch.equal(optimizer.flat.data.double(), before)


def test_weights_that_moved_elsewhere_are_found_again():
    algo, other = learner("ppo"), learner("ppo", native=False)
    start = weights(algo)
    for seed in range(4):
        data = rollout(other, seed)
        for each in (algo, other):
            each.training_step(data)
            state = each.optimizer.state_dict()
            each.optimizer = None  # whose vector is in use as long as it is there
            each.optimizer = Adam(flatten(each.net.parts), betas=(0.9, 0.999), eps=1e-5)
            each.optimizer.load_state_dict(state)
    assert share(weights(algo), weights(other), start) < 1e-5


# --- what torch does -------------------------------------------------------------------------------------------------


class Custom(nn.Module):
    num_features = 6

    def __init__(self, space):
        super().__init__()
        self.layer = nn.Linear(5, 6)

    def forward(self, obs):
        return self.layer(obs).tanh()


class Bolder(ActionHead):
    """Logits and means that are doubled, of which kernels know nothing."""

    def forward(self, features, mask=None):
        return super().forward(2.0 * features, mask)


class Doubtful(ActorCritic):
    """Values that are halved, of which kernels know nothing."""

    def forward(self, batch):
        outputs = super().forward(batch)
        return replace(outputs, value=outputs.value / 2)


@pytest.mark.parametrize(
    "case",
    [
        {"obs": spaces.Box(0, 255, (10, 10, 3), np.uint8)},
        {"obs": spaces.Dict({"picture": spaces.Box(0, 255, (10, 10, 3), np.uint8), "at": VECTOR})},
        {"module": Custom},
        {"native": False},
        {"obs": spaces.MultiDiscrete([3, 4]), "hidden": ()},
        {"hidden": (1024, 1025)},
    ],
    ids=["picture", "picture and vector", "own module", "not native", "one-hots", "wide"],
)
def test_other_networks_learn_in_torch(case):
    algo = learner("ppo", **case)
    assert algo.forward.kernels is None
    before = weights(algo)
    for seed in range(2):
        algo.training_step(rollout(algo, seed))
    assert not torch.equal(weights(algo), before)


def test_other_actor_critics_learn_in_torch():
    algo = learner("ppo")
    algo.net.__class__ = Doubtful
    assert algo.forward.kernels is None
    before = weights(algo)
    algo.training_step(rollout(algo, 0))
    assert not torch.equal(weights(algo), before)


def test_heads_of_another_kind_learn_in_torch():
    algo = learner("ppo")
    algo.policy.head.__class__ = Bolder
    assert algo.forward.kernels is None


def test_what_is_compiled_is_left_to_the_compiler():
    assert learner("ppo", compile=True).forward.kernels is None


def test_double_precision_learns_in_torch():
    algo = learner("ppo")
    algo.net.double()
    assert algo.forward.kernels is None
    algo.optimizer = Adam(flatten(algo.net.parts), betas=(0.9, 0.999), eps=1e-5)
    assert algo.forward.kernels is None
    optimizer, theirs = algo.optimizer, nn.Parameter(weights(algo).clone())
    reference = torch.optim.Adam([theirs], lr=0.01, eps=1e-5)
    for seed in range(3):
        theirs.grad = torch.randn(len(theirs), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        optimizer.flat.grad.copy_(theirs.grad)
        optimizer.on_kernels = True  # as after a gradient by kernels
        apply_gradients(optimizer, lr=0.01, max_grad_norm=None)
        reference.step()
    assert torch.allclose(optimizer.flat.data, theirs, rtol=1e-9, atol=0)


@pytest.mark.usefixtures("kernels")
def test_without_kernels_all_learn_in_torch(monkeypatch):
    monkeypatch.setenv(SWITCH, "0")
    best_build.cache_clear()
    algo, other = learner("ppo"), learner("ppo", native=False)
    assert algo.forward.kernels is None
    for each in (algo, other):
        each.training_step(rollout(other, 0) if each is algo else rollout(learner("ppo", native=False), 0))
    assert torch.equal(weights(algo), weights(other))
