"""Environments of ML-Agents' low-level API as environments here."""

import time

import numpy as np
import pytest
from line_walkers import DUCK, LineWalkers, OursByInheritance, make_numbered, make_said, make_walkers

from rookery import Trainer
from rookery.core.errors import EnvError
from rookery.core.spaces.arrays import MASK
from rookery.envs.async_copies.async_env import AsyncCopiesEnv
from rookery.envs.choice import choose
from rookery.envs.make import has_single_envs, lane_maker, make_env
from rookery_mlagents.link.base_env_checks import is_base_env, makes_base_envs


def plan(lane, episode):
    return 0


def made(env, num_lanes=1, config=None, implementation="auto", wrappers=()):
    return make_env(env, config, wrappers, num_lanes, implementation)


def right(env, step):
    return [np.ones((int(rows.waiting.sum()), *kind.action.shape), int) for kind, rows in zip(env.kinds, step.rows)]


def next_shown(env, actions):
    """Steps until a lane has sent a step."""
    step = env.step(actions)
    for _ in range(20):
        if step.stepped.any():
            return step
        step = env.step([np.zeros((0, *kind.action.shape), int) for kind in env.kinds])
    raise AssertionError("nobody said anything")


@pytest.mark.parametrize("api", [None, DUCK], ids=["ours", "another package's"])
def test_agents_are_seats_that_act_and_earn(api):
    env = made(LineWalkers(2, **({"api": api} if api else {})))
    assert isinstance(env, AsyncCopiesEnv) and env.own_episodes and not env.exact
    assert env.kinds[0].agents == ("Walker#0", "Walker#1")
    env.reset(plan)
    step = next_shown(env, [np.zeros(0, int)])
    assert step.rows[0].waiting.all() and not step.rows[0].obs["obs"].any()
    for place in (1.0, 2.0):
        step = next_shown(env, right(env, step))
        assert step.rows[0].obs["obs"][:, 0].tolist() == [place, place]
        assert not step.rows[0].reward.any()
    step = next_shown(env, right(env, step))
    rows = step.rows[0]
    assert rows.reward.tolist() == [1.0, 1.0] and rows.terminated.all() and not rows.truncated.any()
    assert rows.obs["obs"][:, 0].tolist() == [0.0, 0.0] and rows.waiting.all()
    env.close()


def test_actions_reach_each_agent_whatever_the_order_of_the_environment():
    walkers = LineWalkers(3)
    env = made(walkers)
    env.reset(plan)
    step = next_shown(env, [np.zeros(0, int)])
    by_id = dict(zip(walkers.decisions.agent_id.tolist(), range(3), strict=True))
    step = next_shown(env, [np.array([1, 0, 1])])
    assert step.rows[0].obs["obs"][:, 0].tolist() == [1.0, -1.0, 1.0]
    assert list(by_id) != sorted(by_id), "the environment names them in another order than their seats"


def test_a_walker_that_is_cut_off_is_truncated_with_what_it_saw_last():
    env = made(LineWalkers(1, limit=2))
    env.reset(plan)
    step = next_shown(env, [np.zeros(0, int)])
    step = next_shown(env, right(env, step))
    step = next_shown(env, right(env, step))
    rows = step.rows[0]
    assert rows.truncated.tolist() == [True] and rows.final_obs["obs"][0, 0] == 2.0 and rows.obs["obs"][0, 0] == 0.0


def test_masks_are_turned_into_what_is_allowed():
    env = made(LineWalkers(1, masked=True))
    env.reset(plan)
    step = next_shown(env, [np.zeros(0, int)])
    for _ in range(2):
        step = next_shown(env, [np.zeros(1, int)])
    assert step.rows[0].obs[MASK].tolist() == [[False, True]]


def test_an_agent_that_decides_less_often_does_not_wait_meanwhile():
    env = made(LineWalkers(2, slow=True))
    env.reset(plan)
    step = next_shown(env, [np.zeros(0, int)])
    assert step.rows[0].waiting.sum() == 2
    step = next_shown(env, right(env, step))
    assert step.rows[0].waiting.sum() == 1


def test_groups_are_groups():
    env = made(LineWalkers(2, groups=True))
    env.reset(plan)
    assert dict(env.groups) == {"group 0": ("Walker#0", "Walker#1")}
    step = next_shown(env, [np.zeros(0, int)])
    step = next_shown(env, right(env, step))
    assert step.rows[0].group_reward.tolist() == [1.0, 1.0]


def test_numbers_as_actions():
    env = made(LineWalkers(2, numbers=True))
    env.reset(plan)
    next_shown(env, [np.zeros((0, 1))])
    step = next_shown(env, [np.array([[0.5], [-0.5]], np.float32)])
    assert step.rows[0].obs["obs"][:, 0].tolist() == [1.0, -1.0]


@pytest.mark.parametrize("env", [LineWalkers, OursByInheritance, make_walkers, make_said, lambda: LineWalkers(2)])
def test_several_copies_step_in_threads_and_none_waits_for_another(env):
    several = made(env, 3)
    several.reset(plan)
    seen = np.zeros(3, bool)
    step = several.step([np.zeros(0, int)])
    deadline = time.monotonic() + 20  # on a busy machine a thread may start late
    while not (seen.all() and several.episode.sum() > 3) and time.monotonic() < deadline:
        seen |= step.stepped
        step = several.step(right(several, step))
    assert seen.all() and several.episode.sum() > 3
    copies = [copy.env for copy in several._copies._copies]
    several.close()
    several.close()
    assert [one.closed for one in copies] == [1, 1, 1]


def test_a_function_is_told_which_copy_it_makes():
    env = made(make_numbered, 2)
    assert [copy.env.worker_id for copy in env._copies._copies] == [0, 1]
    env.close()


def test_what_makes_them_is_known_or_found_out():
    assert makes_base_envs(LineWalkers) and makes_base_envs(make_said) and makes_base_envs(LineWalkers(1))
    assert is_base_env(LineWalkers(1)) and not makes_base_envs(make_walkers) and not makes_base_envs(dict)
    assert not has_single_envs(make_said, None, (), 4, "auto")
    assert choose(lane_maker(make_walkers, None, ()), 4, "walkers").implementation == "serial"


@pytest.mark.parametrize(
    ("env", "kwargs", "message"),
    [
        (LineWalkers(1), {"num_lanes": 2}, "cannot be 2 copies: set sampling.num_envs=1, or give a function"),
        (LineWalkers(1), {"config": {"num": 3}}, "takes no env.config"),
        (LineWalkers, {"config": {"nun": 3}}, "unexpected keyword argument 'nun'"),
        (LineWalkers, {"wrappers": (dict,)}, "cannot be wrapped"),
        (make_walkers, {"num_lanes": 2, "implementation": "batched"}, "no batched variant"),
    ],
)
def test_what_cannot_be_is_refused(env, kwargs, message):
    with pytest.raises(EnvError, match=message):
        made(env, **kwargs)


class Broken(LineWalkers):
    def step(self):
        raise RuntimeError("the physics exploded")


class OtherShape(LineWalkers):
    def step(self):
        super().step()
        self.decisions.obs = [np.zeros((len(self.decisions), 2))]


class NoActions(LineWalkers):
    def reset(self):
        super().reset()
        self._specs = {
            "Walker": self.api.BehaviorSpec(self._specs["Walker"].observation_specs, self.api.ActionSpec(0, ()))
        }


def played(kind, num_lanes):
    env = made(kind, num_lanes)
    env.reset(plan)
    step = env.step([np.zeros(0, int)])
    for _ in range(5):
        step = env.step(right(env, step))


@pytest.mark.parametrize("num_lanes", [1, 2])
@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Broken, "Broken: environment [01]: step\\(\\) raised RuntimeError: the physics exploded"),
        (OtherShape, "environment [01], behaviour Walker: sensor 'place': shape \\(2, 2\\), expected \\(2, 1\\)"),
        (NoActions, "behaviour Walker: behaviour 'Walker' has no actions"),
    ],
)
def test_failures_say_which_copy_and_what(kind, message, num_lanes):
    with pytest.raises(EnvError, match=message):
        played(kind, num_lanes)


def test_one_object_is_not_played_twice_at_a_time():
    walkers = LineWalkers(1)
    env = made(walkers)
    with pytest.raises(EnvError, match="in use already.*give a function that makes one a call"):
        made(walkers, 4)
    env.close()
    made(walkers).close()


def test_beginning_anew_forgets_what_was_said():
    env = made(LineWalkers, 2)
    env.reset(plan)
    step = env.step([np.zeros(0, int)])
    env.step(right(env, step))
    env.restart(plan)
    step = next_shown(env, [np.zeros(0, int)])
    assert not step.rows[0].obs["obs"][step.rows[0].waiting].any()
    state = env.state_dict()
    again = made(LineWalkers, 2)
    again.load_state_dict(state, plan)
    env.close()
    again.close()


SETTINGS = {
    "algorithm.fragment_length": 16, "algorithm.minibatch_size": 32, "algorithm.lr": 5e-3,
    "algorithm.model.hidden": [16], "seed": 3, "logging.console": "quiet",
}  # fmt: skip


def trained(env, **more):
    trainer = Trainer(env, config={**SETTINGS, "stop.env_steps": 2000, **more})
    rewards = [row["return_mean"] for row in (result.row() for result in trainer.results()) if "return_mean" in row]
    trainer.close()
    assert rewards[0] < 0.6, "chance earns 0"
    return rewards[-1]


def test_a_trainer_learns_in_one_object():
    reward = trained(LineWalkers(4), **{"sampling.num_envs": 1})
    assert reward > 0.9


def test_a_trainer_learns_in_copies_that_a_function_makes():
    reward = trained(make_walkers, **{"sampling.num_envs": 4})
    assert reward > 0.9
