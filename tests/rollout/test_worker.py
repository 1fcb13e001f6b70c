"""Playing: what becomes of observations, rewards and ends on their way from an environment into rollouts."""

import copy

import gymnasium
import numpy as np
import pytest
import torch
from counting import NUMBER, TWO, ComingAndGoing, Counting, CountingAEC, CountingParallel, Walk
from pettingzoo.classic import tictactoe_v3
from playing import Dice, ScriptedEnv, decisions_of, play, same_bytes, taken

from rookery.core.batch import Demand
from rookery.core.seeding import Role, Streams
from rookery.envs.make import make_env
from rookery.envs.vector.faults import Tolerance
from rookery.models.build import ModelConfig
from rookery.policies.policy import Policy
from rookery.rollout.slots import SlotStore
from rookery.tasks.games.arena import MultiAgentArena


class EndsBothWays(Counting):
    """Counts; its episodes end in turn by termination at 7 and by truncation at 10."""

    def __init__(self, mutate=True):
        super().__init__(7, None, mutate)

    def step(self, action):
        result = super().step(action)
        if result[2] or result[3]:
            self.terminate_at, self.truncate_at = self.truncate_at and 7, self.terminate_at and 10
        return result


def transitions(decisions):
    return {(d.obs[0], d.reward, d.next and d.next[0], d.terminated, d.truncated) for d in decisions}


TERMINATED_AT_7 = {(s, s + 1.0, s + 1, False, False) for s in range(6)} | {(6, 7.0, None, True, False)}
TRUNCATED_AT_10 = {(s, s + 1.0, s + 1, False, False) for s in range(9)} | {(9, 10.0, 10, False, True)}


# --- one agent ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lanes", [1, 3])
@pytest.mark.parametrize("mutate", [False, True])
@pytest.mark.parametrize(
    ("config", "expected"),
    [({"terminate_at": 7}, TERMINATED_AT_7), ({"truncate_at": 10}, TRUNCATED_AT_10)],
)
def test_a_counting_env_leaves_exactly_the_transitions_of_the_hand_list(lanes, mutate, config, expected):
    # T = 4 divides neither 7 nor 10, so that ends fall on every row of a fragment
    worker = play(Counting, lanes=lanes, T=4, config={**config, "mutate": mutate})
    for _ in range(3):
        found = taken(worker, takes=11)
        assert transitions(found) == expected
        assert len(found) == 11 * 4 * lanes


@pytest.mark.parametrize("lanes", [1, 3])
def test_both_ends_in_turn_leave_the_union_of_both_hand_lists(lanes):
    worker = play(EndsBothWays, lanes=lanes, T=5)
    found = taken(worker, takes=17)  # 17 * 5 rows a lane = 5 pairs of episodes of 7 + 10 steps: each row 5 times
    assert transitions(found) == TERMINATED_AT_7 | TRUNCATED_AT_10
    for s in range(10):
        assert sum(d.obs == (s,) for d in found) == (10 if s < 7 else 5) * lanes
    assert sum(d.terminated for d in found) == sum(d.truncated for d in found) == 5 * lanes
    assert {d.obs[0] for d in found if d.first} == {0}
    assert all(d.first for d in found if d.obs[0] == 0)


def test_actions_in_a_rollout_are_those_the_environment_got():
    worker = play(Counting, T=6, config={"terminate_at": 7})
    found = taken(worker, takes=4)
    (lane,) = worker.env._lanes
    assert [d.action for d in found] == [int(action) for action in lane.env.actions]


def test_finished_episodes_are_noted_with_length_and_return():
    worker = play(EndsBothWays, lanes=2, T=4)
    worker.sample()
    for _ in range(6):
        worker.sample()
    episodes = worker.drain_finished()
    assert [(e.lane, e.index, e.length, e.total) for e in episodes] == [
        (0, 0, 7, 28.0),  # 1 + ... + 7
        (1, 0, 7, 28.0),
        (0, 1, 10, 55.0),
        (1, 1, 10, 55.0),
        (0, 2, 7, 28.0),
        (1, 2, 7, 28.0),
    ]
    assert worker.drain_finished() == []
    assert worker.lengths.tolist() == [4, 4]


def test_an_episode_that_breaks_in_its_reset_keeps_its_number_to_itself():
    class Fragile(Counting):
        def reset(self, *, seed=None, options=None):
            self.resets = getattr(self, "resets", 0) + 1
            if self.resets == 3:  # the first was to see what it shows
                raise RuntimeError("dropped")
            return super().reset(seed=seed)

    worker = play(Counting, T=4)
    bearing = Tolerance("restart", 0, 30.0, 60.0)
    worker.env = make_env(Fragile, {"terminate_at": 4}, (), 1, "serial", tolerance=bearing)
    for _ in range(3):
        worker.sample()
    assert [episode.index for episode in worker.drain_finished()] == [0, 2, 3]


# --- demands --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("T", "lanes", "decisions", "lengths"),
    [
        (128, 8, 1500, [128] * 8 + [60] * 8),  # 188 rows of 8: the first to reach 1500
        (5, 3, 37, [5] * 6 + [3] * 3),  # 13 rows of 3
        (128, 8, 10, [2] * 8),  # less than a fragment: the rollout has no more rows
        (4, 2, 24, [4] * 6),  # three fragments each
        (4, 2, None, [4] * 2),
    ],
)
def test_a_rollout_holds_the_decisions_that_were_demanded(T, lanes, decisions, lengths):
    worker = play(EndsBothWays, lanes=lanes, T=T, decisions=decisions)
    clock = np.zeros(lanes, dtype=int)
    steps = 0
    for version in range(3):
        rollout = worker.sample()["main"]
        assert rollout.length.tolist() == lengths
        assert rollout.num_decisions == sum(lengths) == (worker.env_steps - steps)
        assert rollout.num_cut == sum(length < max(lengths) for length in lengths)
        assert rollout.version.tolist() == [version] * len(lengths)
        assert rollout.slot.tolist() == list(range(lanes)) * (len(lengths) // lanes)
        for f, slot in enumerate(rollout.slot.tolist()):
            assert rollout.clock[f] == clock[slot]
            clock[slot] += lengths[f]
        found = decisions_of(rollout)
        assert all(d.next[0] == d.obs[0] + 1 for d in found if not d.terminated)
        assert all(d.reward == d.obs[0] + 1 for d in found)
        worker.set_weights({"main": worker.policies["main"].policy})
        steps = worker.env_steps


def test_a_limit_of_steps_interrupts_a_demand_and_nothing_is_lost():
    whole, halting = (play(EndsBothWays, lanes=2, T=16) for _ in range(2))
    reference = whole.sample()["main"]
    assert halting.sample(max_env_steps=11) == {}
    assert halting.env_steps == 12  # whole vector steps
    assert halting.sample(max_env_steps=6) == {}
    rollout = halting.sample(max_env_steps=1000)["main"]
    assert same_bytes(reference, rollout)


def test_a_rollout_gives_the_learner_the_memory_it_was_written_to():
    worker = play(Counting, lanes=2, T=4, config={"terminate_at": 7})
    first = worker.sample()["main"]
    second = worker.sample()["main"]
    assert first.obs["obs"].data_ptr() == second.obs["obs"].data_ptr()
    assert first.obs["obs"].is_contiguous()


# --- two ways of writing --------------------------------------------------------------------------------------------


def real(env, rule, policies, **arguments):
    """A worker with networks, so that log-probabilities are worth comparing."""
    worker = play(env, policies, rule, **arguments)

    def introduce(name, kind):
        generator = torch.Generator().manual_seed(len(name))
        policy = Policy(kind.obs, kind.action, ModelConfig(), name=name, generator=generator)
        worker.add_policy(name, policy, Demand(arguments["T"], arguments.get("decisions")))

    worker.introduce = introduce
    return worker


@pytest.mark.parametrize(
    ("env", "policies", "rule", "config"),
    [
        (MultiAgentArena, ["main"], None, {"max_timesteps": 13}),
        (MultiAgentArena, ["agent1", "agent2"], None, {"max_timesteps": 13}),
        ("CartPole-v1", ["main"], None, {"max_episode_steps": 17}),
        (Walk, ["main"], None, {}),
    ],
)
@pytest.mark.parametrize("decisions", [None, 90])
def test_lockstep_and_the_general_way_store_the_same_bytes(monkeypatch, env, policies, rule, config, decisions):
    def rollouts():
        worker = real(env, rule, policies, T=16, decisions=decisions, lanes=4, config=config)
        while worker.vector_steps < 100:
            for rollout in worker.sample().values():
                yield rollout, worker.policies[policies[0]].store._lockstep

    entered = SlotStore._enter_lockstep
    pairs = []
    fast, slow = rollouts(), rollouts()
    for rollout, is_lockstep in fast:
        assert is_lockstep
        kept = copy.deepcopy(rollout)
        monkeypatch.setattr(SlotStore, "_enter_lockstep", lambda store: False)
        other, is_lockstep = next(slow)
        monkeypatch.setattr(SlotStore, "_enter_lockstep", entered)
        assert not is_lockstep
        pairs.append(same_bytes(kept, other))
    assert all(pairs)
    assert len(pairs) > 3


# --- agents on their own clocks -------------------------------------------------------------------------------------


class Slow:
    """Dict-style: `quick` acts in every step, `slow` in every third. Step t pays t to slow, 1 to quick; 10 steps."""

    possible_agents = ("quick", "slow")
    observation_space, action_space = NUMBER, TWO

    def __init__(self, end="truncated"):
        self.end = end

    def observe(self):
        acting = ["quick", "slow"] if self.t % 3 == 0 else ["quick"]
        return {agent: np.array([self.t], np.float32) for agent in acting}

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return self.observe(), {}

    def step(self, actions):
        self.t += 1
        over = self.t == 10
        terminateds = {"__all__": over and self.end == "terminated"}
        truncateds = {"__all__": over and self.end == "truncated"}
        return self.observe(), {"quick": 1, "slow": self.t}, terminateds, truncateds, {}


def test_rewards_between_two_decisions_are_summed_into_the_earlier_one():
    worker = play(Slow, ["quick", "slow"], T=4)
    found = transitions(taken(worker, takes=5, policy="slow"))
    # the decision at 9 ends with step 10, when slow is not on turn: what it saw last, 9, stands for its future
    assert found == {
        (0, 1.0 + 2 + 3, 3, False, False),
        (3, 4.0 + 5 + 6, 6, False, False),
        (6, 7.0 + 8 + 9, 9, False, False),
        (9, 10.0, 9, False, True),
    }
    assert worker.counters()["finals_stale"] == len(worker.finished)


def test_policies_of_different_pace_share_an_environment():
    worker = play(Slow, ["quick", "slow"], T={"quick": 4, "slow": 3}, config={"end": "terminated"})
    found, versions = {"quick": [], "slow": []}, {"quick": [], "slow": []}
    for _ in range(60):
        rollouts = worker.sample()
        for name, rollout in rollouts.items():
            found[name] += decisions_of(rollout)
            versions[name].append(rollout.version.tolist())
        worker.set_weights({name: worker.policies[name].policy for name in rollouts})
    assert transitions(found["slow"]) == {
        (0, 6.0, 3, False, False),
        (3, 15.0, 6, False, False),
        (6, 24.0, 9, False, False),
        (9, 10.0, None, True, False),
    }
    assert transitions(found["quick"]) == {(t, 1.0, t + 1, False, False) for t in range(9)} | {
        (9, 1.0, None, True, False)
    }
    for name in found:  # every decision once, in order
        assert [d.clock for d in found[name]] == list(range(len(found[name])))
        steps = 4 if name == "slow" else 10
        span = 3 if name == "slow" else 1
        assert [d.obs[0] for d in found[name]] == [span * (n % steps) for n in range(len(found[name]))]
    # quick's 4 decisions are complete after 4, 8, 12 ... steps. Slow's third decision is complete when it waits again,
    # at step 9, its 6th (an episode has 4) at step 16, and so on: the two learn in an order of their own.
    assert versions["quick"][:4] == [[0], [1], [2], [4]]  # slow's update at step 9 counted too
    assert versions["slow"][:2] == [[0], [3]]


def test_a_reward_that_comes_while_another_policy_acts_reaches_a_decision_carried_over():
    # Turns of CountingAEC: a 1, b 2, c 3, a 4 (b dies), c 5, a 6, c 7, a 8 (cut off); turn n pays n, others -0.5.
    # The end of b in turn 4 makes its policy learn while a's fourth turn is to be paid once more, when c acts.
    worker = play(CountingAEC, ["ab", "c"], {"a": "ab", "b": "ab", "c": "c"}, T=3, decisions=1)
    found = {"ab": [], "c": []}
    while len(worker.finished) < 3:
        for name, rollout in worker.sample().items():
            found[name] += decisions_of(rollout)
    assert transitions(found["ab"]) == {
        (0, 1 - 0.5 - 0.5, 3, False, False),
        (3, 4 - 0.5, 5, False, False),
        (5, 6 - 0.5, 7, False, False),
        (7, 8.0, 8, False, True),
        (1, 2 - 0.5 - 0.5, None, True, False),
    }
    assert transitions(found["c"]) == {
        (2, 3 - 0.5, 4, False, False),
        (4, 5 - 0.5, 6, False, False),
        (6, 7 - 0.5, 8, False, True),
    }


def test_a_decision_carried_over_keeps_its_version_clock_and_start():
    worker = play(Slow, ["quick", "slow"], T=4, decisions={"quick": 100, "slow": 1}, config={"end": "terminated"})
    headers = []
    for _ in range(5):
        rollout = worker.sample()["slow"]
        headers.append([getattr(rollout, name).item() for name in ("version", "clock", "first", "length")])
        worker.set_weights({"slow": worker.policies["slow"].policy})
    # Its first decision is complete with step 3. It then decides at 3 with version 1, complete with step 6, ... The
    # 4th, made at 9, is complete with the end at 10, where it waits already in the next episode.
    assert headers == [[0, 0, True, 1], [1, 1, False, 1], [2, 2, False, 1], [3, 3, False, 1], [4, 4, True, 1]]


def test_a_decision_pending_while_its_policy_learns_is_older_than_its_fragment():
    # One policy plays both. Quick's decisions meet the demand of 2 at step 2, while slow's first is pending.
    worker = play(Slow, ["main"], {"quick": "main", "slow": "main"}, T=4, decisions=2)
    first = worker.sample()["main"]
    assert [(d.slot, d.obs[0]) for d in decisions_of(first)] == [(0, 0), (0, 1)]
    worker.set_weights({"main": worker.policies["main"].policy})
    second = worker.sample()["main"]
    slow = second.slot.tolist().index(1)
    assert second.version.tolist()[slow] == 0  # played before the update
    assert second.version.tolist()[1 - slow] == 1
    assert (int(second.clock[slow]), bool(second.first[slow])) == (0, True)
    pending = [d for d in decisions_of(second) if d.slot == 1]
    assert transitions(pending) == {(0, 6.0, 3, False, False)}


# --- agents that leave, come back, and end together -----------------------------------------------------------------


@pytest.mark.parametrize("announced", [True, False])
@pytest.mark.parametrize(("lanes", "decisions"), [(1, 4), (2, 4), (2, 1), (3, 5)])
def test_agents_that_leave_mid_fragment_and_come_back_play_the_story(announced, lanes, decisions):
    rule = {"a": "one", "b": "one", "c": "two"}
    config = {"announced": announced}
    worker = play(ComingAndGoing, ["one", "two"], rule, T=3, decisions=decisions, lanes=lanes, config=config)
    found = {"one": [], "two": []}
    while len(worker.finished) < 6 * lanes:
        for name, rollout in worker.sample().items():
            found[name] += decisions_of(rollout)
    assert transitions(found["one"]) == {
        (0, 1.5, 2, False, False),  # a, paid for its first action once more while b is on turn
        (2, 3.0, None, True, False),
        (5, 0.0, 5, False, True),  # a again; it is cut off without an observation
        (1, 2.0, 3, False, False),  # b
        (3, 4.0, 3, False, True),
    }
    assert transitions(found["two"]) == {
        (2, 3.0, 3, False, False),
        (3, 0.0, 4, False, False),
        (4, 0.0, 5, False, False),
        (5, 6.0, 6, False, True),
    }
    assert worker.counters()["finals_stale"] == 2 * len(worker.finished)
    assert worker.counters()["rewards_without_decision"] == 0
    episode = worker.finished[0]
    assert episode.agents == {"a": 4.5, "b": 6.0, "c": 9.0}
    assert (episode.length, episode.total) == (6, 19.5)
    assert episode.policies == {"a": "one", "b": "one", "c": "two"}


def test_agents_of_one_kind_that_end_in_the_same_step_each_get_their_own_end():
    class Together(CountingParallel):
        """x terminates and y is truncated, both with step 3; both see one number and are paid 1 and 10."""

        def observation_space(self, agent):
            return NUMBER

        def observe(self, agents):
            return {a: np.full(1, self.t + (100 if a == "y" else 0), np.float32) for a in agents}

        def step(self, actions):
            obs, rewards, _, _, infos = super().step(actions)
            over = self.t == 3
            self.agents = [] if over else ["x", "y"]
            return obs, rewards, {"x": over, "y": False}, {"x": False, "y": over}, infos

    worker = play(Together, T=4, lanes=2)
    assert transitions(taken(worker, takes=6)) == {
        (0, 1.0, 1, False, False),
        (1, 2.0, 2, False, False),
        (2, 3.0, None, True, False),
        (100, 10.0, 101, False, False),
        (101, 20.0, 102, False, False),
        (102, 30.0, 103, False, True),
    }


def test_an_agent_keeps_its_slot_from_episode_to_episode():
    # b acts second in every episode; its fragments continue across game ends instead of being cut there
    worker = play(CountingAEC, T=4, decisions=48)
    rollout = worker.sample()["main"]
    assert worker.policies["main"].store.num_slots == 3
    assert rollout.num_cut <= 3
    assert len(rollout.slot) <= 48 // 4 + 3


def test_rewards_that_belong_to_no_decision_are_counted():
    class Late(Slow):
        """`slow` is paid in all 10 steps but acts at 3 for the first time, and is gone from step 5 on."""

        def observe(self):
            acting = ["quick", "slow"] if self.t == 3 else ["quick"]
            return {agent: np.array([self.t], np.float32) for agent in acting}

        def step(self, actions):
            obs, rewards, terminateds, truncateds, infos = super().step(actions)
            return obs, rewards, terminateds | {"slow": self.t == 5}, truncateds, infos

    worker = play(Late, ["quick", "slow"], T=4, decisions={"quick": 30, "slow": 1})
    slow = [decisions_of(worker.sample()["slow"])[0] for _ in range(2)]
    assert [d.reward for d in slow] == [4.0 + 5.0] * 2
    # steps 1, 2, 3 and 6 to 10 of the first episode, 1, 2 and 3 of the second
    assert worker.counters()["rewards_without_decision"] == 8 + 3
    assert worker.drain_finished()[0].agents["slow"] == 55.0


# --- a turn-based game ----------------------------------------------------------------------------------------------


def replay(seeds, actions, lanes, games):
    """Plays tictactoe again with given actions by (lane, player): the decisions of each, in order, slowly.

    Stops where an action is missing; decisions that were still to be paid then are not `complete`.
    """
    told = {}
    for lane in range(lanes):
        env = tictactoe_v3.env()
        for episode in range(games):
            env.reset(seed=seeds(lane, episode))
            last = {}
            for player in env.agent_iter():
                if env.terminations[player] or env.truncations[player]:
                    env.step(None)
                    continue
                if player in last:
                    last[player]["complete"] = True
                queue = actions[lane, player]
                if not queue:
                    break
                obs, *_ = env.last()
                last[player] = {"reward": 0.0, "terminated": False, "complete": False}
                last[player] |= {"legal": bool(obs["action_mask"][queue[0]]), "board": obs["observation"]}
                told.setdefault((lane, player), []).append(last[player])
                env.step(queue.pop(0))
                for other in last:
                    last[other]["reward"] += env.rewards[other]
                    last[other]["terminated"] = last[other]["complete"] = env.terminations[other]
    return told


@pytest.mark.parametrize("policies", [["main"], ["player_1", "player_2"]])
def test_a_turn_based_game_agrees_with_an_independent_replay(policies):
    lanes = 3
    worker = play(tictactoe_v3, policies, T=8, decisions=24, lanes=lanes, seed=5)
    decisions = {}
    while len(worker.finished) < 30:
        for name, rollout in worker.sample().items():
            kind = worker.env.kinds[worker.policies[name].kind]
            for d in decisions_of(rollout):
                lane, column = divmod(int(worker.policies[name].row_of_slot[d.slot]), len(kind.agents))
                decisions.setdefault((lane, kind.agents[column]), []).append(d)
    assert len(decisions) == 2 * lanes
    actions = {key: [d.action for d in found] for key, found in decisions.items()}
    told = replay(worker.seeds, actions, lanes, games=max(e.index for e in worker.finished) + 2)
    ends = 0
    for key, found in decisions.items():
        assert [d.clock for d in found] == list(range(len(found)))
        for d, reference in zip(found, told[key], strict=False):
            if reference["complete"]:
                assert reference["legal"]
                assert (d.reward, d.terminated, d.truncated) == (reference["reward"], reference["terminated"], False)
                assert d.obs[:18] == tuple(np.ravel(reference["board"]))
                ends += d.terminated
    assert ends > 2 * 25
    for result in worker.finished:
        assert result.total == 0  # what one wins the other loses
        assert set(result.agents) == {"player_1", "player_2"}


# --- who plays whom -------------------------------------------------------------------------------------------------


def test_an_agent_that_changes_its_policy_is_cut_and_nothing_is_lost():
    def rule(agent, episode):
        return "a" if episode.index % 2 == 0 else "b"

    worker = play(EndsBothWays, ["a", "b"], rule, T=4, decisions=8)
    found = {"a": [], "b": []}
    for _ in range(12):
        for name, rollout in worker.sample().items():
            found[name] += decisions_of(rollout)
    assert transitions(found["a"]) == TERMINATED_AT_7
    assert transitions(found["b"]) == TRUNCATED_AT_10
    # each episode is a new life in the slot: 7 decisions from clock 0 on, or 10
    assert [d.clock for d in found["a"]][:21] == [*range(7)] * 3
    assert [d.clock for d in found["b"]][:20] == [*range(10)] * 2
    assert len(worker.policies["a"].taken) == len(worker.policies["b"].taken) == 1


def test_a_mapping_function_is_asked_once_an_agent_and_episode():
    asked = []

    def rule(agent, episode):
        asked.append((agent, episode.lane, episode.index))
        return "main"

    worker = play(CountingAEC, ["main"], rule, T=4, lanes=2)
    while len(worker.finished) < 8:
        worker.sample()
    assert len(asked) == len(set(asked))
    assert {("b", 1, index) for index in range(4)} <= set(asked)


def test_kinds_with_policies_of_their_own_play_side_by_side():
    worker = play(CountingParallel, ["x", "y"], T=4, decisions={"x": 4, "y": 4}, lanes=2)
    found = {"x": [], "y": []}
    for _ in range(8):
        for name, rollout in worker.sample().items():
            found[name] += decisions_of(rollout)
    assert transitions(found["x"]) == {(0, 1.0, 1, False, False), (1, 2.0, None, True, False)}
    assert transitions(found["y"]) == {(t, 10.0 * (t + 1), t + 1, False, t == 3) for t in range(4)}


def test_nothing_is_kept_of_a_frozen_policy():
    worker = play(MultiAgentArena, ["agent1", "agent2"], T=4, frozen=["agent2"], config={"max_timesteps": 5})
    for _ in range(3):
        assert set(worker.sample()) == {"agent1"}
    assert worker.policies["agent2"].store is None
    assert set(worker.finished[0].policies.values()) == {"agent1", "agent2"}


@pytest.mark.parametrize("native", [True, False])
def test_rollouts_are_made_with_the_weights_that_were_set(native):
    worker = play("CartPole-v1", T=4, lanes=2)
    kind = worker.env.kinds[0]
    mine = Policy(kind.obs, kind.action, ModelConfig(native=native), generator=torch.Generator())
    worker.add_policy("main", mine, Demand(4))
    for scale in (1.0, 30.0, -5.0):
        with torch.no_grad():
            mine.head.linear.weight.mul_(scale)
            worker.set_weights({"main": mine})
            rollout = worker.sample()["main"]
            seen = {path: leaf.flatten(0, 1) for path, leaf in rollout.obs.items()}
            expected = mine(seen).log_prob(rollout.action.flatten(0, 1))
        torch.testing.assert_close(rollout.logp.flatten(), expected, rtol=1e-5, atol=1e-5)


def test_weights_reach_the_worker_by_set_weights_alone():
    worker = play(Counting, T=4, config={"terminate_at": 7})
    worker.sample()
    seat = worker.policies["main"]
    mine = Dice(seat.policy.obs_spec, seat.policy.action_spec)
    mine.weight.data.fill_(3.0)
    assert seat.policy.weight.item() == 0.0
    worker.set_weights({"main": mine, "unknown": mine})
    assert seat.policy.weight.item() == 3.0
    mine.weight.data.fill_(4.0)
    assert seat.policy.weight.item() == 3.0
    assert not seat.policy.weight.requires_grad


def test_actions_of_a_slot_do_not_depend_on_how_many_lanes_there_are():
    few, many = (play("CartPole-v1", T=64, decisions=64 * lanes, lanes=lanes) for lanes in (2, 5))
    one, other = few.sample()["main"], many.sample()["main"]
    assert torch.equal(one.action, other.action[:, :2])
    assert torch.equal(one.obs["obs"], other.obs["obs"][:, :2])


# --- watching and measuring -----------------------------------------------------------------------------------------


def test_a_worker_can_be_asked_for_one_step_after_the_other():
    worker = play(Counting, T=100, config={"terminate_at": 3})
    worker.reset()
    seen = []
    for _ in range(6):
        seen.append(float(worker.now.rows[0].obs["obs"][0, 0]))
        worker.sample(max_env_steps=1)
    assert seen == [0, 1, 2, 0, 1, 2]


def test_a_number_of_episodes_is_played_to_their_ends():
    class Uneven(Counting):
        """Lane by lane other lengths: the seed says when it ends."""

        def reset(self, *, seed=None, options=None):
            self.terminate_at = 2 + seed % 9
            return super().reset(seed=seed)

    worker = play(Uneven, T=1000, decisions=10**6, lanes=3)
    worker.sample(episodes=7)
    played = {e.index * 3 + e.lane: e for e in worker.finished}
    assert set(range(7)) <= set(played)
    seeds = Streams(0).episodes(Role.ENV)
    assert all(played[k].length == 2 + seeds(k % 3, k // 3) % 9 for k in range(7))


# --- state ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda: play(Walk, T=8, lanes=3),
        lambda: play(Counting, T=5, lanes=2, decisions=17, config={"truncate_at": 10, "mutate": True}),
        lambda: play(CountingAEC, ["a", "main"], {"a": "a", "b": "main", "c": "main"}, T=4, lanes=2, decisions=9),
        lambda: play(ComingAndGoing, ["one", "two"], {"a": "one", "b": "one", "c": "two"}, T=3, lanes=2),
        lambda: play(ScriptedEnv(3, 2, 3), ["a", "b"], lambda agent, e: "ab"[(e.index + e.lane) % 2], T=3, decisions=7),
    ],
)
@pytest.mark.parametrize("moment", [1, 13, 14, 15])
def test_a_worker_goes_on_from_its_saved_state_as_if_nothing_had_happened(make, moment):
    worker = make()
    while worker.vector_steps < moment:
        worker.sample(max_env_steps=worker.env.num_lanes)
    state = copy.deepcopy(worker.state_dict())
    other = make()
    other.load_state_dict(state)
    for _ in range(5):
        mine, theirs = worker.sample(), other.sample()
        assert mine.keys() == theirs.keys()
        assert all(same_bytes(mine[name], theirs[name]) for name in mine)
        assert worker.drain_finished() == other.drain_finished()
    assert worker.counters() == other.counters()


def test_a_state_with_other_policies_is_refused():
    worker, other = (play(Counting, T=4, config={"terminate_at": 7}) for _ in range(2))
    worker.sample()
    policy = worker.policies["main"].policy
    other.add_policy("extra", Dice(policy.obs_spec, policy.action_spec), Demand(4))
    with pytest.raises(KeyError, match=r"state has policies \['main'\], expected \['extra', 'main'\]"):
        other.load_state_dict(worker.state_dict())


def test_every_attribute_is_declared_saved_or_fixed():
    worker = play(CountingAEC, T=4)
    worker.sample()
    for part in (worker, *worker.policies.values(), *worker.tables, *(seat.store for seat in worker.policies.values())):
        assert set(vars(part)) == {*part._saved_names(), *part._fixed_names()}


def test_gymnasium_wrappers_that_truncate_count_as_truncation():
    worker = play(lambda: gymnasium.wrappers.TimeLimit(Counting(), 4), T=3)
    assert transitions(taken(worker, takes=4)) == {(t, t + 1.0, t + 1, False, t == 3) for t in range(4)}
