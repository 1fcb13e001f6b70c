"""Twins in C play whole episodes with the numbers of what they replace, bit for bit, and are used by themselves."""

import inspect
import itertools

import numpy as np
import pytest
from twins_beside import (
    assert_each_goes_on_from_the_other,
    assert_equal_states,
    needs_twins,
    plan,
    play_beside,
)

from rookery import PPOConfig, Trainer
from rookery.core.errors import EnvError
from rookery.envs.adapters.classic import BatchedCartPole
from rookery.envs.make import has_single_envs, make_env
from rookery.envs.native import variants
from rookery.envs.native.variants import CartPoleInC, StatelessCartPoleInC, native_unavailable_reason
from rookery.envs.parameters import Draws, EpisodePlan
from rookery.envs.samplers import UniformSampler
from rookery.tasks.games.arena import ArenaInC, BatchedArena
from rookery.tasks.memory_tasks import BatchedStatelessCartPole, StatelessCartPole
from selection import slow_repeats

pytestmark = needs_twins


def balancing(env, shown, rng):
    obs = shown.rows[0].obs["obs"]
    lean = obs @ (np.array([0.02, 0.05, 1.0, 0.3]) if obs.shape[1] == 4 else np.array([0.02, 1.0]))
    return [(lean + rng.normal(0, 0.02, len(obs)) > 0).astype(np.int64)]


def plan_of(**samplers):
    return EpisodePlan(
        plan, Draws(samplers), lambda lane, episode, name, seed: np.random.default_rng([lane, episode, len(name)]), {}
    )


# --- CartPole -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "lanes"),
    slow_repeats(
        of=itertools.product(
            [{}, {"max_episode_steps": 20}, {"max_episode_steps": 1}, {"sutton_barto_reward": True}], [1, 8]
        )
    ),
)
def test_cart_pole_is_gymnasiums_to_the_last_bit(lanes, settings):
    twin, single = CartPoleInC(lanes, **settings), make_env("CartPole-v1", settings, (), lanes, "serial")
    ends = play_beside(twin, single, 600)
    assert ends["terminated"] + ends["truncated"] > 10
    assert settings.get("max_episode_steps") != 20 or lanes == 1 or min(ends.values()) > 0


def test_balanced_episodes_of_cart_pole_are_gymnasiums_up_to_truncation():
    ends = play_beside(CartPoleInC(4), make_env("CartPole-v1", {}, (), 4, "serial"), 1100, balancing)
    assert ends["truncated"] >= 4


def test_parameters_of_cart_pole_are_gymnasiums():
    drawn = {"gravity": (5.0, 15.0), "masscart": (0.5, 2.0), "masspole": (0.05, 0.5), "length": (0.3, 1.0)}
    samplers = {name: UniformSampler(*bounds) for name, bounds in {**drawn, "force_mag": (5.0, 15.0)}.items()}
    single = make_env("CartPole-v1", {}, (), 4, "serial", parameters=tuple(samplers))
    ends = play_beside(CartPoleInC(4), single, 600, seeds=plan_of(**samplers))
    assert ends["terminated"] > 20
    found = {name: (one.default, one.low, one.high) for name, one in CartPoleInC.parameters.items()}
    assert found == {name: (one.default, one.low, one.high) for name, one in single.parameters.items() if name in found}
    assert found.keys() == samplers.keys()


def test_cart_pole_saves_what_the_batched_one_saves():
    twin, batched = CartPoleInC(5), BatchedCartPole(5)
    play_beside(twin, batched, 100)
    state, expected = twin.state_dict(), batched.state_dict()
    assert np.array_equal(state["motion"][:4], expected["motion"][:4])  # below are accelerations, made anew in a step
    assert_equal_states(state, expected, ignoring=("motion",))
    assert_each_goes_on_from_the_other(CartPoleInC(3), BatchedCartPole(3), lambda: (CartPoleInC(3), BatchedCartPole(3)))


def test_cart_pole_whose_episodes_have_parameters_goes_on_with_them():
    one, other = CartPoleInC(2), CartPoleInC(2)
    seeds = plan_of(length=UniformSampler(0.3, 1.0))
    play_beside(one, make_env("CartPole-v1", {}, (), 2, "serial", parameters=("length",)), 7, seeds=seeds)
    state = one.state_dict()
    assert "fields" in state
    shown, lost = other.load_state_dict(state, seeds)
    again, _ = one.load_state_dict(state, seeds)
    assert not lost.any()
    play_beside(one, other, 60, begun=(again, shown))


def test_stateless_cart_pole_is_the_one_in_python():
    single = make_env(StatelessCartPole, {"max_episode_steps": 25}, (), 4, "serial")
    ends = play_beside(StatelessCartPoleInC(4, max_episode_steps=25), single, 300)
    assert min(ends.values()) > 0

    def again():
        return (StatelessCartPoleInC(3), BatchedStatelessCartPole(3))

    assert_each_goes_on_from_the_other(*again(), again)


def test_cart_pole_has_the_spaces_pictures_and_arguments_of_the_batched_one():
    for twin, batched in ((CartPoleInC, BatchedCartPole), (StatelessCartPoleInC, BatchedStatelessCartPole)):
        assert twin(2).kinds == batched(2).kinds and twin(2).render_fps == batched.render_fps
        one, other = ({**inspect.signature(made).parameters} for made in (twin, batched))
        assert {name: found.default for name, found in one.items()} == {
            name: found.default for name, found in other.items()
        }
    one, other = CartPoleInC(2), BatchedCartPole(2)
    play_beside(one, other, 9)
    assert np.array_equal(one.render(1), other.render(1))
    assert one.kinds[0].obs.space == make_env("CartPole-v1", {}, (), 1, "serial").kinds[0].obs.space


# --- arena ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"width": 3, "height": 2, "max_timesteps": 7}, {"width": 1, "height": 2}])
def test_the_arena_is_the_one_in_python_to_the_last_bit(settings):
    for other in ("serial", "batched"):
        ends = play_beside(ArenaInC(4, **settings), make_env("MultiAgentArena", settings, (), 4, other), 230)
        assert ends["truncated"] >= 16 and not ends["terminated"]


def test_the_arena_saves_what_the_batched_one_saves():
    def again():
        return (ArenaInC(3, 3, 4, 20), BatchedArena(3, 3, 4, 20))

    twin, batched = again()
    play_beside(twin, batched, 31)
    assert_equal_states(twin.state_dict(), batched.state_dict())
    assert_each_goes_on_from_the_other(*again(), again)
    with pytest.raises(EnvError, match="of another environment, or of other settings"):
        ArenaInC(3, 4, 4, 20).load_state_dict(batched.state_dict(), plan)


def test_the_arena_has_the_pictures_and_letters_of_the_batched_one():
    one, other = ArenaInC(2, config={"width": 4}), BatchedArena(2, 4)
    play_beside(one, other, 9)
    assert np.array_equal(one.render(1), other.render(1)) and one.text(1) == other.text(1)
    assert one.kinds == other.kinds and one.render_fps == other.render_fps


# --- which runs ---------------------------------------------------------------------------------------------------


def test_a_twin_in_c_is_taken_unless_something_else_is_asked_for():
    for name, batched in (("CartPole-v1", BatchedCartPole), ("MultiAgentArena", BatchedArena)):
        assert isinstance(make_env(name, {}, (), 2, "auto"), variants.CVariant)
        assert isinstance(make_env(name, {}, (), 2, "c"), variants.CVariant)
        assert isinstance(make_env(name, {}, (), 2, "batched"), batched)
        assert not has_single_envs(name, {}, (), 2, "c")
    assert not isinstance(make_env("CartPole-v1", {"disable_env_checker": True}, (), 2, "auto"), variants.CVariant)
    with pytest.raises(
        EnvError, match="'c' cannot be used: this environment has no variant in C; use 'serial' or 'auto'"
    ):
        make_env("FrozenLake-v1", {}, (), 2, "c")


@pytest.mark.usefixtures("no_twins_in_c")
def test_without_them_the_environments_in_python_run_and_it_is_told_how_to_build_them():
    assert isinstance(make_env("CartPole-v1", {}, (), 2, "auto"), BatchedCartPole)
    with pytest.raises(
        EnvError, match="'c' cannot be used: the variants in C are not built; with a C compiler: python set"
    ):
        make_env("CartPole-v1", {}, (), 2, "c")


def test_where_numpy_and_the_c_library_differ_in_a_last_bit_no_twin_is_used(monkeypatch):
    monkeypatch.setattr(variants.math, "cos", lambda x: np.nextafter(np.cos(x), 2.0))
    native_unavailable_reason.cache_clear()
    try:
        assert native_unavailable_reason().startswith("NumPy and the C library do not agree on")
    finally:
        monkeypatch.undo()
        native_unavailable_reason.cache_clear()


def test_a_run_in_c_goes_on_to_the_same_weights_and_so_does_one_without(tmp_path):
    def trained(folder, *parts, **settings):
        config = PPOConfig(fragment_length=32, minibatch_size=64, epochs=2)
        trainer = Trainer("CartPole-v1", config, num_envs=4, seed=0, run_dir=folder, **settings)
        for number, iterations in enumerate(parts):
            trainer.train(stop={"iterations": iterations})
            trainer.close()
            if number + 1 < len(parts):
                trainer = Trainer.load(folder)
        return repr(trainer.policies["main"].state_dict()), trainer.env.name

    whole, name = trained(tmp_path / "whole", 8)
    assert name == "CartPole-v1, in C"
    assert trained(tmp_path / "halves", 3, 8) == (whole, name)
    batched = trained(tmp_path / "batched", 8, config={"env.implementation": "batched"})
    assert batched == (whole, "CartPole-v1, batched")


# --- Gymnasium's others -------------------------------------------------------------------------------------------

CLASSICS = {
    "Acrobot-v1": {
        "link_length_1": (0.5, 1.5), "link_length_2": (0.5, 1.5), "link_mass_1": (0.5, 1.5), "link_mass_2": (0.5, 1.5),
        "link_moi": (0.5, 1.5),
    },
    "MountainCar-v0": {"force": (0.0005, 0.003), "gravity": (0.001, 0.003), "goal_velocity": (0.0, 0.03)},
    "MountainCarContinuous-v0": {"power": (0.001, 0.003), "goal_velocity": (0.0, 0.03)},
    "Pendulum-v1": {"gravity": (5.0, 12.0), "mass": (0.5, 2.0), "length": (0.5, 2.0)},
}  # fmt: skip


def swinging(env, shown, rng):
    """Pushes car or link the way it goes, most of the time, so that it arrives."""
    speeds = shown.rows[0].obs["obs"][:, -1]
    fast = speeds + rng.normal(0, 0.002 if speeds.max() < 0.1 else 0.2, env.num_lanes)
    action = env.kinds[0].action
    return [np.where(fast > 0, 2, 0) if action.sizes else np.sign(fast).astype(np.float32)[:, None] * 0.6]


@pytest.mark.parametrize("name", CLASSICS)
def test_gymnasiums_classics_are_the_same_to_the_last_bit_up_to_truncation(name):
    twin = make_env(name, {}, (), 3, "c")
    limit = {"Acrobot-v1": 500, "MountainCarContinuous-v0": 999}.get(name, 200)
    ends = play_beside(twin, make_env(name, {}, (), 3, "serial"), limit + 20)
    assert ends["truncated"] >= 3


@pytest.mark.parametrize("name", ["Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0"])
def test_what_arrives_is_the_same_too(name):
    settings = {"max_episode_steps": 140}
    twin, single = (make_env(name, settings, (), 8, how) for how in ("c", "serial"))
    ends = play_beside(twin, single, 560, swinging)
    assert ends["terminated"] > 5 and ends["truncated"] > 2


@pytest.mark.parametrize("name", CLASSICS)
def test_parameters_of_gymnasiums_classics_are_the_same(name):
    samplers = {parameter: UniformSampler(*bounds) for parameter, bounds in CLASSICS[name].items()}
    settings = {"max_episode_steps": 60}
    single = make_env(name, settings, (), 3, "serial", parameters=tuple(samplers))
    twin = make_env(name, settings, (), 3, "c", parameters=tuple(samplers))
    play_beside(twin, single, 130, seeds=plan_of(**samplers))
    assert {name: one.default for name, one in twin.parameters.items()} == {
        parameter: single.parameters[parameter].default for parameter in samplers
    }
    assert twin.kinds == single.kinds


@pytest.mark.parametrize("name", CLASSICS)
def test_a_saved_classic_goes_on_and_one_of_single_copies_begins_its_next_episodes(name):
    twin, other = make_env(name, {}, (), 3, "c"), make_env(name, {}, (), 3, "c")
    single = make_env(name, {}, (), 3, "serial")
    play_beside(twin, single, 37)
    state = twin.state_dict()
    shown, lost = other.load_state_dict(state, plan)
    again, _ = twin.load_state_dict(state, plan)
    assert not lost.any()
    play_beside(twin, other, 60, begun=(again, shown))
    shown, lost = other.load_state_dict(single.state_dict(), plan)
    assert lost.all() and not other.exact and other.episode.tolist() == [1, 1, 1]


def test_pictures_of_gymnasiums_classics_are_drawn_by_single_copies():
    assert not isinstance(make_env("Pendulum-v1", {}, (), 1, "auto", render=True), variants.CVariant)
    assert isinstance(make_env("CartPole-v1", {}, (), 1, "auto", render=True), variants.CVariant)


def test_a_classic_whose_rules_have_changed_keeps_its_own(monkeypatch):
    from gymnasium.envs.classic_control import PendulumEnv

    monkeypatch.setattr(PendulumEnv, "_get_obs", lambda self: np.array([*self.state, 0], np.float32))
    variants.matches_gymnasium.cache_clear()
    try:
        assert not isinstance(make_env("Pendulum-v1", {}, (), 1, "auto"), variants.CVariant)
    finally:
        variants.matches_gymnasium.cache_clear()


# --- tasks --------------------------------------------------------------------------------------------------------

TASKS = {
    "RepeatAfterMe": [{}, {"delay": 3, "max_episode_steps": 9}, {"delay": 12, "max_episode_steps": 9}],
    "RepeatPrevious": [{}, {"num_decks": 2, "k": 1}],
    "Autoencode": [{}],
    "CountRecall": [{}],
    "CueCorridor": [{"length": 4}, {"length": 9, "min_length": 2}, {"length": 1}],
    "GoalGrid": [{}, {"size": 2, "max_steps": 5, "observation": "one_hot"}],
}
PLAYED = [(name, settings) for name, many in TASKS.items() for settings in many]


@pytest.mark.parametrize(("name", "settings"), PLAYED)
def test_tasks_are_those_in_python_to_the_last_bit(name, settings):
    def made(how):
        return make_env(name, settings, (), 4, how)

    assert isinstance(made("auto"), variants.BatchedCVariant) and not isinstance(made("batched"), variants.CVariant)
    twin, batched = made("auto"), made("batched")
    ends = play_beside(twin, batched, 230)
    assert ends["terminated"] + ends["truncated"] >= 4
    assert twin.kinds == batched.kinds and twin.render_fps == batched.render_fps
    assert np.array_equal(twin.render(2), batched.render(2)) and twin.text(1) == batched.text(1)
    assert_equal_states(twin.state_dict(), batched.state_dict())
    if name != "GoalGrid":
        play_beside(made("auto"), made("serial"), 110)


@pytest.mark.parametrize("name", TASKS)
def test_each_task_goes_on_from_what_the_other_has_saved(name):
    def again():
        return tuple(make_env(name, TASKS[name][-1], (), 3, how) for how in ("auto", "batched"))

    assert_each_goes_on_from_the_other(*again(), again)


def test_a_goal_grid_in_c_refuses_what_the_mask_forbids():
    grid = make_env("GoalGrid", {"size": 2}, (), 1, "auto")  # where two of four ways lead into a wall
    mask = grid.reset(plan).rows[0].obs["action_mask"][0]
    assert mask.sum() == 3
    with pytest.raises(EnvError, match="is not allowed by its action_mask"):
        grid.step([np.flatnonzero(~mask)[:1]])
