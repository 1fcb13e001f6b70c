"""Forty command lines of a newcomer, mistakes included, in one fresh folder: exit code and first line of each."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

LINES = [
    ("", 0, r"Usage: rookery \[OPTIONS\] COMMAND"),
    ("--help", 0, r"Usage: rookery \[OPTIONS\] COMMAND"),
    ("--version", 0, r"rookery \d+\.\d+\.\d+"),
    ("trian CartPole-v1", 2, r"Error: No such command 'trian'. Did you mean 'train'\?"),
    ("train", 2, r"error: command line: the environment is missing: rookery train CartPole-v1"),
    ("train CartPol-v1", 2, r"error: env 'CartPol-v1' is not a Gymnasium id; did you mean 'CartPole-v1'\?"),
    ("train CartPole-v1 --algoo ppo", 2, r"Error: No such option: --algoo.*--algo"),
    ("train CartPole-v1 --algo pppo", 2, r"error: command line: algorithm.name = 'pppo': no such name"),
    ("train CartPole-v1 lrr=1e-3", 2, r"error: command line: lrr = 0.001: there is no such setting; did you mean"),
    ("train CartPole-v1 algorithm.lr=fast", 2, r"error: command line: algorithm.lr = 'fast': must be a number above 0"),
    ("train CartPole-v1 --stop reward=475", 2, r"error: command line: stop.reward: this run has no such metric"),
    ("envs", 0, r"Rookery$"),
    ("algos", 0, r"algorithm "),
    ("config show lr", 0, r"algorithm.lr"),
    ("config show algorithm.lr", 0, r"algorithm.lr"),
    ("config show algorithm.model --algo sac", 0, r"algorithm.model"),
    ("config schema -o schema.json", 0, r"written: schema.json"),
    ("train CartPole-v1 --run-id cart --seed 1 --stop env_steps=4000", 0, r"CartPole-v1"),
    ("train CartPole-v1 --run-id cart", 2, r"error: command line: --run-id cart: runs/cart exists; rookery resume"),
    ("train CartPole-v1 lr=2e-3 --run-id fast --seed 2 --stop env_steps=4000", 0, r"CartPole-v1: loading"),
    ("resume cart --stop env_steps=6000", 0, r"runs/cart: loading PyTorch"),
    ("evaluate cart --episodes 5", 0, r"return "),
    ("evaluate crat", 2, r"error: crat: there is no such run; did you mean 'cart'\?"),
    ("diff cart fast", 0, r"settings: \d+ differ"),
    ("explain cart algorithm.lr", 0, r"algorithm.lr = "),
    ("explain cart weights", 0, r"weights change in \S+core/optim.py:\d+ gradient_step"),
    ("timers cart", 0, r" +seconds +share +calls"),
    ("plot cart fast -o curves.png", 0, r"curves.png: "),
    ("plot cart --metric retrun_mean", 2, r"error: .*retrun_mean: it has no such metric; the nearest are return_mean"),
    ("plot cart --list", 0, r"iteration +\d+"),
    ("record cart -o video.webp --seconds 2", 0, r"return "),
    ("export cart --onnx -o policy.onnx", 0, r"policy.onnx: policy main"),
    ("check-onnx policy.onnx", 0, r"file +policy.onnx, [\d,]+ bytes"),
    ("match cart fast --games 2", 2, r"error: .*it has one agent, so there is no opponent"),
    ("train CartPole-v1 --algo dqn --run-id dqn --seed 1 --stop env_steps=3000", 0, r"CartPole-v1"),
    ("replay show dqn", 0, r"runs/dqn/checkpoints/\d+:main"),
    ("replay export dqn -o dqn.npz", 0, r"dqn.npz: [\d,]+ decisions"),
    ("evaluate cart --replay dqn", 0, r"policy +main of runs/cart"),
    ("learn dqn --gradient-steps 20", 0, r"learning from replay alone"),
    ("init corner", 0, r"wrote corner/corner.py"),
    ("envs check corner.corner:Corner", 0, r"corner.corner:Corner"),
    (
        "tune CartPole-v1 'lr={loguniform: [1e-4, 1e-2]}' -n 2 --stop env_steps=1000 --name search",
        0,
        r"CartPole-v1-ppo, 2 trials, in ",
    ),
    ("tune show search", 0, r"2 trials: 2 TERMINATED"),
    ("serve nothing", 2, r"error: nothing: there is no such run; the newest are"),
]
"""A command line, its exit code, and the start of its first line; that of a mistake is on standard error."""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_forty_commands_of_a_newcomer(tmp_path):
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "100"}
    code = "import sys; sys.argv[0] = 'rookery'\nfrom rookery.cli.main import program; program()"
    wrong = []
    for line, exit_code, first in LINES:
        words = [sys.executable, "-c", code, *shlex.split(line)]
        done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, env=environ)
        lines = [text for text in (done.stderr if exit_code else done.stdout).splitlines() if text.strip()]
        if exit_code and lines[:1] and lines[0].startswith("Usage:"):
            lines = [text for text in lines if text.startswith("Error")]
        if done.returncode != exit_code or not lines or not re.match(first, lines[0]):
            wrong.append(f"rookery {line}\n  {done.returncode}: {done.stdout[:300]}{done.stderr[-500:]}")
    assert not wrong, "\n".join(wrong)
    assert len(LINES) >= 40
