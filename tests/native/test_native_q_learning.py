"""DQN on kernels: the same as by torch, on every build that this processor can run."""

import copy
import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stepping import step

from rookery.algorithms.off_policy.dqn import DQN, DQNConfig, TargetConfig
from rookery.algorithms.off_policy.q_values import QBatch, ValuesConfig
from rookery.algorithms.on_policy.pqn import PQN, PQNConfig
from rookery.core.batch import Places, Stored, Transitions, TransitionsInPlace
from rookery.core.optim import gradient_step
from rookery.core.seeding import Streams
from rookery.core.spaces.arrays import MASK, action_spec, obs_spec
from rookery.models.build import ModelConfig
from rookery.native.td import TDRows
from rookery.policies.policy import Policy
from rookery.replay.buffer import ReplayConfig
from selection import slow_repeats

VECTOR, FIVE = spaces.Box(-1.0, 1.0, (6,), np.float32), spaces.Discrete(5)
MIXED = spaces.Dict({"place": spaces.Discrete(4), "flags": spaces.MultiBinary(3), "at": VECTOR})
MASKED = spaces.Dict({"obs": VECTOR, MASK: spaces.MultiBinary(5)})
# Adam divides each gradient by its size: with its usual eps the rounding of the smallest ones would be compared
PLAIN = DQNConfig(
    double=False,
    adam_eps=1e-3,
    lr=1e-3,
    target=TargetConfig(kind="soft", tau=0.1),
    replay=ReplayConfig(capacity=1000),
    model=ModelConfig(hidden=(16, 9)),
)
KINDS = {
    "plain": PLAIN,
    "double": replace(PLAIN, double=True),
    "dueling": replace(PLAIN, dueling=True),
    "dueling double": replace(PLAIN, dueling=True, double=True),
    "weighted": replace(PLAIN, double=True, replay=ReplayConfig(capacity=1000, kind="prioritized")),
    "hard": replace(
        PLAIN, target=TargetConfig(kind="hard", every=3), model=ModelConfig(hidden=(33,), activation="relu")
    ),
    "wide": replace(PLAIN, double=True, model=ModelConfig(hidden=(120, 84), activation="relu")),
}
OTHERS = {
    "rescaled": replace(PLAIN, values=ValuesConfig(rescale=True)),
    "categorical": replace(PLAIN, values=ValuesConfig("categorical", atoms=7, low=-2.0, high=2.0)),
    "quantile": replace(PLAIN, values=ValuesConfig("quantile", quantiles=5)),
    "dueling categorical": replace(
        PLAIN, dueling=True, values=ValuesConfig("categorical", atoms=7, low=-2.0, high=2.0)
    ),
}

pytestmark = pytest.mark.usefixtures("kernels")


def learner(cfg, obs=VECTOR, *, native=True):
    # prioritized, so that priorities are handed over; the rows are given
    cfg = replace(cfg, model=replace(cfg.model, native=native), replay=replace(cfg.replay, kind="prioritized"))
    spec = obs_spec(obs, FIVE), action_spec(FIVE), cfg.model
    generator = torch.Generator().manual_seed(0)
    policy = Policy(*spec, name="hero", generator=generator, head=cfg.head)
    return DQN(policy, cfg, Streams(0), "hero")


def seen(policy, rows, rng):
    """Observations, of whose actions some are allowed."""
    space = policy.obs_spec.space
    space.seed(int(rng.integers(1000)))
    trees = [policy.obs_spec.read(space.sample())[0] for _ in range(rows)]
    tree = {path: torch.from_numpy(np.concatenate([tree[path] for tree in trees])) for path in trees[0]}
    if MASK in tree:
        tree[MASK][:, 2] = True
    return tree


def drawn(algo, seed, rows=130):
    """Returns transitions as of a replay buffer: some rows ended an episode, some errors are large."""
    rng = np.random.default_rng(seed)

    def numbers(size):
        return torch.from_numpy((size * rng.standard_normal(rows)).astype(np.float32))

    return Transitions(
        obs=seen(algo.policy, rows, rng),
        action=torch.from_numpy(rng.integers(5, size=rows)),
        reward=numbers(2.0),
        next_obs=seen(algo.policy, rows, rng),
        discount=torch.from_numpy(np.where(rng.random(rows) < 0.2, 0.0, 0.97).astype(np.float32)),
        weight=numbers(1.0).abs() if algo.cfg.replay.kind == "prioritized" else None,
        row=torch.arange(rows),
    )


def updates(algo, number):
    """Makes updates on given rows; returns the weights before and after, and the priorities of the last."""
    before, priorities = algo.optimizer.flat.data.clone(), []
    for seed in range(number):
        algo.replay.buffer.sample = lambda *_, seed=seed, **__: drawn(algo, seed)
        algo.replay.update_priorities = lambda row, priority, *_: priorities.append(priority)
        metrics = step(algo)
    return before.double(), algo.optimizer.flat.data.double(), priorities[-1], metrics


def same(cfg, obs=VECTOR):
    """Asserts that five updates are those of torch."""
    mine, theirs = learner(cfg, obs), learner(cfg, obs, native=False)
    assert mine.forward.kernels is not None
    assert theirs.forward.kernels is None
    before, after, priority, metrics = updates(mine, 5)
    _, expected, wanted, known = updates(theirs, 5)
    change = (expected - before).norm()
    assert change > 0
    assert (after - expected).norm() < 1e-5 * change
    torch.testing.assert_close(mine.target_data, theirs.target_data, rtol=1e-4, atol=1e-6)
    assert priority.numpy() == pytest.approx(wanted.numpy(), abs=1e-4)
    assert {name: float(value) for name, value in metrics.items()} == pytest.approx(
        {name: float(value) for name, value in known.items()}, rel=1e-4, abs=1e-5
    )


@pytest.mark.parametrize("name", KINDS)
def test_updates_are_those_of_torch(name):
    same(KINDS[name])


@pytest.mark.parametrize(
    ("name", "obs"), slow_repeats(of=itertools.product(["plain", "dueling double"], [MIXED, MASKED]))
)
def test_updates_are_those_of_torch_whatever_is_seen(name, obs):
    same(KINDS[name], obs)


@pytest.mark.parametrize("name", OTHERS)
def test_updates_of_other_values_are_those_of_torch(name):
    same(OTHERS[name])


@pytest.mark.parametrize("name", KINDS)
def test_plain_values_are_learned_in_one_call(name):
    algo = learner(KINDS[name])
    rows = algo.kernel_rows(drawn(algo, 0))
    assert isinstance(rows, TDRows)


@pytest.mark.parametrize("name", OTHERS)
def test_other_values_come_with_their_targets(name):
    algo = learner(OTHERS[name])
    assert algo.kernel_rows(drawn(algo, 0)) is None


@pytest.mark.parametrize("activation", ["relu", "silu"])
def test_ten_steps_of_pqn_are_those_of_torch(activation):
    weights = []
    for native in (True, False):
        model = ModelConfig(hidden=(33, 16), layer_norm=True, activation=activation, native=native)
        cfg = PQNConfig(model=model, adam_eps=1e-3, lr=1e-3)
        spec = obs_spec(MIXED, FIVE), action_spec(FIVE), cfg.model
        policy = Policy(*spec, generator=torch.Generator().manual_seed(0), head=cfg.head)
        algo = PQN(policy, cfg, Streams(0), "hero")
        assert (algo.forward.kernels is not None) == native
        weights.append(algo.optimizer.flat.data.double())
        for seed in range(10):
            rng = np.random.default_rng(seed)
            target = torch.from_numpy(rng.standard_normal(100, dtype=np.float32))
            batch = QBatch(seen(policy, 100, rng), torch.from_numpy(rng.integers(5, size=100)), target)
            gradient_step(algo.forward, algo.loss, batch, algo.optimizer, cfg)
        weights.append(algo.optimizer.flat.data.double())
    before, mine, _, theirs = weights
    assert (mine - theirs).norm() < 1e-5 * (theirs - before).norm()


def test_an_update_is_the_same_to_the_last_bit_each_time():
    first, second = (updates(learner(KINDS["dueling double"]), 5)[1] for _ in range(2))
    assert torch.equal(first, second)


def test_an_action_that_there_is_not_changes_nothing():
    algo = learner(PLAIN)
    rows = drawn(algo, 0)
    rows.action[7] = 5
    algo.replay.buffer.sample = lambda *_, **__: rows
    before = algo.optimizer.flat.data.clone()
    step(algo)
    assert torch.equal(algo.optimizer.flat.data, before)
    assert algo.optimizer.read_skipped() == (1, 1)


def test_targets_of_ones_own_are_used():
    class Optimist(DQN):
        def targets(self, drawn, cfg):
            batch = super().targets(drawn, cfg)
            return replace(batch, target=batch.target + 100.0)

    algo = learner(PLAIN)
    own = Optimist(copy.deepcopy(algo.policy), algo.cfg, Streams(0), "hero")
    own.replay.buffer.sample = lambda *_, **__: drawn(own, 0)
    assert step(own)["td_error"] > 50


def in_memory(seed):
    """Transitions that lie in a memory of 500 rows, and the same ones copied out of it."""
    rng = np.random.default_rng(seed)
    obs = np.asarray(rng.standard_normal((500, 6)), np.float32)
    allowed = rng.random((500, 5)) < 0.6
    allowed[:, 2] = True
    stored = Stored({"obs": obs, MASK: allowed}, rng.integers(5, size=500))
    row, after, discount = rng.integers(500, size=130), rng.integers(500, size=130), np.full(130, 0.9, np.float32)
    discount[::7] = 0.0
    reward = torch.from_numpy(rng.standard_normal(130).astype(np.float32))
    numbers = reward, torch.from_numpy(discount), None if seed % 2 else reward.abs(), torch.from_numpy(row)
    lying = TransitionsInPlace.at(Places(stored, row, after), *numbers)
    tree = {path: torch.from_numpy(leaf) for path, leaf in stored.obs.items()}
    first, second = ({path: leaf[place] for path, leaf in tree.items()} for place in (row, after))
    action = torch.from_numpy(stored.action[row])
    return lying, Transitions(first, action, numbers[0], second, *numbers[1:])


@pytest.mark.parametrize("name", KINDS)
def test_rows_are_learned_from_where_they_lie_in_a_memory_to_the_same_bits(name):
    algos = learner(KINDS[name], MASKED), learner(KINDS[name], MASKED)
    for seed in range(6):
        for algo, batch in zip(algos, in_memory(seed), strict=True):
            algo.replay.buffer.sample = lambda *_, batch=batch, **__: batch
            algo.replay.update_priorities = lambda row, priority, *_, algo=algo: setattr(algo, "told", priority.clone())
            algo.learn(1)
        assert torch.equal(*(algo.told for algo in algos))
        assert torch.equal(*(algo.optimizer.flat.data for algo in algos))
        assert torch.equal(*(algo.target_data for algo in algos))
    assert algos[0].replay.means.result() == algos[1].replay.means.result()


def test_transitions_in_place_show_what_was_copied_and_kernels_copy_nothing():
    lying, copied = in_memory(1)
    algo = learner(PLAIN, MASKED)
    assert algo.kernel_rows(lying) is not None and "obs" not in vars(lying)
    for name in ("obs", "next_obs"):
        shown = getattr(lying, name)
        assert shown.keys() == getattr(copied, name).keys()
        assert all(torch.equal(leaf, getattr(copied, name)[path]) for path, leaf in shown.items())
    assert torch.equal(lying.action, copied.action) and len(lying) == 130
    changed = replace(lying, reward=lying.reward + 1)
    assert changed.places is None and torch.equal(changed.action, copied.action)
    with pytest.raises(AttributeError, match="nothing_like_it"):
        _ = lying.nothing_like_it
