from collections import Counter

import numpy as np
from playing import play, taken

from rookery.envs.async_copies.async_env import AsyncCopiesEnv
from walkers import Walkers


def test_every_decision_of_agents_with_clocks_of_their_own_is_recorded_once_with_what_came_of_it():
    copies = Walkers(3)
    worker = play(AsyncCopiesEnv(copies, 3), T=5, decisions=64)
    found = taken(worker, 20)
    assert len(found) > 1000
    seen = Counter()
    for one in found:
        agent, number = map(int, one.obs)
        seen[agent, number] += 1
        assert one.reward == np.float32(agent + one.action / 10)
        if one.terminated:
            assert one.next is None
        else:
            assert tuple(map(int, one.next)) == (agent, number + 1), "the next it saw, or its last"
        assert one.first == (number == 0)
    most = Counter(number for count in [seen.values()] for number in count)
    assert max(most) <= 3, "ids of different copies are the same numbers, so up to three may look alike"
    ends = {(agent, len(rewards) - 1, cut) for (_, agent), (rewards, cut) in copies.truth.items() if cut is not None}
    for one in found:
        if one.terminated or one.truncated:
            assert (*map(int, one.obs), one.truncated) in ends


def test_each_agents_episode_is_one_with_its_decisions_and_what_it_got():
    copies = Walkers(2, seed=1)
    worker = play(AsyncCopiesEnv(copies, 2), T=5, decisions=64)
    taken(worker, 10)
    wanted = Counter(
        (lane, len(rewards), round(sum(rewards), 4))
        for (lane, _), (rewards, cut) in copies.truth.items()
        if cut is not None
    )
    results = worker.finished
    assert len(results) > 100
    found = Counter((one.lane, one.length, round(one.total, 4)) for one in results)
    assert not found - wanted
    assert sum((wanted - found).values()) == 0
    assert all(len(one.agents) == 1 and set(one.policies.values()) == {"main"} for one in results)


def test_steps_are_counted_for_lanes_that_stepped():
    copies = Walkers(4, seed=2)
    step_messages = []
    inner = copies.step_messages
    copies.step_messages = lambda seconds: step_messages.append(found := inner(seconds)) or found
    worker = play(AsyncCopiesEnv(copies, 4), T=5, decisions=64)
    taken(worker, 5)
    assert worker.env_steps == worker.lane_steps == sum(map(len, step_messages)) < worker.vector_steps * 4
