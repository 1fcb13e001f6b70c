"""Agents put together as teams: what a team is shown, what it earns, and when its episode ends."""

import numpy as np
import pytest
from counting import CountingAEC
from gymnasium import spaces

from rookery import Trainer
from rookery.core.errors import ConfigError, EnvError
from rookery.core.spaces.arrays import MASK, action_spec, obs_spec
from rookery.core.spaces.team_spaces import ALIVE, members_of
from rookery.envs.base import Kind, Rows, Step, VectorBase, VectorEnv
from rookery.envs.make import make_env
from rookery.envs.teams import TeamEnv
from team_envs import Squad

LANES = 4
WALKERS = ("a", "b", "c")


def seeds(lane, episode):
    return 1000 * lane + episode


def squad(cut=12, **teams):
    return TeamEnv(make_env(Squad, {"cut": cut}, (), LANES, "serial"), teams or {"blue": WALKERS})


def choose(mask, lane, step):
    """A choice that is allowed, by lane and step alone."""
    allowed = np.flatnonzero(mask)
    return int(allowed[(7 * lane + 3 * step) % len(allowed)])


def answers(env, shown, step):
    """Returns the actions of the blue team and the guard."""
    blue, guard = shown.rows
    acts = np.empty(int(blue.waiting.sum()), dtype=object)
    for row, lane in enumerate(np.flatnonzero(blue.waiting).tolist()):
        flags = blue.obs[MASK][lane].reshape(3, 3)
        acts[row] = {str(m): choose(flags[m], lane, step) for m in range(3)}
    return [acts, np.full(int(guard.waiting.sum()), step % 2)]


def test_a_team_env_is_a_vector_env():
    assert isinstance(squad(), VectorEnv)


def test_a_team_shows_earns_and_ends_what_its_members_do_together():
    """Against the same environment without teams, redone member by member."""
    env, plain = squad(), make_env(Squad, {}, (), LANES, "serial")
    shown, own = env.reset(seeds), plain.reset(seeds)
    over, cut = np.zeros((2, LANES, 3), dtype=bool)
    ends = {"terminated": 0, "truncated": 0, "fallen": 0}
    for step in range(80):
        blue, walkers = shown.rows[0], own.rows[0]
        waiting = walkers.waiting.reshape(LANES, 3)
        assert (blue.waiting == waiting.any(1)).all()
        assert (blue.obs[ALIVE] == waiting).all()
        ends["fallen"] += int((waiting.any(1) & ~waiting.all(1)).sum())
        for m in range(3):
            place = walkers.obs["place"].reshape(LANES, 3, 2)[:, m]
            assert (blue.obs[f"{m}/place"] == np.where(waiting[:, m : m + 1], place, 0)).all()
            flags = walkers.obs[MASK].reshape(LANES, 3, 3)[:, m]
            assert (blue.obs[MASK].reshape(LANES, 3, 3)[:, m] == (flags | ~waiting[:, m : m + 1])).all()
        given = answers(env, shown, step)
        acts = iter(given[0])
        by_lane = [next(acts) if waits else None for waits in blue.waiting]
        each = [by_lane[lane][str(m)] for lane in range(LANES) for m in range(3) if waiting[lane, m]]
        shown, own = env.step(given), plain.step([np.array(each), given[1]])
        walkers, blue = own.rows[0], shown.rows[0]
        assert np.allclose(blue.reward, walkers.reward.reshape(LANES, 3).sum(1))
        assert (shown.rows[1].reward == own.rows[1].reward).all()
        assert (shown.ended == own.ended).all()
        terminated, truncated = (flags.reshape(LANES, 3) for flags in (walkers.terminated, walkers.truncated))
        over, cut = over | terminated | truncated, cut | truncated
        for lane in range(LANES):
            whole = over[lane].all()
            assert blue.terminated[lane] == (whole and not cut[lane].any())
            assert blue.truncated[lane] == (whole and cut[lane].any())
            ends["terminated"] += blue.terminated[lane]
            if blue.truncated[lane]:
                ends["truncated"] += 1
                place = blue.final_index.tolist().index(lane)
                for m in range(3):
                    there = truncated[lane, m]
                    assert blue.final_obs[ALIVE][place, m] == there
                    rows = walkers.final_index.tolist()
                    wanted = walkers.final_obs["place"][rows.index(3 * lane + m)] if there else np.zeros(2)
                    assert (blue.final_obs[f"{m}/place"][place] == wanted).all()
            if whole:
                over[lane] = cut[lane] = False
    assert min(ends.values()) > 2, ends


class Leaving:
    """Agents who each end after a number of steps, cut off where it is negative; the episode ends after 5."""

    observation_space, action_space = spaces.Box(-9, 9, (1,), np.float32), spaces.Discrete(2)

    def __init__(self, ends):
        self.ends = ends
        self.possible_agents = list(ends)

    def reset(self, *, seed=None, options=None):
        self.t, self.here = 0, list(self.ends)
        return self.shown(), {}

    def shown(self):
        return {agent: np.full(1, self.t + 1, np.float32) for agent in self.here}

    def step(self, actions):
        self.t += 1
        shown = self.shown()
        left = {agent: self.ends[agent] > 0 for agent in self.here if abs(self.ends[agent]) == self.t}
        self.here = [agent for agent in self.here if agent not in left]
        cut = {agent: not terminated for agent, terminated in left.items()}
        return shown, dict.fromkeys(actions, 1.0), {**left, "__all__": self.t == 5}, {**cut, "__all__": False}, {}


@pytest.mark.parametrize(
    ("a", "b", "is_cut", "seen"),
    [(-1, 2, False, None), (1, -2, True, [0, 3]), (-2, 2, True, [3, 0]), (1, 2, False, None), (-1, -2, True, [0, 3])],
)
def test_how_a_team_ends_say_those_who_went_last(a, b, is_cut, seen):
    env = TeamEnv(make_env(Leaving, {"ends": {"a": a, "b": b, "c": 9}}, (), 1, "serial"), {"blue": ("a", "b")})
    env.reset(seeds)
    for step in (1, 2):
        shown = env.step([pair(0, 0), np.zeros(1, np.int64)])
        blue = shown.rows[0]
        assert blue.terminated.tolist() == [step == 2 and not is_cut]
        assert blue.truncated.tolist() == [step == 2 and is_cut]
    assert [[blue.final_obs[f"{m}"][0].item() for m in (0, 1)] for _ in blue.final_index] == ([seen] if is_cut else [])


def test_members_that_do_not_act_show_zeros_may_do_anything_and_are_not_asked():
    env = squad(cut=30)
    shown = env.reset(seeds)
    for step in range(40):
        blue = shown.rows[0]
        fallen = blue.waiting & (blue.obs[ALIVE].sum(1) == 1)
        if fallen.any():
            break
        shown = env.step(answers(env, shown, step))
    lane = int(np.flatnonzero(fallen)[0])
    assert blue.obs[MASK][lane].reshape(3, 3)[blue.obs[ALIVE][lane] == 0].all()
    given = answers(env, shown, step)
    at = int(blue.waiting[:lane].sum())
    for m in np.flatnonzero(blue.obs[ALIVE][lane] == 0).tolist():
        given[0][at][str(m)] = 99  # would be refused if it were read
    env.step(given)


class Spent(Squad):
    """A squad that is allowed nothing more where it is cut off."""

    def shown(self, who):
        seen = super().shown(who)
        for one in who if self.t == self.cut else ():
            seen[one]["action_mask"][:] = 0
        return seen


def test_members_that_are_allowed_nothing_after_an_end_may_do_anything():
    env = TeamEnv(make_env(Spent, {"cut": 2}, (), LANES, "serial"), {"blue": WALKERS})
    shown = env.reset(seeds)
    for step in range(2):
        shown = env.step(answers(env, shown, step))
    blue = shown.rows[0]
    assert blue.truncated.all()
    assert blue.final_obs[ALIVE].all()
    assert blue.final_obs[MASK].all()


def test_going_on_from_a_state_shows_the_same():
    def steps(env, shown, first, number):
        told = []
        for step in range(first, first + number):
            shown = env.step(answers(env, shown, step))
            for rows in shown.rows:
                told.append(rows.reward.copy())
                told += [rows.terminated.copy(), rows.truncated.copy(), rows.waiting.copy(), rows.final_index.copy()]
                told += [leaf.copy() for leaf in (*rows.obs.values(), *rows.final_obs.values())]
        return shown, told

    through = squad()
    shown, _ = steps(through, through.reset(seeds), 0, 17)
    assert any(team.over.any() for team in through._teams), "nobody has fallen by now, so nothing is to be remembered"
    state = through.state_dict()
    _, wanted = steps(through, shown, 17, 30)
    again = squad()
    shown, lost = again.load_state_dict(state, seeds)
    assert not lost.any()
    _, found = steps(again, shown, 17, 30)
    assert all(np.array_equal(one, two) for one, two in zip(wanted, found, strict=True))


def test_a_state_of_other_teams_is_refused():
    env = squad()
    env.reset(seeds)
    state = env.state_dict()
    other = squad(red=("a", "b"))
    with pytest.raises(EnvError, match="other teams"):
        other.load_state_dict(state, seeds)


@pytest.mark.parametrize(
    ("teams", "told"),
    [
        ({"blue": ("a", "bb")}, "has no agent 'bb'.*did you mean"),
        ({"blue": ("a", "b"), "red": ("b", "c")}, "teams.red: agent 'b' is in team 'blue' already"),
        ({"blue": ("a", "a")}, "is in team 'blue' already"),
        ({"blue": ()}, "teams.blue: it has no agents"),
        ({"guard": ("a", "b")}, "has an agent of that name"),
    ],
)
def test_teams_that_cannot_be_are_refused(teams, told):
    with pytest.raises(ConfigError, match=told):
        squad(**teams)


def test_teams_that_are_alike_form_one_kind_that_one_policy_plays():
    env = squad(blue=("a",), red=("c",))
    assert [kind.agents for kind in env.kinds] == [("blue", "red"), ("b",), ("guard",)]
    with Trainer(
        Squad, num_envs=2, seed=1, teams={"blue": ["a"], "red": ["b"]},
        policies={"both": ["blue", "red"], "other": ["c"], "guard": ["guard"]},
    ) as trainer:  # fmt: skip
        trainer.train({"iterations": 1})
        assert set(trainer.policies) == {"both", "other", "guard"}


def test_of_members_that_take_turns_those_on_turn_act():
    plain = make_env(CountingAEC, {}, (), 1, "serial")
    everybody = plain.kinds[0].agents
    env = TeamEnv(plain, {"all": everybody})
    shown = env.reset(seeds)
    on_turn = []
    for _ in everybody:
        assert shown.rows[0].waiting.all()
        on_turn.append(shown.rows[0].obs[ALIVE][0].tolist())
        acts = np.empty(1, dtype=object)
        acts[0] = {str(m): 1 for m in range(len(everybody))}
        shown = env.step([acts])
    assert on_turn == np.eye(len(everybody)).tolist()


NUMBER, TWO = spaces.Box(-9, 9, (1,), np.float32), spaces.Discrete(2)


class Paid(VectorBase):
    """Two pairs of agents in one lane: each agent earns 1, its pair 10; critics are shown 5."""

    groups = {"left": ("a", "b"), "right": ("c", "d")}

    def __init__(self):
        seen = spaces.Dict({"own": NUMBER, "central": NUMBER})
        kind = Kind(("a", "b", "c", "d"), obs_spec(seen, TWO), action_spec(TWO))
        super().__init__((kind,), 1, "Paid", exact=True)
        self.rows = Rows.allocate(kind, 1)

    def reset(self, seeds):
        self.rows.waiting[:] = True
        self.rows.obs["own"][:, 0], self.rows.obs["central"][:] = range(4), 5
        return Step((self.rows,), np.zeros(1, dtype=bool), any_end=False)

    def step(self, actions):
        self.given = actions[0].tolist()
        self.rows.reward[:], self.rows.group_reward = 1.0, np.full(4, 10.0)
        return Step((self.rows,), np.zeros(1, dtype=bool), any_end=False)


def pair(first, second):
    acts = np.empty(1, dtype=object)
    acts[0] = {"0": first, "1": second}
    return acts


def test_a_groups_reward_is_earned_once_and_what_is_for_critics_is_shown_once():
    plain = Paid()
    env = TeamEnv(plain, {"blue": ("a", "b"), "mixed": ("d",)})
    assert env.groups == {"left": ("blue",), "right": ("c", "mixed")}
    shown = env.reset(seeds)
    blue, mixed, rest = shown.rows
    assert set(blue.obs) == {"0/own", "1/own", "alive", "central"}
    assert blue.obs["central"].tolist() == [[5.0]]
    assert (blue.obs["0/own"].item(), blue.obs["1/own"].item(), mixed.obs["0/own"].item()) == (0.0, 1.0, 3.0)
    alone = np.empty(1, dtype=object)
    alone[0] = {"0": 1}
    shown = env.step([pair(1, 0), alone, np.array([0])])
    assert plain.given == [1, 0, 0, 1]
    assert [rows.reward.tolist() for rows in shown.rows] == [[2.0], [1.0], [1.0]]
    assert [rows.group_reward.tolist() for rows in shown.rows] == [[10.0]] * 3


def test_what_several_groups_earn_is_a_teams_own():
    env = TeamEnv(Paid(), {"all": ("a", "b", "c", "d")})
    env.reset(seeds)
    acts = np.empty(1, dtype=object)
    acts[0] = dict.fromkeys("0123", 0)
    (rows,) = env.step([acts]).rows
    assert rows.reward.tolist() == [4 * 1.0 + 2 * 10.0]
    assert rows.group_reward is None


def test_members_know_their_own_part_of_the_teams_arrays():
    kind = squad(blue=("guard", "a")).kinds[0]
    guard, walker = members_of(kind.obs, kind.action)
    assert (guard.paths, walker.paths) == (("0",), ("1/place",))
    assert [leaf.path for leaf in (*guard.obs.leaves, *walker.obs.leaves)] == ["obs", "place"]
    assert (guard.choices, walker.choices) == (slice(0, 2), slice(2, 5))
    assert (guard.columns, walker.columns) == ((0,), (1,))
    assert kind.obs.has_mask
