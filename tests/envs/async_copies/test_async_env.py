from collections import deque

import numpy as np
import pytest
from gymnasium import spaces

from rookery.core.errors import EnvError
from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.envs.async_copies.async_env import AsyncCopiesEnv
from rookery.envs.async_copies.step_message import Asking, CopyBehavior, Ended, StepMessage

BOX = spaces.Box(-np.inf, np.inf, (2,), np.float32)
OBS, ACTION = obs_spec(BOX, spaces.Discrete(3)), action_spec(spaces.Discrete(3))


def asking(ids, seen, reward=None, groups=(), group_reward=None):
    obs = {"obs": np.array([[value, 0] for value in seen], dtype=np.float32)}
    reward = np.zeros(len(ids)) if reward is None else np.array(reward, dtype=float)
    told = None if group_reward is None else np.array(group_reward, dtype=float)
    return Asking(list(ids), obs, reward, list(groups), told)


def ended(ids, seen, reward, truncated, groups=(), group_reward=None):
    one = asking(ids, seen, reward, groups, group_reward)
    return Ended(one.ids, one.obs, one.reward, one.groups, one.group_reward, np.array(truncated))


class Scripted:
    """Copies that say what a test wrote down, and note what they are answered."""

    own_episodes, parameters, notes, name = True, {}, (), "scripted"

    def __init__(self, script, behaviors=None):
        self.script, self.answers, self.begun = deque(script), [], []
        self.behaviors = {"A": CopyBehavior(OBS, ACTION)} if behaviors is None else behaviors
        self.counters = {}

    def begin(self, lane, episode, plan):
        self.begun.append((lane, episode))

    def replan(self, plan):
        pass

    def step_messages(self, seconds):
        return self.script.popleft() if self.script else []

    def answer(self, lane, episode, answers):
        self.answers.append((lane, {name: (list(one.ids), one.actions.tolist()) for name, one in answers.items()}))

    def close(self):
        self.closed = True


def played(script, num_lanes=1, **kwargs):
    copies = Scripted(script, **kwargs)
    env = AsyncCopiesEnv(copies, num_lanes)
    env.reset(lambda lane, episode: 0)
    return copies, env


def actions_of(env, step, value=0):
    return [np.full(int(rows.waiting.sum()), value) for rows in step.rows]


def test_a_step_shows_only_lanes_that_have_said_something():
    copies, env = played([[StepMessage(1, {"A": asking([7], [1.0])})]], num_lanes=3)
    step = env.step([np.zeros(0, int)])
    assert step.stepped.tolist() == [False, True, False]
    assert step.rows[0].waiting.tolist() == [False, True, False]
    assert step.rows[0].obs["obs"][1, 0] == 1.0
    assert copies.answers == []
    step = env.step([np.array([2])])
    assert copies.answers == [(1, {"A": ([7], [2])})]
    assert not step.stepped.any() and not step.rows[0].waiting.any()


def test_an_agent_that_comes_in_the_step_in_which_another_ends_takes_its_seat():
    copies, env = played(
        [
            [StepMessage(0, {"A": asking([1], [1.0])})],
            [StepMessage(0, {"A": asking([2], [5.0], [9.0])}, {"A": ended([1], [4.0], [0.5], [True])})],
        ]
    )
    step = env.step([np.zeros(0, int)])
    step = env.step(actions_of(env, step))
    rows = step.rows[0]
    assert rows.reward.tolist() == [0.5], "what the new one got before it first acted belongs to nobody"
    assert rows.truncated.tolist() == [True] and rows.terminated.tolist() == [False]
    assert rows.final_index.tolist() == [0] and rows.final_obs["obs"][0, 0] == 4.0
    assert rows.obs["obs"][0, 0] == 5.0 and rows.waiting.tolist() == [True]
    assert env.kinds[0].agents == ("A#0",) and env.episode.tolist() == [1]
    step = env.step(actions_of(env, step))
    assert copies.answers[-1] == (0, {"A": ([2], [0])})
    assert not step.rows[0].truncated.any() and not step.rows[0].reward.any()


def test_more_agents_than_seats_widen_the_rows_and_keep_what_stands_there():
    copies, env = played(
        [
            [StepMessage(1, {"A": asking([1], [3.0])})],
            [StepMessage(0, {"A": asking([5, 6, 7], [1.0, 2.0, 3.0])})],
        ],
        num_lanes=2,
    )
    step = env.step([np.zeros(0, int)])
    step = env.step(actions_of(env, step))
    assert env.layout == 1 and env.kinds[0].agents == ("A#0", "A#1", "A#2")
    assert step.rows[0].waiting.tolist() == [True, True, True, False, False, False]
    assert step.rows[0].obs["obs"][3, 0] == 3.0


def test_actions_reach_the_agents_in_whatever_order_they_ask():
    copies, env = played(
        [
            [StepMessage(0, {"A": asking([1, 2, 3], [1.0, 2.0, 3.0])})],
            [StepMessage(0, {"A": asking([3, 1], [30.0, 10.0])})],
        ]
    )
    step = env.step([np.zeros(0, int)])
    step = env.step([np.array([0, 1, 2])])
    assert copies.answers[-1] == (0, {"A": ([1, 2, 3], [0, 1, 2])})
    assert step.rows[0].obs["obs"][:, 0].tolist() == [10.0, 2.0, 30.0]
    env.step([np.array([1, 2])])
    assert copies.answers[-1] == (0, {"A": ([3, 1], [2, 1])})


def test_a_behaviour_that_appears_later_is_a_kind_of_its_own():
    copies, env = played([[StepMessage(0, {"A": asking([1], [1.0])})], [StepMessage(0, {"B": asking([2], [2.0])})]])
    step = env.step([np.zeros(0, int)])
    copies.behaviors["B"] = CopyBehavior(OBS, ACTION)
    step = env.step(actions_of(env, step))
    assert [kind.agents for kind in env.kinds] == [("A#0",), ("B#0",)] and env.layout == 1
    assert step.rows[1].waiting.tolist() == [True] and step.rows[0].waiting.tolist() == [False]


def test_an_arrival_in_which_nobody_asks_is_answered_all_the_same():
    copies, env = played(
        [
            [StepMessage(0, {"A": asking([1], [1.0])})],
            [StepMessage(0, {}, {"A": ended([1], [2.0], [1.0], [False])})],
            [],
        ]
    )
    step = env.step([np.zeros(0, int)])
    step = env.step(actions_of(env, step))
    assert step.rows[0].terminated.tolist() == [True] and not step.rows[0].waiting.any()
    env.step(actions_of(env, step))
    assert copies.answers[-1] == (0, {})


def test_a_lost_copy_cuts_off_its_agents_with_what_they_saw_last():
    copies, env = played(
        [[StepMessage(0, {"A": asking([1], [4.0])})], [StepMessage(0, {"A": asking([1], [8.0])}, lost=True)]],
        num_lanes=1,
    )
    step = env.step([np.zeros(0, int)])
    step = env.step(actions_of(env, step))
    assert step.lost.tolist() == [True] and step.rows[0].truncated.tolist() == [True]
    assert step.rows[0].final_obs["obs"][0, 0] == 4.0 and step.rows[0].obs["obs"][0, 0] == 8.0


GROUPED = {"A": CopyBehavior(OBS, ACTION, (0, 0, 1))}


def test_members_of_a_group_have_seats_together_and_are_told_what_it_got():
    copies, env = played(
        [
            [StepMessage(0, {"A": asking([1, 2, 3], [1.0, 2.0, 3.0], groups=["x", "x", "y"])})],
            [
                StepMessage(
                    0,
                    {"A": asking([2, 3], [2.0, 3.0], groups=["x", "y"], group_reward=[0.0, 0.0])},
                    {"A": ended([1], [1.0], [0.0], [False], groups=["x"])},
                )
            ],
            [StepMessage(0, {"A": asking([2, 3], [2.0, 3.0], groups=["x", "y"], group_reward=[5.0, 1.0])})],
        ],
        behaviors=GROUPED,
    )
    assert dict(env.groups) == {"group 0": ("A#0", "A#1"), "group 1": ("A#2",)}
    step = env.step([np.zeros(0, int)])
    step = env.step(actions_of(env, step))
    step = env.step(actions_of(env, step))
    assert step.rows[0].group_reward.tolist() == [5.0, 5.0, 1.0], "who has ended is told as well"
    assert env.layout == 0


def test_a_group_that_nobody_heard_of_takes_the_place_of_one_whose_members_are_gone():
    copies, env = played(
        [
            [StepMessage(0, {"A": asking([1, 2, 3], [1.0, 2.0, 3.0], groups=["x", "x", "y"])})],
            [
                StepMessage(
                    0,
                    {"A": asking([4, 5, 3], [2.0, 2.0, 3.0], groups=["z", "z", "y"])},
                    {"A": ended([1, 2], [1.0, 1.0], [0.0, 0.0], [False, False], groups=["x", "x"])},
                )
            ],
        ],
        behaviors=GROUPED,
    )
    step = env.step([np.zeros(0, int)])
    step = env.step(actions_of(env, step))
    assert env.layout == 0 and step.rows[0].waiting.all()


@pytest.mark.parametrize("what", ["obs", "reward"])
def test_numbers_that_are_none_are_refused_with_copy_and_behaviour(what):
    seen, reward = ([np.nan], [0.0]) if what == "obs" else ([1.0], [np.inf])
    _, env = played([[StepMessage(1, {"A": asking([1], seen, reward)})]], num_lanes=2)
    with pytest.raises(EnvError, match="scripted: environment 1, episode 0, behaviour A: .*non-finite"):
        env.step([np.zeros(0, int)])


def test_a_state_brings_back_kinds_and_seats_and_begins_anew():
    script = [[StepMessage(0, {"A": asking([1, 2], [1.0, 2.0]), "B": asking([3], [1.0])})]]
    both = {"A": CopyBehavior(OBS, ACTION), "B": CopyBehavior(OBS, ACTION)}
    _, env = played(script, behaviors=both)
    env.step([np.zeros(0, int), np.zeros(0, int)])
    state = env.state_dict()
    copies = Scripted([[StepMessage(0, {"A": asking([9], [7.0])})]])
    again = AsyncCopiesEnv(copies, 1)
    step, lost = again.load_state_dict(state, lambda lane, episode: 0)
    assert [kind.agents for kind in again.kinds] == [("A#0", "A#1"), ("B#0",)]
    assert lost.all() and not again.exact and copies.begun == [(0, 1)]
    step = again.step(actions_of(again, step))
    assert step.rows[0].waiting.tolist() == [True, False]


def test_a_state_of_other_spaces_is_refused():
    _, env = played([])
    other = obs_spec(spaces.Box(0, 1, (3,), np.float32), spaces.Discrete(3))
    again = AsyncCopiesEnv(Scripted([], {"A": CopyBehavior(other, ACTION)}), 1)
    with pytest.raises(EnvError, match="behaviour A has observations"):
        again.load_state_dict(env.state_dict(), lambda lane, episode: 0)
