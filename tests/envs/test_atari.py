"""Atari: the pictures are those of ALE, and runs of both implementations repeat and resume to the last bit."""

import gymnasium
import numpy as np
import pytest

from selection import slow

pytest.importorskip("ale_py")

from ale_py.vector_env import AtariVectorEnv

from rookery.core.errors import EnvError
from rookery.core.io.encoding import decode, encode
from rookery.envs.adapters import atari
from rookery.envs.adapters.atari import Atari, BatchedAtari
from rookery.envs.adapters.snapshot import can_capture, capture, restore
from rookery.envs.base import VectorEnv
from rookery.envs.make import make_env
from rookery.envs.vector.serial import SerialEnv


def seeds(lane, episode):
    return 1000 * lane + episode


def made(env="Atari", implementation="auto", lanes=2, **config):
    return make_env(env, config, (), lanes, implementation)


# -- the rules -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("game", "settings", "steps"),
    [
        ("pong", {}, 60),
        ("breakout", {"episodic_life": True}, 160),
        ("space_invaders", {"frameskip": 3, "reward_clipping": False}, 160),
        ("seaquest", {"max_num_frames_per_episode": 402, "stack_num": 2}, 130),
        ("freeway", {"full_action_space": True, "use_fire_reset": False}, 60),
        ("carnival", {"frameskip": 1}, 90),
    ],
)
def test_a_game_is_that_of_ales_vector_environment_pixel_for_pixel(game, settings, steps):
    # With no waiting at the start and no sticky actions nothing is drawn; ALE takes a seed to forget earlier games.
    theirs = {key: value for key, value in settings.items() if key != "episodic_life"}
    theirs["life_loss_info"] = settings.get("episodic_life", False)
    ale = AtariVectorEnv(game, 1, noop_max=0, autoreset_mode="SameStep", **theirs)
    ours, rng = Atari(game=game, noop_max=0, **settings), np.random.default_rng(3)
    (seen,), _ = ale.reset(seed=0)
    np.testing.assert_array_equal(ours.reset(seed=0)[0], seen)
    for _ in range(steps):
        action = int(rng.integers(ale.single_action_space.n))
        (seen,), (reward,), (terminated,), (truncated,), infos = ale.step(np.array([action]))
        shown, *outcome, info = ours.step(action)
        assert outcome == [reward, terminated, truncated]
        if truncated:
            np.testing.assert_array_equal(shown, infos["final_obs"][0])
        if terminated or truncated:
            if info["lives"] == 0 or truncated or not settings.get("episodic_life"):
                (seen,), _ = ale.reset(seed=0)
            shown, _ = ours.reset(seed=0)
        np.testing.assert_array_equal(shown, seen)


def test_an_episode_depends_on_its_seed_and_actions_alone():
    def episode(env, seed, steps):
        rng = np.random.default_rng(seed)
        seen = [env.reset(seed=seed)[0]]
        for _ in range(steps):
            seen.append(env.step(int(rng.integers(env.action_space.n)))[0])
        return np.stack(seen)

    env = Atari(game="seaquest", repeat_action_probability=0.25)
    first = episode(env, 5, 60)
    assert not np.array_equal(episode(env, 6, 60), first)
    np.testing.assert_array_equal(episode(env, 5, 60), first)
    np.testing.assert_array_equal(episode(Atari(game="seaquest", repeat_action_probability=0.25), 5, 60), first)


def test_a_game_waits_at_its_start_for_fewer_frames_than_noop_max():
    env, waited = Atari(game="space_invaders", noop_max=5, use_fire_reset=False), set()
    for seed in range(40):
        env.reset(seed=seed)
        waited.add(env.ale.getEpisodeFrameNumber())
    assert waited == {0, 1, 2, 3, 4}


def test_actions_stick_as_often_as_asked():
    env = Atari(game="pong", repeat_action_probability=0.4, frameskip=1)
    env.reset(seed=0)
    stuck = 0
    for step in range(500):
        before, wanted = env._held, step % 2
        env.step(wanted)
        assert env._held in (before, env._actions[wanted])
        stuck += env._held != env._actions[wanted]
    # stuck needs a repeat and a held action other than the wanted one: p / (1 + p) of the steps when actions alternate
    assert abs(stuck / 500 - 0.4 / 1.4) < 0.06


def test_a_lost_life_ends_the_episode_and_the_game_goes_on():
    env, rng = Atari(game="breakout", episodic_life=True), np.random.default_rng(0)
    env.reset(seed=0)
    lives = []
    while len(lives) < 6:
        shown, _, terminated, _, info = env.step(int(rng.integers(4)))
        if terminated:
            lives.append(info["lives"])
            again, _ = env.reset(seed=len(lives))
            assert np.array_equal(again, shown) == (info["lives"] > 0)
    assert lives == [4, 3, 2, 1, 0, 4]


def test_a_captured_game_goes_on_alike_with_sticky_actions():
    settings = {"game": "breakout", "repeat_action_probability": 0.25, "episodic_life": True}
    one, other, rng = Atari(**settings), Atari(**settings), np.random.default_rng(0)
    assert can_capture(one)
    one.reset(seed=1)
    for _ in range(57):
        if one.step(int(rng.integers(4)))[2]:
            one.reset(seed=2)
    other.reset(seed=9)
    restore(other, decode(*encode(capture(one))))
    ends = 0
    for step in range(200):
        action = int(rng.integers(4))
        (seen, *paid), (again, *paid_again) = one.step(action), other.step(action)
        np.testing.assert_array_equal(seen, again)
        assert paid == paid_again
        if paid[1]:
            ends += 1
            np.testing.assert_array_equal(one.reset(seed=step)[0], other.reset(seed=step)[0])
    assert ends > 2


# -- names and errors ------------------------------------------------------------------------------


def test_atari_is_serial_unless_batched_is_asked_for():
    assert isinstance(made(game="Pong"), SerialEnv)
    batched = made(game="Pong", implementation="batched")
    assert isinstance(batched, BatchedAtari)
    assert isinstance(batched, VectorEnv)
    assert batched.exact
    assert batched.kinds == made(game="Pong").kinds


def test_an_ale_id_is_preprocessed_when_batched_with_its_own_sticky_actions_and_raw_otherwise():
    batched = made("ALE/MsPacman-v5", "batched", noop_max=7)
    assert batched.name == "Atari ms_pacman, batched"
    assert batched.kinds[0].obs.leaves[0].shape == (4, 84, 84)
    assert made("ALE/MsPacman-v5").kinds[0].obs.leaves[0].shape == (210, 160, 3)
    assert gymnasium.spec("ALE/MsPacman-v5").kwargs["repeat_action_probability"] == 0.25


@pytest.mark.parametrize("implementation", ["serial", "batched"])
@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({}, "game is missing"),
        ({"game": "pnog"}, "game 'pnog' is unknown; did you mean 'pong'"),
        ({"game": "pong", "frame_skip": 3}, "no setting 'frame_skip'.* did you mean 'frameskip'"),
        ({"game": "pong", "frameskip": 0}, "frameskip is 0, expected an integer of at least 1"),
        ({"game": "pong", "repeat_action_probability": 1.0}, "less than 1"),
    ],
)
def test_wrong_settings_are_named(implementation, config, told):
    with pytest.raises(EnvError, match=told):
        made(implementation=implementation, **config)


def test_an_action_that_is_none_is_an_error_that_names_the_lane():
    env = made(game="pong", implementation="batched")
    with pytest.raises(EnvError, match="before reset"):
        env.step([np.array([0, 0])])
    env.reset(seeds)
    with pytest.raises(EnvError, match="environment 1, .*episode 0, .*action 6 of agent is not from 0 to 5"):
        env.step([np.array([0, 6])])


# -- many at once ----------------------------------------------------------------------------------

SETTINGS = {"game": "breakout", "repeat_action_probability": 0.25, "episodic_life": True, "implementation": "batched"}


def played(env, steps, rng):
    found = []
    for _ in range(steps):
        shown = env.step([rng.integers(0, 4, env.num_lanes)])
        rows = shown.rows[0]
        found.append(
            (rows.obs["obs"].copy(), rows.reward.copy(), rows.terminated.copy(), shown.ended.copy(), env.episode.copy())
        )
    return found


def same(one, other):
    return all(np.array_equal(a, b) for pair in zip(one, other, strict=True) for a, b in zip(*pair, strict=True))


@pytest.mark.slow
def test_steps_are_the_same_for_any_number_of_threads(monkeypatch):
    monkeypatch.setattr(atari, "RESEED_AFTER", 150)
    runs = []
    for threads in (1, 3):
        env = made(lanes=3, num_threads=threads, **SETTINGS)
        env.reset(seeds)
        runs.append(played(env, 300, np.random.default_rng(0)))
        assert (env._since < 300).any()  # some lane took a new seed
        env.close()
    assert same(*runs)


@pytest.mark.parametrize(
    ("threads", "usable", "there", "stay"), [(0, 2, 2, True), (2, 2, 2, True), (1, 2, 2, False), (0, 2, 4, False)]
)
def test_threads_stay_on_their_cores_where_each_core_of_the_machine_has_one(monkeypatch, threads, usable, there, stay):
    asked = {}

    class NotifyingPlan(AtariVectorEnv):
        def __init__(self, **settings):
            asked.update(settings)
            raise KeyboardInterrupt  # what it was asked for is known

    monkeypatch.setattr(atari, "AtariVectorEnv", NotifyingPlan)
    monkeypatch.setattr(atari, "usable_cores", lambda: usable)
    monkeypatch.setattr(atari.os, "cpu_count", lambda: there)
    with pytest.raises(KeyboardInterrupt):
        made(lanes=3, num_threads=threads, **SETTINGS)
    assert asked["num_threads"] == (threads or usable)
    assert asked["thread_affinity_offset"] == (0 if stay else -1)


def test_truncated_games_show_their_last_picture_beside_the_next():
    env = made(game="pong", implementation="batched", max_num_frames_per_episode=40)
    env.reset(seeds)
    for step in range(1, 21):
        shown = env.step([np.array([2, 3])])
        rows = shown.rows[0]
        assert shown.ended.tolist() == [step % 10 == 0] * 2
        if step % 10 == 0:
            assert rows.truncated.all()
            assert not rows.terminated.any()
            assert rows.final_index.tolist() == [0, 1]
            assert (rows.final_obs["obs"][:, 0] > 0).any()
            assert not rows.obs["obs"][:, :3].any()  # the next game has one picture so far
        assert rows.waiting.all()
    assert env.episode.tolist() == [2, 2]


@pytest.mark.parametrize("episodic_life", [False, True])
def test_the_end_of_a_game_or_of_a_life_is_drawn(episodic_life):
    env, rng = made(game="breakout", implementation="batched", episodic_life=episodic_life), np.random.default_rng(0)
    env.keep_last_pictures = True
    env.reset(seeds)
    found = []
    while len(found) < (8 if episodic_life else 2):
        before = [env.render(lane) for lane in range(2)]
        ended = env.step([rng.integers(0, 4, 2)]).ended
        for lane in np.flatnonzero(ended).tolist():
            last = env.last_pictures.pop(lane)
            found.append(np.array_equal(last, env.render(lane)))
            assert found[-1] or np.array_equal(last, before[lane])  # the ball is out of sight, and nothing moves
    assert not all(found) and any(found) == episodic_life  # the game continues where only a life is lost


@pytest.mark.parametrize("stop", [slow(0), 180])
def test_an_interrupted_run_goes_on_in_the_middle_of_its_games(monkeypatch, stop):
    monkeypatch.setattr(atari, "RESEED_AFTER", 100)
    env, rng = made(lanes=3, **SETTINGS), np.random.default_rng(0)
    env.reset(seeds)
    played(env, stop, rng)
    state = decode(*encode(env.state_dict()))
    assert len(set(state["since"].tolist())) == (2 if stop == 180 else 1)  # logs of different lengths end together
    resumed = made(lanes=3, num_threads=1, **SETTINGS)
    shown, lost = resumed.load_state_dict(state, seeds)
    assert not lost.any()
    assert resumed.exact
    np.testing.assert_array_equal(shown.rows[0].obs["obs"], env._rows.obs["obs"])
    actions = np.random.default_rng(1)
    assert same(played(env, 80, copy_of(actions)), played(resumed, 80, copy_of(actions)))


def copy_of(rng):
    other = np.random.default_rng()
    other.bit_generator.state = rng.bit_generator.state
    return other


def test_a_game_longer_than_its_log_is_given_up_and_the_run_says_so(monkeypatch):
    monkeypatch.setattr(atari, "LOG_LIMIT", 20)
    env = made(game="pong", implementation="batched")
    env.reset(seeds)
    for _ in range(21):
        env.step([np.array([0, 0])])
    resumed = made(game="pong", implementation="batched")
    _, lost = resumed.load_state_dict(env.state_dict(), seeds)
    assert lost.all()
    assert not resumed.exact
    assert resumed.episode.tolist() == [1, 1]


def test_a_state_of_another_game_is_refused_or_its_lanes_are_lost():
    env = made(game="pong", implementation="batched")
    env.reset(seeds)
    env.step([np.array([2, 3])])
    with pytest.raises(EnvError, match="other settings"):
        made(game="pong", implementation="batched", stack_num=2).load_state_dict(env.state_dict(), seeds)
    _, lost = made(game="seaquest", implementation="batched").load_state_dict(env.state_dict(), seeds)
    assert lost.all()


def test_pictures_are_what_is_seen_in_grey_and_the_screen_in_colour():
    batched = made(game="pong", implementation="batched")
    batched.reset(seeds)
    assert batched.render(0).shape == (336, 336, 3)
    one = Atari(game="pong", render_mode="rgb_array")
    one.reset(seed=0)
    assert one.render().shape == (210, 160, 3)


def test_many_games_may_be_closed_twice():
    env = made(implementation="batched", game="pong")
    env.close()
    env.close()
