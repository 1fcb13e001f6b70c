"""A mistake in a command: exit code 2, an error that names it and what is meant instead, and nothing is written."""

from __future__ import annotations

import shlex

import pytest
from commands import TINY

MEMORY = "train StatelessCartPole algorithm.model.memory"
CART = "train CartPole-v1"

ALONE = [
    ("trian", "Did you mean 'train'?"),
    ("config schema -o nowhere/x.json", "error: -o nowhere/x.json: the file cannot be"),
    ("resume nowhere", "nowhere"),
    # envs
    ("envs chek", "Did you mean 'check'?"),
    ("envs check CartPole-v1 lenght=3", "lenght = 3: there is no such setting"),
    ("envs new --c my-env", "my-env.c: 'my-env' is not a name of a module"),
    ("envs new --c nowhere/my_env", "nowhere/my_env.c: there is no folder nowhere"),
    ("envs new my-env", "is not a name of a module: use letters, digits and _"),
    # train: the environment
    ("train", "error: command line: the environment is missing: rookery train CartPole-v1"),
    ("train algorithm.lr=1e-3", "the environment is missing"),
    ("train Cartpole-v1", "did you mean 'CartPole-v1'?"),
    ("train CartPole-v9", "error: env 'CartPole-v9' is not a Gymnasium id; did you mean 'CartPole-v1'?"),
    (f"{CART} Acrobot-v1", "'CartPole-v1' is the environment, and 'Acrobot-v1' is neither a .yaml file nor PATH=VALUE"),
    # train: settings
    (f"{CART} algorithm.gama=0.9", "algorithm.gama = 0.9: there is no such setting; did you mean 'algorithm.gamma'?"),
    (f"{CART} gamme=0.1", "command line: gamme = 0.1: there is no such setting; did you mean 'algorithm.gamma'?"),
    (
        f"{CART} sampling.num_envs=many",
        "command line: sampling.num_envs = 'many': must be a whole number of at",
    ),
    (f"{CART} algorithm.lr=-1", "command line: algorithm.lr = -1: must be a number above 0 or a schedule of it"),
    (f"{CART} algorithm.gamma=1.5", "command line: algorithm.gamma = 1.5: must be a number from 0 to 1"),
    (f"{CART} 'policies={{a: {{}}, b: {{}}}}'", "policy_mapping is missing"),
    (f"{CART} policies.main.init_from=nowhere", "there is no such run or checkpoint"),
    (f"{CART} policy_mapping=main", "must be a dict from agent to policy"),
    (f"{CART} algorithm.lr", "'algorithm.lr' is neither a .yaml file nor PATH=VALUE"),
    (f"{CART} =3", "command line: '=3' must be path=value, for example algorithm.lr=3e-4"),
    (f"{CART} algorithm..lr=3", "must be path=value"),
    (f"{CART} algorithm.lr={{", "the value is not YAML"),
    (f"{CART} nowhere.yaml", "nowhere.yaml: there is no such file"),
    (f"{MEMORY}.kind=lsmt", "lstm"),
    (f"{MEMORY}.knd=lstm", "kind"),
    (f"{MEMORY}.kind=attention algorithm.model.memory.size=10", "4 heads cannot share"),
    (f"{MEMORY}.kind=lstm algorithm.name=reinforce", "use ppo, ppo_lagrangian, a2c, impala, appo, dqn or sac"),
    # train: options
    (f"{CART} --num-envs 0", "command line: sampling.num_envs = 0: must be a whole number of at least 1"),
    (f"{CART} --seed -1", "command line: seed = -1: must be a whole number of at least 0 or null"),
    (f"{CART} --algo pppo", "discrete_cql, td3bc, awac, dt; did you mean 'ppo'?"),
    (f"{CART} --algo no.such:Config", "there is no module 'no'"),
    (f"{CART} --preset CartPole", "preset = 'CartPole': there is none of that name; use auto, none or one of "),
    (f"{CART} --preset cartpole", "did you mean 'CartPole-v1'?"),
    (f"{CART} --stop return_mean", "--stop 'return_mean' must be METRIC=NUMBER, for example --stop return_mean=475"),
    (f"{CART} --stop return_mean=high", "must be METRIC=NUMBER"),
    (f"{CART} --run-id ../x", "must be made of letters, digits"),
    (f"{CART} --quiet --plain", "command line: --quiet and --plain exclude each other"),
    (f"{CART} --json --plain", "command line: --plain and --json exclude each other"),
    # bench
    ("bench CartPole-v9", "CartPole-v9"),
    ("bench CartPole-v1 Acrobot-v1", "'Acrobot-v1'"),
    ("bench --workers 2", "rookery bench --plan ENV --workers 2"),
    ("bench --plan --workers 0", "--workers 0: '0' is not a number of workers; write numbers from 1 on with commas"),
    ("bench --plan --workers 1,many", "'many' is not a number of workers"),
    ("bench --plan --workers ''", "'' is not a number of workers"),
    ("bench --plan --learners -1", "--learners -1: '-1' is not a number of learners"),
    ("bench --plan --workers 16", "16 workers cannot share sampling.num_envs = 8: set sampling.num_envs=16"),
    ("bench --plan --learners 3", "3 learners cannot share sampling.num_envs = 8 equally: set"),
    ("bench --plan --envs-per-worker 0", "--envs-per-worker 0: must be 1 or more"),
    ("bench --plan --machines 0", "--machines 0: must be 1 or more"),
    ("bench --plan --gigabits 0", "--gigabits 0: must be above 0"),
    ("bench --plan --latency -1", "--latency -1: must be 0 or more"),
    ("bench --plan Acrobat-v1", "Acrobot-v1"),
]

ENVIRONMENTS = [
    ("train my.module:MyEnv", "there is no module 'my'"),
    (f"{CART} env.implementation=batched 'env.config={{gravity: 3}}'", "'batched' cannot be used"),
    (f"{CART} env.config.gravity=3", "gravity"),
]


def check(rookery, command, expected, code=2):
    found, out, err = rookery(*shlex.split(command))
    assert (found, out) == (code, ""), out + err
    assert "Traceback" not in err
    assert expected in " ".join(err.split()), err


@pytest.mark.parametrize(("command", "expected"), ALONE)
def test_a_mistake_is_named_and_nothing_is_written(rookery, tmp_path, command, expected):
    check(rookery, command, expected)
    assert list(tmp_path.iterdir()) == []


WITH_RUNS = [
    ("export carts --unity", "there is no such run; did you mean 'cart'?"),
    (
        "learn runs/cart/config.yaml",
        "config.yaml: is a file, and not the directory of a run; files of settings are for rookery train",
    ),
    ("timers runs", "runs: this is not the directory of a run (there is no config.yaml in it)"),
    ("explain cart gamme", "gamme: there is no such setting; did you mean 'algorithm.gamma'"),
    ("explain cart algorithm.gama", "algorithm.gama: there is no such setting; did you mean 'algorithm.gamma'?"),
    ("record cart -o film.avi", "error: film.avi: a video is one of .webp, .gif, .png, .mp4, by its suffix"),
    (f"{CART} {' '.join(TINY)} --stop retrun_mean=3 --quiet", "stop.retrun_mean: this run has no such metric"),
    (
        "plot cart --metric return_maen",
        "it has no such metric; the nearest are return_mean, ",
    ),
    ("plot cart --x step", "command line: --x step: must be one of env_steps, seconds, episodes, gradient_steps; did"),
    ("plot cart -o picture.xyz", "-o picture.xyz: cannot be written: Format 'xyz' is not supported"),
    ("check-onnx runs/cart/main.onnx", "there is no such file"),
    ("export cart", "choose the format: --unity, or --onnx"),
    ("export cart --unity --onnx", "choose the format"),
    ("export cart --onnx --version 2", "--version is an option of --unity"),
    ("export cart --unity --opset 16", "opset 16: must be 9 to 15"),
    ("export cart --unity --version 1", "version 1: models of ML-Agents have version 2 or 3"),
    ("export arena --unity --policy pol", "--policy pol: there are pol1, pol2 in runs/arena/checkpoints/"),
    ("export arena --unity --out x.onnx", "one file cannot hold several policies (pol1, pol2): add --policy pol1"),
    ("export cart --unity --out runs", "this is a folder; name a file in it"),
]


@pytest.mark.parametrize(("command", "expected"), ENVIRONMENTS)
def test_an_environment_that_cannot_be_made_ends_with_1(rookery, tmp_path, command, expected):
    check(rookery, command, expected, code=1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("command", "expected"), WITH_RUNS)
def test_a_mistake_about_a_run_is_named(rookery, runs, command, expected):
    check(rookery, command, expected)
