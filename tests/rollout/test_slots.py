"""The store by itself: what it sums, cuts, carries and hands over."""

import copy

import numpy as np
import pytest
import torch
from gymnasium import spaces
from playing import decisions_of, same_bytes

from rookery.core.batch import Demand
from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.rollout.slots import SlotStore
from rookery.rollout.storage import Outcome

OBS, ACTION = spaces.Box(-np.inf, np.inf, (1,), np.float32), spaces.Discrete(9)


class Table:
    """A store with slots 0 to n - 1 in rows 0 to n - 1, driven a step at a time."""

    def __init__(self, T, decisions=None, slots=1, obs=OBS):
        self.spec = obs_spec(obs, ACTION)
        self.store = SlotStore(self.spec, action_spec(ACTION), Demand(T, decisions), 0)
        self.slots = slots
        for slot in range(slots):
            self.store.open_slot(slot)

    def slab(self, **values):
        slab = self.spec.allocate(self.slots)
        for slot, value in values.items():
            slab["obs"][int(slot[1:])] = value
        return slab

    def act(self, **seen):
        """Slots s0, s1 ... see a number and do it (mod 9)."""
        slots = np.array([int(slot[1:]) for slot in seen])
        decisions = self.store.begin_step(slots, self.slab(**seen), slots)
        numbers = [int(np.ravel(value)[0]) for value in seen.values()]
        assert decisions.obs["obs"][:, 0].tolist() == numbers
        decisions.action[:] = np.array(numbers) % 9
        decisions.logp[:] = -np.array(numbers)
        if decisions.at is not None:
            self.store.write_actions(decisions)

    def outcome(self, slot, reward, terminated=False, truncated=False, waiting=False, final=None):
        if final is not None:
            self.store.write_final_obs(np.array([slot]), {"obs": np.array([[final]], np.float32)}, np.array([0]))
        flags = (np.array([flag]) for flag in (terminated, truncated, waiting))
        self.store.write_outcomes(np.array([slot]), Outcome(np.array([float(reward)]), *flags))

    def take(self, **seen):
        return self.store.drain(self.slab(**seen), np.arange(self.slots))


def numbers(rollout):
    return [(d.slot, d.clock, d.obs[0], d.reward, d.next and d.next[0]) for d in decisions_of(rollout)]


def test_a_decision_is_complete_when_its_slot_waits_again():
    table = Table(T=4, decisions=1)
    table.act(s0=5)
    table.outcome(0, 1.0)
    assert not 0 < table.store.wanted <= table.store.complete
    table.outcome(0, 2.0)
    table.outcome(0, 4.0, waiting=True)
    assert 0 < table.store.wanted <= table.store.complete
    assert numbers(table.take(s0=6)) == [(0, 0, 5, 7.0, 6)]


def test_a_demand_without_a_number_is_a_fragment_for_each_slot():
    table = Table(T=2, slots=2)
    for step in range(4):
        assert not 0 < table.store.wanted <= table.store.complete
        table.act(**{f"s{step % 2}": step})
        table.outcome(step % 2, 0.0, waiting=True)
    assert 0 < table.store.wanted <= table.store.complete
    assert table.store.complete == 4


def test_a_pending_decision_is_the_future_of_the_one_before_and_opens_the_next_fragment():
    table = Table(T=4, decisions=1)
    table.act(s0=1)
    table.outcome(0, 10.0, waiting=True)
    table.act(s0=2)
    table.outcome(0, 0.5)
    table.store.version = 3
    first = table.take(s0=99)  # what the slab shows is old: the slot does not wait
    assert numbers(first) == [(0, 0, 1, 10.0, 2)]
    table.outcome(0, 20.0)  # comes before the slot acts again
    table.outcome(0, 0.0, truncated=True, final=7)
    second = table.take()
    assert numbers(second) == [(0, 1, 2, 20.5, 7)]
    assert (second.version.item(), second.first.item()) == (3, False)
    assert (second.action[0].item(), second.logp[0].item()) == (2, -2)


def test_a_pending_decision_survives_many_takes():
    table = Table(T=3, decisions=1, slots=2)
    table.act(s0=1, s1=50)
    for step in range(4):
        table.outcome(0, 1.0, waiting=True)
        table.outcome(1, 2.0)
        assert numbers(table.take(s0=step + 2)) == [(0, step, step + 1, 1.0, step + 2)]
        table.store.version += 1
        table.act(s0=step + 2)
    table.outcome(0, 0.0)
    table.outcome(1, 2.0, terminated=True)
    rollout = table.take()
    assert numbers(rollout) == [(1, 0, 50, 10.0, None)]
    assert (rollout.version.item(), rollout.first.item()) == (0, True)


def test_a_full_fragment_ends_with_what_the_slot_sees_next():
    table = Table(T=2, decisions=5)
    for step in range(5):
        table.act(s0=step)
        table.outcome(0, step, waiting=True)
    rollout = table.take(s0=5)
    assert rollout.length.tolist() == [2, 2, 1]
    assert rollout.clock.tolist() == [0, 2, 4]
    assert rollout.first.tolist() == [True, False, False]
    assert rollout.last_obs["obs"].flatten().tolist() == [2, 4, 5]


def test_a_closed_slot_is_cut_and_its_next_holder_starts_a_new_clock():
    table = Table(T=4, decisions=3)
    table.act(s0=1)
    table.outcome(0, 1.0, waiting=True)
    table.act(s0=2)
    table.outcome(0, 2.0, terminated=True)
    table.store.close_slot(0)
    table.store.open_slot(0)
    table.act(s0=11)
    table.outcome(0, 3.0, waiting=True)
    rollout = table.take(s0=12)
    assert numbers(rollout) == [(0, 0, 1, 1.0, 2), (0, 1, 2, 2.0, None), (0, 0, 11, 3.0, 12)]
    assert rollout.first.tolist() == [True, True]


def test_a_slot_can_be_closed_between_two_takes():
    table = Table(T=4, decisions=1, slots=2)
    table.act(s0=1, s1=2)
    table.outcome(0, 1.0, waiting=True)
    assert numbers(table.take(s0=3)) == [(0, 0, 1, 1.0, 3)]
    table.store.close_slot(1)  # with its decision still pending: nothing of it can be learned
    table.act(s0=3)
    table.outcome(0, 1.0, waiting=True)
    assert numbers(table.take(s0=4)) == [(0, 1, 3, 1.0, 4)]


def test_what_a_closed_slot_saw_with_its_lost_decision_is_the_future_of_the_one_before():
    table = Table(T=4, decisions=1, slots=2)
    table.act(s0=1, s1=2)
    for slot in (0, 1):
        table.outcome(slot, 1.0, waiting=True)
    table.act(s0=3, s1=4)
    table.outcome(0, 1.0, waiting=True)
    table.store.close_slot(1)
    assert numbers(table.take(s0=5)) == [(0, 0, 1, 1.0, 3), (0, 1, 3, 1.0, 5), (1, 0, 2, 1.0, 4)]


def test_the_end_of_an_agent_that_decided_nothing_is_passed_over():
    table = Table(T=4, decisions=1, slots=2)
    table.act(s0=1)
    table.outcome(0, 1.0, waiting=True)
    table.outcome(1, 3.0, truncated=True, final=9)
    rollout = table.take(s0=2)
    assert len(rollout.boot_index) == 0
    assert table.store.rewards_without_decision == 1


def test_many_ends_in_one_rollout_keep_their_own_final_observations():
    table = Table(T=8, decisions=100)
    for step in range(100):
        table.act(s0=step)
        table.outcome(0, 1.0, truncated=True, waiting=True, final=step + 0.5)
    rollout = table.take(s0=100)
    assert len(rollout.final_obs["obs"]) == 100
    assert all(d.next == (d.obs[0] + 0.5,) for d in decisions_of(rollout))


def test_storage_that_grows_keeps_what_is_in_it():
    table = Table(T=2)
    for step in range(63):  # with every slot that appears, and every column that fills
        if step % 9 == 8:
            table.store.open_slot(table.slots)
            table.slots += 1
        for slot in range(table.slots):
            table.act(**{f"s{slot}": 100 * slot + step})
            table.outcome(slot, step, waiting=True)
    found = numbers(table.take())
    assert len(found) == sum(63 - 9 * slot + (slot > 0) for slot in range(8))
    assert {(slot, obs) for slot, _, obs, _, _ in found} == {
        (slot, 100 * slot + step) for slot in range(8) for step in range(9 * slot - (slot > 0), 63)
    }
    assert all(obs == 100 * slot + reward for slot, _, obs, reward, _ in found)


def test_observations_keep_the_type_they_are_stored_in():
    picture = spaces.Dict({"obs": spaces.Box(0, 255, (1, 2, 3), np.uint8), "count": spaces.Discrete(5)})
    spec = obs_spec(picture, ACTION)
    store = SlotStore(spec, action_spec(ACTION), Demand(2), 0)
    store.open_slot(0)
    slab = spec.allocate(1)
    for _ in range(2):
        decisions = store.begin_step(None, slab, slice(0, 1))
        if decisions.at is not None:
            store.write_actions(decisions)
        store.write_outcomes(None, Outcome(np.zeros(1), None, None, None))
    rollout = store.drain(slab, np.zeros(1, np.int64))
    assert {path: leaf.dtype for path, leaf in decisions.obs.items()} == {"obs": np.uint8, "count": np.int64}
    for tree in (rollout.obs, rollout.last_obs, rollout.final_obs):
        assert {path: leaf.dtype for path, leaf in tree.items()} == {"obs": torch.uint8, "count": torch.int64}
    assert rollout.action.dtype == torch.int64
    assert rollout.reward.dtype == torch.float32


@pytest.mark.parametrize("moment", range(6))
def test_a_store_goes_on_from_its_saved_state(moment):
    def play(table, step):
        table.act(s0=step, s1=10 + step)
        table.outcome(0, step, waiting=True)
        table.outcome(1, 1.0, waiting=step % 3 == 2, truncated=step % 4 == 3, final=50 if step % 4 == 3 else None)

    table = Table(T=2, decisions=4, slots=2)
    for step in range(moment):
        play(table, step)
        if 0 < table.store.wanted <= table.store.complete:
            table.take(s0=step + 1, s1=11 + step)
    other = Table(T=2, decisions=4, slots=2)
    state = copy.deepcopy(table.store.state_dict())
    other.store.load_state_dict(state)
    takes = 0
    for step in range(moment, moment + 12):
        play(table, step)
        play(other, step)
        assert (table.store.wanted, table.store.complete) == (other.store.wanted, other.store.complete)
        if 0 < table.store.wanted <= table.store.complete:
            seen = {"s0": step + 1, "s1": 11 + step}
            assert same_bytes(table.take(**seen), other.take(**seen))
            takes += 1
    assert takes > 1


def test_a_saved_state_is_a_copy():
    table = Table(T=4)
    table.act(s0=1)
    state = table.store.state_dict()
    before = copy.deepcopy(state)
    table.outcome(0, 1.0, waiting=True)
    table.act(s0=2)
    np.testing.assert_equal(state, before)


def test_what_is_decided_in_lockstep_stands_in_the_storage_and_only_the_store_may_write_there():
    table = Table(T=3, decisions=6, slots=2)
    for step in range(3):
        decisions = table.store.begin_step(None, table.slab(s0=step, s1=step), slice(0, 2))
        decisions.action[:] = step, step + 1
        if decisions.at is not None:
            table.store.write_actions(decisions)
        table.store.write_outcomes(None, Outcome(np.zeros(2), None, None, None))
        assert decisions.chosen.tolist() == [step, step + 1]
        with pytest.raises(ValueError, match="read-only"):
            decisions.chosen[0] = 5
    assert table.take().action.tolist() == [[0, 1], [1, 2], [2, 3]]


def test_a_storage_that_grows_is_written_on_where_it_is_then():
    # without a demand for a number of decisions nothing says how many fragments there will be
    table = Table(T=2, decisions=None, slots=1)
    for rollout in range(2):
        for step in range(6 if rollout else 2):
            decisions = table.store.begin_step(None, table.slab(s0=step), slice(0, 1))
            decisions.action[:] = step
            if decisions.at is not None:
                table.store.write_actions(decisions)
            table.store.write_outcomes(None, Outcome(np.array([10.0 + step]), None, None, None))
        taken = table.take()
        expected = [[0, 2, 4], [1, 3, 5]] if rollout else [[0], [1]]
        assert taken.action.tolist() == expected
        assert taken.obs["obs"][..., 0].tolist() == expected
        assert taken.reward.tolist() == [[10.0 + number for number in row] for row in expected]


def test_a_store_that_takes_over_a_state_writes_on_in_its_new_memory():
    mine, other = Table(T=4, slots=2), Table(T=4, slots=2)

    def step(table, number):
        decisions = table.store.begin_step(None, table.slab(s0=number, s1=-number), slice(0, 2))
        decisions.action[:] = number
        if decisions.at is not None:
            table.store.write_actions(decisions)
        table.store.write_outcomes(None, Outcome(np.full(2, float(number)), None, None, None))

    for number in (1, 2):
        step(mine, number)
        step(other, 7)
    other.store.load_state_dict(mine.store.state_dict())
    for number in (3, 4):
        step(mine, number)
        step(other, number)
    assert other.take().action.tolist() == mine.take().action.tolist() == [[n, n] for n in (1, 2, 3, 4)]
