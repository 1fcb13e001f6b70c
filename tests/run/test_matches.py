"""Matches: the same games for the same command, exchanged sides, counts, and error messages."""

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from lived_in import Podium

from rookery import PPOConfig, Trainer
from rookery.core.errors import ConfigError
from rookery.core.seeding import Streams
from rookery.envs.groups import GroupEnv
from rookery.envs.make import make_env
from rookery.rollout.hooks import EpisodeResult
from rookery.rollout.mapping import PolicyMapping
from rookery.run.opponents.matches import (
    Entrant,
    Game,
    Matches,
    entrant_of_run,
    remarks,
    scripted_entrant,
    side_returns,
    standings_of,
)
from rookery.run.opponents.ratings import score_of
from rookery.run.opponents.self_play import sides_of

PERFECT = "rookery.tasks.games.players:tic_tac_toe_perfect"


def first_free(obs, rng):
    """Takes the first place that is free."""
    return obs["action_mask"].argmax(axis=1)


def boards(lanes=8):
    return make_env("rookery.tasks:TicTacToe", {}, (), lanes, "auto")


@pytest.fixture(scope="module")
def board_run():
    """A run of tic-tac-toe that has not learned anything."""
    small = {"algorithm.model.hidden": [8], "sampling.num_envs": 8}
    with Trainer("rookery.tasks:TicTacToe", PPOConfig(), config=small, seed=5, console="quiet") as trainer:
        trainer.train({"env_steps": 1})
        yield trainer


def played(run, *players, games=20, seed=0, deterministic=False, lanes=8, pairs=None):
    env = boards(lanes)
    entrants = []
    for player in players:
        name, _, path = player.partition("=")
        scripted = scripted_entrant(env, path or name, name, Streams(seed)) if path or name == "random" else None
        entrants.append(scripted or entrant_of_run(run, env, name, name))
    matches = Matches(run, env, entrants, pairs, games, deterministic=deterministic, seed=seed)
    return matches, matches.play()


def test_the_same_command_gives_the_same_games_and_another_seed_others(board_run):
    _, one = played(board_run, "main", "random", "perfect=" + PERFECT)
    before = {name: value.clone() for name, value in board_run.policies["main"].state_dict().items()}
    _, again = played(board_run, "main", "random", "perfect=" + PERFECT)
    _, other = played(board_run, "main", "random", "perfect=" + PERFECT, seed=1)
    assert one == again
    assert one != other
    now = board_run.policies["main"].state_dict()
    assert all((now[name] == value).all() for name, value in before.items())


def test_sides_are_exchanged_evenly_and_every_pair_meets(board_run):
    matches, games = played(board_run, "main", "random", "perfect=" + PERFECT, games=9)
    assert (matches.games, len(games)) == (10, 30)  # one more, so that sides can be exchanged evenly
    counts = Counter((game.a, game.b, game.sides) for game in games)
    assert len(counts) == 6
    assert set(counts.values()) == {5}
    assert all(set(game.sides + game.others) == {"x", "o"} for game in games)


def test_who_never_loses_is_found_to_and_beginning_is_worth_something(board_run):
    _, games = played(board_run, "perfect=" + PERFECT, "random", games=100)
    perfect, random = standings_of(games, ["perfect", "random"], {"random": 0.0})
    assert perfect.all.lost == 0
    assert (perfect.all.games, perfect.against["random"]) == (100, perfect.all)
    assert perfect.by_side["x"].won > perfect.by_side["o"].won
    assert perfect.by_side["x"].games == perfect.by_side["o"].games == 50
    assert perfect.rating - 1.96 * perfect.error > 150 > random.rating == random.error == 0.0
    assert random.all.drawn == perfect.all.drawn


def test_two_who_never_lose_draw_and_that_is_said(board_run):
    _, games = played(board_run, "one=" + PERFECT, "two=" + PERFECT, games=10)
    assert {game.score for game in games} == {0.5}
    assert "all 10 games were drawn" in remarks(games, 0, ())[0]
    assert [round(one.rating) for one in standings_of(games, ["one", "two"], {})] == [1200, 1200]


def test_games_in_which_nothing_is_left_to_chance_are_said_to_be_one(board_run):
    def told(deterministic):
        env = boards()
        twins = [entrant_of_run(board_run, env, "main", name) for name in ("one", "two")]
        games = Matches(board_run, env, twins, None, 20, deterministic=deterministic, seed=0).play()
        return remarks(games, 0, ["one", "two"])

    assert "2 of 2 deterministic pairings had the same result" in told(True)[0]
    assert told(False) == []
    _, games = played(board_run, "main", f"first={__name__}:first_free", games=8, deterministic=True)
    assert remarks(games, 0, ["main"]) == []  # a function may be random
    assert "3 games were cut" in remarks(games, 3, ())[0]


def test_chance_is_chance_where_likeliest_actions_are_played(board_run):
    _, games = played(board_run, "main", "random", games=20, deterministic=True)
    assert len({(game.length, game.score) for game in games}) > 3


def test_a_policy_plays_the_agents_that_the_run_maps_to_it(board_run):
    env, kind = boards(), boards().kinds[0]
    policy = board_run.policies["main"]
    rule = {"x": "cross", "o": "nought"}
    nobody = SimpleNamespace(snapshots={}, exploiters={})
    policies = {"cross": policy, "nought": policy}
    run = SimpleNamespace(policies=policies, _mapping=PolicyMapping(rule, list(policies)), _self_play=nobody)
    assert set(entrant_of_run(run, env, "cross", "cross").policies) == {"x"}
    assert set(entrant_of_run(run, env, None, "all").policies) == {"x", "o"}
    crosses = [entrant_of_run(run, env, "cross", name) for name in ("one", "two")]
    with pytest.raises(ConfigError, match="no two players fill the sides x, o: one can play x; two can play x"):
        Matches(board_run, env, crosses, None, 2, deterministic=False, seed=0)
    mixed = [crosses[0], entrant_of_run(run, env, "nought", "other")]
    games = Matches(board_run, env, mixed, None, 6, deterministic=False, seed=0).play()
    assert {game.sides for game in games} == {("x",)}  # nothing to exchange
    with pytest.raises(ConfigError, match="there is no policy 'cros'; there are cross, nought; did you mean 'cross'"):
        entrant_of_run(run, env, "cros", "cros")
    run._mapping = PolicyMapping(lambda agent, episode: "cross", list(policies))
    assert set(entrant_of_run(run, env, "cross", "cross").policies) == set(kind.agents)
    with pytest.raises(ConfigError, match="is decided in every episode; name one of cross, nought"):
        entrant_of_run(run, env, None, "all")


def test_what_is_for_critics_alone_changes_no_game(board_run):
    def games_in(env):
        players = [
            entrant_of_run(board_run, env, "main", "main"),
            scripted_entrant(env, "random", "random", Streams(0)),
        ]
        return Matches(board_run, env, players, None, 12, deterministic=False, seed=0).play()

    wider = GroupEnv(boards())
    assert wider.kinds[0].obs != boards().kinds[0].obs
    assert games_in(wider) == games_in(boards())


def test_a_run_of_another_game_can_play_nobody(board_run):
    env = make_env("rookery.tasks:ConnectFour", {}, (), 1, "auto")
    with pytest.raises(ConfigError, match="it can play no agent of ConnectFour.*acts in Discrete.9.*in Discrete.7"):
        entrant_of_run(board_run, env, "main", "main")


def test_where_all_are_one_side_there_is_nobody_to_win_against(board_run):
    for name, told in (("CartPole-v1", "it has one agent"), ("rookery.tasks:CarryTogether", "are one side")):
        env = make_env(name, {}, (), 1, "auto")
        with pytest.raises(ConfigError, match=told):
            Matches(board_run, env, [], None, 2, deterministic=False, seed=0)


def test_groups_are_sides_and_earn_together():
    env = make_env("rookery.tasks:LineSoccer", {}, (), 1, "auto")
    assert sides_of(env) == {"blue": ("blue_0", "blue_1"), "red": ("red_0", "red_1")}
    result = EpisodeResult(0, 0, 5, 0.5, {"blue_0": 0.25, "blue_1": 0.25, "red_0": 1.0}, {}, groups={"blue": 1.0})
    assert side_returns(result, sides_of(env)) == {"blue": 1.5, "red": 1.0}


def test_teams_play_with_all_their_members(board_run):
    env = make_env("rookery.tasks:LineSoccer", {"max_steps": 60}, (), 4, "auto")
    players = [scripted_entrant(env, path, name, Streams(0)) for name, path in
               (("script", "rookery.tasks.games.players:line_soccer_script"), ("random", "random"))]  # fmt: skip
    games = Matches(board_run, env, players, None, 12, deterministic=False, seed=0).play()
    assert {game.sides for game in games} == {("blue",), ("red",)}
    assert np.mean([game.score for game in games]) > 0.7


@pytest.mark.parametrize(
    ("own", "ways"),
    [
        (("abc", "abc"), {("a", "c"): (2.0, 3.0), ("b",): (3.0, 2.0)}),
        (("ac", "b"), {("a", "c"): (2.0, 3.0)}),
        (("ab", "c"), {("a", "b"): (3.5, 0.0)}),
        (("abc", "ab"), {("a", "c"): (2.0, 3.0), ("b", "c"): (1.5, 4.0)}),
    ],
)
def test_of_three_sides_one_has_two_and_earns_their_mean(own, ways, board_run):
    env = make_env(Podium, {}, (), 2, "serial")
    everywhere = scripted_entrant(env, "random", "random", Streams(0)).policies
    players = [
        Entrant(name, {agent: everywhere[agent] for agent in agents})
        for name, agents in zip(("one", "two"), own, strict=True)
    ]
    games = Matches(board_run, env, players, None, 8, deterministic=False, seed=0).play()
    assert {game.sides: game.returns for game in games} == ways
    assert len(games) == 8
    assert all({*game.sides, *game.others} == {*"abc"} and game.score == score_of(*game.returns) for game in games)


def test_ratings_of_games_are_those_of_their_chances():
    # 75 of 100 points against a fixed player: 400 log10(3) = 191 points; the prior pulls by a few
    games = [Game("a", "b", ("x",), ("o",), score, (score, 1 - score), 5) for score in [1.0] * 75 + [0.0] * 25]
    a, b = standings_of(games, ["a", "b"], {"b": 100.0})
    assert a.rating == pytest.approx(291, abs=4)
    assert (b.rating, b.error, b.fixed) == (100.0, 0.0, True)
    assert (a.by_side, b.by_side) == ({"x": a.all}, {"o": b.all})
