"""Vector environments of others, as rows: Gymnasium's, those of users, EnvPool's."""

import functools

import gymnasium
import numpy as np
import pytest
from counting import Counting, Walk
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from messages import check_error
from rookery.core.errors import EnvError
from rookery.envs.adapters.classic import BatchedCartPole
from rookery.envs.base import VectorEnv
from rookery.envs.make import is_vector, make_env
from rookery.envs.random_play import random_actions
from rookery.envs.vector.foreign import ForeignEnv

MODES = list(AutoresetMode)


def many(num_envs, mode=AutoresetMode.SAME_STEP, one=Counting, **config):
    return SyncVectorEnv([functools.partial(one, **config)] * num_envs, autoreset_mode=mode)


def made(env=many, lanes=2, implementation="auto", wrappers=(), **config):
    return make_env(env, config, wrappers, lanes, implementation)


def message(*args, **kwargs):
    with pytest.raises(EnvError) as caught:
        made(*args, **kwargs)
    return str(caught.value)


def seeds(lane, episode):
    return 1000 * lane + episode


def table(env, steps):
    """Each step of lane 0: obs (None if it does not wait), reward, terminated, truncated, final obs, ended, episode."""
    shown, found = env.reset(seeds), []
    for _ in range(steps):
        shown = env.step([np.zeros(int(shown.rows[0].waiting.sum()), int)])
        rows = shown.rows[0]
        obs = float(rows.obs["obs"][0, 0]) if rows.waiting[0] else None
        final = rows.final_obs["obs"][rows.final_index == 0, 0].tolist()
        ends = (bool(rows.terminated[0]), bool(rows.truncated[0]))
        found.append((obs, float(rows.reward[0]), *ends, final, bool(shown.ended[0]), int(env.episode[0])))
    return found


GOING = (False, False, [], False)


def test_a_foreign_env_is_an_inexact_vector_env_and_says_so():
    env = made()
    assert isinstance(env, VectorEnv)
    assert isinstance(env, ForeignEnv)
    assert not env.exact
    assert "exact: false" in env.notes[0]


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.DISABLED])
def test_truncation_shows_the_next_episode_at_once_and_the_last_observation_beside_it(mode):
    assert table(made(mode=mode, truncate_at=2), 4) == [
        (1.0, 1.0, *GOING, 0),
        (0.0, 2.0, False, True, [2.0], True, 1),
        (1.0, 1.0, *GOING, 1),
        (0.0, 2.0, False, True, [2.0], True, 2),
    ]


def test_a_next_step_autoreset_is_a_step_in_which_the_lane_did_not_have_to_act():
    assert table(made(mode=AutoresetMode.NEXT_STEP, truncate_at=2), 6) == [
        (1.0, 1.0, *GOING, 0),
        (None, 2.0, False, True, [2.0], True, 1),
        (0.0, 0.0, *GOING, 1),
        (1.0, 1.0, *GOING, 1),
        (None, 2.0, False, True, [2.0], True, 2),
        (0.0, 0.0, *GOING, 2),
    ]


@pytest.mark.parametrize("mode", MODES)
def test_termination_keeps_no_last_observation(mode):
    env = made(mode=mode, terminate_at=1)
    assert table(env, 1)[0][1:] == (1.0, True, False, [], True, 1)


@pytest.mark.parametrize("mode", MODES)
def test_actions_of_waiting_lanes_reach_them_and_no_others(mode):
    # lane 1 ends after two steps, lane 0 after five: while lane 1 is reset, lane 0 alone acts
    vector = SyncVectorEnv([lambda: Counting(truncate_at=5), lambda: Counting(truncate_at=2)], autoreset_mode=mode)
    env = made(lambda num_envs: vector)
    shown = env.reset(seeds)
    for step in range(5):
        waiting = np.flatnonzero(shown.rows[0].waiting)
        shown = env.step([(waiting + step) % 2])
    assert [int(action) for action in vector.envs[0].actions] == [0, 1, 0, 1, 0]
    expected = [1, 0, 0, 1] if mode is AutoresetMode.NEXT_STEP else [1, 0, 1, 0, 1]
    assert [int(action) for action in vector.envs[1].actions] == expected


@pytest.mark.parametrize("mode", MODES)
def test_first_episodes_have_their_seeds_and_later_ones_too_where_lanes_are_reset_by_us(mode):
    env = made(mode=mode, truncate_at=2)
    table(env, 5)
    _, first, second, *_ = env._env.envs[1].seeds  # the very first, of all lanes, was to see whether there are masks
    assert first == 1000
    assert second == (1001 if mode is AutoresetMode.DISABLED else None)


def test_an_env_that_takes_one_seed_gets_that_of_the_first_lane():
    class OneSeed(SyncVectorEnv):
        def reset(self, *, seed=None, options=None):
            if seed is not None and not isinstance(seed, int):
                raise TypeError("one number")
            return super().reset(seed=seed, options=options)

    env = made(lambda num_envs: OneSeed([Counting] * num_envs))
    env.reset(lambda lane, episode: 70 + lane)
    assert [inner.seeds[-1] for inner in env._env.envs] == [70, 71]  # Gymnasium's own rule for one number


@pytest.mark.parametrize("implementation", ["auto", "serial"])
def test_a_vector_env_is_found_by_its_class_by_an_import_path_and_by_a_function_that_takes_num_envs(implementation):
    path = "gymnasium.envs.classic_control.cartpole:CartPoleVectorEnv"
    assert made(path, implementation=implementation, max_episode_steps=9)._env.max_episode_steps == 9
    assert is_vector(path)
    assert is_vector(many)
    assert not is_vector(Counting)


def test_batched_takes_our_twin_before_the_vector_entry_point_of_an_id():
    assert isinstance(made("CartPole-v1", implementation="batched"), BatchedCartPole)


def test_batched_takes_the_vector_entry_point_of_an_id_and_auto_does_not():
    gymnasium.register("Twinless-v0", "counting:Counting", vector_entry_point=many)
    try:
        assert isinstance(made("Twinless-v0", implementation="batched", truncate_at=3), ForeignEnv)
        assert not isinstance(made("Twinless-v0"), ForeignEnv)
    finally:
        del gymnasium.registry["Twinless-v0"]


class Parts(gymnasium.Env):
    """Shows what it was given, in a Dict with a Tuple in it."""

    observation_space = spaces.Dict(
        {"t": spaces.Discrete(5, start=2), "pair": spaces.Tuple((spaces.Box(-9, 9, (2,)), spaces.MultiBinary(2)))}
    )
    action_space = spaces.Dict({"pick": spaces.Discrete(3, start=1), "push": spaces.Box(-1, 1, (2,))})

    def observe(self, action):
        push = np.zeros(2) if action is None else action["push"]
        flags = np.array([self.t % 2, 1], np.int8)
        return {"t": np.int64(2 + self.t), "pair": (np.asarray(push, np.float32), flags)}

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return self.observe(None), {}

    def step(self, action):
        self.t += 1
        return self.observe(action), float(action["pick"]), False, self.t == 3, {}


@pytest.mark.parametrize("mode", MODES)
def test_dicts_and_tuples_of_observations_and_actions_come_through(mode):
    env, rng = made(mode=mode, one=Parts), np.random.default_rng(0)
    kind, shown = env.kinds[0], env.reset(seeds)
    for step in range(1, 4):
        actions = kind.action.to_env(random_actions(kind.action, 2, None, rng))
        shown = env.step([actions])
        rows = shown.rows[0]
        assert rows.reward.tolist() == [float(action["pick"]) for action in actions]
        tree = rows.obs if step < 3 else rows.final_obs
        assert tree["t"].tolist() == [step, step]
        np.testing.assert_array_equal(tree["pair/0"], np.stack([action["push"] for action in actions]))
        assert tree["pair/1"].tolist() == [[step % 2, 1]] * 2


class Masked(Counting):
    """In step t only action t % 2 is allowed, says its info; nothing after the end."""

    def allowed(self, t):
        return np.array([t % 2 == 0, t % 2 == 1]) & (t < 3)

    def reset(self, **kwargs):
        obs, _ = super().reset(**kwargs)
        return obs, {"action_mask": self.allowed(0)}

    def step(self, action):
        assert self.allowed(self.t)[action]
        return *super().step(action)[:4], {"action_mask": self.allowed(self.t)}


@pytest.mark.parametrize("mode", MODES)
def test_masks_from_info_become_a_leaf(mode):
    env, rng = made(mode=mode, one=Masked, truncate_at=3), np.random.default_rng(0)
    shown = env.reset(seeds)
    for _ in range(9):
        mask = shown.rows[0].obs["action_mask"][shown.rows[0].waiting]
        shown = env.step([random_actions(env.kinds[0].action, len(mask), mask, rng)])
    assert env.episode.tolist() == ([2, 2] if mode is AutoresetMode.NEXT_STEP else [3, 3])


def test_a_mask_in_the_infos_of_actions_without_choices_is_refused():
    class Numbers(Masked):
        def __init__(self):
            super().__init__()
            self.action_space = spaces.Box(-1, 1, (2,), np.float32)

    with pytest.raises(EnvError, match=r"^many: action_mask: actions of Box.* give that entry of infos another name"):
        made(one=Numbers).reset(seeds)


@pytest.mark.parametrize("mode", MODES)
def test_lanes_that_end_apart_keep_their_masks_and_infos(mode):
    def apart(num_envs):
        ends = [functools.partial(Masked, truncate_at=2 + lane) for lane in range(num_envs)]
        return SyncVectorEnv(ends, autoreset_mode=mode)

    env = made(apart)
    env.keep_infos = "all"
    shown = env.reset(seeds)
    for _ in range(9):
        rows, steps = shown.rows[0], [one.t for one in env._env.envs]
        waited = rows.waiting.copy()
        wanted = np.array([[t % 2 == 0, t % 2 == 1] for t in steps])
        np.testing.assert_array_equal(rows.obs["action_mask"][waited], wanted[waited])
        shown = env.step([wanted[waited].argmax(axis=1)])
        for lane in np.flatnonzero(~shown.ended & waited).tolist():
            assert env.infos[lane]["agent"]["action_mask"].tolist() == Masked().allowed(steps[lane] + 1).tolist()


def test_infos_are_told_by_lane_when_asked_for():
    env = made(one=Masked, truncate_at=3)
    env.keep_infos = "all"
    env.reset(seeds)
    env.step([np.zeros(2, int)])
    assert env.infos[1]["agent"]["action_mask"].tolist() == [False, True]


def test_a_resumed_run_begins_new_episodes_with_seeds_of_their_own():
    env = made(truncate_at=3)
    table(env, 4)
    state, resumed = env.state_dict(), made(truncate_at=3)
    shown, lost = resumed.load_state_dict(state, seeds)
    assert lost.all()
    assert resumed.episode.tolist() == [2, 2]
    assert resumed._env.envs[1].seeds[-1] == 1002
    assert shown.rows[0].obs["obs"].tolist() == [[0.0], [0.0]]
    with pytest.raises(EnvError, match="other settings"):
        made(lanes=3).load_state_dict(state, seeds)


def test_equal_seeds_give_equal_steps():
    def played():
        env, rng = made(one=Walk, lanes=3), np.random.default_rng(0)
        env.reset(seeds)
        return np.stack([env.step([rng.integers(0, 2, 3)]).rows[0].obs["obs"].copy() for _ in range(40)])

    np.testing.assert_array_equal(played(), played())


# -- what is said when it goes wrong ---------------------------------------------------------------


def test_a_same_step_truncation_without_its_last_observation_is_an_error():
    class Mute(SyncVectorEnv):
        def step(self, actions):
            *rest, infos = super().step(actions)
            return *rest, {}

    env = made(lambda num_envs: Mute([lambda: Counting(truncate_at=1)] * 2, autoreset_mode=AutoresetMode.SAME_STEP))
    env.reset(seeds)
    with pytest.raises(EnvError, match="environment 0, episode 1, vector step 1: was truncated .* no 'final_obs'"):
        env.step([np.zeros(2, int)])


class Broken(Counting):
    def step(self, action):
        obs, reward, *rest = super().step(action)
        return obs * np.nan if self.t == 2 else obs, np.inf if self.t == 3 else reward, *rest


def test_what_is_not_finite_is_an_error_that_names_lane_and_step():
    env = made(lambda num_envs: SyncVectorEnv([Counting, Broken]))
    env.reset(seeds)
    env.step([np.zeros(2, int)])
    with pytest.raises(EnvError, match="environment 1, episode 0, vector step 2: obs: non-finite observation"):
        env.step([np.zeros(2, int)])
    with pytest.raises(EnvError, match="environment 1, episode 0, vector step 3: non-finite reward inf"):
        env.step([np.zeros(2, int)])


def test_an_exception_of_the_environment_is_told_with_the_step():
    class Failing(Counting):
        def step(self, action):
            raise RuntimeError("no fuel")

    env = made(one=Failing)
    env.reset(seeds)
    with pytest.raises(EnvError, match="vector step 1: raised RuntimeError: no fuel"):
        env.step([np.zeros(2, int)])


def test_too_few_actions_and_a_step_before_reset_are_errors():
    env = made()
    with pytest.raises(EnvError, match="step\\(\\) before reset"):
        env.step([np.zeros(2, int)])
    env.reset(seeds)
    with pytest.raises(EnvError, match="got 1 actions, expected 2"):
        env.step([np.zeros(1, int)])


# -- EnvPool ---------------------------------------------------------------------------------------


def test_without_envpool_its_environments_say_what_to_install():
    try:
        import envpool  # noqa: F401
    except ImportError:
        assert "pip install envpool" in message("envpool:CartPole-v1")


def test_envpool_lanes_always_wait_and_repeat_with_their_seeds():
    pytest.importorskip("envpool")

    def played():
        env, rng, found = made("envpool:CartPole-v1", lanes=3, max_episode_steps=15), np.random.default_rng(0), []
        first = env.reset(seeds).rows[0].obs["obs"].copy()
        assert len(np.unique(first, axis=0)) == 3
        finals = 0
        for _ in range(60):
            rows = env.step([rng.integers(0, 2, 3)]).rows[0]
            assert rows.waiting.all()
            finals += len(rows.final_index)
            found.append(rows.obs["obs"].copy())
        assert finals
        assert np.abs(np.stack(found)[..., 0]).max() < 2.4
        env.close()
        return np.stack(found)

    np.testing.assert_array_equal(played(), played())


class Silent(SyncVectorEnv):
    """Does not say what follows an episode."""

    def __init__(self, num_envs):
        super().__init__([Counting] * num_envs)
        self.metadata = {}


@pytest.mark.parametrize(
    ("env", "wrappers", "expected"),
    [
        (Silent, (), "EnvError: metadata['autoreset_mode'] is None, expected"),
        (lambda num_envs: many(3), (), "EnvError: makes 3 environments where num_envs=2 were asked for"),
        (lambda num_envs: Counting(), (), "EnvError: makes Counting, expected a gymnasium.vector.VectorEnv"),
        (many, (gymnasium.wrappers.ClipAction,), "EnvError: cannot be wrapped"),
    ],
)
def test_what_cannot_play_many_copies_is_refused(env, wrappers, expected):
    check_error(expected, made, env, wrappers=wrappers)
