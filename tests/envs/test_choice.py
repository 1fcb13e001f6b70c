"""Number of chosen helpers; an environment that cannot have any gets none."""

import gc
import subprocess
import sys
import threading
import time

import pytest
from taking import Taking

from rookery import PPOConfig, Trainer
from rookery.envs import choice, process_bound
from rookery.envs.choice import choose
from rookery.envs.make import lane_maker
from rookery.envs.process_bound import why_process_bound
from rookery.envs.random_play import FEW_STEPS
from rookery.envs.vector.serial import SerialEnv
from rookery.envs.vector.shares import SharesEnv
from rookery.run.prepare import make_copies
from small_envs import Comings
from threads import in_threads


@pytest.fixture
def measured(monkeypatch):
    """Sets the measured values, because other load on the machine would change them every time."""

    def set_to(cost, scales=False, cores=4):
        monkeypatch.setattr(choice, "_cost", lambda env: cost)
        monkeypatch.setattr(choice, "_scales", lambda one, other: scales)
        monkeypatch.setattr(choice, "usable_cores", lambda: cores)

    return set_to


def chosen(lanes, **config):
    return choose(lane_maker(Taking, config, ()), lanes, "Taking")


def test_one_core_has_no_helpers(measured):
    measured(1e-3, cores=1)
    assert chosen(64).helpers == 0


def test_cheap_steps_are_not_worth_a_helper(measured):
    measured(10e-6)
    found = chosen(16)  # 160 us: less than twice 100
    assert (found.implementation, found.helpers, found.reason) == ("serial", 0, "")
    assert found.measured == {"sampling.env_processes": 0}
    assert chosen(32).helpers == 2
    measured(46e-6, cores=2)
    assert chosen(32).reason == "Taking: 32 environments of 46 us a step: 1 helper process beside this one"


def test_long_steps_get_a_helper_for_each_other_core_and_lane(measured):
    measured(1e-3)
    found = chosen(64)
    assert (found.implementation, found.helpers) == ("processes", 3)
    assert found.reason == "Taking: 64 environments of 1000 us a step: 3 helper processes beside this one"
    assert found.measured == {"env.implementation": "processes", "sampling.env_processes": 3}
    assert chosen(2).helpers == 1


def test_steps_outside_pythons_lock_get_threads(measured):
    measured(1e-3, scales=True)
    found = chosen(64)
    assert (found.implementation, found.helpers) == ("threads", 3)
    assert found.reason.endswith("3 threads beside this one, because it releases Python's lock")


def test_the_measurement_of_a_step_plays_it_and_is_of_the_right_kind():
    assert 0.0 <= choice._cost(SerialEnv(lane_maker(Taking, {}, ()), 1, "Taking")) < 1.0
    assert choice._scales(*(SerialEnv(lane_maker(Taking, {}, ()), 1, "Taking") for _ in range(2))) in (True, False)


class Computing(Taking):
    """Computes in Python, without ever leaving its lock."""

    def step(self, action):
        sum(i * i for i in range(3000))
        return super().step(action)


def scales(env):
    return choice._scales(*(SerialEnv(lane_maker(env, {}, ()), 1, "env") for _ in range(2)))


@pytest.mark.parametrize(
    ("clock", "busy", "let_go", "together", "expected"),
    [
        pytest.param(10, 10, 0, 10, True, id="computes outside Python's lock"),
        pytest.param(10, 10, 0, 20, False, id="computes in Python"),
        pytest.param(30, 10, 0, 20, False, id="computes in Python and is held up when it is alone"),
        pytest.param(10, 1, 10, 10, True, id="waits for something outside"),
        pytest.param(30, 1, 0, 20, False, id="is held up nearly all the time"),
    ],
)
def test_what_one_thread_does_is_counted_by_the_time_it_computes_unless_it_waits(
    clock, busy, let_go, together, expected, monkeypatch
):
    """In milliseconds for 10 steps of one thread, and for 20 of two."""
    now = {"clock": 0.0, "busy": 0.0, "let go": 0}

    def play(self, seconds):
        self.steps += 10
        alone = threading.current_thread() is threading.main_thread()
        now["clock"] += clock if alone else together / 2
        now["busy"] += busy if alone else 0
        now["let go"] += let_go if alone else 0
        return []

    monkeypatch.setattr(choice._Player, "play", play)
    monkeypatch.setattr(choice, "perf_counter", lambda: now["clock"])
    monkeypatch.setattr(choice, "thread_time", lambda: now["busy"])
    monkeypatch.setattr(choice, "_voluntary_switches", lambda: now["let go"])
    assert scales(Computing) is expected


def test_whoever_sleeps_lets_go_of_the_processor():
    before = choice._voluntary_switches()
    time.sleep(1e-3)
    assert choice._voluntary_switches() > before


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_an_environment_in_python_never_gets_threads_beside_other_work():
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(3)]
    try:
        assert not any(scales(Computing) for _ in range(200))
    finally:
        for process in busy:
            process.kill()
            process.wait()


def test_what_is_slow_to_build_gets_none_by_itself_and_the_note_says_how_to_ask(measured):
    measured(1e-3)
    found = chosen(64, build=0.12)
    assert (found.implementation, found.helpers) == ("serial", 0)
    assert "s to build" in found.reason and "env.implementation=processes" in found.reason


def test_what_cannot_be_pickled_gets_none_by_itself_and_the_note_says_why(measured):
    measured(1e-3)
    numbers = (i for i in range(9))

    def build():
        next(numbers)
        return Taking()

    found = choose(lane_maker(build, {}, ()), 64, "Taking")
    assert (found.implementation, found.helpers) == ("serial", 0)
    assert "cannot be pickled (TypeError: cannot pickle 'generator' object)" in found.reason


def trainer(**config):
    algorithm = PPOConfig(fragment_length=4, epochs=1, minibatch_size=8)
    settings = {"sampling.warmup_steps": 0, **config}
    return Trainer(Taking, algorithm, num_envs=4, seed=0, config=settings)


def test_what_was_measured_is_noted_stored_and_not_measured_again(measured, monkeypatch, tmp_path):
    measured(1e-3, cores=2)
    with trainer() as made:
        assert isinstance(made.env, SharesEnv)
        assert any("1 helper process beside this one" in note for note in made._notes)
        assert made.config.sampling.env_processes == 1 and made.config.env.implementation == "processes"
        assert made.resolved.history["sampling.env_processes"][-1] == ("measured", 1)
        made.train({"iterations": 1})
        made.save(tmp_path / "saved")
        assert isinstance(make_copies(made.config, 2), SerialEnv)  # evaluations have no helpers
    monkeypatch.setattr("rookery.run.prepare.choose", None)
    with Trainer.load(tmp_path / "saved") as again:
        assert isinstance(again.env, SharesEnv) and again.config.sampling.env_processes == 1


def test_what_is_asked_for_is_not_measured(monkeypatch):
    monkeypatch.setattr("rookery.run.prepare.choose", None)
    with trainer(**{"sampling.env_processes": 0}) as made:
        assert isinstance(made.env, SerialEnv)
    with trainer(**{"env.implementation": "threads", "sampling.env_processes": 2}) as made:
        assert isinstance(made.env, SharesEnv)


# --- what lives in one process --------------------------------------------------------------------------------------

STEPS: list[float] = []
LIMITS = {"steps": 8}
SEEN = 0


class Harmless(Taking):
    """Reads globals, and changes what is its own."""

    def look(self):
        STEPS = [0.0]
        STEPS.append(LIMITS["steps"])
        self.limits = dict(LIMITS)
        self.limits["steps"] = len(STEPS)


class Appends(Taking):
    def look(self):
        STEPS.append(1.0)


class Below(Appends):
    """Changes nothing itself."""


class Counts(Taking):
    def look(self):
        global SEEN
        SEEN += 1


class Writes(Taking):
    def look(self):
        LIMITS["steps"] = 9


class OfItsClass(Taking):
    made = 0

    def look(self):
        OfItsClass.made += 1


def make_appends():
    return Appends()


class Says(Taking):
    only_here = "it holds the camera"


@pytest.mark.regression("wrong result", "An environment is stepped in its own process where helpers would break it")
@pytest.mark.parametrize(
    ("env", "why"),
    [
        (Harmless, ""),
        (Taking, ""),
        ("CartPole-v1", ""),
        (Appends, "it changes STEPS, which is a global of this program"),
        (Below, "it changes STEPS, which is a global of this program"),
        (make_appends, "it changes STEPS, which is a global of this program"),
        (f"{__name__}:Appends", "it changes STEPS, which is a global of this program"),
        (Counts, "it changes SEEN, which is a global of this program"),
        (Writes, "it changes LIMITS, which is a global of this program"),
        (OfItsClass, "it changes OfItsClass, which is a global of this program"),
        (Says, "it holds the camera"),
    ],
)
def test_what_changes_globals_of_its_program_is_stepped_there(measured, env, why):
    measured(1e-3)
    assert why_process_bound(env) == why
    found = choose(lane_maker(env, None, ()), 64, "Taking", why_process_bound(env))
    assert found.implementation == ("serial" if why else "processes")
    if why:
        assert found.reason == (
            f"Taking: {why}: stepped in this process; env.implementation=processes or threads asks for helpers"
        )


@pytest.mark.regression("wrong result", "An environment is stepped in its own process where helpers would break it")
def test_a_program_may_keep_its_environments_until_the_reason_is_gone():
    reasons = ["a device is open"]
    process_bound.bind_to_process(say := lambda: "".join(reasons))
    try:
        assert why_process_bound(Taking) == "a device is open"
        reasons.clear()
        assert why_process_bound(Taking) == ""
    finally:
        process_bound._reasons.remove(say)


@pytest.mark.regression(
    "unclear error", "Two trainings that begin in two threads of one program end with a SystemError of Python's parser"
)
def test_code_of_environments_is_searched_in_several_threads_at_once():
    # what a garbage collection calls lets another thread run in the middle of a parse
    between, every = sys.getswitchinterval(), gc.get_threshold()
    call = lambda phase, info: [None for _ in range(20)]  # noqa: E731
    gc.callbacks.append(call)
    sys.setswitchinterval(1e-6)
    gc.set_threshold(50)
    try:
        found = in_threads(lambda _: [why_process_bound(Comings) for _ in range(8)], 3)
    finally:
        sys.setswitchinterval(between)
        gc.set_threshold(*every)
        gc.callbacks.remove(call)
    assert found == [[""] * 8] * 3


class Waiting(Taking):
    """Releases Python's lock in each step; by a thread that is not the main one it cannot be stepped, or fails at
    times, as `fault` says.
    """

    def __init__(self, fault):
        super().__init__()
        self.fault, self.steps = fault, 0

    def step(self, action):
        self.steps += 1
        time.sleep(200e-6)
        if self.fault == "hangs" and threading.current_thread() is not threading.main_thread():
            time.sleep(30)
        if self.fault == "fails" and self.steps > 2 * FEW_STEPS + 1:  # after the cost of a step was measured
            raise RuntimeError("fails now and then")
        return super().step(action)


@pytest.mark.regression("no end", "Helpers are measured without end where an environment hangs in a second thread")
def test_an_environment_that_hangs_in_a_thread_is_stepped_in_processes(monkeypatch):
    monkeypatch.setattr(choice, "HANGS_SECONDS", 0.3)
    monkeypatch.setattr(choice, "usable_cores", lambda: 2)
    found = choose(lane_maker(Waiting, {"fault": "hangs"}, ()), 8, "Waiting")
    assert (found.implementation, found.helpers) == ("processes", 1)


@pytest.mark.regression(
    "unclear error", "An environment that fails now and then ends the training while it is measured"
)
def test_an_environment_that_fails_while_threads_are_measured_is_stepped_in_this_process(monkeypatch):
    monkeypatch.setattr(choice, "STEP_SECONDS", 0.0)
    monkeypatch.setattr(choice, "usable_cores", lambda: 2)
    found = choose(lane_maker(Waiting, {"fault": "fails"}, ()), 8, "Waiting")
    assert found.helpers == 0
    assert "measuring stopped, because it failed" in found.reason and "fails now and then" in found.reason
