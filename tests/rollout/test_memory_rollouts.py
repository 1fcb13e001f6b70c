"""Memory of a policy during rollouts: empty at an episode start, the agent's own past within one, stored as such."""

import copy
import itertools
from zlib import crc32

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from playing import Dice, IntroducingWorker, ScriptedEnv, same_bytes

from each_step import after_each_step
from rookery import PPOConfig, Trainer
from rookery.core.batch import Demand
from rookery.core.seeding import Role, Streams
from rookery.core.timers import Timers
from rookery.rollout.mapping import PolicyMapping
from rookery.rollout.slots import SlotStore, WorkerPolicy
from selection import slow

REWARD = 3
"""The column of a `Diary` in which rewards are added up."""


class Book(dict):
    """Shared by all copies of a policy."""

    def __deepcopy__(self, memo):
        return self


class Diary(Dice):
    """Dice that remember (decisions in the episode, serial number of what was seen, weight, reward since then)."""

    memory_size, reward_column = 4, REWARD

    def __init__(self, obs, action, book, every):
        super().__init__(obs, action)
        self.book, self.every = book, every

    def memory_every(self, fragment_length):
        return min(self.every, fragment_length)

    def act(self, obs, noise, deterministic=False, memory=None):
        before = memory.clone()
        memory[:, 0] += 1
        memory[:, 1] = obs["obs"][:, 2]
        memory[:, 2] = self.weight
        memory[:, REWARD] = 0.0
        for seen, then, now in zip(obs["obs"], before, memory, strict=True):
            self.book[tuple(seen.tolist())] = then.numpy(), now.numpy().copy()
        return super().act(obs, noise, deterministic)


def diaries(env, names, rule, *, T, every, decisions=None, seed=0, frozen=(), deterministic=False):
    """A worker whose policies are diaries, and what they note: by observation, what was remembered before and after."""
    streams, book = Streams(seed), Book()

    def introduce(name, kind):
        demand = None if name in frozen else Demand(T, decisions)
        worker.add_policy(name, Diary(kind.obs, kind.action, book, every), demand)

    seeds = streams.episodes(Role.ENV)
    mapping = PolicyMapping(rule, names)
    worker = IntroducingWorker(env, mapping, streams, seeds, Timers(), deterministic, introduce=introduce)
    return worker, book


def check_notes(env, book):
    """Asserts that every decision began with nothing, if it was its episode's first, or with what the last one left."""
    last, first, later = {}, 0, 0
    for truth in env.account:
        before, after = book[truth.obs]
        assert after[0] >= 1
        assert after[1] == truth.obs[2]
        if truth.first:
            assert not before.any(), "something was remembered from before an episode"
            first += 1
        else:
            previous = last[truth.agent]
            expected = book[previous.obs][1].copy()
            expected[REWARD] = previous.reward
            assert before.tolist() == expected.tolist()
            assert before[0] >= 1, "something was forgotten within an episode"
            later += 1
        last[truth.agent] = truth
    return first, later


def check_rollout(rollout, book, every):
    """Asserts that a rollout carries what was remembered before its rows 0, every, 2 * every, ... of each fragment."""
    assert rollout.memory_every == every
    assert rollout.memory.dtype == torch.float32
    checked = 0
    for f, length in enumerate(rollout.length.tolist()):
        for t in range(0, length, every):
            before, _ = book[tuple(rollout.obs["obs"][t, f].tolist())]
            assert rollout.memory[t // every, f].tolist() == before.tolist()
            assert not (rollout.begins[t, f] and before.any())
            checked += 1
    return checked


def dealt(seed, names="ab"):
    """A mapping that deals agents to policies anew in each episode."""
    return lambda agent, episode: names[crc32(f"{seed} {agent} {episode.lane} {episode.index}".encode()) % len(names)]


def sides(agents):
    return {f"agent{number}": "ab"[number % 2] for number in range(agents)}


@given(
    seed=st.integers(0, 2**32 - 1),
    lanes=st.integers(1, 3),
    agents=st.integers(1, 4),
    T=st.integers(1, 7),
    every=st.integers(1, 4),
    decisions=st.none() | st.integers(1, 30),
    remap=st.sampled_from(["one policy", "two policies", "dealt anew"]),
    frozen=st.booleans(),
    restless=st.sampled_from([0.0, 0.3, 0.7]),
    deterministic=st.booleans(),
    stop=st.none() | st.integers(1, 50),
)
def test_memory_is_empty_at_the_first_decision_of_an_episode_and_nowhere_else(
    seed, lanes, agents, T, every, decisions, remap, frozen, restless, deterministic, stop
):
    env = ScriptedEnv(seed, lanes, agents, restless)
    names, rule = ["main"], None
    if remap != "one policy":
        names, rule = ["a", "b"], sides(agents) if remap == "two policies" else dealt(seed)
    arguments = {"T": T, "every": every, "decisions": decisions, "frozen": names[1:] if frozen else ()}
    worker, book = diaries(env, names, rule, seed=seed, deterministic=deterministic, **arguments)
    weight = 0
    while worker.vector_steps < 60:
        rollouts = worker.sample(max_env_steps=7 * lanes)
        for rollout in rollouts.values():
            assert check_rollout(rollout, book, min(every, T)) >= len(rollout.length)
        weight += 1  # what plays changes, what it remembers stays
        for name in rollouts:
            with torch.no_grad():
                worker.policies[name].policy.weight.fill_(weight)
        worker.set_weights({name: worker.policies[name].policy for name in rollouts})
        if stop is not None and worker.vector_steps >= stop:
            state, book_before = worker.state_dict(), book
            env = ScriptedEnv(seed, lanes, agents, restless)
            worker, book = diaries(env, names, rule, seed=seed, deterministic=deterministic, **arguments)
            worker.load_state_dict(state)
            book.update(book_before)
            stop = None
    for seat in worker.policies.values():
        if seat.store is not None and seat.store.complete:
            check_rollout(seat.store.drain(worker.now.rows[seat.kind].obs, seat.row_of_slot), book, min(every, T))
    check_notes(env, book)
    assert len(book) == len(env.account)


def test_the_account_above_sees_all_that_can_happen():
    # a seed whose play has agents that die, stay away, come back, are dealt to other policies and wait for rewards
    env = ScriptedEnv(3, 2, 3, 0.7)
    worker, book = diaries(env, ["a", "b"], dealt(3), T=5, every=2, decisions=11)
    pending = carried = 0
    while worker.vector_steps < 200:
        rollouts = worker.sample(max_env_steps=20)
        for name in rollouts:
            pending += int(worker.policies[name].store._pending.sum())
            carried += worker.policies[name].store._carried is not None
        assert all(check_rollout(rollout, book, 2) for rollout in rollouts.values())
    first, later = check_notes(env, book)
    assert min(first, later, pending, carried) > 10
    died = sum(truth.terminated for truth in env.account), sum(truth.truncated for truth in env.account)
    assert min(died) > 20
    assert not worker.policies["a"].store._lockstep


def test_in_lockstep_it_is_the_same():
    env = ScriptedEnv(5, 3, 2, 0.0)
    worker, book = diaries(env, ["main"], None, T=8, every=3, decisions=60)
    partial = 0
    for _ in range(20):
        for rollout in worker.sample().values():
            check_rollout(rollout, book, 3)
            partial += rollout.num_cut
        assert worker.policies["main"].store._lockstep
    first, later = check_notes(env, book)
    assert min(first, later, partial) > 20


@pytest.mark.parametrize("decisions", [1, 2, 5])
def test_what_was_remembered_in_lockstep_goes_with_decisions_that_must_wait_for_their_reward(decisions):
    carried = 0
    for calm in range(2, 14):
        env = ScriptedEnv(calm, 2, 2, 0.0)
        worker, book = diaries(env, ["main"], None, T=6, every=4, decisions=decisions)

        def look(worker, env=env, calm=calm):
            if worker.vector_steps == calm - 1:
                assert worker.policies["main"].store._lockstep
                env.restless = 0.7  # from the next step on agents pause

        after_each_step(worker, look)
        while worker.vector_steps < calm + 12:
            for rollout in worker.sample().values():
                carried += worker.vector_steps == calm and worker.policies["main"].store._carried is not None
                check_rollout(rollout, book, 4)
        check_notes(env, book)
    assert carried > 3


# --- real policies, in training and in evaluation ---------------------------------------------------------------------

NUMBER = spaces.Box(0, 100, (1,), np.float32)
"""What the environments below show: the number of an agent's next decision in its life, from 1 on."""


class Lives(gymnasium.Env):
    """Episodes of 1 to 9 steps, terminated or truncated; every so often one raises an error."""

    observation_space, action_space = NUMBER, spaces.Discrete(3)
    broken = 0.0

    def __init__(self, broken=0.0):
        self.broken = broken

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.age, self.end = 0, int(self.np_random.integers(1, 10))
        return np.ones(1, np.float32), {}

    def step(self, action):
        if self.np_random.random() < self.broken:
            raise RuntimeError("out of order")
        self.age += 1
        over, cut = self.age == self.end, self.end % 2 == 0
        return np.full(1, self.age + 1, np.float32), float(action) - 1, over and not cut, over and cut, {}


class Relay:
    """Players in turns: x, y, z, x, ...; z dies at its third decision and comes back two rounds later, y is cut off at
    its fifth and comes back in the next round.
    """

    possible_agents = ("x", "y", "z")
    observation_space, action_space = NUMBER, spaces.Discrete(3)

    def reset(self, seed=None, options=None):
        rng = np.random.default_rng(seed)
        self.t, self.end = 0, int(rng.integers(20, 60))
        self.age = dict.fromkeys("xyz", 0)
        self.away = dict.fromkeys("xyz", 0)
        return {"x": np.ones(1, np.float32)}, {}

    def step(self, actions):
        ((actor, action),) = actions.items()
        self.t += 1
        self.age[actor] += 1
        terminateds, truncateds = {}, {}
        rewards = {actor: float(action), "x": 0.5 * self.t}
        obs = {}
        if actor == "z" and self.age["z"] == 3:
            terminateds["z"], self.age["z"], self.away["z"] = True, 0, 2
        if actor == "y" and self.age["y"] == 5:
            truncateds["y"], self.age["y"], self.away["y"] = True, 0, 1
        over = self.t >= self.end
        terminateds["__all__"], truncateds["__all__"] = over, False
        if not over:
            following = "yzx"["xyz".index(actor)]
            while self.away[following]:
                self.away[following] -= 1
                following = "yzx"["xyz".index(following)]
            obs[following] = np.full(1, self.age[following] + 1, np.float32)
        return obs, rewards, terminateds, truncateds, {}


MEMORIES = {
    "lstm": {"kind": "lstm", "size": 4},
    "gru and all that is recalled": {
        "kind": "gru", "size": 4, "layers": 2, "previous_action": True, "previous_reward": True, "frame_stack": 3,
    },
    "scan": {"kind": "scan", "size": 4, "previous_reward": True},
    "attention": {"kind": "attention", "size": 4, "context": 3, "heads": 2},
    "last action": {"previous_action": True},
    "frames": {"frame_stack": 2},
}  # fmt: skip


def cfg(memory, **settings):
    model = {"hidden": (8,), "memory": {"sequence_length": 3, **MEMORIES[memory]}}
    return PPOConfig(fragment_length=10, epochs=1, minibatch_size=32, model=model, **settings)


@pytest.fixture
def decided(monkeypatch):
    """Of every decision that is made from now on: whose policy, its number in a life, what was remembered before it."""
    found = []
    act = WorkerPolicy.act

    def noting(seat, decisions, noise, memory):
        if memory is not None:
            numbers = decisions.obs["obs"][:, 0].tolist()
            found.extend((seat.name, number, row.copy()) for number, row in zip(numbers, memory, strict=True))
        act(seat, decisions, noise, memory)

    monkeypatch.setattr(WorkerPolicy, "act", noting)
    return found


def check_lives(decided):
    """Asserts that memory is empty at the first decision of each life and at no other."""
    counts = {True: 0, False: 0}
    for name, number, memory in decided:
        assert memory.any() == (number > 1), f"at decision {number} of a life {name} remembers {memory}"
        counts[number > 1] += 1
    return min(counts.values())


@pytest.mark.parametrize(
    ("env", "memory", "native"),
    [
        *(slow(Lives, *case) for case in itertools.product(MEMORIES, [True, False])),
        *((Relay, memory, number % 2 == 0) for number, memory in enumerate(MEMORIES)),
        *(slow(Relay, memory, number % 2 != 0) for number, memory in enumerate(MEMORIES)),
    ],
)
def test_real_policies_begin_each_life_with_an_empty_memory_in_training_and_in_evaluation(env, memory, native, decided):
    settings = cfg(memory)
    settings = settings.replace(model=settings.model.replace(native=native))
    with Trainer(env, settings, seed=1, num_envs=4, config={"env.implementation": "serial"}) as trainer:
        for iteration in range(2):
            trainer.train_iteration()
            assert check_lives(decided) >= 4
            decided.clear()
            trainer.evaluate(episodes=9, deterministic=iteration % 2 == 0)
            assert check_lives(decided) >= 9
            decided.clear()


@pytest.mark.parametrize(
    "rule",
    [{"x": "a", "y": "b", "z": "c"}, {"x": "a", "y": "a", "z": "b"}, dealt(0, "abc")],
    ids=["one each", "one for two", "dealt anew"],
)
def test_policies_with_other_memories_and_none_play_together_and_each_learns(rule, decided):
    plain = PPOConfig(fragment_length=10, epochs=1, minibatch_size=32)
    policies = {"a": cfg("lstm"), "b": cfg("gru and all that is recalled"), "c": plain}
    with Trainer(Relay, plain, policies=policies, policy_mapping=rule, seed=1, num_envs=4) as trainer:
        before = {name: weights_of(policy) for name, policy in trainer.policies.items()}
        for _ in range(6):
            trainer.train_iteration()
        playing = trainer._pool.worker.policies
        assert len(playing) >= 2
        for name in playing:
            assert not torch.equal(weights_of(trainer.policies[name]), before[name]), name
        widths = {name: 0 if seat.memory is None else seat.memory.memory.shape[1] for name, seat in playing.items()}
        assert len(set(widths.values())) == len(widths)
    assert check_lives(decided) > 20
    assert {name for name, _, _ in decided} == {name for name, width in widths.items() if width}


def weights_of(policy):
    return torch.cat([weight.detach().flatten() for weight in policy.parameters()])


def test_frozen_policies_remember_as_those_that_learn(decided):
    policies = {"a": cfg("lstm"), "b": {"frozen": True, "model": {"memory": MEMORIES["scan"]}}}
    rule = {"x": "a", "y": "b", "z": "b"}
    with Trainer(Relay, cfg("lstm"), policies=policies, policy_mapping=rule, seed=1, num_envs=2) as trainer:
        for _ in range(6):
            trainer.train_iteration()
        assert trainer._pool.worker.policies["b"].store is None
    for name in "ab":
        assert check_lives([entry for entry in decided if entry[0] == name]) >= 5


def test_an_episode_that_raises_is_forgotten(decided):
    config = {"env.on_error": "restart", "env.implementation": "serial"}
    with Trainer(Lives, cfg("lstm"), env_config={"broken": 0.02}, seed=1, num_envs=4, config=config) as trainer:
        for _ in range(8):
            result = trainer.train_iteration()
        assert result.counters["steps_discarded"] > 2
    assert check_lives(decided) > 20


def test_over_the_turns_of_others_nothing_moves():
    moved = []
    with Trainer(Relay, cfg("lstm"), seed=1, num_envs=2) as trainer:
        worker = trainer._pool.worker
        before = {}

        def look(worker):
            if "main" not in worker.policies:
                return
            now = worker.policies["main"].memory.memory.copy()
            if "rows" in before and len(before["rows"]) == len(now):
                moved.append(int((before["rows"] != now).any(1).sum()))
            before["rows"] = now

        after_each_step(worker, look)
        for _ in range(3):
            trainer.train_iteration()
        assert len(worker.policies["main"].memory.memory) == 6
    assert set(moved) <= {0, 1, 2}  # one agent of each lane
    assert moved.count(2) > len(moved) / 2


@pytest.mark.parametrize("memory", ["lstm", "gru and all that is recalled"])
def test_lockstep_and_the_general_way_keep_the_same_memories(memory, monkeypatch):
    def rollouts():
        with Trainer("StatelessCartPole", cfg(memory, rollout_size=70), seed=1, num_envs=4) as trainer:
            for _ in range(6):
                for rollout in trainer._pool.sample(1000).rollouts.values():
                    yield rollout, trainer._pool.worker.policies["main"].store._lockstep

    entered = SlotStore._enter_lockstep
    fast, slow, rows = rollouts(), rollouts(), 0
    for rollout, is_lockstep in fast:
        assert is_lockstep
        kept = copy.deepcopy(rollout)
        monkeypatch.setattr(SlotStore, "_enter_lockstep", lambda store: False)
        other, is_lockstep = next(slow)
        monkeypatch.setattr(SlotStore, "_enter_lockstep", entered)
        assert not is_lockstep
        assert same_bytes(kept, other)
        for f, length in enumerate(kept.length.tolist()):
            here = -(-length // kept.memory_every)
            assert torch.equal(kept.memory[:here, f], other.memory[:here, f])
            rows += here
        assert kept.memory_every == other.memory_every
    assert rows > 50
