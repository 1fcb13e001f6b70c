"""Self-play in simulated players: games of turns, whose second team appears with its first turn."""

import json
from pathlib import Path

import pytest

FILE = """
behaviors:
  Player:
    trainer_type: ppo
    hyperparameters: {batch_size: 64, buffer_size: 256}
    network_settings: {hidden_units: 16, num_layers: 1}
    max_steps: 1000
    summary_freq: 500
    self_play: {save_steps: 300, team_change: 300, swap_steps: 100, window: 5}
"""
TEAMS = ("--behavior", "x*=Player?team=0", "--behavior", "o*=Player?team=1", "--num-areas", 4)


@pytest.fixture
def learn(rookery, game, tmp_path):
    """Trains in a player; gives what was printed and the rows of metrics."""

    def trained(env, *options):
        (tmp_path / "p.yaml").write_text(FILE)
        path = game(*options, env=env)
        words = ["--env", path, "--run-id", "s", "--seed", 1, "--base-port", 25840]
        code, _, error = rookery("mlagents", "learn", tmp_path / "p.yaml", *words)
        assert code == 0, error
        rows = [json.loads(line) for line in Path("results/s/metrics.jsonl").read_text().splitlines()]
        return error, rows

    return trained


def test_the_second_team_of_a_game_of_turns_is_the_opponent(learn):
    error, rows = learn("rookery.tasks:TicTacToe", *TEAMS)
    assert "has shown one team" not in error
    assert rows[-1]["self_play/Player/games"] > 50 and rows[-1]["self_play/Player/snapshots"] > 2
    assert rows[-1]["self_play/Player/rating"] != 1200.0
    played = {key.split("/")[1] for row in rows for key in row if key.startswith("agents/")}
    assert {name.partition("?")[2] for name in played} == {"team=0", "team=1"}


def test_without_a_second_team_a_note_names_the_remedy(learn):
    error, rows = learn("rookery.tasks:Basic", "--behavior", "*=Player", "--num-areas", 4)
    assert "self_play: Game has shown one team, team=0, so there was no game and no opponent" in error
    assert rows[-1]["policies/Player/decisions"] >= 1000 and rows[-1]["self_play/Player/games"] == 0
