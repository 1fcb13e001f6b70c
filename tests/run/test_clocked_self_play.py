"""Self-play in endless asynchronous environments with several games at once: opponents and ratings."""

from dataclasses import replace

import numpy as np
import pytest

from rookery import Callback, Trainer
from rookery.core.errors import ConfigError
from rookery.rollout.hooks import EpisodeResult
from rookery.run.opponents.self_play import games_apart
from walkers import DuelsEnv


class Watch(Callback):
    """Collects who played in each unit that ended."""

    def __init__(self):
        self.ended = []

    def on_episode_end(self, episode):
        self.ended.append((episode.lane, episode.index, dict(episode.policies), dict(episode.returns)))


def trainer(callbacks=(), env=None, **settings):
    small = {
        "algorithm.fragment_length": 16,
        "algorithm.minibatch_size": 64,
        "algorithm.lr": 0.01,
        "algorithm.model.hidden": [16],
        "sampling.iteration_steps": 400,
        "self_play.main.snapshot_every": 1000,
        "self_play.main.swap_every": 300,
        "self_play.main.latest_ratio": 0.0,
        "self_play.main.k_factor": 8.0,
        "env.config": env or {},
    }
    return Trainer(DuelsEnv, "ppo", config={**small, **settings}, callbacks=list(callbacks), seed=0, num_envs=2,
                   console="quiet")  # fmt: skip


def test_teams_of_a_behaviour_are_one_kind_and_the_sides_of_the_game():
    with trainer() as one:
        (kind,) = one.env.kinds
        assert kind.agents == ("Striker#0?team=0", "Striker#1?team=0", "Striker#0?team=1", "Striker#1?team=1")
        assert {side: len(agents) for side, agents in one._self_play.sides.items()} == {"team=0": 2, "team=1": 2}


def test_players_of_a_game_are_the_learner_and_one_opponent_and_who_comes_later_joins_its_team():
    watch = Watch()
    with trainer([watch], env={"late": 100}) as one:
        for _ in range(5):
            one.train_iteration()
        assert len(one.env.kinds[0].agents) > 4 and one._self_play.games > 300
        assert any("@1" in name for _, _, who, _ in watch.ended for name in who.values())
        together = {}
        for lane, index, who, _ in watch.ended:
            for agent, player in who.items():
                together.setdefault((lane, index), {}).setdefault(agent.partition("?")[2], set()).add(player)
        mixed = sum(len(players) > 1 for game in together.values() for players in game.values())
        assert mixed < 0.02 * len(together), "only where two games end in one step that began under different lineups"
        for game in together.values():
            if all(len(players) == 1 for players in game.values()):
                names = [player for players in game.values() for player in players]
                assert sorted(name == "main" for name in names) == [False, True]


def test_games_of_several_groups_that_end_in_one_step_are_counted_one_by_one():
    def ended(team, number, total):
        agent = f"Striker#{number}?team={team}"
        groups = {f"group {2 * number + team}": total}
        return EpisodeResult(0, 5, 7 + number, total, {agent: 0.0}, {agent: "main"}, groups=groups)

    won, lost = [ended(0, 0, 1.0), ended(0, 1, -1.0)], [ended(1, 0, -1.0), ended(1, 1, 1.0)]
    assert games_apart({0: won, 1: lost}) == [{0: (won[0],), 1: (lost[0],)}, {0: (won[1],), 1: (lost[1],)}]
    assert games_apart({0: won, 1: lost[:1]}) == [{0: won, 1: lost[:1]}], "nobody says who met whom"
    alone = [replace(one, groups={}) for one in won]
    assert games_apart({0: alone, 1: lost}) == [{0: alone, 1: lost}]
    with trainer() as one:
        one._self_play.on_episodes([*won, *lost], pytest.fail)
        assert one._self_play.games == 2


@pytest.mark.slow
@pytest.mark.parametrize("learns", [True, False])
def test_a_learner_that_gets_better_is_rated_higher_and_one_that_does_not_keeps_its_rating(learns):
    with trainer(**{} if learns else {"algorithm.lr": 1e-12}) as one:
        for _ in range(15):
            row = one.train_iteration()
        games, wins = one.env.copies.results, np.mean([won for _, won, _ in one.env.copies.results])
        assert one._self_play.games > 0.7 * len(games) > 500 and abs(wins) < 0.2, "sides are exchanged"
        rating = row.self_play["main"].rating
        assert rating > 1350 if learns else abs(rating - 1200) < 60


def test_anchors_are_refused():
    with pytest.raises(ConfigError, match="anchors: .* cannot play games against them outside the training"):
        trainer(**{"self_play.main.anchors": {"chance": "random"}})
