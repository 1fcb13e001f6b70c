"""RLlib's multi-agent example environments, reimplemented in the API of 2021."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete

from rookery_rllib.env.envs import ENV_STATE, GroupAgentsWrapper, MultiAgentEnv, make_multi_agent
from rookery_rllib.examples.single_agent_envs import MockEnv, MockEnv2, RandomEnv, StatelessCartPole, WindyMazeEnv
from rookery_rllib.gym.core import Env
from rookery_rllib.gym.old_api import ALL

Dicts = tuple[dict[Any, Any], dict[Any, Any], dict[Any, Any], dict[Any, Any]]
"""Observations, rewards, ends and infos by agent."""

MultiAgentCartPole = make_multi_agent("CartPole-v0")
MultiAgentMountainCar = make_multi_agent("MountainCarContinuous-v0")
MultiAgentPendulum = make_multi_agent("Pendulum-v0")
MultiAgentStatelessCartPole = make_multi_agent(StatelessCartPole)
RandomMultiAgentEnv = make_multi_agent(RandomEnv)


class BasicMultiAgent(MultiAgentEnv):
    """Independent agents that are rewarded with 1 in each of 25 steps."""

    def __init__(self, num: int) -> None:
        self.agents: Any = [MockEnv(25) for _ in range(num)]
        self.dones: set[int] = set()
        self.observation_space = self.action_space = Discrete(2)
        self.resetted = False

    def reset(self) -> dict[int, Any]:
        self.resetted, self.dones = True, set()
        return {place: env.reset() for place, env in enumerate(self.agents)}

    def step(self, action_dict: dict[int, Any]) -> Dicts:
        shown = {place: self.agents[place].step(action) for place, action in action_dict.items()}
        obs, rewards, ends, infos = ({place: four[i] for place, four in shown.items()} for i in range(4))
        self.dones |= {place for place, over in ends.items() if over}
        return obs, rewards, {**ends, ALL: len(self.dones) == len(self.agents)}, infos


class FlexAgentsMultiAgent(MultiAgentEnv):
    """Agents that join and leave at random: in a quarter of the steps one joins, in three quarters one leaves."""

    def __init__(self) -> None:
        self.agents: dict[int, MockEnv] = {}
        self.agentID = 0
        self.dones: set[int] = set()
        self.observation_space = self.action_space = Discrete(2)
        self.resetted = False

    def spawn(self) -> int:
        number, self.agentID = self.agentID, self.agentID + 1
        self.agents[number] = MockEnv(25)
        return number

    def reset(self) -> dict[int, Any]:
        self.agents, self.dones, self.resetted = {}, set(), True
        return {self.spawn(): 0}

    def step(self, action_dict: dict[int, Any]) -> Dicts:
        obs: dict[Any, Any] = {}
        rewards: dict[Any, Any] = {}
        ends: dict[Any, Any] = {}
        infos: dict[Any, Any] = {}
        moves = dict(action_dict)
        if np.random.random() > 0.75:
            moves[self.spawn()] = 0
        for number, action in moves.items():
            obs[number], rewards[number], ends[number], infos[number] = self.agents[number].step(action)
        alive = [number for number in self.agents if number not in self.dones and not ends.get(number)]
        if len(alive) > 1 and np.random.random() > 0.25:
            ends[int(np.random.choice(alive))] = True
        for number in [number for number, over in ends.items() if over]:
            self.dones.add(number)
            del self.agents[number]
        return obs, rewards, {**ends, ALL: not self.agents}, infos


class RoundRobinMultiAgent(MultiAgentEnv):
    """Agents that act in turns, each for 5 steps.

    Args:
        num: Number of agents.
        increment_obs: Whether the number of the agent's step is shown, else 0.
    """

    def __init__(self, num: int, increment_obs: bool = False) -> None:
        self._set([MockEnv2(5) if increment_obs else MockEnv(5) for _ in range(num)], num)

    def _set(self, agents: Any, ends_after: int) -> None:
        self.agents = agents
        self.num = len(agents)
        self._ends_after = ends_after
        self.observation_space, self.action_space = Discrete(10), Discrete(2)
        self.dones: set[int] = set()
        self.i = 0
        self._last: dict[int, Any] = {}

    def reset(self) -> dict[int, Any]:
        self.dones, self.i = set(), 0
        self._last = {place: (env.reset(), 0.0, False, {}) for place, env in enumerate(self.agents)}
        return {0: self._last[0][0]}

    def step(self, action_dict: dict[int, Any]) -> Dicts:
        """Takes the action of the current agent, and returns the next agent's observation: its own last action."""
        for place, action in action_dict.items():
            self._last[place] = self.agents[place].step(action)
        self.i = (self.i + 1) % self.num
        obs, reward, over, info = self._last[self.i]
        if over:
            self.dones.add(self.i)
        ends = {self.i: over, ALL: len(self.dones) >= self._ends_after}
        return {self.i: obs}, {self.i: reward}, ends, {self.i: info}


class EarlyDoneMultiAgent(RoundRobinMultiAgent):
    """Two agents that act in turns; the episode ends with the first of them, after 3 steps."""

    def __init__(self) -> None:
        self._set([MockEnv(3), MockEnv(5)], 1)


class MultiAgentDebugCounterEnv(MultiAgentEnv):
    """Observations are the agent's number, its last action and its step count.

    Args:
        config: ``num_agents``, ``base_episode_len`` (103), to which an agent's number is added.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.num_agents = config["num_agents"]
        self.base_episode_len = config.get("base_episode_len", 103)
        self.action_space = Box(-np.inf, np.inf, (2,))
        self.observation_space = Box(-np.inf, np.inf, (4,))
        self.timesteps = [0] * self.num_agents
        self.dones: set[int] = set()

    def reset(self) -> dict[int, Any]:
        self.timesteps, self.dones = [0] * self.num_agents, set()
        return {agent: np.array([agent, 0, 0, 0], np.float32) for agent in range(self.num_agents)}

    def step(self, action_dict: dict[int, Any]) -> Dicts:
        """Counts the step; the reward is the agent's step count modulo 3."""
        obs, rewards, ends = {}, {}, {}
        for agent, action in action_dict.items():
            self.timesteps[agent] += 1
            now = self.timesteps[agent]
            obs[agent] = np.array([agent, action[0], action[1], now], np.float32)
            rewards[agent] = float(now % 3)
            ends[agent] = now > self.base_episode_len + agent
        self.dones |= {agent for agent, over in ends.items() if over}
        return obs, rewards, {**ends, ALL: len(self.dones) == self.num_agents}, {}


class RockPaperScissors(MultiAgentEnv):
    """Ten rounds of rock, paper, scissors; each player observes the other's last move.

    Args:
        config: ``sheldon_cooper`` (false): whether lizard and Spock may be played, too.
    """

    ROCK, PAPER, SCISSORS, LIZARD, SPOCK = range(5)
    BEATS = {
        ROCK: (SCISSORS, LIZARD),
        PAPER: (ROCK, SPOCK),
        SCISSORS: (PAPER, LIZARD),
        LIZARD: (PAPER, SPOCK),
        SPOCK: (ROCK, SCISSORS),
    }

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        self.sheldon_cooper = (config or {}).get("sheldon_cooper", False)
        self.action_space = self.observation_space = Discrete(5 if self.sheldon_cooper else 3)
        self.player1, self.player2 = "player1", "player2"
        self.last_move = (0, 0)
        self.num_moves = 0
        self.player1_score = self.player2_score = 0

    def reset(self) -> dict[str, Any]:
        self.last_move, self.num_moves = (0, 0), 0
        return {self.player1: 0, self.player2: 0}

    def step(self, action_dict: dict[str, Any]) -> Dicts:
        """Plays one round: 1 for the winner, -1 for the loser, 0 for a draw."""
        one, other = int(action_dict[self.player1]), int(action_dict[self.player2])
        self.last_move = (one, other)
        self.num_moves += 1
        won = (other in self.BEATS[one]) - (one in self.BEATS[other])
        self.player1_score += won > 0
        self.player2_score += won < 0
        obs = {self.player1: other, self.player2: one}
        return obs, {self.player1: float(won), self.player2: float(-won)}, {ALL: self.num_moves >= 10}, {}


class TwoStepGame(MultiAgentEnv):
    """Two-step cooperative game: agent 0 first chooses a game, then both play it (Rashid et al. 2018, QMIX, section 5).

    In one game they get 7 together whatever they do; in the other 8 if both choose 1, 0 if both choose 0, else 1.

    Args:
        env_config: ``actions_are_logits`` (false: they are choices), ``one_hot_state_encoding`` (false: an observation
            is a number), ``separate_state_space`` (false: with one-hots, whether the state stands under its own key).
    """

    action_space = Discrete(2)

    def __init__(self, env_config: Mapping[str, Any] | None = None) -> None:
        config = env_config or {}
        self.agent_1, self.agent_2 = 0, 1
        self.actions_are_logits = config.get("actions_are_logits", False)
        self.one_hot_state_encoding = config.get("one_hot_state_encoding", False)
        self.with_state = self.one_hot_state_encoding and config.get("separate_state_space", False)
        self.state = np.array([1, 0, 0])
        encoded = MultiDiscrete([2, 2, 2, 3])
        self.observation_space: Any = encoded if self.one_hot_state_encoding else Discrete(6)
        if self.with_state:
            self.observation_space = Dict({"obs": encoded, ENV_STATE: MultiDiscrete([2, 2, 2])})

    def reset(self) -> dict[int, Any]:
        self.state = np.array([1, 0, 0])
        return self._obs()

    def step(self, action_dict: dict[int, Any]) -> Dicts:
        if self.actions_are_logits:
            action_dict = {agent: np.random.choice(2, p=shares) for agent, shares in action_dict.items()}
        first, second = int(action_dict[self.agent_1]), int(action_dict[self.agent_2])
        place, together = int(self.state.argmax()), 0.0
        if place == 0:
            self.state = np.eye(3, dtype=np.int64)[1 + first]
        else:
            together = 7.0 if place == 1 else (0.0, 1.0, 8.0)[first + second]
        return self._obs(), dict.fromkeys((self.agent_1, self.agent_2), together / 2), {ALL: place != 0}, {}

    def _obs(self) -> dict[int, Any]:
        return {self.agent_1: self._seen_by(self.agent_1), self.agent_2: self._seen_by(self.agent_2)}

    def _seen_by(self, agent: int) -> Any:
        if not self.one_hot_state_encoding:
            return int(self.state.argmax()) + 3 * agent
        encoded = np.append(self.state, agent + 1)
        return {"obs": encoded, ENV_STATE: self.state} if self.with_state else encoded


class TwoStepGameWithGroupedAgents(GroupAgentsWrapper):
    """`TwoStepGame` whose agents are one group, as QMIX needs them."""

    def __init__(self, env_config: Mapping[str, Any] | None = None) -> None:
        game = TwoStepGame(env_config)
        super().__init__(game, {"agents": [game.agent_1, game.agent_2]})


class HierarchicalWindyMazeEnv(MultiAgentEnv):
    """`WindyMazeEnv` with two levels: a high-level agent selects a target, and low-level agents have 25 steps each to
    reach it.
    """

    def __init__(self, env_config: Any = None) -> None:
        self.flat_env = WindyMazeEnv(env_config)
        self.low_level_agent_id = "low_level_0"
        self.num_high_level_steps = 0
        self.steps_remaining_at_level = 0
        self.current_goal = 0
        self.cur_obs: Any = None

    def reset(self) -> dict[str, Any]:
        self.cur_obs = self.flat_env.reset()
        self.num_high_level_steps = 0
        return {"high_level_agent": self.cur_obs}

    def step(self, action_dict: dict[str, Any]) -> Dicts:
        """Selects a target, or moves.

        Raises:
            ValueError: If there is more than one action.
        """
        if len(action_dict) != 1:
            raise ValueError(f"actions of {list(action_dict)}, expected those of one agent")
        ((agent, action),) = action_dict.items()
        if agent == "high_level_agent":
            self.current_goal, self.steps_remaining_at_level = int(action), 25
            self.num_high_level_steps += 1
            self.low_level_agent_id = f"low_level_{self.num_high_level_steps}"
            low = self.low_level_agent_id
            return {low: (self.cur_obs, self.current_goal)}, {low: 0.0}, {ALL: False}, {}
        return self._gone(action)

    def _gone(self, action: Any) -> Dicts:
        before = tuple(int(x) for x in self.cur_obs[0])
        wanted = self.flat_env._get_new_pos(before, self.current_goal)
        self.cur_obs, reward, done, _ = self.flat_env.step(action)
        self.steps_remaining_at_level -= 1
        after = tuple(int(x) for x in self.cur_obs[0])
        low = self.low_level_agent_id
        obs: dict[Any, Any] = {low: (self.cur_obs, self.current_goal)}
        rewards = {low: 0.0 if after == before else 1.0 if after == wanted else -1.0}
        ends = {ALL: done}
        if done or self.steps_remaining_at_level == 0:
            if not done:
                ends[low] = True
            rewards["high_level_agent"] = reward if done else 0.0
            obs["high_level_agent"] = self.cur_obs
        return obs, rewards, ends, {}


# --- games that are repeated ------------------------------------------------------------------------------------------


class MatrixSequentialSocialDilemma(MultiAgentEnv):
    """Repeated matrix game of two players; each observes both last actions, its own first.

    Args:
        config: ``players_ids`` (player_row, player_col), ``max_steps`` (20), ``output_additional_info`` (true: the last
            infos of an episode have the share of each pair of actions).
    """

    NUM_AGENTS = NUM_ACTIONS = 2
    NUM_STATES = 5
    ACTION_SPACE: Any = Discrete(2)
    OBSERVATION_SPACE: Any = Discrete(5)
    PAYOUT_MATRIX: Any = None
    NAME = ""

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        config = config or {}
        self.players_ids = list(config.get("players_ids", ("player_row", "player_col")))
        if len(self.players_ids) != self.NUM_AGENTS:
            raise ValueError(f"players_ids are {self.players_ids}, expected {self.NUM_AGENTS} of them")
        self.player_row_id, self.player_col_id = self.players_ids
        self.max_steps = config.get("max_steps", 20)
        self.output_additional_info = config.get("output_additional_info", True)
        self.observation_space, self.action_space = self.OBSERVATION_SPACE, self.ACTION_SPACE
        self.step_count_in_current_episode = 0
        self._pairs: Counter[tuple[int, int]] = Counter()

    def reset(self) -> dict[Any, Any]:
        self.step_count_in_current_episode = 0
        self._pairs.clear()
        return dict.fromkeys(self.players_ids, self.NUM_STATES - 1)

    def step(self, actions: dict[Any, Any]) -> Dicts:
        row, column = (int(actions[player]) for player in self.players_ids)
        self.step_count_in_current_episode += 1
        self._pairs[row, column] += 1
        done = self.step_count_in_current_episode >= self.max_steps
        states = (row * self.NUM_ACTIONS + column, column * self.NUM_ACTIONS + row)
        obs = dict(zip(self.players_ids, states, strict=True))
        rewards = dict(zip(self.players_ids, map(float, self.PAYOUT_MATRIX[row][column]), strict=True))
        ends = {**dict.fromkeys(self.players_ids, done), ALL: done}
        infos = {player: self._shares() for player in self.players_ids} if done and self.output_additional_info else {}
        return obs, rewards, ends, infos

    def _shares(self) -> dict[str, float]:
        """Returns the share of each pair of actions in the episode."""
        num = self.step_count_in_current_episode
        if self.NUM_ACTIONS > 2:
            return {f"{row}_{column}": count / num for (row, column), count in self._pairs.items()}
        return {f"{'CD'[row]}{'CD'[column]}": self._pairs[row, column] / num for row in range(2) for column in range(2)}

    def __str__(self) -> str:
        return self.NAME


def _game(name: str, title: str, what: str, payouts: Any) -> Any:
    """Returns a class of repeated games."""
    matrix = np.array(payouts, np.float64)
    num = len(matrix)
    facts = {
        "__doc__": f"{what}, repeated.",
        "__module__": __name__,
        "NAME": title,
        "NUM_ACTIONS": num,
        "NUM_STATES": num * num + 1,
        "ACTION_SPACE": Discrete(num),
        "OBSERVATION_SPACE": Discrete(num * num + 1),
        "PAYOUT_MATRIX": matrix,
    }
    return type(name, (MatrixSequentialSocialDilemma,), facts)


IteratedMatchingPennies = _game(
    "IteratedMatchingPennies", "IMP", "Matching pennies", [[(1, -1), (-1, 1)], [(-1, 1), (1, -1)]]
)
IteratedPrisonersDilemma = _game(
    "IteratedPrisonersDilemma", "IPD", "The prisoner's dilemma", [[(-1, -1), (-3, 0)], [(0, -3), (-2, -2)]]
)
IteratedAsymPrisonersDilemma = _game(
    "IteratedAsymPrisonersDilemma", "IPD", "An unequal prisoner's dilemma", [[(0, -1), (-3, 0)], [(0, -3), (-2, -2)]]
)
IteratedStagHunt = _game("IteratedStagHunt", "IteratedStagHunt", "The stag hunt", [[(3, 3), (0, 2)], [(2, 0), (1, 1)]])
IteratedChicken = _game(
    "IteratedChicken", "IteratedChicken", "The game of chicken", [[(0, 0), (-1, 1)], [(1, -1), (-10, -10)]]
)
IteratedAsymChicken = _game(
    "IteratedAsymChicken", "AsymmetricIteratedChicken", "An unequal game of chicken",
    [[(2, 0), (-1, 1)], [(2.5, -1), (-10, -10)]],
)  # fmt: skip
IteratedBoS = _game("IteratedBoS", "IteratedBoS", "Bach or Stravinsky", [[(3, 2), (0, 0)], [(0, 0), (2, 3)]])
IteratedAsymBoS = _game(
    "IteratedAsymBoS", "AsymmetricIteratedBoS", "An unequal Bach or Stravinsky", [[(4, 1), (0, 0)], [(0, 0), (2, 2)]]
)
IteratedBoSAndPD = _game(
    "IteratedBoSAndPD", "IteratedBoSAndPD", "Bach or Stravinsky with a way to defect",
    [[(3.5, 1), (0, 0), (-3, 2)], [(0, 0), (1, 3), (-3, 2)], [(2, -3), (2, -3), (-1, -1)]],
)  # fmt: skip


def define_greed_fear_matrix_game(greed: float, fear: float) -> Any:
    """Returns a class of repeated dilemmas.

    Args:
        greed: Amount above 3 (the reward of mutual cooperation) that a single defector gets.
        fear: Amount below 1 (the reward of mutual defection) that a single cooperator gets.
    """
    tempted, left = 3 + greed, 1 - fear
    return _game(
        "GreedFearGame", "IteratedGreedFear", "A dilemma", [[(3, 3), (left, tempted)], [(tempted, left), (1, 1)]]
    )


class CoinGame(MultiAgentEnv, Env):
    """Two players collect coins of their colours on a torus (Lerer & Peysakhovich 2017, section 4).

    Taking a coin earns 1; if it has the other player's colour, that player loses 2. An observation has four planes: the
    own position, the other's position, a coin of the own colour, and a coin of the other's.

    Args:
        config: ``players_ids`` (player_red, player_blue), ``max_steps`` (20), ``grid_size`` (3), ``asymmetric`` (false:
            coins are worth 3 more to red), ``both_players_can_pick_the_same_coin`` (true: else one of them does, by
            chance), ``output_additional_info`` (true: the last infos have the counts of coins taken).
    """

    NAME = "CoinGame"
    NUM_AGENTS = 2
    NUM_ACTIONS = 4
    ACTION_SPACE: Any = Discrete(4)
    MOVES = np.array([(0, 1), (0, -1), (1, 0), (-1, 0)])

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        config = config or {}
        self.players_ids = list(config.get("players_ids", ("player_red", "player_blue")))
        self.player_red_id, self.player_blue_id = self.players_ids
        self.max_steps = config.get("max_steps", 20)
        self.grid_size = config.get("grid_size", 3)
        self.asymmetric = config.get("asymmetric", False)
        self.both_players_can_pick_the_same_coin = config.get("both_players_can_pick_the_same_coin", True)
        self.output_additional_info = config.get("output_additional_info", True)
        self.OBSERVATION_SPACE = Box(0, 1, (self.grid_size, self.grid_size, 4), np.uint8)
        self.observation_space, self.action_space = self.OBSERVATION_SPACE, self.ACTION_SPACE
        self._places = np.zeros((3, 2), np.int64)  # of red, blue and the coin
        self._colour = 0
        self._taken = np.zeros((2, 2), np.int64)  # by red and blue: all coins, those of the own colour
        self.step_count_in_current_episode = 0

    def reset(self) -> dict[Any, Any]:
        self.step_count_in_current_episode = 0
        self._taken[:] = 0
        cells = np.random.choice(self.grid_size**2, 2, replace=False)
        self._places[:2] = np.stack(np.divmod(cells, self.grid_size), axis=1)
        self._colour = int(np.random.randint(2))
        self._drop_coin()
        return self._seen()

    def _drop_coin(self) -> None:
        """Places a coin of the other colour on a free cell."""
        self._colour = 1 - self._colour
        taken = self._places[:2] @ (self.grid_size, 1)
        cell = np.random.choice(np.setdiff1d(np.arange(self.grid_size**2), taken))
        self._places[2] = divmod(int(cell), self.grid_size)

    def _seen(self) -> dict[Any, Any]:
        planes = np.zeros((self.grid_size, self.grid_size, 4), np.uint8)
        for plane, place in zip((0, 1, 2 + self._colour), self._places, strict=True):
            planes[place[0], place[1], plane] = 1
        return {self.player_red_id: planes, self.player_blue_id: planes[..., [1, 0, 3, 2]]}

    def step(self, actions: dict[Any, Any]) -> Dicts:
        self.step_count_in_current_episode += 1
        moves = self.MOVES[[int(actions[player]) for player in self.players_ids]]
        self._places[:2] = (self._places[:2] + moves) % self.grid_size
        takes = (self._places[:2] == self._places[2]).all(axis=1)
        if takes.all() and not self.both_players_can_pick_the_same_coin:
            takes[int(np.random.randint(2))] = False
        rewards = takes.astype(np.float64)
        if self.asymmetric:
            rewards[0] += 3.0 * takes[0]
        rewards[self._colour] -= 2.0 * takes[1 - self._colour]
        self._taken[:, 0] += takes
        self._taken[self._colour, 1] += takes[self._colour]
        if takes.any():
            self._drop_coin()
        done = self.step_count_in_current_episode >= self.max_steps
        ends = {**dict.fromkeys(self.players_ids, done), ALL: done}
        infos = self._statistics() if done and self.output_additional_info else {}
        return self._seen(), dict(zip(self.players_ids, rewards.tolist(), strict=True)), ends, infos

    def _statistics(self) -> dict[Any, Any]:
        """Returns by player the share of steps with a coin taken, and the share of coins of the own colour."""
        statistics: dict[Any, Any] = {}
        for player, (all_, own) in zip(self.players_ids, self._taken.tolist(), strict=True):
            statistics[player] = {"pick_speed": all_ / self.step_count_in_current_episode}
            if all_:
                statistics[player]["pick_own_color"] = own / all_
        return statistics


class AsymCoinGame(CoinGame):
    """A `CoinGame` in which coins are worth 3 more to the red player."""

    NAME = "AsymCoinGame"

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        super().__init__({**(config or {}), "asymmetric": True})
