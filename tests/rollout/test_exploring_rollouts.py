"""Exploration while playing: its state from decision to decision, and the source of its exploration rate."""

import copy

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from playing import IntroducingWorker, same_bytes

from rookery.core.batch import Demand
from rookery.core.seeding import Role, Streams
from rookery.core.timers import Timers
from rookery.envs.make import make_env
from rookery.models.build import ModelConfig
from rookery.models.memory import MemoryConfig
from rookery.models.q_head import QValues
from rookery.models.squashed import Deterministic, Squashed
from rookery.policies.policy import Policy
from rookery.rollout.mapping import PolicyMapping
from rookery.rollout.noise import ActionNoise


class Stroll(gymnasium.Env):
    """Shows the time; episodes are as long as their seed says, and end by termination or truncation in turn."""

    observation_space = spaces.Box(0, np.inf, (1,), np.float32)

    def __init__(self, choices=0):
        self.action_space = spaces.Discrete(choices) if choices else spaces.Box(-1, 1, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time, self.end = 0, int(self.np_random.integers(1, 9))
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.time += 1
        ended, by_limit = self.time == self.end, self.end % 2 == 0
        return np.full(1, self.time, np.float32), 1.0, ended and not by_limit, ended and by_limit, {}


def playing(head, *, lanes=3, T=5, choices=0, deterministic=False, memory=None, native=True):
    """A worker that plays one policy, whose means are all 0, and the policy its learner has."""
    streams = Streams(7)
    env = make_env(Stroll, {"choices": choices}, (), lanes, "auto")
    made = {}

    def introduce(name, kind):
        model = ModelConfig(native=native, memory=memory or MemoryConfig())
        policy = Policy(kind.obs, kind.action, model, name, generator=torch.Generator().manual_seed(0), head=head)
        if not choices:
            policy.head.linear.weight.data.zero_()
        if isinstance(head, Deterministic):
            policy.head.std.fill_(0.4)
        made[name] = policy
        worker.add_policy(name, policy, Demand(T))

    seeds, mapping = streams.episodes(Role.ENV), PolicyMapping(None, ["main"])
    worker = IntroducingWorker(env, mapping, streams, seeds, Timers(), deterministic, introduce=introduce)
    return worker, made


def drifting(rollouts, lanes, kept):
    """The drift of each decision by hand, from the run's own stream of noise: ``[T, lanes, 2]``."""
    noise, x, step, found = ActionNoise(Streams(7), "main", 0, 2, torch.device("cpu")), torch.zeros(lanes, 2), 0, []
    for rollout in rollouts:
        for t in range(len(rollout.reward)):
            begins = rollout.begins[t].unsqueeze(1)
            x = torch.where(begins, 0.0, x) * kept + noise.at(None, lanes, step) * (1 - kept**2) ** 0.5
            found.append(x)
            step += 1
    return torch.stack(found)


@pytest.mark.parametrize("memory", [None, MemoryConfig(kind="gru", size=4)])
def test_noise_drifts_within_an_episode_and_starts_anew_with_the_next(memory):
    worker, _ = playing(Deterministic(noise="ou", theta=0.25), memory=memory)
    rollouts = [copy.deepcopy(worker.sample()["main"]) for _ in range(7)]  # they live in the worker's memory
    expected = drifting(rollouts, 3, 0.75)
    actions = torch.cat([rollout.action for rollout in rollouts])
    torch.testing.assert_close(actions, (0.4 * expected).clamp(-1, 1), atol=1e-6, rtol=1e-5)
    assert sum(int(rollout.begins.sum()) for rollout in rollouts) > 9


def test_what_exploration_carries_is_in_no_rollout():
    worker, _ = playing(Squashed(noise="ou"))
    assert worker.sample()["main"].memory is None
    worker, _ = playing(Squashed(noise="ou"), memory=MemoryConfig(kind="gru", size=4))
    first = worker.sample()["main"]
    assert first.memory.shape[-1] == 4
    assert worker.policies["main"].memory.memory.shape == (3, 4 + 2)


@pytest.mark.parametrize(
    "head",
    [Deterministic(noise="ou"), Squashed(noise="ou"), Squashed(noise="gsde", every=3), Deterministic(noise="gsde")],
)
def test_a_worker_goes_on_in_the_middle_of_a_drift_to_the_last_bit(head):
    worker, _ = playing(head)
    for _ in range(3):
        worker.sample()
    state = worker.state_dict()
    other, _ = playing(head)
    other.load_state_dict(state)
    for _ in range(4):
        assert same_bytes(worker.sample()["main"], other.sample()["main"])
    assert np.array_equal(worker.policies["main"].memory.memory, other.policies["main"].memory.memory)
    assert worker.policies["main"].memory.memory.any()


def test_a_slots_drift_does_not_depend_on_how_many_others_there_are():
    few, many = (playing(Squashed(noise="ou"), lanes=lanes)[0] for lanes in (2, 5))
    for _ in range(4):
        one, other = few.sample()["main"], many.sample()["main"]
        torch.testing.assert_close(one.action, other.action[:, :2])


def test_evaluation_plays_without_noise():
    worker, _ = playing(Deterministic(noise="ou"), deterministic=True)
    assert not worker.sample()["main"].action.any()
    assert not worker.policies["main"].memory.memory.any()


@pytest.mark.parametrize("native", [True, False])
def test_whoever_plays_heeds_the_learners_exploration_from_the_next_hand_over_on(native):
    worker, made = playing(QValues(), choices=4, T=64, native=native)
    random = worker.sample()["main"].action.flatten()
    assert torch.bincount(random, minlength=4).min() > 20  # a quarter of 192 each
    made["main"].head.epsilon.fill_(0.0)
    made["main"].head.linear.bias.data[2] = 100.0
    worker.set_weights(made)
    greedy = worker.sample()["main"]
    assert (greedy.action == 2).all()
    assert not greedy.logp.any()


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("head", [Squashed(), Deterministic()])
def test_warm_up_ends_with_the_hand_over_that_says_so(head, native):
    worker, made = playing(head, T=64, native=native)
    worker.sample()
    made["main"].head.random.fill_(1.0)
    worker.set_weights(made)
    sizes = worker.sample()["main"].action.abs().flatten()
    assert sizes.mean().item() == pytest.approx(0.5, abs=0.06)
    assert sizes.max() < 1.0
    made["main"].head.random.fill_(0.0)
    made["main"].head.linear.bias.data[:2] = 3.0
    worker.set_weights(made)
    assert worker.sample()["main"].action.mean() > 0.8
