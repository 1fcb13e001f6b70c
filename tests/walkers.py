"""Simulated copies that keep their own clock, which write down what truly happened."""

import numpy as np
from gymnasium import spaces

from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.envs.async_copies.async_env import AsyncCopiesEnv
from rookery.envs.async_copies.step_message import Asking, CopyBehavior, Ended, StepMessage

BOX = spaces.Box(-np.inf, np.inf, (2,), np.float32)
OBS, ACTION = obs_spec(BOX, spaces.Discrete(3)), action_spec(spaces.Discrete(3))


def told(ids, decisions, reward):
    seen = np.array([[agent, number] for agent, number in zip(ids, decisions, strict=True)], np.float32).reshape(-1, 2)
    return list(ids), {"obs": seen}, np.array(reward, dtype=float)


class Walkers:
    """Copies with agents that live for a drawn number of decisions, ask at their own pace, and are paid what they do.

    The reward of an agent's n-th decision is ``id + action / 10``; what is seen is ``[id, n]``.
    """

    own_episodes, parameters, notes, name = True, {}, (), "walkers"

    def __init__(self, lanes, seed=0):
        self.rng = np.random.default_rng(seed)
        self.behaviors, self.counters = {"A": CopyBehavior(OBS, ACTION)}, {}
        self.alive = [{} for _ in range(lanes)]  # id -> [decisions, life, due, truncates]
        self.next_id = [0] * lanes
        self.pending = [{} for _ in range(lanes)]  # id -> action
        self.ready = [True] * lanes
        self.truth = {}  # (lane, id) -> rewards of its decisions, and how it ended

    def begin(self, lane, episode, plan):
        self.alive[lane], self.pending[lane], self.ready[lane] = {}, {}, True
        for _ in range(3):
            self.spawn(lane)

    def spawn(self, lane):
        self.next_id[lane] += 1
        self.alive[lane][self.next_id[lane]] = [0, int(self.rng.integers(1, 6)), bool(self.rng.integers(2))]

    def replan(self, plan):
        pass

    def step_messages(self, seconds):
        found = []
        for lane, ready in enumerate(self.ready):
            if not ready or self.rng.random() < 0.3:
                continue
            gone, paid = [], {}
            for agent, action in self.pending[lane].items():
                paid[agent] = agent + action / 10
                self.truth.setdefault((lane, agent), [[], None])[0].append(paid[agent])
                self.alive[lane][agent][0] += 1
                if self.alive[lane][agent][0] == self.alive[lane][agent][1]:
                    gone.append(agent)
            self.pending[lane] = {}
            cut = [self.alive[lane][agent][2] for agent in gone]
            for agent, truncated in zip(gone, cut, strict=True):
                self.truth[lane, agent][1] = truncated
            lives = [self.alive[lane][agent][0] for agent in gone]
            left = Ended(*told(gone, lives, [paid[agent] for agent in gone]), truncated=np.array(cut))
            for agent in gone:
                del self.alive[lane][agent]
                if self.rng.random() < 0.9 or len(self.alive[lane]) < 2:
                    self.spawn(lane)
            if self.rng.random() < 0.05:
                self.spawn(lane)
            asks = [a for a in self.alive[lane] if a in paid or self.rng.random() < 0.8]
            lives = [self.alive[lane][agent][0] for agent in asks]
            ask = Asking(*told(asks, lives, [paid.get(agent, 0.0) for agent in asks]))
            found.append(StepMessage(lane, {"A": ask} if asks else {}, {"A": left} if gone else {}))
            self.ready[lane] = False
        return found

    def answer(self, lane, episode, answers):
        for one in answers.values():
            self.pending[lane] = dict(zip(one.ids, np.asarray(one.actions).tolist(), strict=True))
        self.ready[lane] = True

    def close(self):
        pass


class Wilful(Walkers):
    """Walkers that sometimes act by themselves: in a drawn moment all those of an environment that must act."""

    def __init__(self, lanes, seed=0, share=0.3):
        super().__init__(lanes, seed)
        self.share, self.will, self.own = share, {}, {}  # lane -> actions by agent; (agent, n) -> (lane, action) of all

    def begin(self, lane, episode, plan):
        super().begin(lane, episode, plan)
        self.will.pop(lane, None)

    def step_messages(self, seconds):
        found = super().step_messages(seconds)
        for arrival in found:
            for ask in arrival.asking.values():
                if self.rng.random() < self.share:
                    ask.own = self.rng.integers(0, 3, len(ask.ids))
                    self.will[arrival.lane] = dict(zip(ask.ids, ask.own.tolist(), strict=True))
                    for (agent, number), action in zip(ask.obs["obs"].astype(int).tolist(), ask.own, strict=True):
                        self.own[arrival.lane, agent, number] = int(action)
        return found

    def answer(self, lane, episode, answers):
        super().answer(lane, episode, answers)
        self.pending[lane] |= self.will.pop(lane, {})


class WalkersEnv(AsyncCopiesEnv):
    """Walkers as an environment that can be named."""

    made = 0

    def __init__(self, num_lanes, seed=0, only_one=False):
        type(self).made += 1
        self.only_one = only_one
        super().__init__(Walkers(num_lanes, seed), num_lanes)


class Squads:
    """Copies with groups that begin, decide and end at times of their own; members fall before their group.

    Members of one group ask together. What one sees is ``[id, n]``, its n-th decision earns ``id / 100 + action / 10``,
    and its group gets a drawn whole number with each. `groups` is how many there are at first; another comes later.
    """

    own_episodes, parameters, notes, name, size = True, {}, (), "squads", 3

    def __init__(self, lanes, seed=0, groups=2, more_after=10**9):
        self.rng, self.more_after = np.random.default_rng(seed), more_after
        seats = tuple(group for group in range(groups) for _ in range(self.size))
        self.behaviors, self.counters = {"A": CopyBehavior(OBS, ACTION, seats)}, {}
        self.next_id, self.groups, self.told = 0, groups, 0
        self.squads = [{} for _ in range(lanes)]  # by group: [ids living, decisions, ids of all, group's rewards]
        self.pending = [{} for _ in range(lanes)]
        self.ready = [True] * lanes
        self.seen, self.own = {}, {}  # (id, n) -> who lived then; id -> rewards of its decisions, those of its group
        self.fallen, self.ended = {}, []  # id -> what its group got after it fell; (ids, decisions, group's total, cut)

    def begin(self, lane, episode, plan):
        self.squads[lane], self.pending[lane], self.ready[lane] = {}, {}, True
        for group in range(self.groups):
            self.muster(lane, group)

    def muster(self, lane, group):
        count = int(self.rng.integers(2, self.size + 1)) if self.told > 20 else self.size
        ids = [self.next_id + number for number in range(1, count + 1)]
        self.next_id += count
        self.squads[lane][group] = [ids, 0, list(ids), []]
        self.own |= {agent: [] for agent in ids}

    def replan(self, plan):
        pass

    def step_messages(self, seconds):
        found = []
        for lane, ready in enumerate(self.ready):
            if not ready or self.rng.random() < 0.3:
                continue
            self.told += 1
            asks, paid, left, cuts, shared = [], {}, [], [], {}
            if self.told == self.more_after:
                self.muster(lane, self.groups)
            for group, squad in list(self.squads[lane].items()):
                living, number, everyone, earned = squad
                if not set(living) <= self.pending[lane].keys():
                    if number == 0 and self.rng.random() < 0.7:
                        asks.append(group)
                    continue
                if self.rng.random() < 0.3:
                    continue
                got = float(self.rng.integers(0, 4))
                earned.append(got)
                for agent in living:
                    paid[agent] = agent / 100 + self.pending[lane].pop(agent) / 10
                    shared[agent] = got
                    self.own[agent].append((paid[agent], got))
                for agent in set(everyone) - set(living):
                    self.fallen[agent].append(got)
                squad[1] += 1
                over, cut = self.rng.random() < 0.2, bool(self.rng.integers(2))
                falls = list(living) if over else [one for one in living[1:] if self.rng.random() < 0.2]
                left += [(agent, squad[1]) for agent in falls]
                cuts += [over and cut] * len(falls)
                if over:
                    self.ended.append((lane, tuple(everyone), squad[1], sum(earned), cut, tuple(living)))
                    self.muster(lane, group)
                else:
                    self.fallen |= {agent: [] for agent in falls}
                    squad[0] = [agent for agent in living if agent not in falls]
                asks.append(group)
            gone = Ended(
                *told([one for one, _ in left], [at for _, at in left], [paid[one] for one, _ in left]),
                ["-"] * len(left),
                np.array([shared[one] for one, _ in left]),
                truncated=np.array(cuts, dtype=bool),
            )
            who = [(agent, group) for group in asks for agent in self.squads[lane][group][0]]
            for agent, group in who:
                living, number, *_ = self.squads[lane][group]
                self.seen[agent, number] = tuple(living)
            rows = told(
                [agent for agent, _ in who],
                [self.squads[lane][group][1] for _, group in who],
                [paid.get(agent, 0.0) for agent, _ in who],
            )
            ask = Asking(*rows, [f"g{group}" for _, group in who], np.array([shared.get(one, 0.0) for one, _ in who]))
            found.append(StepMessage(lane, {"A": ask} if who else {}, {"A": gone} if left else {}))
            self.ready[lane] = False
        return found

    def answer(self, lane, episode, answers):
        for one in answers.values():
            self.pending[lane] |= dict(zip(one.ids, np.asarray(one.actions).tolist(), strict=True))
        self.ready[lane] = True

    def close(self):
        pass


class Duels:
    """Copies in which two teams play several games at once, each with a clock of its own and both players in it.

    A game lasts for some decisions; who has chosen the larger numbers wins, +1 to -1. New players come with each game;
    `late` is the arrival from which on there is one game more.
    """

    own_episodes, parameters, notes, name = True, {}, (), "duels"
    teams = "Striker?team=0", "Striker?team=1"

    def __init__(self, lanes, seed=0, games=2, late=10**9):
        self.rng, self.games, self.late, self.told = np.random.default_rng(seed), games, late, 0
        self.behaviors = {team: CopyBehavior(OBS, ACTION, (-1,) * games) for team in self.teams}
        self.counters, self.next_id, self.results = {}, 0, []
        self.running = [[] for _ in range(lanes)]  # of each game: [ids by team, decisions, sums, length]
        self.pending, self.ready = [{} for _ in range(lanes)], [True] * lanes

    def begin(self, lane, episode, plan):
        self.running[lane] = [self.fresh() for _ in range(self.games)]
        self.pending[lane], self.ready[lane] = {}, True

    def fresh(self):
        self.next_id += 2
        return [(self.next_id - 1, self.next_id), 0, [0, 0], int(self.rng.integers(1, 5))]

    def replan(self, plan):
        pass

    def step_messages(self, seconds):
        found = []
        for lane, ready in enumerate(self.ready):
            if not ready or self.rng.random() < 0.2:
                continue
            self.told += 1
            if self.told == self.late:
                self.running[lane].append(self.fresh())
            asks, left = ([], []), ([], [])
            for place, game in enumerate(self.running[lane]):
                ids, count, sums, length = game
                acted = ids[0] in self.pending[lane]
                if (count or acted) and (not acted or self.rng.random() < 0.3):
                    continue
                if acted:
                    for team in (0, 1):
                        sums[team] += self.pending[lane].pop(ids[team])
                    game[1] += 1
                    if game[1] == length:
                        won = float(np.sign(sums[0] - sums[1]))
                        for team in (0, 1):
                            left[team].append((ids[team], length, won if team == 0 else -won))
                        self.results.append((lane, won, length))
                        game = self.running[lane][place] = self.fresh()
                for team in (0, 1):
                    asks[team].append((game[0][team], game[1], 0.0))
            asking = {name: Asking(*told(*zip(*who))) for name, who in zip(self.teams, asks, strict=True) if who}
            gone = {}
            for name, who in zip(self.teams, left, strict=True):
                if who:
                    gone[name] = Ended(*told(*zip(*who)), truncated=np.zeros(len(who), dtype=bool))
            found.append(StepMessage(lane, asking, gone))
            self.ready[lane] = False
        return found

    def answer(self, lane, episode, answers):
        for one in answers.values():
            self.pending[lane] |= dict(zip(one.ids, np.asarray(one.actions).tolist(), strict=True))
        self.ready[lane] = True

    def close(self):
        pass


class DuelsEnv(AsyncCopiesEnv):
    """Duels as an environment that can be named."""

    def __init__(self, num_lanes, seed=0, late=10**9):
        self.copies = Duels(num_lanes, seed, late=late)
        super().__init__(self.copies, num_lanes)
