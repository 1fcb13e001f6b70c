"""Episodes as user code sees them, compared with records that the environments keep."""

from collections import defaultdict

import numpy as np
import pytest
from counting import ComingAndGoing, CountingAEC
from pettingzoo.classic import tictactoe_v3
from playing import play
from recording import Recording

from rookery import MultiAgentArena
from rookery.core.io.encoding import decode, encode
from rookery.rollout.hooks import EpisodeListeners


class Diary:
    """Writes down each call: its moment, lane and episode, and a copy of what there was to see."""

    def __init__(self):
        self.calls = []
        self.notes = defaultdict(list)

    def on_episode_start(self, episode):
        self.note("start", episode)

    def on_episode_step(self, episode):
        self.note("step", episode)

    def on_episode_end(self, episode):
        self.note("end", episode)

    def note(self, moment, episode):
        self.calls.append((moment, episode.lane, episode.index))
        self.notes[episode.lane, episode.index].append(
            {
                "moment": moment,
                "length": episode.length,
                "obs": {name: {path: array.copy() for path, array in obs.items()} for name, obs in episode.obs.items()},
                "action": dict(episode.action),
                "reward": dict(episode.reward),
                "returns": dict(episode.returns),
                "info": dict(episode.info),
            }
        )

    def finished(self):
        """The notes of each episode that ended, by (lane, episode)."""
        return {key: notes for key, notes in self.notes.items() if notes[-1]["moment"] == "end"}


def watched(env, env_steps, hooks=None, **arguments):
    """A worker whose episodes are watched, after some environment steps, and the first of the hooks."""
    worker = play(env, **{"T": 4, **arguments})
    hooks = [Diary()] if hooks is None else hooks
    worker.listeners = EpisodeListeners(worker.env, hooks)
    while worker.env_steps < env_steps:
        worker.sample(env_steps - worker.env_steps)
    return worker, hooks[0]


@pytest.fixture(scope="module")
def recorded():
    """The diary of a Gymnasium environment, and each finished episode as the environment reported it."""
    Recording.episodes.clear()
    worker, diary = watched(Recording, 400, lanes=3)
    by_seed = {own["info"][0]["seed"]: own for own in Recording.episodes}
    truth = {key: by_seed[worker.seeds(*key)] for key in diary.finished()}
    assert len(truth) > 60
    return diary, truth


def test_each_step_of_an_episode_is_told_once_between_its_start_and_its_end(recorded):
    diary, truth = recorded
    for key, own in truth.items():
        steps = len(own["obs"]) - 1
        assert [note["moment"] for note in diary.notes[key]] == ["start", *["step"] * steps, "end"]
        assert [note["length"] for note in diary.notes[key]] == [*range(steps + 1), steps]


def test_an_episode_ends_before_the_next_of_its_lane_starts(recorded):
    diary, _ = recorded
    for lane in range(3):
        mine = [(moment, index) for moment, number, index in diary.calls if number == lane and moment != "step"]
        expected = [(moment, index) for index in range(len(mine)) for moment in ("start", "end")]
        assert mine == expected[: len(mine)]


def test_hooks_are_called_in_the_order_in_which_they_were_given():
    order = []

    class Named(Diary):
        def note(self, moment, episode):
            order.append((self, moment, episode.lane, episode.index))

    first, second = Named(), Named()
    watched("CartPole-v1", 120, hooks=[first, second], lanes=2)
    assert len(order) > 120 and all(hook is first for hook, *_ in order[0::2])
    assert [(second, *call) for _, *call in order[0::2]] == order[1::2]


def test_actions_rewards_and_returns_are_those_of_the_environment(recorded):
    diary, truth = recorded
    for key, own in truth.items():
        start, *steps, end = diary.notes[key]
        assert (start["action"], start["reward"], start["returns"]) == ({}, {}, {})
        assert [note["action"]["agent"] for note in steps] == own["action"][1:]  # counted from 5, as the space says
        assert [note["reward"] for note in steps] == [{"agent": reward} for reward in own["reward"][1:]]
        sums = np.cumsum(own["reward"][1:])
        assert [note["returns"]["agent"] for note in steps] == pytest.approx(sums, abs=1e-12)
        assert end["returns"] == steps[-1]["returns"]


def test_infos_are_those_of_the_latest_step_and_none_of_the_episode_before(recorded):
    diary, truth = recorded
    for key, own in truth.items():
        start, *steps, end = diary.notes[key]
        assert start["info"] == {}
        assert [note["info"] for note in (*steps, end)] == [
            {"agent": info} for info in (*own["info"][1:], own["info"][-1])
        ]


def test_observations_are_the_environments_and_the_final_one_is_shown_when_an_episode_is_cut_off(recorded):
    diary, truth = recorded
    assert {own["cut"] for own in truth.values()} == {True, False}
    for key, own in truth.items():
        seen = [note["obs"]["agent"]["obs"].tolist() for note in diary.notes[key]]
        said = [obs.tolist() for obs in own["obs"]]
        last = said[-1] if own["cut"] else said[-2]  # no agent acts on the last observation of a terminated episode
        assert seen == [*said[:-1], last, last]


def test_what_the_worker_reports_of_an_episode_is_what_the_hooks_saw():
    worker, diary = watched("CartPole-v1", 600, lanes=3)
    finished = {(episode.lane, episode.index): episode for episode in worker.drain_finished()}
    assert finished.keys() == diary.finished().keys() and finished
    for key, episode in finished.items():
        last = diary.notes[key][-1]
        assert (last["length"], last["returns"]) == (episode.length, episode.agents)


def numbers(obs):
    """Observations by agent as lists."""
    return {agent: np.asarray(seen["obs"] if isinstance(seen, dict) else seen).tolist() for agent, seen in obs.items()}


def test_the_batched_arena_shows_what_its_slow_twin_computes():
    worker, diary = watched(MultiAgentArena, 150, lanes=2, config={"width": 4, "height": 3, "max_timesteps": 20})
    assert worker.env.name.endswith(("batched", "in C"))
    assert len(diary.finished()) == 6
    for (lane, index), (start, *steps, end) in diary.finished().items():
        twin = MultiAgentArena(width=4, height=3, max_timesteps=20)
        obs, _ = twin.reset(seed=worker.seeds(lane, index))
        sums = dict.fromkeys(obs, 0.0)
        assert numbers(start["obs"]) == numbers(obs)
        for note in steps:
            obs, rewards, *_ = twin.step(note["action"])
            sums = {agent: sums[agent] + reward for agent, reward in rewards.items()}
            assert (note["reward"], note["returns"]) == (rewards, sums)
            assert numbers(note["obs"]) == numbers(obs)
        assert end["returns"] == sums
        assert [note["info"] for note in (start, *steps, end)] == [{}] * 22


def test_players_that_take_turns_are_told_of_turn_by_turn():
    worker, diary = watched(tictactoe_v3, 120, lanes=2, T=8)
    assert len(diary.finished()) > 8
    for (lane, index), (start, *steps, end) in diary.finished().items():
        game = tictactoe_v3.env()
        game.reset(seed=worker.seeds(lane, index))
        sums, boards, actions = {}, {}, {}
        for before, note in zip([start, *steps], steps, strict=False):
            player = game.agent_selection
            boards[player] = game.observe(player)["observation"].ravel().tolist()
            told = {agent: obs["observation"].ravel().tolist() for agent, obs in before["obs"].items()}
            assert told == boards
            actions[player] = note["action"][player]
            assert note["action"] == actions
            game.step(int(note["action"][player]))
            paid = {agent: float(game.rewards[agent]) for agent in game.possible_agents}
            paid = {agent: reward for agent, reward in paid.items() if agent == player or reward != 0}
            sums |= {agent: sums.get(agent, 0.0) + reward for agent, reward in paid.items()}
            assert (note["reward"], note["returns"]) == (paid, sums)
        assert all(game.terminations.values())
        assert end["returns"] == sums


def test_agents_that_wait_for_their_turn_are_paid_all_the_same():
    _, diary = watched(CountingAEC, 8, lanes=1)
    rewards = [note["reward"] for note in diary.notes[0, 0] if note["moment"] == "step"]
    assert rewards[0] == {"a": 1.0, "b": -0.5, "c": -0.5}
    assert rewards[4] == {"c": -0.5, "a": 5.0} or rewards[4] == {"a": -0.5, "c": 5.0}  # b is dead by then


@pytest.mark.parametrize("announced", [True, False])
def test_agents_that_come_and_go_are_told_of_while_they_are_there(announced):
    _, diary = watched(ComingAndGoing, 12, lanes=2, config={"announced": announced}, rule=lambda agent, episode: agent,
                       policies=["a", "b", "c"])  # fmt: skip
    for lane in range(2):
        steps = [note for note in diary.notes[lane, 0] if note["moment"] == "step"]
        assert [note["reward"] for note in steps] == [
            {"a": 1.0}, {"a": 0.5, "b": 2.0}, {"a": 3.0, "c": 3.0}, {"b": 4.0, "c": 0.0}, {"c": 0.0},
            {"a": 0.0, "c": 6.0},
        ]  # fmt: skip
        assert steps[-1]["returns"] == {"a": 4.5, "b": 6.0, "c": 9.0}
        assert steps[-1]["obs"]["c"]["obs"].tolist() == [6.0, 6.0]  # its last one, because the episode was cut off


class Ends:
    """Writes down what there is to see of an episode when it ends, and follows none."""

    def __init__(self):
        self.ends = {}

    def on_episode_end(self, episode):
        self.ends[episode.lane, episode.index] = {
            "length": episode.length,
            "obs": numbers(episode.obs),
            "action": {agent: np.asarray(action).tolist() for agent, action in episode.action.items()},
            "reward": dict(episode.reward),
            "returns": dict(episode.returns),
            "info": dict(episode.info),
        }


@pytest.mark.parametrize("implementation", ["serial", "processes"])
def test_who_hears_of_ends_alone_sees_at_the_end_what_a_follower_sees(implementation):
    from rookery.envs.make import make_env

    def ends_of(hook):
        env = make_env(Recording, {}, (), 3, implementation, helpers=1)
        worker, _ = watched(env, 300, hooks=[hook])
        env.close()
        return worker, hook.ends

    class Follower(Ends):
        def on_episode_step(self, episode):
            pass

    worker, ends = ends_of(Ends())
    assert not worker.listeners.every_step and worker.listeners.episodes == [None] * 3
    _, followed = ends_of(Follower())
    assert ends == followed and len(ends) > 40
    assert all(end["info"]["agent"]["left"] == 0 for end in ends.values())


def test_the_last_step_of_several_agents_is_seen_at_the_end():
    for env, config in ((MultiAgentArena, {"max_timesteps": 20}), (ComingAndGoing, {"announced": False})):
        rule = {"rule": lambda agent, episode: agent, "policies": ["a", "b", "c"]} if env is ComingAndGoing else {}
        frozen = {"frozen": ("b",)} if rule else {}
        (_, told), (_, diary) = (
            watched(env, 60, hooks=[hook], lanes=2, config=config, **rule, **frozen) for hook in (Ends(), Diary())
        )
        assert told.ends.keys() == diary.finished().keys() and told.ends
        for key, end in told.ends.items():
            *_, last = diary.notes[key]
            assert end["reward"] == last["reward"] and end["returns"] == last["returns"]
            acted = {agent: numbers({agent: last["obs"][agent]})[agent] for agent in end["obs"]}
            assert end["obs"] == acted and end["obs"].keys() >= end["action"].keys() > set()
            assert all(np.asarray(last["action"][agent]).tolist() == end["action"][agent] for agent in end["action"])


class Reckless:
    """Keeps something in `user_data` from the first step on."""

    def __init__(self, thing):
        self.thing = thing

    def on_episode_start(self, episode):
        episode.user_data["thing"] = self.thing

    def on_episode_step(self, episode):
        pass

    def on_episode_end(self, episode):
        pass


def test_plain_user_data_goes_through_a_file_and_back():
    thing = {"list": [1, 2.5, None], "array": np.arange(3), ("a", 1): "key", "number": np.float32(0.1)}
    worker, _ = watched("CartPole-v1", 6, hooks=[Reckless(thing)], lanes=2)
    restored = play("CartPole-v1", T=4, lanes=2)
    restored.listeners = EpisodeListeners(restored.env, [Diary()])
    restored.load_state_dict(decode(*encode(worker.state_dict())))
    for mine, theirs in zip(restored.listeners.episodes, worker.listeners.episodes, strict=True):
        found = mine.user_data["thing"]
        assert found.pop("array").tolist() == [0, 1, 2]
        assert found == {key: value for key, value in thing.items() if key != "array"}
        assert (mine.index, mine.length, mine.returns) == (theirs.index, theirs.length, theirs.returns)
    assert [array.tolist() for array in restored.listeners.episodes[0].obs["agent"].values()] == [
        array.tolist() for array in worker.listeners.episodes[0].obs["agent"].values()
    ]


@pytest.mark.parametrize(
    "thing",
    [object(), lambda: 1, (number for number in range(3)), {"inside": [{1, 2}]}, np.random.default_rng(0)],
    ids=["object", "function", "generator", "set", "random numbers"],
)
def test_other_user_data_is_left_out_of_a_checkpoint_without_breaking_it(thing):
    worker, _ = watched("CartPole-v1", 6, hooks=[Reckless(thing)], lanes=1)
    state = decode(*encode(worker.state_dict()))
    assert state["listeners"]["episodes"][0]["user_data"] == {}
    assert worker.listeners.episodes[0].user_data["thing"] is thing


def test_nothing_is_kept_of_an_episode_that_nobody_watches():
    worker = play("CartPole-v1", T=4, lanes=1)
    worker.sample(8)
    assert worker.listeners is None
    assert worker.env.keep_infos == "none"
