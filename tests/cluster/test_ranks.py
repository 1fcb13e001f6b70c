"""Two ranks learn as one learner does on their rows together."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rookery import PPOConfig
from rookery.algorithms.ddpg import DDPG, DDPGConfig
from rookery.algorithms.dqn import DQN, DQNConfig
from rookery.algorithms.ppo import PPO, standardized
from rookery.algorithms.ranked import join
from rookery.algorithms.sac import SAC, SACConfig
from rookery.algorithms.td3 import TD3, TD3Config
from rookery.cluster.ranks import Ranks, meet, parts_of
from rookery.core.batch import Minibatch, Transitions
from rookery.core.native import SWITCH
from rookery.core.seeding import Streams
from rookery.core.spaces import action_spec, obs_spec
from rookery.policies.normalize import RunningMeanStd
from rookery.policies.policy import Policy
from selection import slow

OBS = spaces.Box(-np.inf, np.inf, (3,), np.float32)
CHOICE, NUMBERS = spaces.Discrete(3), spaces.Box(-1, 1, (2,), np.float32)
STEPS = 10


def together(folder, work, size=2):
    """What `work(ranks)` gives on each of several ranks, which are threads here."""

    def one(rank):
        ranks = meet(folder / "ranks", rank, size, timeout=30)
        try:
            return work(ranks)
        finally:
            ranks.close()

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(one, range(size)))


def learner(kind, cfg, action):
    generator = torch.Generator().manual_seed(1)
    policy = Policy(
        obs_spec(OBS, action), action_spec(action), cfg.model, name="hero", generator=generator, head=cfg.head
    )
    return kind(policy, cfg, Streams(1), "hero")


class Order:
    """Shuffles as it is told; of many ranks, each minibatch is the union of theirs."""

    def __init__(self, sizes, parts):
        self.sizes, self.parts = sizes, parts
        self.rngs = [np.random.default_rng(50 + rank) for rank in range(len(sizes))]

    def permutation(self, total):
        assert total == sum(self.sizes)
        starts = np.cumsum([0, *self.sizes[:-1]])
        orders = [rng.permutation(n) + at for rng, n, at in zip(self.rngs, self.sizes, starts, strict=True)]
        cuts = [np.split(o, np.cumsum(parts_of(len(o), self.parts))[:-1]) for o in orders]
        return np.concatenate([part for parts in zip(*cuts, strict=True) for part in parts])


def rows(number, seed):
    """A batch of PPO with its targets."""
    rng = np.random.default_rng(seed)

    def normal(*shape):
        return torch.from_numpy(rng.normal(size=shape).astype(np.float32))

    return Minibatch(
        obs={"obs": normal(number, 3)},
        action=torch.from_numpy(rng.integers(3, size=number)),
        logp=torch.full((number,), -1.1),
        advantage=normal(number) * 3 + 1,
        value_target=normal(number, 1) * 5 + 2,
        value=normal(number, 1),
    )


def joined(parts):
    """Batches one after the other."""
    kind = type(parts[0])
    found = {}
    for item in fields(kind):
        values = [getattr(part, item.name) for part in parts]
        if isinstance(values[0], dict):
            found[item.name] = {path: torch.cat([v[path] for v in values]) for path in values[0]}
        elif isinstance(values[0], torch.Tensor):
            found[item.name] = torch.cat(values)
        else:
            found[item.name] = values[0]
    return kind(**found)


def trained(part, optimizers, step):
    """Gradients after the first step, and the weights before and after ten."""
    before = [o.flat.data.clone() for o in optimizers(part)]
    step()
    first = [o.flat.grad.clone() for o in optimizers(part)]
    for _ in range(STEPS - 1):
        step()
    return before, first, [o.flat.data.clone() for o in optimizers(part)]


def agree(one, both):
    """Whether ranks did as one learner: gradients within 1e-5, weights within 1e-4 of their change."""
    for ranked in both:
        for before, gradient, after, mine, end in zip(*one, *ranked[1:], strict=True):
            assert torch.linalg.vector_norm(gradient) > 0
            assert torch.linalg.vector_norm(mine - gradient) <= 1e-5 * torch.linalg.vector_norm(gradient)
            assert torch.linalg.vector_norm(end - after) <= 1e-4 * torch.linalg.vector_norm(after - before)
    assert all(torch.equal(a, b) for a, b in zip(both[0][2], both[1][2], strict=True)), "ranks differ"


@pytest.fixture(params=["kernels", "torch"])
def path(request, monkeypatch):
    if request.param == "torch":
        monkeypatch.setenv(SWITCH, "0")
    return request.param


@pytest.mark.parametrize("sizes", [(32, 32), (40, 23)])
@pytest.mark.parametrize("normalize", [True, "batch", False])
def test_two_ranks_of_ppo_are_one_on_the_doubled_minibatch(tmp_path, path, sizes, normalize):
    cfg = PPOConfig(epochs=1, minibatch_size=16, normalize_advantage=normalize, model={"hidden": (16,)}, kl_coef=0.1)

    def run(ranks, data, order, size):
        ppo = learner(PPO, replace(cfg, minibatch_size=size), CHOICE)
        ppo.rng = order
        join(ppo, ranks)
        count = 0

        def targets(_):
            nonlocal count
            count += 1
            fresh = joined([data])
            fresh.advantage.mul_(count)
            scaled = ppo.value_scale.renewed(fresh, ppo.net.value_head)
            if ppo.cfg.normalize_advantage == "batch":
                scaled = standardized(scaled)
            return ppo.with_old(scaled)

        ppo.targets = targets
        return trained(ppo, lambda p: [p.optimizer], lambda: ppo.training_step(None))

    parts = [rows(n, seed) for seed, n in enumerate(sizes)]
    minibatches = -(-sum(sizes) // 32)
    one = run(Ranks(), joined(parts), Order(sizes, minibatches), 32)
    union = [sum(parts_of(n, minibatches)[k] for n in sizes) for k in range(minibatches)]
    assert list(parts_of(sum(sizes), minibatches)) == union, "the reference would cut elsewhere"

    def ranked(ranks):
        order = Order(sizes, minibatches)
        own = Order(sizes[ranks.rank : ranks.rank + 1], minibatches)
        own.rngs = order.rngs[ranks.rank : ranks.rank + 1]
        own.permutation = own.rngs[0].permutation
        return run(ranks, parts[ranks.rank], own, 16)

    agree(one, together(tmp_path, ranked))


class Noise:
    """Draws the noise of several ranks side by side."""

    def __init__(self, *ranks):
        self.rngs = [np.random.default_rng(70 + rank) for rank in ranks]

    def standard_normal(self, shape, dtype):
        axis, own = len(shape) - 2, list(shape)  # of the rows
        own[axis] //= len(self.rngs)
        return np.concatenate([rng.standard_normal(tuple(own), dtype=dtype) for rng in self.rngs], axis=axis)


def drawn(seed, action, number=16):
    """What replay gives."""
    rng = np.random.default_rng(seed)

    def normal(*shape):
        return torch.from_numpy(rng.normal(size=shape).astype(np.float32))

    done = torch.from_numpy(rng.integers(3, size=number)) if action is CHOICE else normal(number, 2).tanh()
    return Transitions(
        obs={"obs": normal(number, 3)},
        action=done,
        reward=normal(number),
        next_obs={"obs": normal(number, 3)},
        discount=torch.full((number,), 0.9),
        weight=None,
        row=torch.arange(number),
    )


CONFIGS = {DQN: DQNConfig, SAC: SACConfig, TD3: TD3Config, DDPG: DDPGConfig}


@pytest.mark.parametrize("kind", [DQN, SAC, TD3, slow(DDPG)])
def test_two_ranks_that_learn_from_replay_are_one_on_the_doubled_batch(tmp_path, path, kind):
    action = CHOICE if kind is DQN else NUMBERS
    delay = {"policy_delay": 1} if kind is TD3 else {}  # else the first step has none of the actor
    cfg = CONFIGS[kind](model={"hidden": (16,)}, batch_size=16, **delay)

    def optimizers(one):
        if kind is DQN:
            return [one.optimizer]
        temperature = [one.temperature_optimizer] if kind is SAC else []
        return [one.critics.optimizer, one.actor_optimizer, *temperature]

    def run(ranks, *who):
        one, step = learner(kind, cfg, action), 0
        join(one, ranks)
        if kind in (SAC, TD3):
            one.rng = Noise(*who)

        def sample(*_, **__):
            nonlocal step
            step += 1
            return joined([drawn(100 * rank + step, action) for rank in who])

        one.replay.sample = sample
        return trained(one, optimizers, lambda: one.learn(1))

    agree(run(Ranks(), 0, 1), together(tmp_path, lambda ranks: run(ranks, ranks.rank)))


def test_statistics_are_those_of_all_rows(tmp_path):
    data = [torch.randn(n, 3, generator=torch.Generator().manual_seed(n)) * 4 + 7 for n in (9, 0, 30)]
    whole = RunningMeanStd((3,))
    for _ in range(2):
        whole.update(torch.cat(data))

    def run(ranks):
        mine = RunningMeanStd((3,))
        mine.merge = ranks.moments
        for _ in range(2):
            mine.update(data[ranks.rank])
        return mine

    for mine in together(tmp_path, run, size=3):
        assert float(mine.count) == 78
        torch.testing.assert_close(mine.mean, whole.mean, rtol=1e-12, atol=0)
        torch.testing.assert_close(mine.var, whole.var, rtol=1e-12, atol=0)


def test_small_objects_are_gathered_in_the_order_of_ranks(tmp_path):
    found = together(tmp_path, lambda ranks: ranks.gather({"rank": ranks.rank, "text": "x" * ranks.rank}), size=3)
    assert found == [[{"rank": rank, "text": "x" * rank} for rank in range(3)]] * 3


def test_a_rank_whose_rows_run_out_does_not_count(tmp_path):
    def run(ranks):
        gradient = torch.full((4,), float("nan") if ranks.rank else 2.0)
        ranks.agree(gradient, 0 if ranks.rank else 5, {})
        return gradient

    for gradient in together(tmp_path, run):
        assert gradient.tolist() == [2.0] * 4


def test_lanes_are_shared_without_gap():
    ranks, shares = Ranks(), []
    ranks.size = 3
    for ranks.rank in range(3):
        shares.append(ranks.share(8))
    assert shares == [(0, 2), (2, 3), (5, 3)]
