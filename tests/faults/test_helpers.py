"""Helper processes that are killed, hang, or lose their driver: the run continues unchanged, or names the reason."""

from __future__ import annotations

import hashlib
import os
import signal
import socket
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from killable import amount
from walks import HANGS, LANES, Drifting, Dying, Hanging, Stateful, Unbuilt, Walk, rewards, seeds

from rookery import PPOConfig, Trainer
from rookery.core.errors import EnvError
from rookery.core.process.child_process import ConnectionClosed, receive_frame
from rookery.envs.make import make_env
from rookery.envs.vector.faults import Tolerance
from selection import slow, slow_except

PATIENT = Tolerance("stop", 5, 30.0, 60.0)


def trained(env, disturb=None, iterations=4, **settings):
    """The trainer after some iterations, with the helpers given to `disturb` before each vector step."""
    config = {"env.implementation": "processes", "sampling.env_processes": 2, "sampling.warmup_steps": 0, **settings}
    algorithm = PPOConfig(fragment_length=16, epochs=2, minibatch_size=32)
    with Trainer(env, algorithm, num_envs=LANES, seed=5, config=config) as trainer:
        if disturb is not None:
            step = trainer.env.step

            def disturbed(actions):
                disturb(trainer._pool.worker.vector_steps, processes_of(trainer.env))
                return step(actions)

            trainer.env.step = disturbed
            trainer._pool.worker.fast_loop = None  # a burst makes many steps in a call (tests/rollout/test_bursts.py)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            result = trainer.train({"iterations": iterations})
        return digest(trainer), result


def digest(trainer):
    weights = b"".join(p.detach().numpy().tobytes() for p in trainer.learners["main"].net.parameters())
    return hashlib.sha256(weights).hexdigest()


def processes_of(env):
    return [helper._process for helper in env._helpers]


def kill_now_and_then(every):
    """Kills one helper before some steps, each in its turn."""

    def disturb(step, processes):
        if step % every == every - 1:
            victim = processes[step // every % len(processes)]
            os.kill(victim.pid, signal.SIGKILL)

    return disturb


@pytest.mark.parametrize("env", [Walk, slow(Stateful)])
def test_a_run_whose_helpers_are_killed_ends_with_the_same_weights(env, measured):
    kills = amount(4, 30)
    iterations = max(4, kills // 4)
    undisturbed, _ = trained(env, iterations=iterations)
    every = 16 * iterations // kills
    weights, result = trained(env, kill_now_and_then(every), iterations)
    assert weights == undisturbed
    assert result.exact and result.counters["helper_restarts"] == 16 * iterations // every
    assert "steps_discarded" not in result.counters
    measured("SIGKILL of a helper process", kills, "the same weights as undisturbed")


@pytest.fixture(scope="module")
def serial():
    """The weights after some iterations that one loop played."""
    return trained(Walk, **{"env.implementation": "serial", "sampling.env_processes": 0})[0]


@pytest.mark.parametrize(
    ("how", "helpers"), [slow("processes", 1), ("processes", 2), slow("processes", 4), ("threads", 3)]
)
def test_weights_are_the_same_for_any_helpers(how, helpers, serial):
    assert trained(Walk, **{"env.implementation": how, "sampling.env_processes": helpers})[0] == serial


@pytest.mark.slow
def test_a_helper_killed_after_a_resume_is_replaced_from_where_the_run_was_taken_up(tmp_path):
    whole, _ = trained(Stateful, iterations=4)
    config = {"env.implementation": "processes", "sampling.env_processes": 2, "sampling.warmup_steps": 0}
    algorithm = PPOConfig(fragment_length=16, epochs=2, minibatch_size=32)
    with Trainer(Stateful, algorithm, num_envs=LANES, seed=5, config=config, run_dir=tmp_path / "run") as trainer:
        trainer.train({"iterations": 2})
    with Trainer.load(tmp_path / "run", resume=True) as trainer:
        assert trainer.config.sampling.env_processes == 2
        trainer._pool.sample(3 * LANES)
        os.kill(processes_of(trainer.env)[1].pid, signal.SIGKILL)
        with pytest.warns(RuntimeWarning, match="killed by SIGKILL"):
            result = trainer.train({"iterations": 4})
        assert digest(trainer) == whole
        assert result.exact and result.counters["helper_restarts"] == 1


@pytest.mark.slow
def test_a_helper_that_died_between_two_steps_is_missed_by_no_checkpoint():
    config = (), LANES, "processes"
    one, other = (make_env(Walk, None, *config, helpers=2, tolerance=PATIENT) for _ in range(2))
    for env in (one, other):
        rewards(env, 7)
    os.kill(processes_of(one)[0].pid, signal.SIGKILL)
    with pytest.warns(RuntimeWarning, match="killed by SIGKILL"):
        state = one.state_dict()
    assert state.pop("counters") == {"helper_restarts": 1}
    undisturbed = other.state_dict()
    del undisturbed["counters"]
    assert repr(state) == repr(undisturbed)
    actions = [np.zeros(LANES, int)]
    assert repr(one.step(actions)) == repr(other.step(actions))
    for env in (one, other):
        env.close()


@pytest.mark.slow
def test_a_lane_that_loses_every_episode_with_its_helper_ends_the_run():
    def kill_the_first(step, processes):
        os.kill(processes[0].pid, signal.SIGKILL)

    with pytest.raises(EnvError, match=r"that was the 10th episode of environment \d in a row that had to be given up"):
        trained(Drifting, kill_the_first, 20, **{"env.on_error": "restart"})


@pytest.mark.slow
def test_an_episode_that_cannot_be_had_again_is_given_up_and_counted():
    weights, result = trained(Drifting, kill_now_and_then(20))
    assert not result.exact
    assert result.counters["helper_restarts"] == 3
    assert 0 < result.counters["steps_discarded"] <= 3 * 2 * 30  # at most the running episodes of two lanes each time
    assert "episodes_broken" not in result.counters or result.counters["episodes_broken"] == 0


# --- hanging ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("how", slow_except(*[how for how in HANGS if how != "busy"], of=HANGS))
def test_a_helper_that_hangs_is_ended_named_and_replaced(how, tmp_path):
    mark = tmp_path / "hung"
    patience = Tolerance("stop", 1, 1.0, 60.0)
    env = make_env(Hanging, {"how": how, "mark": mark}, (), LANES, "processes", helpers=1, tolerance=patience)
    with pytest.warns(RuntimeWarning) as warned:
        found = rewards(env, 8)
    env.close()
    text = str(warned[0].message)
    assert "of environments 3 to 5 was ended because a step took longer than sampling.step_timeout_seconds = 1" in text
    assert "environment 5 in step 3 of episode 0, seed 5000" in text
    assert found == rewards(make_env(Hanging, {"how": "not", "mark": mark}, (), LANES, "serial"), 8)


@pytest.mark.slow
def test_a_reset_has_a_limit_of_its_own(tmp_path):
    patience = Tolerance("stop", 1, 0.2, 4.0)
    config = {"how": "reset", "mark": tmp_path / "hung"}
    env = make_env(Hanging, config, (), LANES, "processes", helpers=1, tolerance=patience)
    with pytest.warns(RuntimeWarning, match=r"took longer than sampling.reset_timeout_seconds = 4"):
        env.reset(seeds)
    env.close()


@pytest.mark.slow
def test_a_step_after_a_reset_has_the_limit_of_a_step(tmp_path):
    config = {"how": "sleeping", "mark": tmp_path / "hung", "at": 1}
    env = make_env(Hanging, config, (), LANES, "processes", helpers=1, tolerance=Tolerance("stop", 1, 0.5, 20.0))
    with pytest.warns(RuntimeWarning, match=r"a step took longer than sampling.step_timeout_seconds = 0.5"):
        rewards(env, 1)
    env.close()


@pytest.mark.slow
def test_a_helper_that_dies_while_it_builds_its_copies_is_replaced(monkeypatch, tmp_path):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")  # helpers have 1, and this process is not to die
    config = {"mark": tmp_path / "died"}
    with pytest.warns(RuntimeWarning, match="killed by SIGKILL; no episode had begun; a new one takes over"):
        env = make_env(Unbuilt, config, (), LANES, "processes", helpers=2, tolerance=PATIENT)
    assert rewards(env, 5) == rewards(make_env(Unbuilt, config, (), LANES, "serial"), 5)
    env.close()


def test_a_message_that_breaks_off_is_the_end_of_the_other_side():
    for begun in (b"", b"\0\0\0", bytes([9, 0, 0, 0, 0, 0, 0, 0, 1])):
        one, other = socket.socketpair()
        with one, other:
            one.sendall(begun)
            one.close()
            with pytest.raises(ConnectionClosed):
                receive_frame(other)


@pytest.mark.slow
def test_a_helper_that_always_dies_at_the_same_place_stops_the_run(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")  # helpers have 1, and this process is not to die
    env = make_env(Dying, None, (), LANES, "processes", helpers=1, tolerance=Tolerance("stop", 100, 30.0, 60.0))
    with pytest.warns(RuntimeWarning), pytest.raises(EnvError, match="killed by SIGKILL.* it would happen again"):
        rewards(env, 3)
    env.close()


def test_no_more_helpers_are_replaced_than_the_setting_allows():
    env = make_env(Walk, None, (), LANES, "processes", helpers=1, tolerance=Tolerance("stop", 0, 30.0, 60.0))
    env.reset(seeds)
    os.kill(processes_of(env)[0].pid, signal.SIGKILL)
    with pytest.raises(EnvError, match="sampling.max_restarts = 0"):
        env.step([np.ones(LANES, int)])
    env.close()


# --- nothing is left ----------------------------------------------------------------------------------------------

DRIVER = """
import os, signal, sys, time
sys.path.insert(0, {folder!r})
from walks import Walk, LANES, rewards
from rookery.envs.make import make_env
from rookery.envs.vector.faults import STRICT
import numpy as np

class Mine(Walk):  # of __main__, which helpers do not run
    def step(self, action):
        if {stuck} and self.t == 5:
            import ctypes
            ctypes.PyDLL(None).pause()
        return super().step(action)

env = make_env(Mine, None, (), LANES, "processes", helpers=2, tolerance=STRICT)
rewards(env, 3)
print(*[process.pid for process in [helper._process for helper in env._helpers]], flush=True)
if {stuck}:
    for helper in env._helpers:
        helper.begin("play", [np.ones(2, int)], [])
        helper.end()
        helper.begin("play", [np.ones(2, int)], [])
        helper.end()
        helper.begin("play", [np.ones(2, int)], [])
    print("stuck", flush=True)
time.sleep(100)
"""


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
@pytest.mark.parametrize(
    ("number", "stuck"),
    [(signal.SIGKILL, True), slow(signal.SIGKILL, False), slow(signal.SIGTERM, True), slow(signal.SIGTERM, False)],
)
def test_no_helper_outlives_its_driver_and_nothing_lies_in_dev_shm(number, stuck):
    before = set(os.listdir("/dev/shm"))
    script = DRIVER.format(folder=str(Path(__file__).parent), stuck=stuck)
    driver = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    helpers = [int(pid) for pid in driver.stdout.readline().split()]
    if stuck:
        assert driver.stdout.readline() == "stuck\n"
    assert len(helpers) == 2 and all(alive(pid) for pid in helpers)
    driver.send_signal(number)
    driver.wait()
    limit = time.monotonic() + 2.0
    while any(alive(pid) for pid in helpers) and time.monotonic() < limit:
        time.sleep(0.01)
    assert not any(alive(pid) for pid in helpers)
    assert set(os.listdir("/dev/shm")) <= before


def test_a_helper_ignores_ctrl_c_and_ends_when_it_is_told():
    env = make_env(Walk, None, (), LANES, "processes", helpers=1, tolerance=Tolerance("stop", 0, 30.0, 60.0))
    (process,) = processes_of(env)
    first = rewards(env, 2)
    process.send_signal(signal.SIGINT)
    time.sleep(0.05)
    assert rewards(env, 2) == first
    env.close()
    assert process.returncode is not None


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_a_helper_never_loads_torch():
    env = make_env(Walk, None, (), LANES, "processes", helpers=1, tolerance=Tolerance("stop", 0, 30.0, 60.0))
    rewards(env, 2)
    maps = Path(f"/proc/{processes_of(env)[0].pid}/maps").read_text()
    assert "numpy" in maps and "torch" not in maps
    env.close()
