"""Tasks that need memory: the current observation does not determine the right action.

=====================  ==================================================  ===========  ===================
task                   what must be remembered                             best return  best without memory
=====================  ==================================================  ===========  ===================
`StatelessCartPole`    the last positions, which tell the velocities       500          below 100
`RepeatAfterMe`        what was shown `delay` steps ago                    100          about 0
`RepeatPrevious`       the suit of the k-th last card                      1            about -0.5
`Autoencode`           a whole deck, to be recited backwards               1            about -0.5
`CountRecall`          how many cards of each colour were dealt            1            about -0.9
`CueCorridor`          one cue, down a corridor                            1            0
`TwoCues`              one cue each, over the other's turns too            1 each       0 each
=====================  ==================================================  ===========  ===================

`StatelessCartPole` and `RepeatAfterMe` are known from RLlib's examples. `RepeatPrevious`, `Autoencode` and
`CountRecall` follow the rules of Morad et al., "POPGym: Benchmarking Partially Observable Reinforcement Learning"
(2023, arXiv:2303.01859), with its easy versions as defaults. A cue that decides the turn is from Bakker, "Reinforcement
Learning with Long Short-Term Memory" (2001); walking without a choice is as in `memory_len` of Osband et al.,
"Behaviour Suite for Reinforcement Learning" (2020, arXiv:1908.03568).

All constructors take a `render_mode`, ``"rgb_array"`` or None, and raise a ValueError for a setting out of range; decks
of cards are shuffled together.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces
from gymnasium.envs.classic_control import CartPoleEnv

from rookery.core.errors import EnvError
from rookery.core.settings.reach import Count, FewFromZero
from rookery.envs import drawing
from rookery.envs.adapters.batched import check_least, check_render_mode
from rookery.envs.adapters.classic import BatchedCartPole
from rookery.envs.native.variants import StatelessCartPoleInC
from rookery.tasks.scripted import UNASKED, Script, ScriptedTask, batched_variant_of

SUITS = "CDHS"  # clubs, diamonds, hearts, spades
CARDS = 52  # of a deck, as many of each suit
AGENTS = ("agent1", "agent2")
CORRIDOR, CUE_LEFT, CUE_RIGHT, JUNCTION = range(4)
LEFT, RIGHT = range(2)


class BatchedStatelessCartPole(BatchedCartPole):
    """Vectorized `StatelessCartPole`: observations are position and angle only."""

    title = "StatelessCartPole"
    shows_velocities = False
    native_variant = StatelessCartPoleInC


class StatelessCartPole(CartPoleEnv):
    """CartPole-v1 without velocities in the observation: position and angle, ``[2]`` float32.

    Everything else is as in CartPole-v1, including the time limit.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 50}
    batched: ClassVar[type[BatchedCartPole] | None] = BatchedStatelessCartPole

    def __init__(
        self, sutton_barto_reward: bool = False, render_mode: str | None = None, max_episode_steps: Count = 500
    ) -> None:
        """Creates the environment; the arguments are those of `BatchedCartPole`."""
        check_render_mode(type(self).__name__, render_mode)
        super().__init__(sutton_barto_reward=sutton_barto_reward, render_mode=render_mode)
        whole: Any = self.observation_space
        self.observation_space = spaces.Box(whole.low[::2], whole.high[::2])
        self.max_episode_steps = _at_least(self, 1, max_episode_steps=max_episode_steps)
        self._timestep = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Starts an episode, as CartPole-v1 does."""
        obs, info = super().reset(seed=seed, options=options)
        self._timestep = 0
        return obs[::2].copy(), info

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Pushes the cart: 0 to the left, 1 to the right."""
        obs, reward, terminated, _, info = super().step(action)  # type: ignore[no-untyped-call]
        self._timestep += 1
        return obs[::2].copy(), float(reward), bool(terminated), self._timestep >= self.max_episode_steps, info

    def get_state(self) -> dict[str, Any]:
        """Returns the state of cart and pole, and of the random numbers of the next episode."""
        return {
            "motion": np.array(self.state),
            "steps_beyond_terminated": self.steps_beyond_terminated,
            "timestep": self._timestep,
            "rng": copy.deepcopy(self.np_random.bit_generator.state),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Restores a state from `get_state`, of this environment or another."""
        self.state, self._timestep = state["motion"].copy(), state["timestep"]
        self.steps_beyond_terminated = state["steps_beyond_terminated"]
        self.np_random.bit_generator.state = copy.deepcopy(state["rng"])

    def render(self) -> Any:
        """Returns an image ``[400, 600, 3]`` uint8, or None before the first episode."""
        if self.state is None:
            return None
        return drawing.draw_cart_pole(self.state[0], self.state[2], self._timestep, self.max_episode_steps)


class RepeatAfterMe(ScriptedTask):
    """Repeat the observation from `delay` steps ago: 0 or 1, drawn uniformly. A correct answer is rewarded with 1, a
    wrong one with -1.

    Before the first observation all were 0. An episode is truncated after `max_episode_steps`. (RLlib's example of that
    name, whose settings are `repeat_delay` and `episode_len`, ends it after ``episode_len + 1 - delay`` steps.)
    """

    truncates = True

    def __init__(self, delay: FewFromZero = 1, max_episode_steps: Count = 100, render_mode: str | None = None) -> None:
        """Creates a task whose observations must be repeated after `delay` steps; 0 = immediately."""
        self.delay = _at_least(self, 0, delay=delay)
        steps = _at_least(self, 1, max_episode_steps=max_episode_steps)
        super().__init__(spaces.Discrete(2), 2, 1.0, steps, render_mode)

    def draw(self, rng: np.random.Generator) -> Script:
        """Draws an episode."""
        obs = rng.integers(0, 2, self.max_steps + 1)
        return Script(obs, np.concatenate((np.zeros(self.delay, dtype=np.int64), obs))[: self.max_steps])

    def card(self, obs: Any) -> str:
        """Returns the digit shown, 0 or 1."""
        return str(obs)


class RepeatPrevious(ScriptedTask):
    """Cards are dealt from a shuffled deck; name the suit of the k-th last card.

    An observation is the suit of the card now dealt, 0 to 3; it counts as the first last, so that ``k=4`` looks back
    three steps. Nothing is earned before k cards are dealt; from then on each answer earns a part of 1 if right, as
    much less than 0 if wrong. An episode is truncated with the last card.
    """

    truncates = True

    def __init__(self, num_decks: FewFromZero = 1, k: FewFromZero = 4, render_mode: str | None = None) -> None:
        """Creates a task with `num_decks` decks; the suit of the `k`-th last card is asked, where the current one is
        the first.
        """
        self.num_cards = CARDS * _at_least(self, 1, num_decks=num_decks)
        self.k = _at_least(self, 1, k=k)
        if self.k >= self.num_cards:
            raise ValueError(f"RepeatPrevious: k is {k}, it must be less than the {self.num_cards} cards")
        reward = 1 / (self.num_cards - self.k)
        super().__init__(spaces.Discrete(len(SUITS)), len(SUITS), reward, self.num_cards - 1, render_mode)

    def draw(self, rng: np.random.Generator) -> Script:
        """Draws an episode."""
        suits = rng.permutation(self.num_cards) % len(SUITS)
        return Script(suits, np.concatenate((np.full(self.k - 1, UNASKED), suits))[: self.max_steps])

    def card(self, obs: Any) -> str:
        """Returns the letter of the suit."""
        return SUITS[obs]


class Autoencode(ScriptedTask):
    """A shuffled deck is dealt card by card; then recall all suits in reverse order.

    An observation is ``[reciting, suit]``. While cards are dealt (`reciting` 0), answers do not count; with the last
    card reciting begins (1), and no more suits are shown (0). Each answer then earns a part of 1 if right, as much less
    than 0 if wrong. An episode is terminated when all cards are recited.
    """

    def __init__(self, num_decks: FewFromZero = 1, render_mode: str | None = None) -> None:
        """Creates a task with `num_decks` decks."""
        self.num_cards = num = CARDS * _at_least(self, 1, num_decks=num_decks)
        super().__init__(spaces.MultiDiscrete([2, len(SUITS)]), len(SUITS), 1 / num, 2 * num - 1, render_mode)

    def draw(self, rng: np.random.Generator) -> Script:
        """Draws an episode."""
        suits = rng.permutation(self.num_cards) % len(SUITS)
        obs = np.zeros((2 * self.num_cards, 2), dtype=np.int64)
        obs[: self.num_cards, 1] = suits
        obs[self.num_cards - 1 :, 0] = 1
        return Script(obs, np.concatenate((np.full(self.num_cards - 1, UNASKED), suits[::-1])))

    def card(self, obs: Any) -> str:
        """Returns the letter of the suit; while the deck is recalled, that of the last card and then none."""
        return "?" if obs[0] else SUITS[obs[1]]


class CountRecall(ScriptedTask):
    """Cards are dealt from a shuffled deck, each with a query colour: name how many cards of that colour were dealt so
    far.

    An observation is ``[colour dealt, colour asked for]``, both 0 or 1; the colours asked for come from a deck of their
    own. The card just dealt counts. Each answer earns a part of 1 if right, as much less than 0 if wrong. An episode is
    terminated with the last card.
    """

    def __init__(self, num_decks: FewFromZero = 1, render_mode: str | None = None) -> None:
        """Creates a task with `num_decks` decks."""
        self.num_cards = num = CARDS * _at_least(self, 1, num_decks=num_decks)
        super().__init__(spaces.MultiDiscrete([2, 2]), num // 2 + 1, 1 / (num - 1), num - 1, render_mode)

    def draw(self, rng: np.random.Generator) -> Script:
        """Draws an episode."""
        dealt, wanted = rng.permutation(self.num_cards) % 2, rng.permutation(self.num_cards) % 2
        ones = np.cumsum(dealt)
        counts = np.where(wanted, ones, np.arange(1, self.num_cards + 1) - ones)
        return Script(np.stack((dealt, wanted), axis=1), counts[: self.max_steps])

    def card(self, obs: Any) -> str:
        """Returns the colour dealt, B or R, and the query colour, b or r."""
        return f"{'BR'[obs[0]]}{'br'[obs[1]]}"


class CueCorridor(ScriptedTask):
    """A cue at the start of a corridor determines whether to turn left or right at its end.

    Every step leads one cell on, whatever the action; at the junction, action 0 turns left and 1 right, which earns 1
    where the cue said so and -1 otherwise, and terminates the episode. An observation is 0 in the corridor, 1 for the
    cue "left", 2 for "right" and 3 at the junction.
    """

    def __init__(
        self, length: FewFromZero = 20, min_length: FewFromZero | None = None, render_mode: str | None = None
    ) -> None:
        """Creates a corridor.

        Args:
            length: Number of steps from the cue to the junction.
            min_length: Smallest length; that of each episode is drawn evenly from here to `length`. None = `length`.
            render_mode: ``"rgb_array"`` or None.
        """
        self.length = _at_least(self, 1, length=length)
        self.min_length = self.length if min_length is None else _at_least(self, 1, min_length=min_length)
        if self.min_length > self.length:
            raise ValueError(f"{type(self).__name__}: min_length {min_length} is more than length {length}")
        super().__init__(spaces.Discrete(4), 2, 1.0, self.length + 1, render_mode)

    def draw(self, rng: np.random.Generator) -> Script:
        """Draws an episode."""
        steps = int(rng.integers(self.min_length, self.length + 1))
        turn = int(rng.integers(0, 2))
        obs = np.full(steps + 2, CORRIDOR)
        obs[0], obs[steps] = (CUE_LEFT, CUE_RIGHT)[turn], JUNCTION
        return Script(obs, np.array([UNASKED] * steps + [(LEFT, RIGHT)[turn]]))

    def card(self, obs: Any) -> str:
        """Returns the cue, a question mark at the junction, nothing in between."""
        return ("", "L", "R", "?")[obs]


class TwoCues:
    """Two agents, each in a separate corridor, act alternately: `agent1`, `agent2`, `agent1`, ...

    Each has its `CueCorridor`, with a cue, a length and an end of its own; an agent that has arrived is terminated, and
    the other continues alone. ``reset() -> obs, infos`` and ``step(actions) -> obs, rewards, terminateds, truncateds,
    infos`` return and take dicts by agent, with an entry for the agent that acts next.

    Attributes:
        possible_agents: ``["agent1", "agent2"]``.
        agents: Agents that are still walking.
        observation_spaces: Space of each agent's observation, Discrete(4).
        action_spaces: Space of each agent's action, Discrete(2).
    """

    metadata: ClassVar[dict[str, Any]] = {"name": "two_cues", "render_modes": ["rgb_array"], "render_fps": 4}

    def __init__(
        self, length: FewFromZero = 10, min_length: FewFromZero | None = None, render_mode: str | None = None
    ) -> None:
        """Creates two corridors; the arguments are those of `CueCorridor`."""
        self._corridor = CueCorridor(length, min_length, render_mode)
        self.render_mode = render_mode
        self.possible_agents = list(AGENTS)
        self.observation_spaces: dict[str, Any] = dict.fromkeys(AGENTS, self._corridor.observation_space)
        self.action_spaces: dict[str, Any] = dict.fromkeys(AGENTS, self._corridor.action_space)
        self._rng = np.random.default_rng()
        self.reset()

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """Starts an episode, from a seed or from the environment's random generator; `agent1` acts first."""
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self.agents = list(AGENTS)
        self._scripts = {agent: self._corridor.draw(self._rng) for agent in AGENTS}
        self._taken: dict[str, list[int]] = {agent: [] for agent in AGENTS}
        self._on_turn = AGENTS[0]
        return {self._on_turn: self._scripts[self._on_turn].obs[0]}, {self._on_turn: {}}

    def step(
        self, action_dict: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        """Moves the agent to act: 0 left or 1 right.

        Returns:
            The observation of the agent that acts next, the reward and end of the one that acted.

        Raises:
            EnvError: If the action is not that of the agent whose turn it is, or not 0 or 1, or the episode is over.
        """
        actor = self._on_turn
        if not self.agents:
            raise EnvError("TwoCues: both agents have arrived; call reset() first")
        if list(action_dict) != [actor] or not self.action_spaces[actor].contains(action_dict[actor]):
            raise EnvError(f"TwoCues: actions are {dict(action_dict)!r}, expected 0 or 1 of {actor}, whose turn it is")
        script, taken = self._scripts[actor], self._taken[actor]
        answer, action = script.answer[len(taken)], int(action_dict[actor])
        taken.append(action)
        reward = 0.0 if answer == UNASKED else 1.0 if action == answer else -1.0
        arrived = len(taken) == len(script.answer)
        if arrived:
            self.agents.remove(actor)
        waiting = [agent for agent in self.agents if agent != actor] or self.agents
        obs = {agent: self._scripts[agent].obs[len(self._taken[agent])] for agent in waiting}
        self._on_turn = next(iter(waiting), AGENTS[0])
        terminateds = {actor: arrived, "__all__": not self.agents}
        return obs, {actor: reward}, terminateds, {actor: False, "__all__": False}, {agent: {} for agent in obs}

    def render(self) -> Any:
        """Returns an image ``[height, width, 3]`` uint8 of both corridors."""
        from rookery.tasks import drawing

        strips = [self._corridor.strip(agent, self._scripts[agent], self._taken[agent]) for agent in AGENTS]
        timestep = sum(len(taken) for taken in self._taken.values())
        return drawing.draw_strips(strips, timestep, sum(len(script.answer) for script in self._scripts.values()))

    def close(self) -> None:
        """Does nothing: there are no resources to release."""


def _at_least(env: Any, least: int, **setting: Any) -> int:
    """Returns the value of a setting; raises a ValueError unless it is an integer of at least `least`."""
    check_least(type(env).__name__, least, **setting)
    return int(*setting.values())


for _task in (RepeatAfterMe, RepeatPrevious, Autoencode, CountRecall, CueCorridor):
    _task.batched = batched_variant_of(_task)
