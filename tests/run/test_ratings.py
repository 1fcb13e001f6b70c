"""Ratings: numbers redone by hand, games of a closed pool, and errors that cover repeated measurements."""

import math
from itertools import combinations

import numpy as np
import pytest

from rookery.core.errors import RookeryError
from rookery.core.io.encoding import decode, encode
from rookery.run.opponents.ratings import Ratings, expected_score


def pool(*names, k=32.0, **fixed):
    ratings = Ratings(1200.0, k)
    for name in names:
        ratings.add(name, fixed.get(name, 1200.0), name in fixed)
    return ratings


def play_at_random(ratings, games, seed):
    rng, names = np.random.default_rng(seed), ratings.names
    for _ in range(games):
        a, b = rng.choice(len(names), 2, replace=False)
        ratings.played(names[a], names[b], float(rng.choice([0.0, 0.5, 1.0])))


# --- Elo ----------------------------------------------------------------------------------------------------


def test_400_points_are_odds_of_ten_to_one():
    assert expected_score(1600, 1200) == pytest.approx(10 / 11)
    assert expected_score(1200, 1200) == 0.5
    assert expected_score(0, 1e9) == pytest.approx(0)


def test_the_winner_takes_what_the_loser_loses():
    ratings = pool("a", "b", k=40.0)
    ratings.played("a", "b", 1.0)  # 40 x (1 - 0.5)
    assert ratings.standing() == {"a": 1220.0, "b": 1180.0}
    ratings.played("b", "a", 0.5)  # expected of b: 1 / (1 + 10 ** (40 / 400)) = 0.4427
    assert ratings.of("b") == pytest.approx(1180 + 40 * (0.5 - 1 / (1 + 10**0.1)))
    assert (ratings.games("a", "b"), ratings.wins("a", "b"), ratings.wins("b", "a")) == (2, 1.5, 0.5)
    assert (ratings.win_rate("b", "a"), ratings.draws("b", "a")) == (0.25, 1)


def test_the_sum_over_a_closed_pool_stays_constant():
    ratings = pool(*"abcde")
    play_at_random(ratings, 3000, 1)
    assert sum(ratings.standing().values()) == pytest.approx(5 * 1200, abs=1e-8)
    assert np.ptp(list(ratings.standing().values())) > 10  # they did move


def test_an_anchor_does_not_move_and_lets_the_sum_move():
    ratings = pool("a", "b", "random", random=900.0)
    play_at_random(ratings, 300, 2)
    assert ratings.of("random") == 900.0
    assert sum(ratings.standing().values()) != pytest.approx(3300, abs=1)
    assert ratings.anchors == ("random",)


def test_games_of_several_count_for_every_two_of_them():
    ratings = pool(*"abc", k=30.0)
    ratings.met({"a": 3.0, "b": 1.0, "c": 1.0})
    # a wins twice, 15 x 0.5 each; b and c draw
    assert ratings.standing() == {"a": 1215.0, "b": 1192.5, "c": 1192.5}
    assert ratings.draws("b", "c") == 1
    ratings.met({"c": 0.1 + 0.2, "a": 0.3})  # equal but for rounding
    assert ratings.draws("a", "c") == 1


def test_a_game_against_oneself_says_nothing():
    ratings = pool("a", "b")
    ratings.played("a", "a", 1.0)
    assert ratings.of("a") == 1200.0
    assert ratings.win_rate("a", "b") is None


def test_mistakes_are_named():
    ratings = pool("main", "main@1")
    with pytest.raises(RookeryError, match="did you mean 'main@1'"):
        ratings.played("main", "main@", 1.0)
    with pytest.raises(RookeryError, match=r"won \(1\), drawn \(0.5\) or lost"):
        ratings.played("main", "main@1", 0.7)
    with pytest.raises(RookeryError, match="exists already"):
        ratings.add("main", 1.0)


def test_going_on_from_a_saved_state_gives_the_same():
    whole, part = (pool("a", "b", "c", a=1000.0) for _ in range(2))
    play_at_random(part, 50, 3)
    play_at_random(whole, 50, 3)
    taken_up = Ratings(1200.0, 32.0)
    taken_up.load_state_dict(decode(*encode(part.state_dict())))
    for ratings in (whole, taken_up):
        play_at_random(ratings, 50, 4)
    assert whole.state_dict() == taken_up.state_dict()
    assert whole.fit() == taken_up.fit()


# --- most likely ratings --------------------------------------------------------------------------------------


def test_a_fit_of_two_players_is_the_odds_of_their_games():
    ratings = pool("a", "b", b=1000.0)
    for score in [1.0] * 300 + [0.0] * 100:
        ratings.played("a", "b", score)
    (rating, error), anchor = ratings.fit()["a"], ratings.fit()["b"]
    # odds 3 to 1: 400 log10(3) = 190.8; the prior pulls by less than a point; 1 / sqrt(400 x 0.75 x 0.25) = 0.1155
    assert rating == pytest.approx(1000 + 400 * math.log10(3), abs=1.0)
    assert error == pytest.approx(0.11547 * 400 / math.log(10), abs=0.1)
    assert anchor == (1000.0, 0.0)


def test_without_anchors_the_mean_is_the_initial_rating():
    ratings = pool(*"abc")
    play_at_random(ratings, 100, 5)
    found = ratings.fit()
    assert np.mean([rating for rating, _ in found.values()]) == pytest.approx(1200.0)
    assert all(error > 0 for _, error in found.values())


def test_who_wins_all_games_has_a_finite_rating_of_a_large_error():
    ratings = pool("a", "b", b=1200.0)
    for _ in range(50):
        ratings.played("a", "b", 1.0)
    rating, error = ratings.fit()["a"]
    assert 1200 + 400 < rating < 1200 + 2500
    assert 150 < error < 1000
    assert pool("a", "b", b=1200.0).fit()["a"] == pytest.approx((1200.0, 1000.0))  # no game: what is assumed


def simulated(seed, games=60, drawn=0.8):
    """Games of players of known strength: the mean score is what ratings say, and some of the games are drawn."""
    rng = np.random.default_rng(seed)
    truth = {"random": 1000.0, "b": 1080.0, "c": 1150.0, "d": 1300.0, "e": 1420.0}
    ratings = pool(*truth, random=1000.0)
    for a, b in combinations(truth, 2):
        share = expected_score(truth[a], truth[b])
        draw = 2 * drawn * share * (1 - share)
        for score in rng.choice([1.0, 0.0, 0.5], games, p=[share - draw / 2, 1 - share - draw / 2, draw]):
            ratings.played(a, b, float(score))
    return truth, ratings


def covered(width, drawn):
    hits = []
    for seed in range(60):
        truth, ratings = simulated(seed, drawn=drawn)
        hits += [abs(rating - truth[name]) <= width * error for name, (rating, error) in ratings.fit().items() if error]
    return np.mean(hits)


@pytest.mark.parametrize("drawn", [0.0, 0.8])
def test_error_bars_cover_repeated_measurements(drawn):
    assert 0.9 <= covered(1.96, drawn) <= 0.985
    assert covered(0.98, drawn) < 0.8  # control: bars of half the length do not, and no bar is so long that all would


def test_a_fit_and_elo_speak_of_the_same_points():
    # of 100 games 10 are won and 90 drawn: 55 % of the points, 400 log10(55 / 45) = 34.9
    ratings = pool("a", "b", b=1000.0)
    for score in [1.0] * 10 + [0.5] * 90:
        ratings.played("a", "b", score)
    rating, error = ratings.fit()["a"]
    assert rating == pytest.approx(1034.9, abs=0.2)
    assert expected_score(rating, 1000.0) == pytest.approx(0.55, abs=0.001)
    # scores vary by 0.1 x 0.45^2 + 0.9 x 0.05^2 = 0.0225 a game, not by 0.2475: the error is as of 100 such games
    share = 400 / math.log(10) / 0.2475
    assert error == pytest.approx(share * math.sqrt(0.0225 / 100), rel=0.25)
    assert error < 0.5 * share * math.sqrt(0.2475 / 100)


def test_a_fit_forgets_the_order_of_games_and_elo_does_not():
    games = [("a", "b", 1.0), ("b", "c", 1.0), ("c", "a", 0.5), ("a", "b", 0.0), ("a", "c", 1.0)] * 5
    one, other = pool(*"abc"), pool(*"abc")
    for game in games:
        one.played(*game)
    for game in games[::-1]:
        other.played(*game)
    assert one.fit() == other.fit()
    assert one.standing() != other.standing()
    assert not one.all_drawn


def test_where_nobody_ever_wins_it_is_said():
    ratings = pool("a", "b")
    assert not ratings.all_drawn
    ratings.played("a", "b", 0.5)
    assert ratings.all_drawn
    assert [rating for rating, _ in ratings.fit().values()] == pytest.approx([1200.0, 1200.0])
