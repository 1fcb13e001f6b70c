"""Shared parts of the rollout tests: a random policy, a worker for it, and rollouts read back one by one."""

import copy
from dataclasses import dataclass

import numpy as np
import torch
from gymnasium import spaces
from torch import nn

from rookery.core.batch import Demand
from rookery.core.seeding import Role, Streams
from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.core.timers import Timers
from rookery.envs.base import Kind, Rows, Step
from rookery.envs.make import make_env
from rookery.models.distributions import NoiseSpec
from rookery.models.heads import DistributionHead
from rookery.rollout.mapping import PolicyMapping
from rookery.rollout.worker import RolloutWorker


class Dice(nn.Module):
    """Plays a uniform choice, or the first allowed one after it; says the logarithm of the number it rolled."""

    memory_size, exploration_size, recall, head_spec = 0, 0, None, DistributionHead()

    def __init__(self, obs, action):
        super().__init__()
        self.obs_spec, self.action_spec, self.noise = obs, action, NoiseSpec(uniform=1)
        self.weight = nn.Parameter(torch.zeros(1))

    def act(self, obs, noise, deterministic=False, memory=None):
        roll = torch.zeros(len(next(iter(obs.values())))) if deterministic else noise[:, 0]
        choices = self.action_spec.sizes[0]
        action = (roll * choices).long()
        if "action_mask" in obs:
            for row, allowed in enumerate(obs["action_mask"]):
                while not allowed[action[row]]:
                    action[row] = (action[row] + 1) % choices
        return action, torch.log(roll)


class IntroducingWorker(RolloutWorker):
    """A worker that adds missing policies itself, and gives rollouts alone; `finished` grows until it is drained."""

    fixed = ("introduce",)

    def __init__(self, *arguments, introduce, **options):
        super().__init__(*arguments, **options)
        self.introduce = introduce

    def sample(self, max_env_steps=None, episodes=None):
        limit = None if max_env_steps is None else self.lane_steps + max_env_steps
        while True:
            sample = super().sample(None if limit is None else limit - self.lane_steps, episodes)
            self.finished = sample.finished
            if not sample.newcomers:
                return sample.rollouts
            assert not sample.rollouts
            for name, kind in sample.newcomers.items():
                self.introduce(name, kind)

    def drain_finished(self):
        finished, self.finished = self.finished, []
        return finished

    def load_state_dict(self, state):
        for name, kind in self.load_env(state).items():
            self.introduce(name, kind)
        super().load_state_dict(state)


def play(
    env,
    policies=("main",),
    rule=None,
    *,
    T=4,
    decisions=None,
    lanes=1,
    seed=0,
    config=None,
    frozen=(),
    any_actions=False,
):
    """A worker whose policies are made when their first agent appears; `T` and `decisions` may be dicts by policy."""
    if not hasattr(env, "num_lanes"):
        env = make_env(env, config, (), lanes, "auto")
    streams = Streams(seed)

    def introduce(name, kind):
        length = T[name] if isinstance(T, dict) else T
        wanted = decisions[name] if isinstance(decisions, dict) else decisions
        demand = None if name in frozen else Demand(length, wanted, any_actions)
        worker.add_policy(name, Dice(kind.obs, kind.action), demand)

    mapping = PolicyMapping(rule, list(policies))
    worker = IntroducingWorker(env, mapping, streams, streams.episodes(Role.ENV), Timers(), introduce=introduce)
    return worker


def taken(worker, takes, policy="main"):
    """The decisions of the first `takes` rollouts of a policy."""
    found = []
    while takes:
        rollouts = worker.sample()
        if policy in rollouts:
            found += decisions_of(rollouts[policy])
            takes -= 1
    return found


@dataclass(frozen=True)
class Decision:
    """One valid row; `next` is what its value bootstraps from: None if terminated."""

    slot: int
    clock: int
    obs: tuple
    action: int
    logp: float
    reward: float
    terminated: bool
    truncated: bool
    next: tuple | None
    first: bool
    version: int | None


def rows_of(tree, *index):
    """One observation as plain numbers; with several leaves, their numbers one after the other."""
    return tuple(number for leaf in tree.values() for number in np.ravel(leaf[index].numpy()).tolist())


def decisions_of(rollout):
    """A rollout as a list, fragment by fragment. `version` is known of row 0 alone."""
    finals = {(int(t), int(f)): k for k, (t, f) in enumerate(rollout.boot_index)}
    assert len(finals) == len(rollout.boot_index), "two final observations for one decision"
    found = []
    for f in range(len(rollout.slot)):
        length = int(rollout.length[f])
        assert 0 < length <= len(rollout.reward)
        for t in range(length):
            terminated, truncated = bool(rollout.terminated[t, f]), bool(rollout.truncated[t, f])
            assert ((t, f) in finals) == (truncated and not terminated)
            if terminated:
                after = None
            elif truncated:
                after = rows_of(rollout.final_obs, finals[t, f])
            else:
                after = rows_of(rollout.last_obs, f) if t == length - 1 else rows_of(rollout.obs, t + 1, f)
            ended_before = t > 0 and bool(rollout.terminated[t - 1, f] or rollout.truncated[t - 1, f])
            found.append(
                Decision(
                    slot=int(rollout.slot[f]),
                    clock=int(rollout.clock[f]) + t,
                    obs=rows_of(rollout.obs, t, f),
                    action=int(rollout.action[t, f]),
                    logp=float(rollout.logp[t, f]),
                    reward=float(rollout.reward[t, f]),
                    terminated=terminated,
                    truncated=truncated,
                    next=after,
                    first=bool(rollout.first[f]) if t == 0 else ended_before,
                    version=int(rollout.version[f]) if t == 0 else None,
                )
            )
    return found


def same_bytes(one, other):
    """Compares two rollouts: the same numbers in all valid rows, to the last bit."""
    valid = one.valid
    pairs = [(one.length, other.length), (one.slot, other.slot), (one.clock, other.clock), (one.first, other.first)]
    pairs += [(one.version, other.version), (one.boot_index, other.boot_index)]
    if not all(torch.equal(mine, theirs) for mine, theirs in pairs):
        return False
    names = ("action", "logp", "reward", "terminated", "truncated")
    pairs = [(getattr(one, name)[valid], getattr(other, name)[valid]) for name in names]
    pairs += [(one.obs[path][valid], other.obs[path][valid]) for path in one.obs]
    pairs += [(one.last_obs[path], other.last_obs[path]) for path in one.obs]
    pairs += [(one.final_obs[path], other.final_obs[path]) for path in one.obs]
    return all(mine.dtype == theirs.dtype and torch.equal(mine, theirs) for mine, theirs in pairs)


@dataclass
class Truth:
    """A decision as a `ScriptedEnv` saw it."""

    agent: tuple
    obs: tuple
    action: int
    first: bool
    vector_step: int
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    next: tuple | None = None
    complete: bool = False


class ScriptedEnv:
    """A vector env drawn at random: who acts, earns, ends, stays away and comes back. It keeps its own slow account.

    Every observation is (lane, agent, serial number), so that none looks like another.
    """

    def __init__(self, seed, lanes, agents, restless=0.3):
        self.num_lanes, self.layout, self.exact, self.name, self.notes = lanes, 0, True, "scripted", ()
        space, actions = spaces.Box(-np.inf, np.inf, (3,), np.float32), spaces.Discrete(1000)
        names = tuple(f"agent{number}" for number in range(agents))
        self.kinds = (Kind(names, obs_spec(space, actions), action_spec(actions)),)
        self.rng = np.random.default_rng(seed)
        self.restless = restless
        self.episode = np.zeros(lanes, dtype=np.int64)
        self.players = [(lane, agent) for lane in range(lanes) for agent in range(agents)]
        self.alive = dict.fromkeys(self.players, False)
        self.fresh = dict.fromkeys(self.players, True)
        self.last = dict.fromkeys(self.players)
        self.seen = dict.fromkeys(self.players, (0.0, 0.0, 0.0))
        self.counters = {}
        self.account, self.serial, self.vector_steps, self.lost, self.paid = [], 0, 0, 0, 0.0

    def chance(self, probability):
        return bool(self.rng.random() < probability)

    def reset(self, seeds):
        self.rows = Rows.allocate(self.kinds[0], self.num_lanes)
        for lane in range(self.num_lanes):
            self.begin(lane)
        return Step((self.rows,), np.zeros(self.num_lanes, dtype=bool))

    def begin(self, lane):
        mine = [player for player in self.players if player[0] == lane]
        for player in mine:
            self.fresh[player] = True
            if self.chance(1 - self.restless):
                self.wait(player)
        if not any(self.rows.waiting[self.players.index(player)] for player in mine):
            self.wait(mine[0])

    def wait(self, player):
        row = self.players.index(player)
        self.serial += 1
        self.seen[player] = (float(player[0]), float(player[1]), float(self.serial))
        self.rows.obs["obs"][row] = self.seen[player]
        self.rows.waiting[row] = self.alive[player] = True
        before = self.last[player]
        if before is not None and not before.complete:
            before.complete, before.next = True, self.seen[player]

    def step(self, actions):
        (given,) = actions
        waiting = np.flatnonzero(self.rows.waiting)
        assert len(given) == len(waiting)
        for row, action in zip(waiting, given, strict=True):
            player = self.players[row]
            truth = Truth(player, self.seen[player], int(action), self.fresh[player], self.vector_steps)
            self.fresh[player], self.last[player] = False, truth
            self.account.append(truth)
        self.vector_steps += 1
        self.rows = Rows.allocate(self.kinds[0], self.num_lanes)  # a reference to the old arrays sees old numbers
        ended, finals = np.zeros(self.num_lanes, dtype=bool), []
        for lane in range(self.num_lanes):
            ended[lane] = self.chance(0.15)
            for player in self.players:
                if player[0] == lane:
                    self.happen(player, ended[lane], finals)
            if ended[lane]:
                self.episode[lane] += 1
                self.begin(lane)
        self.rows.final_index = np.array([row for row, _ in finals], dtype=np.int64)
        self.rows.final_obs = {"obs": np.array([obs for _, obs in finals], dtype=np.float32).reshape(-1, 3)}
        return Step((self.rows,), ended)

    def happen(self, player, over, finals):
        row, truth = self.players.index(player), self.last[player]
        pending = truth is not None and not truth.complete
        if self.chance(0.5):
            self.rows.reward[row] = reward = float(self.rng.integers(1, 9))
            self.paid += reward
            if pending:
                truth.reward += reward
            else:
                self.lost += 1
        if self.alive[player] and (over or self.chance(self.restless / 4)):
            self.alive[player], self.fresh[player] = False, True
            terminated, truncated = [(True, False), (False, True), (True, True)][
                self.rng.choice(3, p=[0.45, 0.45, 0.1])
            ]
            self.rows.terminated[row], self.rows.truncated[row] = terminated, truncated
            if truncated and not terminated:
                self.serial += 1
                finals.append((row, (-1.0, float(player[1]), float(self.serial))))
            if pending:
                truth.complete, truth.terminated, truth.truncated = True, terminated, truncated
                truth.next = None if terminated else finals[-1][1]
        if not over and self.chance(1 - self.restless if self.alive[player] else self.restless / 2):
            self.wait(player)

    def state_dict(self):
        return copy.deepcopy(vars(self))

    def load_state_dict(self, state, seeds):
        vars(self).update(copy.deepcopy(state))
        return Step((self.rows,), np.zeros(self.num_lanes, dtype=bool)), np.zeros(self.num_lanes, dtype=bool)

    def close(self):
        pass
