"""Capabilities of devices, and transfers to them and back."""

import shutil
import sysconfig

import pytest
import torch

from rookery import A2CConfig, APPOConfig, IMPALAConfig, ModelConfig, PPOConfig, ReinforceConfig, Trainer
from rookery.core.batch import Rollout
from rookery.core.device import Staging, check_compiler, check_device, devices, has_bfloat16, staging_to
from rookery.core.errors import ConfigError

CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="no graphics card")


def rollout(steps=3, fragments=2):
    generator = torch.Generator().manual_seed(steps)
    flags = torch.zeros(steps, fragments, dtype=torch.bool)
    numbers = torch.arange(fragments)
    return Rollout(
        obs={"a/b": torch.randint(0, 255, (steps, fragments, 4), dtype=torch.uint8, generator=generator)},
        action=torch.randn(steps, fragments, 2, generator=generator),
        logp=torch.randn(steps, fragments, generator=generator),
        reward=torch.randn(steps, fragments, generator=generator),
        terminated=flags,
        truncated=flags,
        last_obs={"a/b": torch.ones(fragments, 4, dtype=torch.uint8)},
        final_obs={"a/b": torch.ones(0, 4, dtype=torch.uint8)},
        boot_index=torch.zeros(0, 2, dtype=torch.int64),
        slot=numbers,
        clock=numbers,
        length=torch.full((fragments,), steps),
        first=torch.ones(fragments, dtype=torch.bool),
        version=numbers,
    )


def tensors(of):
    """All tensors of a rollout, by name."""
    found = {}
    for name, part in vars(of).items():
        found |= {f"{name}/{path}": leaf for path, leaf in part.items()} if isinstance(part, dict) else {name: part}
    return found


def test_a_rollout_that_was_played_on_the_device_is_not_moved():
    there = rollout().map(lambda _, tensor: tensor.to("meta"))
    assert Staging(torch.device("meta")).send_rollout(there) is there


def test_the_processor_is_always_there():
    check_device("cpu")
    assert isinstance(has_bfloat16("cpu"), bool)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a graphics card")
def test_a_missing_graphics_card_is_told(monkeypatch):
    monkeypatch.setattr(torch.backends.cuda, "is_built", lambda: False)
    with pytest.raises(ConfigError, match="device = 'cuda': torch .* was built without CUDA; use device: cpu"):
        check_device("cuda")
    monkeypatch.setattr(torch.backends.cuda, "is_built", lambda: True)
    with pytest.raises(ConfigError, match="torch .* finds no GPU; use device: cpu, or check whether nvidia-smi"):
        check_device("cuda")


def with_devices(monkeypatch, gpus, mps):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)


@pytest.mark.parametrize(
    ("gpus", "mps", "there"),
    [
        (0, False, ["cpu"]),
        (0, True, ["mps", "cpu"]),
        (2, False, ["cuda", "cuda:0", "cuda:1", "cpu"]),
        (1, True, ["cuda", "cuda:0", "mps", "cpu"]),
    ],
)
def test_devices_are_listed_the_preferred_first_and_others_refused(monkeypatch, gpus, mps, there):
    with_devices(monkeypatch, gpus, mps)
    assert devices() == there
    for device in ("cpu", "cuda", "cuda:0", "cuda:1", "cuda:7", "mps", "gpu", "cuda:", "cpu:0", "CUDA"):
        if device in there:
            check_device(device)
        else:
            with pytest.raises(ConfigError, match=f"device = '{device}'"):
                check_device(device)
    with pytest.raises(ConfigError, match=f"must be auto, cpu, cuda, cuda:N or mps; here are {', '.join(there)}"):
        check_device("gpu")


def test_a_missing_number_and_a_missing_gpu_of_apple_are_refused_with_what_exists(monkeypatch):
    with_devices(monkeypatch, 1, False)
    with pytest.raises(ConfigError, match="no GPU of this number; use one of cuda, cuda:0, cpu"):
        check_device("cuda:1")
    with pytest.raises(ConfigError, match="no GPU of Apple; use one of cuda, cuda:0, cpu"):
        check_device("mps")


def test_auto_chooses_what_exists_and_says_so(monkeypatch, tmp_path):
    with_devices(monkeypatch, 0, False)
    with Trainer("CartPole-v1", device="auto", seed=0, run_dir=tmp_path / "run") as trainer:
        assert trainer.config.device == "cpu" and "device = auto: cpu (here are cpu)" in trainer._notes
        trainer.train_iteration()
        trainer.save()
    with Trainer.load(tmp_path / "run", resume=True) as trainer:
        assert trainer.config.device == "cpu"
    with Trainer("CartPole-v1", seed=0) as trainer:
        assert trainer.config.device == "cpu" and not any("auto" in note for note in trainer._notes)


def test_a_missing_compiler_is_told_before_anything_is_made(monkeypatch):
    compiling = PPOConfig(model=ModelConfig(compile=True))
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(ConfigError, match="model.compile = True: there is no C.. compiler 'no-such-compiler'"):
        Trainer("CartPole-v1", compiling)
    monkeypatch.setattr(shutil, "which", lambda name: name)
    monkeypatch.setattr(sysconfig, "get_path", lambda name: "/nowhere")
    with pytest.raises(ConfigError, match="/nowhere/Python.h is missing; install the headers of Python 3"):
        check_compiler()


def test_on_the_processor_nothing_is_copied():
    assert staging_to(torch.device("cpu")) is None
    assert isinstance(staging_to(torch.device("meta")), Staging)


def test_without_cuda_arrays_are_copied_at_once():
    staging, given = Staging(torch.device("cpu")), torch.arange(6.0).view(2, 3)
    sent = staging.send({"obs": given})["obs"]
    (fetched,) = staging.fetch(sent)
    assert torch.equal(sent, given) and fetched.tolist() == given.tolist()


@CUDA
def test_rollouts_arrive_whole_on_the_card():
    staging = Staging(torch.device("cuda"))
    for steps in (3, 5, 2):  # the page-locked memory grows, and serves again
        given = rollout(steps)
        there = tensors(staging.send_rollout(given))
        for name, tensor in tensors(given).items():
            assert there[name].is_cuda, name
            assert torch.equal(there[name].cpu(), tensor), name


@CUDA
@pytest.mark.parametrize(
    "cfg",
    [PPOConfig(fragment_length=16), A2CConfig(), IMPALAConfig(), APPOConfig(), ReinforceConfig(rollout_size=200)],
)
def test_algorithms_learn_on_the_card(cfg):
    with Trainer("CartPole-v1", cfg, seed=0, device="cuda") as trainer:
        before = [weight.detach().clone() for weight in trainer.policies["main"].parameters()]
        trainer.train_iteration()
        after = list(trainer.policies["main"].parameters())
        assert all(weight.is_cuda for weight in after)
        assert any(not torch.equal(*pair) for pair in zip(before, after, strict=True))


@CUDA
def test_what_was_sent_is_what_comes_back():
    staging = Staging(torch.device("cuda"))
    for number in range(20):
        sent = staging.send({"obs": torch.full((1000,), number)})["obs"]
        first, second = staging.fetch(sent, sent + 1)
        assert (first == number).all() and (second == number + 1).all()


def test_without_the_private_names_in_torch_a_cpu_counts_as_without_bfloat16(monkeypatch):
    for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"):
        monkeypatch.delattr(torch.cpu, name, raising=False)
    assert has_bfloat16("cpu") is False
