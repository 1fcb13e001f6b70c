"""`rookery elo` and `rookery match`: snapshots rated, runs against each other, mistakes in words."""

import json
import re
import shutil
from types import SimpleNamespace

import pytest
from commands import TINY, train_into

from rookery.cli.games.elo import other_players

PERFECT = "perfect=rookery.tasks.games.players:tic_tac_toe_perfect"

SELF_PLAY = "rookery.tasks:TicTacToe --run-id self --seed 2 --stop env_steps=320 sampling.num_envs=8 --evaluate 0"
SELF_PLAY += " self_play.main.snapshot_every=100 self_play.main.rating_games=2 self_play.main.anchors.chance=random"


@pytest.fixture(scope="session")
def games_folder(tmp_path_factory):
    """Runs of tic-tac-toe: one that plays itself, one without snapshots; a run of connect four; one of one agent."""
    plain = "rookery.tasks:TicTacToe --run-id plain --seed 3 --stop env_steps=16 --evaluate 0"
    opened = plain.replace("--run-id plain", "--run-id opened env.config.random_opening=2")
    four = plain.replace("TicTacToe --run-id plain", "ConnectFour --run-id four")
    cart = "CartPole-v1 --run-id cart --seed 3 --stop env_steps=16 --evaluate 0"
    tiny = [word for word in TINY if "num_envs" not in word]
    folder = tmp_path_factory.mktemp("games")
    return train_into(folder, *([*words.split(), *tiny] for words in (SELF_PLAY, plain, opened, four, cart)))


@pytest.fixture
def games(games_folder, tmp_path, rookery):
    """These runs, copied into the folder that commands run in."""
    shutil.copytree(games_folder, tmp_path / "runs")
    return tmp_path / "runs"


def test_elo_prints_ratings_and_a_matrix_and_draws_both(rookery, games):
    pytest.importorskip("matplotlib")
    code, out, err = rookery("elo", "self", "--games", 4, "--players", PERFECT, "--snapshots", 2)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].split() == ["PLAYER", "rating", "±", "95", "%", "games", "score", "draws", "vs", "chance"]
    table = {line.split()[0]: line.split() for line in lines[1:6]}
    assert [line.split()[0] for line in lines[1:2]] == ["perfect"]
    assert {"main", "perfect", "chance"} < table.keys()
    assert len([name for name in table if re.fullmatch(r"main@\d", name)]) == 2
    assert table["chance"][1:3] == ["1200", "fixed"]
    assert "SCORE AGAINST" in out and "40 games, 4 a pair, sampled actions, seed 0" in out
    picture = games / "self" / "elo.png"
    assert picture.read_bytes()[1:4] == b"PNG" and str(picture.relative_to(games.parent)) in out


def test_elo_says_the_same_twice_and_something_else_for_another_seed(rookery, games):
    def said(seed):
        code, out, _ = rookery("elo", "self", "--games", 4, "--json", "--seed", seed, "--anchor", "main=1000")
        assert code == 0
        return json.loads(out)["standings"]

    one, again, other = said(0), said(0), said(1)
    assert one == again != other
    by_name = {player["name"]: player for player in one}
    assert (by_name["main"]["rating"], by_name["main"]["error"], by_name["main"]["fixed"]) == (1000, 0, True)
    assert by_name["chance"]["against"]["main"]["won"] == by_name["main"]["against"]["chance"]["lost"]


def test_ratings_of_snapshots_can_be_fixed_too(rookery, games):
    code, out, err = rookery("elo", "self", "--games", 2, "--json", "--anchor", "main@1=1000", "--anchor", "main=1e3")
    assert (code, err) == (0, "")
    by_name = {player["name"]: player for player in json.loads(out)["standings"]}
    assert [(by_name[name]["rating"], by_name[name]["fixed"]) for name in ("main@1", "main")] == [(1000, True)] * 2
    assert not by_name["chance"]["fixed"]


def test_match_plays_two_runs_a_function_and_chance(rookery, games):
    code, out, err = rookery("match", "self", "plain", "--games", 10)
    assert (code, err) == (0, "")
    lines = {line[:12].strip(): line[12:] for line in out.splitlines()}
    assert lines["match"] == "self against plain"
    won, drawn, lost = map(int, re.fullmatch(r"10: (\d+) won, (\d+) drawn, (\d+) lost", lines["games"]).groups())
    assert won + drawn + lost == 10
    assert lines.keys() == {"match", "games", "score", "as x", "as o", "rating", "draws", "length"}
    assert rookery("match", "self", "plain", "--games", 10)[1] == out
    code, out, _ = rookery("match", "plain", PERFECT.partition("=")[2], "--games", 10, "--json")
    found = json.loads(out)
    assert (code, found["all"]["won"], found["b"]) == (0, 0, PERFECT.partition("=")[2])
    code, out, _ = rookery("match", "self", "random", "--games", 4, "--policy-a", "main@1", "--deterministic")
    assert (code, out.splitlines()[0].split()[1:]) == (0, ["self:main@1", "against", "random"])
    code, out, _ = rookery("match", "plain", "plain", "--games", 4)
    assert (code, out.splitlines()[0]) == (0, "match       plain (1) against plain (2)")


def test_an_anchor_that_is_called_random_and_is_not_keeps_its_name():
    trainer = SimpleNamespace(_self_play=SimpleNamespace(anchors={"random": PERFECT.partition("=")[2]}))
    assert other_players(trainer, {}) == trainer._self_play.anchors
    trainer._self_play.anchors = {"good": PERFECT.partition("=")[2]}
    assert other_players(trainer, {}) == {**trainer._self_play.anchors, "random": "random"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["elo", "plain"],
            "runs/plain: the run has no snapshots .* self_play.main={}.*rookery match runs/plain random",
        ),
        (["elo", "cart"], "runs/cart: the run has no snapshots"),
        (["elo", "self", "--players", "perfect"], "--players perfect: must be NAME=..."),
        (["elo", "self", "--players", "main=random"], "--players main=...: this is a policy of the run"),
        (
            ["elo", "self", "--players", "chance=rookery.tasks.games.players:tic_tac_toe_perfect"],
            "chance is random already",
        ),
        (["elo", "self", "--players", "p=rookery.tasks.games.players:tic_tac_to"], "has no 'tic_tac_to'"),
        (["elo", "self", "--anchor", "perfect=3"], "there is no player of that name; there are main@"),
        (["elo", "self", "--anchor", "chance=high"], "a rating is a number of points"),
        (["elo", "self", "--anchor", "main@1=nan"], "--anchor main@1=nan: a rating is a number of points"),
        (["elo", "self", "--anchor", "main@1"], "--anchor main@1: must be NAME=..., as in --anchor random=0"),
        (["elo", "self", "--anchor", "main=1", "--anchor", "main=2"], "the name main is given twice"),
        (["elo", "self", "--players", "main@1=random"], "--players main@1=random: must be NAME=..."),
        (["match", "self", "four"], "in TicTacToe, but .*in ConnectFour: both runs must have the same environment"),
        (["match", "self", "opened"], "different environments: env.config.random_opening is None and 2"),
        (["match", "self", "nobody"], "there is no such run"),
        (["match", "self", "plain", "--policy-b", "main@1"], "plain:main@1: there is no policy 'main@1'"),
        (["match", "self", "random", "--policy-b", "main"], "random is a function, which has no policies"),
        (["match", "cart", "random"], "it has one agent, so there is no opponent"),
    ],
)
def test_mistakes_are_told_in_words(words, said, rookery, games):
    code, out, err = rookery(*words)
    assert (code, out) == (2, "")
    assert re.search(said, err), err
