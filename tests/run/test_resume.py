"""A resumed run equals the run that was never stopped: every weight, every row, every object."""

from __future__ import annotations

import contextlib
import copy
import enum
import functools
import os
import signal
import tempfile
import types
from collections import deque
from collections.abc import Mapping

import gymnasium
import numpy as np
import pytest
import torch
from lived_in import Restless, Saying, Turns, Walk, Weary, Windy
from lives import BRIEF, CASES, FAST, RECALLING, SLOWER, WINDS, digest, make, rows, weights

from each_step import after_each_step, as_ever
from rookery import Callback, ConfigError, DQNConfig, MultiAgentArena, RookeryError, Trainer
from rookery.core.batch import Transitions
from rookery.core.native import best_build
from rookery.core.process.interrupt import Interrupted
from rookery.core.schedules import Schedule
from rookery.core.state import Stateful
from rookery.envs.native.variants import native_unavailable_reason
from rookery.envs.vector import history
from rookery.native.actor import NativeActor
from rookery.native.forward import NetworkKernels
from rookery.replay.buffer import ReplayBuffer
from rookery.run import gradient_steps
from rookery.run.evaluate import evaluation as evaluation_module
from selection import slow, slow_except

ITERATIONS = 4


def arguments_of(name):
    case = dict(CASES[name])
    if "needs" in case:
        pytest.importorskip(case.pop("needs"))
    return case


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """State, weights and rows after so many iterations of a case that was never stopped."""
    known = {}

    def run(name):
        if name not in known:
            folder = tmp_path_factory.mktemp("uninterrupted") / "run"
            with make(run_dir=folder, **arguments_of(name)) as trainer:
                trainer.train({"iterations": ITERATIONS})
                known[name] = digest(trainer), weights(trainer), rows(folder)
        return known[name]

    return run


def outcome(trainer, folder):
    """Returns the values that must be equal."""
    return digest(trainer), weights(trainer), rows(folder)


STOPPED_ANYWHERE = [
    "one policy",
    "serial, by state",
    "normalizers, evaluation",
    "random mapping, batched",
    "random mapping, serial",
    "iterations of fixed length",
    "by actions",
    "drawn parameters",
    "lessons, by actions",
    "lessons, with resets",
    "lessons, batched",
    "turns, late agents",
    "tictactoe",
    "memory",
    "memories, late agents",
    "dqn",
    "dqn, prioritized, by actions",
    "sac",
    "ppo and dqn",
    "dqn, late agents",
    "qmix, members that fall",
    "resting",
    "mujoco",
    "self-play",
    "league",
    "teams in turn",
]
"""Cases that are stopped at several steps, not half way alone."""

HALF_WAY = [
    "a2c", "by its own word", "composite actions", "frozen lake",
    "impala and appo", "maddpg, members that fall",
    "reinforce", "ppo-lagrangian", "trpo", "es", "linucb", "neural-linear", "td3", "teams in turn",
    "self-play, played ahead", "qmix, members that fall",
    "dqn, prioritized, by actions", "ppo and dqn", "league", "random mapping, batched", "lessons, by actions",
]  # fmt: skip
"""In ``make test``, with others for the other steps."""


@pytest.mark.parametrize("name", slow_except(*HALF_WAY, of=CASES))
def test_stopping_half_way_changes_nothing(name, tmp_path, uninterrupted):
    expected = uninterrupted(name)
    half = 3 if name == "lessons, with resets" else ITERATIONS // 2  # the second ends where a lesson begins
    with make(run_dir=tmp_path, **arguments_of(name)) as trainer:
        trainer.train({"iterations": half})
        lengths = trainer._pool.worker.lengths
        of_one_step = "Bandit" in str(CASES[name]["env"])
        assert of_one_step or lengths.any(), "no episode is under way, so that nothing was to be taken up"
    with Trainer.load(tmp_path, resume=True) as trainer:
        assert trainer.iteration == half
        trainer.train({"iterations": ITERATIONS})
        assert trainer.env.exact
        assert outcome(trainer, tmp_path) == expected
    assert [row["iteration"] for row in expected[2]] == list(range(1, ITERATIONS + 1))
    assert all(row["exact"] for row in expected[2])


def test_the_digest_notices_the_last_bit():
    with make("CartPole-v1") as trainer:
        trainer.train_iteration()
        before = digest(trainer), weights(trainer)
        with torch.no_grad():
            bits = next(trainer.policies["main"].parameters()).view(-1).view(torch.int32)
            bits[0] ^= 1
        assert digest(trainer) != before[0]
        assert weights(trainer) != before[1]


def interrupted_at(trainer, step, ending=False):
    """Simulates a signal in the middle of a vector step, or of the next one in which an episode ends."""

    def come(worker):
        if worker.vector_steps == step if not ending else worker.vector_steps > step and worker.now.ended.any():
            trainer._interrupt.number = signal.SIGINT

    after_each_step(trainer._pool.worker, come)


@pytest.mark.parametrize(
    "name",
    slow_except(
        "normalizers, evaluation", "by actions", "turns, late agents", "memory", "sac", "resting",
        of=STOPPED_ANYWHERE,
    ),
)  # fmt: skip
def test_stopping_in_the_middle_of_iterations_changes_nothing(name, tmp_path, uninterrupted):
    expected = uninterrupted(name)
    # the first step; the middle, the last and the next step of a fragment of 24; twice in one iteration; later ones
    for step in (1, 13, 24, 25, 26, 70, 85):
        if step == 1:
            trainer = make(run_dir=tmp_path, **arguments_of(name))
        else:
            trainer = Trainer.load(tmp_path, resume=True)
        with trainer:
            interrupted_at(trainer, step)
            with contextlib.suppress(Interrupted):  # a few runs are over before the last of these steps
                trainer.train({"iterations": ITERATIONS})
            assert trainer._pool.worker.vector_steps == step or trainer.iteration == ITERATIONS
    with Trainer.load(tmp_path, resume=True) as trainer:
        trainer.train({"iterations": ITERATIONS})
        assert outcome(trainer, tmp_path) == expected


def test_stopping_in_the_middle_of_an_evaluation_changes_nothing(tmp_path, monkeypatch, uninterrupted):
    name = "normalizers, evaluation"
    expected = uninterrupted(name)
    bounded = evaluation_module.bounded
    with make(run_dir=tmp_path, **arguments_of(name)) as trainer:

        def come(worker):
            if worker.vector_steps == 30:
                trainer._interrupt.number = signal.SIGTERM

        def stopped(*arguments, **options):
            played = bounded(*arguments, **options)
            after_each_step(played.worker, come)
            return played

        monkeypatch.setattr(evaluation_module, "bounded", stopped)
        with pytest.raises(Interrupted, match="SIGTERM"):
            trainer.train({"iterations": ITERATIONS})
        assert trainer.iteration == 1  # the second iteration has learned, and is not over
        assert trainer._progress is not None
        assert len(rows(tmp_path)) == 1
    monkeypatch.undo()
    with Trainer.load(tmp_path, resume=True) as trainer:
        trainer.train({"iterations": ITERATIONS})
        assert outcome(trainer, tmp_path) == expected


@pytest.mark.slow
def test_a_run_can_be_stopped_after_every_iteration(tmp_path, uninterrupted):
    name = "random mapping, serial"
    expected = uninterrupted(name)
    with make(run_dir=tmp_path, **arguments_of(name)) as trainer:
        trainer.train({"iterations": 1})
    for iteration in range(2, ITERATIONS + 1):
        with Trainer.load(tmp_path, resume=True) as trainer:
            trainer.train({"iterations": iteration})
            found = outcome(trainer, tmp_path)
    assert found == expected


def test_going_on_from_an_older_checkpoint_forgets_what_came_after_it(tmp_path, uninterrupted):
    expected = uninterrupted("one policy")
    with make(run_dir=tmp_path, **arguments_of("one policy") | {"checkpoint_every": 1}) as trainer:
        trainer.train({"iterations": 5})
    assert len(rows(tmp_path)) == 5
    with Trainer.load(tmp_path / "checkpoints" / "000003", resume=True) as trainer:
        assert len(rows(tmp_path)) == 3
        assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir() if path.is_dir()) == ["000003"]
        trainer.train({"iterations": ITERATIONS})
        assert weights(trainer) == expected[1]
        assert rows(tmp_path) == expected[2]


def test_a_checkpoint_saved_elsewhere_goes_on_without_a_run_directory(tmp_path, uninterrupted):
    expected = uninterrupted("one policy")
    with make(**arguments_of("one policy")) as trainer:
        trainer.train({"iterations": 2})
        assert trainer.save(tmp_path / "deep" / "mine") == tmp_path / "deep" / "mine"
    with Trainer.load(tmp_path / "deep" / "mine") as trainer:
        assert trainer.run_dir is None
        trainer.train({"iterations": ITERATIONS})
        assert weights(trainer) == expected[1]
    assert [path.name for path in tmp_path.rglob("*") if path.is_dir()] == ["deep", "mine"]
    with pytest.raises(
        ConfigError, match="mine is neither the directory of a run nor one of its checkpoints; leave resu"
    ):
        Trainer.load(tmp_path / "deep" / "mine", resume=True)
    assert [path.name for path in tmp_path.rglob("*") if path.is_dir()] == ["deep", "mine"]


def test_saving_and_loading_change_nothing_for_those_who_go_on(tmp_path):
    with make("CartPole-v1") as saved, make("CartPole-v1") as plain:
        for number in range(3):
            saved.train_iteration()
            plain.train_iteration()
            saved.save(tmp_path / f"{number}")
            Trainer.load(tmp_path / f"{number}").close()
        assert digest(saved) == digest(plain)


class Counting(Callback):
    """Counts steps of episodes, in the episode, in itself, and in a histogram."""

    def __init__(self):
        self.episodes = 0

    def on_episode_start(self, episode):
        episode.user_data["seen"] = [np.zeros(2)]

    def on_episode_step(self, episode):
        episode.user_data["seen"].append(episode.obs["agent"]["obs"].copy())

    def on_episode_end(self, episode):
        self.episodes += 1
        seen = np.array(episode.user_data["seen"][1:])
        episode.metrics["first"] = float(np.abs(seen[0]).sum())
        episode.metrics["steps"] = len(seen)
        episode.histograms["distance"] = np.abs(seen).sum(axis=1).tolist()

    def state_dict(self):
        return {"episodes": self.episodes}

    def load_state_dict(self, state):
        self.episodes = state["episodes"]


@pytest.mark.parametrize("env", [Walk, slow(Saying)])
def test_what_callbacks_keep_about_unfinished_episodes_goes_on(env, tmp_path):
    outcomes = []
    for stops in ((), (17, 50)):
        folder = tmp_path / str(len(stops))
        callback = Counting()
        trainer = make(env, run_dir=folder, callbacks=[callback])
        for stop in stops:
            interrupted_at(trainer, stop)
            with pytest.raises(Interrupted):
                trainer.train({"iterations": 4})
            trainer.close()
            callback = Counting()
            trainer = Trainer.load(folder, resume=True, callbacks=[callback])
        trainer.train({"iterations": 4})
        outcomes.append((*outcome(trainer, folder), callback.episodes))
        trainer.close()
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][3] > 5
    assert outcomes[0][2][-1]["episodes"] == outcomes[0][3]


# --- what cannot be taken up --------------------------------------------------------------------------------------


def caught_rollouts(trainer, name="main"):
    """Copies of the rollouts that a learner gets from now on; they live in the worker's memory."""
    caught = []
    learner = trainer.learners[name]
    step = learner.training_step

    def note(rollout):
        caught.append(copy.deepcopy(rollout))
        return step(rollout)

    learner.training_step = note
    return caught


def test_an_episode_that_replays_differently_is_given_up_and_the_run_is_inexact_from_then_on(tmp_path, capsys):
    with make(Restless, run_dir=tmp_path, num_envs=6) as trainer:
        interrupted_at(trainer, 9)
        with pytest.raises(Interrupted):
            trainer.train({"iterations": 2})
        before = trainer.env.episode.copy()
        odd = np.array([lane.env.odd for lane in trainer.env._lanes])
        seen = trainer._pool.worker.now.rows[0].obs["obs"].copy()
    assert odd.any()
    assert not odd.all()
    with Trainer.load(tmp_path, resume=True) as trainer:
        assert not trainer.env.exact
        assert "unfinished episodes could not be resumed: this run is no longer exact" in capsys.readouterr().err
        # only the lanes whose replay showed something else begin their next episode
        assert (trainer.env.episode - before).tolist() == odd.astype(int).tolist()
        assert ((trainer._pool.worker.lengths == 0) == odd).all()
        rollouts = caught_rollouts(trainer)
        result = trainer.train({"iterations": 2})
        assert not result.exact
        (first, _) = rollouts
        # fragments of slots 0 to 5; the ninth decision of the abandoned ones is cut off with what was seen after it
        cut = first.truncated[8].numpy()
        assert (cut == odd).all()
        assert not first.terminated[8].numpy()[odd].any()
        which = {tuple(place): row for row, place in enumerate(first.boot_index.tolist())}
        for lane in np.flatnonzero(odd).tolist():
            assert first.final_obs["obs"][which[8, lane]].tolist() == seen[lane].tolist()
        assert first.reward.shape == (24, 6)
    assert [row["exact"] for row in rows(tmp_path)] == [False, False]
    with Trainer.load(tmp_path, resume=True) as trainer:  # it does not become exact again
        assert not trainer.train({"iterations": 3}).exact


def test_an_episode_too_long_for_its_log_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(history, "LOG_LIMIT", 5)
    with make(Walk, run_dir=tmp_path) as trainer:
        trainer.train({"iterations": 1})
        long = trainer._pool.worker.lengths > 5
        before = trainer.env.episode.copy()
        state = trainer.env.state_dict()
    assert long.any()
    assert [where == {} for where in state["lanes"]] == long.tolist()
    with Trainer.load(tmp_path, resume=True) as trainer:
        assert (trainer.env.episode - before).tolist() == long.astype(int).tolist()
        assert trainer.env.exact == (not long.any())
        assert trainer.train({"iterations": 3}).iteration == 3


class Forgetful(gymnasium.wrappers.NormalizeReward):
    """A wrapper with hidden state."""


def test_a_wrapper_with_a_memory_of_its_own_is_noticed_by_its_rewards(tmp_path):
    # running statistics continue from episode to episode: a replay from the seed only has other rewards
    arguments = {"wrappers": (Forgetful,)}
    with make("CartPole-v1", run_dir=tmp_path, **arguments) as trainer:
        trainer.train({"iterations": 2})
    with Trainer.load(tmp_path, resume=True) as trainer:
        assert not trainer.env.exact
        trainer.train({"iterations": 3})
    assert [row["exact"] for row in rows(tmp_path)] == [True, True, False]


class RestlessTurns(Turns):
    """Players whose places are never the same again."""

    moves = 0

    def step(self, actions):
        RestlessTurns.moves += 1
        self.place = {agent: place + RestlessTurns.moves for agent, place in self.place.items()}
        return super().step(actions)


def test_players_of_an_episode_that_is_given_up_are_all_cut_off(tmp_path):
    with make(RestlessTurns, run_dir=tmp_path, num_envs=2) as trainer:
        interrupted_at(trainer, 7)
        with pytest.raises(Interrupted):
            trainer.train({"iterations": 3})
        store = trainer._pool.worker.policies["main"].store
        decided = store._filled.copy()
        assert decided.sum() == 14  # one a step and lane: x, y and z in two lanes
        assert len(decided) == 6
        assert store._pending.sum() == 4  # one of three is on turn
    with Trainer.load(tmp_path, resume=True) as trainer:
        store = trainer._pool.worker.policies["main"].store
        assert store.complete == 14
        assert not store._pending.any()
        rollouts = caught_rollouts(trainer)
        trainer.train({"iterations": 3})
    first = rollouts[0]
    column = {slot: number for number, slot in reversed(list(enumerate(first.slot.tolist())))}
    for slot, count in enumerate(decided.tolist()):
        # all before is one episode, the last of it is cut off, and what comes next begins another
        assert first.truncated[: int(count), column[slot]].tolist() == [False] * (int(count) - 1) + [True]
        assert not first.terminated[: int(count), column[slot]].any()
        assert [count - 1, column[slot]] in first.boot_index.tolist()


# --- the whole object graph ---------------------------------------------------------------------------------------

DIFFERS = {
    "Timer.seconds": "the clock, rounded to microseconds",
    "Timer._start": "the clock",
    "Clock._since": "likewise",
    "Flat.grad": "zeroed before anything is added",
    "Forward._where": "where weights lie",
    "Forward._last_place": "likewise",
    "Adam.on_kernels": "set with every gradient",
    "RMSprop.on_kernels": "likewise",
    "NativeLoop._inputs": "where things lie, found anew when it plays",
    "NativeLoop._order": "likewise",
    "NativeLoop._obs": "likewise",
    "NativeLoop._playing": "likewise",
    "NativeLoop._places": "likewise",
    "SlotStore._places": "likewise",
    "WorkerPolicy.decided": "of the last step; the next one sets it before it is read",
    "WorkerPolicy.deciding": "likewise",
    "WorkerPolicy._source": "found again when weights are next handed out",
    "WorkerPolicy._tensors": "likewise",
    "RowTable.routes": "found out again in the next step",
    "RowTable.acted": "of the last step; the next one sets it before it is read",
    "RowTable.all_acted": "likewise",
    "SlotStore._due": "of the last step; the next one sets it before it is read",
    "SlotStore._lines": "views of its storage, made when first needed",
    "SlotStore._handed": "likewise",
    "BatchedCartPole._coming": "follows from the plan of seeds",
    "ActionNoise._steps": "follows from the streams and the vector step",
    "ActionNoise._block": "likewise",
    "ActionNoise._slots": "likewise",
    "ActionNoise._number": "likewise",
    "Episode.info": "what the environment said beside the last step",
    "Measure._env": "made when first needed; every evaluation resets it",
    "Rows.reward": "of the last step: it has been recorded",
    "Rows.terminated": "likewise",
    "Rows.truncated": "likewise",
    "Rows.final_index": "likewise",
    "Rows.final_obs": "likewise",
    "Rows.final_stale": "likewise",
    "Step.ended": "likewise",
    "Step.any_end": "likewise",
    "BatchedArena._reward": "likewise, another view of it",
    "Slab.ended": "likewise",
    "Block.finals": "likewise",
    "Block.final_obs": "likewise",
    "RowWriter.any_end": "whether there are marks to wipe, and there are none",
    "ActionHistory._steps": "what came before the checkpoint is in `_before` there",
    "ActionHistory._before": "likewise",
    "SerialEnv._actions": "of the last step, for messages",
    "SerialEnv._infos": "of the last step",
    "SerialEnv.infos": "likewise",
}
"""What may differ between a trainer and its copy from a checkpoint, with the reason why nothing is lost."""

IN_C = "_actions _lanes _begin_seeds _values _fields_at _obs_at"
"""What a step of an environment in C works with, and addresses of arrays."""

WORKSPACE = {"WorkerPolicy": "acted",  # counts from when it was made
             "FirstLook": "begun over _first _same _rewarded _episodes _steps",  # a resumed run is not looked at
             "Parts": "after_sample",  # without these looks, once they are done; all parts are compared in `all`
             "Guard": "_made _began _copy _log",  # the latest calls, kept for a message
             **dict.fromkeys(("CartPoleInC", "PendulumInC"), IN_C), "ArenaInC": f"{IN_C} _clock _began",
             "BatchedCartPole": ("_both _inertia _sin _thrust _work _change _reach _fallen"),
             "BatchedArena": ("_index _target _target1 _target2 _free _free1 _free2 _trails _other_free _apart _quiet "
                              "_new _seen _event _visit _quiet_number _new_number")}  # fmt: skip
"""Arrays that every step writes before it reads them, and what is no state."""


def pieces(thing):
    """Returns the attributes of one of our objects, by name."""
    slots = [name for base in type(thing).__mro__ for name in getattr(base, "__slots__", ())]
    return {**getattr(thing, "__dict__", {}), **{name: getattr(thing, name) for name in slots if hasattr(thing, name)}}


def ours(thing):
    module = type(thing).__module__
    return module.split(".")[0] in ("rookery", "lives", "lived_in") or isinstance(
        thing, torch.nn.Module | gymnasium.Env
    )


PASSED_OVER = (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType, enum.Enum)


KERNELS = (NativeActor, NetworkKernels)
"""They read weights where these lie, and are made when first needed."""


def content_of(memory):
    """Returns the contents of a replay buffer, without overwritten rows and derived values."""
    batches = [memory.sample(64, n_step=3, gamma=0.9, beta=0.5) for _ in range(5)]  # newest rows among them
    drawn = [{name: getattr(batch, name) for name in Transitions.__dataclass_fields__} for batch in batches]
    held = {name: getattr(memory, name) for name in ("rng", "largest", "first", "total")}
    return {**held, "rows": memory.rows_between(memory.first, memory.total), "drawn": drawn}


def is_cached(kind, name):
    """Returns whether an attribute is a cached property of a class."""
    return isinstance(getattr(kind, name, None), functools.cached_property)


class Differences:
    """Walks two object graphs side by side and notes where they differ: in values, types, or in what is one object."""

    def __init__(self):
        self.found = {}
        self.twins = {}
        self.memory = {}
        self.visited = set()

    def note(self, path, owner, why):
        self.found[path] = (owner, why)

    def compare(self, a, b, path, owner):
        if isinstance(a, ReplayBuffer) and isinstance(b, ReplayBuffer):
            a, b = content_of(a), content_of(b)
        if a is b or (type(a) is type(b) and type(a) in (bool, int, float, str) and a == b):
            return
        if isinstance(a, PASSED_OVER):
            return
        if isinstance(a, (*KERNELS, type(None))) and isinstance(b, (*KERNELS, type(None))):
            return
        if type(a) is not type(b):
            self.note(path, owner, f"{type(a).__name__} is {type(b).__name__}")
            return
        if isinstance(a, torch.Tensor | np.ndarray):
            self.arrays(a, b, path, owner)
        elif isinstance(a, np.random.Generator):
            if a.bit_generator.state != b.bit_generator.state:
                self.note(path, owner, "generators stand elsewhere")
        elif isinstance(a, torch.Generator):
            self.arrays(a.get_state(), b.get_state(), path, owner)
        elif isinstance(a, gymnasium.Space | np.dtype | range | slice | Schedule) or a is None:
            if a != b:
                self.note(path, owner, f"{a} is {b}")
        elif isinstance(a, types.MethodType):
            self.compare(a.__self__, b.__self__, path, owner)
        elif isinstance(a, Mapping):
            self.same_object(a, b, path, owner)
            if list(a) != list(b):
                self.note(path, owner, f"keys {list(a)} are {list(b)}")
            for key in a.keys() & b.keys():
                self.compare(a[key], b[key], f"{path}[{key!r}]", owner)
        elif isinstance(a, list | tuple | deque):
            if len(a) != len(b) or getattr(a, "maxlen", None) != getattr(b, "maxlen", None):
                self.note(path, owner, f"{len(a)} items are {len(b)}")
            for number, pair in enumerate(zip(a, b, strict=False)):
                self.compare(*pair, f"{path}[{number}]", owner)
        elif ours(a):
            self.objects(a, b, path, owner)
        elif isinstance(a, bool | int | float | str | np.generic | set | frozenset | bytes):
            if a != b and not (a != a and b != b):
                self.note(path, owner, f"{a!r} is {b!r}")

    def arrays(self, a, b, path, owner):
        if a.shape != b.shape or a.dtype != b.dtype:
            self.note(path, owner, f"{a.dtype}{tuple(a.shape)} is {b.dtype}{tuple(b.shape)}")
            return
        if (
            np.asarray(a.detach() if isinstance(a, torch.Tensor) else a).tobytes()
            != np.asarray(b.detach() if isinstance(b, torch.Tensor) else b).tobytes()
        ):
            self.note(path, owner, "values differ")
        where = [x.data_ptr() if isinstance(x, torch.Tensor) else x.__array_interface__["data"][0] for x in (a, b)]
        if a.size if isinstance(a, np.ndarray) else a.numel():
            known = self.memory.setdefault(where[0], (where[1], path))
            if known[0] != where[1]:
                self.note(path, owner, f"shares memory with {known[1]} in one of them only")

    def same_object(self, a, b, path, owner):
        known = self.twins.setdefault(id(a), (b, path))
        if known[0] is not b:
            self.note(path, owner, f"is {known[1]} in one of them only")

    def objects(self, a, b, path, owner):
        self.same_object(a, b, path, owner)
        if (id(a), id(b)) in self.visited:
            return
        self.visited.add((id(a), id(b)))
        mine, theirs = pieces(a), pieces(b)
        kind = type(a).__name__
        # a cached property is derived when it is first needed, from what is compared
        alone = [name for name in mine.keys() ^ theirs.keys() if not is_cached(type(a), name)]
        if alone:
            self.note(path, kind, f"has {sorted(alone)} in one of them only")
        for name in mine.keys() & theirs.keys():
            # who set a value changes no value; and settings resolved at some moment follow from the others
            if name not in WORKSPACE.get(kind, "").split() and name not in ("_given", "_resolved"):
                self.compare(mine[name], theirs[name], f"{path}.{name}", f"{kind}.{name}")


def differences(a, b):
    """Returns the differences of two trainers that `DIFFERS` does not explain, and the used explanations."""
    walked = Differences()
    walked.compare(a, b, "trainer", "")
    needed = {owner for owner, _ in walked.found.values()} & DIFFERS.keys()
    return {path: f"{owner}: {why}" for path, (owner, why) in walked.found.items() if owner not in DIFFERS}, needed


GRAPHS = [
    "one policy", "serial, by state", "normalizers, evaluation", "random mapping, batched", "random mapping, serial",
    "a frozen policy", "by its own word", "turns, late agents", "by actions", "tictactoe", "composite actions", "a2c",
    "impala and appo", "reinforce", "ppo-lagrangian", "trpo", "es", "neural-linear", "memory", "memories, late agents",
]  # fmt: skip


def stopped_at(step, **arguments):
    """A trainer in the middle of an iteration, after at least so many vector steps, when an episode has just ended."""
    trainer = make(**arguments)
    interrupted_at(trainer, step, ending=True)
    with pytest.raises(Interrupted):
        trainer.train({"iterations": 9})
    assert trainer._progress is not None
    assert trainer._pool.worker.now.ended.any()
    as_ever(trainer._pool.worker)
    return trainer


UNLIKE = [
    "normalizers, evaluation", "random mapping, batched", "by its own word", "turns, late agents", "impala and appo",
    "memories, late agents",
]  # fmt: skip
"""Of `GRAPHS`, in ``make test``: between them they hold what the others do, but for the environments."""


@pytest.mark.parametrize("names", [UNLIKE, slow(GRAPHS)], ids=["few", "all"])
def test_every_object_comes_back_as_it_was(tmp_path, names):
    needed = set()
    for name in names:
        watched = name in ("by its own word", "by actions")
        arguments = arguments_of(name) | ({"callbacks": [Counting()]} if watched else {})
        between = make(**arguments)
        between.train({"iterations": 2})
        for moment, trainer in (("between", between), ("within", stopped_at(30, **arguments))):
            trainer.save(tmp_path / f"{name}, {moment}")
            other = Trainer.load(tmp_path / f"{name}, {moment}", callbacks=[Counting()] * watched)
            found, explanations = differences(trainer, other)
            assert found == {}, f"{name}, {moment} iterations"
            needed |= explanations
            trainer.close()
            other.close()
    absent = set() if best_build() else {"Adam.on_kernels", "RMSprop.on_kernels"}
    absent |= set() if native_unavailable_reason() else {"BatchedCartPole._coming", "BatchedArena._reward"}
    at_once = {name for name in DIFFERS if name.startswith(("NativeLoop.", "SlotStore._places"))}
    absent |= at_once if native_unavailable_reason() or best_build() is None else set()
    if names is GRAPHS:
        assert needed == DIFFERS.keys() - absent, "an explanation that nothing needs"


class CountingTurns(Callback):
    """Counts for an environment of several players."""

    turns = 0

    def state_dict(self):
        return {"turns": self.turns}

    def load_state_dict(self, state):
        self.turns = state["turns"]

    def on_episode_step(self, episode):
        self.turns += 1
        episode.user_data["steps"] = episode.user_data.get("steps", 0) + 1
        episode.metrics["steps"] = episode.user_data["steps"]
        episode.histograms.setdefault("steps", []).append(episode.user_data["steps"])
        episode.parameters = {"steps": episode.user_data["steps"]}


def test_our_networks_keep_nothing_beside_their_tensors():
    # what a module keeps in a plain attribute, or in a buffer that is not persistent, is not in its state
    names = "normalizers, evaluation", "composite actions", "tictactoe", "a2c", "reinforce", "memories, late agents"
    for name in names:
        trainer = make(**arguments_of(name))
        modules = {
            f"{part}.{path}": module
            for part, whole in trainer_networks(trainer).items()
            for path, module in whole.named_modules()
            if type(module).__module__.startswith("rookery.")
        }
        before = {path: plain(module) for path, module in modules.items()}
        trainer.train({"iterations": 1})
        assert {path: plain(module) for path, module in modules.items()} == before
        assert {"RunningMeanStd", "Policy"} <= {type(module).__name__ for module in modules.values()} or name[0] != "n"


def trainer_networks(trainer):
    """Every network a trainer holds."""
    nets = {name: learner.net for name, learner in trainer.learners.items() if hasattr(learner, "net")}
    return {**nets, **{f"policy {name}": policy for name, policy in trainer.policies.items()}}


def plain(module):
    """Returns the attributes of a module that are not in its state dict, as text."""
    held = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    held |= {name: getattr(module, name) for name in module._non_persistent_buffers_set}
    return {name: repr(value) for name, value in held.items()}


def trained(iterations, staleness=0, config=None, **arguments):
    """A trainer between iterations."""
    settings = {"sampling.warmup_steps": 0, "sampling.staleness": staleness, **(config or {})}
    trainer = make(**arguments, config=settings)
    trainer.train({"iterations": iterations})
    return trainer


def stopped_after(iterations, steps, **arguments):
    """A trainer that has many things to remember: after some iterations, in the middle of the next."""
    trainer = trained(iterations, **arguments)
    trainer.train({"env_steps": trainer.env_steps + 1_000_000, "iterations": 1})
    interrupted_at(trainer, trainer._pool.worker.vector_steps + steps)
    with pytest.raises(Interrupted):
        trainer.train({"iterations": 99})
    as_ever(trainer._pool.worker)
    return trainer


def paused_while_it_rests():
    """A trainer in the middle of an iteration that only learns, while its one copy rests."""
    small = {"batch_size": 16, "learning_starts": 60, "target.every": 3, "exploration.kind": "noisy"}
    small |= {"replay.capacity": 100, "replay.kind": "prioritized", "model.hidden": [16]}
    config = {"algorithm.name": "dqn", **{f"algorithm.{path}": value for path, value in small.items()}}
    trainer = make(Weary, cfg=None, num_envs=1, config={**config, "sampling.iteration_steps": 90})
    trainer.train({"iterations": 2})
    while not trainer._resting:
        trainer._count_played(trainer._pool.sample(1))
    trainer.pause_sampling()
    learner = trainer.learners["main"]
    learner.explore = lambda: setattr(trainer._interrupt, "number", signal.SIGINT)
    with pytest.raises(Interrupted):
        trainer.train({"iterations": 3})
    del learner.explore
    return loaded(trainer)


def loaded(trainer):
    """The same, loaded once before: defaults are lists in the history of a run that was."""
    with tempfile.TemporaryDirectory() as folder:
        trainer.save(f"{folder}/saved")
        return Trainer.load(f"{folder}/saved")


def lessons_that_wait():
    """A trainer whose next lesson waits until what is played ahead is over."""
    many = {"lessons": [number / 50 for number in range(50)], "threshold": -1e9, "min_episodes": 1}
    trainer = trained(1, staleness=1, env=Windy, config={"curriculum.wind": many})
    while trainer._pool.lessons is None:
        trainer.train_iteration()
    trainer._curriculum.courses["wind"].told = True
    return loaded(trainer)


def opponents_that_wait():
    """A trainer whose next opponents wait until what is played ahead is over."""
    alone = {"main": {"snapshot_every": 20, "swap_every": 10}}
    trainer = trained(1, staleness=1, env="rookery.tasks:TicTacToe", cfg=FAST, self_play=alone)
    while trainer._pool.lineup is None:
        trainer.train_iteration()
    return loaded(trainer)


def between_gradient_steps(paused=False):
    """A trainer in the middle of the gradient steps of a round, of which a signal makes fewer than its policy."""
    cfg = DQNConfig(
        learning_starts=20,
        batch_size=8,
        train_every=20,
        updates_per_step=0.5,
        signals={"rnd": {"updates_per_step": 0.3}},
    )
    trainer = make("CartPole-v1", cfg=cfg, config={"sampling.iteration_steps": 60})
    trainer.train({"iterations": 1})
    if paused:
        trainer.pause_sampling()
    replay, made = trainer.replays["main"], []

    def record(metrics, own=replay.record):
        own(metrics)
        made.append(metrics)
        if len(made) == 4:
            trainer._interrupt.number = signal.SIGINT

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gradient_steps, "CHUNK", 1)
        patch.setattr(replay, "record", record)
        with pytest.raises(Interrupted):
            trainer.train({"iterations": 3})
    vars(replay).pop("record", None)
    return loaded(trainer)


ALL_SCALED = FAST.replace(scale_rewards=True, kl_coef=0.1, model={"normalize_obs": True})

RICH = {
    "players who take turns": lambda: stopped_after(
        2, 9, env=Turns, cfg=ALL_SCALED, policies={"a": ALL_SCALED, "b": SLOWER, "c": {"frozen": True}},
        policy_mapping={"x": "a", "y": "b", "z": "c"}, evaluation_every=1, evaluation_episodes=1,
        callbacks=[CountingTurns()],
    ),
    "rows in lockstep": lambda: stopped_after(1, 30, env=Walk, cfg=FAST.replace(rollout_size=500)),
    "rows just taken": lambda: stopped_after(1, 24, env=MultiAgentArena, env_config={"max_timesteps": 10}),
    "rows taken, some pending": lambda: trained(1, env=Turns),
    "players who remember": lambda: stopped_after(1, 9, env=Turns, cfg=RECALLING),
    "rows played ahead": lambda: trained(2, staleness=1, env="CartPole-v1"),
    "lessons, in the middle": lambda: loaded(stopped_after(3, 9, env=Windy, config=WINDS)),
    "lessons that wait for what is played ahead": lessons_that_wait,
    "opponents that wait for what is played ahead": opponents_that_wait,
    "gradient steps under way": between_gradient_steps,
    "gradient steps while nothing is played": lambda: between_gradient_steps(paused=True),
    "paused while it rests": paused_while_it_rests,
    "who plays against itself, and is curious": lambda: loaded(stopped_after(
        6, 5, env="rookery.tasks:TicTacToe", cfg=FAST.replace(signals={"curiosity": {"scale": True}, "rnd": {}}),
        self_play={"main": {"snapshot_every": 60, "swap_every": 30, "latest_ratio": 0.3, "rating_games": 4,
                            "anchors": {"perfect": "rookery.tasks.games.players:tic_tac_toe_perfect"}}},
    )),
    "teams that learn in turn": lambda: loaded(stopped_after(
        3, 5, env="rookery.tasks:LineSoccer", cfg=BRIEF,
        env_config={"strikers": 2, "goalies": 1, "max_steps": 19},
        policies={"red": ["red_0"], "blue": ["blue_0", "blue_1"]},
        self_play=dict.fromkeys(("red", "blue"), {"snapshot_every": 20, "rating_games": 4, "team_change_every": 30}),
    )),
}  # fmt: skip
"""Trainers in whose state nothing is zero by chance, one or another."""

TWICE = {
    "Run.policies": "the learners hold them too, and nobody changes a frozen one",
    "Algorithm.policy": "the trainer's policies and the learner's network hold it too",
    "RolloutWorker.layout": "set from the environment",
    "WorkerPolicy.number": "policies are introduced in the same order, if they all are before playing",
    "Run._frozen": "likewise",
    "RolloutWorker.asked": "the mapping is asked again, and answers the same by the same random numbers",
    "ReplayBuffer.first": "the rows that a memory gets back say it too",
    "ReplayBuffer.observations": "likewise, of all but pictures, which tests/replay/ looks at",
    "PPO.imitation": "there is none where nobody imitates; tests/algorithms/test_imitation.py goes on with one",
    "Ratings._fixed": "anchors are added again from the settings",
    "Contender.began_at": "only exploiters begin anew, and none plays here",
    "RND.target": "drawn anew from the run's seed, and never changed",
    "RolloutWorker.actions_not_learned": "a count of others' actions: tests/run/test_others_actions.py",
    "RolloutWorker.group_returns": "zero but in groups, with which CASES go on above: their rows and weights say it",
    "RolloutWorker.standstills": "copies with clocks of their own are in tests/run/test_clocked_resume.py",
    "RowTable.decisions": "likewise: agents with episodes of their own",
    "SelfPlay.told": "a line for a user after many even games, which none of these plays",
    "Run._threads": "the same rule gives the same number on the same machine; a test below asks for it",
}
"""Names that are saved and that no test below misses, with the reason."""


def subclasses(cls):
    return {cls, *(found for child in cls.__subclasses__() for found in subclasses(child))}


@pytest.mark.slow
def test_every_name_that_is_saved_would_be_missed(tmp_path, monkeypatch):
    # the proof that the comparison above sees what it should: each saved name is left out once
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # there are hundreds of files
    trainers = {name: made() for name, made in RICH.items()}
    known = [cls for cls in subclasses(Stateful) if cls.__module__.startswith("rookery.")]
    reached = {cls for name, trainer in trainers.items() for cls in classes_in(trainer)}
    unmissed = {f"{cls.__name__}.{name}" for cls in known if cls in reached for name in cls.__dict__.get("saved", ())}
    assert len(unmissed) > 80
    by_name = {cls.__name__: cls for cls in known}
    for about, trainer in trainers.items():
        trainer.save(tmp_path / about)
        callbacks = [type(callback)() for callback in trainer._callbacks]
        assert differences(trainer, Trainer.load(tmp_path / about, callbacks=callbacks))[0] == {}
        for entry in sorted(unmissed):
            owner, name = entry.split(".")
            with monkeypatch.context() as patched:
                patched.setattr(by_name[owner], "saved", tuple(n for n in by_name[owner].saved if n != name))
                path = tmp_path / f"{about}, {entry}"
                callbacks = [type(callback)() for callback in trainer._callbacks]
                try:
                    trainer.save(path)
                    other = Trainer.load(path, callbacks=callbacks)
                    missed = bool(differences(trainer, other)[0])
                    missed |= [vars(one) for one in callbacks] != [vars(one) for one in trainer._callbacks]
                except (KeyError, AttributeError, TypeError, IndexError, ValueError, RookeryError):
                    missed = True
            if missed:
                unmissed.remove(entry)
    assert unmissed == TWICE.keys()


def test_a_run_that_moves_to_another_machine_keeps_its_number_of_threads(tmp_path):
    trainer = trained(1, env="CartPole-v1")
    trainer._threads["main"] = 7
    trainer.save(tmp_path / "saved")
    assert Trainer.load(tmp_path / "saved")._threads == {"main": 7}


def classes_in(trainer):
    """The classes with declared state of all objects that a trainer holds, base classes included."""
    found, seen = set(), set()

    def walk(thing):
        if id(thing) in seen or isinstance(thing, type):
            return
        seen.add(id(thing))
        if isinstance(thing, Mapping):
            for value in thing.values():
                walk(value)
        elif isinstance(thing, list | tuple | deque):
            for value in thing:
                walk(value)
        elif ours(thing):
            if isinstance(thing, Stateful):
                found.update(base for base in type(thing).__mro__ if issubclass(base, Stateful))
            for value in pieces(thing).values():
                walk(value)

    walk(trainer)
    return found
