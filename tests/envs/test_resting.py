"""Environments that report rest: no agent waits for an action then, and they are stepped until it is over."""

from __future__ import annotations

import itertools

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from rookery.core.errors import EnvError
from rookery.core.seeding import Role, Streams
from rookery.envs.make import make_env
from rookery.envs.vector.faults import Tolerance
from selection import slow_except, slow_repeats


def seeds_of(lane, episode):
    """Even and odd seeds by turns."""
    return 2 * Streams(3).episodes(Role.ENV)(lane, episode) % 2**31 + lane % 2


class Machine(gymnasium.Env):
    """Works for four steps and rests for three; lanes with odd seeds rest at the start of an episode too."""

    observation_space = spaces.Box(-100, 100, (2,), np.float32)
    action_space = spaces.Box(np.array([1.0, -1.0], np.float32), np.array([3.0, 1.0], np.float32))
    length = 20

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.place, self.rest, self.idled = 0, 0.0, 2 * (seed % 2), []
        return self.seen(), {"resting": self.rest > 0}

    def seen(self):
        return np.array([self.place, self.t], np.float32)

    def step(self, action):
        self.t += 1
        if self.rest:
            self.rest -= 1
            self.idled.append(np.array(action))
        else:
            self.place += float(action[1]) + self.np_random.normal()
            self.rest = 3 * (self.t % 7 == 4)
        action *= 0  # it may do with it what it likes
        info = {"resting": True} if self.rest else {}
        return self.seen(), 0.5, False, self.t == self.length, info


class Crew:
    """Three in dicts by agent: the second rests in every third step, all of them in every fifth."""

    agents = ("a", "b", "c")
    observation_space = spaces.Box(-100, 100, (1,), np.float32)
    action_space = spaces.Discrete(3, start=5)

    def reset(self, *, seed=None, options=None):
        self.rng, self.t = np.random.default_rng(seed), 0
        self.given = []
        return self.seen(), self.infos()

    def seen(self):
        return {agent: np.array([self.t + 0.1 * number], np.float32) for number, agent in enumerate(self.agents)}

    def infos(self):
        return {agent: {"resting": self.rests(agent)} for agent in self.agents}

    def rests(self, agent):
        return self.t % 5 == 4 or (agent == "b" and self.t % 3 == 0)

    def step(self, actions):
        assert set(actions) == set(self.agents), "every agent is stepped, at rest or not"
        self.given.append({agent: (self.rests(agent), int(action)) for agent, action in actions.items()})
        self.t += 1
        over = self.t == 13
        rewards = {agent: float(action) + self.rng.normal() for agent, action in actions.items()}
        return ({} if over else self.seen()), rewards, {"__all__": False}, {"__all__": over}, self.infos()


class Parallel(Crew):
    """The same as a PettingZoo parallel environment."""

    possible_agents = list(Crew.agents)

    def observation_space(self, agent):
        return Crew.observation_space

    def action_space(self, agent):
        return Crew.action_space

    def reset(self, *, seed=None, options=None):
        self.agents = self.possible_agents
        return super().reset(seed=seed)

    def step(self, actions):
        _, rewards, _, _, infos = super().step(actions)
        over = self.t == 13
        obs = self.seen()
        ended = dict.fromkeys(self.possible_agents, over)
        self.agents = [] if over else self.possible_agents
        return obs, rewards, dict.fromkeys(ended, False), ended, infos


class Turned:
    """Two take turns as in a PettingZoo AEC environment; who is on turn rests in every third step."""

    possible_agents = ("a", "b")
    metadata = {"name": "turned"}  # noqa: RUF012

    def observation_space(self, agent):
        return Crew.observation_space

    def action_space(self, agent):
        return Crew.action_space

    def reset(self, *, seed=None, options=None):
        self.agents, self.t = list(self.possible_agents), 0
        self.terminations = self.truncations = dict.fromkeys(self.agents, False)
        self.show()

    def show(self):
        self.agent_selection = self.possible_agents[self.t % 2]
        self.rewards = dict.fromkeys(self.possible_agents, 1.0)
        self.infos = {agent: {"resting": self.t % 3 == 1} for agent in self.possible_agents}

    def observe(self, agent):
        return np.array([self.t], np.float32)

    def last(self):
        agent = self.agent_selection
        return self.observe(agent), 0.0, self.terminations[agent], self.truncations[agent], self.infos[agent]

    def agent_iter(self):
        raise NotImplementedError

    def step(self, action):
        if action is None:
            self.agents.remove(self.agent_selection)
            self.agent_selection = self.agents[0] if self.agents else self.agent_selection
            return
        self.t += 1
        self.show()
        self.truncations = dict.fromkeys(self.possible_agents, self.t >= 11)


KINDS = {"gymnasium": Machine, "dicts": Crew, "parallel": Parallel, "in turns": Turned}
HELPED = [("serial", 0), ("threads", 1), ("processes", 1)]


def made(env, implementation="serial", helpers=0, lanes=3):
    borne = Tolerance("stop", 2, 30.0, 60.0)
    return make_env(env, {}, (), lanes, implementation, helpers=helpers, tolerance=borne)


def shown(env, step):
    """Returns the content of a step, by value."""
    rows = [
        (
            *(getattr(kind, name).tolist() for name in ("waiting", "resting", "reward", "terminated", "truncated")),
            {path: array[kind.waiting | kind.resting].tolist() for path, array in kind.obs.items()},
        )
        for kind in step.rows
    ]
    return rows, step.ended.tolist(), step.at_rest().tolist(), env.episode.tolist()


def play(env, steps, rng, step=None):
    """Returns the content of some steps of random actions."""
    seen = []
    for _ in range(steps):
        step = env.reset(seeds_of) if step is None else env.step(drawn(env, step, rng))
        seen.append(shown(env, step))
    return seen


def drawn(env, step, rng):
    return [
        kind.action.to_env(_random(kind.action, int(rows.waiting.sum()), rng))
        for kind, rows in zip(env.kinds, step.rows, strict=True)
    ]


def _random(spec, number, rng):
    if isinstance(spec.space, spaces.Discrete):
        return rng.integers(0, int(spec.space.n), (number, *spec.shape)).astype(spec.dtype)
    return rng.uniform(-1, 1, (number, *spec.shape)).astype(spec.dtype)


@pytest.mark.parametrize("kind", slow_except("gymnasium", "in turns", of=KINDS))
def test_rests_are_the_same_however_lanes_are_stepped(kind):
    found = []
    for implementation, helpers in HELPED:
        env = made(KINDS[kind], implementation, helpers)
        found.append(play(env, 40, np.random.default_rng(0)))
        env.close()
    assert found[0] == found[1] == found[2]
    waited, rested = ([row[at] for rows, *_ in found[0] for row in rows] for at in (0, 1))
    assert any(itertools.chain(*rested)) and any(itertools.chain(*waited))
    assert not any(w and r for w, r in zip(itertools.chain(*waited), itertools.chain(*rested), strict=True))


def test_a_machine_rests_when_it_says_so_and_gets_the_idle_action():
    env = made(Machine, lanes=2)
    machines = [lane.env for lane in env._lanes]
    step = env.reset(seeds_of)
    odd = [seeds_of(lane, 0) % 2 == 1 for lane in range(2)]
    assert len(set(odd)) == 2, "one lane of each kind"
    rng = np.random.default_rng(0)
    for t in range(Machine.length - 1):
        rests = [machine.rest > 0 for machine in machines]
        (rows,) = step.rows
        assert rows.resting.tolist() == rests == step.at_rest().tolist(), t
        assert rows.waiting.tolist() == [not rest for rest in rests]
        step = env.step(drawn(env, step, rng))
    idled = [action for machine in machines for action in machine.idled]
    assert len(idled) > 6
    assert all(np.array_equal(action, [2.0, 0.0]) for action in idled), "the middle of the box"


def test_agents_rest_by_themselves_and_are_stepped_on():
    env = made(Crew, lanes=1)
    crew = env._lanes[0].env
    play(env, 12, np.random.default_rng(0))
    resting = [(rests, action) for given in crew.given for rests, action in given.values() if rests]
    assert len(resting) >= 6
    assert {action for _, action in resting} == {5}, "the first choice"


def test_actions_are_asked_of_those_who_wait_only():
    env = made(Machine, lanes=2)
    step = env.reset(seeds_of)
    assert step.any_rest
    with pytest.raises(EnvError, match=r"got \[2\] actions by kind, expected \[1\]"):
        env.step([np.zeros((2, 2), np.float32)])


@pytest.mark.parametrize(("kind", "helped"), slow_repeats(of=itertools.product(KINDS, HELPED)))
def test_a_rest_is_taken_up_where_it_was(kind, helped):
    env = made(KINDS[kind], *helped)
    rng = np.random.default_rng(0)
    step, steps = env.reset(seeds_of), 0
    while not (steps > 3 and step.any_rest):
        step, steps = env.step(drawn(env, step, rng)), steps + 1
    state = env.state_dict()
    again = made(KINDS[kind])
    taken, lost = again.load_state_dict(state, seeds_of)
    assert not lost.any() and taken.any_rest
    assert shown(again, taken)[0][0][:2] == shown(env, step)[0][0][:2]
    on = [play(one, 15, np.random.default_rng(1), at) for one, at in ((env, step), (again, taken))]
    env.close()
    again.close()
    assert on[0] == on[1]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_helper_that_dies_in_a_rest_is_replaced_without_a_trace():
    env, plain = made(Machine, "processes", 1), made(Machine)
    rng, other = np.random.default_rng(0), np.random.default_rng(0)
    step, expected = env.reset(seeds_of), plain.reset(seeds_of)
    killed = 0
    for _ in range(30):
        if step.any_rest and killed < 2 and step.rows[0].resting[-1]:
            env._helpers[0]._process.kill()
            killed += 1
        step, expected = env.step(drawn(env, step, rng)), plain.step(drawn(plain, expected, other))
        assert shown(env, step) == shown(plain, expected)
    assert killed == 2 and env.counters["helper_restarts"] == 2
    env.close()


def test_an_episode_without_end_may_rest_for_longer_than_an_idle_one(monkeypatch):
    monkeypatch.setattr("rookery.envs.vector.serial.IDLE_LIMIT", 5)

    class Asleep(Crew):
        def rests(self, agent):
            return self.t > 1

    env = made(Asleep, lanes=1)
    play(env, 12, np.random.default_rng(0))


def test_twins_that_step_in_one_call_know_no_rest():
    env = make_env("CartPole-v1", {}, (), 2, "batched")
    step = env.step([np.zeros(2, np.int64)]) if env.reset(seeds_of) else None
    assert not step.any_rest and not step.rows[0].resting.any()
