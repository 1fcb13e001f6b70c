"""Slots with clocks of their own: what stands in which column after each call, worked out by hand."""

import numpy as np
from gymnasium import spaces

from rookery.core.batch import Demand
from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.rollout.slots import SlotStore
from rookery.rollout.storage import Outcome

NUMBER, CHOICES = spaces.Box(-np.inf, np.inf, (1,), np.float32), spaces.Discrete(9)


def store_of(T, slots, memory_size=0, memory_every=1):
    seen, actions = obs_spec(NUMBER, CHOICES), action_spec(CHOICES)
    store = SlotStore(seen, actions, Demand(T, 100), memory_size, memory_every)
    for slot in range(slots):
        store.open_slot(slot)
    return store


def act(store, seen, memory=None):
    """Each slot of `seen` sees its number and chooses the same number."""
    slots, numbers = np.array(list(seen)), np.array(list(seen.values()), np.float32)
    decisions = store.begin_step(slots, {"obs": numbers[:, None]}, slice(None), memory)
    decisions.action[...], decisions.logp[...] = numbers, -numbers
    store.write_actions(decisions)


def happen(store, slot, reward, *, terminated=False, truncated=False, waiting=True):
    flags = (np.array([flag]) for flag in (terminated, truncated, waiting))
    store.write_outcomes(np.array([slot]), Outcome(np.array([reward]), *flags))


def test_each_slot_writes_down_a_column_of_its_own_and_begins_another_when_that_is_full():
    store = store_of(T=2, slots=2)
    act(store, {0: 1.0, 1: 5.0})
    for slot in (0, 1):
        happen(store, slot, 1.0)
    for number in (2.0, 3.0):
        act(store, {0: number})
        happen(store, 0, number)
    kept = store._store
    assert kept["obs"]["obs"][:, :3, 0].tolist() == [[1, 5, 3], [2, 0, 0]]
    assert kept["action"][:, :3].tolist() == [[1, 5, 3], [2, 0, 0]]
    assert kept["reward"][:, :3].tolist() == [[1, 1, 3], [2, 0, 0]]
    assert kept["slot"][:3].tolist() == [0, 1, 0] and kept["clock"][:3].tolist() == [0, 0, 2]
    assert kept["length"][0] == 2 and kept["last_obs"]["obs"][0, 0] == 3, "what the slot saw next ends a full column"
    assert store._filled.tolist() == [1, 1] and store._column.tolist() == [2, 1]
    assert store.complete == 4


def test_rewards_belong_to_the_decision_that_waits_for_them_and_others_are_counted():
    store = store_of(T=4, slots=2)
    act(store, {0: 7.0})
    happen(store, 0, 1.0, waiting=False)
    happen(store, 1, 10.0, waiting=False)  # it has decided nothing
    assert store.complete == 0 and store.pending == 1
    happen(store, 0, 2.0)
    happen(store, 0, 4.0)  # after it is complete
    assert store.complete == 1 and store.pending == 0
    assert store._store["reward"][0, store._column[0]] == 3.0
    assert store.rewards_without_decision == 2


def test_an_end_completes_a_decision_and_the_next_one_is_the_first_of_an_episode():
    store = store_of(T=4, slots=1)
    act(store, {0: 1.0})
    store.write_final_obs(np.array([0]), {"obs": np.array([[8.0]], np.float32)}, np.array([0]))
    happen(store, 0, 1.0, truncated=True, waiting=False)
    assert store.complete == 1 and store._starts.tolist() == [True]
    store.write_final_obs(np.array([0]), {"obs": np.array([[9.0]], np.float32)}, np.array([0]))  # it waits for nothing
    assert store._finals["count"] == 1 and store._finals["index"][0].tolist() == [0, 0]
    assert store._finals["obs"]["obs"][0, 0] == 8.0
    act(store, {0: 2.0})
    assert store._starts.tolist() == [False] and store._store["truncated"][:2, 0].tolist() == [True, False]


def test_memory_is_kept_every_so_many_rows_of_a_column():
    store = store_of(T=4, slots=2, memory_size=1, memory_every=2)
    for step in range(3):
        act(store, {1: float(step)}, memory=np.array([[10.0 + step]], np.float32))
        happen(store, 1, 0.0)
    assert store._store["memory"][:, 0, 0].tolist() == [10.0, 12.0]
    assert store._before.tolist() == [[0.0], [12.0]]
