"""Agents of a PettingZoo environment that end early, stay listed or respawn: decisions counted by hand."""

import numpy as np
import pytest
from counting import Pair
from playing import play, taken

from rookery import DQNConfig, Trainer
from rookery.replay.buffer import n_step_windows


def by_slot(after, policy_rows, paid=0.0, **options):
    """Decisions of agents x and y: (observation, reward, terminated, truncated, next, first), in their order."""
    worker = play(Pair, T=policy_rows, config={"after": after, "paid": paid}, **options)
    found = {0: [], 1: []}
    for one in taken(worker, 1):
        row = (one.obs[0], one.reward, one.terminated, one.truncated, one.next and one.next[0], one.first)
        found[one.slot].append(row)
    return found[0], found[1]


LIFE = [(0, 1, False, False, 1, True), (1, 2, True, False, None, False)]
Y = [(t, 10.0 * (t + 1), False, t == 5, t + 1, t == 0) for t in range(6)]


@pytest.mark.regression(
    "wrong result", "An agent that has ended and stays in `env.agents` of a PettingZoo environment is not asked again"
)
@pytest.mark.parametrize("after", ["removed", "one step", "stays", "flagged"])
def test_nothing_is_recorded_of_an_agent_after_its_end(after):
    x, y = by_slot(after, 6, paid=7.0)
    assert y == [*Y, *Y[:2]]
    assert x == [*LIFE, *LIFE]  # what it is paid after its end belongs to no decision


@pytest.mark.regression(
    "wrong result",
    "An agent of a PettingZoo environment that is shown again with both flags false has respawned and acts",
)
def test_a_respawned_agent_records_a_life_of_its_own():
    x, y = by_slot("respawns", 6, paid=7.0)
    assert y == [*Y, *Y[:1]]
    assert x == [*LIFE, (4, 5, False, False, 5, True), (5, 6, False, True, 6, False), *LIFE[:1]]


@pytest.mark.regression(
    "wrong result",
    "An agent of a PettingZoo environment that is shown again with both flags false has respawned and acts",
)
def test_windows_of_a_replay_end_where_a_life_does():
    settings = DQNConfig(model={"hidden": (8,)}, learning_starts=1000, train_every=4)
    config = {"after": "respawns", "paid": 7.0}
    with Trainer(Pair, settings, env_config=config, seed=0, num_envs=1, console="quiet") as trainer:
        trainer.train({"env_steps": 12})
        buffer = trainer.learners["main"].replay.own
    rows = np.flatnonzero(buffer.slot[: len(buffer)] == 0)[:4]
    reward, discount, _ = n_step_windows(rows, buffer.after, buffer.reward, n_step=3, gamma=0.5)
    # x earns 1 and 2 and is dead; it is back in step 4, earns 5 and 6, and is cut off
    assert reward.tolist() == [1 + 0.5 * 2, 2, 5 + 0.5 * 6, 6]
    assert discount.tolist() == [0, 0, 0.25, 0.5]
    assert buffer.begins[rows].tolist() == [True, False, True, False]
