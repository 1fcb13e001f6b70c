"""Runs of strangers that name something which a setting could reach: with no verb is any of it reached.

`test_trust.py` has what names code. Here are paths, programs, environment variables, addresses and numbers that take
any amount of memory: every such field of a run, read off the types of the settings, and arguments of environments.
"""

from __future__ import annotations

import json
import shutil
import sys
from io import StringIO
from typing import get_args

import pytest
from commands import TINY, train_into

from hostile import rewrite, watch
from rookery import ConfigError, Trainer, load_policy
from rookery.algorithms.off_policy.dqn import DQNConfig
from rookery.core.errors import EnvError
from rookery.core.settings.fields import Settings, alternatives, bare, fields_of, hints_of, limits_of
from rookery.core.settings.reach import Reaches, Within
from rookery.envs.async_copies.async_env import AsyncCopiesEnv
from rookery.run.settings import RunConfig
from selection import slow_except

TRAP = "runs/theirs/trap"
UNITY = "rookery_mlagents.api.unity_environment:UnityEnvironment"
UNITY_3D = "rookery_rllib.env.unity3d_env:Unity3DEnv"
SPACES = {"obs": {"box": [4], "low": -5, "high": 5}, "action": {"discrete": 2}}


def fields_in(cls, path):
    """Yields the fields that a class of settings marks, with a value that reaches what the mark says."""
    for name in fields_of(cls):
        yield from in_hint(hints_of(cls)[name], f"{path}{name}")


def in_hint(hint, path):
    marks = [item for part in alternatives(hint) for item in (*limits_of(part), *limits_of(hint))]
    reached = next((item for item in marks if isinstance(item, Reaches)), None)
    within = next((item for item in marks if isinstance(item, Within)), None)
    kinds = [bare(part) for part in alternatives(hint)]
    inner = next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Settings)), None)
    if reached is not None:
        is_mapping = any(getattr(kind, "__origin__", None) is dict for kind in kinds)
        yield path, {"PYTHONPATH": TRAP} if is_mapping else f"{TRAP}/data"
    elif within is not None:
        yield path, int(within.limit) * 1000
    elif inner is not None and "__dataclass_fields__" in vars(inner):
        yield from fields_in(inner, f"{path}.")
    else:
        for kind in kinds:
            arguments = get_args(kind)
            if getattr(kind, "__origin__", None) is tuple:
                yield from ((at, [value]) for at, value in in_hint(arguments[0], path))
            elif getattr(kind, "__origin__", None) is dict:
                yield from ((path, {value: 0.5}) for _, value in in_hint(arguments[0], path))


FIELDS = {
    **{path: {path: value} for path, value in fields_in(RunConfig, "")},
    **{
        path: {f"policies.main.{path}": value}
        for path, value in fields_in(DQNConfig, "")
        if ".model." not in path or not path.startswith(("signals.curiosity", "signals.gail"))  # as of signals.rnd
    },
    "policies.main.init_from": {"policies.main.init_from": f"{TRAP}/data"},
    "self_play.anchors": {"self_play.main.anchors": {"a": "rookery.core.io.files:remove_directory"}},
    "copies and steps": {"algorithm.name": "ppo", "sampling.num_envs": 60_000, "algorithm.fragment_length": 60_000},
    "a module's arguments": {
        "policies.main.model.module": "rookery.models.heads:ValueHead",
        "policies.main.model.module_config": {"num_features": 10**9},
    },
    "Unity's environment": {"env.name": UNITY, "env.config.file_name": f"{TRAP}/player"},
    "Unity's environment, words": {"env.name": UNITY, "env.config.additional_args": [f"{TRAP}/player"]},
    "RLlib's Unity environment": {"env.name": UNITY_3D, "env.config.file_name": f"{TRAP}/player"},
    "a player": {"env.name": "rookery_mlagents.link.unity_env:UnityEnv", "env.config.file_name": f"{TRAP}/player"},
    "a player's words": {"env.name": "unity:editor", "env.config.args": [f"{TRAP}/player"]},
    "a trainer in the place of an environment": {"env.name": "rookery_rllib.trainer.trainers:PPOTrainer"},
    "a trainer in the place of a wrapper": {"env.wrappers": ["rookery_rllib.trainer.trial.trainable:Trainable"]},
    "a class of ours that says nothing": {
        "env.name": "rookery.envs.placeholder_env:PlaceholderEnv", "env.config.described": {"kinds": []}
    },
    "an actor of Ray": {
        "env.name": "rookery_rllib.examples.actor_envs:CartPoleWithRemoteParamServer",
        "env.config.env_config": {"param_server": TRAP},
    },
    "a robot": {"env.name": "Ant-v5", "env.config.xml_file": f"{TRAP}/ant.xml"},
    "a robot by a way around": {"env.name": "Ant-v5", "env.config.xml_file": f"../../../{TRAP}/ant.xml"},
    "a robot as a parameter": {"env.name": "Ant-v5", "env.parameters.xml_file": f"{TRAP}/ant.xml"},
    "a robot in a lesson": {"env.name": "Ant-v5", "curriculum.xml_file.lessons": [f"{TRAP}/ant.xml"]},
    "an id inside an id": {"env.name": "GymV26Environment-v0", "env.config.env_id": "hostile_package:Thing-v0"},
    "PettingZoo's games": {"env.name": "pettingzoo.atari.pong_v3", "env.config.auto_rom_install_path": TRAP},
    "a large map": {"env.name": "MiniGrid-Empty-5x5-v0", "env.config.size": 10**6},
    "a large task": {"env.name": "DeepSea", "env.config.size": 10**6},
    "a large task as a parameter": {
        "env.name": "DeepSea", "env.parameters.size": {"sampler": "uniform", "low": 5, "high": 10**7}
    },
    "a sampler that is a class": {"env.parameters.gravity": {"sampler": UNITY, "worker_id": 3}},
    "a section in the place of settings": {"cluster": {"environment": {"PYTHONPATH": TRAP}}},
    "an argument of CartPole": {"env.config.helper": f"{TRAP}/data"},
    "a host": {"env.name": "external:0", "env.config.host": "0.0.0.0", "env.config.spaces": SPACES},
    "every host": {"env.name": "external:0", "env.config.host": "", "env.config.spaces": SPACES},
    "a token": {"env.name": "external:0", "env.config.token": "known-to-others", "env.config.spaces": SPACES},
    "a token file": {"env.name": "external:0", "env.config.token_file": f"{TRAP}/token", "env.config.spaces": SPACES},
}  # fmt: skip

VERBS = {
    "resume": ["resume", "theirs", "--stop", "env_steps=128", "--evaluate", 0],
    "resume with a change": ["resume", "theirs", "policies.main.lr=1e-4", "--stop", "env_steps=128", "--evaluate", 0],
    "learn": ["learn", "theirs", "--gradient-steps", 1],
    "evaluate": ["evaluate", "theirs", "--episodes", 1],
    "judge": ["evaluate", "theirs", "--replay", "theirs", "--set", "fit_steps=2", "--set", "resamples=20"],
    "record": ["record", "theirs", "--episodes", 1],
    "replay record": ["replay", "record", "--from", "theirs", "--episodes", 1, "-o", "taken"],
    "match": ["match", "theirs", "random", "--games", 2],
    "elo": ["elo", "theirs", "--games", 2],
    "export": ["export", "theirs", "--onnx"],
    "play": ["play", "theirs", "--lines"],
    "explain weights": ["explain", "theirs", "weights"],
    "explain env.step": ["explain", "theirs", "env.step"],
    "begin anew": ["resume", "theirs", "--stop", "env_steps=16", "--evaluate", 0],
}
WITHOUT_SETTINGS = ("begin anew", "explain weights", "explain env.step")
"""Verbs that read `config.yaml` or `provenance.json` instead of a checkpoint's settings."""

LISTENING = ("a host", "every host", "a token", "a token file")
"""Left out, with a note that comes when an environment is there; and in tests none comes."""

NOT_TOLD = (
    "sampling.num_envs", "sampling.warmup_steps", "batch_size", "replay.capacity", "replay.start_from", "replay.mix",
    "policies.main.init_from",
)  # fmt: skip
"""Fields in whose place `explain` puts values of its own."""

CASES = [(verb, field) for verb in VERBS for field in FIELDS]
QUICK = [
    (verb, field)
    for number, field in enumerate(FIELDS)
    for at, verb in enumerate(("resume", "evaluate", "record"))
    if number % 9 == 3 * at
]


class Terminal(StringIO):
    """A terminal without input."""

    def isatty(self):
        return True


@pytest.fixture(scope="session")
def run_of_a_stranger(tmp_path_factory):
    words = "CartPole-v1 --algo dqn --run-id theirs --seed 3 --stop env_steps=120 sampling.num_envs=2 --evaluate 0"
    settings = ["algorithm.learning_starts=99", "algorithm.train_every=8"]
    return train_into(tmp_path_factory.mktemp("stranger"), [*words.split(), *settings]) / "theirs"


@pytest.fixture
def theirs(run_of_a_stranger, tmp_path, rookery, monkeypatch):
    """A stranger's run in the folder that commands run in, with a trap in it."""
    run, trap = tmp_path / "runs" / "theirs", tmp_path / TRAP
    shutil.copytree(run_of_a_stranger, run)
    trap.mkdir()
    for name in ("player", "sitecustomize.py", "data", "ant.xml", "token"):
        (trap / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/it-ran\n")
        (trap / name).chmod(0o755)
    rewrite(last(run), "config.json", lambda config: None)
    signed = (run / "config.yaml").read_text().splitlines(keepends=True)
    (run / "config.yaml").write_text("".join(line for line in signed if not line.startswith("# signature")))

    def nobody_comes(self, seeds):
        raise EnvError("external: nobody comes in a test")

    monkeypatch.setattr(AsyncCopiesEnv, "reset", nobody_comes)
    monkeypatch.setattr(sys, "stdin", Terminal())
    yield run
    watch(None)


def last(run):
    return sorted(path for path in (run / "checkpoints").glob("0*") if ".rank" not in path.name)[-1]


def say(run, values, verb):
    """Writes a text into a foreign run, where a verb reads it."""
    if verb in WITHOUT_SETTINGS:
        said = json.loads((run / "provenance.json").read_text())
        for path, value in values.items():
            said[path] = [["code", json.dumps(value)]]
        (run / "provenance.json").write_text(json.dumps(said))
        lines = [f"{path}: {json.dumps(value)}\n" for path, value in tree_of(values).items()]
        kept = (run / "config.yaml").read_text().splitlines(keepends=True)
        if not verb.startswith("explain"):
            shutil.rmtree(run / "checkpoints")
        else:
            tree = yaml_tree(kept)
            merge(tree, tree_of(values))
            lines = [f"{key}: {json.dumps(value)}\n" for key, value in tree.items()]
            (run / "config.yaml").write_text("".join(lines))
        return
    rewrite(last(run), "config.json", lambda config: change(config, values))


def change(config, values):
    for path, value in values.items():
        for known in [known for known in config["values"] if known.startswith(f"{path}.")]:
            del config["values"][known]
        config["values"][path] = value
        config["history"][path] = [["code", value]]


def yaml_tree(lines):
    from ruamel.yaml import YAML

    return YAML(typ="safe", pure=True).load("".join(lines))


def tree_of(values):
    tree = {}
    for path, value in values.items():
        *above, end = path.split(".")
        node = tree
        for key in above:
            node = node.setdefault(key, {})
        node[end] = value
    return tree


def merge(low, high):
    for key, value in high.items():
        if isinstance(value, dict) and isinstance(low.get(key), dict):
            merge(low[key], value)
        else:
            low[key] = value


@pytest.mark.regression(
    "foreign code", "No field of a foreign run starts, opens or listens at anything, with any command"
)
@pytest.mark.parametrize(("verb", "field"), slow_except(*QUICK, of=CASES))
def test_nothing_that_a_stranger_says_is_reached(verb, field, theirs, rookery, tmp_path):
    say(theirs, FIELDS[field], verb)
    seen = watch(TRAP)
    code, out, err = rookery(*VERBS[verb])
    assert seen == []
    watch(None)
    assert not (tmp_path / "it-ran").exists()
    assert "Traceback" not in err
    if verb.startswith("explain") and (field in NOT_TOLD or "cluster" in str(FIELDS[field])):
        return  # what is only shown has values of its own, or says nothing of what is left out
    assert "was not written by you on this machine" in out + err or field in LISTENING


POLICY = {
    "hidden": ("model", "hidden", [10**9]),
    "memory": ("model", "memory", {"kind": "lstm", "size": 10**9}),
    "entities": ("model", "entity_size", 10**9),
    "a module's arguments": ("model", "module_config", {"file": f"{TRAP}/data"}),
    "a head": ("head", "atoms", 10**9),
    "layers together": ("model", "hidden", [8192] * 32),
}


@pytest.mark.regression(
    "foreign code", "No field of a foreign policy starts, opens or fills anything, with any command"
)
@pytest.mark.parametrize("field", POLICY)
def test_nothing_that_a_policy_of_a_stranger_says_is_reached(field, theirs, rookery):
    part, name, value = POLICY[field]

    def change(policies):
        policies["main"][part][name] = value
        if field == "a module's arguments":
            policies["main"]["model"]["module"] = "rookery.models.heads:ValueHead"

    rewrite(last(theirs), "policies.json", change)
    seen = watch(TRAP)
    begun = {"policies": {"main": {"init_from": str(theirs)}}}
    for act in (lambda: load_policy(theirs), lambda: Trainer("CartPole-v1", algorithm="dqn", **begun)):
        with pytest.raises(ConfigError, match="not written by you on this machine"):
            act()
    for words in (["export", "theirs", "--onnx"], ["serve", "theirs", "--port", 0]):
        code, _, err = rookery(*words)
        assert code == 2 and f"main.{part}" in err and "not written by you on this machine" in err
    assert seen == []


@pytest.mark.regression("foreign code", "A checkpoint of others with links to devices, and pipes, is refused at once")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("timers.json", ["timers", "theirs"]),
        ("metrics.jsonl", ["plot", "theirs"]),
        ("provenance.json", ["explain", "theirs", "env.name"]),
    ],
)
def test_no_file_of_a_strangers_run_is_a_device(name, words, theirs, rookery):
    (theirs / name).unlink()
    (theirs / name).symlink_to("/dev/zero")
    code, _, err = rookery(*words)
    assert code == 2 and f"{name}: the file cannot be read: " in err and "it is a device or a pipe" in err


SUITES = {
    "CartPole-v1": [],
    "MultiAgentArena": ["env.config.width=6", "env.config.height=6"],
    "TicTacToe": [],
    "DeepSea": ["env.config.size=8"],
    "FrozenLake-v1": ["env.config.map_name=8x8", "env.config.is_slippery=false"],
    "LunarLander-v3": ["env.config.gravity=-9", "env.config.enable_wind=true"],
    "Ant-v5": ["env.config.xml_file=ant.xml", "env.config.frame_skip=4"],
    "MiniGrid-Empty-5x5-v0": ["env.config.size=6"],
    "ALE/Pong-v5": ["env.config.obs_type=ram", "env.config.frameskip=4"],
    "Atari": ["env.config.game=pong"],
    "TensorCartPole": [],
    "pettingzoo.classic.rps_v2": ["env.config.max_cycles=20"],
    "pettingzoo.butterfly.knights_archers_zombies_v11": ["env.config.max_cycles=50"],
    "pettingzoo.sisl.multiwalker_v9": ["env.config.n_walkers=2"],
}  # fmt: skip
QUICK_SUITES = ("CartPole-v1", "MultiAgentArena", "FrozenLake-v1", "pettingzoo.classic.rps_v2")


@pytest.mark.regression("foreign code", "Runs of others of bundled tasks, Gymnasium and PettingZoo ids need no flag")
@pytest.mark.parametrize("name", slow_except(*QUICK_SUITES, of=SUITES))
def test_a_strangers_run_of_a_suite_needs_no_flag(name, rookery, tmp_path, monkeypatch):
    words = [name, *SUITES[name], "--run-id", "theirs", "--seed", 3, *TINY, "--evaluate", 0, "--quiet"]
    code, _, err = rookery("train", *words, "--stop", "env_steps=32")
    assert code == 0, err
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "another-machine"))
    for verb in (
        ["resume", "theirs", "algorithm.epochs=2", "--stop", "env_steps=64", "--evaluate", 0],
        ["evaluate", "theirs", "--episodes", 1, "--max-episode-steps", 20],
    ):
        code, out, err = rookery(*verb)
        assert code == 0, err
        assert "not written by you" not in out + err
    if name == "CartPole-v1":
        assert "was not written" not in rookery("explain", "theirs", "env.step")[1]
        assert rookery("export", "theirs", "--onnx")[0] == 0


@pytest.mark.slow
@pytest.mark.regression("foreign code", "A run of others sets no environment variables of the processes that it starts")
def test_learners_of_a_strangers_run_have_the_users_variables(rookery, tmp_path, monkeypatch):
    words = ["CartPole-v1", "--run-id", "theirs", "--seed", 3, *TINY, "--evaluate", 0, "--quiet", "cluster.learners=2"]
    code, _, err = rookery("train", *words, "--stop", "env_steps=32")
    assert code == 0, err
    mark, trap = tmp_path / "it-ran", tmp_path / "trap"
    trap.mkdir()
    (trap / "sitecustomize.py").write_text(f"open({str(mark)!r}, 'w')\n")
    values = {"cluster.environment": {"PYTHONPATH": str(trap), "LD_PRELOAD": str(trap / "x.so")}}
    rewrite(last(tmp_path / "runs" / "theirs"), "config.json", lambda config: change(config, values))
    code, out, err = rookery("resume", "theirs", "--stop", "env_steps=64", "--evaluate", 0)
    assert code == 0, err
    assert "cluster.environment" in out + err and "left out" in out + err
    assert not mark.exists()
    code, _, _ = rookery("resume", "theirs", "--stop", "env_steps=96", "--evaluate", 0)
    assert code == 0 and not mark.exists()
