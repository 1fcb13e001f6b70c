"""DQN of policies that remember: what is learned along sequences is what a walk step by step would say."""

import itertools

import numpy as np
import pytest
import torch
from q_learners import MASKED, NUMBERS, fragments, learner

from rookery import DQNConfig, Trainer
from rookery.algorithms.off_policy.q_sequences import n_step_returns, split_timeline, unroll
from rookery.core.ops import rescale, unrescale
from rookery.core.spaces.arrays import MASK
from rookery.models.cells.table import CELLS
from rookery.replay.buffer import sequence_priorities
from selection import slow_repeats


def remembering(kind="lstm", obs=NUMBERS, **settings):
    memory = {"kind": kind, "size": 8, "sequence_length": 6, "context": 5}
    dqn = learner(obs, model={"hidden": (8,), "memory": memory}, learning_starts=0, batch_size=4, **settings)
    with torch.no_grad():  # the two networks differ, and are not blind
        for index, net in enumerate((dqn.net, dqn.target_net)):
            generator = torch.Generator().manual_seed(index)
            for weight in net.parameters():
                weight.copy_(0.7 * torch.randn(weight.shape, generator=generator))
    return dqn


def play(dqn, T=14, F=3, seed=1, masked=False, length=None):
    size = dqn.policy.memory_size
    kept = torch.from_numpy(np.random.default_rng(seed).normal(size=(1, F, size)).astype(np.float32))
    if type(dqn.policy.memory).__name__ == "Attention":
        kept[..., -1] = 2.0  # so many decisions are remembered
    rollout = fragments(T, F, seed=seed, masked=masked, memory=kept, length=length)
    first = torch.zeros(F, dtype=torch.bool)
    first[0] = True
    return type(rollout)(**{**vars(rollout), "first": first})


def walk(net, policy, rollout):
    """Values of every valid decision ``[t][f]``, and of what came after it, one step at a time."""
    now, after = {}, {}
    finals = {(t, f): k for k, (t, f) in enumerate(rollout.boot_index.tolist())}

    def value(tree, memory):
        features, memory = net.memory.advance(net.trunk(policy.normalize(tree)), memory)
        return net.head.values(features).squeeze(0), memory

    def row(tree, *at):
        return {path: leaf[at].unsqueeze(0) for path, leaf in tree.items()}

    with torch.no_grad():
        for f in range(len(rollout.length)):
            memory = policy.learned(rollout.memory[0, f : f + 1])
            for t in range(int(rollout.length[f])):
                if rollout.begins[t, f]:
                    memory = torch.zeros_like(memory)
                now[t, f], memory = value(row(rollout.obs, t, f), memory)
                if (t, f) in finals:
                    tree = row(rollout.final_obs, finals[t, f])
                elif t + 1 < rollout.length[f]:
                    tree = row(rollout.obs, t + 1, f)
                else:
                    tree = row(rollout.last_obs, f)
                after[t, f] = value(tree, memory)[0], tree.get(MASK)
    return now, after


def best(values, mask):
    return int((values if mask is None else torch.where(mask[0], values, -torch.inf)).argmax())


def slow_targets(dqn, rollout, n, gamma):
    """Targets of all valid decisions, ``(t, f)`` to a number."""
    _, mine = walk(dqn.net, dqn.policy, rollout)
    _, its = walk(dqn.target_net, dqn.policy, rollout)
    found = {}
    for t, f in mine:
        total, k = 0.0, 0
        while True:
            here = t + k, f
            total += gamma**k * float(rollout.reward[here])
            k += 1
            if k == n or rollout.terminated[here] or rollout.truncated[here] or here[0] + 1 == rollout.length[f]:
                break
        action = best(mine[here][0] if dqn.cfg.double else its[here][0], its[here][1])
        value = 0.0 if rollout.terminated[here] else float(unscaled(dqn, its[here][0][action]))
        found[t, f] = float(scaled(dqn, torch.tensor(total + gamma**k * value)))
    return found


def scaled(dqn, value):
    return rescale(value, eps=1e-3) if dqn.cfg.values.rescale else value


def unscaled(dqn, value):
    return unrescale(value, eps=1e-3) if dqn.cfg.values.rescale else value


@pytest.mark.parametrize(
    ("kind", "masked", "burn_in"), slow_repeats(of=itertools.product(CELLS, [False, True], [0, 4]))
)
def test_targets_and_values_are_those_of_a_walk_step_by_step(kind, masked, burn_in):
    settings = {"n_step": 3, "gamma": 0.9, "double": not masked, "values": {"rescale": masked}}
    dqn = remembering(kind, MASKED if masked else NUMBERS, replay={"burn_in": burn_in}, **settings)
    rollout = play(dqn, masked=masked, length=[14, 9, 14])
    expected = slow_targets(dqn, rollout, 3, 0.9)
    now, _ = walk(dqn.net, dqn.policy, rollout)
    batch, fragment = dqn.sequence_targets(rollout, torch.tensor([0.1, 0.2, 0.3]), dqn.cfg)
    places = rollout.valid.nonzero().tolist()
    assert len(batch) == len(fragment) == len(places) - burned(rollout, burn_in)
    places = places[-len(batch) :] if burn_in == 0 else [place for place in places if learned(rollout, place, burn_in)]
    with torch.no_grad():
        values = dqn.net(batch)
    for i, (t, f) in enumerate(places):
        assert fragment[i] == f
        assert batch.action[i] == rollout.action[t, f]
        assert batch.weight[i] == pytest.approx(0.1 * (f + 1))
        assert batch.target[i].item() == pytest.approx(expected[t, f], abs=2e-4)
        assert torch.allclose(values[i], now[t, f], atol=1e-4)


def learned(rollout, place, burn_in):
    """Marks decisions after the first `burn_in` observations of their fragment, final ones counted."""
    t, f = place
    finals = int((rollout.boot_index[:, 1] == f).logical_and(rollout.boot_index[:, 0] < t).sum())
    return t + finals >= burn_in


def burned(rollout, burn_in):
    return sum(not learned(rollout, place, burn_in) for place in rollout.valid.nonzero().tolist())


def test_no_gradient_flows_through_the_burn_in():
    dqn = remembering(replay={"burn_in": 5})
    rollout = play(dqn)
    batch, _ = dqn.sequence_targets(rollout, None, dqn.cfg)
    assert not batch.memory.requires_grad
    assert len(batch.sequences.first) == len(rollout.timeline().first) - 5


def test_a_stored_state_that_is_old_is_brought_up_to_date_by_both_networks():
    dqn = remembering(replay={"burn_in": 6})
    rollout = play(dqn, F=2)
    seen = rollout.timeline_rows(*dqn.policy.sights(rollout))
    _, burned_, rest = split_timeline(dqn.policy, rollout, 6)
    kept = dqn.policy.learned(rollout.memory[0])
    for network in (dqn.forward, dqn.target_forward):
        values, memory = unroll(network, seen, None, kept, burned_, rest)
        now, _ = walk(network.net, dqn.policy, rollout)
        places = rest.places(len(seen["obs"]))
        decided = {place: i for i, place in enumerate(map(tuple, rollout.valid.nonzero().tolist()))}
        for place, number in decided.items():
            if places[number] >= 0:
                assert torch.allclose(values[places[number]], now[place], atol=1e-4)
        assert not torch.allclose(memory, kept)


@pytest.mark.parametrize("garbage", [float("nan"), 1e30])
def test_what_stands_behind_the_end_of_a_short_sequence_changes_nothing(garbage):
    dqn = remembering(n_step=3)
    rollout = play(dqn, length=[14, 5, 9])
    batch, fragment = dqn.sequence_targets(rollout, None, dqn.cfg)
    padding = ~rollout.valid
    for name in ("reward", "logp"):
        getattr(rollout, name)[padding] = garbage
    rollout.obs["obs"][padding] = garbage
    rollout.action[padding] = 2
    rollout.terminated[padding] = True
    again, fragment_again = dqn.sequence_targets(rollout, None, dqn.cfg)
    assert torch.equal(batch.target, again.target)
    assert torch.equal(fragment, fragment_again)
    loss = dqn.estimate.loss
    assert torch.equal(loss(dqn.net(batch), batch, dqn.cfg)[0], loss(dqn.net(again), again, dqn.cfg)[0])


def test_a_burn_in_that_is_longer_than_all_there_is_leaves_something_to_learn_from():
    dqn = remembering(replay={"burn_in": 50})
    batch, fragment = dqn.sequence_targets(play(dqn, T=3, F=2), None, dqn.cfg)
    assert len(batch) > 0
    assert torch.isfinite(batch.target).all()


def test_a_sequence_counts_by_its_largest_error_and_a_little_by_their_mean():
    which, found = sequence_priorities(torch.tensor([1.0, 3.0, 2.0]), torch.tensor([0, 0, 2]), 4)
    assert which.tolist() == [0, 2]
    assert found.tolist() == pytest.approx([0.9 * 3 + 0.1 * 2, 2.0])


def test_windows_end_where_episodes_and_fragments_do():
    rollout = fragments(6, 2, ends=0.0, cuts=0.0, length=[6, 4])
    found = n_step_returns(rollout, n=2, gamma=0.5)
    assert found.fragment.tolist() == [0, 1, 0, 1, 0, 1, 0, 1, 0, 0]
    # rows of the time line: decisions 0 to 9 by time, then the last observations of both fragments
    assert found.after.tolist() == [4, 5, 6, 7, 8, 11, 9, 11, 10, 10]
    assert found.discount.tolist() == [0.25] * 7 + [0.5, 0.25, 0.5]


def test_sequences_drawn_from_the_memory_move_priorities_and_weights():
    dqn = remembering(replay={"kind": "prioritized", "burn_in": 2})
    settings = {"model": dqn.cfg.model, "replay": dqn.cfg.replay, "learning_starts": 60, "batch_size": 4}
    trainer = Trainer("StatelessCartPole", DQNConfig(**settings), num_envs=3, seed=0)
    trainer.train({"env_steps": 1000})
    learning = trainer.learners["main"]
    assert learning.replay.gradient_steps > 50
    priorities = learning.replay.buffer.priorities
    assert len(np.unique(priorities[priorities > 0])) > 50
    row = trainer.learners["main"].summary()
    assert row["skipped_steps"] == 0


def test_decisions_that_see_earlier_ones_learn_without_a_cell_too():
    model = {"hidden": (16,), "memory": {"frame_stack": 4, "previous_action": True, "sequence_length": 8}}
    trainer = Trainer("StatelessCartPole", DQNConfig(model=model, learning_starts=100, batch_size=4), seed=0)
    result = trainer.train({"env_steps": 1000})
    assert result.policies["main"].learning["gradient_steps"] > 100


def test_frames_that_policies_see_at_once_are_those_they_decided_on():
    model = {"hidden": (8,), "memory": {"frame_stack": 3, "previous_action": True, "previous_reward": True}}
    dqn = learner(model=model, learning_starts=0)
    rollout = play(dqn, T=9, F=2)
    seen = rollout.timeline_rows(*dqn.policy.sights(rollout))
    memory = rollout.memory[0].clone()
    number = 0
    for t in range(9):
        memory[rollout.begins[t]] = 0
        tree, stacks = dqn.policy.recall.look({"obs": rollout.obs["obs"][t]}, memory, dqn.policy.normalize)
        for path, leaf in tree.items():
            assert torch.allclose(seen[path][number : number + 2].float(), leaf.float(), atol=1e-6)
        dqn.policy.recall.remember(memory, stacks, rollout.action[t])
        memory[:, dqn.policy.reward_column] = rollout.reward[t]
        number += 2
