"""An environment of ML-Agents' low-level API in plain Python, as people write their own, of classes of any package."""

from types import SimpleNamespace

import numpy as np

from rookery_mlagents import api as ours

END = 3


class DuckActions:
    """Actions of a package that is not ours."""

    def __init__(self, continuous=None, discrete=None):
        self.continuous, self.discrete = continuous, discrete

    def add_continuous(self, continuous):
        self.continuous = np.asarray(continuous, np.float32)

    def add_discrete(self, discrete):
        self.discrete = np.asarray(discrete, np.int32)


class DuckSteps(SimpleNamespace):
    """Steps of a package that is not ours; releases before groups say nothing of them."""

    def __len__(self):
        return len(self.agent_id)


class DuckActionSpec(SimpleNamespace):
    """Actions' layout of a package that is not ours."""

    def empty_action(self, num):
        return DuckActions(np.zeros((num, self.continuous_size)), np.zeros((num, len(self.discrete_branches))))


DUCK = SimpleNamespace(
    DecisionSteps=lambda obs, reward, agent_id, mask, group, group_reward: DuckSteps(
        obs=obs, reward=reward, agent_id=agent_id, action_mask=mask
    ),
    TerminalSteps=lambda obs, reward, cut, agent_id, group, group_reward: DuckSteps(
        obs=obs, reward=reward, interrupted=cut, agent_id=agent_id
    ),
    BehaviorSpec=lambda sensors, actions: SimpleNamespace(observation_specs=sensors, action_spec=actions),
    ObservationSpec=lambda shape, properties, kind, name: SimpleNamespace(shape=shape, name=name),
    ActionSpec=lambda numbers, branches: DuckActionSpec(continuous_size=numbers, discrete_branches=branches),
    DimensionProperty=ours.DimensionProperty,
    ObservationType=ours.ObservationType,
)
"""As much of such a package as environments need."""


class LineWalkers:
    """Walkers on a line begin at 0 and go left (choice 0) or right (1); the end at 3 gives 1, that at -3 gives -1.

    A walker that has ended begins anew under a new number. The left is forbidden at -2 where `masked`. Where `slow`,
    the second walker decides in every other step only.
    """

    behavior = "Walker"

    def __init__(self, num=2, limit=0, masked=False, slow=False, api=ours, groups=False, numbers=False):
        self.api, self.num, self.limit, self.masked, self.slow, self.groups = api, num, limit, masked, slow, groups
        self.numbers = numbers
        self.closed = 0
        self.set = None
        self._specs = {}

    @property
    def behavior_specs(self):
        return self._specs

    def reset(self):
        api = self.api
        sensor = api.ObservationSpec((1,), (api.DimensionProperty.NONE,), api.ObservationType.DEFAULT, "place")
        spec = api.ActionSpec(1, ()) if self.numbers else api.ActionSpec(0, (2,))
        self._specs = {self.behavior: api.BehaviorSpec([sensor], spec)}
        self.ids = list(range(1, self.num + 1))
        self.next_id, self.clock = self.num + 1, 0
        self.place, self.age = np.zeros(self.num), np.zeros(self.num, int)
        self._tell([], range(self.num), np.zeros(self.num))

    def get_steps(self, behavior_name):
        assert behavior_name == self.behavior
        return self.decisions, self.terminals

    def set_actions(self, behavior_name, action):
        assert behavior_name == self.behavior
        self.set = action

    def set_action_for_agent(self, behavior_name, agent_id, action):
        raise NotImplementedError

    def step(self):
        given = self.set.continuous[:, 0] > 0 if self.numbers else self.set.discrete[:, 0]
        move = dict(zip(self.asked, np.asarray(given), strict=True))
        self.clock += 1
        reward, ended = np.zeros(self.num), []
        for walker in range(self.num):
            if walker in move:
                self.place[walker] += 1 if move[walker] else -1
                self.age[walker] += 1
            cut = bool(self.limit) and self.age[walker] >= self.limit
            if abs(self.place[walker]) >= END or cut:
                reward[walker] = np.sign(self.place[walker]) if abs(self.place[walker]) >= END else 0.0
                at_end = abs(self.place[walker]) >= END
                ended.append((self.ids[walker], self.place[walker], reward[walker], not at_end))
                self.place[walker], self.age[walker], self.ids[walker] = 0, 0, self.next_id
                self.next_id += 1
                reward[walker] = 0.0
        asks = [walker for walker in range(self.num) if not (self.slow and walker == 1 and self.clock % 2)]
        self._tell(ended, asks, reward)

    def _tell(self, ended, asks, reward):
        self.asked = list(asks)
        order = self.asked[::-1]  # the order is not the environment's promise
        self.asked = order
        place = self.place[order]
        mask = None
        if not self.numbers:
            mask = [np.stack([self.masked & (place == -2), np.zeros(len(order), bool)], axis=1)]
        group = np.full(len(order), 7 if self.groups else 0, np.int32)
        f32 = np.float32
        self.decisions = self.api.DecisionSteps(
            [place[:, None].astype(f32)], reward[order].astype(f32), np.array([self.ids[w] for w in order], np.int32),
            mask, group, np.ones(len(order), f32) * self.groups,
        )  # fmt: skip
        ids, places, rewards, cuts = zip(*ended, strict=True) if ended else ((), (), (), ())
        group = np.full(len(ids), 7 if self.groups else 0, np.int32)
        self.terminals = self.api.TerminalSteps(
            [np.array(places, f32).reshape(-1, 1)], np.array(rewards, f32), np.array(cuts, bool),
            np.array(ids, np.int32), group, np.zeros(len(ids), f32),
        )  # fmt: skip

    def close(self):
        self.closed += 1


class OursByInheritance(LineWalkers, ours.BaseEnv):
    """The same, as a class below `BaseEnv`."""


def make_walkers(num=2):
    """Makes one; says nothing of what it makes."""
    return LineWalkers(num)


def make_said(num: int = 2) -> LineWalkers:
    """Makes one, and says so."""
    return LineWalkers(num)


def make_numbered(worker_id):
    """Makes one that knows which copy it is."""
    env = LineWalkers(1)
    env.worker_id = worker_id
    return env
