"""Files to damage, and their readers: a group for each format, with files made of the same numbers every time."""

from __future__ import annotations

import hashlib
import io
import json
import random
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest

sys.path += [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "replay")]
sys.path += [str(Path(__file__).parents[1] / "serving")]

from mutations import mutate_bytes, mutate_text, mutate_zip
from recordings import CHOICE, PARTS, POINT, THROTTLE, recording

from hostile import write_manifest
from rookery.replay.formats.names import export_replay, import_replay
from rookery.replay.recording import recording_of, write_recordings
from rookery.replay.segments import find_replay

Mutation = Callable[[bytes, random.Random], bytes]


@dataclass(frozen=True)
class Group:
    """A format.

    Attributes:
        name: Name of the group.
        bases: Makes the whole files, by what they are called; they are called ``damaged`` when they are read.
        mutate: Damages one.
        read: Reads a file, to the end of all that is done with it.
        count: Inputs of the ten thousand.
        needs: Packages without which it cannot be tried.
    """

    name: str
    bases: Callable[[], dict[str, bytes]]
    mutate: Mutation
    read: Callable[[Path], object]
    count: int
    needs: tuple[str, ...] = ()

    def attempt(self, seed: int, folder: Path) -> None:
        """Makes the input of a seed and reads it."""
        name, content = self.input(seed)
        path = folder / f"damaged{Path(name).suffix}"
        path.write_bytes(content)
        self.read(path)

    def input(self, seed: int) -> tuple[str, bytes]:
        """Makes the input of a seed."""
        rng = random.Random(f"{self.name}:{seed}")
        bases = self.bases()
        name = rng.choice(sorted(bases))
        return name, self.mutate(bases[name], rng)

    def require(self) -> None:
        """Skips a test where a package is missing."""
        for package in self.needs:
            pytest.importorskip(package)


def as_replay(path: Path) -> None:
    """Imports a file and reads what it became."""
    import_replay(path, path.parent / "out", force=True)
    recording_of(find_replay(path.parent / "out"))


def columns(number: int = 60) -> dict[str, np.ndarray]:
    """Columns as D4RL calls them."""
    rng = np.random.default_rng(0)
    ends = np.zeros(number, bool)
    ends[19::20] = True
    return {
        "observations": rng.normal(size=(number, 3)).astype(np.float32),
        "actions": rng.uniform(-1, 1, (number, 2)).astype(np.float32),
        "rewards": rng.normal(size=number).astype(np.float32),
        "terminals": ends,
        "timeouts": np.zeros(number, bool),
    }


def exported(folder: Path, kind: str, obs=POINT, action=CHOICE) -> bytes:
    """A replay as a file of a format."""
    write_recordings(folder / "kept", {"main": recording(obs, action, lengths=(6, 1, 4))}, replace=True)
    suffix = "json" if kind == "rllib" else "demo" if kind == "unity" else kind
    export_replay(folder / "kept", folder / f"out.{suffix}", force=True)
    return (folder / f"out.{suffix}").read_bytes()


@cache
def scratch() -> Path:
    import tempfile

    return Path(tempfile.mkdtemp(prefix="rookery-fuzz-bases-"))


@cache
def npz_files() -> dict[str, bytes]:
    packed = io.BytesIO()
    np.savez_compressed(packed, **columns())
    return {"foreign.npz": packed.getvalue(), "own.npz": exported(scratch(), "npz", PARTS, THROTTLE),
            "choice.npz": exported(scratch(), "npz")}  # fmt: skip


@cache
def hdf5_files() -> dict[str, bytes]:
    import h5py

    found = {}
    for name, packing in {"plain": {}, "packed": {"compression": "gzip", "chunks": True, "shuffle": True}}.items():
        file = io.BytesIO()
        with h5py.File(file, "w") as opened:
            for column, array in columns().items():
                opened.create_dataset(column, data=array, **packing)
            opened["infos/qpos"] = np.zeros((60, 2))
            opened["metadata/algorithm"] = "SAC"
        found[f"{name}.hdf5"] = file.getvalue()
    return found


@cache
def demo_files() -> dict[str, bytes]:
    return {"point.demo": exported(scratch(), "unity"), "parts.demo": exported(scratch(), "unity", PARTS, THROTTLE)}


@cache
def csv_files() -> dict[str, bytes]:
    lines = [b"%d,0.5,%d,1,%d,%d\n" % (row, row % 2, row % 5 == 4, row) for row in range(20)]
    return {
        "choice.csv": exported(scratch(), "csv"),
        "throttle.csv": exported(scratch(), "csv", POINT, THROTTLE),
        "foreign.csv": b"obs_0,obs_1,action,reward,done,time\n" + b"".join(lines),
    }


@cache
def rllib_files() -> dict[str, bytes]:
    from rookery.replay.formats.packed import pack

    plain = exported(scratch(), "rllib", POINT, THROTTLE)
    lines = [json.loads(line) for line in plain.splitlines()]
    packed = [{key: pack(one) if key in ("obs", "new_obs") else one for key, one in line.items()} for line in lines]
    several = [{"type": "MultiAgentBatch", "count": 6, "policy_batches": {"a": lines[0], "b": lines[1]}}]
    return {"choice.json": exported(scratch(), "rllib"), "plain.json": plain,
            "packed.json": "\n".join(map(json.dumps, packed)).encode(),
            "several.json": "\n".join(map(json.dumps, several)).encode()}  # fmt: skip


@cache
def parquet_files() -> dict[str, bytes]:
    import pyarrow
    import pyarrow.parquet

    file = io.BytesIO()
    flat = {"episode": ["a"] * 5 + ["b"] * 5, "obs": [[0.5, 1.0]] * 10, "action": [0, 1] * 5, "reward": [1.0] * 10}
    pyarrow.parquet.write_table(pyarrow.table(flat), file)
    return {"choice.parquet": exported(scratch(), "parquet"), "lists.parquet": file.getvalue(),
            "parts.parquet": exported(scratch(), "parquet", POINT, THROTTLE)}  # fmt: skip


# --- settings ---------------------------------------------------------------------------------------------------------

RUN = b"""env:
  name: CartPole-v1
  config: {render_mode: null}
algorithm: &ppo
  name: ppo
  lr: {start: 3.0e-4, end: 0.0}
  gamma: 0.99
  model: {hidden: [64, 64], activation: tanh}
  minibatch_size: 64
policies:
  main: {lr: 1e-3}
  other: {<<: *ppo}
seed: 1
stop: {env_steps: 1000}
sampling: {num_envs: 4}
"""
BEHAVIORS = b"""default_settings: &base
  trainer_type: ppo
  hyperparameters: {batch_size: 64, buffer_size: 2048, learning_rate: 3.0e-4, beta: 5.0e-3}
  network_settings: {hidden_units: 128, num_layers: 2, normalize: true}
behaviors:
  Ball:
    <<: *base
    max_steps: 5.0e5
    time_horizon: 64
    reward_signals: {extrinsic: {gamma: 0.99, strength: 1.0}}
environment_parameters:
  mass: {sampler_type: uniform, sampler_parameters: {min_value: 0.5, max_value: 10}}
  goal:
    curriculum:
      - name: first
        completion_criteria: {measure: reward, behavior: Ball, threshold: 0.5, min_lesson_length: 100}
        value: 1.0
      - {name: last, value: 2.0}
"""
OLD = b"""default:
    trainer: ppo
    batch_size: 1024
    beta: 5.0e-3
    reward_signals:
        extrinsic: {strength: 1.0, gamma: 0.99}
Ball:
    normalize: true
    batch_size: 64
    summary_freq: 12000
    trainer: ppo
"""
SPACES = b"""agents:
  goalie: {obs: {box: [8], low: -1, high: [1, 1, 1, 1, 1, 1, 1, 1]}, action: {discrete: 3, start: 1}}
  walker#:
    obs: {dict: {near: {box: [6], dtype: float32}, camera: {box: [8, 8, 3], low: 0, high: 255, dtype: uint8}}}
    action: {tuple: [{multi_discrete: [3, 2]}, {multi_binary: 4}]}
  json:
    obs: {kind: Box, low: [0.0], high: [1.0], shape: [3], dtype: float32}
    action: {kind: Discrete, n: 2, start: 0, dtype: int64}
parameters: {wind: [0.0, -1.0, 1.0], mass: 2.0}
"""


def yaml_files() -> dict[str, bytes]:
    return {"run.yaml": RUN, "behaviors.yml": BEHAVIORS, "old.yaml2": OLD, "spaces.yaml3": SPACES}


def read_settings(path: Path) -> None:
    """Reads a file as what it once was, as far as a command does before anything is made."""
    from rookery.algorithms.names import ALGORITHMS
    from rookery.cli.external import space_values
    from rookery.core.config import resolve
    from rookery.core.settings.layers import yaml_layer
    from rookery.run.settings import RunConfig
    from rookery_mlagents.files.run_options import read_options
    from rookery_mlagents.old.convert import converted_files

    if path.suffix == ".yaml":
        resolve(RunConfig, [yaml_layer(path)], ALGORITHMS).to_yaml()
    elif path.suffix == ".yml":
        read_options(path, {})
    elif path.suffix == ".yaml2":
        converted_files(path, None, None, lesson=None, version=None, agents=[], demo=None, words=[])
    else:
        space_values(path)


# --- what Rookery writes ----------------------------------------------------------------------------------------------


@cache
def replay_files() -> dict[str, bytes]:
    write_recordings(scratch() / "own", {"main": recording(PARTS, CHOICE, lengths=(6, 1, 4))}, replace=True)
    (segment,) = (scratch() / "own").glob("*.safetensors")
    return {"segment.safetensors": segment.read_bytes()}


def read_segment(path: Path) -> None:
    """Reads a directory of replay whose manifest has the right hashes of a damaged file."""
    (segment,) = (scratch() / "own").glob("*.safetensors")
    folder = with_file(scratch() / "own", path.parent / "damaged", segment.name, path.read_bytes())
    recording_of(find_replay(folder))


def with_file(own: Path, folder: Path, name: str, content: bytes) -> Path:
    """Copies a directory that Rookery wrote, with another file whose hash is right, as its author could."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(own, folder)
    (folder / name).write_bytes(content)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"][name] |= {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    manifest.pop("signature", None)
    write_manifest(folder, manifest)
    return folder


@cache
def policy_checkpoint() -> Path:
    from served import checkpoint, policy

    return checkpoint(scratch() / "run", 1, policy(normalize_obs=True))


@cache
def checkpoint_files() -> dict[str, bytes]:
    return {name: (policy_checkpoint() / name).read_bytes() for name in ("policies.json", "policies.safetensors")}


def mutate_checkpoint(content: bytes, rng: random.Random) -> bytes:
    """Damages JSON as a text and arrays as bytes."""
    return mutate_text(content, rng) if content[:1] == b"{" else mutate_bytes(content, rng)


def read_checkpoint(path: Path) -> None:
    """Loads the policy of a checkpoint whose manifest has the right hashes of a damaged file."""
    from rookery.native.actor import load_policy

    name = "policies.json" if path.suffix == ".json" else "policies.safetensors"
    load_policy(with_file(policy_checkpoint(), path.parent / "damaged", name, path.read_bytes()))


@cache
def journal_files() -> dict[str, bytes]:
    begin = {"kind": "experiment", "version": 1}
    from rookery.tune import journal

    begin |= {name: {} for name in journal.BEGINNING} | {"version": journal.VERSION, "kind": "experiment"}
    trial = {"kind": "trial", "trial": "t0", "number": 0, "folder": "t0", "params": {"algorithm.lr": 0.1}, "seed": 1,
             "actions": {}}  # fmt: skip
    rows = [
        {"kind": "begin", "trial": "t0"},
        {
            "kind": "result",
            "trial": "t0",
            "iteration": 1,
            "row": {"loss": 0.5},
            "reason": "",
            "actions": {"t0": "go on"},
        },
        {"kind": "told", "number": 0},
        {"kind": "exhausted"},
    ]
    return {"journal.jsonl": "".join(json.dumps(one) + "\n" for one in (begin, trial, *rows)).encode()}


def read_journal(path: Path) -> None:
    """Reads the journal of an experiment in a folder called damaged."""
    from rookery.tune import journal

    folder = path.parent / "damaged"
    folder.mkdir(exist_ok=True)
    (folder / journal.FILE).write_bytes(path.read_bytes())
    journal.ExperimentState.of(folder, journal.read(folder))


@cache
def onnx_files() -> dict[str, bytes]:
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    weight = numpy_helper.from_array(np.ones((3, 2), np.float32), "w")
    nodes = [helper.make_node("MatMul", ["obs", "w"], ["hidden"]), helper.make_node("Tanh", ["hidden"], ["action"])]
    graph = helper.make_graph(
        nodes,
        "policy",
        [helper.make_tensor_value_info("obs", TensorProto.FLOAT, ["batch", 3])],
        [helper.make_tensor_value_info("action", TensorProto.FLOAT, ["batch", 2])],
        [weight],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    return {"policy.onnx": model.SerializeToString()}


def read_onnx(path: Path) -> None:
    """Checks a file as ``rookery check-onnx`` does."""
    import typer

    from rookery.cli.onnx.check_onnx import check_onnx

    with suppress(typer.Exit):  # problems were printed
        check_onnx(path)


GROUPS = {
    group.name: group
    for group in (
        Group("yaml", yaml_files, mutate_text, read_settings, 2000),
        Group("hdf5", hdf5_files, mutate_bytes, as_replay, 1500, ("h5py",)),
        Group("npz", npz_files, mutate_zip, as_replay, 1500),
        Group("json", rllib_files, mutate_text, as_replay, 1500),
        Group("csv", csv_files, mutate_text, as_replay, 1000),
        Group("demo", demo_files, mutate_bytes, as_replay, 1000),
        Group("parquet", parquet_files, mutate_bytes, as_replay, 1000, ("pyarrow",)),
        Group("onnx", onnx_files, mutate_bytes, read_onnx, 500, ("onnx", "onnxruntime")),
        Group("replay", replay_files, mutate_bytes, read_segment, 500),
        Group("checkpoint", checkpoint_files, mutate_checkpoint, read_checkpoint, 500),
        Group("journal", journal_files, mutate_text, read_journal, 500),
    )
}
