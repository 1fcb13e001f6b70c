"""Vector environments of others leave the same transitions in rollouts, whatever they do after an episode."""

import pytest
from counting import Counting
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from playing import play, taken


def many(num_envs, mode, truncate_at=None, terminate_at=None):
    return SyncVectorEnv([lambda: Counting(terminate_at, truncate_at)] * num_envs, autoreset_mode=mode)


TERMINATED_AT_7 = {(s, s + 1.0, s + 1, False, False) for s in range(6)} | {(6, 7.0, None, True, False)}
TRUNCATED_AT_10 = {(s, s + 1.0, s + 1, False, False) for s in range(9)} | {(9, 10.0, 10, False, True)}


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("lanes", [1, 3])
@pytest.mark.parametrize(
    ("config", "expected"), [({"terminate_at": 7}, TERMINATED_AT_7), ({"truncate_at": 10}, TRUNCATED_AT_10)]
)
def test_every_kind_of_autoreset_leaves_exactly_the_transitions_of_the_hand_list(mode, lanes, config, expected):
    worker = play(many, lanes=lanes, T=4, config={**config, "mode": mode})
    found = taken(worker, takes=11)
    assert {(d.obs[0], d.reward, d.next and d.next[0], d.terminated, d.truncated) for d in found} == expected
    assert {d.obs[0] for d in found if d.first} == {0}
    assert all(d.first for d in found if d.obs[0] == 0)
    for slot in range(lanes):
        clocks = [d.clock for d in found if d.slot == slot]
        assert clocks == list(range(len(clocks)))
    assert worker.policies["main"].store.rewards_without_decision == 0
    assert {episode.total for episode in worker.drain_finished()} == {sum(range(len(expected) + 1))}
