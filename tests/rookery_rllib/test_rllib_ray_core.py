"""ray itself, in this process: objects, tasks, actors, pools; and where all names of ray and ray.tune stand."""

import asyncio
import pickle
import sys

import gymnasium
import numpy as np
import pytest

from rookery.core.errors import ConfigError
from rookery.envs import choice
from rookery.envs.process_bound import why_process_bound
from rookery_rllib.base import machine
from rookery_rllib.base import ray_core as ray
from rookery_rllib.base import ray_exceptions as exceptions
from rookery_rllib.trainer.trainers import PPOTrainer
from rookery_rllib.trainer.trial import session
from rookery_rllib.tune import experiment, space


@pytest.fixture(autouse=True)
def _shutdown():
    yield
    ray.shutdown()


def test_ray_begins_and_ends(capsys):
    ray._Ray.has_printed = False
    assert not ray.is_initialized()
    context = ray.init(num_cpus=1, include_dashboard=False, object_store_memory=10**9, _temp_dir="/tmp/x")
    assert ray.is_initialized()
    assert context["node_ip_address"] == context.node_ip_address
    assert ray.cluster_resources()["CPU"] == 1
    with pytest.raises(RuntimeError, match="ignore_reinit_error"):
        ray.init()
    ray.init(ignore_reinit_error=True)
    ray.shutdown()
    assert not ray.is_initialized()
    ray.client().namespace("mine").connect()
    assert ray.get_runtime_context().namespace == "mine"
    assert len(capsys.readouterr().out.splitlines()) == 1
    assert ray.nodes()[0]["Alive"] and ray.__version__.startswith("1.4.0")


def test_local_mode_keeps_trials_here():
    ray.init(local_mode=True)
    assert machine.Machine.local_mode
    ray.shutdown()
    assert not machine.Machine.local_mode


def test_without_ray_a_cluster_is_refused_with_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    calls = (
        lambda: ray.init(address="auto"),
        lambda: ray.init("1.2.3.4:6379"),
        lambda: ray.client("1.2.3.4:10001").connect(),
        lambda: ray.connect("1.2.3.4:10001"),
    )
    for call in calls:
        with pytest.raises(ConfigError, match=r"rookery-rl\[ray\]"):
            call()
    assert not ray.is_initialized()
    monkeypatch.setenv("RAY_ADDRESS", "1.2.3.4:6379")
    with pytest.raises(ConfigError, match=r"1\.2\.3\.4"):
        ray.init()
    ray.init(address="local")


def test_trials_stay_where_the_actors_are_that_they_may_ask(tmp_path):
    ray.init(num_cpus=2)
    actor = ray.remote(Counter).options(name="counter").remote()
    assert machine.Machine.actors() == ["counter"]
    with pytest.raises(TypeError, match="lives in the script's process"):
        pickle.dumps(actor)

    def asks(config):
        session.report(count=len(ray.get(ray.get_actor("counter").add.remote(config["x"]))))

    analysis = experiment.run(asks, config={"x": space.grid_search([1, 2])}, local_dir=str(tmp_path), verbose=0)
    assert sorted(trial.last_result["count"] for trial in analysis.trials) == [2, 3]


def test_what_is_put_is_a_copy():
    array = np.zeros(3)
    ref = ray.put(array)
    array[0] = 1
    assert ray.get(ref)[0] == 0
    assert ray.get([ref, ref])[1][0] == 0
    with pytest.raises(ValueError, match="takes what ray.put"):
        ray.get(3)
    with pytest.raises(TypeError):
        ray.put(ref)


def test_functions_are_called_with_copies():
    @ray.remote
    def change(values, other=0):
        values.append(other)
        return values

    @ray.remote(num_returns=2, num_cpus=1)
    def two():
        return 1, 2

    mine = [1]
    assert ray.get(change.remote(mine, other=ray.put(5))) == [1, 5]
    assert mine == [1]
    assert ray.get(two.remote()) == [1, 2]
    assert ray.get(change.options(num_cpus=2).remote(ray.put([]), 7)) == [7]
    with pytest.raises(TypeError, match=r"change\.remote"):
        change([])


def test_what_a_task_raises_is_raised_by_get():
    @ray.remote
    def fails():
        raise KeyError("mine")

    ref = fails.remote()
    with pytest.raises(KeyError) as caught:
        ray.get(ref)
    assert isinstance(caught.value, exceptions.RayTaskError)
    assert "fails raised KeyError" in str(caught.value)

    @ray.remote
    def passes(value):
        return value

    with pytest.raises(exceptions.RayTaskError):
        ray.get(passes.remote(ref))


def test_waiting_finds_everything_ready():
    refs = [ray.put(number) for number in range(4)]
    ready, rest = ray.wait(refs, num_returns=3, timeout=0.1)
    assert (len(ready), len(rest)) == (3, 1)
    with pytest.raises(ValueError, match="num_returns"):
        ray.wait(refs, num_returns=5)


class Counter:
    def __init__(self, start=0):
        self.values = [start]

    def add(self, number):
        self.values.append(number)
        return self.values

    @ray.method(num_returns=2)
    def ends(self):
        return self.values[0], self.values[-1]

    async def later(self):
        await asyncio.sleep(0)
        return "later"

    def leave(self):
        ray.exit_actor()


def test_actors_keep_their_state():
    counter = ray.remote(Counter).remote(3)
    values = ray.get(counter.add.remote(4))
    values.append(99)
    assert ray.get(counter.add.remote(5)) == [3, 4, 5]
    assert ray.get(counter.ends.remote()) == [3, 5]
    assert ray.get(counter.later.remote()) == "later"
    with pytest.raises(AttributeError, match="no method 'typo'"):
        counter.typo.remote()
    ray.kill(counter)
    with pytest.raises(exceptions.RayActorError, match="killed"):
        ray.get(counter.add.remote(1))


class Asking:
    """An actor whose coroutine asks another actor."""

    def __init__(self, counter):
        self.counter = counter

    async def ask(self):
        return ray.get(self.counter.later.remote()), ray.get(self.counter.add.remote(1))

    async def leave(self):
        ray.exit_actor()

    async def fail(self):
        raise ValueError("no")


@pytest.mark.regression(
    "unclear error", "Async tasks and actors run where an event loop runs already, as in a notebook"
)
def test_coroutines_run_where_a_loop_runs_already():
    @ray.remote
    async def task():
        await asyncio.sleep(0)
        return 3

    async def cell():
        asking = ray.remote(Asking).remote(ray.remote(Counter).remote(0))
        with pytest.raises(ValueError, match="no"):
            ray.get(asking.fail.remote())
        found = ray.get(task.remote()), ray.get(asking.ask.remote())
        ray.get(asking.leave.remote())
        with pytest.raises(exceptions.RayActorError, match="ended itself"):
            ray.get(asking.ask.remote())
        return found

    assert asyncio.run(cell()) == (3, ("later", [0, 1]))
    assert ray.get(ray.remote(Asking).remote(ray.remote(Counter).remote(0)).ask.remote()) == ("later", [0, 1])


def test_actors_have_names_and_end():
    made = ray.remote(num_cpus=1)(Counter).options(name="counter").remote()
    assert ray.get_actor("counter") is made
    with pytest.raises(ValueError, match="exists already"):
        ray.remote(Counter).options(name="counter").remote()
    ray.get(made.leave.remote())
    with pytest.raises(exceptions.RayActorError, match="ended itself"):
        ray.get(made.add.remote(1))
    broken = ray.remote(Counter).remote(1, 2, 3)
    with pytest.raises(exceptions.RayActorError, match="constructor has failed"):
        ray.get(broken.add.remote(1))
    ray.kill(made)
    with pytest.raises(ValueError, match="no actor named"):
        ray.get_actor("counter")


def test_pools_give_values_to_actors_in_turn():
    pool = ray.ActorPool([ray.remote(Counter).remote() for _ in range(2)])
    results = list(pool.map(lambda actor, value: actor.add.remote(value), [1, 2, 3, 4]))
    assert [result[-1] for result in results] == [1, 2, 3, 4]
    assert pool.has_free()


class Asks(gymnasium.Env):
    """Asks the script's actor in every step."""

    observation_space, action_space = gymnasium.spaces.Box(0, 1, (1,)), gymnasium.spaces.Discrete(2)

    def __init__(self, config):
        self.counter = ray.get_actor("counter")

    def reset(self, *, seed=None, options=None):
        return self.observation_space.low, {}

    def step(self, action):
        count = ray.get(self.counter.add.remote(1))
        return self.observation_space.low, 1.0, len(count) % 10 == 0, False, {}


@pytest.mark.regression("wrong result", "An environment is stepped in its own process where helpers would break it")
def test_an_environment_that_may_ask_an_actor_is_stepped_where_the_actor_lives(monkeypatch):
    for name, found in (("_cost", 1e-2), ("_scales", False), ("usable_cores", 4)):
        monkeypatch.setattr(choice, name, lambda *given, found=found: found)
    ray.init()
    actor = ray.remote(Counter).options(name="counter").remote()
    trainer = PPOTrainer(config={"num_workers": 4, "train_batch_size": 64, "sgd_minibatch_size": 32}, env=Asks)
    trainer.train()
    assert len(ray.get(actor.add.remote(1))) > 64
    notes = [note for note in trainer.rookery._notes if "the actor 'counter' lives in this process" in note]
    trainer.stop()
    assert len(notes) == 1
    ray.shutdown()
    assert why_process_bound(Asks) == ""
