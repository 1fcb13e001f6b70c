"""Snapshots that play together: each decides as it would alone; slots and names follow."""

import copy

import numpy as np
import pytest
import torch

from rookery import PPOConfig, SACConfig, Trainer
from rookery.core.native import best_build
from rookery.core.seeding import Streams
from rookery.rollout.noise import ActionNoise
from rookery.rollout.stack import SnapshotStack

SHAPES = {
    "masks": ("rookery.tasks:TicTacToe", PPOConfig()),
    "normalized numbers": ("rookery.tasks:LineSoccer", PPOConfig(model={"normalize_obs": True, "layer_norm": True})),
    "squashed": ("rookery.tasks:LineSoccer", SACConfig(learning_starts=10, model={"hidden": (16,)})),
    "torch": ("rookery.tasks:TicTacToe", PPOConfig(model={"native": False})),
    "memory": ("rookery.tasks:TicTacToe", PPOConfig(model={"memory": {"kind": "gru", "size": 8}})),
}


def different(policy, count):
    """Policies of one shape with other weights and statistics, by number from 1."""
    found = {}
    for number in range(1, count + 1):
        found[number] = copy.deepcopy(policy).requires_grad_(False)
        generator = torch.Generator().manual_seed(number)
        for weight in found[number].parameters():
            weight.add_(0.3 * torch.randn(weight.shape, generator=generator))
        if policy.normalizer is not None:
            rows = {path: torch.randn(50, *policy.obs_spec.leaves[0].shape, generator=generator) * number + number
                    for path in policy.normalizer.paths}  # fmt: skip
            found[number].normalizer.update(rows)
    return found


@pytest.fixture(scope="module", params=SHAPES)
def stack(request):
    env, cfg = SHAPES[request.param]
    with Trainer(env, cfg, seed=3, num_envs=2) as trainer:
        policy = trainer.policies["main"]
    noise = ActionNoise(Streams(1), "main@", policy.noise.uniform, policy.noise.normal, torch.device("cpu"))
    return SnapshotStack("main", 0, policy, noise, different(policy, 7))


def slab(stack, rows, seed):
    rng = np.random.default_rng(seed)
    seen = stack.policy.obs_spec.allocate(rows)
    for leaf in stack.policy.obs_spec.leaves:
        if leaf.kind == "mask":
            seen[leaf.path][...] = rng.random(seen[leaf.path].shape) < 0.5
            seen[leaf.path][:, 3] = True
        else:
            seen[leaf.path][...] = rng.normal(size=seen[leaf.path].shape).astype(leaf.dtype)
    return seen


def seated(stack, numbers):
    for row, number in enumerate(numbers):
        slot = stack.open_slot(row)
        stack.assign(slot, f"main@{number}")
    return stack


@pytest.mark.parametrize("deterministic", [False, True])
def test_each_snapshot_decides_as_it_would_alone(stack, deterministic):
    stack = copy.copy(stack)
    stack.taken, stack.row_of_slot, stack.member = stack.taken[:0], stack.row_of_slot[:0], stack.member[:0]
    if stack.memory is not None:
        stack.memory = copy.deepcopy(stack.memory)
    numbers = [3, 1, 7, 1, 3, 2, 1, 5]
    seated(stack, numbers)
    seen = slab(stack, 9, 0)
    rows = np.array([0, 1, 2, 3, 5, 6, 7, 8])
    step = None if deterministic else 300
    actions = np.array(stack.decide(None, seen, rows, step))
    logp = stack.decided.logp.copy()
    noise = stack.noise.at(None, len(numbers), 300)
    for slot, number in enumerate(numbers):
        alone = stack.snapshots[number]
        memory = torch.zeros(1, alone.memory_size + alone.exploration_size) if stack.memory is not None else None
        obs = {path: torch.from_numpy(array[rows[slot] : rows[slot] + 1]) for path, array in seen.items()}
        expected, its_logp = alone.act(obs, noise[slot : slot + 1], deterministic, memory)
        np.testing.assert_allclose(actions[slot], expected[0].numpy(), rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(logp[slot], its_logp[0].numpy(), rtol=1e-4, atol=1e-4)
        if memory is not None:
            np.testing.assert_allclose(stack.memory.memory[slot], memory[0].numpy(), rtol=1e-5, atol=1e-5)
    assert len({tuple(np.ravel(action)) for action in actions}) > 1


@pytest.mark.skipif(best_build() is None, reason="no kernels are built")
def test_one_call_does_bit_for_bit_what_calls_one_by_one_do():
    env, cfg = SHAPES["masks"]
    with Trainer(env, cfg, seed=3, num_envs=2) as trainer:
        policy = trainer.policies["main"]
    made = [
        seated(
            SnapshotStack("main", 0, policy, ActionNoise(Streams(1), "main@", 1, 0, torch.device("cpu")),
                          different(policy, 100)),
            np.random.default_rng(5).integers(1, 101, 64),
        )
        for _ in range(2)
    ]  # fmt: skip
    made[1]._stacked = None
    for step in range(3):
        seen, slots = slab(made[0], 128, step), np.flatnonzero(np.random.default_rng(step).random(64) < 0.6)
        together, apart = (np.array(one.decide(slots, seen, slots * 2, step)) for one in made)
        np.testing.assert_array_equal(together, apart)
        np.testing.assert_array_equal(made[0].decided.logp, made[1].decided.logp)


def test_a_seat_has_another_snapshot_after_a_new_one_and_forgets_who_is_gone(stack):
    stack = copy.copy(stack)
    stack.snapshots = dict(stack.snapshots)
    stack.taken, stack.row_of_slot, stack.member = stack.taken[:0], stack.row_of_slot[:0], stack.member[:0]
    seated(stack, [4, 6])
    assert [stack.display_name(slot) for slot in (0, 1)] == ["main@4", "main@6"]
    stack.assign(0, "main@2")
    assert stack.display_name(0) == "main@2"
    stack.keep({2})
    assert set(stack.snapshots) == {2, 6}, "an agent whose episode continues keeps its snapshot"
    stack.close_slot(1)
    stack.keep({2})
    assert set(stack.snapshots) == {2}
    assert stack.open_slot(9) == 1


def test_a_state_is_taken_up_with_snapshots_that_others_have_the_numbers_of(stack):
    stack = copy.copy(stack)
    stack.taken, stack.row_of_slot, stack.member = stack.taken[:0], stack.row_of_slot[:0], stack.member[:0]
    stack._alone = {}
    if stack.memory is not None:
        stack.memory = copy.deepcopy(stack.memory)
    stack.snapshots = dict(stack.snapshots)
    seen = slab(stack, 6, 1)
    seated(stack, [1, 2, 3, 1, 2, 3])
    state = copy.deepcopy(stack.state_dict())

    def decided():
        actions = np.array(stack.decide(None, seen, slice(0, 6), None))
        return actions, stack.decided.logp.copy()

    before = decided()
    for number in (1, 2, 3):
        stack.snapshots[number] = stack.snapshots[number + 3]
    stack.load_state_dict(state)
    after = decided()
    stack.load_state_dict(state)
    for slot, number in enumerate([4, 5, 6, 4, 5, 6]):
        stack.assign(slot, f"main@{number}")
    for mine, wanted in zip(after, decided(), strict=True):
        np.testing.assert_array_equal(mine, wanted)
    assert any((one != two).any() for one, two in zip(before, after, strict=True))
