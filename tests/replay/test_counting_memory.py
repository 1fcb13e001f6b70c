"""From the environment to the memory: what is in it are the transitions that can be written down by hand."""

import numpy as np
import pytest
from counting import TWO, Counting, CountingParallel
from playing import play

from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.replay.buffer import ReplayBuffer, ReplayConfig


def memory_for(space, **settings):
    cfg = ReplayConfig(**settings)
    rng = np.random.default_rng(0)
    return ReplayBuffer(obs_spec(space, TWO), action_spec(TWO), cfg, rng, memory_size=0, memory_every=1)


def transitions(memory, gamma=0.5, n_step=1):
    """Possible samples: (s, reward, s', discount), without s' where the episode terminated."""
    batch = memory.sample(60 * len(memory), n_step=n_step, gamma=gamma, beta=0.0)
    seen, following = batch.obs["obs"][:, 0].tolist(), batch.next_obs["obs"][:, 0].tolist()
    rows = zip(seen, batch.reward.tolist(), following, batch.discount.tolist(), strict=True)
    return {(s, r, after if discount else None, discount) for s, r, after, discount in rows}


ENDS = {
    "terminated": ({"terminate_at": 7}, {(6.0, 7.0, None, 0.0)}),
    "truncated": ({"truncate_at": 10}, {(t, t + 1, t + 1, 0.5) for t in (6.0, 7.0, 8.0, 9.0)}),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("lanes", [1, 3])
@pytest.mark.parametrize("train_every", [1, 4, 6])
def test_what_is_in_the_memory_is_what_can_be_counted(end, lanes, train_every):
    ways, last = ENDS[end]
    worker = play(Counting, T=train_every, decisions=train_every, lanes=lanes, config=ways)
    memory = memory_for(Counting().observation_space, capacity=100)
    actions = []
    while memory.total < 70 * lanes:
        rollout = worker.sample()["main"]
        memory.add(rollout)
        actions += rollout.action[rollout.valid].tolist()
    assert transitions(memory) == {(float(t), t + 1.0, t + 1.0, 0.5) for t in range(6)} | last
    kept = memory.rows_between(memory.first, memory.total)
    assert sorted(kept["action"].tolist()) == sorted(actions[-len(memory) :])


def test_windows_of_three_steps_can_be_counted_too():
    worker = play(Counting, T=4, decisions=4, lanes=2, config={"truncate_at": 5})
    memory = memory_for(Counting().observation_space, capacity=40)
    while memory.total < 100:
        memory.add(worker.sample()["main"])
    # other windows are those of the newest rows, which end with what the slot saw last
    found = {row for row in transitions(memory, n_step=3) if row[3] == 0.125 or row[2] == 5.0}
    # rewards t + 1, half (t + 2), a quarter (t + 3); the episode is cut off at 5
    assert {
        (0.0, 1 + 1 + 0.75, 3.0, 0.125),
        (1.0, 2 + 1.5 + 1, 4.0, 0.125),
        (2.0, 3 + 2 + 1.25, 5.0, 0.125),
        (3.0, 4 + 2.5, 5.0, 0.25),
        (4.0, 5.0, 5.0, 0.5),
    } == found


def test_policies_that_play_together_have_memories_of_their_own():
    worker = play(CountingParallel, ("x", "y"), lambda agent, episode: agent, T=2, decisions=4, lanes=2)
    memories = {}
    for _ in range(30):
        for name, rollout in worker.sample().items():
            space = CountingParallel().observation_space(name)
            memories.setdefault(name, memory_for(space, capacity=30)).add(rollout)
    assert {row[0] for row in transitions(memories["x"])} == {0.0, 1.0}
    assert {row[0] for row in transitions(memories["y"])} == {0.0, 1.0, 2.0, 3.0}
    assert {row[3] for row in transitions(memories["x"]) if row[0] == 1.0} == {0.0}
    assert {row[2] for row in transitions(memories["y"]) if row[0] == 3.0} == {4.0}
