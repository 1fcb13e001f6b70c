"""The environments of RLlib's examples, by their rules; each is played by Rookery, and repeats with a seed."""

import numpy as np
import pytest
from gymnasium.spaces import Dict, Discrete, MultiDiscrete, Tuple

from rookery.envs.make import make_env
from rookery.envs.random_play import random_play
from rookery_rllib.env.envs import ENV_STATE
from rookery_rllib.examples import multi_agent_envs as many
from rookery_rllib.examples import single_agent_envs as one
from rookery_rllib.gym.old_envs import adapted

PLAYED = {
    "SimpleCorridor": lambda: one.SimpleCorridor({"corridor_length": 3}),
    "StatelessCartPole": one.StatelessCartPole,
    "CartPoleMassEnv": one.CartPoleMassEnv,
    "PendulumMassEnv": one.PendulumMassEnv,
    "TransformedActionPendulum": lambda: one.TransformedActionPendulum({"low": 300, "high": 500}),
    "RepeatAfterMeEnv": lambda: one.RepeatAfterMeEnv({"episode_len": 5}),
    "RepeatInitialObsEnv": lambda: one.RepeatInitialObsEnv(5),
    "ParametricActionsCartPole": lambda: one.ParametricActionsCartPole(6),
    "RandomEnv": one.RandomEnv,
    "CorrelatedActionsEnv": lambda: one.CorrelatedActionsEnv(None),
    "CurriculumCapableEnv": one.CurriculumCapableEnv,
    "NestedSpaceRepeatAfterMeEnv": one.NestedSpaceRepeatAfterMeEnv,
    "DebugCounterEnv": one.DebugCounterEnv,
    "LookAndPush": one.LookAndPush,
    "OneHot": lambda: one.OneHot(one.LookAndPush()),
    "FastImageEnv": one.FastImageEnv,
    "WindyMazeEnv": one.WindyMazeEnv,
    "MultiAgentCartPole": lambda: many.MultiAgentCartPole({"num_agents": 3}),
    "MultiAgentPendulum": lambda: many.MultiAgentPendulum({"num_agents": 2}),
    "MultiAgentStatelessCartPole": lambda: many.MultiAgentStatelessCartPole({"num_agents": 2}),
    "RandomMultiAgentEnv": lambda: many.RandomMultiAgentEnv({"num_agents": 2}),
    "BasicMultiAgent": lambda: many.BasicMultiAgent(2),
    "FlexAgentsMultiAgent": many.FlexAgentsMultiAgent,
    "RoundRobinMultiAgent": lambda: many.RoundRobinMultiAgent(3, True),
    "EarlyDoneMultiAgent": many.EarlyDoneMultiAgent,
    "MultiAgentDebugCounterEnv": lambda: many.MultiAgentDebugCounterEnv({"num_agents": 2, "base_episode_len": 4}),
    "RockPaperScissors": many.RockPaperScissors,
    "TwoStepGame": lambda: many.TwoStepGame({"one_hot_state_encoding": True, "separate_state_space": True}),
    "TwoStepGameWithGroupedAgents": lambda: many.TwoStepGameWithGroupedAgents({"one_hot_state_encoding": True}),
    "IteratedPrisonersDilemma": lambda: many.IteratedPrisonersDilemma({"max_steps": 5}),
    "CoinGame": lambda: many.CoinGame({"both_players_can_pick_the_same_coin": False}),
}


def played(maker, steps):
    """Returns observations and rewards of all waiting rows in random play."""
    np.random.seed(1)  # as a trainer does before it makes environments
    env = make_env(lambda: adapted(maker()), None, (), 2, "serial")
    shown = []
    for step, _ in zip(
        random_play(env, lambda lane, e: 7 * lane + e, np.random.default_rng(0)), range(steps), strict=False
    ):
        for rows in step.rows:
            shown += [array[rows.waiting].tolist() for array in rows.obs.values()] + [rows.reward.tolist()]
    return shown


@pytest.mark.parametrize("name", PLAYED)
def test_each_is_played_and_repeats_with_a_seed(name):
    first = played(PLAYED[name], 12)
    np.random.random(3)  # other draws do not matter
    assert first == played(PLAYED[name], 12)


def test_a_corridor_ends_at_its_length(capsys):
    env = one.SimpleCorridor({"corridor_length": 2})
    env.set_corridor_length(3)
    assert env.reset().tolist() == [0]
    assert env.step(0)[0].tolist() == [0]
    assert [env.step(1)[1:3] for _ in range(3)] == [(0.0, False), (0.0, False), (1.0, True)]
    assert "corridor length to 3" in capsys.readouterr().out


def test_what_was_shown_is_repeated():
    np.random.seed(0)
    env = one.RepeatAfterMeEnv({"repeat_delay": 2, "episode_len": 30})
    shown, rewards, done = [0, 0, env.reset()], [], False
    while not done:
        obs, reward, done, _ = env.step(shown[-3])
        shown.append(obs)
        rewards.append(reward)
    assert set(rewards) == {1.0} and len(rewards) == 29
    first = one.RepeatInitialObsEnv(4)
    token = first.reset()
    assert [first.step(token)[1:3] for _ in range(4)] == [(1.0, False)] * 3 + [(1.0, True)]
    assert first.step(1 - token)[1] == -1.0


def test_hidden_actions():
    env = one.ParametricActionsCartPole(5)
    for _ in range(5):
        obs = env.reset()
        places = np.flatnonzero(obs["action_mask"])
        assert len(places) == 2 and sorted(places) == sorted((env.left_idx, env.right_idx))
        assert not obs["avail_actions"][np.delete(np.arange(5), places)].any()
        assert (obs["avail_actions"][env.right_idx] == env.right_action_embed.astype(np.float32)).all()
    env.step(env.left_idx)
    with pytest.raises(ValueError, match="not available"):
        env.step(({0, 1, 2} - {env.left_idx, env.right_idx}).pop())
    plain = one.ParametricActionsCartPoleNoEmbeddings(4)
    assert (plain.reset()["valid_avail_actions_mask"] == plain.reset()["valid_avail_actions_mask"]).all()


def test_levels_of_the_lake_can_be_reached():
    for level, lake in enumerate(one.CurriculumCapableEnv.MAPS, 1):
        env = one.CurriculumCapableEnv({"start_level": 1})
        env.set_task(level)
        env.reset()
        assert env.get_task() == level
        ((row, goal),) = [(row, line.index("G")) for row, line in enumerate(lake) if "G" in line]
        moves = [2] * 6 + [1] * row + [0] * (6 - goal)  # along the upper edge, down, and back
        assert len(moves) <= env.max_timesteps
        results = [env.step(move) for move in moves]
        assert results[-1][1] == 10 ** (level - 1) and results[-1][2] and not any(r[2] for r in results[:-1])
    assert set(env.sample_tasks(50)) <= {1, 2, 3, 4, 5}


def test_tasks_are_masses():
    env = one.CartPoleMassEnv()
    tasks = env.sample_tasks(20)
    assert tasks.shape == (20, 2) and (tasks[:, 0] >= 0.5).all() and (tasks[:, 1] <= 0.2).all()
    env.set_task((1.5, 0.1))
    assert env.get_task().tolist() == [1.5, 0.1] and env.total_mass == pytest.approx(1.6)
    pendulum = one.PendulumMassEnv()
    pendulum.set_task(1.7)
    assert pendulum.get_task() == pendulum.m == 1.7


def test_structures_are_repeated():
    env = one.NestedSpaceRepeatAfterMeEnv({"episode_len": 3})
    seen = env.reset()
    seen, reward, _, _ = env.step(seen)
    assert reward == 1.0
    assert env.step((1 - seen[0], {"a": seen[1]["a"] + 0.5}))[1] == pytest.approx(-1.0)


def test_looking_pays_off():
    env = one.LookAndPush()
    for _ in range(10):
        assert env.reset() == 2
        hidden, total = env.step(0)[0], -1.0
        assert hidden in (0, 1)
        done = False
        while not done:
            obs, reward, done, _ = env.step(1)
            total += reward
        assert obs == 4 and reward == (10.0 if hidden else -10.0)


def test_the_wind_carries_along():
    np.random.seed(0)
    env = one.WindyMazeEnv()
    (place, wind), done, reward = env.reset(), False, 0.0
    while not done:
        row, column = map(int, place)
        goes = 1 if row == 1 and column < 7 else 3 if row == 6 else 2
        (place, wind), reward, done, _ = env.step(int(wind == goes))
    assert reward in (0.0, 100.0) and env.num_steps <= 200
    assert env._get_new_pos((1, 1), 0) == (1, 1) and env._get_new_pos((1, 7), 2) == (2, 7)


def test_two_levels_share_a_maze():
    np.random.seed(1)
    env = many.HierarchicalWindyMazeEnv()
    assert list(env.reset()) == ["high_level_agent"]
    obs, _, ends, _ = env.step({"high_level_agent": 1})
    assert list(obs) == ["low_level_1"] and obs["low_level_1"][1] == 1 and not ends["__all__"]
    for left in range(24, -1, -1):
        obs, rewards, ends, _ = env.step({"low_level_1": 1})
        assert rewards["low_level_1"] in (-1.0, 0.0, 1.0) and ("high_level_agent" in obs) == (left == 0)
    assert ends == {"__all__": False, "low_level_1": True} and rewards["high_level_agent"] == 0.0
    assert list(env.step({"high_level_agent": 0})[0]) == ["low_level_2"]


def test_agents_come_leave_and_take_turns():
    turns = many.RoundRobinMultiAgent(2, increment_obs=True)
    assert turns.reset() == {0: 0}
    order, ended = [], False
    actor = 0
    while not ended:
        obs, _, ends, _ = turns.step({actor: 0})
        (actor,) = obs
        order.append((actor, obs[actor]))
        ended = ends["__all__"]
    assert order == [(1, 0), (0, 1), (1, 1), (0, 2), (1, 2), (0, 3), (1, 3), (0, 4), (1, 4), (0, 5), (1, 5)]
    early = many.EarlyDoneMultiAgent()
    early.reset()
    steps = [early.step({i % 2: 0})[2]["__all__"] for i in range(6)]
    assert steps == [False] * 5 + [True]
    np.random.seed(0)
    flexible = many.FlexAgentsMultiAgent()
    acting, most = set(flexible.reset()), 0
    for _ in range(200):
        obs, _, ends, _ = flexible.step(dict.fromkeys(acting, 0))
        if ends["__all__"]:
            acting = set(flexible.reset())
            continue
        acting = {agent for agent in obs if not ends.get(agent)}
        most = max(most, len(acting))
        assert acting == set(flexible.agents)
    assert most >= 2


def test_rock_paper_scissors_is_fair_and_circular():
    for sheldon, num in ((False, 3), (True, 5)):
        env = many.RockPaperScissors({"sheldon_cooper": sheldon})
        env.reset()
        wins = np.zeros((num, num))
        for a in range(num):
            for b in range(num):
                obs, rewards, ends, _ = env.step({"player1": a, "player2": b})
                assert obs == {"player1": b, "player2": a} and rewards["player1"] == -rewards["player2"]
                wins[a, b] = rewards["player1"]
        assert (wins == -wins.T).all() and not wins.sum(1).any() and (np.abs(wins).sum(1) == num - 1).all()
        assert wins[env.PAPER, env.ROCK] == wins[env.SCISSORS, env.PAPER] == wins[env.ROCK, env.SCISSORS] == 1
    assert env.player1_score == env.player2_score == 10


def test_two_steps_of_cooperation():
    for first, pair, total in ((0, (1, 0), 7), (1, (0, 0), 0), (1, (1, 0), 1), (1, (0, 1), 1), (1, (1, 1), 8)):
        env = many.TwoStepGame({})
        assert env.reset() == {0: 0, 1: 3}
        obs, rewards, ends, _ = env.step({0: first, 1: 1})
        assert obs == {0: 1 + first, 1: 4 + first} and rewards == {0: 0.0, 1: 0.0} and not ends["__all__"]
        _, rewards, ends, _ = env.step(dict(enumerate(pair)))
        assert rewards == {0: total / 2, 1: total / 2} and ends["__all__"]
    config = {"one_hot_state_encoding": True, "separate_state_space": True, "actions_are_logits": True}
    logits = many.TwoStepGame(config)
    assert {key: list(value) for key, value in logits.reset()[1].items()} == {"obs": [1, 0, 0, 2], ENV_STATE: [1, 0, 0]}
    seen = logits.step({0: [0.0, 1.0], 1: [1.0, 0.0]})[0]
    assert list(seen[0][ENV_STATE]) == [0, 0, 1]
    whole = Dict({"obs": MultiDiscrete([2, 2, 2, 3]), ENV_STATE: MultiDiscrete([2, 2, 2])})
    grouped = many.TwoStepGame(config).with_agent_groups({"both": [0, 1]}, Tuple([whole] * 2), Tuple([Discrete(2)] * 2))
    assert grouped.observation_space.contains(tuple(grouped.reset()["both"]))


def test_repeated_games_tell_how_they_went():
    env = many.IteratedPrisonersDilemma({"max_steps": 4, "players_ids": ["x", "y"]})
    assert env.reset() == {"x": 4, "y": 4} and str(env) == "IPD"
    assert env.step({"x": 0, "y": 1})[:2] == ({"x": 1, "y": 2}, {"x": -3.0, "y": 0.0})
    env.step({"x": 1, "y": 1})
    env.step({"x": 1, "y": 1})
    _, rewards, ends, infos = env.step({"x": 0, "y": 0})
    assert rewards == {"x": -1.0, "y": -1.0} and all(ends.values())
    assert infos["x"] == {"CC": 0.25, "CD": 0.25, "DC": 0.0, "DD": 0.5}
    three = many.IteratedBoSAndPD({"max_steps": 1})
    three.reset()
    obs, rewards, _, infos = three.step({"player_row": 2, "player_col": 0})
    assert obs == {"player_row": 6, "player_col": 2} and rewards == {"player_row": 2.0, "player_col": -3.0}
    assert infos["player_col"] == {"2_0": 1.0} and three.OBSERVATION_SPACE.n == 10
    assert many.define_greed_fear_matrix_game(2, 1).PAYOUT_MATRIX.tolist() == [[[3, 3], [0, 5]], [[5, 0], [1, 1]]]


def test_coins():
    np.random.seed(0)
    env = many.CoinGame({"max_steps": 3})
    obs = env.reset()
    red, blue = obs["player_red"], obs["player_blue"]
    assert red.sum() == 3 and (red[..., 0] == blue[..., 1]).all() and (red[..., 2] == blue[..., 3]).all()
    env._places[:] = (0, 0), (2, 2), (0, 1)
    env._colour = 1  # blue's coin
    _, rewards, _, _ = env.step({"player_red": 0, "player_blue": 0})
    assert rewards == {"player_red": 1.0, "player_blue": -2.0}
    env._places[:], env._colour = [(0, 0), (0, 2), (0, 1)], 0
    assert env.step({"player_red": 0, "player_blue": 1})[1] == {"player_red": -1.0, "player_blue": 1.0}
    env._places[:], env._colour = [(0, 0), (2, 0), (1, 1)], 0
    _, rewards, ends, infos = env.step({"player_red": 3, "player_blue": 0})
    assert rewards == {"player_red": 0.0, "player_blue": 0.0} and ends["__all__"]
    assert env._places[0].tolist() == [2, 0]  # around the edge
    assert infos == {
        "player_red": {"pick_speed": 2 / 3, "pick_own_color": 0.5},
        "player_blue": {"pick_speed": 1 / 3, "pick_own_color": 0.0},
    }
    assert many.AsymCoinGame({}).asymmetric


def test_actions_of_another_range_are_the_torques_of_pendulum():
    env = one.TransformedActionPendulum({"low": 300.0, "high": 500.0})
    assert [float(env.action(np.array([given]))[0]) for given in (300.0, 400.0, 450.0, 500.0)] == [-2.0, 0.0, 1.0, 2.0]
    assert (env.action_space.low, env.action_space.high) == (300.0, 500.0)


def test_agents_of_the_grouped_game_share_a_reward():
    env = many.TwoStepGameWithGroupedAgents()
    assert env.action_space == Tuple([Discrete(2), Discrete(2)])
    env.reset()
    env.step({"agents": (1, 0)})
    _, rewards, ends, _ = env.step({"agents": (1, 1)})
    assert rewards == {"agents": 8.0} and ends["__all__"]
