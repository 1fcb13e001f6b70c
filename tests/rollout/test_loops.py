"""The contract of the loops: the same steps of CartPole, played by each of the four, leave the same bytes.

In Python, in a helper process, in C and on a device (`rollout/loops/`). A device has an environment of its own kind,
whose numbers are not Gymnasium's: its loop is compared with the one in Python on that environment.
"""

import dataclasses
import functools

import numpy as np
import pytest
import torch

from rookery.core.batch import Demand, Rollout
from rookery.core.native import SWITCH, best_build
from rookery.core.seeding import Role, Streams
from rookery.core.timers import Timers
from rookery.envs.make import make_env
from rookery.envs.native.c_playing import fragment_player
from rookery.models.build import ModelConfig
from rookery.policies.policy import Policy
from rookery.rollout.device_store import DeviceStore
from rookery.rollout.loops.device import DeviceLoop
from rookery.rollout.loops.helper_process import HelperLoop
from rookery.rollout.loops.native import NativeLoop
from rookery.rollout.mapping import PolicyMapping
from rookery.rollout.worker import RolloutWorker
from rookery.tensor_envs.classic import TensorCartPole

LANES, STEPS = 3, 200
SHORT = {"max_episode_steps": 15}  # so that episodes are truncated, and not terminated alone

kernels = pytest.mark.skipif(best_build() is None, reason="no kernels are built here")
compiled = pytest.mark.skipif(fragment_player() is None, reason="no environments in C are built here")


def in_python(worker):
    assert worker.fast_loop is None


def in_a_helper(worker):
    assert type(worker.fast_loop) is HelperLoop


def in_c(worker):
    assert type(worker.fast_loop) is NativeLoop


def on_a_device(worker):
    worker.fast_loop = DeviceLoop(worker.env, None)


def plain(value):
    """A value as bytes and plain values: what a rollout or a state holds, in an order of its own."""
    if isinstance(value, dict):
        return {key: plain(value[key]) for key in sorted(value, key=str)}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, np.ndarray | torch.Tensor):
        array = np.asarray(value)
        return str(array.dtype), array.shape, array.tobytes()
    return value


def stored(rollout):
    """The valid rows of a rollout, and all else of it, as bytes."""
    rows = {name: getattr(rollout, name) for name in ("action", "logp", "reward", "terminated", "truncated")}
    rows |= rollout.obs
    rest = {field.name: getattr(rollout, field.name) for field in dataclasses.fields(Rollout)}
    for name in ("obs", "action", "logp", "reward", "terminated", "truncated"):
        del rest[name]
    return plain({path: leaf[rollout.valid] for path, leaf in rows.items()}), plain(rest)


def played(loop, env, implementation, **more):
    """Plays 200 vector steps; returns rollouts, ended episodes, counts and the state, and how many calls made many."""
    env = make_env(env, SHORT, (), LANES, implementation, **more)
    streams, timers = Streams(7), Timers()
    worker = RolloutWorker(env, PolicyMapping(None, ["main"]), streams, streams.episodes(Role.ENV), timers)
    try:
        if loop is on_a_device:
            worker.make_store = functools.partial(DeviceStore, device=env.device)
        (kind,) = env.kinds
        weights = torch.Generator().manual_seed(5)
        policy = Policy(kind.obs, kind.action, ModelConfig(hidden=(16,)), generator=weights)
        worker.add_policy("main", policy, Demand(32, 100))  # an update cuts fragments short
        loop(worker)
        rollouts, finished = [], []
        while worker.vector_steps < STEPS:
            sample = worker.sample((STEPS - worker.vector_steps) * LANES)
            rollouts += [stored(rollout) for rollout in sample.rollouts.values()]
            finished += sample.finished
            worker.set_weights({"main": policy})
        mine = worker.policies["main"]
        rollouts.append(stored(mine.store.drain(worker.now.rows[0].obs, mine.row_of_slot)))  # what is still open
        state = worker.state_dict()
        for name in ("env", "policies"):  # each environment has a state of its own; slots follow
            del state[name]
        slots = mine.taken, mine.row_of_slot, mine.acted, mine.store.complete, mine.store._clock, mine.store._starts
        counts = sample.env_steps, sample.lane_steps, sample.running_length, sample.counters
        calls = next((row.count for row in timers.rows() if row.label == "fragments"), 0)
        return (rollouts, finished, counts, plain(slots), plain(state)), calls
    finally:
        env.close()


LOOPS = [
    pytest.param(in_python, "serial", {}, id="python"),
    pytest.param(in_a_helper, "processes", {"helpers": 1}, marks=kernels, id="helper process"),
    pytest.param(in_c, "c", {}, marks=[kernels, compiled], id="C"),
]


@pytest.fixture(scope="module")
def by_python():
    return played(in_python, "CartPole-v1", "serial")[0]


@pytest.mark.parametrize(("loop", "implementation", "more"), LOOPS)
def test_each_loop_stores_the_bytes_of_the_loop_in_python(loop, implementation, more, by_python):
    found, calls = played(loop, "CartPole-v1", implementation, **more)
    assert (calls > 0) == (loop is not in_python)
    for mine, theirs in zip(found, by_python, strict=True):
        assert mine == theirs
    rollouts, finished, (env_steps, *_), *_ = found
    assert len(rollouts) == 6 and env_steps == STEPS * LANES
    assert {episode.length == 15 for episode in finished} == {True, False}


@pytest.fixture(params=[pytest.param("1", marks=kernels), "0"], ids=["kernels", "torch"])
def computes(request, monkeypatch):
    """Backend of the policy."""
    monkeypatch.setenv(SWITCH, request.param)
    best_build.cache_clear()
    yield
    monkeypatch.undo()
    best_build.cache_clear()


@pytest.mark.usefixtures("computes")
def test_the_loop_on_a_device_stores_the_bytes_of_the_loop_in_python():
    on_device, calls = played(on_a_device, TensorCartPole, "auto")
    one_by_one, none = played(in_python, TensorCartPole, "auto")
    assert calls > 0 == none
    for mine, theirs in zip(on_device, one_by_one, strict=True):
        assert mine == theirs
