"""Every back end shows the same rows, however copies are divided, and reports the same errors."""

import functools
import threading

import gymnasium
import numpy as np
import pytest
from counting import (
    ComingAndGoing,
    Counting,
    CountingAEC,
    CountingParallel,
    Parts,
    PartsTogether,
    Walk,
    WalkTogether,
)
from gymnasium import spaces

from rookery.core.errors import EnvError
from rookery.envs.adapters.classic import BatchedCartPole
from rookery.envs.base import VectorEnv
from rookery.envs.make import make_env
from rookery.envs.random_play import random_actions
from rookery.envs.vector.faults import Tolerance, ordinal
from rookery.envs.vector.shares import SharesEnv, deal
from selection import slow, slow_except

LANES = 5

BACK_ENDS = {
    "processes, 1 helper": ("processes", 1),
    "processes, 2 helpers": ("processes", 2),
    "processes, 4 helpers": ("processes", 4),
    "threads, 1 helper": ("threads", 1),
    "threads, 4 helpers": ("threads", 4),
}

BORNE = Tolerance("stop", 2, 30.0, 60.0)


class Saying(Counting):
    """Counts, and says how far in its infos."""

    def step(self, action):
        obs, reward, terminated, truncated, _ = super().step(action)
        return obs, reward, terminated, truncated, {"t": self.t}


class Drawn(Walk):
    """A walk that can be looked at."""

    render_mode = "rgb_array"

    def render(self):
        return np.full((2, 3, 3), self.t, np.uint8)


class Pictured(gymnasium.Env):
    """Shows a picture and a category, and ends after 4 steps."""

    observation_space = spaces.Dict({"camera": spaces.Box(0, 255, (4, 4, 3), np.uint8), "floor": spaces.Discrete(7)})
    action_space = spaces.Box(-2, 2, (3,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.observe(), {}

    def observe(self):
        return {"camera": self.np_random.integers(0, 255, (4, 4, 3), np.uint8), "floor": self.t}

    def step(self, action):
        self.t += 1
        return self.observe(), float(action.sum()), False, self.t == 4, {}


ENVS = {
    "one agent": (Walk, {}),
    "one agent, truncated": (Counting, {"truncate_at": 4}),
    "one agent that changes its memory": (Counting, {"truncate_at": 4, "mutate": True}),
    "a picture and a category": (Pictured, {}),
    "actions of parts, masks in the info": (Parts, {}),
    "parallel": (CountingParallel, {}),
    "turns": (CountingAEC, {}),
    "coming and going": (ComingAndGoing, {}),
    "unannounced": (ComingAndGoing, {"announced": False}),
    "nobody announced": (WalkTogether, {}),
    "two agents with actions of parts": (PartsTogether, {}),
}


HANDED_OVER = ("one agent", "unannounced", "actions of parts, masks in the info")
"""What processes show in ``make test`` too: one agent, agents that come unannounced, actions of parts."""


def seeds(lane, episode):
    return 1000 * lane + episode


def built(env, how, config=None, lanes=LANES, tolerance=BORNE, **keywords):
    implementation, helpers = ("serial", 0) if how == "serial" else BACK_ENDS[how]
    return make_env(env, config, (), lanes, implementation, helpers=helpers, tolerance=tolerance, **keywords)


class Playing:
    """Plays random allowed actions and keeps all that is shown, as plain values."""

    def __init__(self, env, shown=None):
        self.env, self.rng = env, np.random.default_rng(0)
        self.shown = env.reset(seeds) if shown is None else shown

    def actions(self):
        answers = []
        for kind, rows in zip(self.env.kinds, self.shown.rows, strict=True):
            tree = {path: array[rows.waiting] for path, array in rows.obs.items()}
            mask = tree[kind.obs.leaves[-1].path] if kind.obs.has_mask else None
            answers.append(kind.action.to_env(random_actions(kind.action, int(rows.waiting.sum()), mask, self.rng)))
        return answers

    def seen(self):
        step = self.shown
        rows = [
            (
                {path: array[rows.waiting].tolist() for path, array in rows.obs.items()},
                rows.reward.tolist(), rows.terminated.tolist(), rows.truncated.tolist(), rows.waiting.tolist(),
                rows.final_index.tolist(), {path: array.tolist() for path, array in rows.final_obs.items()},
                rows.final_stale,
            )
            for rows in step.rows
        ]  # fmt: skip
        agents = [kind.agents for kind in self.env.kinds]
        return rows, step.ended.tolist(), self.env.episode.tolist(), self.env.layout, agents

    def steps(self, num):
        found = []
        for _ in range(num):
            self.shown = self.env.step(self.actions())
            found.append(self.seen())
        return found


HARDEST = ("one agent", "unannounced")


@pytest.mark.parametrize(
    ("how", "name"),
    [
        slow(how, name) if how.startswith("p") and name != "unannounced" else (how, name)
        for how in ("serial", "threads, 1 helper", "processes, 1 helper")
        for name in ENVS
    ],
)
def test_a_step_says_whether_any_episode_ended_in_it(how, name):
    cls, config = ENVS[name]
    env = built(cls, how, config)
    playing, said = Playing(env), set()
    for _ in range(30):
        playing.steps(1)
        shown = playing.shown
        ends = [shown.ended, *(flags for rows in shown.rows for flags in (rows.terminated, rows.truncated))]
        assert shown.any_end == any(flags.any() for flags in ends)
        said.add(shown.any_end)
    env.close()
    assert said == {True, False}


@functools.cache
def expected(name, steps):
    """Returns the rows of the serial back end."""
    env = built(*ENVS[name][:1], "serial", ENVS[name][1])
    playing = Playing(env)
    return [playing.seen(), *playing.steps(steps)]


@pytest.fixture
def closing():
    opened = []
    yield lambda env: opened.append(env) or env
    for env in opened:
        env.close()


SEEN_BESIDE = {
    ("one agent", "processes, 4 helpers"),
    ("one agent", "processes, 1 helper"),
    ("unannounced", "processes, 2 helpers"),
}
"""Left to ``make test-all``: these environments in other numbers of processes, and these numbers with others."""

COMBINATIONS = [
    (name, how) if (name in HANDED_OVER and (name, how) not in SEEN_BESIDE) or how.startswith("t") else slow(name, how)
    for name in ENVS
    for how in BACK_ENDS
    if name in HARDEST or how in ("processes, 2 helpers", "threads, 4 helpers")
]
"""What is played: everything on two back ends, the hardest on all; processes take long to start."""


@pytest.mark.parametrize(("name", "how"), COMBINATIONS)
def test_helpers_show_the_same_rows_as_one_loop(name, how, closing):
    env = closing(built(ENVS[name][0], how, ENVS[name][1]))
    assert isinstance(env, SharesEnv) and isinstance(env, VectorEnv)
    playing = Playing(env)
    assert [playing.seen(), *playing.steps(20)] == expected(name, 20)
    assert env.exact and env.counters == {}


def test_lanes_are_dealt_in_blocks_and_none_is_forgotten():
    for lanes in (2, 5, 8, 33):
        for shares in range(1, min(lanes, 6)):
            dealt = deal(lanes, shares)
            assert [lane for share in dealt for lane in share] == list(range(lanes))
            sizes = [len(share) for share in dealt]
            assert max(sizes) - min(sizes) <= 1


def test_more_helpers_than_lanes_are_not_started(closing):
    env = closing(built(Walk, "processes, 4 helpers", lanes=2))
    playing = Playing(env)
    serial = Playing(built(Walk, "serial", lanes=2))
    assert playing.steps(12) == serial.steps(12)


def test_the_batched_twin_in_lanes_of_helpers_has_the_numbers_of_the_twin(closing):
    batched = Playing(BatchedCartPole(LANES)).steps(40)
    env = closing(built("CartPole-v1", "processes, 2 helpers"))
    assert Playing(env).steps(40) == batched


@pytest.mark.parametrize("how", ["processes, 1 helper", "threads, 4 helpers"])
def test_a_second_reset_begins_at_episode_0_again(how, closing):
    env = closing(built(Walk, how))
    first = Playing(env).steps(12)
    assert Playing(env).steps(12) == first


# --- state --------------------------------------------------------------------------------------------------------


STATES = [(name, "serial", "threads, 4 helpers") for name in ENVS]
STATES += [(name, "threads, 1 helper", "serial") for name in ENVS]
STATES += [
    ("one agent", "processes, 1 helper", "serial"),
    ("unannounced", "serial", "processes, 2 helpers"),
    slow("two agents with actions of parts", "threads, 1 helper", "processes, 1 helper"),
]


@pytest.mark.parametrize(("name", "one", "other"), STATES)
def test_a_state_saved_by_one_back_end_is_gone_on_with_by_another(name, one, other, closing):
    before = closing(built(ENVS[name][0], one, ENVS[name][1]))
    playing = Playing(before)
    playing.steps(7)
    state = before.state_dict()
    after = closing(built(ENVS[name][0], other, ENVS[name][1]))
    shown, lost = after.load_state_dict(state, seeds)
    assert not lost.any() and after.exact
    going_on = Playing(after, shown)
    going_on.rng = np.random.default_rng(7)
    playing.rng = np.random.default_rng(7)
    assert playing.steps(9) == going_on.steps(9)
    saved_again, saved = after.state_dict(), before.state_dict()
    assert repr(saved_again) == repr(saved)


@pytest.mark.parametrize("how", ["processes, 2 helpers", "threads, 4 helpers"])
def test_a_saved_state_of_other_lanes_is_refused(how, closing):
    state = closing(built(Walk, "serial", lanes=3))
    state.reset(seeds)
    env = closing(built(Walk, how))
    with pytest.raises(EnvError, match="the saved state is of another environment, or of other settings"):
        env.load_state_dict(state.state_dict(), seeds)


@pytest.mark.parametrize("how", ["serial", slow("processes, 2 helpers"), "threads, 4 helpers"])
@pytest.mark.parametrize("env", [Walk, WalkTogether])
def test_an_env_that_raises_when_an_episode_is_taken_up_says_where(env, how, closing):
    class Refusing(env):
        def step(self, action):
            if self.t == 1:
                raise RuntimeError("not again")
            return super().step(action)

    playing = Playing(built(env, "serial"))
    playing.steps(2)
    with pytest.raises(EnvError, match=r"environment 0, seed 0, episode 0, step 2, when its episode was resumed: "
                                       r"raised RuntimeError: not again"):  # fmt: skip
        closing(built(Refusing, how)).load_state_dict(playing.env.state_dict(), seeds)


def test_an_episode_after_a_second_reset_is_taken_up_too():
    env = built(Walk, "serial")
    Playing(env).steps(3)
    Playing(env).steps(2)
    _, lost = built(Walk, "serial").load_state_dict(env.state_dict(), seeds)
    assert not lost.any()


# --- infos, pictures ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["processes, 2 helpers", "threads, 4 helpers"])
def test_infos_come_from_all_lanes_when_they_are_asked_for(how, closing):
    env = closing(built(Saying, how))
    playing = Playing(env)
    playing.steps(1)
    env.keep_infos = "all"
    playing.steps(2)
    assert env.infos == {lane: {"agent": {"t": 3}} for lane in range(LANES)}


class Unsendable(Counting):
    """Returns infos that cannot be pickled."""

    def step(self, action):
        return *super().step(action)[:4], {"lock": threading.Lock()}


def test_infos_that_cannot_be_pickled_are_an_error_that_says_the_way_out(closing):
    env = closing(built(Unsendable, "processes, 2 helpers"))
    Playing(env).steps(1)
    env.keep_infos = "all"
    text, _ = message(env)
    assert "Unsendable: its infos or its state cannot be sent from a helper process, because pickling" in text
    assert "use env.implementation=threads or serial" in text


@pytest.mark.parametrize("how", ["processes, 2 helpers", "threads, 4 helpers"])
def test_every_lane_can_be_drawn(how, closing):
    env = closing(built(Drawn, how))
    Playing(env).steps(2)
    for lane in (0, LANES - 1):
        assert (env.render(lane) == 2).all()


# --- errors -------------------------------------------------------------------------------------------------------


class Breaking(Counting):
    """Lane 4 does something wrong in its third step."""

    def __init__(self, how):
        super().__init__()
        self.how = how

    def reset(self, *, seed=None, options=None):
        if self.how == "reset" and seed == 4000:
            raise RuntimeError("no way to begin")
        return super().reset(seed=seed)

    def step(self, action):
        result = list(super().step(action))
        if self.t == 3 and self.seeds[-1] == 4000:
            if self.how == "step":
                raise RuntimeError("no way on")
            if self.how == "reward":
                result[1] = "many"
            if self.how == "obs":
                result[0] = np.array([np.nan], np.float32)
            if self.how == "shape":
                result[0] = np.zeros(2, np.float32)
            if self.how == "four":
                return result[:4]
        return tuple(result)


def message(env):
    with pytest.raises(EnvError) as caught:
        Playing(env).steps(8)
    return str(caught.value), caught.value.__cause__


@pytest.mark.parametrize("wrong", slow_except("reset", "step", of=["reset", "step", "reward", "obs", "shape", "four"]))
def test_an_error_says_where_in_the_same_words_on_every_back_end(wrong, closing):
    config = {"how": wrong}
    text, _ = message(built(Breaking, "serial", config))
    assert "environment 4, seed 4000, episode 0" in text
    for how in ("processes, 2 helpers", "threads, 4 helpers"):
        found, cause = message(closing(built(Breaking, how, config)))
        assert found == text
        if wrong == "step":
            assert "no way on" in str(cause)
    if wrong == "step":  # from the environment's own first line on, wherever it ran
        traceback = str(message(closing(built(Breaking, "processes, 2 helpers", config)))[1])
        assert "in step" in traceback and "serial.py" not in traceback


@pytest.mark.parametrize("how", ["processes, 2 helpers", "threads, 4 helpers"])
def test_the_actions_must_be_as_many_as_wait(how, closing):
    env = closing(built(Walk, how))
    with pytest.raises(EnvError, match=r"step\(\) before reset\(seeds\)"):
        env.step([np.zeros(LANES, int)])
    env.reset(seeds)
    with pytest.raises(EnvError, match=r"step\(\) got \[4\] actions by kind, expected \[5\]"):
        env.step([np.zeros(LANES - 1, int)])


def test_what_cannot_be_pickled_is_refused_with_the_way_out():
    generator = (i for i in range(3))

    def build():
        next(generator)
        return Walk()

    with pytest.raises(EnvError, match=r"cannot be sent to a helper process, because pickling it raised TypeError.*"
                                       r"env\.implementation=serial"):  # fmt: skip
        built(build, "processes, 1 helper")


def test_an_env_that_cannot_be_built_in_a_helper_says_why(tmp_path, closing):
    made = tmp_path / "made"

    def build():
        if made.exists():
            raise RuntimeError("there is only one")
        return Walk()

    made.touch()
    with pytest.raises(EnvError, match="there is only one"):
        built(build, "processes, 1 helper")


# --- episodes that break ------------------------------------------------------------------------------------------


class Fragile(Walk):
    """Raises in some episodes, as their seeds say."""

    def __init__(self, where="step", limit=1001):
        super().__init__()
        self.where, self.limit = where, limit

    def reset(self, *, seed=None, options=None):
        self.breaks = seed % 1000 in (1, 2, 4) and seed // 1000 % 2 == 1 and seed < 1000 * self.limit
        if self.breaks and self.where == "reset":
            raise RuntimeError("dropped")
        return super().reset(seed=seed)

    def step(self, action):
        if self.breaks and self.t == 2:
            raise RuntimeError("dropped")
        return super().step(action)


class FragileTogether(WalkTogether):
    """Likewise, for two agents."""

    def reset(self, *, seed=None, options=None):
        self.breaks = seed % 1000 in (1, 2, 4) and seed // 1000 % 2 == 1
        return super().reset(seed=seed)

    def step(self, actions):
        if self.breaks and self.t == 2:
            raise RuntimeError("dropped")
        return super().step(actions)


BEARING = Tolerance("restart", 0, 30.0, 60.0)


@pytest.mark.parametrize(
    ("env", "how"),
    [
        *((env, "threads, 4 helpers") for env in (Fragile, functools.partial(Fragile, "reset"), FragileTogether)),
        (Fragile, "processes, 2 helpers"),
        slow(functools.partial(Fragile, "reset"), "processes, 2 helpers"),
        slow(FragileTogether, "processes, 2 helpers"),
    ],
)
def test_a_lane_that_raises_begins_its_next_episode_where_that_is_borne(env, how, closing):
    serial = built(env, "serial", tolerance=BEARING)
    one, other = Playing(serial), Playing(closing(built(env, how, tolerance=BEARING)))
    assert one.steps(40) == other.steps(40)
    assert one.env.counters == other.env.counters
    if env is not FragileTogether:
        broken = [episode for lane in (1, 3) for episode in (1, 2, 4) if serial.episode[lane] > episode]
        played = 3 if env is Fragile else 0  # steps of each, which count for nothing
        assert serial.counters == {"episodes_broken": len(broken), "steps_discarded": played * len(broken)}
        assert len(broken) > 2


def test_a_given_up_episode_is_cut_off_with_what_was_seen_last():
    env = built(Fragile, "serial", tolerance=BEARING, lanes=2)
    playing = Playing(env)
    for _ in range(40):
        before = playing.shown.rows[0].obs["obs"].copy()
        playing.steps(1)
        if playing.shown.lost is not None:
            break
    rows = playing.shown.rows[0]
    assert playing.shown.lost.tolist() == [False, True] and not playing.shown.ended[1]
    assert rows.truncated[1] and not rows.terminated[1] and rows.reward[1] == 0.0
    assert rows.final_obs["obs"][rows.final_index.tolist().index(1)].tolist() == before[1].tolist()
    assert rows.final_stale == 0
    playing.steps(1)
    assert playing.shown.lost is None and not rows.truncated[1]


class AlwaysFragile(Counting):
    """Raises in its second step, always."""

    def step(self, action):
        if self.t == 1:
            raise RuntimeError("dropped")
        return super().step(action)


@pytest.mark.parametrize("how", ["serial", slow("processes, 2 helpers"), "threads, 4 helpers"])
def test_three_broken_episodes_in_a_row_of_one_lane_stop_the_run(how, closing):
    env = closing(built(AlwaysFragile, how, tolerance=BEARING))
    text, _ = message(env)
    assert "environment 0, seed 2, episode 2, step 2" in text
    assert "raised RuntimeError: dropped; 3 episodes of this environment in a row" in text


class OnceOnly(Counting):
    """Cannot be reset a third time."""

    def reset(self, *, seed=None, options=None):
        if len(self.seeds) == 2:
            raise RuntimeError("worn out")
        return super().reset(seed=seed)


@pytest.mark.parametrize("how", ["serial", slow("processes, 2 helpers"), "threads, 4 helpers"])
def test_three_resets_in_a_row_that_raise_stop_the_run(how, closing):
    env = closing(built(OnceOnly, how, {"terminate_at": 2}, tolerance=BEARING))
    assert "raised RuntimeError: worn out; 3 episodes of this environment in a row" in message(env)[0]


class Unlucky(Counting):
    """Every second episode raises in its first step."""

    def step(self, action):
        if self.seeds[-1] % 2 == 1:
            raise RuntimeError("dropped")
        return super().step(action)


@pytest.mark.parametrize("how", ["serial", slow("processes, 2 helpers"), "threads, 4 helpers"])
def test_more_than_a_hundred_broken_episodes_in_a_million_steps_stop_the_run(how, closing):
    env = closing(built(Unlucky, how, {"terminate_at": 1}, tolerance=BEARING))
    playing = Playing(env)
    playing.steps(40)  # 20 of each lane
    assert env.counters["episodes_broken"] == 100
    playing.steps(1)
    with pytest.raises(EnvError, match="raised in 105 episodes, more than env.on_error=restart tolerates"):
        playing.steps(1)


def test_a_broken_contract_is_not_borne(closing):
    for how in ("serial", "processes, 2 helpers"):
        text, _ = message(closing(built(Breaking, how, {"how": "obs"}, tolerance=BEARING)))
        assert "non-finite observation" in text


# --- what stops everything ----------------------------------------------------------------------------------------


class Exiting(Saying):
    """Raises what is no error: in lane 0 Ctrl-C, in the last one `exit`."""

    def __init__(self, who):
        super().__init__()
        self.who = who

    def step(self, action):
        if self.t == 1 and self.seeds[-1] == {"first": 0, "last": 1000 * (LANES - 1)}[self.who]:
            raise KeyboardInterrupt if self.who == "first" else SystemExit(3)
        return super().step(action)


@pytest.mark.parametrize("how", ["processes, 2 helpers", "threads, 4 helpers"])
def test_a_step_that_is_interrupted_leaves_helpers_that_can_be_closed(how):
    env = built(Exiting, how, {"who": "first"})
    env.keep_infos = "all"
    playing, helpers = Playing(env), list(env._helpers)
    with pytest.raises(KeyboardInterrupt):
        playing.steps(2)
    env.close()
    for helper in helpers:
        assert helper._process.returncode is not None if how.startswith("p") else not helper._thread.is_alive()


def test_an_env_that_exits_in_a_thread_ends_the_caller(closing):
    playing = Playing(closing(built(Exiting, "threads, 4 helpers", {"who": "last"})))
    with pytest.raises(SystemExit):
        playing.steps(2)


def test_no_thread_is_left_of_helpers_that_cannot_be_built():
    built_so_far = []

    def build():
        built_so_far.append(None)
        if len(built_so_far) > 1:
            raise RuntimeError("there is only one")
        return Walk()

    with pytest.raises(EnvError, match="there is only one"):
        make_env(build, None, (), 2, "threads", helpers=1)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("rookery lanes")]


@pytest.mark.regression("unclear error", "How many helpers were lost in a row has the ending of its number")
def test_a_place_in_an_order_has_the_ending_of_its_number():
    told = [ordinal(number) for number in (1, 2, 3, 4, 10, 11, 12, 13, 21, 102, 111)]
    assert told == ["1st", "2nd", "3rd", "4th", "10th", "11th", "12th", "13th", "21st", "102nd", "111th"]
