"""Environments that only this process knows: their ids travel, and helpers that cannot play them are left out."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

import cloudpickle
import gymnasium
import owned
import pytest
from owned import AtHome, Owned
from pettingzoo.utils.env import ParallelEnv

from rookery import PPOConfig, Trainer
from rookery.core.errors import ConfigError, EnvError
from rookery.envs import choice
from rookery.envs.make import make_env
from rookery.envs.vector import processes
from rookery.envs.vector.serial import SerialEnv
from rookery.envs.vector.shares import SharesEnv
from rookery.envs.vector.specs import WithSpecs, specs_named
from rookery.run.checkpoint.changes import check_changes, texts
from rookery.tune.executor import pickled_job

FAST = {"sampling.warmup_steps": 0, "sampling.num_envs": 4}


@pytest.fixture(autouse=True)
def registry(monkeypatch):
    """Forgets what a test has registered."""
    before = dict(gymnasium.registry)
    yield gymnasium.registry
    gymnasium.registry.clear()
    gymnasium.registry.update(before)


@pytest.fixture
def measured(monkeypatch):
    """Measures that one helper process is worth it."""
    monkeypatch.setattr(choice, "_cost", lambda env: 1e-3)
    monkeypatch.setattr(choice, "_scales", lambda one, other: (other.close(), False)[1])
    monkeypatch.setattr(choice, "usable_cores", lambda: 2)


def trainer(env, run_dir=None, config=None, **settings):
    algorithm = PPOConfig(fragment_length=4, epochs=1, minibatch_size=8)
    return Trainer(env, algorithm, seed=0, env_config=config or {}, run_dir=run_dir, config=FAST | settings)


def first_seen(env):
    return env.reset(lambda lane, episode: lane).rows[0].obs["obs"][:, 0].tolist()


@pytest.mark.regression("foreign code", "Helpers build ids that only this program registers, by function too")
@pytest.mark.parametrize("env", [owned.by_id, owned.by_constant, owned.Wrapped, "Owned-v0"])
def test_the_specification_of_a_named_id_travels_to_helpers(env):
    gymnasium.register("Owned-v0", Owned, kwargs={"shown": 0.5})
    made = make_env(env, {}, (), 4, "processes", helpers=1)
    assert first_seen(made) == [0.5] * 4
    made.close()


@pytest.mark.regression(
    "wrong result", "Helpers play what an id stands for in this program, not what it stands for elsewhere"
)
def test_an_id_that_helpers_know_otherwise_is_that_of_the_program(recwarn):
    gymnasium.register("CartPole-v1", Owned, kwargs={"shown": 0.25})
    made = make_env(owned.of_cart_pole, {}, (), 4, "processes", helpers=1)
    assert first_seen(made) == [0.25] * 4
    made.close()


@pytest.mark.regression("wrong result", "No twin plays an id that a program has registered anew or changed")
def test_no_twin_takes_the_place_of_an_id_that_is_registered_anew(recwarn, monkeypatch):
    assert not isinstance(make_env("CartPole-v1", {}, (), 2, "auto"), SerialEnv)
    monkeypatch.setattr(gymnasium.spec("CartPole-v1"), "max_episode_steps", 20)
    assert isinstance(make_env("CartPole-v1", {}, (), 2, "auto"), SerialEnv)
    gymnasium.register("CartPole-v1", Owned, max_episode_steps=500)
    assert make_env("CartPole-v1", {}, (), 2, "auto").kinds[0].obs.space == Owned.observation_space


class Team(ParallelEnv):
    """Names an id in a method."""

    def start(self):
        return gymnasium.make("Owned-v0")


class Cell:
    """An object that makes environments, with an id among its attributes."""

    def __init__(self, name):
        self.name = name

    def __call__(self):
        return gymnasium.make(self.name)


@pytest.mark.parametrize(
    "named",
    [
        "Owned-v0",
        Team,
        Cell("Owned-v0"),
        {"env": {"name": "Owned-v0"}},
        [(lambda name: lambda: name)("Owned-v0")],
        lambda: (lambda: owned.made("Owned-v0"))(),
        "Outer-v0",
    ],
)
def test_ids_are_found_wherever_they_are_named(named):
    gymnasium.register("Owned-v0", Owned)
    gymnasium.register("Outer-v0", owned.by_id)
    assert "Owned-v0" in [spec.id for spec in specs_named(named)]


def test_what_is_unpickled_registers_that_alone_and_is_the_object_itself(registry):
    gymnasium.register("Owned-v0", Owned)
    gymnasium.register("Other-v0", Owned)
    gymnasium.register("Locked-v0", Owned, kwargs={"numbers": (n for n in ())})  # which cannot be pickled
    sent = cloudpickle.dumps(WithSpecs([1, 2], "Owned-v0", "Locked-v0"))
    for name in ("Owned-v0", "Other-v0", "Locked-v0"):
        del registry[name]
    before = dict(registry)
    assert cloudpickle.loads(sent) == [1, 2]
    assert registry.keys() - before.keys() == {"Owned-v0"}


def test_an_entry_point_of_the_program_itself_is_sent_as_what_it_names(monkeypatch):
    import __main__

    monkeypatch.setattr(__main__, "Own", Owned, raising=False)
    gymnasium.register("Main-v0", "__main__:Own")
    (spec,) = specs_named("Main-v0")
    assert spec.entry_point is Owned and gymnasium.spec("Main-v0").entry_point == "__main__:Own"
    gymnasium.register("None-v0", "__main__:Missing")
    assert specs_named("None-v0")[0].entry_point == "__main__:Missing"


class Job:
    def __init__(self, env):
        self.layers, self.undecided = [], {"env.name": env}


@pytest.mark.regression("foreign code", "Trials of tune in processes know the ids of the program")
def test_jobs_of_trials_carry_the_ids_that_they_name(registry):
    gymnasium.register("Owned-v0", Owned)
    sent = pickled_job(Job(owned.by_id), "processes")
    del registry["Owned-v0"]
    assert isinstance(cloudpickle.loads(sent), Job) and "Owned-v0" in registry


# --- helpers that cannot play ---------------------------------------------------------------------------------------


@pytest.mark.regression("foreign code", "Where measured helpers cannot play an environment, it is stepped without them")
@pytest.mark.parametrize(
    ("elsewhere", "why"),
    [
        ("raise", "raised OSError: somebody else has opened it"),
        ("reset", "raised OSError: somebody else has opened it"),
        ("die", "ended by itself with exit code 3"),
        ("hang", "no answer within 0 s"),
    ],
)
def test_helpers_that_were_measured_and_cannot_play_leave_it_to_this_process(elsewhere, why, measured, monkeypatch):
    monkeypatch.setattr(owned, "HERE", "here")
    if elsewhere == "hang":
        monkeypatch.setattr(processes, "TRIAL_SECONDS", 0.1)
        monkeypatch.setattr(processes, "TRIAL_TIMES", 0)
    with trainer(AtHome, config={"elsewhere": elsewhere}) as made:
        assert isinstance(made.env, SerialEnv) and made.config.sampling.env_processes == 0
        (note,) = [note for note in made._notes if "helper" in note]
        assert note.startswith(
            "AtHome: 4 environments of 1000 us a step: 1 helper process beside this one, but it cannot be"
        )
        assert why in note and "'my_module:MyEnv-v0'" in note and "\n" not in note
        made.train({"iterations": 1})


@pytest.mark.regression(
    "foreign code", "Where measured threads cannot build an environment, it is stepped without them"
)
def test_threads_that_were_measured_and_cannot_build_leave_it_to_this_process(measured, monkeypatch):
    import signal

    class InMain(owned.Taking):
        def __init__(self):
            super().__init__()
            signal.signal(signal.SIGUSR2, signal.SIG_DFL)  # which only the main thread may do

    monkeypatch.setattr(choice, "_scales", lambda one, other: True)
    with trainer(InMain) as made:
        assert isinstance(made.env, SerialEnv)
        assert any("in a helper thread" in note and "main thread" in note for note in made._notes)
    with pytest.raises(EnvError, match=r"^in a helper thread: .* set env.implementation=serial or processes$"):
        trainer(InMain, **{"env.implementation": "threads"})


def test_a_step_that_fails_in_a_thread_is_no_reason_for_threads_and_prints_nothing(capfd):
    from rookery.envs.make import lane_maker

    class OneThread(owned.Taking):
        def step(self, action):
            import threading

            assert threading.current_thread() is threading.main_thread()
            return super().step(action)

    one, other = (SerialEnv(lane_maker(OneThread, {}, ()), 1, "one") for _ in range(2))
    assert not choice._scales(one, other)
    assert capfd.readouterr().err == ""


@pytest.mark.regression("foreign code", "A resumed run whose measured helpers cannot play is stepped without them")
def test_a_resumed_run_has_no_helpers_where_they_cannot_play(measured, monkeypatch, tmp_path):
    monkeypatch.setenv("OWNED_EVERYWHERE", "yes")
    with trainer(AtHome) as made:
        assert isinstance(made.env, SharesEnv)
        made.save(tmp_path / "saved")
    monkeypatch.delenv("OWNED_EVERYWHERE")
    monkeypatch.setattr(owned, "HERE", "here")
    with Trainer.load(tmp_path / "saved") as again:
        assert isinstance(again.env, SerialEnv)
        assert any("cannot be played there (building it" in note for note in again._notes)
    with pytest.raises(EnvError, match="in a helper process"):
        Trainer.load(tmp_path / "saved", config={"sampling.env_processes": 1})


@pytest.mark.regression(
    "unclear error", "An environment that demanded helpers cannot build is an error that names the helper"
)
def test_helpers_that_were_asked_for_name_the_ways_out():
    gymnasium.register("Owned-v0", Owned)
    settings = {"env.implementation": "processes"}
    with pytest.raises(EnvError, match=r"^in a helper process: .*NameNotFound.*'my_module:MyEnv-v0'.*=serial$"):
        trainer(owned.by_text_that_is_computed, **settings)


# --- stored runs ----------------------------------------------------------------------------------------------------


@pytest.mark.regression(
    "unclear error", "A run of an id of a program is resumed by naming the module that registers it"
)
def test_a_stored_run_is_resumed_with_the_module_that_registers_its_id(registry, tmp_path, monkeypatch):
    gymnasium.register("Owned-v0", Owned)
    with trainer("Owned-v0", run_dir=tmp_path / "run", **{"sampling.env_processes": 0}) as made:
        made.train({"iterations": 1})
    files = [file.read_bytes() for file in (tmp_path / "run").rglob("*") if file.is_file()]
    assert not any(b"EnvSpec" in content or content.startswith(b"\x80\x05") for content in files)
    del registry["Owned-v0"]
    with pytest.raises(EnvError, match=r"'Owned-v0' is not a Gymnasium id.*registers 'my.module:MyEnv-v0'"):
        Trainer.load(tmp_path / "run")
    gymnasium.register("Owned-v0", Owned)  # as importing the module does
    with Trainer.load(tmp_path / "run", config={"env.name": "owned:Owned-v0"}) as again:
        assert again.config.env.name == "owned:Owned-v0"
        before = texts(again.resolved.history)
        check_changes(again.resolved, before | {"env.name": "Owned-v0"})
        with pytest.raises(ConfigError, match=r"env.name = owned:Owned-v0: keeps its value in the middle of a run"):
            check_changes(again.resolved, before | {"env.name": "Other-v0"})


class Unbound:
    """A proxy that stands for nothing yet."""

    @property
    def __class__(self):
        raise RuntimeError("unbound")


class Stored(Mapping):
    """A mapping that loads a value when it is read."""

    def __getitem__(self, key):
        raise AssertionError("loaded")

    def __iter__(self):
        return iter("ab")

    def __len__(self):
        return 2


@dataclass(slots=True)
class Slotted:
    name: str = "Owned-v0"


GLOBALS = [Unbound(), Stored(), Slotted()]
NUMBERS = [float(number) for number in range(200_000)]
NUMBERS[0] = reduce(lambda inside, _: [inside], range(3000), [])
IN_A_TABLE = {"id": "Inner-v0"}


@pytest.mark.regression(
    "foreign code", "Objects that an environment's code names are searched for ids without harm, and without end"
)
def test_the_search_for_ids_bears_any_object(registry):
    gymnasium.register("Owned-v0", Owned)
    gymnasium.register("Inner-v0", Owned)
    began = time.process_time()
    found = specs_named(lambda: (NUMBERS, GLOBALS, IN_A_TABLE))
    assert {spec.id for spec in found} == {"Owned-v0", "Inner-v0"}
    assert time.process_time() - began < 1.0
