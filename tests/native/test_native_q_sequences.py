"""DQN of policies that remember, on kernels: the same as by torch, on every build that this processor can run."""

import itertools
from dataclasses import replace

import pytest
import torch
from q_learners import MASKED, NUMBERS, fragments, learner
from stepping import step

from rookery.algorithms.off_policy.dqn import TargetConfig
from rookery.algorithms.off_policy.q_values import ValuesConfig
from rookery.models.build import ModelConfig
from rookery.models.memory import MemoryConfig
from rookery.models.structure import Inputs
from rookery.native.forward import NetworkKernels
from rookery.replay.buffer import ReplayConfig, SampledSequences
from selection import slow_repeats

pytestmark = pytest.mark.usefixtures("kernels")

# Adam divides each gradient by its size: with its usual eps the rounding of the smallest ones would be compared
PLAIN = {
    "double": False,
    "adam_eps": 1e-3,
    "lr": 1e-3,
    "n_step": 3,
    "target": TargetConfig(kind="soft", tau=0.1),
    "replay": ReplayConfig(capacity=1000),
}
BURNED = ReplayConfig(capacity=1000, burn_in=3)
KINDS = {
    "plain": PLAIN,
    "double": {**PLAIN, "double": True},
    "burned in": {**PLAIN, "replay": BURNED},
    "dueling": {**PLAIN, "double": True, "dueling": True, "replay": BURNED},
    "weighted": {**PLAIN, "double": True, "replay": ReplayConfig(capacity=1000, kind="prioritized", burn_in=2)},
    "rescaled": {**PLAIN, "values": ValuesConfig(rescale=True)},
    "categorical": {**PLAIN, "dueling": True, "values": ValuesConfig("categorical", atoms=7, low=-2.0, high=2.0)},
    "quantile": {**PLAIN, "double": True, "values": ValuesConfig("quantile", quantiles=5)},
}


def remembering(settings, *, kind="lstm", obs=NUMBERS, native=True, **memory):
    memory = MemoryConfig(kind=kind, size=9, sequence_length=6, **memory)
    return learner(obs, model=ModelConfig(hidden=(16,), memory=memory, native=native), learning_starts=0, **settings)


def drawn(algo, seed, length=(9, 5, 9, 7)):
    """Returns a rollout as of a replay buffer: episodes of both ends, and some shorter fragments."""
    generator = torch.Generator().manual_seed(seed)
    memory = torch.zeros(1, len(length), algo.policy.memory_size)  # nothing was seen before, but something remembered
    algo.policy.learned(memory).normal_(generator=generator)
    masked = algo.policy.obs_spec.leaves[-1].kind == "mask"
    rollout = fragments(max(length), len(length), seed, masked, memory=memory, length=list(length))
    first = torch.rand(len(length), generator=generator) < 0.3
    weight = torch.rand(len(length), generator=generator) if algo.cfg.replay.kind == "prioritized" else None
    return SampledSequences(replace(rollout, first=first), weight, torch.arange(len(length)))


def updates(algo, number, **drawing):
    """Makes updates on given sequences; returns weights before and after, all priorities, and metrics of the last."""
    before, priorities = algo.optimizer.flat.data.clone(), []
    for seed in range(number):
        algo.replay.buffer.sample_sequences = lambda *_, seed=seed, **__: drawn(algo, seed, **drawing)
        algo.replay.buffer.update_priorities = lambda row, priority: priorities.append(priority)
        metrics = step(algo)
    return before.double(), algo.optimizer.flat.data.double(), priorities, metrics


def same(settings, drawing, **memory):
    """Asserts that five updates are those of torch."""
    mine, theirs = remembering(settings, **memory), remembering(settings, native=False, **memory)
    assert isinstance(mine.forward.kernels, NetworkKernels)
    assert theirs.forward.kernels is None
    before, after, priorities, metrics = updates(mine, 10, **drawing)
    _, expected, wanted, known = updates(theirs, 10, **drawing)
    change = (expected - before).norm()
    assert change > 0
    assert (after - expected).norm() < 1e-5 * change
    torch.testing.assert_close(mine.target_data, theirs.target_data, rtol=1e-4, atol=1e-6)
    assert len(priorities) == len(wanted) == (10 if settings["replay"].kind == "prioritized" else 0)
    for priority, torchs in zip(priorities, wanted, strict=True):
        torch.testing.assert_close(priority, torchs, rtol=1e-4, atol=1e-4)
    assert {name: float(value) for name, value in metrics.items()} == pytest.approx(
        {name: float(value) for name, value in known.items()}, rel=1e-4, abs=1e-5
    )


@pytest.mark.parametrize("name", KINDS)
def test_updates_along_sequences_are_those_of_torch(name):
    same(KINDS[name], {})


@pytest.mark.parametrize(
    ("kind", "obs"), slow_repeats(of=itertools.product(["lstm", "gru", "scan"], [NUMBERS, MASKED]))
)
def test_updates_along_sequences_are_those_of_torch_whatever_remembers(kind, obs):
    same(KINDS["dueling"], {}, kind=kind, obs=obs)


@pytest.mark.parametrize(
    "memory", [{"layers": 2}, {"previous_action": True, "previous_reward": True, "frame_stack": 2}]
)
def test_updates_are_those_of_torch_with_layers_and_with_what_is_seen_of_the_past(memory):
    same(KINDS["burned in"], {}, **memory)


def test_updates_along_sequences_of_one_length_are_those_of_torch():
    same(KINDS["double"], {"length": (8, 8, 8)})


def test_values_and_what_is_remembered_after_sequences_are_those_of_torch():
    mine, theirs = remembering(PLAIN), remembering(PLAIN, native=False)
    rollout = drawn(mine, 0).rollout
    sequences, memory = rollout.sequences()
    obs = {"obs": rollout.obs["obs"].flatten(0, 1).index_select(0, rollout.valid_rows())}
    for question in ("values", "remembered"):
        ours, torchs = (
            getattr(algo.forward, question)(Inputs(obs, memory, sequences, laid_out=True)) for algo in (mine, theirs)
        )
        torch.testing.assert_close(ours, torchs, rtol=1e-5, atol=1e-6)


def test_the_net_that_learns_goes_through_what_is_learned_once(monkeypatch):
    algo, passes = remembering(KINDS["dueling"]), []
    run = algo.forward.kernels.run
    monkeypatch.setattr(algo.forward.kernels, "run", lambda *parts, **more: passes.append(1) or run(*parts, **more))
    updates(algo, 1)
    assert len(passes) == 2  # the burn-in, and what is learned


def test_an_update_along_sequences_is_the_same_to_the_last_bit_each_time():
    first, second = (updates(remembering(KINDS["dueling"]), 5)[1] for _ in range(2))
    assert torch.equal(first, second)
