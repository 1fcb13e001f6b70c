"""Foreign directories: their code never runs, with no verb, wherever they name code; one's own need no word."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from commands import TINY, train_into

from hostile import MODULE, plant, rewrite, write_manifest
from rookery import ConfigError, Trainer, load_policy
from rookery.core.errors import SpaceError
from rookery.core.io.files import FileError, is_own, read_manifest
from rookery.core.io.signing import signed_text
from rookery.core.settings.layers import CLASS
from rookery.core.settings.trust import OBJECT, Trust
from rookery.run.checks.trusted_code import check_stored, named_code
from selection import slow_except
from small_envs import OWN

CALL = f"{MODULE}:call"
THING = f"{MODULE}:Thing"

SHELL = {"env.config.command": "touch it-ran"}
"""Returns a shell command; it runs in the folder in which the mark is searched."""

PLACES = {
    "a function as environment": {"env.name": CALL},
    "a compiled function": {"env.name": "os:system", **SHELL},
    "a module as environment": {"env.name": MODULE},
    "an id that a module registers": {"env.name": f"{MODULE}:Thing-v0"},
    "an object as environment": {"env.name": {OBJECT: CALL}},
    "another's function behind a module of ours": {"env.name": "rookery.core.io.files:os.system", **SHELL},
    "another's function as an object": {"env.name": {OBJECT: "rookery.core.io.files:os.system"}, **SHELL},
    "a function of ours": {"env.name": "rookery.core.io.files:remove_directory", "env.config.path": "runs/theirs"},
    "a function of Gymnasium that imports": {"env.name": "gymnasium:make", "env.config.id": f"{MODULE}:Thing-v0"},
    "a module with a strange name": {"env.name": "hostile_package/inner:call"},
    "a wrapper": {"env.wrappers": [CALL]},
    "a wrapper as an object": {"env.wrappers": [{OBJECT: THING}]},
    "another's function as a wrapper": {"env.wrappers": ["rookery.core.io.files:os.system"]},
    "an argument of the environment": {"env.config.helper": {OBJECT: CALL}},
    "an id among the arguments": {"env.config.base": {"id": f"{MODULE}:Thing-v0"}},
    "settings of the algorithm": {"algorithm.name": THING},
    "settings of a policy": {"policies.main.name": THING},
    "settings of ours for others": {"policies.main.name": "rookery.tune.search:RandomConfig"},
    "a model": {"policies.main.model.module": CALL},
    "a model as an object": {"policies.main.model.module": {OBJECT: THING}},
    "a class that is no model": {"policies.main.model.module": "rookery.core.io.files:contextlib.ExitStack"},
    "a mapping": {"policy_mapping": {OBJECT: CALL}},
    "a class of a section": {"algorithm": {CLASS: {OBJECT: THING}}},
    "a section in the place of a setting": {"env": {"name": CALL}},
    "a setting that is no code": {"seed": {OBJECT: CALL}},
}

VERBS = {
    "resume": ["--stop", "env_steps=128", "--evaluate", 0],
    "learn": [],
    "evaluate": ["--episodes", 1],
    "record": ["--episodes", 1],
}


@pytest.fixture(scope="session")
def run_of_others(tmp_path_factory):
    """A run with a replay buffer, whose files everything can be done with."""
    words = "CartPole-v1 --algo dqn --run-id theirs --seed 3 --stop env_steps=120 sampling.num_envs=2 --evaluate 0"
    settings = ["algorithm.learning_starts=99", "algorithm.train_every=8"]
    folder = train_into(tmp_path_factory.mktemp("others"), [*words.split(), *settings])
    return folder / "theirs"


@pytest.fixture
def theirs(run_of_others, tmp_path, rookery):
    """A copy of it in the folder that commands run in, not signed."""
    run = tmp_path / "runs" / "theirs"
    shutil.copytree(run_of_others, run)
    rewrite(last(run), "config.json", lambda config: None)
    return run


def last(run):
    return sorted((run / "checkpoints").glob("0*"))[-1]


def set_values(values):
    return lambda config: config["values"].update(values)


def refused(outcome, name):
    """Checks what is said of a refusal: file, place, what would have run, both ways out."""
    code, _, err = outcome
    assert code == 2, err
    assert f"would run {name}, which" in err
    assert "not written by you on this machine" in err and "--trust-code (in code: trust_code=True)" in err
    return err


def named_by(values):
    value = next(iter(values.values()))
    while isinstance(value, dict | list):
        value = value[0] if isinstance(value, list) else next(iter(value.values()))
    return value


CASES = [(verb, place) for verb in VERBS for place in PLACES]
QUICK = [(verb, place) for number, place in enumerate(PLACES) for at, verb in enumerate(VERBS) if number % 4 == at]


@pytest.mark.parametrize(("verb", "place"), slow_except(*QUICK, of=CASES))
def test_nothing_of_others_runs(verb, place, theirs, rookery, monkeypatch, tmp_path):
    mark, values = plant(tmp_path, monkeypatch), PLACES[place]
    rewrite(last(theirs), "config.json", set_values(values))
    err = refused(rookery(verb, "theirs", *VERBS[verb]), named_by(values))
    assert f"{last(Path('runs/theirs')) / 'config.json'}: {next(iter(values))}" in err
    assert not mark.exists()
    assert theirs.is_dir()


ROUNDABOUT = {
    "a section that is a name beside another part of it": {"env": MODULE, "env.config": {}},
    "a program in the place of a section": {"env": "./hostile-player.x86_64", "env.config": {}},
    "an object that a later value hides": {"env": {"name": {OBJECT: CALL}}, "env.name": "CartPole-v1"},
    "a policy with a dot in its name": {"policies": {"a.b": {"name": f"{MODULE}:Thing and more"}}},
    "a signal with a dot in its name": {"algorithm.signals.own": {"a.b": {"name": f"{MODULE}:Thing and more"}}},
    "a module with a dash in its name": {"policies": {"a.b": {"name": "hostile-package:Thing"}}},
}


@pytest.mark.regression("foreign code", "A run of others imports and starts nothing, however its settings are nested")
@pytest.mark.parametrize("place", ROUNDABOUT)
def test_no_nesting_of_settings_hides_code(place, theirs, rookery, monkeypatch, tmp_path):
    mark = plant(tmp_path, monkeypatch)
    (tmp_path / "path" / "hostile-package.py").write_text(f"open({str(mark)!r}, 'w')\n")
    player = tmp_path / "hostile-player.x86_64"
    player.write_text(f"#!/bin/sh\ntouch {mark}\n")
    player.chmod(0o755)

    def change(config):
        config["values"] = {path: value for path, value in config["values"].items() if not path.startswith("env.")}
        config["values"] = {**ROUNDABOUT[place], "env.implementation": "serial", **config["values"]}

    rewrite(last(theirs), "config.json", change)
    code, _, err = rookery("evaluate", "theirs", "--episodes", 1)
    assert code == 2, err
    assert "Traceback" not in err and not mark.exists()


def test_the_ways_out_are_named_and_work(theirs, rookery):
    rewrite(last(theirs), "config.json", set_values({"env.name": OWN}))
    assert "env=MyEnv" in refused(rookery("evaluate", "theirs", "--episodes", 1), OWN)
    Trainer.load(theirs, env="CartPole-v1").close()
    Trainer.load(theirs, config={"env": {"name": "CartPole-v1"}}).close()
    with pytest.raises(ConfigError, match="env.name"):
        Trainer.load(theirs, config={"policies.main": {"batch_size": 4}})
    for trusted in (True, OWN, [OWN]):
        with pytest.raises((ConfigError, SpaceError), match="Corridor"):  # it was made, then
            Trainer.load(theirs, trust_code=trusted)


def test_what_the_caller_gives_takes_the_place_of_a_name_before_it_is_imported(theirs, monkeypatch, tmp_path):
    mark = plant(tmp_path, monkeypatch)
    values = {"env.name": CALL, "env.wrappers": [CALL], "policies.main.name": THING, "policy_mapping": {OBJECT: CALL}}
    rewrite(last(theirs), "config.json", set_values(values))
    with pytest.raises(ConfigError, match="wrappers"):  # a section does not say what it leaves out
        Trainer.load(theirs, config={"env": {"name": "CartPole-v1"}, "policies.main.name": "dqn"})
    given = {"env": "CartPole-v1", "wrappers": (), "config": {"policies.main.name": "dqn"}}
    Trainer.load(theirs, policy_mapping={"agent": "main"}, **given).close()
    assert not mark.exists()


@pytest.mark.parametrize("module", [CALL, "subprocess:Popen", "rookery.core.io.files:contextlib.ExitStack"])
@pytest.mark.parametrize("place", ["model", "head"])
def test_nothing_of_a_policy_of_others_runs(place, module, theirs, rookery, monkeypatch, tmp_path):
    mark = plant(tmp_path, monkeypatch)
    key = {"model": "module", "head": "kind"}[place]
    rewrite(last(theirs), "policies.json", lambda policies: policies["main"][place].update({key: module}))
    with pytest.raises(ConfigError) as caught:
        load_policy(theirs)
    assert f"{last(theirs) / 'policies.json'}: main.{place}.{key} = {module}" in str(caught.value)
    with pytest.raises(ConfigError, match="give policy 'main' the same model"):
        Trainer("CartPole-v1", policies={"main": {"init_from": str(theirs)}})
    assert not mark.exists()
    said = "makes a NoneType" if (place, module) == ("model", CALL) else "is a .*, not a"  # a function has to be called
    with pytest.raises(ConfigError, match=said):
        load_policy(theirs, trust_code=True)
    assert mark.exists() == (module == CALL)


SHOWN = [
    "explain theirs",
    "explain theirs weights",
    "explain theirs env.step",
    "timers theirs",
    "replay show theirs",
    "replay export theirs -o taken",
    "explain theirs replay",
    "plot theirs",
]


@pytest.mark.parametrize("command", slow_except(*SHOWN[2:-2], of=SHOWN))
def test_nothing_of_others_runs_where_code_is_only_shown(command, theirs, rookery, monkeypatch, tmp_path):
    mark = plant(tmp_path, monkeypatch)
    settings = (theirs / "config.yaml").read_text()
    (theirs / "config.yaml").write_text(settings.replace("name: CartPole-v1", f"name: {CALL}"))
    provenance = json.loads((theirs / "provenance.json").read_text())
    provenance["policies.main.name"] = [["code", THING]]
    (theirs / "provenance.json").write_text(json.dumps(provenance))
    words = command.split()
    code, out, err = rookery(*words)
    assert code == 0, err
    played = words[0] == "explain" and len(words) == 3
    assert (f"env.name = {CALL}: reading this would run {CALL}" in out) == played
    assert not mark.exists()
    if played:
        rookery(*words, "--trust-code")
        assert mark.exists()


@pytest.mark.regression(
    "unclear error", "A run of one's own that ended before its first checkpoint resumes with its environment in C"
)
def test_a_signed_config_makes_the_code_that_it_names_ones_own_and_no_other(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = "env: {name: walk.c, wrappers: [my_module:Wrapper]}\n"
    (tmp_path / "config.yaml").write_text(signed_text("config.yaml", text))
    check_stored(tmp_path, {"env.name": "walk.c", "env.wrappers": ["my_module:Wrapper"]}, False)
    for values in ({"env.name": "alk.c"}, {"env.wrappers": ["module:Wrap"]}):  # parts of its names
        with pytest.raises(ConfigError, match="use --trust-code"):
            check_stored(tmp_path, values, False)
    (tmp_path / "config.yaml").write_text(text)
    with pytest.raises(ConfigError, match=r"would run .*walk\.c"):
        check_stored(tmp_path, {"env.name": "walk.c"}, False)


LIBRARY = {
    "env.name": [
        "CartPole-v1", "Sorter", "ALE/Pong-v5", "envpool:Pong-v5", "NoSuchId-v0", "rookery.tasks.sorter:Sorter",
        "gymnasium:CartPole-v1", "gymnasium.envs.classic_control:CartPoleEnv", "pettingzoo.classic.rps_v2",
        "pettingzoo.classic.rps_v2:parallel_env",
    ],
    "env.wrappers": ["gymnasium.wrappers:FlattenObservation"],
    "policies.main.name": ["ppo", "rookery.algorithms.on_policy.ppo:PPOConfig"],
    "policies.main.model.module": ["rookery.models.heads:ValueHead"],
    "policy_mapping.agent:0": ["team:red"],
    "env.config.text": ["a text: with a colon", "12:30", "runs/x:main", "https://example.org"],
}  # fmt: skip
"""Texts that files of any user may have."""


def test_others_may_name_what_belongs_to_the_library(theirs, rookery):
    for path, texts in LIBRARY.items():
        for text in texts:
            assert not any(map(Trust().objection, named_code({path: text}))), text
    code, _, err = rookery("resume", "theirs", *VERBS["resume"])
    assert code == 0, err
    assert load_policy(theirs).predict([0.0, 0.1, 0.02, -0.1]) in (0, 1)


def test_own_runs_need_no_flag_also_when_they_are_moved(rookery, tmp_path, monkeypatch):
    words = [OWN, "--run-id", "mine", "--seed", 3, "--stop", "env_steps=32", *TINY, "--evaluate", 0]
    assert rookery("train", *words)[0] == 0
    shutil.move("runs/mine", "elsewhere")
    assert is_own(read_manifest(last(Path("elsewhere"))))
    code, _, err = rookery("resume", "elsewhere", "--stop", "env_steps=64", "--evaluate", 0)
    assert code == 0, err
    assert "Corridor.step" in rookery("explain", "elsewhere", "env.step")[1]
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "another-machine"))
    refused(rookery("evaluate", "elsewhere", "--episodes", 1), OWN)
    assert rookery("evaluate", "elsewhere", "--episodes", 1, "--trust-code")[0] == 0
    assert "would run" in rookery("explain", "elsewhere", "env.step")[1]
    assert "Corridor.step" in rookery("explain", "elsewhere", "env.step", "--trust-code")[1]
    load_policy("elsewhere")  # which names no code but ours


def test_a_signature_is_worth_nothing_for_other_content(rookery, tmp_path, monkeypatch):
    mark = plant(tmp_path, monkeypatch)
    words = ["CartPole-v1", "--run-id", "mine", "--seed", 3, "--stop", "env_steps=32", *TINY, "--evaluate", 0]
    assert rookery("train", *words)[0] == 0
    place = last(Path("runs/mine"))
    rewrite(place, "config.json", set_values({"env.name": CALL}), signed=True)
    assert "signature" in read_manifest(place)
    refused(rookery("evaluate", "mine", "--episodes", 1), CALL)
    manifest = read_manifest(place)
    write_manifest(place, {**manifest, "signature": None})
    refused(rookery("evaluate", "mine", "--episodes", 1), CALL)
    assert not mark.exists()


def test_without_a_manifest_there_is_no_checkpoint(theirs, rookery):
    place = last(theirs)
    (place / "manifest.json").unlink()
    for verb, words in VERBS.items():
        for run in ("theirs", place):
            code, _, err = rookery(verb, run, *words)
            assert code == 2 and "there is no manifest.json" in err, (verb, err)
    for act in (Trainer.load, load_policy):
        with pytest.raises(FileError, match="there is no manifest.json"):
            act(place)


def test_training_goes_on_where_no_key_can_be_kept(rookery, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "file"))
    words = ["CartPole-v1", "--run-id", "mine", "--seed", 3, "--stop", "env_steps=32", *TINY, "--evaluate", 0]
    code, out, _ = rookery("train", *words, "--plain")
    assert code == 0
    assert "its files are not signed" in out
    assert "signature" not in read_manifest(last(Path("runs/mine")))
