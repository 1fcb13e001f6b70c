"""Replay buffers of runs: what checkpoints share, what a resumed run draws next, and what other runs start from."""

from __future__ import annotations

import hashlib
import json
import shutil

import numpy as np
import pytest
from lived_in import Turns, Walk
from lives import PRIORITIZED, REPLAYING, digest, make, rows

from rookery import ConfigError, DQNConfig, SACConfig, Trainer
from rookery.core.errors import SpaceError
from rookery.core.io.files import FileError, list_checkpoints, mapped_files, read_manifest
from rookery.replay.mixture import Mixture
from selection import slow_except

RECURRENT = DQNConfig(
    batch_size=4,
    train_every=4,
    updates_per_step=0.25,
    learning_starts=60,
    replay={"capacity": 400, "kind": "prioritized", "burn_in": 2},
    model={"hidden": (16,), "memory": {"kind": "gru", "size": 8, "sequence_length": 6}},
)
KINDS = {"uniform": REPLAYING, "prioritized": PRIORITIZED, "sequences": RECURRENT}


def checkpoints(folder):
    return list_checkpoints(folder / "checkpoints")


def segments(place):
    return {path.name: path.stat().st_ino for path in place.glob("memory-*")}


def trained(folder, cfg=REPLAYING, iterations=3, env="CartPole-v1", **arguments):
    """A run that has ended, with a checkpoint after every iteration of 100 steps."""
    arguments = {"checkpoint_every": 1, "num_envs": 4, "config": {"sampling.iteration_steps": 100}, **arguments}
    with make(env, run_dir=folder, cfg=cfg, **arguments) as trainer:
        trainer.train({"iterations": iterations})
    return folder


def next_batches(memory, number=100):
    """Returns a hash of the next batches of a replay buffer."""
    found = hashlib.sha256()
    for _ in range(number):
        if memory.memory_size:
            batch = memory.sample_sequences(4, length=6, beta=0.6)
            found.update(batch.rollout.reward.numpy().tobytes())
        else:
            batch = memory.sample(16, n_step=3, gamma=0.99, beta=0.6)
            found.update(batch.obs["obs"].numpy().tobytes() + batch.reward.numpy().tobytes())
        found.update(batch.row.numpy().tobytes())
        if batch.weight is not None:
            found.update(batch.weight.numpy().tobytes())
    return found.hexdigest()


# --- checkpoints ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", slow_except("prioritized", "sequences", of=KINDS))
def test_a_resumed_run_draws_the_batches_that_the_other_would_have_drawn(tmp_path, kind):
    trained(tmp_path / "run", KINDS[kind])
    with make("CartPole-v1", cfg=KINDS[kind], num_envs=4, config={"sampling.iteration_steps": 100}) as trainer:
        trainer.train({"iterations": 3})
        expected = trainer.learners["main"].replay.buffer
        with Trainer.load(tmp_path / "run") as loaded:
            found = loaded.learners["main"].replay.buffer
            assert (len(found), found.total) == (len(expected), expected.total)
            np.testing.assert_array_equal(found.priorities, expected.priorities)
            assert next_batches(found) == next_batches(expected)


@pytest.mark.parametrize("kind", slow_except("prioritized", "sequences", of=KINDS))
def test_a_run_taken_up_twice_is_the_run_that_was_not(tmp_path, kind):
    folder = trained(tmp_path / "run", KINDS[kind], iterations=2)
    for iterations in (3, 4):
        with Trainer.load(folder, resume=True) as trainer:
            trainer.train({"iterations": iterations})
            found = digest(trainer)
    whole = trained(tmp_path / "whole", KINDS[kind], iterations=4)
    assert rows(folder) == rows(whole)
    with Trainer.load(whole) as trainer:
        assert digest(trainer) == found


def test_consecutive_checkpoints_share_the_files_of_old_rows(tmp_path):
    folder = trained(tmp_path / "run", REPLAYING.replace(replay={"capacity": 1000}))
    found = [segments(place) for place in checkpoints(folder)]
    assert [len(one) for one in found] == [1, 2, 3]
    assert found[0].items() < found[1].items() < found[2].items()


def test_files_go_with_the_last_checkpoint_that_needs_them(tmp_path):
    folder = trained(tmp_path / "run", REPLAYING.replace(replay={"capacity": 250}), iterations=9)
    with Trainer.load(folder) as trainer:
        first = trainer.learners["main"].replay.buffer.first
    last = checkpoints(folder)[-1]
    starts = sorted(int(name[12:24]) for name in segments(last))
    assert len(starts) == 3
    assert starts[0] <= first < starts[1]


def test_a_resumed_run_goes_on_sharing(tmp_path):
    folder = trained(tmp_path / "run", REPLAYING.replace(replay={"capacity": 1000}))
    before = segments(checkpoints(folder)[-1])
    with Trainer.load(folder, resume=True) as trainer:
        trainer.train({"iterations": 4})
    after = segments(checkpoints(folder)[-1])
    assert before.items() < after.items()
    assert len(after) == len(before) + 1


def test_a_run_that_goes_on_from_an_earlier_checkpoint_forgets_only_the_later_files(tmp_path):
    folder = trained(tmp_path / "run", REPLAYING.replace(replay={"capacity": 1000}), iterations=4)
    second = checkpoints(folder)[-3]
    kept = segments(second)
    with Trainer.load(second, resume=True) as trainer:
        assert checkpoints(folder)[-1].name == "000002"
        assert segments(second) == kept
        trainer.train({"iterations": 4})
    whole = trained(tmp_path / "whole", REPLAYING.replace(replay={"capacity": 1000}), iterations=4)
    with Trainer.load(folder) as one, Trainer.load(whole) as other:
        assert digest(one) == digest(other)
        assert next_batches(one.learners["main"].replay.buffer) == next_batches(other.learners["main"].replay.buffer)


def test_checkpoints_saved_elsewhere_can_be_removed(tmp_path):
    with make("CartPole-v1", run_dir=tmp_path / "run", cfg=REPLAYING, checkpoint_every=1) as trainer:
        trainer.train({"iterations": 1})
        shared = segments(checkpoints(tmp_path / "run")[-1])
        elsewhere = trainer.save(tmp_path / "elsewhere")
        assert segments(elsewhere) == shared
        shutil.rmtree(elsewhere)
        assert segments(trainer.save()) == shared
    with make("CartPole-v1", cfg=REPLAYING) as trainer:  # without a run directory there is no other place
        trainer.train_iteration()
        one = trainer.save(tmp_path / "one")
        assert segments(trainer.save(tmp_path / "two")) == segments(one)
        shutil.rmtree(one)
        shutil.rmtree(tmp_path / "two")
        three = trainer.save(tmp_path / "three")
    with Trainer.load(three) as trainer:
        assert len(trainer.learners["main"].replay.buffer) > 0


def test_a_memory_that_is_not_saved_starts_empty_and_says_so(tmp_path, capsys):
    folder = trained(tmp_path / "run", REPLAYING.replace(replay={"save": False}))
    assert segments(checkpoints(folder)[-1]) == {}
    with Trainer.load(folder, resume=True, console="plain") as trainer:
        assert len(trainer.learners["main"].replay.buffer) == 0
        trainer.train({"iterations": 4})
        assert len(trainer.learners["main"].replay.buffer) == 100
    said = capsys.readouterr()
    assert "policy 'main': its replay is not in the checkpoint" in said.out + said.err


def test_a_broken_memory_is_refused_and_can_be_left_behind(tmp_path):
    folder = trained(tmp_path / "run")
    good, last = checkpoints(folder)[-2:]
    (new,) = segments(last).keys() - segments(good).keys()
    (last / new).write_bytes((last / new).read_bytes()[:-1])
    with pytest.raises(FileError) as caught:
        Trainer.load(folder)
    assert str(caught.value).startswith(f"{last / new}: has ")
    assert str(caught.value).endswith(f"; the last good checkpoint is {good}")
    with Trainer.load(folder, config={"algorithm.replay.save": False}) as trainer:
        assert len(trainer.learners["main"].replay.buffer) == 0
    with Trainer.load(good, resume=True) as trainer:
        assert trainer.iteration == 2


def test_a_checkpoint_before_anything_was_played_has_an_empty_memory(tmp_path):
    with make("CartPole-v1", cfg=REPLAYING) as trainer:
        place = trainer.save(tmp_path / "first")
    assert segments(place) == {}
    with Trainer.load(place) as trainer:
        assert len(trainer.learners["main"].replay.buffer) == 0
        trainer.train_iteration()
    with pytest.raises(FileError, match="nothing was sampled yet"):
        make("CartPole-v1", cfg=REPLAYING, memory=place)


def test_each_policy_has_a_memory_of_its_own(tmp_path):
    policies = {"a": REPLAYING, "b": REPLAYING.replace(replay={"kind": "prioritized"})}

    def by_name(agent, episode):
        return "a" if agent == "x" else "b"

    arguments = {"env": Turns, "policies": policies, "policy_mapping": by_name, "cfg": REPLAYING}
    folder = trained(tmp_path / "run", **arguments)
    names = {name.split("-")[1] for name in segments(checkpoints(folder)[-1])}
    assert names == {"a", "b"}
    with Trainer.load(folder, env=Turns, policy_mapping=by_name) as one:
        lengths = {name: len(learner.replay.buffer) for name, learner in one.learners.items()}
        assert all(lengths.values())
        assert lengths == {name: facts["last"] - facts["first"] for name, facts in memory_facts(folder).items()}


def memory_facts(folder):
    return read_manifest(checkpoints(folder)[-1])["memories"]


def test_a_checkpoint_says_what_its_memories_are(tmp_path):
    folder = trained(tmp_path / "run")
    assert memory_facts(folder) == {"main": {"first": 0, "last": 300, "capacity": 300}}
    last = checkpoints(folder)[-1]
    mapped = mapped_files(last, read_manifest(last))
    assert mapped.keys() == segments(last).keys()
    assert not json.loads((last / "state.json").read_text())["learners"]["main"]["replay"]["buffer"].keys() & {
        "obs",
        "rows",
    }


# --- from elsewhere -------------------------------------------------------------------------------------------------


def test_a_run_starts_from_the_memory_of_another(tmp_path, capsys):
    folder = trained(tmp_path / "run")
    with make("CartPole-v1", cfg=REPLAYING, memory=str(folder), console="plain", seed=9) as trainer:
        memory = trainer.learners["main"].replay.buffer
        assert len(memory) == 300
        trainer.learn(10)
        assert trainer.env_steps == 0
        assert trainer.learners["main"].replay.gradient_steps == 10
    assert "replay.start_from: 300 decisions of" in capsys.readouterr().out


def test_a_resumed_run_needs_the_other_no_more(tmp_path):
    folder = trained(tmp_path / "run")
    heir = trained(tmp_path / "heir", memory=folder, seed=9, iterations=1)
    shutil.rmtree(folder)
    with Trainer.load(heir, resume=True) as trainer:
        assert len(trainer.learners["main"].replay.buffer) == 300  # of 400, which the ring has no room for
        assert trainer.learners["main"].replay.buffer.total == 400
        trainer.train({"iterations": 2})
    with Trainer.load(heir, resume=True) as trainer:
        assert "start_from" in str(trainer.resolved.explain("algorithm.replay.start_from"))
        assert str(folder) in str(trainer.resolved.explain("algorithm.replay.start_from"))


def test_a_memory_can_be_given_with_a_checkpoint(tmp_path):
    folder, other = trained(tmp_path / "run", iterations=1), trained(tmp_path / "other", seed=8, iterations=1)
    with Trainer.load(folder, memory=other) as trainer:
        memory = trainer.learners["main"].replay.buffer
        assert (len(memory), memory.total) == (200, 200)
        np.testing.assert_array_equal(memory.rows_between(0, 100)["clock"] >= 0, True)


def test_a_part_of_each_batch_comes_from_another_memory_and_resumes_exactly(tmp_path):
    source = trained(tmp_path / "run")
    mixed = {"memory": [f"{source}*0.25"], "seed": 9}
    for cfg, name in ((REPLAYING, "uniform"), (PRIORITIZED, "prioritized"), (RECURRENT, "sequences")):
        if name == "sequences":
            shutil.rmtree(source)
            trained(source, RECURRENT)
        whole = trained(tmp_path / f"{name} whole", cfg, iterations=3, **mixed)
        with Trainer.load(whole) as trainer:
            expected = digest(trainer)
            memory = trainer.learners["main"].replay.buffer
            assert isinstance(memory, Mixture)
            assert len(memory) == len(memory.own) + 300
        folder = trained(tmp_path / name, cfg, iterations=2, **mixed)
        with Trainer.load(folder, resume=True) as trainer:
            trainer.train({"iterations": 3})
            assert digest(trainer) == expected


def test_a_mixed_memory_that_changed_is_refused_on_resume(tmp_path):
    source = trained(tmp_path / "source")
    folder = trained(tmp_path / "run", memory=f"{source}*0.5", seed=9)
    with Trainer.load(source, resume=True) as trainer:
        trainer.train({"iterations": 4})
    with pytest.raises(ConfigError, match="have changed since the checkpoint was written"):
        Trainer.load(folder)


def test_a_memory_of_another_environment_is_refused_with_both_spaces(tmp_path):
    folder = trained(tmp_path / "run")
    with pytest.raises(SpaceError) as caught:
        make("MountainCar-v0", cfg=REPLAYING, memory=folder)
    assert "Box([-4.8" in str(caught.value) and "Box([-1.2" in str(caught.value)
    assert str(folder) in str(caught.value)


def test_an_algorithm_without_a_memory_starts_from_none(tmp_path):
    with pytest.raises(ConfigError, match="algorithm.replay"):
        make("CartPole-v1", memory="runs/x")
    with pytest.raises(FileError, match="nowhere"):
        make("CartPole-v1", cfg=REPLAYING, memory=tmp_path / "nowhere")


def test_another_algorithm_learns_from_the_same_memory(tmp_path):
    continuous = SACConfig(batch_size=16, learning_starts=60, updates_per_step=0.1, model={"hidden": (16,)})
    folder = trained(tmp_path / "run", continuous, env=Walk, iterations=1)
    with make(Walk, cfg=continuous.replace(gamma=0.5), memory=folder, seed=9) as trainer:
        trainer.learn(5)
