"""Agents that have acted by themselves: what is kept of it, by whom it is learned from, and what is cut off."""

import copy
import math
from collections import Counter

import numpy as np
import pytest
import torch
from gymnasium import spaces
from playing import play, taken

from rookery import DQNConfig, ModelConfig, SACConfig
from rookery.core.batch import Demand
from rookery.core.seeding import Streams
from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.envs.async_copies.async_env import AsyncCopiesEnv
from rookery.models.memory import MemoryConfig
from rookery.rollout.noise import ActionNoise
from rookery.rollout.slots import SlotStore, WorkerPolicy
from selection import slow
from walkers import Wilful


class Marked(Wilful):
    """Wilful agents that no two copies call the same."""

    def spawn(self, lane):
        self.next_id[lane] = max(self.next_id)
        super().spawn(lane)


@pytest.mark.parametrize("lanes", [1, 3])
def test_what_agents_did_by_themselves_is_kept_where_any_action_can_be_learned_from(lanes):
    copies = Marked(lanes, seed=3)
    worker = play(AsyncCopiesEnv(copies, lanes), T=5, decisions=64, any_actions=True)
    found = taken(worker, 20)
    own = {(agent, number): action for (_, agent, number), action in copies.own.items()}
    by_themselves = 0
    for one in found:
        agent, number = map(int, one.obs)
        assert math.isnan(one.logp) == ((agent, number) in own)
        if math.isnan(one.logp):
            by_themselves += 1
            assert one.action == own[agent, number]
        assert one.reward == np.float32(agent + one.action / 10), "what was truly done is what was paid"
        assert one.terminated or tuple(map(int, one.next)) == (agent, number + 1)
        assert one.first == (number == 0)
    assert 0.2 * len(found) < by_themselves < 0.4 * len(found)
    assert "actions_not_learned" not in worker.counters()


@pytest.mark.parametrize("lanes", [slow(1), 3])
def test_where_it_cannot_what_came_before_is_cut_off_with_what_is_seen(lanes):
    copies = Marked(lanes, seed=4)
    worker = play(AsyncCopiesEnv(copies, lanes), T=5, decisions=64)
    found = taken(worker, 20)
    own = {(agent, number) for _, agent, number in copies.own}
    seen, cuts = Counter(), 0
    for one in found:
        agent, number = map(int, one.obs)
        seen[agent, number] += 1
        assert (agent, number) not in own and not math.isnan(one.logp)
        assert one.reward == np.float32(agent + one.action / 10)
        assert one.terminated or tuple(map(int, one.next)) == (agent, number + 1)
        if not one.terminated and (agent, number + 1) in own:
            cuts += one.truncated
        assert one.first or not (number == 0 or (agent, number - 1) in own)
    assert set(seen.values()) == {1} and cuts > 50
    counters = worker.counters()
    assert counters["actions_not_learned"] > 0.9 * len(own)
    episodes = {(lane, round(sum(rewards), 4)) for (lane, _), (rewards, end) in copies.truth.items() if end is not None}
    assert len(worker.finished) > 200, "what they got by themselves counts in their episodes"
    assert {(one.lane, round(one.total, 4)) for one in worker.finished} <= episodes


def test_a_run_that_stops_among_such_agents_keeps_their_count():
    worker = play(AsyncCopiesEnv(Marked(2), 2), T=5, decisions=32)
    taken(worker, 3)
    other = play(AsyncCopiesEnv(Marked(2), 2), T=5, decisions=32)
    other.load_state_dict(copy.deepcopy(worker.state_dict()))
    assert other.actions_not_learned == worker.actions_not_learned > 0


@pytest.mark.parametrize(
    ("config", "action", "did", "remembered"),
    [
        (DQNConfig, spaces.Discrete(4), np.array([3, 1]), [[4.0], [2.0]]),
        (
            SACConfig,
            spaces.Box(-2, 2, (2,), np.float32),
            np.array([[0.5, -1], [0, 1]], np.float32),
            [[0.5, -1], [0, 1]],
        ),
    ],
)
@pytest.mark.parametrize("kept", [True, False])
def test_a_policy_that_sees_its_last_action_remembers_what_was_done(config, action, did, remembered, kept):
    obs = spaces.Box(-1, 1, (3,), np.float32)
    cfg = config(model=ModelConfig(hidden=(8,), memory=MemoryConfig(previous_action=True)))
    layout, acts = obs_spec(obs, action), action_spec(action)
    policy = cfg.build_policy(layout, acts, "main", torch.Generator().manual_seed(0))
    store = SlotStore(layout, acts, Demand(4, any_actions=True), policy.memory_size, 1, 0) if kept else None
    noise = ActionNoise(Streams(0), "main", policy.noise.uniform, policy.noise.normal, torch.device("cpu"), 0)
    played = WorkerPolicy("main", 0, policy, store, noise)
    for row in range(3):
        played.open_slot(row)
    slab = {"obs": np.ones((3, 3), np.float32)}
    chosen = played.decide(None, slab, slice(0, 3), 0)
    played.override_actions(None, np.array([0, 2]), did)
    assert chosen[[0, 2]].tolist() == did.tolist()
    columns = policy.recall.action_columns
    assert played.memory.memory[[0, 2], columns].tolist() == remembered
    assert played.memory.memory[1, columns].tolist() == np.ravel(chosen[1] + (action == spaces.Discrete(4))).tolist()
    assert np.isnan(played.decided.logp).tolist() == [True, False, True]
