"""Runs of policies with memory: repeatable, with any environment processes, resumed, with or without evaluation."""

from __future__ import annotations

import contextlib
import signal

import pytest
from lived_in import Restless, Turns, Walk
from lives import FAST, digest, either, make, rows, weights

from each_step import after_each_step
from rookery import A2CConfig, APPOConfig, IMPALAConfig, PPOConfig, Trainer
from rookery.core.native import SWITCH, best_build, kernel_threads
from rookery.core.process.interrupt import Interrupted
from rookery.core.process.torch_modes import torch_threads
from rookery.models.cells.table import CELLS
from selection import slow, slow_except

ITERATIONS = 4
ALL = {"previous_action": True, "previous_reward": True, "frame_stack": 3}
MEMORIES = {
    **{kind: {"kind": kind, "size": 8, "context": 5, "heads": 2} for kind in CELLS},
    "gru": {"kind": "gru", "size": 8, "layers": 2},
    "recall": ALL,
    "recall and lstm": {"kind": "lstm", "size": 8, **ALL},
}


def remembering(memory, kind=PPOConfig, **settings):
    """Settings of a learner that remembers."""
    model = {"hidden": (8,), "normalize_obs": True, "memory": {"sequence_length": 7, **MEMORIES[memory]}}
    own = {"epochs": 2, "minibatch_size": 48} if kind is PPOConfig else {}
    return kind(fragment_length=24, model=model, **{**own, **settings})


def two(first, second):
    """Two policies with these memories, dealt anew in each episode."""
    return {"policies": {"a": remembering(first), "b": remembering(second)}, "policy_mapping": either}


CASES = {
    **{memory: {"env": Walk, "cfg": remembering(memory)} for memory in MEMORIES},
    "batched": {"env": "StatelessCartPole", "cfg": remembering("lstm"), "num_envs": 5},
    "a2c": {"env": Walk, "cfg": remembering("recall and lstm", A2CConfig)},
    "impala": {"env": Walk, "cfg": remembering("recall and lstm", IMPALAConfig, rollout_size=100)},
    "appo": {"env": Walk, "cfg": remembering("recall and lstm", APPOConfig, rollout_size=100, minibatch_size=48)},
    "many updates an iteration": {"env": Walk, "cfg": remembering("gru"), "config": {"sampling.iteration_steps": 200}},
    "parts of fragments": {"env": Walk, "cfg": remembering("lstm", rollout_size=40)},
    "turns": {"env": "TwoCues", "cfg": remembering("recall and lstm")},
    "two policies, late agents": {"env": Turns, **two("recall and lstm", "scan")},
    "one of two remembers": {
        "env": Turns, "policies": {"a": FAST, "b": remembering("attention")}, "policy_mapping": either,
    },
    "one of two is frozen": {
        "env": Turns,
        "policies": {"a": remembering("gru"), "b": remembering("lstm"), "c": {"frozen": True}},
        "cfg": remembering("scan"),
        "policy_mapping": {"x": "a", "y": "b", "z": "c"},
    },
}  # fmt: skip


def run(name, **arguments):
    return make(**{**CASES[name], **arguments})


def config_of(name, **changes):
    return {**CASES[name].get("config", {}), **{key.replace("__", "."): value for key, value in changes.items()}}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """State, weights and rows after so many iterations of a case that was never stopped."""
    known = {}

    def come(name, **arguments):
        key = name, repr(arguments)
        if key not in known:
            folder = tmp_path_factory.mktemp("uninterrupted") / "run"
            with run(name, run_dir=folder, **arguments) as trainer:
                trainer.train({"iterations": ITERATIONS})
                known[key] = digest(trainer), weights(trainer), rows(folder)
        return known[key]

    return come


def stopped_and_taken_up(folder, steps, make_it):
    """Returns the result of a run that is interrupted after these vector steps."""
    trainer = make_it()
    for step in steps:
        with trainer:

            def come(worker, trainer=trainer, step=step):
                if worker.vector_steps == step:
                    trainer._interrupt.number = signal.SIGINT

            after_each_step(trainer._pool.worker, come)
            with contextlib.suppress(Interrupted):
                trainer.train({"iterations": ITERATIONS})
            assert trainer._pool.worker.vector_steps == step or trainer.iteration == ITERATIONS
        trainer = Trainer.load(folder, resume=True)
    with trainer:
        trainer.train({"iterations": ITERATIONS})
        return digest(trainer), weights(trainer), rows(folder)


# within a sequence, after the first step of the second fragment of 24, and later
STEPS = (10, 25, 59)


@pytest.mark.parametrize("name", slow_except("scan", "recall and lstm", of=CASES))
def test_stopping_in_the_middle_of_episodes_and_fragments_changes_nothing(name, tmp_path, uninterrupted):
    expected = uninterrupted(name)
    assert stopped_and_taken_up(tmp_path, STEPS, lambda: run(name, run_dir=tmp_path)) == expected
    assert [row["iteration"] for row in expected[2]] == list(range(1, ITERATIONS + 1))
    assert all(row["exact"] for row in expected[2])


@pytest.mark.parametrize(
    "name", slow_except("gru", of=["lstm", "gru", "scan", "recall and lstm", "two policies, late agents"])
)
def test_without_kernels_too(name, tmp_path, monkeypatch):
    monkeypatch.setenv(SWITCH, "0")
    best_build.cache_clear()
    try:
        with run(name, run_dir=tmp_path / "whole") as trainer:
            assert set(trainer.paths.values()) == {"torch"}
            trainer.train({"iterations": ITERATIONS})
            expected = digest(trainer), weights(trainer), rows(tmp_path / "whole")
        folder = tmp_path / "stopped"
        assert stopped_and_taken_up(folder, (10, 25), lambda: run(name, run_dir=folder)) == expected
    finally:
        monkeypatch.undo()
        best_build.cache_clear()


@pytest.mark.parametrize("name", slow_except("batched", of=["batched", "two policies, late agents", "attention"]))
def test_the_same_again_is_the_same_and_another_seed_is_not(name, uninterrupted):
    with run(name) as same, run(name, seed=6) as other:
        for trainer in (same, other):
            trainer.train({"iterations": ITERATIONS})
        assert weights(same) == uninterrupted(name)[1]
        assert weights(other) != uninterrupted(name)[1]


@pytest.mark.parametrize(
    ("name", "how", "helpers"),
    [
        ("recall and lstm", "serial", 0),
        slow("recall and lstm", "processes", 1),
        slow("recall and lstm", "processes", 2),
        slow("recall and lstm", "threads", 2),
        slow("two policies, late agents", "processes", 2),
        ("turns", "processes", 1),
        slow("turns", "threads", 2),
    ],
)
def test_helpers_and_threads_change_nothing(name, how, helpers, tmp_path, uninterrupted):
    config = config_of(name, env__implementation=how, sampling__env_processes=helpers)
    with run(name, run_dir=tmp_path, config=config) as trainer:
        trainer.train({"iterations": ITERATIONS})
        assert (weights(trainer), rows(tmp_path)) == uninterrupted(name)[1:]


@pytest.mark.skipif(best_build() is None, reason="there are no kernels here, and torch sums otherwise with two threads")
@pytest.mark.parametrize("name", [slow("lstm"), "gru", slow("scan")])
def test_threads_of_kernels_change_nothing(name):
    found = []
    for threads in (1, 2):
        with run(name, cfg=remembering(name, minibatch_size=1000), num_envs=40) as trainer:
            trainer._threads = dict.fromkeys(trainer._threads, threads)
            with kernel_threads(threads), torch_threads(1):
                trainer.train({"iterations": 2})
            found.append(weights(trainer))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "name", slow_except("recall and lstm", of=["recall and lstm", "attention", "two policies, late agents"])
)
def test_evaluation_changes_nothing(name, uninterrupted):
    with run(name, evaluation_every=1, evaluation_episodes=3) as trainer:
        for _ in range(ITERATIONS):
            trainer.train_iteration()
            trainer.evaluate(episodes=2, deterministic=False)
        assert weights(trainer) == uninterrupted(name)[1]


@pytest.mark.parametrize(
    "name", slow_except("recall and lstm", of=["recall and lstm", "turns", "two policies, late agents"])
)
def test_playing_ahead_repeats_and_can_be_stopped(name, tmp_path):
    config = config_of(name, sampling__staleness=1, env__implementation="serial")
    if name == "two policies, late agents":
        config["sampling.iteration_steps"] = 90
    found = []
    for number in range(2):
        with run(name, run_dir=tmp_path / str(number), config=config) as trainer:
            trainer.train({"iterations": ITERATIONS})
            found.append((weights(trainer), rows(tmp_path / str(number))))
    folder = tmp_path / "stopped"
    with run(name, run_dir=folder, config=config) as trainer:
        trainer.train({"iterations": 2})
    with Trainer.load(folder, resume=True) as trainer:
        trainer.train({"iterations": ITERATIONS})
        found.append((weights(trainer), rows(folder)))
    assert found[0] == found[1] == found[2]
    with run(name, config=config_of(name, env__implementation="serial")) as trainer:
        trainer.train({"iterations": ITERATIONS})
        assert weights(trainer) != found[0][0]


@pytest.mark.parametrize("memory", slow_except("lstm", "scan", "recall", of=MEMORIES))
def test_an_evaluation_is_what_predict_does_episode_by_episode(memory, monkeypatch):
    watched = []

    class Noted(Walk):
        def reset(self, *, seed=None, options=None):
            watched.append(seed)
            return super().reset(seed=seed, options=options)

    with run(memory, env=Noted, config={"env.implementation": "serial"}) as trainer:
        trainer.train({"iterations": 2})
        watched.clear()
        returns = trainer.evaluate(episodes=5, deterministic=True).returns
        policy, env = trainer.policies["main"], Noted()
        seeds = [seed for seed in watched if seed is not None][:5]
        expected = []
        for seed in seeds:
            obs, _ = env.reset(seed=seed)
            memory, total, over, reward = None, 0.0, False, None
            while not over:
                told = {} if policy.reward_column is None or memory is None else {"reward": reward}
                action, memory = policy.predict(obs, memory, **told)
                obs, reward, terminated, truncated, _ = env.step(action)
                total, over = total + reward, terminated or truncated
            expected.append(total)
    assert returns == pytest.approx(expected, rel=1e-4)


def test_an_episode_that_cannot_be_taken_up_is_forgotten(tmp_path):
    with make(Restless, run_dir=tmp_path, cfg=remembering("lstm"), num_envs=6) as trainer:

        def come(worker):
            if worker.vector_steps == 9:
                trainer._interrupt.number = signal.SIGINT

        after_each_step(trainer._pool.worker, come)
        with pytest.raises(Interrupted):
            trainer.train({"iterations": 2})
        odd = [lane.env.odd for lane in trainer.env._lanes]
    assert 0 < sum(odd) < 6
    with Trainer.load(tmp_path, resume=True) as trainer:
        memory = trainer._pool.worker.policies["main"].memory
        assert memory.starts.tolist() == odd
        assert memory.memory.any(1).all()
        remembered = memory.before(None)
        assert remembered.any(1).tolist() == [not lost for lost in odd]


# --- what is refused --------------------------------------------------------------------------------------------------
