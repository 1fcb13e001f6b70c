"""Parameters of environments: what is declared, how it is given, and which an episode has."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from rookery.core.errors import ConfigError, EnvError
from rookery.core.seeding import Role, Streams
from rookery.envs.make import has_single_envs, make_env, why_no_variant
from rookery.envs.parameters import Draws, EpisodePlan, Parameter, parameters_of, read_declared
from rookery.envs.samplers import (
    ChoiceSampler,
    ConstantSampler,
    FunctionSampler,
    IntervalsSampler,
    LogUniformSampler,
    NormalSampler,
    UniformSampler,
)

SAMPLERS = {
    "constant": ConstantSampler(3.0),
    "uniform": UniformSampler(-1.0, 2.0),
    "loguniform": LogUniformSampler(0.01, 100.0),
    "normal": NormalSampler(1.0, 2.0),
    "intervals": IntervalsSampler(((0.0, 1.0), (10.0, 13.0))),
    "choice": ChoiceSampler((1.0, 2.0), (1.0, 3.0)),
    "own": FunctionSampler(lambda rng, most: float(rng.integers(most)), {"most": 5}),
}


def draws_of(sampler, number=4000):
    rng = np.random.default_rng(0)
    return np.array([sampler.draw(rng) for _ in range(number)])


def test_samplers_draw_from_what_they_say():
    drawn = {name: draws_of(sampler) for name, sampler in SAMPLERS.items()}
    assert set(drawn["constant"]) == {3.0}
    assert -1 <= drawn["uniform"].min() < -0.99
    assert 1.99 < drawn["uniform"].max() <= 2
    assert abs(np.median(np.log10(drawn["loguniform"]))) < 0.1
    assert abs(drawn["normal"].mean() - 1) < 0.1
    assert abs(drawn["normal"].std() - 2) < 0.1
    inside = (drawn["intervals"] <= 1) & (drawn["intervals"] >= 0)
    assert abs(inside.mean() - 0.25) < 0.03
    assert ((drawn["intervals"][~inside] >= 10) & (drawn["intervals"][~inside] <= 13)).all()
    assert abs((drawn["choice"] == 2).mean() - 0.75) < 0.03
    assert set(drawn["own"]) == {0.0, 1.0, 2.0, 3.0, 4.0}


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: UniformSampler(2.0, 1.0), "low 2 is above high 1"),
        (lambda: LogUniformSampler(0.0, 1.0), "low = 0.0: must be a number above 0"),
        (lambda: NormalSampler(0.0, -1.0), "std = -1.0"),
        (lambda: IntervalsSampler(()), "intervals is empty"),
        (lambda: ChoiceSampler(()), "values is empty"),
        (lambda: ChoiceSampler((1, 2), (1.0,)), "chances has 1 numbers for 2 values"),
    ],
)
def test_samplers_that_cannot_draw_are_refused(make, said):
    with pytest.raises(ConfigError, match=said.replace("(", r"\(")):
        make()


# --- what is declared and how it is given -----------------------------------------------------------------------------


class Told(gymnasium.Env):
    """Shows the parameters that it was given in `reset`."""

    observation_space = spaces.Box(-100, 100, (2,), np.float64)
    action_space = spaces.Discrete(2)
    parameters = {"mass": 1.0, "wind": (0.0, -5.0, 5.0)}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        given = {"mass": 1.0, "wind": 0.0} | (options or {}).get("parameters", {})
        self.shown, self.time = np.array([given["mass"], given["wind"]]), 0
        return self.shown, {}

    def step(self, action):
        self.time += 1
        return self.shown, 0.0, self.time == 3, False, {}


class Setter(Told):
    """Called before `reset`, which takes no options."""

    def set_parameters(self, values):
        self.given = values

    def reset(self, *, seed=None):
        return super().reset(seed=seed, options={"parameters": getattr(self, "given", {})})


class Built(Told):
    """Has its parameters from its constructor."""

    parameters = None
    built = 0

    def __init__(self, mass=1.0, wind=0.0, name="built"):
        Built.built += 1
        self.given = {"mass": mass, "wind": wind}

    def reset(self, *, seed=None, options=None):
        assert not options
        return super().reset(seed=seed, options={"parameters": self.given})


class Deaf(Told):
    """Declares what it cannot be given."""

    def reset(self, *, seed=None):
        return super().reset(seed=seed)


class ByAgent:
    """A dict-style environment of two agents."""

    observation_space, action_space = Told.observation_space, Told.action_space
    possible_agents = ("a", "b")
    parameters = Told.parameters

    def reset(self, *, seed=None, options=None):
        self.one = Told()
        obs, _ = self.one.reset(seed=seed, options=options)
        return {"a": obs, "b": obs}, {}

    def step(self, actions):
        obs, _, over, _, _ = self.one.step(0)
        return {"a": obs, "b": obs}, {}, {"__all__": over}, {"__all__": False}, {}


class Parallel:
    """A parallel environment of PettingZoo's form."""

    possible_agents = ["a"]
    parameters = Told.parameters
    metadata = {"render_modes": []}

    def observation_space(self, agent):
        return Told.observation_space

    def action_space(self, agent):
        return Told.action_space

    def reset(self, seed=None, options=None):
        self.agents, self.one = ["a"], Told()
        return {"a": self.one.reset(seed=seed, options=options)[0]}, {"a": {}}

    def step(self, actions):
        obs, reward, over, cut, _ = self.one.step(0)
        self.agents = [] if over else ["a"]
        return {"a": obs}, {"a": reward}, {"a": over}, {"a": cut}, {"a": {}}


SEEDS = Streams(3)


def plan_of(samplers=None, lessons=None, declared=None, start=None):
    samplers = {"mass": UniformSampler(0.5, 2.0), "wind": UniformSampler(-1.0, 1.0)} if samplers is None else samplers
    draws = Draws(samplers, lessons or {}, declared or {})
    return EpisodePlan(
        SEEDS.episodes(Role.ENV), draws, lambda *key: SEEDS.generator(Role.PARAMETERS, *key[:3]), start or {}
    )


def seen(env, plan, steps=10):
    """The first observations of every lane, step by step."""
    shown = env.reset(plan)
    found = [shown.rows[0].obs["obs"].copy()]
    for _ in range(steps):
        shown = env.step([np.zeros(int(rows.waiting.sum()), np.int64) for rows in shown.rows])
        found.append(shown.rows[0].obs["obs"].copy())
    return np.array(found)


@pytest.mark.parametrize("made", [Told, Setter, Built, ByAgent, Parallel])
@pytest.mark.parametrize("wrapped", [False, True])
def test_every_style_of_environment_gets_the_parameters_of_its_episode(made, wrapped):
    wrappers = [lambda env: gymnasium.wrappers.TimeLimit(env, 10)] if wrapped else []
    if wrapped and made not in (Told, Built):
        pytest.skip("Gymnasium's wrappers take Gymnasium's environments, and pass options on")
    env, plan = make_env(made, {}, wrappers, 3, "serial", parameters=("mass", "wind")), plan_of()
    assert list(env.parameters) == ["mass", "wind"]
    found = seen(env, plan)
    width = len(env.kinds[0].agents)
    for lane in range(3):
        for step, rows in enumerate(found):
            expected = plan.parameters(lane, step // 3)
            assert rows[lane * width].tolist() == pytest.approx([expected["mass"], expected["wind"]])


def test_a_copy_is_built_anew_only_where_a_value_changes():
    Built.built = 0
    env = make_env(Built, {"wind": 4.0}, [], 1, "serial", parameters=("mass",))
    assert Built.built == 1
    assert env.parameters["wind"].default == 4.0
    found = seen(env, plan_of({"mass": ConstantSampler(2.0)}))
    assert Built.built == 2
    assert (found == [2.0, 4.0]).all()


@pytest.mark.usefixtures("no_twins_in_c")
def test_gymnasiums_own_are_given_their_attributes_and_what_follows_from_them():
    env = make_env("CartPole-v1", {}, [], 1, "auto", parameters=("masspole", "length"))
    env.reset(plan_of({"masspole": ConstantSampler(0.3), "length": ConstantSampler(1.0)}))
    inner = env._lanes[0].env.unwrapped
    assert (inner.masspole, inner.total_mass, inner.polemass_length) == pytest.approx((0.3, 1.3, 0.3))
    env = make_env("Pendulum-v1", {"g": 5.0}, [], 1, "serial", parameters=("mass",))
    assert {name: known.default for name, known in env.parameters.items()} == {
        "gravity": 5.0, "mass": 1.0, "length": 1.0,
    }  # fmt: skip
    env.reset(plan_of({"mass": ConstantSampler(0.3), "length": ConstantSampler(1.5)}))
    inner = env._lanes[0].env.unwrapped
    assert (inner.g, inner.m, inner.l) == (5.0, 0.3, 1.5)


@pytest.mark.usefixtures("no_twins_in_c")
def test_a_twin_that_lacks_a_parameter_is_not_used_and_that_is_told():
    asked = ("CartPole-v1", {}, [], 4)
    assert not has_single_envs(*asked, "auto")
    assert has_single_envs(*asked, "auto", ("length",))
    assert why_no_variant(*asked, ("length",)) == (
        "CartPole-v1: its batched variant has no parameter length, so environments are stepped one by one"
    )
    assert not why_no_variant("WallCurriculum", {}, [], 4, ("wall_height",))
    assert not why_no_variant("Pendulum-v1", {}, [], 4, ("mass",))


def test_what_cannot_be_given_is_refused():
    with pytest.raises(EnvError, match="Deaf: it declares parameters, but its reset\\(\\) takes no options"):
        make_env(Deaf, {}, [], 1, "serial", parameters=("mass",))
    make_env(Deaf, {}, [], 1, "serial")  # no episode asks for any
    with pytest.raises(EnvError, match=r"X: parameters has 'mass': \(1, 2\), expected a name with a default, or"):
        read_declared({"mass": (1, 2)}, "X")
    with pytest.raises(EnvError, match="X: parameters: the default of 'mass', 3 is not from 0 to 2"):
        read_declared({"mass": (3, 0, 2)}, "X")


def test_normal_numbers_are_clipped_to_bounds_and_others_refused():
    declared = {"wind": Parameter(0.0, -1.0, 1.0)}
    clipped = plan_of({"wind": NormalSampler(0.0, 5.0)}, declared=declared)
    assert {-1.0, 1.0} <= {clipped.parameters(0, episode)["wind"] for episode in range(50)}
    own = plan_of({"wind": FunctionSampler(lambda rng: 7.0)}, declared=declared)
    with pytest.raises(EnvError, match=r"env.parameters.wind: FunctionSampler gave a value: 7 is not from -1 to 1"):
        own.parameters(0, 0)


# --- which parameters an episode has ----------------------------------------------------------------------------------


def test_a_parameter_draws_the_same_whatever_else_is_drawn():
    alone, both = plan_of({"wind": UniformSampler(-1.0, 1.0)}), plan_of()
    for lane, episode in ((0, 0), (2, 5), (1, 1000)):
        assert alone.parameters(lane, episode)["wind"] == both.parameters(lane, episode)["wind"]
    drawn = {both.parameters(lane, episode)["wind"] for lane in range(4) for episode in range(10)}
    assert len(drawn) == 40
    assert parameters_of(SEEDS.episodes(Role.ENV), 0, 0) == {}
    assert both(2, 5) == SEEDS.episodes(Role.ENV)(2, 5)


def test_episodes_that_run_keep_their_lesson_and_later_ones_have_the_new_one():
    lessons = {"wind": (ConstantSampler(1.0), ConstantSampler(2.0), ConstantSampler(3.0))}
    plan = plan_of({"wind": ConstantSampler(1.0)}, lessons, start={"wind": 0})
    plan.change({"wind": 1}, np.array([4, 0]))
    plan.change({"wind": 2}, np.array([4, 2]))

    def winds(plan):
        episodes = [(0, 0), (0, 4), (0, 5), (1, 0), (1, 1), (1, 2), (1, 3)]
        return [plan.parameters(lane, episode)["wind"] for lane, episode in episodes]

    assert winds(plan) == [1, 1, 3, 1, 2, 2, 3]
    again = plan_of({"wind": ConstantSampler(1.0)}, lessons, start={"wind": 0})
    again.load_state_dict(plan.state_dict())
    assert winds(again) == winds(plan)
    plan.change({"wind": 0}, np.array([9, 9]))  # all run in lesson 2, so what was before is forgotten
    assert len(plan.state_dict()["changes"]) == 2


@pytest.mark.parametrize("kind", ["processes", "threads"])
def test_any_number_of_helpers_draws_the_same_and_hears_of_lessons(kind):
    lessons = {"wind": (UniformSampler(0.0, 1.0), UniformSampler(2.0, 3.0))}
    found = {}
    for helpers in (0, 1, 2):
        plan = plan_of({"mass": UniformSampler(0.5, 2.0), "wind": lessons["wind"][0]}, lessons, start={"wind": 0})
        back_end = kind if helpers else "serial"
        env = make_env(Told, {}, [], 3, back_end, helpers=helpers, parameters=("mass", "wind"))
        shown = env.reset(plan)
        rows = [shown.rows[0].obs["obs"].copy()]
        for step in range(12):
            if step == 4:
                plan.change({"wind": 1}, env.episode)
                env.replan(plan)
            if step == 10:
                rows.append(env.restart(plan).rows[0].obs["obs"].copy())
                assert env.exact
            rows.append(env.step([np.zeros(3, np.int64)]).rows[0].obs["obs"].copy())
        env.close()
        found[helpers] = np.array(rows)
    assert (found[0][:6, :, 1] <= 1).all()
    assert (found[0][7:, :, 1] >= 2).all()
    for helpers in (1, 2):
        np.testing.assert_array_equal(found[helpers], found[0])
