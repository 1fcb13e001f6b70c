"""``rookery envs new --c`` and ``build``, and what they write, from the command line to training."""

import os
import subprocess
import sys

import pytest

from rookery.envs.native.compiler import find_compiler
from rookery.envs.native.library import CLibrary

needs_compiler = pytest.mark.skipif(not find_compiler(), reason="no C compiler")

TRAIN = ["--preset", "none", "--quiet", "sampling.num_envs=4", "algorithm.fragment_length=16", "--stop", "iterations=2"]


def test_new_writes_an_environment_and_its_test_and_overwrites_neither(rookery, tmp_path):
    code, out, _ = rookery("envs", "new", "--c", "my_env")
    assert code == 0 and out.startswith("wrote my_env.c and test_my_env.py\n") and "rookery train my_env.c" in out
    text = (tmp_path / "my_env.c").read_text()
    assert "rookery envs build my_env.c" in text and '.name = "my_env"' in text and "ENVIRONMENT" not in text
    for name in ("my_env", "my_env.c"):
        code, _, err = rookery("envs", "new", "--c", name)
        assert code == 2 and "my_env.c exists already; nothing was written: choose another name" in err
    assert (tmp_path / "my_env.c").read_text() == text


@needs_compiler
def test_what_new_writes_trains_and_is_built_into_a_library_that_trains_too(rookery, tmp_path):
    rookery("envs", "new", "--c", "my_env")
    code, _, err = rookery("train", "my_env.c", "--run-id", "one", *TRAIN)
    assert code == 0, err
    code, out, _ = rookery("envs", "build", "my_env.c")
    assert code == 0 and "-ffp-contract=off" in out and out.endswith("wrote my_env.so\n")
    assert CLibrary(tmp_path / "my_env.so", tmp_path / "my_env.so").name == "my_env"
    code, _, err = rookery("evaluate", "one", "--episodes", 2, "--env", "my_env.so")
    assert code == 0, err


@needs_compiler
def test_a_mistake_in_c_is_one_error_of_the_command(rookery, tmp_path):
    (tmp_path / "odd.c").write_text("int answer = forty_two;\n")
    code, out, err = rookery("train", "odd.c", *TRAIN)
    assert code == 1 and "odd.c: the compiler refuses it:" in err and "Traceback" not in out + err


@pytest.mark.slow
@needs_compiler
def test_the_test_that_new_writes_passes(rookery, tmp_path):
    rookery("envs", "new", "--c", "my_env")
    path = os.pathsep.join(map(os.path.abspath, sys.path))  # of this Rookery, wherever it lies
    command = [sys.executable, "-m", "pytest", "-q", "test_my_env.py"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, env={**os.environ, "PYTHONPATH": path})
    assert run.returncode == 0, run.stdout.decode()


@pytest.mark.slow
@needs_compiler
def test_what_new_writes_is_learned(tmp_path):
    from rookery import PPOConfig, Trainer
    from rookery.envs.native.template_files import write_template

    source, _ = write_template(tmp_path / "my_env")
    with Trainer(str(source), PPOConfig(), num_envs=32, seed=0) as trainer:
        result = trainer.train(stop={"return_mean": 10, "env_steps": 300_000})
        assert result.return_mean >= 10, result.return_mean  # falling freely earns about -50
