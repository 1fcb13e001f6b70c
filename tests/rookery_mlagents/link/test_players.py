"""Players launched by their path: pretended ones, in processes of their own."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from uuid import UUID

import numpy as np
import pytest

pytest.importorskip("grpc")

from rookery import PPOConfig, Trainer
from rookery.core.errors import EnvError
from rookery.envs.make import env_name, make_env
from rookery.envs.parameters import Draws, EpisodePlan
from rookery.envs.random_play import random_answers
from rookery.envs.samplers import ChoiceSampler, ConstantSampler, IntervalsSampler, NormalSampler, UniformSampler
from rookery_mlagents.link.grpc_server import PlayerLink
from rookery_mlagents.link.player_channel import PlayerChannel
from rookery_mlagents.link.player_program import PlayerProcess, find_player
from rookery_mlagents.link.scheme import is_player
from rookery_mlagents.link.side_channel_codec import PARAMETERS, read_parameter, unpack
from rookery_mlagents.link.unity_env import UnityEnv
from rookery_mlagents.testing import write_player

BASIC = "rookery.tasks:Basic"


@pytest.fixture
def game(tmp_path):
    """Writes a player, and says how it is started: with logs and ports of the test's own."""

    def written(*arguments, env=BASIC, name="Game.x86_64"):
        return write_player(tmp_path / "build" / name, env, [str(word) for word in arguments])

    return written


@pytest.fixture
def started(game, tmp_path):
    """Makes environments that are closed at the end."""
    made = []

    def start(*arguments, num_lanes=1, env=BASIC, **config):
        config = {"log_folder": tmp_path / "logs", "timeout_wait": 20.0, "base_port": 25100, **config}
        made.append(UnityEnv(num_lanes, game(*arguments, env=env), **config))
        return made[-1]

    yield start
    for env in made:
        env.close()


def plan(lane, episode):
    return 1000 * lane + episode


def play(env, steps, seeds=plan, until=lambda step: False, seconds=30.0):
    """Plays at random for so many steps of lanes; gives how many each made, and the last step."""
    rng, made, deadline = np.random.default_rng(0), np.zeros(env.num_lanes, int), time.monotonic() + seconds
    step = env.reset(seeds)
    while made.sum() < steps and time.monotonic() < deadline:
        step = env.step(random_answers(env, step, rng))
        made += step.stepped
        if until(step):
            break
    return made, step


# --- launching --------------------------------------------------------------------------------------------------------


def test_two_players_on_two_ports_play_episodes_of_agents(started):
    env = started(num_lanes=2)
    assert env.name == "Game"
    assert env.own_episodes
    assert not env.exact
    assert [kind.agents for kind in env.kinds] == [("Basic#0?team=0",)]
    made, _ = play(env, 400)
    assert (made > 20).all()
    assert (env.episode > 0).all()
    logs = sorted(path.name for path in env.players._folder.iterdir())
    assert [name for name in logs if "output" not in name] == ["Player-0.log", "Player-1.log"]
    ports = [one.life.link.port for one in env.players._lanes]
    assert ports == [25100, 25101]
    processes = [one.life.process for one in env.players._lanes]
    env.close()
    assert all(process.has_ended() for process in processes)
    assert "the trainer has said goodbye" in (env.players._folder / "Player-0.log").read_text()


@pytest.mark.slow
def test_a_port_that_is_taken_is_passed_over(started, tmp_path):
    first = started()
    second = started()
    assert [one.players._lanes[0].life.link.port for one in (first, second)] == [25100, 25101]
    with pytest.raises(EnvError, match="port 25100 is taken"):
        UnityEnv(1, None, base_port=25100)


def test_names_of_players(game, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = game()
    assert is_player(str(path))
    assert is_player("build/Game")
    assert is_player("unity:build/Game")
    assert is_player("unity:editor")
    assert is_player("./nothing")
    assert env_name("unity:build/Game.x86_64") == "Game"
    assert not any(map(is_player, ("CartPole-v1", "ALE/Pong-v5", "my.module:Env", "Basic", "tmp")))
    assert find_player("build/Game") == find_player("build") == find_player(path) == path


def test_files_that_are_no_players(game, tmp_path):
    path = game()
    with pytest.raises(EnvError, match=r"no such file in .*; did you mean 'Game.x86_64'"):
        find_player(path.with_name("Gaem.x86_64"))
    with pytest.raises(EnvError, match="there is no folder"):
        find_player(tmp_path / "nowhere" / "Game")
    path.chmod(0o644)
    with pytest.raises(EnvError, match="may not be run: chmod"):
        find_player(path)
    (tmp_path / "text.x86_64").write_text("hello")
    (tmp_path / "arm.x86_64").write_bytes(b"\x7fELF\x02\x01" + bytes(12) + b"\xf3\x00" + bytes(40))
    (tmp_path / "old.x86_64").write_bytes(b"\x7fELF\x02\x01" + bytes(12) + b"\x28\x00" + bytes(40))
    (tmp_path / "other.exe").write_bytes(b"MZ" + bytes(62))
    for name, why in (("text", "it is not a program"), ("old", "for arm processors"), ("other", "for Windows")):
        with pytest.raises(EnvError, match=why):
            find_player(tmp_path / name)
    with pytest.raises(EnvError, match="holds no single program; it holds"):
        find_player(tmp_path)


def test_settings_that_cannot_be(game):
    path = str(game())
    with pytest.raises(EnvError, match=r"timeout_wait = 0: must be a number above 0"):
        make_env(path, {"timeout_wait": 0}, (), 1, "auto")
    with pytest.raises(EnvError, match=r"'no_grafics', unknown to it; did you mean 'no_graphics'"):
        make_env(path, {"no_grafics": True}, (), 1, "auto")
    with pytest.raises(EnvError, match="is one copy"):
        make_env("unity:editor", {}, (), 2, "auto")


# --- players that fail ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--hang-at", -1], "has not connected within 3 seconds"),
        (["--silent"], "no agent has asked for a decision within 3 seconds: give each agent a Decision Requester"),
        (["--crash-at", -1], r"was killed by SIGABRT(?s:.)*Player-0.log(?s:.)*NullReferenceException"),
    ],
)
def test_what_can_be_wrong_with_a_player_is_told_apart(started, arguments, why):
    with pytest.raises(EnvError, match=why):
        started(*arguments, timeout_wait=3.0)


def test_a_player_of_another_version_is_refused(started, monkeypatch):
    monkeypatch.setattr("rookery_mlagents.link.grpc_server.version_problem", lambda version: f"it speaks {version}")
    with pytest.raises(EnvError, match=r"port 25100 is refused: it speaks 1.5.0"):
        started()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "counter"),
    [("--crash-at", "players_exited"), ("--close-at", "players_closed"), ("--hang-at", "players_hung")],
)
def test_of_three_players_one_fails_and_playing_goes_on(started, tmp_path, arguments, counter):
    count = tmp_path / "launches"
    fault = [arguments, 30, "--count-file", count, "--only-run", 2]
    env = started(*fault, num_lanes=3, timeout_wait=4.0)
    lost = []

    def back(step):
        if step.lost is not None and step.lost.any():
            lost.append(int(np.flatnonzero(step.lost)[0]))
            assert any(rows.truncated.any() for rows in step.rows)
        return bool(lost) and step.stepped[lost[0]]

    others = []
    made, _ = play(env, 100_000, until=lambda step: others.append(step.stepped.sum()) or back(step))
    assert len(lost) == 1
    assert env.counters == {counter: 1}
    assert len(count.read_text().split()) == 4
    others = np.delete(made, lost[0])
    assert (others > 60).all(), "nobody waits for a player that is gone"


@pytest.mark.slow
def test_players_are_not_replaced_for_ever(started):
    env = started("--crash-at", 20)
    with pytest.raises(
        EnvError, match=r"(?s)2 times within 60 seconds, and restarts_rate_limit_n = 1.*the end of .*log"
    ):
        play(env, 1000)
    other = started("--crash-at", 20, restarts_rate_limit_n=-1, max_lifetime_restarts=2)
    with pytest.raises(EnvError, match="replaced 2 times already, and max_lifetime_restarts = 2"):
        play(other, 1000)


@pytest.mark.slow
def test_a_killed_player_is_replaced(started):
    env = started(num_lanes=2)
    play(env, 50)
    before = env.players._lanes[1].life
    os.killpg(_player_of(before.process), signal.SIGKILL)
    made, _ = play(env, 10_000, until=lambda step: env.players._lanes[1].life is not before and step.stepped[1])
    assert env.counters == {"players_exited": 1}
    assert made[0] > made[1]


def _player_of(process):
    """The process group of a player, which is the only child of its guard."""
    listed = Path(f"/proc/{process._guard.pid}/task/{process._guard.pid}/children").read_text()
    return int(listed.split()[0])


@pytest.mark.slow
def test_players_end_with_a_trainer_that_is_killed(game, tmp_path):
    code = (
        "from rookery_mlagents.link.unity_env import UnityEnv\nimport time\n"
        f"env = UnityEnv(1, {str(game())!r}, base_port=25200, log_folder={str(tmp_path / 'logs')!r})\n"
        "process = env.players._lanes[0].life.process\n"
        "children = f'/proc/{process._guard.pid}/task/{process._guard.pid}/children'\n"
        "print(open(children).read().split()[0], flush=True)\ntime.sleep(60)\n"
    )
    trainer = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    player = int(trainer.stdout.readline())
    assert Path(f"/proc/{player}").exists()
    trainer.kill()
    trainer.wait()
    trainer.stdout.close()
    deadline = time.monotonic() + 10.0
    while Path(f"/proc/{player}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{player}").exists()


@pytest.mark.slow
def test_a_number_that_is_none_is_told_with_its_sensor(started):
    with pytest.raises(EnvError, match=r"behaviour Basic\?team=0: VectorSensor_size20: non-finite observation nan"):
        play(started("--nan-at", 5), 100)
    with pytest.raises(EnvError, match=r"behaviour Basic\?team=0: non-finite reward nan"):
        play(started("--nan-at", 5, "--nan-sensor", "reward"), 100)


@pytest.mark.slow
def test_garbage_on_side_channels_is_passed_over_and_counted(started, capsys):
    env = started("--garbage-channel-at", 5)
    made, _ = play(env, 100)
    assert made.sum() == 100
    assert env.counters == {"side_channel_broken": 1}
    assert "a message of a side channel cannot be read" in capsys.readouterr().err


@pytest.mark.slow
def test_garbage_in_place_of_a_message_ends_it(started):
    with pytest.raises(EnvError, match=r"player 0, port 25100 sent bytes that are not a message of ML-Agents"):
        play(started("--garbage-at", 7), 100)


# --- the Editor -------------------------------------------------------------------------------------------------------


def editor(tmp_path, *arguments):
    """An Editor in which Play is pressed: a player that Rookery does not launch."""
    words = ["--mlagents-port", "25004", "-logFile", str(tmp_path / "editor.log"), *arguments]
    return subprocess.Popen([sys.executable, "-m", "rookery_mlagents.testing", BASIC, *words])


@pytest.mark.slow
def test_the_editor_is_waited_for_and_comes_back(tmp_path, capsys):
    process = editor(tmp_path, "--close-at", "40", "--sessions", "3", "--pause", "0.3")
    env = UnityEnv(1, base_port=25004, timeout_wait=20.0)
    try:
        assert env.only_one
        losses = []
        play(env, 110, until=lambda step: losses.append(step.lost is not None) or sum(losses) == 2)
        assert sum(losses) == 2
        assert env.counters == {"players_closed": 2}
    finally:
        env.close()
        process.wait(10)
    told = capsys.readouterr().err
    assert told.count("press Play there") == 1
    assert told.count("press Play to continue") == 2
    assert told.count("the Unity Editor is back") == 2


@pytest.mark.slow
def test_spaces_that_change_after_reconnection_are_refused(tmp_path):
    process = editor(
        tmp_path, "--close-at", "20", "--sessions", "2", "--next-env", "CartPole-v1", "--behavior", "*=Basic"
    )
    env = UnityEnv(1, base_port=25004, timeout_wait=20.0)
    try:
        with pytest.raises(EnvError, match=r"behaviour Basic now sees (?s:.)*when training began it saw"):
            play(env, 200)
    finally:
        env.close()
        process.wait(10)


# --- what goes beside -------------------------------------------------------------------------------------------------


def episodes(samplers, lessons=None, start=None):
    def rng(lane, episode, name, seed):
        return np.random.default_rng([lane, episode, len(name), seed or 0])

    drawn = (UniformSampler, NormalSampler, IntervalsSampler)
    return EpisodePlan(plan, Draws(samplers, lessons or {}, drawn_by_env=drawn), rng, start or {})


def logged(env, *words, lane=0, seconds=5.0):
    """The lines of a player's log with some words, as soon as there is one."""
    deadline = time.monotonic() + seconds
    while True:
        lines = (env.players._folder / f"Player-{lane}.log").read_text().splitlines()
        found = [line for line in lines if all(word in line for word in words)]
        if found or time.monotonic() > deadline:
            return found
        time.sleep(0.02)


def test_samplers_of_players_count_from_the_seed_of_the_run():
    uniform, normal = UniformSampler(0.0, 1.0), NormalSampler(0.0, 1.0)
    lessons = {"goal": (uniform, ConstantSampler(2.0), normal)}
    draws = Draws(
        {"mass": uniform, "wind": UniformSampler(0.0, 1.0, seed=70), "goal": uniform, "last": normal}, lessons
    )
    places = [("mass", 0), ("goal", 0), ("goal", 1), ("goal", 2), ("last", 0)]
    for lane in range(2):
        assert [draws.seed_of(*place, 40, lane) for place in places] == [40 + 5 * lane + k for k in range(5)]
        assert draws.seed_of("wind", 0, 40, lane) == 70 + lane


@pytest.mark.parametrize("mass", [2.5, {"sampler": "uniform", "low": 0.5, "high": 2.0}])
def test_a_player_begins_once_with_the_parameters_of_the_run(game, tmp_path, mass, monkeypatch):
    told = []
    monkeypatch.setattr(PlayerLink, "answer", remembered(PlayerLink.answer, told))
    config = {"log_folder": str(tmp_path / "logs"), "timeout_wait": 20.0, "base_port": 25160}
    trainer = Trainer(
        str(game()), PPOConfig(rollout_size=32, minibatch_size=32, epochs=1), num_envs=1, seed=11,
        parameters={"mass": mass}, config={"env.config": config, "logging.console": "quiet"},
    )  # fmt: skip
    with trainer:
        trainer.train({"iterations": 1})
    assert sum(reset for reset, _ in told) == 1
    sent = [read_parameter(content) for _, side in told for channel, content in unpack(side) if channel == PARAMETERS]
    assert sent == [("mass", mass if isinstance(mass, float) else UniformSampler(0.5, 2.0, seed=11))]


def remembered(answer, told):
    def answered(link, answers, side=b"", reset=False):
        told.append((reset, side))
        return answer(link, answers, side, reset=reset)

    return answered


@pytest.mark.parametrize("given", [(), ("-logFile", "own/here.log"), ("-LOGFILE", "-")])
def test_the_log_of_a_player_is_absolute_and_before_arguments_of_the_user(tmp_path, monkeypatch, given):
    monkeypatch.chdir(tmp_path)
    program = tmp_path / "shows.sh"
    program.write_text('#!/bin/sh\nfor word in "$@"; do echo "$word"; done\n')
    program.chmod(0o755)
    process = PlayerProcess(program, ["--mlagents-port", "5"], Path("logs/Player-0.log"), ["--level", "3", *given])
    process.wait(10)
    words = process.output.read_text().split()
    ours = [] if given else ["-logFile", str(tmp_path / "logs" / "Player-0.log")]
    assert words == ["--mlagents-port", "5", *ours, "--level", "3", *given]
    assert process.log == tmp_path / (given[1] if given[1:] == ("own/here.log",) else "logs/Player-0.log")


@pytest.mark.slow
def test_parameters_reach_players_as_numbers_and_as_samplers(started):
    env = started(num_lanes=2)
    seeds = episodes(
        {
            "mass": ConstantSampler(2.5),
            "wind": UniformSampler(-1.0, 1.0, seed=7),
            "level": ChoiceSampler((1.0, 2.0, 3.0)),
        }
    )
    assert set(seeds.parameters(0, 0)) == {"mass", "level"}, "what players draw is no value of an episode"
    play(env, 100_000, seeds, until=lambda step: (env.episode > 8).all())
    assert logged(env, "parameter wind UniformSampler(seed=7, low=-1.0, high=1.0)")
    assert logged(env, "parameter wind UniformSampler(seed=8, low=-1.0, high=1.0)", lane=1), "each draws by its own"
    assert len(logged(env, "parameter level ")) > 2, "drawn anew as episodes end"
    assert len(logged(env, "parameter mass 2.5")) == 1, "told once"


def test_a_lesson_reaches_players_with_the_next_answer(started):
    env = started()
    lessons = {"goal": (ConstantSampler(1.0), ConstantSampler(4.0))}
    seeds = episodes({"goal": lessons["goal"][0]}, lessons, {"goal": 0})
    rng = np.random.default_rng(0)
    step = env.reset(seeds)
    while not step.stepped.any():
        step = env.step(random_answers(env, step, rng))
    assert logged(env, "parameter goal 1")
    seeds.change({"goal": 1}, env.episode)
    env.replan(seeds)
    env.step(random_answers(env, step, rng))
    assert logged(env, "parameter goal 4")
    assert len(logged(env, "behaviour Basic?team=0 has")) == 1


@pytest.mark.slow
def test_a_class_of_ones_own_is_an_environment(game, tmp_path):
    path = str(game())

    class MyGame(UnityEnv):
        def __init__(self, num_lanes, **config):
            super().__init__(num_lanes, path, channels=[PlayerChannel(UUID(int=7))], **config)

    env = make_env(MyGame, {"base_port": 25150, "log_folder": tmp_path / "logs"}, (), 1, "auto")
    try:
        assert env.kinds[0].agents == ("Basic#0?team=0",)
    finally:
        env.close()


@pytest.mark.slow
def test_numbers_that_games_report_are_kept_until_they_are_taken(started):
    env = started("--stats")
    play(env, 200)
    found = env.reported.take()
    assert found["Player/Steps"][0] == "most_recent"
    assert len(found["Player/Steps"][1]) == 1
    assert found["Player/Episodes"][0] == "sum"
    assert not env.reported.take()


def test_a_channel_of_ones_own_is_heard_and_told(started):
    class Echo(PlayerChannel):
        heard = ()

        def receive(self, lane, message):
            self.heard = (*self.heard, (lane, message))

    echo = Echo(UUID("11111111-2222-3333-4444-555555555555"))
    echo.send(b"early")
    env = started(channels=[echo])
    play(env, 5)
    echo.send(b"to one", lane=0)
    play(env, 5)
    assert logged(env, str(echo.id), "5 bytes")
    assert logged(env, str(echo.id), "6 bytes")
