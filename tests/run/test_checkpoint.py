"""Checkpoints: which are kept, errors of broken ones, what must be given again, and what other runs take from them."""

from __future__ import annotations

import copy
import functools
import json
import os
import pickle
import random
import shutil
import subprocess
import sys
import time
from textwrap import dedent

import gymnasium
import numpy as np
import pytest
from lived_in import Saying, Turns, Walk
from lives import FAST, digest, either, make, rows, weights

from rookery import ConfigError, EnvError, EvaluationConfig, Linear, MultiAgentArena, PPOConfig, Trainer, load_policy
from rookery.core.io import files, open_files
from rookery.core.io.encoding import EncodingError
from rookery.core.io.files import FileError, find_checkpoint, list_checkpoints, read_directory, write_directory
from rookery.run.checkpoint import checkpoint
from selection import slow


def names(folder):
    return [path.name for path in list_checkpoints(folder / "checkpoints")]


def told(kind, act):
    """Returns the message of the error that `act` raises."""
    with pytest.raises(kind) as caught:
        act()
    assert type(caught.value) is kind
    return str(caught.value)


# --- writing ------------------------------------------------------------------------------------------------------


def test_checkpoints_come_every_so_many_iterations_and_at_the_end(tmp_path):
    with make("CartPole-v1", run_dir=tmp_path, checkpoint_every=2, config={"checkpoint.keep_last": 9}) as trainer:
        trainer.train({"iterations": 5})
    assert names(tmp_path) == ["000002", "000004", "000005"]


def test_a_checkpoint_says_what_it_is(tmp_path):
    with make("CartPole-v1") as trainer:
        result = trainer.train({"iterations": 3})
        place = trainer.save(tmp_path / "saved", pin=True)
    content, facts = read_directory(place)
    assert facts["format"] == 2
    assert (facts["iteration"], facts["env_steps"], facts["exact"], facts["pinned"]) == (3, 216, True, True)
    assert facts["score"] == result.return_mean
    assert {"rookery", "torch", "numpy", "python"} <= facts["versions"].keys()
    assert set(content) == {
        "state.json", "arrays.safetensors", "config.json", "policies.json", "policies.safetensors"
    }  # fmt: skip
    assert sorted(path.name for path in place.iterdir()) == sorted([*content, "manifest.json"])


def test_saving_needs_a_place_that_is_free(tmp_path):
    with make("CartPole-v1") as trainer:
        assert told(ConfigError, trainer.save) == (
            "save: this trainer has no run directory; give a path, as in trainer.save('my-checkpoint')"
        )
        (tmp_path / "taken").mkdir()
        message = told(ConfigError, lambda: trainer.save(tmp_path / "taken"))
        assert message == f"save: {tmp_path / 'taken'} exists; choose another path"
        (tmp_path / "file").write_text("x")
        message = told(FileError, lambda: trainer.save(tmp_path / "file" / "inside"))
        assert "Not a directory" in message or "File exists" in message
        assert trainer.save(str(tmp_path / "new" / "place")).is_dir()


def test_two_checkpoints_of_one_iteration_are_told_apart(tmp_path):
    with make("CartPole-v1", run_dir=tmp_path) as trainer:
        trainer.train({"iterations": 1})
        trainer.save()
        trainer.save()
        assert names(tmp_path) == ["000001", "000001-1", "000001-2"]
    with Trainer.load(tmp_path) as trainer:
        assert trainer.iteration == 1


def test_a_state_that_cannot_be_written_is_named_before_anything_is_lost(tmp_path):
    class Odd(Saying):
        def get_state(self):
            return {"thing": object()}

    with make(Odd, run_dir=tmp_path) as trainer:
        trainer.train_iteration()
        message = told(EncodingError, trainer.save)
    assert message == "state.pool.worker.env.lanes[0].snapshot.own.thing: a object cannot be saved"
    assert list((tmp_path / "checkpoints").iterdir()) == []


@pytest.mark.parametrize(("kind", "every"), [("crash", 9), slow("crash", 2), slow("EIO", 2)])
def test_a_trainer_can_be_loaded_whatever_operation_of_its_last_save_failed(tmp_path, monkeypatch, kind, every):
    # tests/core/test_files.py has all kinds of failure; here it is a whole run
    class Failing:
        def __init__(self, at):
            self.at, self.count = at, 0

        def __getattr__(self, name):
            real = getattr(os, name)
            if name not in ("open", "write", "fsync", "mkdir", "rename", "replace"):
                return real

            def operation(*arguments):
                self.count += 1
                if self.count - 1 == self.at or (kind == "crash" and self.at is not None and self.count - 1 > self.at):
                    raise OSError(5, "Input/output error") if kind == "EIO" else SystemError("killed")
                return real(*arguments)

            return operation

    with make("CartPole-v1", run_dir=tmp_path / "run") as trainer:
        trainer.train({"iterations": 1})
        before = digest(trainer)
        trainer.train_iteration()
        after = digest(trainer)
    shutil.copytree(tmp_path / "run", tmp_path / "clean")
    outcomes = set()

    def attempt(at):
        """Resumes; the second checkpoint fails at an operation. Returns the number of operations, and the message."""
        shutil.rmtree(tmp_path / "run")
        shutil.copytree(tmp_path / "clean", tmp_path / "run")
        failing, said = Failing(at), ""
        with Trainer.load(tmp_path / "run", resume=True) as trainer:
            trainer.train_iteration()
            with monkeypatch.context() as patched:
                patched.setattr(files, "os", failing)
                patched.setattr(open_files, "os", failing)
                try:
                    trainer.save()
                except (FileError, SystemError) as error:
                    said = str(error)
        return failing.count, said

    total, said = attempt(None)
    assert said == ""
    assert total >= 30
    for at in (*range(0, total, every), total - 1):
        _, said = attempt(at)
        good = tmp_path / "run" / "checkpoints" / "00000"
        saved = said == "" and at == total - 1  # it reads which checkpoint is the best, so as not to remove that one
        assert saved or said == "killed" or f"the last good checkpoint is {good}" in said
        with Trainer.load(tmp_path / "run", resume=True) as trainer:
            outcomes.add(digest(trainer))
        assert not list((tmp_path / "run").rglob(".tmp-*"))
    assert outcomes == {before, after}


# --- which stay ---------------------------------------------------------------------------------------------------


def test_the_last_the_best_and_pinned_ones_stay(tmp_path):
    with make("CartPole-v1", run_dir=tmp_path, config={"checkpoint.keep_last": 2}) as trainer:
        for number, score in enumerate((5.0, 9.0, 3.0, 9.0, 1.0, None, 2.0)):
            trainer.iteration, trainer._score = number, score
            trainer.save(pin=number == 2)
    # the first of the two that scored 9 is the best
    assert names(tmp_path) == ["000001", "000002", "000005", "000006"]
    assert files.best_name(tmp_path / "checkpoints") == "000001"
    assert find_checkpoint(tmp_path / "checkpoints" / "best").name == "000001"


def test_none_is_removed_while_it_cannot_be_read_which_is_the_best(tmp_path):
    with make("CartPole-v1", run_dir=tmp_path, config={"checkpoint.keep_last": 1}) as trainer:
        for number, score in enumerate((9.0, 1.0, None)):
            trainer.iteration, trainer._score = number, score
            if number == 2:
                (tmp_path / "checkpoints" / "best.json").write_text("{")
            trainer.save()
    assert names(tmp_path) == ["000000", "000001", "000002"]


def test_the_best_is_judged_by_evaluations_where_there_are_any(tmp_path):
    arguments = {"evaluation": EvaluationConfig(every=2, episodes=2), "checkpoint_every": 1}
    with make("CartPole-v1", run_dir=tmp_path, **arguments) as trainer:
        for result in trainer.iterations():
            trainer.save()
            expected = result.return_mean if result.evaluation is None else result.evaluation.return_mean
            assert read_directory(list_checkpoints(tmp_path / "checkpoints")[-1])[1]["score"] == expected
            if result.iteration == 3:
                break


def test_random_lives_of_a_folder_keep_what_they_must(tmp_path, monkeypatch):
    monkeypatch.setattr(files.os, "fsync", lambda descriptor: None)  # thousands of them
    rng = random.Random(11)
    steps = 0
    for life in range(60):
        folder = tmp_path / str(life) / "checkpoints"
        folder.mkdir(parents=True)
        (folder / "notes").mkdir()
        keep = rng.randint(1, 4)
        model, best, iteration = {}, None, 0
        for _ in range(rng.randint(5, 20)):
            steps += 1
            if model and rng.random() < 0.15:  # resume from one of them
                chosen = rng.choice(sorted(model, key=files.checkpoint_number))
                checkpoint.delete_later_checkpoints(folder / chosen)
                later = [n for n in model if files.checkpoint_number(n) > files.checkpoint_number(chosen)]
                for name in later:
                    del model[name]
                if best not in model:
                    scored = [n for n in sorted(model, key=files.checkpoint_number) if model[n][0] is not None]
                    best = max(scored, key=lambda n: model[n][0], default=None)
                iteration = files.checkpoint_number(chosen)[0]
            elif model and rng.random() < 0.05:  # the disk breaks one
                (folder / rng.choice(sorted(model)) / "a").write_bytes(b"broken")
            else:
                iteration += rng.choice((0, 1, 1, 7))
                name = checkpoint.next_name(folder, iteration)
                assert name not in model
                score, pin = rng.choice((None, *range(8))), rng.random() < 0.1
                write_directory(folder / name, {"a": b"x"}, {"pinned": pin, "score": score})
                checkpoint.note_best(folder, name, score)
                checkpoint.tidy(folder, keep)
                model[name] = (score, pin)
                if score is not None and (best is None or score > model[best][0]):
                    best = name
                last = sorted(model, key=files.checkpoint_number)[-keep:]
                model = {n: facts for n, facts in model.items() if n in last or n == best or facts[1]}
            assert {path.name for path in folder.iterdir()} - {"best.json", "notes"} == model.keys(), f"life {life}"
            assert files.best_name(folder) == best
            assert files.find_checkpoint(folder.parent).name == max(model, key=files.checkpoint_number)
            assert (folder / "notes").is_dir()
    assert steps > 500


def test_a_note_about_the_best_that_means_nothing_is_passed_over(tmp_path):
    for content in (b"", b"[]", b"null", b"3", b'{"name": "000009"}', b'{"name": "../.."}', b'{"name": 3}', b"\xff"):
        (tmp_path / "best.json").write_bytes(content)
        try:
            assert files.best_name(tmp_path) is None, content
        except TypeError:
            pytest.fail(f"{content!r}")
    write_directory(tmp_path / "000001", {}, {})
    assert checkpoint.note_best(tmp_path, "000001", 3.0)
    assert json.loads((tmp_path / "best.json").read_text()) == {"name": "000001", "score": 3.0}


# --- broken and foreign ones --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run_of_two(tmp_path_factory):
    """The directory of a run with checkpoints of iterations 1 and 2, to be copied."""
    folder = tmp_path_factory.mktemp("two") / "run"
    with make("CartPole-v1", run_dir=folder, checkpoint_every=1) as trainer:
        trainer.train({"iterations": 2})
    return folder


@pytest.fixture
def two(run_of_two, tmp_path):
    return shutil.copytree(run_of_two, tmp_path / "run")


def test_damage_to_a_real_checkpoint_is_found_and_the_last_good_one_named(two):
    rng = random.Random(5)
    good, broken = two / "checkpoints" / "000001", two / "checkpoints" / "000002"
    for number in range(60):
        file = rng.choice(sorted(broken.iterdir()))
        content = file.read_bytes()
        changed = bytearray(content)
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        file.write_bytes(content[: rng.randrange(len(content))] if number % 3 == 0 else bytes(changed))
        for act in (lambda: Trainer.load(two), lambda: Trainer.load(broken, resume=True), lambda: load_policy(two)):
            message = told(FileError, act)
            assert message.startswith(f"{file}: ")
            assert message.endswith(f"; the last good checkpoint is {good}")
        file.write_bytes(content)
    assert names(two) == ["000001", "000002"]  # nothing was thrown away by trying
    with Trainer.load(good, resume=True) as trainer:  # the way out that was named
        assert trainer.iteration == 1
    assert names(two) == ["000001"]


def test_another_librarys_checkpoint_is_refused(tmp_path, two):
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "rllib_checkpoint.json").write_text('{"type": "Algorithm"}')
    (foreign / "algorithm_state.pkl").write_bytes(b"\x80\x04.")
    message = told(FileError, lambda: Trainer.load(foreign))
    assert message.startswith(f"{foreign}: holds no checkpoint (none was written yet, or this is not the directory of")
    last = two / "checkpoints" / "000003"
    shutil.copytree(foreign, last)
    message = told(FileError, lambda: Trainer.load(two))
    assert message == (
        f"{last}: there is no manifest.json: this is no checkpoint, or not all of one; "
        f"the last good checkpoint is {two / 'checkpoints' / '000002'}"
    )


def test_whole_directories_that_are_no_checkpoints_are_refused(two):
    last, ending = two / "checkpoints" / "000003", f"; the last good checkpoint is {two / 'checkpoints' / '000002'}"
    content, facts = read_directory(two / "checkpoints" / "000002")
    facts = {name: value for name, value in facts.items() if name not in ("files", "sha256")}

    def said(changed, changed_facts=None):
        write_directory(last, changed, facts if changed_facts is None else changed_facts)
        message = told(FileError, lambda: Trainer.load(two))
        shutil.rmtree(last)
        assert message.endswith(ending)
        return message.removesuffix(ending)

    without = {name: value for name, value in content.items() if name != "state.json"}
    assert said(without) == f"{last}: not a checkpoint of Rookery: it has no state.json"
    assert "has format 99, which this version of Rookery cannot read (up to 2)" in said(
        content, {**facts, "format": 99}
    )
    assert "has format None" in said(content, {})
    assert "this is no saved state" in said({**content, "arrays.safetensors": b"nonsense"})
    assert "Expecting" in said({**content, "state.json": b"nonsense"})
    assert "the state names array" in said({**content, "state.json": b'{"a": {"~": "array", "key": "k"}}'})


# --- what has to be given again -----------------------------------------------------------------------------------


def test_what_was_made_in_code_has_to_be_given_again(tmp_path):
    mapping = lambda agent, episode: "a"  # noqa: E731
    arguments = {"env": lambda: MultiAgentArena(), "policies": ["a", "b"], "policy_mapping": mapping}
    with make(**arguments) as trainer:
        trainer.train_iteration()
        trainer.save(tmp_path / "saved")
        trainer.train_iteration()
        expected = weights(trainer)
    message = told(ConfigError, lambda: Trainer.load(tmp_path / "saved"))
    start, _, listed = message.partition("Trainer.load(..., env=MyEnv, policy_mapping=...): ")
    assert start == (
        f"{tmp_path / 'saved'}: these were made in code and cannot be found by name; give them again, as in "
    )
    first, second = listed.split("; ")
    assert first.startswith("env.name was <function test_what_was_made_in_code")
    assert second.startswith("policy_mapping was <function test_what_was_made_in_code")
    message = told(ConfigError, lambda: Trainer.load(tmp_path / "saved", env=arguments["env"]))
    assert "policy_mapping was" in message
    assert "env.name" not in message
    again = {"env": arguments["env"], "policy_mapping": mapping}
    with Trainer.load(tmp_path / "saved", **again) as trainer:
        trainer.train_iteration()
        assert weights(trainer) == expected
        trainer.save(tmp_path / "again")
    assert told(ConfigError, lambda: Trainer.load(tmp_path / "again")).count(" was ") == 2
    nested = {"env": {"name": arguments["env"]}, "policy_mapping": mapping}
    Trainer.load(tmp_path / "saved", config=nested).close()


def test_what_was_made_in_a_notebook_has_to_be_given_again(tmp_path, monkeypatch):
    Own = type("Own", (Walk,), {"__module__": "__main__"})
    monkeypatch.setattr(sys.modules["__main__"], "Own", Own, raising=False)
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)
    with make(Own) as trainer:
        trainer.save(tmp_path / "saved")
    assert "env.name was <class '__main__.Own'>" in told(ConfigError, lambda: Trainer.load(tmp_path / "saved"))
    Trainer.load(tmp_path / "saved", env=Own).close()


def scaled(value):
    return 2 * value


class Taking(Walk):
    """Takes a function, a schedule of words, and odd keys."""

    def __init__(self, change=None, table=None):
        self.change, self.table = change, table
        assert change(2) == 4


def test_functions_in_the_settings_come_back_as_functions(tmp_path):
    with make(Taking, env_config={"change": scaled, "table": {"a": [1, 2]}}) as trainer:
        trainer.save(tmp_path / "saved")
    with Trainer.load(tmp_path / "saved") as trainer:
        assert trainer.config.env.config["change"] is scaled
        trainer.save(tmp_path / "again")
    Trainer.load(tmp_path / "again").close()
    with make(Taking, env_config={"change": lambda x: 2 * x, "table": {1: 2}}) as trainer:
        trainer.save(tmp_path / "odd")
    message = told(ConfigError, lambda: Trainer.load(tmp_path / "odd"))
    assert "env.config.change was <function" in message
    assert "env.config.table was {1: 2}" in message
    given = {"env.config.change": scaled, "env.config.table": {1: 2}}
    with Trainer.load(tmp_path / "odd", config=given) as trainer:
        assert trainer.env._lanes[0].env.table == {1: 2}


def test_a_function_that_is_gone_is_named_with_the_reason(tmp_path, monkeypatch):
    with make(MultiAgentArena, policies=["a", "b"], policy_mapping=either) as trainer:
        trainer.save(tmp_path / "saved")
    monkeypatch.delattr(sys.modules["lives"], "either")
    message = told(ConfigError, lambda: Trainer.load(tmp_path / "saved"))
    assert "policy_mapping was lives:either: lives has no 'either'" in message
    Trainer.load(tmp_path / "saved", policy_mapping=either).close()


def test_settings_come_back_with_their_types_and_their_history(tmp_path):
    cfg = PPOConfig(fragment_length=8, lr=Linear(1e-3, 0.0, steps=1000), model={"hidden": (5, 4)}, value_clip=None)
    trainer = make("CartPole-v1", cfg=cfg, seed=None, config={"sampling.num_envs": 2}, num_envs=3)
    explained, config = trainer.resolved.explain("algorithm"), trainer.config
    assert trainer.seed != 0
    for number in range(3):  # each loaded from the one before
        trainer.save(tmp_path / str(number))
        trainer.close()
        old, trainer = trainer, Trainer.load(tmp_path / str(number))
        assert trainer.seed == old.seed
        assert trainer.config.replace(seed=None) == config
        assert trainer.resolved.explain("algorithm") == explained
        assert trainer.resolved.explain("sampling.num_envs").split("\n")[0] == "sampling.num_envs = 3  (code)"
    trainer.close()


def test_a_setting_can_be_changed_when_a_run_goes_on(tmp_path):
    with make("CartPole-v1", run_dir=tmp_path) as trainer:
        trainer.train({"iterations": 2})
    changed = {"algorithm.lr": 5e-4, "checkpoint.keep_last": 7}
    with Trainer.load(tmp_path, resume=True, config=changed) as trainer:
        assert trainer.train({"iterations": 3}).policies["main"].lr == 5e-4  # the policy has it from the common section
        assert trainer.config.checkpoint.keep_last == 7
        lines = trainer.resolved.explain("algorithm.lr").split("\n")
        told = [line.split("= ")[-1].strip() for line in lines]
        assert told == ["0.0005  (code)", "instead of {start: 0.0003, end: 0.0001}  (default)"]
    assert "0.0005" in (tmp_path / "config.yaml").read_text()
    with Trainer.load(tmp_path, resume=True) as trainer:
        assert trainer.config.policies["main"].algorithm.lr == 5e-4


def test_a_policy_with_settings_of_its_own_keeps_them(tmp_path):
    arguments = {"policies": {"a": None, "b": {"lr": 0.1}}, "policy_mapping": {"agent1": "a", "agent2": "b"}}
    with make(MultiAgentArena, **arguments) as trainer:
        trainer.save(tmp_path / "saved")
    with Trainer.load(tmp_path / "saved", config={"algorithm.lr": 0.2}) as trainer:
        assert [trainer.config.policies[name].algorithm.lr for name in "ab"] == [0.2, 0.1]


# --- starting from another run ------------------------------------------------------------------------------------

NORMALIZED = FAST.replace(model={"normalize_obs": True})


@pytest.fixture(scope="module")
def taught(tmp_path_factory):
    """A finished run of two policies in the arena, and one of a normalizing policy in the pendulum."""
    folder = tmp_path_factory.mktemp("taught")
    two = {"policies": ["a", "b"], "policy_mapping": {"agent1": "a", "agent2": "b"}}
    with make(MultiAgentArena, run_dir=folder / "arena", **two) as trainer:
        trainer.train({"iterations": 2})
    with make("Pendulum-v1", run_dir=folder / "pendulum", cfg=NORMALIZED) as trainer:
        trainer.train({"iterations": 2})
    return folder


def state(policy):
    return {name: value.tolist() for name, value in policy.state_dict().items()}


def test_a_policy_starts_with_the_weights_and_the_normalizer_of_another_run(taught):
    start = {"main": {"init_from": str(taught / "pendulum")}}
    with make("Pendulum-v1", cfg=NORMALIZED, policies=start, seed=99) as trainer:
        taken = load_policy(taught / "pendulum")
        assert state(trainer.policies["main"]) == state(taken)
        assert taken.normalizer is not None
        assert int(taken.normalizer.statistics[0].count) > 100
        assert state(trainer._pool.worker.policies["main"].policy) == state(taken)
        trainer.train_iteration()
        assert state(trainer.policies["main"]) != state(taken)


def test_a_policy_of_several_is_named_behind_a_colon(taught):
    mapping = {"agent1": "new", "agent2": "old"}
    policies = {
        "new": {"init_from": f"{taught / 'arena'}:b"},
        "old": {"init_from": f"{taught / 'arena'}:a", "frozen": True},
    }
    with make(MultiAgentArena, policies=policies, policy_mapping=mapping) as trainer:
        assert state(trainer.policies["new"]) == state(load_policy(f"{taught / 'arena'}:b"))
        trainer.train_iteration()
        assert state(trainer.policies["old"]) == state(load_policy(taught / "arena", "a"))


def test_a_start_that_does_not_fit_is_refused(taught):
    def start(env, source, **arguments):
        return told(ConfigError, lambda: make(env, policies={"main": {"init_from": source}}, **arguments))

    pendulum = str(taught / "pendulum")
    assert start("CartPole-v1", pendulum).startswith(f"init_from = '{pendulum}': that policy observes Box(")
    wide = NORMALIZED.replace(model={"normalize_obs": True, "hidden": (7, 7)})
    message = start("Pendulum-v1", pendulum, cfg=wide)
    assert message == f"init_from = '{pendulum}': that policy has another network; give 'main' the same model"
    plain = NORMALIZED.replace(model={"normalize_obs": False})
    assert "has another network" in start("Pendulum-v1", pendulum, cfg=plain)
    arena = str(taught / "arena")
    assert "policy None is not one of a, b; name one, as in " in start(MultiAgentArena, arena)
    assert "policy 'bb' is not one of a, b; did you mean 'b'?" in start(MultiAgentArena, f"{arena}:bb")
    with pytest.raises(FileError, match="there is no such run or checkpoint"):
        make("CartPole-v1", policies={"main": {"init_from": "nowhere"}})


def test_a_run_goes_on_when_the_one_it_started_from_is_gone(taught, tmp_path):
    source = shutil.copytree(taught / "pendulum", tmp_path / "source")
    start = {"policies": {"main": {"init_from": str(source)}}, "cfg": NORMALIZED}
    with make("Pendulum-v1", run_dir=tmp_path / "through", **start) as trainer:
        trainer.train({"iterations": 4})
        expected = weights(trainer)
    with make("Pendulum-v1", run_dir=tmp_path / "run", **start) as trainer:
        trainer.train({"iterations": 1})
    shutil.rmtree(source)
    for iteration in (2, 4):
        with Trainer.load(tmp_path / "run", resume=True) as trainer:
            trainer.train({"iterations": iteration})
            assert f"init_from = {source}  (code)" in trainer.resolved.explain("policies.main.init_from")
    assert rows(tmp_path / "run") == rows(tmp_path / "through")
    with Trainer.load(tmp_path / "run") as trainer:
        assert weights(trainer) == expected


# --- a policy by itself -------------------------------------------------------------------------------------------


def test_a_loaded_policy_predicts_what_the_trainers_would(taught):
    for run, name in (("arena", "a"), ("arena", "b"), ("pendulum", "main")):
        with Trainer.load(taught / run) as trainer:
            mine = trainer.policies[name]
            observations = np.stack([mine.obs_spec.space.sample() for _ in range(20)])
            forms = [load_policy(f"{taught / run}:{name}"), load_policy(str(taught / run), name)]
            forms.append(load_policy(list_checkpoints(taught / run / "checkpoints")[-1], name))
            forms += [load_policy(taught / run)] if name == "main" else []
            for policy in forms:
                assert policy.predict(observations).tolist() == mine.predict(observations).tolist()
                drawn = [
                    p.predict(observations, deterministic=False, rng=np.random.default_rng(3)) for p in (policy, mine)
                ]
                assert drawn[0].tolist() == drawn[1].tolist()
                assert policy.predict(observations[0]).shape == mine.action_spec.space.shape


def test_a_policy_of_several_has_to_be_named(taught):
    message = told(ConfigError, lambda: load_policy(taught / "arena"))
    assert "policy None is not one of a, b; name one, as in " in message
    assert message.endswith("arena:a")
    assert (
        told(ConfigError, lambda: load_policy(f"{taught / 'arena'}:c"))
        .split(": ", 1)[1]
        .startswith("policy 'c' is not")
    )
    assert told(ConfigError, lambda: load_policy(taught / "pendulum", "mian")).endswith("did you mean 'main'?")


def test_a_path_with_a_colon_is_a_path_if_it_is_there(taught, tmp_path):
    shutil.copytree(taught / "pendulum", tmp_path / "run:1")
    assert load_policy(tmp_path / "run:1").name == "main"
    assert load_policy(f"{tmp_path / 'run:1'}:main").name == "main"


def test_a_policy_needs_neither_its_environment_nor_a_trainer(tmp_path, monkeypatch):
    module = tmp_path / "far_away.py"
    module.write_text(
        dedent("""
        import gymnasium, numpy as np
        from gymnasium import spaces

        class Far(gymnasium.Env):
            observation_space = spaces.Dict({"b": spaces.Box(-1, 1, (2,)), "a": spaces.Discrete(3, start=1)})
            action_space = spaces.MultiDiscrete([2, 3])

            def reset(self, *, seed=None, options=None):
                super().reset(seed=seed)
                return {"b": np.zeros(2, np.float32), "a": 1}, {}

            def step(self, action):
                return {"b": self.np_random.random(2, dtype=np.float32), "a": 2}, 1.0, False, False, {}
        """)
    )
    monkeypatch.syspath_prepend(tmp_path)
    with make("far_away:Far", run_dir=tmp_path / "run") as trainer:
        trainer.train({"iterations": 1})
        observation = {"b": np.array([0.5, -0.5], np.float32), "a": 3}
        expected = trainer.policies["main"].predict(observation).tolist()
    module.unlink()
    monkeypatch.undo()
    del sys.modules["far_away"]
    assert load_policy(tmp_path / "run").predict(observation).tolist() == expected
    message = told(EnvError, lambda: Trainer.load(tmp_path / "run"))
    assert message == "env 'far_away:Far': there is no module 'far_away'; is it on the Python path?"


def test_a_policy_is_served_by_a_process_that_has_no_environments(taught):
    script = dedent("""
        import sys
        for missing in ("rookery.envs", "rookery.run", "rookery.rollout", "rookery.algorithms", "pettingzoo"):
            sys.modules[missing] = None  # importing it fails
        from rookery import load_policy
        print([load_policy(sys.argv[1] + ":" + name).predict([[3, 9], [9, 3]]).tolist() for name in "ab"])
    """)
    run = [sys.executable, "-c", script, str(taught / "arena")]
    out = subprocess.run(run, capture_output=True, text=True, check=False)
    assert out.returncode == 0, out.stderr
    expected = [load_policy(taught / "arena", name).predict([[3, 9], [9, 3]]).tolist() for name in "ab"]
    assert out.stdout.strip() == str(expected)


def test_a_masked_policy_keeps_its_mask(tmp_path):
    pytest.importorskip("pettingzoo")
    with make("pettingzoo.classic.tictactoe_v3", run_dir=tmp_path) as trainer:
        trainer.train({"iterations": 1})
        space = trainer.policies["main"].obs_spec.space
        observation = {"observation": np.zeros((3, 3, 2), np.int8), "action_mask": np.array([0] * 8 + [1], np.int8)}
        assert space["action_mask"].shape == (9,)
    assert load_policy(tmp_path).predict(observation) == 8


def test_loading_never_writes_where_it_reads(two):
    before = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in two.rglob("*")}
    time.sleep(0.01)
    Trainer.load(two).close()
    load_policy(two)
    assert {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in two.rglob("*")} == before


def test_late_agents_are_known_after_a_restart(tmp_path):
    with make(Turns) as trainer:
        trainer.train({"iterations": 1})
        trainer.save(tmp_path / "saved")
        layout = trainer.env.kinds
    with Trainer.load(tmp_path / "saved") as trainer:
        assert [kind.agents for kind in trainer.env.kinds] == [kind.agents for kind in layout] == [("x", "y", "z")]


def test_a_wrapped_environment_comes_back_with_its_wrappers(tmp_path):
    with make("CartPole-v1", wrappers=(gymnasium.wrappers.RecordEpisodeStatistics, scaled_env)) as trainer:
        trainer.save(tmp_path / "saved")
    with Trainer.load(tmp_path / "saved") as trainer:
        assert type(trainer.env._lanes[0].env).__name__ == "TransformReward"


def test_wrappers_with_arguments_come_back_in_the_users_own_checkpoints_alone(tmp_path, monkeypatch):
    limited = functools.partial(gymnasium.wrappers.TimeLimit, max_episode_steps=7)
    with make("CartPole-v1", wrappers=[limited, scaled_env]) as trainer:
        trainer.save(tmp_path / "saved")
    with Trainer.load(tmp_path / "saved") as trainer:
        reward_wrapper = trainer.env._lanes[0].env
        assert type(reward_wrapper).__name__ == "TransformReward"
        assert reward_wrapper.env._max_episode_steps == 7
        trainer.save(tmp_path / "again")
    Trainer.load(tmp_path / "again").close()
    monkeypatch.setattr("rookery.run.checkpoint.checkpoint.is_own", lambda facts: False)
    message = told(ConfigError, lambda: Trainer.load(tmp_path / "saved"))
    assert "give them again, as in Trainer.load(..., wrappers=[...]): env.wrappers was" in message


def scaled_env(env):
    return gymnasium.wrappers.TransformReward(env, scaled)


@pytest.mark.regression("unclear error", "Pickling or copying a trainer names save and load")
@pytest.mark.parametrize("copied", [pickle.dumps, copy.deepcopy, copy.copy])
def test_a_trainer_is_saved_and_loaded_and_neither_pickled_nor_copied(copied):
    with (
        make("CartPole-v1") as trainer,
        pytest.raises(TypeError, match=r"trainer.save\(path\).*Trainer.load"),
    ):
        copied(trainer)
