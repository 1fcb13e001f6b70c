"""A clone of population-based training: the run directory of one Trainer, taken up with another's last checkpoint."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rookery import CheckpointConfig, DQNConfig, PPOConfig, Trainer
from rookery.core.io.files import FOLDER, last_good
from rookery.core.settings.layers import Layer

PPO = PPOConfig(fragment_length=16, epochs=2, minibatch_size=32, model={"hidden": (16,)})
DQN = DQNConfig(learning_starts=32, model={"hidden": (16,)}, replay={"capacity": 500})


def train(folder: Path, algorithm: Any, lr: float, iterations: int) -> None:
    checkpoints = CheckpointConfig(every=0)
    sizes = {"num_envs": 4, "iteration_steps": 128}
    with Trainer(
        "CartPole-v1", algorithm.replace(lr=lr), seed=5, run_dir=folder, checkpoint=checkpoints, **sizes
    ) as trainer:
        trainer.train(stop={"iterations": iterations})


def adopt(clone: Path, donor: Path) -> None:
    """Replaces the clone's checkpoints by the donor's last one, under hard links."""
    source = last_good(donor / FOLDER)
    assert source is not None
    shutil.rmtree(clone / FOLDER)
    shutil.copytree(source, clone / FOLDER / source.name, copy_function=os.link)


def leaves(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every number, text and array of a state by path; arrays as bytes."""
    if isinstance(tree, dict):
        for key, part in tree.items():
            yield from leaves(part, f"{path}/{key}")
    elif isinstance(tree, list | tuple):
        for i, part in enumerate(tree):
            yield from leaves(part, f"{path}/{i}")
    elif isinstance(tree, torch.Tensor):
        yield path, (tree.dtype, tuple(tree.shape), tree.detach().cpu().contiguous().numpy().tobytes())
    elif isinstance(tree, np.ndarray):
        yield path, (tree.dtype, tree.shape, tree.tobytes())
    else:
        yield path, tree


def state(trainer: Trainer) -> dict[str, Any]:
    return dict(leaves(trainer.state_dict()))


def bytes_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("algorithm", [PPO, DQN], ids=["ppo", "dqn"])
def test_a_clone_is_its_donor_bit_for_bit_until_a_parameter_is_changed(algorithm: Any, tmp_path: Path) -> None:
    donor, clone = tmp_path / "donor", tmp_path / "clone"
    train(donor, algorithm, 1e-3, 4)
    train(clone, algorithm, 5e-3, 3)
    with Trainer.load(donor) as trainer:
        expected, iteration, config = state(trainer), trainer.iteration, trainer.config
    with Trainer.load(clone) as trainer:
        assert state(trainer) != expected
    kept = bytes_in(donor / FOLDER)
    adopt(clone, donor)

    with Trainer.load(clone, resume=True) as trainer:
        found = state(trainer)
        assert found.keys() == expected.keys()
        assert [path for path in found if found[path] != expected[path]] == []
        assert trainer.iteration == iteration == 4
        assert trainer.config == config  # its learning rate too

    params = {"algorithm.lr": 2e-3}
    with Trainer.load(clone, resume=True, config=[Layer("trial 00001", params)]) as trainer:
        changed = state(trainer)
        assert {path for path in changed if changed[path] != expected[path]} <= {
            path for path in changed if path.rsplit("/", 1)[-1] == "lr"
        }
        assert trainer.config.algorithm.replace(lr=1e-3) == config.algorithm
        assert trainer.resolved.history["algorithm.lr"][-1] == ("trial 00001", 2e-3)
        trainer.train(stop={"iterations": 5})
        learned = state(trainer)
    with Trainer.load(donor) as trainer:
        trainer.train(stop={"iterations": 5})
        control = state(trainer)
    weights = [path for path in control if path.startswith("/policies/") and path.endswith("weight")]
    assert weights
    assert any(learned[path] != control[path] for path in weights)  # the change takes effect
    assert bytes_in(donor / FOLDER) == kept  # and not in the donor's files


def test_a_clone_that_goes_on_unchanged_does_what_its_donor_would_have_done(tmp_path: Path) -> None:
    donor, clone = tmp_path / "donor", tmp_path / "clone"
    train(donor, PPO, 1e-3, 4)
    train(clone, PPO, 5e-3, 3)
    adopt(clone, donor)
    ends = []
    for folder in (donor, clone):
        with Trainer.load(folder, resume=True) as trainer:
            trainer.train(stop={"iterations": 6})
            ends.append(state(trainer))
    clocks = [path for path in ends[0] if ends[0][path] != ends[1][path]]
    assert all("time" in path or "second" in path for path in clocks), clocks
