"""Environments in C keep the contract of vector environments, however many threads step them."""

import copy
import ctypes
import subprocess
import sys

import numpy as np
import pytest
from gymnasium import spaces
from sources import RACE, SMALL, needs_compiler

from rookery import CEnv, PPOConfig, Trainer, c_env_of
from rookery.core.errors import ConfigError, EnvError
from rookery.core.settings.trust import is_ours
from rookery.envs.base import VectorEnv
from rookery.envs.make import env_name, make_env
from rookery.envs.native.compiler import FOLDER, command_of
from rookery.envs.parameters import Draws, EpisodePlan
from rookery.envs.random_play import random_answers
from rookery.envs.samplers import UniformSampler
from rookery.envs.schemes import code_of
from rookery_mlagents.link.scheme import is_player
from selection import slow

pytestmark = needs_compiler

LANES = 5


def plan(lane, episode):
    return (lane * 7919 + episode * 104729 + 13) % 2**31


def shown_by(env, step):
    """All that a step shows, as plain values."""
    (rows,) = step.rows
    return (
        {path: array[rows.waiting].tolist() for path, array in rows.obs.items()},
        rows.reward.tolist(), rows.terminated.tolist(), rows.truncated.tolist(), rows.waiting.tolist(),
        rows.final_index.tolist(), {path: array.tolist() for path, array in rows.final_obs.items()},
        step.ended.tolist(), step.any_end, env.episode.tolist(),
    )  # fmt: skip


def play(env, steps, step, rng):
    found = []
    for _ in range(steps):
        step = env.step(random_answers(env, step, rng))
        found.append(shown_by(env, step))
    return found, step


def test_spaces_agents_and_settings_are_those_that_the_file_describes():
    env = c_env_of(RACE)(2, length=4)
    (kind,) = env.kinds
    assert isinstance(env, VectorEnv) and env.exact and env.name == "race, in C" and env.render_fps == 5
    assert kind.agents == ("hare", "tortoise")
    assert kind.obs.space == spaces.Dict(
        {
            "track": spaces.Dict({"places": spaces.Box(-100, 100, (2,))}),
            "picture": spaces.Box(0, 255, (2, 2, 3), np.uint8),
            "who": spaces.Discrete(2),
            "action_mask": spaces.MultiBinary(5),
        }
    )
    assert kind.action.space == spaces.MultiDiscrete([3, 2])
    assert {name: (one.default, one.low, one.high) for name, one in env.parameters.items()} == {"wind": (0, -1, 1)}
    assert env.fields["place"].shape == (2, 2) and env.fields["random"].shape == (2, 5)


def test_turns_ends_one_by_one_and_time_limits_are_as_the_rules_say():
    env = c_env_of(RACE)(LANES)
    step, rng = env.reset(plan), np.random.default_rng(0)
    seen = {"terminated": 0, "truncated": 0, "alone": 0}
    for _ in range(400):
        waited = step.rows[0].waiting.reshape(LANES, 2).copy()
        assert (waited.sum(axis=1) == 1).all()
        step = env.step(random_answers(env, step, rng))
        rows = step.rows[0]
        assert step.any_end == bool(rows.terminated.any() or rows.truncated.any() or step.ended.any())
        assert rows.final_index.tolist() == np.flatnonzero(rows.truncated).tolist()
        assert (rows.final_obs["track/places"][:, 0] < 6).all()
        seen["terminated"] += rows.terminated.sum()
        seen["truncated"] += rows.truncated.sum()
        seen["alone"] += rows.terminated.any() and not step.ended.any()
    assert min(seen.values()) > 10


@pytest.mark.parametrize("threads", [2, 4])
def test_threads_that_step_shares_change_no_number(threads):
    alone, together = c_env_of(RACE)(LANES), c_env_of(RACE)(LANES, threads=threads)
    one, other = (play(env, 60, env.reset(plan), np.random.default_rng(1))[0] for env in (alone, together))
    assert one == other
    together.close()


def test_an_episode_does_not_depend_on_how_many_lanes_there_are():
    few, many = c_env_of(RACE)(2), c_env_of(RACE)(7)
    small_step, large_step = few.reset(plan), many.reset(plan)
    rng = np.random.default_rng(3)
    for _ in range(100):
        answers = random_answers(many, large_step, rng)[0]
        mine = large_step.rows[0].waiting[:4].sum()
        large_step, small_step = many.step([answers]), few.step([answers[:mine]])
        assert np.array_equal(small_step.rows[0].obs["track/places"], large_step.rows[0].obs["track/places"][:4])
        assert np.array_equal(small_step.rows[0].reward, large_step.rows[0].reward[:4])


def test_a_saved_state_goes_on_in_another_object_as_if_nothing_had_happened():
    env = c_env_of(RACE)(LANES)
    _, step = play(env, 33, env.reset(plan), np.random.default_rng(0))
    state = copy.deepcopy(env.state_dict())
    expected, _ = play(env, 60, step, np.random.default_rng(5))
    other = c_env_of(RACE)(LANES)
    step, lost = other.load_state_dict(state, plan)
    assert not lost.any() and other.exact
    assert play(other, 60, step, np.random.default_rng(5))[0] == expected
    assert repr(other.state_dict()) == repr(env.state_dict())


def test_a_state_of_other_settings_lanes_or_environments_is_refused():
    env = c_env_of(RACE)(LANES)
    env.reset(plan)
    state = env.state_dict()
    for other in (c_env_of(RACE)(LANES, length=4), c_env_of(RACE)(3), c_env_of(SMALL)(LANES)):
        with pytest.raises(EnvError, match="of another environment, or of other settings"):
            other.load_state_dict(state, plan)


def test_a_restart_begins_the_next_episodes_and_a_new_plan_holds_from_then_on():
    env = c_env_of(RACE)(LANES)
    _, step = play(env, 7, env.reset(plan), np.random.default_rng(0))
    before = env.episode.copy()
    asked = []
    env.replan(lambda lane, episode: asked.append((lane, episode)) or 5)
    first = env.restart(lambda lane, episode: asked.append((lane, episode)) or 5)
    assert asked == [(lane, before[lane] + 1) for lane in range(LANES)]
    places = first.rows[0].obs["track/places"].reshape(LANES, 2, 2)
    assert (places == places[0]).all() and not first.any_end and not first.rows[0].reward.any()
    other = c_env_of(RACE)(LANES)
    assert shown_by(env, env.reset(plan)) == shown_by(other, other.reset(plan))


def test_parameters_reach_the_episodes_that_have_them():
    env = c_env_of(RACE)(2)
    draws = Draws({"wind": UniformSampler(-1.0, 1.0)})
    episodes = EpisodePlan(
        plan, draws, lambda lane, episode, name, seed: np.random.default_rng(10 * lane + episode), {}
    )
    env.reset(episodes)
    drawn = [episodes.parameters(lane, 0)["wind"] for lane in range(2)]
    assert env.fields["wind"].tolist() == np.array(drawn, np.float32).tolist() and drawn[0] != drawn[1]
    env.restart(plan)
    assert env.fields["wind"].tolist() == [0.0, 0.0]


def test_a_lane_is_drawn_and_written_also_where_an_episode_has_ended():
    env = c_env_of(RACE)(LANES)
    step = env.reset(plan)
    assert env.render(1).shape == (2, 4, 3) and env.text(1) in "HT"
    env.keep_last_pictures = True
    play(env, 40, step, np.random.default_rng(0))
    assert env.last_pictures[0].max() >= 1 and env.last_texts[0] in ("H", "T")
    assert env.render(0).max() < env.last_pictures[0].max() + 7


def test_the_slab_is_written_in_place_and_never_read_back_but_for_masks():
    env, twin = c_env_of(RACE)(LANES), c_env_of(RACE)(LANES)
    step, clean, rng = env.reset(plan), twin.reset(plan), np.random.default_rng(0)
    for _ in range(50):
        answers = random_answers(twin, clean, rng)
        step.rows[0].reward[:] = -7
        step.rows[0].obs["track/places"][:] = -7
        step, clean = env.step(answers), twin.step(answers)
        assert shown_by(env, step) == shown_by(twin, clean)


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ([], "0 arrays of actions where there is one kind of agents"),
        (
            [np.zeros(2, int)],
            "actions of shape (2,) and type int64; expected (2, 2) integers, for the agents that must",
        ),
        ([np.zeros((2, 2))], "type float64; expected (2, 2) integers"),
        ([np.array([[0, 0], [3, 0]])], "episode 0, step 0: action 3 of "),
        ([np.array([[0, -1], [0, 0]])], "(element 1) is not from 0 to 1"),
    ],
)
def test_wrong_actions_are_named(actions, message):
    env = c_env_of(RACE)(2)
    env.reset(plan)
    with pytest.raises(EnvError) as error:
        env.step(actions)
    assert message in str(error.value)


def test_an_action_that_the_mask_forbids_is_named():
    env = c_env_of(RACE)(1)
    env.reset(plan)
    for _ in range(4):
        env.step([np.array([[2, 0]])])
    with pytest.raises(EnvError, match=r"race, in C: environment 0, seed 13, episode 0, step 4: action 2 of \w+ "
                                       r"\(element 0\) is not allowed by its action_mask"):  # fmt: skip
        env.step([np.array([[2, 0]])])


def test_a_step_before_reset_is_an_error_and_so_is_a_seed_that_is_none():
    env = c_env_of(RACE)(1)
    with pytest.raises(EnvError, match=r"step\(\) before reset\(\)"):
        env.step([np.zeros((1, 2), int)])
    with pytest.raises(EnvError, match=r"a seed is not from 0 to 2\^64 - 1"):
        env.reset(lambda lane, episode: 2**64)


def test_a_name_on_the_command_line_an_object_and_a_shipped_class_are_the_same_environment(tmp_path, monkeypatch):
    library = tmp_path / "shipped.so"
    subprocess.run(command_of(RACE, library), check=True)
    (tmp_path / "shipping.py").write_text(
        "from pathlib import Path\nfrom rookery import CEnv\n\n\n"
        "class Race(CEnv):\n    library = Path(__file__).with_name('shipped.so')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    found = []
    for name in (str(RACE), c_env_of(RACE), "shipping:Race", str(library)):
        env = make_env(name, {"length": 3}, (), 2, "auto")
        assert isinstance(env, CEnv)
        found.append(play(env, 20, env.reset(plan), np.random.default_rng(0))[0])
    assert all(one == found[0] for one in found)
    assert env_name(str(RACE)) == "race" and env_name("shipping:Race") == "Race"


def test_a_library_of_several_environments_has_each_by_its_symbol(tmp_path):
    text = RACE.read_text().replace("ROOKERY_ENV(", "ROOKERY_ENV_AS(first, ")
    source = tmp_path / "two.c"
    source.write_text(text)

    class First(CEnv):
        library, symbol = source, "first"

    assert First(1).kinds[0].agents == ("hare", "tortoise")


def test_an_environment_in_c_never_loads_torch():
    script = f"from rookery import c_env_of; import sys; c_env_of({str(RACE)!r})(2).reset(lambda a, b: 1)"
    run = subprocess.run([sys.executable, "-c", f"{script}; assert 'torch' not in sys.modules"], capture_output=True)
    assert run.returncode == 0, run.stderr.decode()


@pytest.mark.parametrize("stop", [7, slow(1)])
def test_a_run_goes_on_after_a_stop_to_the_same_weights(tmp_path, stop):
    def trained(folder, *parts):
        settings = PPOConfig(fragment_length=16, minibatch_size=32, epochs=2)
        trainer = Trainer(str(RACE), settings, num_envs=4, seed=0, run_dir=folder)
        for number, iterations in enumerate(parts):
            trainer.train(stop={"iterations": iterations})
            trainer.close()
            if number + 1 < len(parts):
                trainer = Trainer.load(folder)
        return trainer.policies["main"].state_dict(), trainer.resolved.config

    whole, _ = trained(tmp_path / "whole", 10)
    halves, config = trained(tmp_path / "halves", stop, 10)
    assert repr(whole) == repr(halves) and config.env.name == str(RACE)


# --- random numbers ---------------------------------------------------------------------------------------------------

DRAWING = r"""
#include "rookery_env.h"
__attribute__((visibility("default"))) void draw(uint64_t seed, double *numbers, int64_t *integers) {
    RookeryRandom random;
    rookery_seed(&random, seed);
    for (int i = 0; i < 4; i++) numbers[i] = rookery_random(&random);
    for (int i = 0; i < 4; i++) numbers[4 + i] = rookery_uniform(&random, -0.05, 3);
    for (int i = 0; i < 5; i++) integers[i] = rookery_integers(&random, -3, i * i * 1000 - 2);
    integers[5] = rookery_integers(&random, -5, (int64_t)1 << 40);
    integers[6] = rookery_integers(&random, 0, (int64_t)1 << 32);
    integers[7] = rookery_integers(&random, INT64_MIN, INT64_MAX);
    rookery_permutation(&random, integers + 8, 10);
    integers[18] = rookery_integers(&random, 0, ((int64_t)1 << 33) - 7);
}
"""


def test_random_numbers_are_those_of_numpys_default_rng_bit_for_bit(tmp_path):
    (tmp_path / "draw.c").write_text(DRAWING)
    subprocess.run(command_of(tmp_path / "draw.c", tmp_path / "draw.so"), check=True)
    draw = ctypes.CDLL(str(tmp_path / "draw.so")).draw
    draw.argtypes = (ctypes.c_uint64, ctypes.c_void_p, ctypes.c_void_p)
    for seed in [*range(200), 2**31 - 1, 2**32 - 1, 2**32, 2**40 + 3, 2**64 - 1]:
        numbers, integers = np.zeros(8), np.zeros(19, np.int64)
        draw(seed, numbers.ctypes.data, integers.ctypes.data)
        rng = np.random.default_rng(seed)
        assert numbers.tolist() == [*rng.random(4), *rng.uniform(-0.05, 3, 4)]
        expected = [rng.integers(-3, i * i * 1000 - 2) for i in range(5)]
        expected += [rng.integers(-5, 1 << 40), rng.integers(0, 1 << 32), rng.integers(-(2**63), 2**63 - 1)]
        expected += [*rng.permutation(10), rng.integers(0, (1 << 33) - 7)]
        assert integers.tolist() == expected


def test_the_header_is_valid_c_and_valid_cpp():
    for language in (["-x", "c", "-std=c11"], ["-x", "c++", "-std=c++17"]):
        compiler = command_of(RACE, RACE)[0]
        checks = ["-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-include", str(FOLDER / "rookery_env.h"), "-"]
        run = subprocess.run([compiler, *language, *checks], input=b"", capture_output=True)
        assert run.returncode == 0 or b"cc1plus" in run.stderr, run.stderr.decode()  # where there is no C++


def test_a_class_made_from_a_file_is_given_again_to_go_on_or_named_by_its_path(tmp_path):
    with Trainer(c_env_of(RACE), PPOConfig(fragment_length=8), num_envs=2, seed=0, run_dir=tmp_path / "run") as trainer:
        trainer.train(stop={"iterations": 1})
    with pytest.raises(ConfigError, match="give them again, as in Trainer.load"):
        Trainer.load(tmp_path / "run")
    for env in (c_env_of(RACE), str(RACE)):
        with Trainer.load(tmp_path / "run", env=env) as trainer:
            assert trainer.env.exact


def test_a_file_in_c_is_code_of_whoever_names_it_and_never_ours(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for name in ("walk.c", "rookery.c", "gymnasium.so", "./walk.c"):
        assert code_of(name) == str(tmp_path / name.removeprefix("./")) and not is_ours(code_of(name))
        assert not is_player(name)
