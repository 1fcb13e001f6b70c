"""Two ranks learn as one learner does on their rows together."""

from __future__ import annotations

import itertools
from copy import deepcopy
from dataclasses import fields, replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import distributed

from rookery import PPOConfig, Trainer
from rookery.algorithms.off_policy.ddpg import DDPG, DDPGConfig
from rookery.algorithms.off_policy.dqn import DQN, DQNConfig
from rookery.algorithms.off_policy.sac import SAC, SACConfig
from rookery.algorithms.off_policy.td3 import TD3, TD3Config
from rookery.algorithms.on_policy.ppo import PPO, normalize_advantages
from rookery.algorithms.ranked import join_ranks
from rookery.cluster import gpu_ranks, ranks
from rookery.cluster.gpu_ranks import backend_of, name_of
from rookery.cluster.ranks import Ranks, meet, parts_of
from rookery.core.batch import Demand, Minibatch, Sequences, Transitions, flat
from rookery.core.batch import joined as joined_rollouts
from rookery.core.native import SWITCH
from rookery.core.seeding import Streams
from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.policies.normalize import RunningMeanStd
from rookery.policies.policy import Policy
from rookery.replay.buffer import SampledSequences
from rookery.rollout.slots import SlotStore
from rookery.rollout.storage import Outcome
from selection import slow_except, slow_repeats
from threads import in_threads

OBS = spaces.Box(-np.inf, np.inf, (3,), np.float32)
CHOICE, NUMBERS = spaces.Discrete(3), spaces.Box(-1, 1, (2,), np.float32)
STEPS = 10


def together(folder, work, size=2):
    """Returns the results of `work(ranks)` on each of several ranks, which are threads here."""

    def one(rank):
        ranks = meet(folder / "ranks", rank, size, timeout=30)
        try:
            return work(ranks)
        finally:
            ranks.close()

    return in_threads(one, size)


def learner(kind, cfg, action):
    generator = torch.Generator().manual_seed(1)
    policy = Policy(
        obs_spec(OBS, action), action_spec(action), cfg.model, name="hero", generator=generator, head=cfg.head
    )
    return kind(policy, cfg, Streams(1), "hero")


class Order:
    """Shuffles in a given order; of many ranks, each minibatch is the union of the ranks' minibatches."""

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
    """Asserts that ranks did as one learner: gradients within 1e-5, weights within 1e-4 of their change."""
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


@pytest.mark.parametrize(
    ("path", "normalize", "sizes"),
    slow_repeats(of=itertools.product(["kernels", "torch"], [True, "batch", False], [(32, 32), (40, 23)])),
    indirect=["path"],
)
def test_two_ranks_of_ppo_are_one_on_the_doubled_minibatch(tmp_path, path, sizes, normalize):
    cfg = PPOConfig(epochs=1, minibatch_size=16, normalize_advantage=normalize, model={"hidden": (16,)}, kl_coef=0.1)

    def run(ranks, data, order, size):
        ppo = learner(PPO, replace(cfg, minibatch_size=size), CHOICE)
        ppo.rng = order
        join_ranks(ppo, ranks)
        count = 0

        def targets(_):
            nonlocal count
            count += 1
            fresh = joined([data])
            fresh.advantage.mul_(count)
            scaled = ppo.value_scale.renewed(fresh, ppo.net.value_head)
            if ppo.cfg.normalize_advantage == "batch":
                scaled = normalize_advantages(scaled)
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


def sequences(lengths, seed):
    """The same, of a policy that remembers: rows that stand in sequences of these lengths."""
    number, longest, count = sum(lengths), max(lengths), len(lengths)
    rng = np.random.default_rng(100 + seed)
    length = torch.tensor(lengths)
    place = (torch.arange(longest).unsqueeze(1) < length).flatten().nonzero().squeeze(1)
    first = torch.from_numpy(rng.random((longest, count)) < 0.2)
    memory = torch.from_numpy(rng.normal(size=(count, WIDTH)).astype(np.float32))
    return replace(rows(number, seed), sequences=Sequences(first, length, place), memory=memory)


def side_by_side(parts):
    """Batches of sequences as one, the sequences of the first before those of the next."""
    longest = max(len(part.sequences.first) for part in parts)
    count = sum(len(part.sequences.length) for part in parts)
    first, place, before = [], [], 0
    for part in parts:
        here = part.sequences
        steps, own = here.first.shape
        first.append(torch.cat((here.first, torch.zeros(longest - steps, own, dtype=torch.bool))))
        place.append(here.place // own * count + before + here.place % own)
        before += own
    length = torch.cat([part.sequences.length for part in parts])
    together = replace(joined(parts), sequences=None, memory=None)
    whole, order = torch.cat(place), torch.cat(place).argsort()
    memory = torch.cat([part.memory for part in parts])
    grid = Sequences(torch.cat(first, 1), length, whole[order])
    return replace(together.map(lambda leaf: leaf[order]), sequences=grid, memory=memory)


WIDTH = 16
"""Numbers that an LSTM of 8 units keeps."""


LENGTHS = [((5, 3, 8, 8), (8, 8, 2, 6)), ((8, 8, 8, 8, 8, 8), (3,))]
"""Of the sequences of two ranks."""


@pytest.mark.parametrize(
    ("path", "lengths"), slow_repeats(of=itertools.product(["kernels", "torch"], LENGTHS)), indirect=["path"]
)
def test_two_ranks_of_a_policy_that_remembers_are_one_on_the_sequences_of_both(tmp_path, path, lengths):
    model = {"hidden": (8,), "memory": {"kind": "lstm", "size": 8, "sequence_length": 8}}
    cfg = PPOConfig(epochs=1, minibatch_size=10, model=model, kl_coef=0.1)
    total, minibatches = sum(map(sum, lengths)), -(-sum(map(sum, lengths)) // 20)

    def cut(own, seed):
        """Returns the draws of a rank, and the minibatch of each of its sequences."""
        order = np.random.default_rng(seed).permutation(len(own))
        ordered = np.array(own)[order]
        return order, (2 * ordered.cumsum() - ordered) * minibatches // (2 * sum(own))

    class Drawn:
        def __init__(self, orders):
            self.orders = orders

        def permutation(self, _):
            return self.orders

    class Union(Minibatch):
        """A batch that is cut where the ranks cut their batches."""

        def cut_sequences(self, count, rng):
            assert count == minibatches
            found, before = [cut(own, seed) for seed, own in enumerate(lengths)], np.cumsum([0, *map(len, lengths)])
            return tuple(
                torch.from_numpy(np.concatenate([order[part == k] + at for (order, part), at in zip(found, before)]))
                for k in range(count)
            )

    def run(ranks, data, rng, size):
        ppo = learner(PPO, replace(cfg, minibatch_size=size), CHOICE)
        ppo.rng = rng
        join_ranks(ppo, ranks)
        ppo.with_old = lambda batch: batch
        ppo.adapt_penalty = lambda _: {}
        count = 0

        def targets(_):
            nonlocal count
            count += 1
            fresh = data.map(torch.clone)
            fresh.advantage.mul_(count)
            return ppo.value_scale.renewed(fresh, ppo.net.value_head)

        ppo.targets = targets
        return trained(ppo, lambda p: [p.optimizer], lambda: ppo.training_step(None))

    parts = [sequences(own, seed) for seed, own in enumerate(lengths)]
    whole = side_by_side(parts)
    assert len(whole) == total
    one = run(Ranks(), Union(**vars(whole)), None, 20)

    def ranked(ranks):
        order = cut(lengths[ranks.rank], ranks.rank)[0]
        return run(ranks, parts[ranks.rank], Drawn(order), 10)

    agree(one, together(tmp_path, ranked))


def test_a_rank_without_rows_makes_the_steps_of_the_others(tmp_path):
    cfg = PPOConfig(epochs=2, minibatch_size=16, model={"hidden": (16,), "normalize_obs": True}, scale_rewards=True)

    def played(decisions):
        store = SlotStore(obs_spec(OBS, CHOICE), action_spec(CHOICE), Demand(decisions), 0)
        rng = np.random.default_rng(decisions)
        if decisions > 1:
            store.open_slot(0)
            for _ in range(decisions):
                store.begin_step(None, {"obs": rng.normal(size=(1, 3)).astype(np.float32)}, slice(None))
                store.write_outcomes(None, Outcome(rng.normal(size=1).astype(np.float32), None, None, None))
        return store.drain({"obs": np.zeros((1, 3), np.float32)}, np.zeros(len(store._clock), np.int64))

    def run(ranks, size, decisions):
        ppo, rollout = learner(PPO, replace(cfg, minibatch_size=size), CHOICE), played(decisions)
        join_ranks(ppo, ranks)
        if ranks.rank:
            ppo.rng = np.random.default_rng(9)  # other minibatches, whose gradients would show

        def step():
            ppo.training_step(ppo.before_targets(rollout, {}))
            ppo.policy.normalizer.update({name: flat(leaf, None) for name, leaf in rollout.obs.items()})

        return trained(ppo, lambda p: [p.optimizer], step)

    one = run(Ranks(), 8, 24)
    agree(one, together(tmp_path, lambda ranks: run(ranks, 4, 1 if ranks.rank else 24)))


class Noise:
    """Draws the noise of several ranks side by side."""

    def __init__(self, *ranks):
        self.rngs = [np.random.default_rng(70 + rank) for rank in ranks]

    def standard_normal(self, shape, dtype):
        axis, own = len(shape) - 2, list(shape)  # of the rows
        own[axis] //= len(self.rngs)
        return np.concatenate([rng.standard_normal(tuple(own), dtype=dtype) for rng in self.rngs], axis=axis)


def drawn(seed, action, number=16):
    """Returns draws from replay."""
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
        weight=torch.from_numpy(rng.uniform(0.1, 1.0, number).astype(np.float32)) if seed % 2 else None,
        row=torch.arange(number),
    )


CONFIGS = {DQN: DQNConfig, SAC: SACConfig, TD3: TD3Config, DDPG: DDPGConfig}


@pytest.mark.parametrize(
    ("path", "kind"),
    slow_except(
        ("kernels", DQN), ("torch", SAC), ("kernels", TD3),
        of=itertools.product(["kernels", "torch"], [DQN, SAC, TD3, DDPG]),
    ),
    indirect=["path"],
)  # fmt: skip
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
        join_ranks(one, ranks)
        if kind in (SAC, TD3):
            one.rng = Noise(*who)

        def sample(*_, **__):
            nonlocal step
            step += 1
            return joined([drawn(100 * rank + step, action) for rank in who])

        one.replay.sample = sample
        return trained(one, optimizers, lambda: one.learn(1))

    agree(run(Ranks(), 0, 1), together(tmp_path, lambda ranks: run(ranks, ranks.rank)))


def test_two_ranks_that_learn_sequences_from_replay_are_one_on_those_of_both(tmp_path, path):
    model = {"hidden": (16,), "memory": {"kind": "lstm", "size": 8, "sequence_length": 8}}
    settings = {"learning_starts": 1000, "batch_size": 4, "model": model, "replay": {"burn_in": 2}}
    cfg = DQNConfig(**settings)
    with Trainer("CartPole-v1", cfg, num_envs=4, seed=5) as trainer:
        trainer.train({"env_steps": 200})
        buffer = trainer.replays["main"].buffer
        found = [[buffer.sample_sequences(4, length=10, beta=0.0) for _ in range(STEPS)] for _ in range(2)]
        policy = deepcopy(trainer.policies["main"])
    lengths = {sum(one.rollout.length.tolist()) for drawn in found for one in drawn}
    assert len(lengths) > 1, "all have as many rows"

    def run(ranks, *who):
        one = DQN(deepcopy(policy), cfg, Streams(1), "hero")
        join_ranks(one, ranks)
        steps = iter(range(STEPS))

        def sample(*_, **__):
            at = next(steps)
            parts = [found[rank][at] for rank in who]
            rows = torch.cat([part.row for part in parts])
            return SampledSequences(joined_rollouts([part.rollout for part in parts]), None, rows)

        one.replay.sample_sequences = sample
        return trained(one, lambda d: [d.optimizer], lambda: one.learn(1))

    agree(run(Ranks(), 0, 1), together(tmp_path, lambda ranks: run(ranks, ranks.rank)))


def test_importance_weights_are_those_of_one_batch_of_all_ranks(tmp_path):
    cfg = DQNConfig(model={"hidden": (8,)}, learning_starts=0, batch_size=8, replay={"kind": "prioritized"})

    def run(ranks):
        one = learner(DQN, cfg, CHOICE)
        join_ranks(one, ranks)
        number, rng = 12 + 20 * ranks.rank, np.random.default_rng(ranks.rank)
        store = SlotStore(obs_spec(OBS, CHOICE), action_spec(CHOICE), Demand(number), 0)
        store.open_slot(0)
        for _ in range(number):
            store.begin_step(None, {"obs": rng.normal(size=(1, 3)).astype(np.float32)}, slice(None))
            store.write_outcomes(None, Outcome(rng.normal(size=1).astype(np.float32), None, None, None))
        one.replay.store(store.drain({"obs": np.zeros((1, 3), np.float32)}, np.zeros(1, np.int64)))
        buffer = one.replay.own
        buffer.update_priorities(torch.arange(number), torch.from_numpy(rng.random(number)))
        drawn = one.replay.sample(8, n_step=1, gamma=0.9, beta=0.7)
        chance = buffer.priorities[drawn.row.numpy()] / buffer.priorities.sum()
        one.learn(3)
        return drawn.weight.numpy(), chance, one.optimizer.flat.data

    found = together(tmp_path, run)
    weight, chance = (np.concatenate([one[place] for one in found]) for place in (0, 1))
    expected = (1 / chance) ** 0.7  # drawn of all with half of this chance, of however many rows
    np.testing.assert_allclose(weight, expected / expected.max(), rtol=1e-6)
    assert torch.equal(found[0][2], found[1][2])


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


@pytest.mark.parametrize(
    ("gpus", "backend"),
    [
        (["GPU-1", "GPU-2"], "nccl"),
        (["GPU-1", "GPU-1"], "gloo"),  # shared: NCCL refuses that
        (["GPU-1", None], "gloo"),
        ([None, None], "gloo"),
    ],
)
def test_gradients_go_by_nccl_where_each_rank_has_a_gpu_of_its_own(gpus, backend):
    assert backend_of(gpus) == backend


def test_a_processor_is_no_gpu():
    assert name_of(torch.device("cpu")) is None


def test_ranks_that_share_a_gpu_are_told_so_alike(tmp_path, monkeypatch):
    monkeypatch.setattr(gpu_ranks, "name_of", lambda device: "GPU-1")

    def run(ranks):
        return gpu_ranks.group_on(torch.device("cuda:0"), ranks.rank, ranks.size, "127.0.0.1", 30.0, ranks.gather)

    assert together(tmp_path, run) == [None, None]


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


def test_groups_form_without_the_private_options_of_gloo(monkeypatch):
    gloo = distributed.ProcessGroupGloo
    without = SimpleNamespace(ProcessGroupGloo=lambda *given: gloo(*given), PrefixStore=distributed.PrefixStore)
    monkeypatch.setattr(ranks, "distributed", without)
    groups = ranks.groups_of(distributed.HashStore(), 0, 1, 5.0, None)
    tensor = torch.ones(3)
    groups.steps.allreduce([tensor]).wait()
    assert tensor.tolist() == [1, 1, 1]
