"""Whatever agents do, every decision is handed over once, in order, with its own reward and future."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from playing import ScriptedEnv, decisions_of, play


def dealt(seed):
    """A mapping that deals agents to two policies anew in each episode."""
    return lambda agent, episode: "ab"[hash((seed, agent, episode.lane, episode.index)) % 2]


@given(
    seed=st.integers(0, 2**32 - 1),
    lanes=st.integers(1, 3),
    agents=st.integers(1, 4),
    T=st.integers(1, 6),
    decisions=st.none() | st.integers(1, 20),
    other_pace=st.integers(1, 30),
    remap=st.sampled_from(["one policy", "two policies", "dealt anew"]),
    restless=st.sampled_from([0.0, 0.3, 0.7]),
)
def test_every_decision_is_taken_once_in_order_with_its_reward_and_its_future(
    seed, lanes, agents, T, decisions, other_pace, remap, restless
):
    env = ScriptedEnv(seed, lanes, agents, restless)
    if remap == "one policy":
        names, rule = ["main"], None
    elif remap == "two policies":
        names, rule = ["a", "b"], {f"agent{number}": "ab"[number % 2] for number in range(agents)}
    else:
        names, rule = ["a", "b"], dealt(seed)
    demands = {name: decisions if name != "b" else other_pace for name in names}
    worker = play(env, names, rule, T={"main": T, "a": T, "b": T + 1}, decisions=demands, seed=seed)
    received = {name: [] for name in names}
    played_by = {name: [(0, 0)] for name in names}  # (vector step, version) from when on
    while worker.vector_steps < 40:
        rollouts = worker.sample(max_env_steps=7 * lanes)
        for name, rollout in rollouts.items():
            wanted = (
                demands[name]
                or worker.policies[name].store.demand.fragment_length * worker.policies[name].store.num_slots
            )
            assert rollout.num_decisions >= wanted
            received[name] += decisions_of(rollout)
        worker.set_weights({name: worker.policies[name].policy for name in rollouts})
        for name in rollouts:
            played_by[name].append((worker.vector_steps, worker.version))
    for name, seat in worker.policies.items():
        if seat.store.complete:
            received[name] += decisions_of(seat.store.drain(worker.now.rows[seat.kind].obs, seat.row_of_slot))

    truth = {entry.obs: entry for entry in env.account}
    found = []
    for name, decisions_found in received.items():
        lives, ages = {}, {}
        for decision in decisions_found:
            entry = truth[decision.obs]
            assert entry.complete
            for field in ("action", "reward", "terminated", "truncated", "next", "first"):
                assert getattr(decision, field) == getattr(entry, field), field
            assert abs(math.exp(decision.logp) * 1000 - decision.action - 0.5) < 0.51
            if decision.version is not None:
                assert decision.version == [v for since, v in played_by[name] if since <= entry.vector_step][-1]
            # a slot's clock counts on with the same agent, or starts anew
            assert (decision.clock, entry.agent) == lives.get(decision.slot) or decision.clock == 0
            lives[decision.slot] = decision.clock + 1, entry.agent
            assert entry.vector_step > ages.get((decision.slot, entry.agent), -1)
            ages[decision.slot, entry.agent] = entry.vector_step
            found.append(decision.obs)
    assert sorted(found) == sorted(entry.obs for entry in env.account if entry.complete)
    unclaimed = worker.counters()["rewards_without_decision"]
    assert unclaimed == env.lost
    if not env.lost:
        assert sum(entry.reward for entry in env.account) == env.paid
    total = sum(result.total for result in worker.finished) + sum(desk.returns.sum() for desk in worker.tables)
    assert np.isclose(total, env.paid)
