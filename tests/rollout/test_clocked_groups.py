from collections import Counter

import numpy as np
import pytest
from playing import play

from rookery.core.errors import EnvError
from rookery.envs.async_copies.async_env import AsyncCopiesEnv
from rookery.envs.groups import GroupEnv
from selection import slow
from walkers import Squads


def rows_of(worker, takes):
    """Each valid decision as a dict, with its observation by path."""
    found = []
    while takes:
        for rollout in worker.sample().values():
            takes -= 1
            for f, length in enumerate(rollout.length.tolist()):
                for t in range(length):
                    seen = {path: leaf[t, f].clone().numpy() for path, leaf in rollout.obs.items()}
                    ends = bool(rollout.terminated[t, f]), bool(rollout.truncated[t, f])
                    found.append((seen, float(rollout.reward[t, f]), int(rollout.action[t, f]), *ends))
    return found


@pytest.mark.parametrize("more_after", [slow(10**9), 60])
def test_every_decision_of_members_of_groups_with_clocks_of_their_own(more_after):
    copies = Squads(2, more_after=more_after)
    env = GroupEnv(AsyncCopiesEnv(copies, 2))
    worker = play(env, T=5, decisions=64)
    found = rows_of(worker, 25)
    assert len(found) > 1500 and worker.layout == env.layout
    assert len(env.groups) == (2 if more_after > 10**6 else 3)
    last = {agent: decisions - 1 for _, _, decisions, _, _, living in copies.ended for agent in living}
    cut = {agent: was_cut for _, _, _, _, was_cut, living in copies.ended for agent in living}
    met, fallen = set(), 0
    for seen, reward, action, terminated, truncated in found:
        if not seen["central/acted"][0]:
            fallen += 1
            assert not seen["obs"].any() and reward == int(reward)
            continue
        agent, number = map(int, seen["obs"])
        assert (agent, number) not in met
        met.add((agent, number))
        own, shared = copies.own[agent][number]
        assert reward == pytest.approx(own + shared, abs=1e-4) and own == pytest.approx(agent / 100 + action / 10)
        alive = seen["central/alive"].astype(bool)
        assert {int(row[0]) for row in seen["central/members/obs"][alive]} == set(copies.seen[agent, number])
        assert not seen["central/members/obs"][~alive].any()
        ends = last.get(agent) == number
        assert (terminated, truncated) == (ends and not cut[agent], ends and cut[agent])
    assert fallen > 200


def test_who_has_fallen_learns_from_what_its_group_gets_until_it_ends():
    copies = Squads(1, seed=3)
    worker = play(GroupEnv(AsyncCopiesEnv(copies, 1)), T=5, decisions=64)
    found = rows_of(worker, 25)
    rewards = Counter(int(reward) for seen, reward, *_ in found if not seen["central/acted"][0])
    wanted = Counter(int(got) for rewards in copies.fallen.values() for got in rewards)
    missing, extra = wanted - rewards, rewards - wanted
    assert not extra and sum(missing.values()) < 40 < sum(wanted.values()), "but what is not complete yet"


def test_a_groups_episode_is_one_with_what_its_members_and_the_group_got():
    copies = Squads(2, seed=1)
    worker = play(GroupEnv(AsyncCopiesEnv(copies, 2)), T=5, decisions=64)
    rows_of(worker, 20)
    wanted = Counter()
    for lane, everyone, decisions, total, _, _ in copies.ended:
        own = tuple(sorted(round(sum(one for one, _ in copies.own[agent]), 3) for agent in everyone))
        wanted[lane, decisions, total, own] += 1
    found = Counter(
        (one.lane, one.length, sum(one.groups.values()), tuple(sorted(round(got, 3) for got in one.agents.values())))
        for one in worker.finished
    )
    assert sum(found.values()) > 50
    assert not found - wanted and not wanted - found
    for one in worker.finished:
        assert len(one.groups) == 1
        assert one.total == pytest.approx(sum(one.agents.values()) + sum(one.groups.values()))


def test_a_group_larger_than_any_before_is_refused():
    copies = Squads(1)
    env = GroupEnv(AsyncCopiesEnv(copies, 1))
    env.reset(lambda lane, episode: 0)
    copies.size, copies.told = 4, 0
    copies.muster(0, 1)

    def play_on():
        for _ in range(40):
            env.step([np.zeros(int(env._rows[0].waiting.sum()), dtype=np.int64)])

    with pytest.raises(EnvError, match="A#6 appeared, and a group is larger than any was at the beginning"):
        play_on()
