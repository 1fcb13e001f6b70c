"""``rookery train external:PORT``: output, place of the token, refusals, and a resumed run."""

import json
import socket
import threading

import numpy as np
import pytest
from typer.testing import CliRunner

from rookery import Client, EpisodeLost, TrainingOver
from rookery.cli.main import app
from rookery.core.errors import RookeryError

SPACES = """\
obs:
  box: [2]
action: {discrete: 2}
parameters: {weight: [1.0, 0.5, 2.0]}
"""


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return sock.getsockname()[1]


def play(port, file, seen, over):
    """Plays until the training is over, and from the beginning with the next one."""
    while not over.is_set():
        if not file.exists():
            over.wait(0.02)
            continue
        try:
            client = Client(f"127.0.0.1:{port}", file.read_text().strip(), timeout=0.2, quiet=True)
            while True:
                try:
                    episode = client.start_episode()
                    seen.append(client.plan(episode))
                    for _ in range(5):
                        client.get_action(episode, np.zeros(2))
                        client.log_returns(episode, 1.0)
                    client.end_episode(episode)
                except EpisodeLost:
                    pass
        except (TrainingOver, ConnectionError):
            pass


def run(*arguments):
    result = CliRunner().invoke(app, list(map(str, arguments)))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.mark.slow
def test_a_training_with_clients_says_where_it_waits_and_goes_on_later(tmp_path, monkeypatch):
    monkeypatch.delenv("ROOKERY_TOKEN", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spaces.yaml").write_text(SPACES)
    port, seen, over = free_port(), [], threading.Event()
    token = tmp_path / "runs" / "one" / "token"
    thread = threading.Thread(target=play, args=(port, token, seen, over))
    thread.start()
    try:
        options = ("algorithm.fragment_length=16", "algorithm.epochs=1", "algorithm.minibatch_size=16")
        told = run("train", f"external:{port}", "--spaces", "spaces.yaml", "--algo", "ppo", "--seed", 1,
                   "--run-id", "one", "--plain", "--evaluate", 3, "--num-envs", 2, "--stop", "env_steps=100",
                   "env.parameters.weight={sampler: uniform, low: 0.5, high: 2}", *options)  # fmt: skip
        assert told.exit_code == 0, told.output
        assert told.output.count(f"waiting for clients at 127.0.0.1:{port}, token in {token}") == 1
        outcome = json.loads((tmp_path / "runs/one/result.json").read_text())
        assert outcome["evaluation"]["returns"] == [5.0] * 3 and outcome["final"]["return_mean"] == 5.0
        assert token.stat().st_mode & 0o777 == 0o600
        assert token.read_text().strip() not in (tmp_path / "runs/one/config.yaml").read_text()
        drawn = {plan["parameters"]["weight"] for plan in seen}
        assert len(drawn) > 5 and all(0.5 <= weight <= 2 for weight in drawn)
        assert len({plan["seed"] for plan in seen}) > 5
        before = token.read_text()
        again = run("resume", tmp_path / "runs" / "one", "--stop", "env_steps=200")
        assert again.exit_code == 0, again.output
        assert token.read_text() == before
        assert json.loads((tmp_path / "runs/one/result.json").read_text())["final"]["env_steps"] >= 200
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("obs: {box: [2]}\naction: {discret: 2}\n", r"spaces.yaml:2: spaces.action: .*did you mean 'discrete'"),
        (
            "obs:\n  box: [2]\n  hig: 1\naction: {discrete: 2}\n",
            r"spaces.yaml:3: spaces.obs.hig: .*did you mean 'high'",
        ),
        ("agents:\n  a:\n    obs: {box: 2}\n", r"spaces.yaml:2: spaces.agents.a.action is missing"),
        ("", "the spaces of the agents are missing"),
        ("obs: [", "spaces.yaml:.*not YAML"),
    ],
)
def test_spaces_that_are_wrong_are_refused_with_their_line(text, wanted, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spaces.yaml").write_text(text)
    with pytest.raises(RookeryError, match=wanted):
        run("train", "external:1", "--spaces", "spaces.yaml")
    assert not (tmp_path / "runs").exists()


def test_spaces_that_are_nowhere_are_asked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RookeryError, match="there is no such file"):
        run("train", "external:1", "--spaces", "none.yaml")
    with pytest.raises(RookeryError, match="are missing: --spaces FILE"):
        run("train", "external:1", "--seed", 1)
    assert not (tmp_path / "runs").exists()
