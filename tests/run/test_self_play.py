"""Self-play: opponents, snapshots, turns of learning, and refused settings."""

import json
from collections import Counter

import numpy as np
import pytest
import torch
from lived_in import Podium
from lives import BRIEF, RECALLING, digest, make, weights

from rookery import ConfigError, PPOConfig, Trainer
from rookery.core.errors import SpaceError
from rookery.core.io.encoding import decode, encode
from rookery.core.seeding import Streams
from rookery.report.console import summary
from rookery.rollout.hooks import EpisodeResult
from rookery.rollout.mapping import EpisodeInfo, OpponentMapping
from rookery.run.opponents.self_play import Contender, SelfPlayConfig, snapshots_of
from selection import slow

GAME = "rookery.tasks:TicTacToe"
PERFECT = "rookery.tasks.games.players:tic_tac_toe_perfect"
SOCCER = {
    "env": "rookery.tasks:LineSoccer",
    "cfg": BRIEF,
    "env_config": {"strikers": 2, "goalies": 1, "max_steps": 19},
    "policies": {"red": ["red_0"], "blue": ["blue_0", "blue_1"]},
}


def podium(owners, **settings):
    """A run of `Podium` in which the first of these policies learns; each plays some of the agents."""
    each = {"snapshot_every": 20, "latest_ratio": 1.0, "rating_games": 4, **settings}
    policies = {name: list(agents) for name, agents in owners.items()}
    return make(Podium, cfg=BRIEF, policies=policies, self_play=dict.fromkeys(owners, each))


def game(cfg=BRIEF, run_dir=None, **settings):
    return make(GAME, run_dir, cfg, self_play={"main": {"rating_games": 0, **settings}})


def lineup(shares, deal=1, each=False):
    pool = {"names": list(shares), "shares": list(shares.values()), "deal": deal, "each": each}
    return {"learn": {"main": 1.0}, "stand_for": {"main": "main"}, "pools": {"main": {"main": pool}},
            "kept": {"main": []}}  # fmt: skip


def drawn(mapping, episodes, lane=0):
    streams = Streams(7)
    return [tuple(mapping(agent, EpisodeInfo(lane, k, streams)) for agent in ("x", "o")) for k in episodes]


def mapping(first, lanes=4):
    return OpponentMapping({"x": "main", "o": "main"}, [("x",), ("o",)], Streams(7), lanes, first, False)


# --- what is drawn ----------------------------------------------------------------------------------------------------


def test_one_side_learns_and_the_other_has_the_opponent_of_the_deal():
    pairs = drawn(mapping(lineup({"main": 0.5, "main@1": 0.25, "main@2": 0.25})), range(40))
    assert all("main" in pair for pair in pairs)
    assert len({frozenset(pair) for pair in pairs}) == 1  # one deal
    each = drawn(mapping(lineup({"main": 0.5, "main@1": 0.25, "main@2": 0.25}, each=True)), range(2000))
    count = Counter(frozenset(pair) for pair in each)
    assert count[frozenset({"main"})] == pytest.approx(1000, abs=100)
    assert count[frozenset({"main", "main@1"})] == pytest.approx(500, abs=80)
    sides = Counter(pair.index("main") for pair in each if len(set(pair)) > 1)
    assert sides[0] == pytest.approx(sides[1], rel=0.15)


def test_opponents_change_with_the_deal_at_the_next_episode():
    mine = mapping(lineup({"main@1": 1.0}))
    assert set(drawn(mine, [0])[0]) == {"main", "main@1"}
    mine.lineup = lineup({"main@2": 1.0}, deal=2)
    assert set(drawn(mine, [0])[0]) == {"main", "main@1"}  # it began so
    assert set(drawn(mine, [1])[0]) == {"main", "main@2"}


def test_what_a_lane_draws_depends_on_no_other_lane():
    both, alone = (mapping(lineup({"main": 0.5, "main@1": 0.5}, each=True)) for _ in range(2))
    drawn(both, range(30), lane=0)
    assert drawn(both, range(30), lane=3) == drawn(alone, range(30), lane=3)
    assert drawn(both, range(30), lane=3) != drawn(both, range(30, 60), lane=0)


def test_a_team_that_appears_later_is_the_other_side():
    rule = {"T#0?team=0": "main", "T#1?team=0": "main"}
    mine = OpponentMapping(rule, [tuple(rule), ()], Streams(7), 4, lineup({"main@1": 1.0}), True)
    streams, sides = Streams(7), Counter()
    for episode in range(60):
        mine.lineup["round"] = episode
        first = mine("T#0?team=0", EpisodeInfo(0, episode, streams))
        assert first == mine("T#2?team=0", EpisodeInfo(0, episode, streams))  # joined later
        if episode < 20:
            assert first == "main", "nothing could learn on a side without agents"
        else:
            other = mine("T#0?team=1", EpisodeInfo(0, episode, streams))
            sides[first, other] += 1
    assert set(sides) == {("main", "main@1"), ("main@1", "main")}
    with pytest.raises(ConfigError, match="belongs to no side"):
        mine("T#0?team=2", EpisodeInfo(0, 0, streams))


@pytest.mark.slow
def test_helpers_change_nothing():
    settings = {"self_play": {"main": {"snapshot_every": 150, "swap_every": 60, "rating_games": 2}}}
    outcomes = []
    for helpers in (0, 2):
        with make("pettingzoo.classic.tictactoe_v3", cfg=BRIEF, helpers=helpers, **settings) as trainer:
            trainer.train({"iterations": 4})
            assert trainer._self_play.contenders["main"].taken > 1
            outcomes.append((weights(trainer), trainer._self_play.ratings.standing()))
    assert outcomes[0] == outcomes[1]


def test_opponents_that_are_lost_to_are_drawn_more_often():
    for weighting, expected in (("hard", [0.81, 0.25, 0.01]), ("even", [0.09, 0.25, 0.09])):
        mine = Contender(SelfPlayConfig(opponents="prioritized", weighting=weighting))
        for opponent, wins in (("main@1", 1), ("main@2", 5), ("main@3", 9)):
            mine.scores[opponent] = [float(wins), 10.0]
        shares = mine.weights(["main@1", "main@2", "main@3"])
        assert list(shares.values()) == pytest.approx(list(np.array(expected) / sum(expected)))
    assert Contender(SelfPlayConfig()).weights(["a", "b"]) == {"a": 0.5, "b": 0.5}
    assert mine.weights([]) == {}


# --- snapshots --------------------------------------------------------------------------------------------------------


def test_snapshots_are_taken_when_they_are_due_and_the_latest_stay():
    with game(snapshot_every=100, window=2, latest_ratio=0.0) as trainer:
        first = {name: tensor.clone() for name, tensor in trainer.policies["main"].state_dict().items()}
        assert list(trainer._self_play.snapshots["main"]) == [1]
        taken = []
        for _ in range(8):
            result = trainer.train_iteration()
            taken.append((result.policies["main"].decisions // 100, result.self_play["main"].snapshots - 1))
        assert all(due == snapshots for due, snapshots in taken)
        mine = trainer._self_play.contenders["main"]
        assert mine.window == [mine.taken - 1, mine.taken]
        players = {name for pair in trainer._pool.worker.mapping.players for name in pair if name != "main"}
        kept = trainer._self_play.snapshots["main"]
        assert {*mine.window} <= set(kept) <= {*mine.window, *(int(name[5:]) for name in players)}
        now = trainer.policies["main"].state_dict()
        latest = kept[mine.taken].state_dict()
        assert any(not torch.equal(now[name], first[name]) for name in now)
        assert not all(torch.equal(latest[name], first[name]) for name in now)
        assert not any(weight.requires_grad for weight in kept[mine.taken].parameters())


def test_a_policy_that_meets_itself_learns_from_both_sides_and_from_one_against_a_snapshot():
    decisions = {}
    for ratio in (0.0, 1.0):
        with game(latest_ratio=ratio) as trainer:
            trainer.train({"iterations": 3})
            decisions[ratio] = trainer.policies, trainer._decisions["main"] / trainer.env_steps
            players = {name for pair in trainer._pool.worker.mapping.players for name in pair}
            assert players == ({"main"} if ratio else {"main", "main@1"})
    assert decisions[1.0][1] > 0.9
    assert 0.35 < decisions[0.0][1] < 0.65


def test_fragments_go_on_in_the_next_game_on_the_other_side():
    with game(BRIEF.replace(fragment_length=16), latest_ratio=0.0) as trainer:
        rollouts = []
        step = trainer.learners["main"].training_step
        trainer.learners["main"].training_step = lambda rollout: rollouts.append(rollout) or step(rollout)
        trainer.train({"iterations": 4})
        lengths = torch.cat([rollout.length for rollout in rollouts[1:]]).float()
        ends = sum(int(rollout.terminated.sum()) for rollout in rollouts)
        assert lengths.mean() > 6 > sum(rollout.num_decisions for rollout in rollouts) / ends  # several games each


# --- teams in turn ----------------------------------------------------------------------------------------------------


def test_teams_learn_in_turn_and_who_waits_keeps_its_weights():
    each = {"team_change_every": 260, "rating_games": 0}
    with make(**SOCCER, self_play={"red": each, "blue": each}) as trainer:
        turns, learned = [trainer._self_play.turn], []
        for _ in range(16):
            before = {name: policy.trunk.layers[0].weight.clone() for name, policy in trainer.policies.items()}
            result = trainer.train_iteration()
            now = {name: policy.trunk.layers[0].weight for name, policy in trainer.policies.items()}
            learned.append([name for name in before if not torch.equal(before[name], now[name])])
            turns.append(trainer._self_play.turn)
            assert result.self_play[turns[-1]].learns
            acting = trainer._pool.worker.policies["blue@now"].policy
            assert torch.equal(acting.trunk.layers[0].weight, now["blue"])
        # games that began in a turn are played to their end, and learned from, so the iteration after it is left out
        settled = [k for k in range(1, 16) if turns[k - 1] == turns[k] == turns[k + 1]]
        assert {turns[k] for k in settled} == {"red", "blue"}
        for k in settled:
            assert learned[k] == [turns[k]]


def test_a_policy_with_two_sides_plays_the_other_one_itself_in_rating_games():
    with podium({"both": "ac", "one": "b"}) as trainer:
        both, one = trainer.policies["both"], trainer.policies["one"]
        assert trainer._match("both", both, {"one": one}, 4, "x") == [("one", 1.0), ("one", 0.0)] * 4
        assert trainer._match("one", one, {"both": both}, 4, "x") == [("both", 0.0), ("both", 1.0)] * 4
        trainer.train_iteration()
        assert trainer._self_play.ratings.win_rate("both", "one@1") == 0.5


def test_of_three_teams_each_is_rated_against_the_other_two():
    with podium({"b": "b", "a": "a", "c": "c"}, anchors={"chance": "random"}) as trainer:
        before = trainer._self_play.ratings.games("b", "chance")
        result = trainer.train_iteration()
        ratings = trainer._self_play.ratings
        assert [(ratings.games("b", one), ratings.win_rate("b", one)) for one in ("a@1", "c@1")] == [(4, 0.0), (4, 1.0)]
        assert ratings.games("b", "chance") == before + 2 * 4  # it plays both of the others
        assert result.self_play["b"].anchors == {"chance": 0.5}


def test_a_team_is_told_how_it_does_against_the_latest_of_the_other_team():
    with podium({"both": "ac", "one": "b"}) as trainer:
        assert trainer._self_play.standing()["both"].win_rate_latest is None
        for rival, won in (("one@1", 1.0), ("one", 0.0)):
            earned = {"a": 2.0 * won, "b": 1.0, "c": 2.0 * won}
            played = EpisodeResult(0, 0, 1, 0.0, earned, {"a": "both", "b": rival, "c": "both"})
            trainer._self_play.on_episodes([played] * 3, print)
        assert trainer._self_play.standing()["both"].win_rate_latest == 1.0
        assert trainer._self_play.standing()["one"].win_rate_latest is None  # it does not learn


# --- the league -------------------------------------------------------------------------------------------------------


def test_an_exploiter_meets_the_policy_as_it_is_becomes_an_opponent_and_begins_anew():
    with game(opponents="league", snapshot_every=40) as trainer:
        play = trainer._self_play
        first = {name: tensor.clone() for name, tensor in trainer.policies["main_exploiter"].state_dict().items()}
        assert list(play.lineup["pools"]["main_exploiter"]["main"]["names"]) == ["main@now"]
        while not play.contenders["main_exploiter"].taken:
            trainer.train_iteration()
        names = play.lineup["pools"]["main"]["main"]["names"]
        assert "main_exploiter@1" in names
        assert play.ratings.of("main_exploiter") == 1200.0 != play.ratings.of("main_exploiter@1")
        kept = play.snapshots["main_exploiter"][1].state_dict()
        now = trainer.policies["main_exploiter"].state_dict()
        assert not all(torch.equal(kept[name], first[name]) for name in first)
        assert all(torch.equal(now[name], first[name]) for name in first)


def test_an_exploiter_is_told_how_it_does_against_the_policy_as_it_is_and_the_policy_how_against_its_snapshot():
    with game(opponents="league", latest_ratio=0.0, swap_every=0) as trainer:
        trainer.train({"iterations": 3})
        play, standing = trainer._self_play, trainer._self_play.standing()
        for name, rival in (("main_exploiter", "main"), ("main", "main@1")):
            mine = play.contenders[name]
            assert list(mine.scores) == [rival]
            assert mine.games > 5
            assert standing[name].win_rate_latest == pytest.approx(play.ratings.win_rate(name, rival), abs=0.1)


# --- ratings and results ----------------------------------------------------------------------------------------------


def test_games_are_rated_and_what_they_say_is_told(tmp_path):
    anchors = {"random": "random", "perfect": PERFECT}
    with game(run_dir=tmp_path, latest_ratio=0.0, snapshot_every=100, rating_games=4, anchors=anchors) as trainer:
        total = sum(trainer._self_play.ratings.standing().values())
        trainer.train({"iterations": 3, "self_play.main.rating": 9999})
        play = trainer._self_play
        assert play.ratings.of("random") == 1200.0
        assert play.ratings.games("main", "perfect") == 4 * (play.contenders["main"].taken - 1)
        assert total == 3 * 1200 + 1200  # main, its first snapshot, two anchors
        result = trainer.train_iteration()
        assert result.score == result.self_play["main"].rating
        assert "main rating " in summary(result, {})
    row = json.loads((tmp_path / "metrics.jsonl").read_text().splitlines()[-1])
    columns = ("rating", "games", "win_rate", "win_rate_latest", "snapshots", "learns", "anchors/perfect")
    assert {f"self_play/main/{name}" for name in columns} <= set(row)
    assert row["self_play/main/games"] > 10
    assert row["self_play/main/anchors/perfect"] <= 0.5


def test_an_anchor_that_does_not_know_the_game_is_named():
    each = {"snapshot_every": 60, "rating_games": 2, "anchors": {"perfect": PERFECT}}
    with (
        make(**{**SOCCER, "policies": {"main": {}}}, self_play={"main": each}) as trainer,
        pytest.raises(SpaceError, match=r"self_play\.main, rating games against perfect: "),
    ):
        trainer.train({"iterations": 3})


def test_rewards_that_never_differ_are_told_of_once():
    notes = []
    with game() as trainer:
        even = EpisodeResult(0, 0, 5, 0.0, {"x": 0.0, "o": 0.0}, {"x": "main", "o": "main@1"})
        trainer._self_play.on_episodes([even] * 199, notes.append)
        assert not notes
        trainer._self_play.on_episodes([even] * 5, notes.append)
        trainer._self_play.on_episodes([even] * 500, notes.append)
    (line,) = notes
    assert "no side has earned more than another" in line


def test_an_evaluation_has_the_policy_play_its_latest_snapshot_on_each_side():
    with game(snapshot_every=100) as trainer:
        trainer.train({"iterations": 3})
        before = digest(trainer)
        result = trainer.evaluate(20, deterministic=False)
        latest = f"main@{trainer._self_play.contenders['main'].taken}"
        assert set(result.policies) == {"main", latest}
        assert result.return_mean == 0.0
        assert digest(trainer) == before


def test_snapshots_come_back_with_a_checkpoint(tmp_path):
    with game(run_dir=tmp_path, snapshot_every=100, window=None) as trainer:
        trainer.train({"iterations": 5})
        expected = trainer._self_play.snapshots["main"]
        with Trainer.load(tmp_path) as again:
            found = again._self_play.snapshots["main"]
            assert list(found) == list(expected)
            assert len(found) > 2
            for number, policy in expected.items():
                for name, tensor in policy.state_dict().items():
                    assert torch.equal(found[number].state_dict()[name], tensor)
            assert again._self_play.ratings.standing() == trainer._self_play.ratings.standing()
            again.evaluate(2)
            assert list(snapshots_of(again.state_dict())) == [f"main@{number}" for number in expected]


@pytest.mark.parametrize("cfg", [BRIEF, slow(RECALLING)], ids=["in one call", "one by one"])
def test_a_run_that_takes_up_a_state_meets_the_snapshots_of_the_state(cfg):
    cfg = cfg.replace(lr=0.1)  # so that snapshots do not all do the same
    settings = {"self_play": {"main": {"snapshot_every": 100, "latest_ratio": 0.0, "rating_games": 0}}}
    with make(GAME, cfg=cfg, seed=9, **settings) as other:
        other.train({"iterations": 3})
        state = encode(other.state_dict())
    outcomes = []
    for before in (0, 3):  # the live one has played against snapshots of its own, which have the same numbers
        with make(GAME, cfg=cfg, **settings) as trainer:
            for _ in range(before):
                trainer.train_iteration()
            trainer.load_state_dict(decode(*state))
            for _ in range(2):
                trainer.train_iteration()
            outcomes.append(weights(trainer))
    assert outcomes[0] == outcomes[1]


# --- what is refused --------------------------------------------------------------------------------------------------


WRONG = [
    ({"env": GAME, "self_play": {"mian": {}}}, "self_play.mian: no such policy; did you mean 'main'?"),
    ({"env": "CartPole-v1", "self_play": {"main": {}}}, "has one side only (agent)"),
    ({**SOCCER, "self_play": {"red": {}}}, "is played by policy 'blue', which is missing"),
    (
        {"env": GAME, "policies": {"a": {}, "b": {}}, "policy_mapping": {"x": "a", "o": "a"},
         "self_play": {"a": {}, "b": {}}},
        "self_play.b: it plays no agent",
    ),
    (
        {"env": GAME, "policies": {"a": {"frozen": True}}, "self_play": {"a": {}}},
        "the policy is frozen and learns nothing",
    ),
    (
        {"env": GAME, "policies": {"a": {}}, "policy_mapping": lambda agent: "a", "self_play": {"a": {}}},
        "policy_mapping is a function",
    ),
    ({**SOCCER, "self_play": {"red": {"k_factor": 8}, "blue": {}}}, "k_factor differs between policies"),
    ({**SOCCER, "self_play": {"red": {"opponents": "league"}, "blue": {}}}, "opponents = league is for games of one"),
    ({"env": GAME, "self_play": {"main": {"anchors": {"good": "perfect"}}}}, "self_play.main.anchors.good: player"),
    *(
        ({"env": GAME, "self_play": {"main": {"anchors": {name: "random"}, "opponents": "league"}}},
         f"self_play.main: anchors.{name}: a name of a policy, or one with spaces, @, / or =")
        for name in ("main", "main_exploiter", "main@1", "by chance", "by/chance", "chance=1", "")
    ),
    (
        {**SOCCER, "self_play": {"red": {"anchors": {"fixed": "random"}}, "blue": {"anchors": {"fixed": PERFECT}}}},
        f"self_play.blue: anchors.fixed = {PERFECT}: is random for another policy",
    ),
    ({"env": GAME, "self_play": {"main": {"latest_ratio": 1.5}}}, "latest_ratio"),
    ({"env": GAME, "self_play": {"main": {"windows": 3}}}, "window"),
    (
        {"env": "rookery.tasks:LineSoccer", "policies": {"a": ["red_0", "blue_0"], "b": ["red_1", "blue_1"]},
         "self_play": {"a": {}, "b": {}}},
        "one policy plays a side",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("settings", "told"), WRONG)
def test_what_does_not_fit_the_game_is_refused_at_once(settings, told):
    with pytest.raises(ConfigError) as refused:
        make(**settings)
    assert told in str(refused.value)


def test_runs_without_self_play_have_nothing_of_it():
    with make("CartPole-v1") as trainer:
        result = trainer.train_iteration()
        assert trainer._self_play.mapping is trainer._mapping
        assert not result.self_play
        assert not [name for name in result.row() if "self_play" in name]


@pytest.mark.slow
def test_a_rating_rises_against_a_frozen_anchor():
    cfg = PPOConfig(fragment_length=16, rollout_size=512, minibatch_size=128, lr=1e-3, gamma=1.0, entropy_coef=0.05)
    settings = {"snapshot_every": 2000, "swap_every": 0, "anchors": {"random": "random"}}
    with Trainer(GAME, cfg, seed=1, num_envs=32, self_play={"main": settings}) as trainer:
        trainer.train({"env_steps": 20_000})
        assert trainer._self_play.ratings.of("main") > 1300
