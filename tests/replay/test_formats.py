"""Files of others: what is written comes back number by number, and what is wrong in one is said with its row."""

from __future__ import annotations

import base64
import json
import os
import pickle
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from gymnasium import spaces
from recordings import CHOICE, CHOICES, HYBRID, PARTS, POINT, THROTTLE, UNIT, assert_same, recording

from rookery.core.errors import ConfigError, SpaceError
from rookery.core.io.files import FileError
from rookery.core.spaces.entity_set import EntitySet
from rookery.replay.formats import blocks, csv_file, npz_file
from rookery.replay.formats.columns import Wanted
from rookery.replay.formats.names import export_stored, format_of, import_replay, read_recordings
from rookery.replay.recording import write_recordings
from rookery.replay.segments import find_replay
from rookery.replay.summary import between, summarize
from rookery_mlagents.files.demo_file import read_demo, write_demo
from rookery_mlagents.link.messages import (
    ActionSpecProto,
    AgentActionProto,
    AgentInfoActionPairProto,
    AgentInfoProto,
    BrainParametersProto,
    FloatData,
    ObservationProto,
)

SUFFIX = {"npz": ".npz", "csv": ".csv", "rllib": ".json", "unity": ".demo", "parquet": ".parquet"}


def stored(folder, one, name="kept", policy="main"):
    write_recordings(folder / name, {policy: one}, replace=True)
    return find_replay(folder / name)


def exported(folder, one, kind, name="out", policy="main"):
    if kind == "parquet":
        pytest.importorskip("pyarrow")
    target = folder / f"{name}{SUFFIX[kind]}"
    export_stored(stored(folder, one, policy=policy), str(target), kind, advance=lambda count: None)
    return target


def read(path, one=None, policy="main", **wanted):
    return read_recordings([path], Wanted(spaces=None if one is None else one.spaces, **wanted))[policy]


# --- there and back ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", [CHOICE, CHOICES, THROTTLE, HYBRID], ids=["choice", "choices", "throttle", "hybrid"])
@pytest.mark.parametrize("obs", [POINT, PARTS], ids=["point", "parts"])
def test_npz_goes_there_and_back_with_all_that_is_known(tmp_path, obs, action):
    one = recording(obs, action, logp=True, mask=action is CHOICES)
    path = exported(tmp_path, one, "npz")
    assert_same(read(path), one)
    first = path.read_bytes()
    assert exported(tmp_path, read(path), "npz", "again").read_bytes()[:400] == first[:400]


@pytest.mark.parametrize("kind", ["csv", "rllib", "parquet"])
@pytest.mark.parametrize("action", [CHOICE, CHOICES, THROTTLE], ids=["choice", "choices", "throttle"])
def test_tables_go_there_and_back(tmp_path, kind, action):
    one = recording(POINT, action, logp=True, lengths=(3, 1, 4, 12))
    path = exported(tmp_path, one, kind)
    again = read(path, one)
    assert_same(again, one)
    assert exported(tmp_path, again, kind, "again").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_tables_hold_observations_with_parts_and_masks(tmp_path, kind):
    one = recording(PARTS, CHOICES, mask=True)
    assert_same(read(exported(tmp_path, one, kind), one), one)


@pytest.mark.parametrize("kind", ["npz", "csv", "rllib"])
def test_what_is_missing_is_missing_after_it_too(tmp_path, kind):
    one = recording(reward=False)
    again = read(exported(tmp_path, one, kind), one)
    assert again.missing == ("reward", "logp")
    assert_same(again, one)


@pytest.mark.parametrize(
    "action", [CHOICES, UNIT, HYBRID, spaces.Discrete(3)], ids=["choices", "unit", "hybrid", "one"]
)
@pytest.mark.parametrize("obs", [POINT, PARTS], ids=["point", "parts"])
def test_demonstrations_go_there_and_back_byte_by_byte(tmp_path, obs, action):
    one = recording(obs, action, mask=action is CHOICES)
    path = exported(tmp_path, one, "unity", policy="Walker")
    again = read(path, policy="Walker")
    assert_same(again, one, ends=False)
    assert again.spaces.action.space == action
    assert exported(tmp_path, again, "unity", "again", policy="Walker").read_bytes() == path.read_bytes()
    demo = read_demo(path)
    assert demo.meta.number_episodes == 3
    assert demo.meta.number_steps == len(one) + 3
    total = sum(float(episode.reward.sum()) for episode in one.episodes)
    assert demo.meta.mean_reward == pytest.approx(total / 3, rel=1e-5)


def test_numbers_of_a_box_go_to_unity_in_units_of_half_their_range(tmp_path):
    one = recording(POINT, THROTTLE)
    demo = read_demo(exported(tmp_path, one, "unity"))
    first = np.array(demo.pairs[0].action_info.continuous_actions)
    np.testing.assert_array_equal(first.astype(np.float32), one.episodes[0].action[0])
    with pytest.raises(SpaceError, match=r"Box\(-1.0, 1.0, \(2,\), float32\), and observations .* are wanted"):
        read(tmp_path / "out.demo", one)


def test_flags_come_back_from_unity_as_the_flags_that_are_wanted(tmp_path):
    one = recording(spaces.MultiBinary(6), spaces.Discrete(3))
    for episode in one.episodes:
        for seen in (episode.obs, episode.last_obs or {}):
            seen.get("obs", np.zeros(1, np.int8))[...] %= 2
    path = exported(tmp_path, one, "unity")
    assert read(path).spaces.obs.leaves[0].kind == "box"
    found = read(path, one)
    assert found.spaces.obs == one.spaces.obs
    for mine, theirs in zip(found.episodes, one.episodes, strict=True):
        np.testing.assert_array_equal(mine.obs["obs"], theirs.obs["obs"])
        assert mine.obs["obs"].dtype == theirs.obs["obs"].dtype
    with pytest.raises(SpaceError, match="are wanted"):
        read(path, recording(spaces.MultiBinary(5), spaces.Discrete(3)))


def test_categories_go_to_unity_as_numbers_of_which_one_is_1(tmp_path):
    one = recording(spaces.Discrete(5, start=1), CHOICE)
    demo = read_demo(exported(tmp_path, one, "unity"))
    seen = [pair.agent_info.observations[0].float_data.data for pair in demo.pairs[:3]]
    assert [np.argmax(row) for row in seen] == one.episodes[0].obs["obs"].tolist()
    assert all(sum(row) == 1.0 for row in seen)


def test_rllib_writes_categories_one_hot_and_they_are_read(tmp_path):
    one = recording(spaces.Discrete(5), spaces.Discrete(3))
    path = exported(tmp_path, one, "rllib")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        for name in ("obs", "new_obs"):
            line[name] = np.eye(5)[line[name]].tolist()
    path.write_text("\n".join(map(json.dumps, lines)))
    assert_same(read(path, one), one)


def test_several_files_and_folders_are_read_one_after_the_other(tmp_path):
    ones = [recording(POINT, UNIT, seed=seed) for seed in (0, 1)]
    for number, one in enumerate(ones):
        exported(tmp_path, one, "unity", f"part{number}")
    found = read(tmp_path)
    assert_same(found, replace(ones[0], episodes=ones[0].episodes + ones[1].episodes), ends=False)
    again = read_recordings([tmp_path / "part0.demo", tmp_path / "part1.demo"], Wanted())["main"]
    assert_same(again, found)
    exported(tmp_path, recording(PARTS, UNIT), "unity", "part2")
    with pytest.raises(SpaceError, match=r"part2.demo: holds observations Dict"):
        read(tmp_path)


def demo_of(path, rows, brain):
    """A demonstration of one sensor with one number: (id, number, reward, ended, cut, action) in each row."""
    pairs = []
    for agent, seen, reward, ended, cut, action in rows:
        shown = ObservationProto((1,), float_data=FloatData((seen,)))
        info = AgentInfoProto(reward, ended, cut, agent, observations=(shown,))
        pairs.append(AgentInfoActionPairProto(info, action))
    write_demo(path, "made", brain, pairs)
    return path


def test_sets_go_to_unity_and_back_and_tables_stay_tables(tmp_path):
    things = EntitySet(spaces.Box(-1, 1, (3,), np.float32), 4)
    made = spaces.Dict({"a table": spaces.Box(-1, 1, (2, 3), np.float32), "things": things})
    one = recording(made, UNIT)
    for episode in one.episodes:
        for seen in (episode.obs, episode.last_obs or {}):
            if seen:
                seen["things"][:, 2:] = 0.0
                seen["things"][:, :2, 0] = 1.0
    path = exported(tmp_path, one, "unity", policy="Walker")
    (table, shown) = read_demo(path).pairs[0].agent_info.observations
    assert (table.shape, table.dimension_properties) == ((2, 3), (1, 1))
    assert (shown.shape, shown.dimension_properties) == ((4, 3), (4, 1)) and len(shown.float_data.data) == 12
    assert_same(read(path, one, "Walker"), one, ends=False)
    alone = read(path, policy="Walker")
    assert isinstance(alone.spaces.obs.space["things"], EntitySet)
    assert_same(alone, one, ends=False)


def test_agents_that_take_turns_in_a_demonstration_have_episodes_of_their_own(tmp_path):
    brain = BrainParametersProto(brain_name="Two?team=1", action_spec=ActionSpecProto(0, 1, (3,)))
    did = [AgentActionProto(discrete_actions=(number,)) for number in range(3)]
    rows = [(1, 1.0, 9.0, False, False, did[1]), (2, 10.0, 9.0, False, False, did[2]),
            (1, 2.0, 0.5, False, False, did[0]), (2, 11.0, 0.25, True, False, did[0]),
            (1, 3.0, 0.75, False, False, did[2]), (3, 30.0, 0.0, False, False, did[1])]  # fmt: skip
    found = read(demo_of(tmp_path / "two.demo", rows, brain), policy="Two")
    over, running = found.episodes
    assert (over.obs["obs"].tolist(), over.reward.tolist(), over.terminated) == ([[10.0]], [0.25], True)
    assert (running.obs["obs"].tolist(), running.reward.tolist()) == ([[1.0], [2.0]], [0.5, 0.75])
    assert (running.terminated, running.truncated, running.last_obs["obs"].tolist()) == (False, False, [[3.0]])
    assert running.action.tolist() == [1, 0]


@pytest.mark.parametrize(("kind", "space"), [(0, spaces.Discrete(3)), (1, spaces.Box(-1, 1, (3,), np.float32))])
def test_demonstrations_of_old_players_are_read(tmp_path, kind, space):
    brain = BrainParametersProto((3,), (), kind, "Old")
    did = AgentActionProto(vector_actions_deprecated=(0.5, 0.0, -1.0) if kind else (2.0,))
    rows = [(0, 1.0, 0.0, False, False, did), (0, 2.0, 1.0, True, True, did)]
    found = read(demo_of(tmp_path / "old.demo", rows, brain), policy="Old")
    assert found.spaces.action.space == space
    assert found.episodes[0].action.tolist() == ([[0.5, 0.0, -1.0]] if kind else [2])
    assert found.episodes[0].truncated and found.episodes[0].last_obs["obs"].tolist() == [[2.0]]


@pytest.mark.parametrize("ended", [False, True])
def test_the_last_row_of_an_agent_may_have_no_action(tmp_path, ended):
    brain = BrainParametersProto(brain_name="Old", action_spec=ActionSpecProto(0, 1, (3,)))
    did = [AgentActionProto(discrete_actions=(number,)) for number in range(3)]
    rows = [(1, 1.0, 9.0, False, False, did[1]), (2, 10.0, 9.0, False, False, did[2]),
            (1, 2.0, 0.5, False, False, did[2]), (2, 11.0, 0.25, False, False, AgentActionProto()),
            (1, 3.0, 0.75, ended, False, None), (3, 30.0, 0.0, False, False, AgentActionProto())]  # fmt: skip
    found = read(demo_of(tmp_path / "old.demo", rows, brain), policy="Old")
    one, other = sorted(found.episodes, key=len, reverse=True)  # agent 3 has decided nothing
    assert (one.obs["obs"].tolist(), one.action.tolist()) == ([[1.0], [2.0]], [1, 2])
    assert (one.reward.tolist(), one.terminated, one.truncated) == ([0.5, 0.75], ended, False)
    assert ended or one.last_obs["obs"].tolist() == [[3.0]]
    assert (other.obs["obs"].tolist(), other.action.tolist(), other.reward.tolist()) == ([[10.0]], [2], [0.25])
    assert (other.terminated, other.truncated, other.last_obs["obs"].tolist()) == (False, False, [[11.0]])


@pytest.mark.parametrize(
    ("shapes", "space", "stored"),
    [
        ([(0,)], spaces.Discrete(1), {"obs": []}),
        ([(2,), (0,)], None, {"obs_0": [2], "obs_1": [0]}),
        ([(0,), (0,)], None, {"obs_0": [], "obs_1": []}),
    ],
)
def test_sensors_without_numbers_are_read(tmp_path, shapes, space, stored):
    brain = BrainParametersProto(brain_name="Old", action_spec=ActionSpecProto(1))
    shown = tuple(ObservationProto(shape, float_data=FloatData((0.5,) * shape[0])) for shape in shapes)
    did = AgentActionProto(continuous_actions=(0.25,))
    pairs = [AgentInfoActionPairProto(AgentInfoProto(1.0, row == 3, observations=shown), did) for row in range(4)]
    write_demo(path := tmp_path / "blind.demo", "made", brain, pairs)
    found = read(path, policy="Old")
    (episode,) = found.episodes
    assert space is None or found.spaces.obs.space == space
    assert {name: list(array.shape) for name, array in episode.obs.items()} == {
        name: [3, *shape] for name, shape in stored.items()
    }
    assert episode.action.tolist() == [[0.25]] * 3 and episode.reward.tolist() == [1.0] * 3
    import_replay(path, tmp_path / "stored")
    summary = summarize(find_replay(tmp_path / "stored"))
    ranges = [between(low, summary.ranges.most[name]) for name, low in summary.ranges.least.items()]
    assert ("no numbers" in ranges) == any(shape == [0] for shape in stored.values())
    again = read_recordings([path], Wanted(found.spaces, policy="Old"))["Old"]
    assert again.spaces.obs == found.spaces.obs
    with pytest.raises(SpaceError, match="are wanted"):
        read_recordings([path], Wanted(recording(spaces.Discrete(5), UNIT).spaces, policy="Old"))


def test_rows_of_a_demonstration_that_cannot_be_used_are_named(tmp_path):
    brain = BrainParametersProto(brain_name="Odd", action_spec=ActionSpecProto(0, 1, (3,)))
    good, wrong = AgentActionProto(discrete_actions=(1,)), AgentActionProto(discrete_actions=(7,))
    start, end = (0, 1.0, 0.0, False, False, good), (0, 1.0, 1.0, True, False, good)
    for row, problem in (
        ((0, np.nan, 1.0, False, False, good), "row 2: obs: non-finite observation nan"),
        ((0, 1.0, np.nan, False, False, good), "row 2: the reward is nan"),
        ((0, 1.0, 1.0, False, False, wrong), r"row 2: action 0 is 7, which is not in Discrete\(3\)"),
        ((0, 1.0, 1.0, False, False, AgentActionProto()), "row 2: has no action, and its agent has further rows"),
        ((0, 1.0, 1.0, False, False, AgentActionProto(discrete_actions=(1, 1))), "row 2: 0 numbers and 2 choices were"),
    ):
        with pytest.raises(ConfigError, match=problem):
            read(demo_of(tmp_path / "odd.demo", [start, row, end], brain), policy="Odd")
    with pytest.raises(FileError, match="behaviour 'Odd' has no actions"):
        read(demo_of(tmp_path / "odd.demo", [start, end], BrainParametersProto(brain_name="Odd")), policy="Odd")
    with pytest.raises(FileError, match="holds no rows"):
        read(demo_of(tmp_path / "odd.demo", [], brain), policy="Odd")


# --- other people's tables --------------------------------------------------------------------------------------------


def test_columns_are_named_by_the_user(tmp_path):
    path = tmp_path / "pendulum.csv"
    path.write_text(
        "run,t,theta,speed,torque,cost,end\n"
        "a,0,0.5,1.0,2.0,-1,0\nb,0,7.5,7.0,1.0,-7,0\na,1,0.25,0.5,-2.0,-2,1\nb,1,8.5,8.0,0.5,-8,0\n"
    )
    columns = {"obs": ["theta", "sp*"], "action": ["torque"], "reward": ["cost"], "terminated": ["end"],
               "episode": ["run"]}  # fmt: skip
    found = read(path, columns=columns)
    assert [len(episode) for episode in found.episodes] == [2, 2]
    np.testing.assert_array_equal(found.episodes[1].obs["obs"], [[7.5, 7.0], [8.5, 8.0]])
    np.testing.assert_array_equal(found.episodes[0].reward, [-1, -2])
    assert [episode.terminated for episode in found.episodes] == [True, False]
    assert found.missing == ("logp", "last_obs")
    with pytest.raises(ConfigError, match="has no column 'tehta' for obs; .* did you mean 'theta'"):
        read(path, columns={**columns, "obs": ["tehta"]})
    with pytest.raises(ConfigError, match="--column rewrd: is not one of .* did you mean 'reward'"):
        read(path, columns={**columns, "rewrd": ["cost"]})
    with pytest.raises(ConfigError, match="the columns of obs are unknown"):
        read(path, columns={"action": ["torque"]})
    with pytest.raises(ConfigError, match="no column has the ends of episodes"):
        read(path, columns={"obs": ["theta"], "action": ["torque"]})


def test_arrays_as_d4rl_and_imitation_call_them_are_known(tmp_path):
    obs = np.arange(18, dtype=np.float32).reshape(6, 3)
    rewards, ends = np.arange(6.0), np.array([0, 0, 1, 0, 0, 0], bool)
    np.savez(tmp_path / "a.npz", observations=obs, actions=np.zeros((6, 2), np.float32), rewards=rewards,
             terminals=ends, timeouts=np.roll(ends, 3), next_observations=obs + 3)  # fmt: skip
    found = read(tmp_path / "a.npz")
    assert [len(episode) for episode in found.episodes] == [3, 3]
    np.testing.assert_array_equal(found.episodes[1].last_obs["obs"], obs[5:] + 3)
    assert found.spaces.action.space == spaces.Box(-np.inf, np.inf, (2,), np.float32)
    np.savez(tmp_path / "b.npz", obs=obs, acts=np.array([0, 1, 2, 0, 1, 2]), rews=rewards, dones=ends)
    assert read(tmp_path / "b.npz").spaces.action.space == spaces.Discrete(3)
    starts = np.array([1, 0, 0, 1, 0, 0], bool)
    np.savez(tmp_path / "c.npz", obs=obs, actions=np.zeros(6, int), episode_starts=starts)
    assert [len(episode) for episode in read(tmp_path / "c.npz").episodes] == [3, 3]


def test_batches_of_rllib_go_on_from_line_to_line_and_hold_several_policies(tmp_path):
    def batch(episode, steps, start):
        rows = range(start, start + steps)
        return {"obs": [[float(t)] for t in rows], "new_obs": [[t + 1.0] for t in rows], "actions": [1] * steps,
                "rewards": [0.5] * steps, "dones": [t == 4 for t in rows], "eps_id": [episode] * steps,
                "agent_index": [0] * steps, "infos": ["?"] * steps}  # fmt: skip

    lines = [{"type": "SampleBatch", **batch(9, 3, 0)}, {"type": "SampleBatch", **batch(9, 2, 3)},
             {"type": "SampleBatch", **batch(5, 2, 0)}]  # fmt: skip
    path = tmp_path / "out.json"
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")
    found = read(path)
    assert [(len(one), one.terminated) for one in found.episodes] == [(5, True), (2, False)]
    assert found.episodes[1].last_obs["obs"].tolist() == [[2.0]]
    several = {"type": "MultiAgentBatch", "count": 3, "policy_batches": {"a": batch(1, 3, 0), "b": batch(2, 2, 3)}}
    path.write_text(json.dumps(several))
    both = read_recordings([path], Wanted())
    assert {name: len(one) for name, one in both.items()} == {"a": 3, "b": 2}


def test_pickles_are_read_only_from_those_one_trusts(tmp_path):
    obs = np.arange(6, dtype=np.float32).reshape(3, 2)
    packed = base64.b64encode(pickle.dumps(obs)).decode()
    line = {"type": "SampleBatch", "obs": packed, "actions": [0, 1, 0], "rewards": [1, 1, 1], "dones": [0, 0, 1]}
    path = tmp_path / "out.json"
    path.write_text(json.dumps(line))
    with pytest.raises(ConfigError, match=r"out.json:1: this column was packed by RLlib as a pickle.*--trust-pickle"):
        read(path)
    np.testing.assert_array_equal(read(path, trust_pickle=True).episodes[0].obs["obs"], obs)
    path.write_text(json.dumps({**line, "obs": "no pickle"}))
    with pytest.raises(ConfigError, match="not a packed column"):
        read(path, trust_pickle=True)


# --- what is wrong ----------------------------------------------------------------------------------------------------


SAME_NAME = pytest.mark.regression(
    "wrong result", "Of two columns of one name in a table, one is not dropped in silence"
)


@SAME_NAME
def test_two_columns_of_one_name_in_text_are_refused_with_their_places(tmp_path):
    path = exported(tmp_path, recording(POINT, THROTTLE), "csv")
    names, *rows = path.read_text().splitlines()
    path.write_text("\n".join([f"{names}, reward", *[f"{row},9" for row in rows]]))
    number = len(names.split(","))
    place = names.split(",").index("reward") + 1
    told = rf"out.csv: has 2 columns named 'reward' \(columns {place} and {number + 1} of {number + 1}\)"
    with pytest.raises(ConfigError, match=told):
        read(path)
    path.write_text("\n".join([f"{names},,", *[f"{row},9,9" for row in rows]]))  # not read
    assert len(read(path).episodes) == 3


@SAME_NAME
def test_two_arrays_of_one_name_are_refused(tmp_path):
    one = recording(POINT, CHOICE)
    own = exported(tmp_path, one, "npz")
    theirs = tmp_path / "theirs.npz"
    np.savez(theirs, obs=np.zeros((4, 2)), action=np.zeros(4, int), reward=np.ones(4), done=np.array([0, 0, 0, 1]))
    for path in (own, theirs):
        with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("reward.npy", archive.read("reward.npy"))
        with pytest.raises(ConfigError, match=rf"{path.name}: has 2 columns named 'reward' \(columns . and \d+ of"):
            read(path)


@SAME_NAME
def test_two_columns_of_one_name_in_parquet_are_refused(tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = exported(tmp_path, recording(POINT, THROTTLE), "parquet")
    table = parquet.read_table(path)
    parquet.write_table(table.append_column("reward", pyarrow.array([9.0] * len(table))), path)
    with pytest.raises(ConfigError, match=r"out.parquet: has 2 columns named 'reward' \(columns"):
        read(path)


@SAME_NAME
def test_two_columns_of_one_name_in_a_batch_of_rllib_are_refused(tmp_path):
    path = exported(tmp_path, recording(POINT, THROTTLE), "rllib")
    line = path.read_text().splitlines()[0]
    rewards = json.dumps(json.loads(line)["rewards"])
    path.write_text(f'{line}\n{line[:-1]}, "rewards": {rewards}}}\n')
    with pytest.raises(FileError, match=r"out.json:2: has two columns or policies named 'rewards' in one object"):
        read(path)


@SAME_NAME
def test_two_policies_of_one_name_in_a_batch_of_rllib_are_refused(tmp_path):
    path = exported(tmp_path, recording(POINT, THROTTLE), "rllib")
    batch = {key: value for key, value in json.loads(path.read_text().splitlines()[0]).items() if key != "type"}
    both = {"default_policy": batch, "main": batch}
    path.write_text(json.dumps({"type": "MultiAgentBatch", "count": 3, "policy_batches": both}))
    with pytest.raises(
        ConfigError, match=r"holds default_policy, which is read as policy 'main', and a policy of that"
    ):
        read(path)
    assert set(read_recordings([path], Wanted(policy="first"))) == {"first", "main"}


def broken_csv(folder, column, row, text):
    path = exported(folder, recording(POINT, THROTTLE, lengths=(3, 4)), "csv")
    lines = [line.split(",") for line in path.read_text().splitlines()]
    lines[row][lines[0].index(column)] = text
    path.write_text("\n".join(map(",".join, lines)))
    return path


@pytest.mark.parametrize(
    ("column", "text", "problem"),
    [
        ("obs_1", "nan", r"row 5 \(line 6\): obs: non-finite observation nan"),
        ("obs_1", "", r"row 5 \(line 6\): obs: non-finite observation nan"),
        ("action_0", "inf", r"row 5 \(line 6\): action is \[inf, .*\], which is not a finite number"),
        ("reward", "NaN", r"row 5 \(line 6\): reward is nan"),
        ("reward", "much", r"row 5 \(line 6\): reward is 'much', which is not a number"),
        ("truncated", "2", r"row 5 \(line 6\): truncated is '2'|row 5 \(line 6\): truncated is 2"),
    ],
)
def test_a_row_that_cannot_be_used_is_named(tmp_path, column, text, problem):
    with pytest.raises(ConfigError, match=problem):
        read(broken_csv(tmp_path, column, 5, text), recording(POINT, THROTTLE))


@pytest.mark.parametrize("text", ["nan", "much"])
def test_the_line_of_a_row_counts_empty_lines_and_those_that_a_text_in_quotes_spans(tmp_path, text):
    path = broken_csv(tmp_path, "obs_1", 5, text)
    lines = [f"{line},{note}" for line, note in zip(path.read_text().splitlines(), "nabcdefg", strict=True)]
    lines[2] = lines[2][:-1] + '"two\nlines"'
    path.write_text("\n\n" + "\n\n".join(lines))  # row 5 was line 6; 7 empty ones, and 1 more of row 2
    with pytest.raises(ConfigError, match=r"row 5 \(line 14\): obs"):
        read(path, recording(POINT, THROTTLE))


def test_an_action_that_is_not_in_the_space_is_named_with_its_row(tmp_path):
    one = recording(POINT, CHOICE)
    path = exported(tmp_path, one, "csv")
    path.write_text(path.read_text().replace(f"0,1,{shown(one, 1)}", f"0,1,{shown(one, 1, 17)}"))
    with pytest.raises(ConfigError, match=r"row 2 \(line 3\): action is 17, which is not in Discrete\(4, start=2\)"):
        read(path, one)


def shown(one, row, action=None):
    episode = one.episodes[0]
    action = int(episode.action[row]) + 2 if action is None else action
    return ",".join([*map(str, episode.obs["obs"][row]), str(action)])


def test_a_nan_in_an_npz_file_is_named_with_its_row(tmp_path):
    obs = np.zeros((4, 2), np.float32)
    obs[2, 1] = np.nan
    np.savez(tmp_path / "a.npz", obs=obs, actions=np.zeros(4, int), rewards=np.zeros(4), dones=np.ones(4, bool))
    with pytest.raises(ConfigError, match=r"a.npz: row 3: obs: non-finite observation nan"):
        read(tmp_path / "a.npz")
    np.savez(tmp_path / "a.npz", obs=obs[:3], actions=np.zeros(4, int), dones=np.ones(4, bool))
    with pytest.raises(ConfigError, match="obs has 3 rows, and actions 4"):
        read(tmp_path / "a.npz")


def test_other_spaces_are_refused_and_both_are_named(tmp_path):
    one, other = recording(POINT, THROTTLE), recording(spaces.Box(-1, 1, (5,)), THROTTLE)
    path = exported(tmp_path, one, "csv")
    with pytest.raises(SpaceError, match=r"obs has 3 numbers in a row .* the wanted space has 5"):
        read(path, other)
    with pytest.raises(SpaceError, match=r"actions have 2 numbers, and Discrete\(4, start=2\) has 1"):
        read(path, recording(POINT, CHOICE))
    with pytest.raises(SpaceError, match=r"holds observations Box\(-inf.*\(3,\).* and observations Box\(-1.*\(5,\)"):
        read(exported(tmp_path, one, "npz"), other)
    with pytest.raises(SpaceError, match="observations of Dict.* have 'camera' too|has obs, and observations"):
        read(path, recording(PARTS, THROTTLE))


@pytest.mark.parametrize("kind", ["npz", "csv", "rllib", "unity", "parquet"])
def test_missing_empty_and_cut_files_are_refused(tmp_path, kind):
    path = exported(tmp_path, recording(POINT, CHOICES), kind)
    content = path.read_bytes()
    with pytest.raises(FileError, match="there is no such file"):
        read(tmp_path / f"nowhere{SUFFIX[kind]}")
    path.write_bytes(b"")
    with pytest.raises((FileError, ConfigError), match=rf"out\{SUFFIX[kind]}: is "):
        read(path)
    path.write_bytes(content[: len(content) * 2 // 3])
    with pytest.raises((FileError, ConfigError), match=rf"out\{SUFFIX[kind]}"):
        read(path)


def test_tables_say_which_columns_they_drop_and_where_time_jumps(tmp_path):
    path = tmp_path / "log.csv"
    rows = ["obs,action,reward,done,timestamp,weather", "0,1,1,0,{},dry", "1,1,1,0,{},dry", "2,1,1,1,{},wet"]
    path.write_text("\n".join(rows).format("noon", "one", "two"))
    found = read(path)
    assert found.dropped == ("timestamp", "weather")  # times that are texts and not named by the user
    assert "done does not distinguish termination from truncation" in found.notes[0]
    with pytest.raises(ConfigError, match=r"row 1 \(line 2\): timestamp is 'noon', which is not a number"):
        read(path, columns={"step": ["timestamp"]})
    path.write_text("\n".join(rows).format(10, 20, 60))
    with pytest.raises(ConfigError, match=r"row 3 \(line 4\): step is 60, and 20 in the previous row: time jumps"):
        read(path)
    assert [len(one) for one in read(path, cut_at_jumps=True).episodes] == [2, 1]
    path.write_text("\n".join(rows).format(10, 20, 31))
    assert read(path).dropped == ("weather",)


@pytest.mark.regression(
    "unclear error", "A column of a CSV file that is named for two roles is read once and used for both"
)
def test_a_column_of_text_tables_may_have_two_roles(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("x,t,action,reward,game\n0,1,1,0,7\n1,2,0,1,7\n2,1,1,1,9\n")
    columns = {"obs": ["x", "t", "game"], "step": ["t"], "episode": ["game"], "action": ["action"]}
    found = read(path, columns=columns)
    assert [one.obs["obs"].tolist() for one in found.episodes] == [[[0, 1, 7], [1, 2, 7]], [[2, 1, 9]]]
    path.write_text(path.read_text().replace("9", "last"))
    with pytest.raises(ConfigError, match=r"row 3 \(line 4\): game is 'last', which is not a number"):
        read(path, columns=columns)
    assert [len(one) for one in read(path, columns=columns | {"obs": ["x", "x"]}).episodes] == [2, 1]


def test_time_limits_and_bounds_hold_for_all_formats(tmp_path):
    one = recording(POINT, THROTTLE, lengths=(4, 3))
    for kind in ("npz", "csv", "rllib", "unity"):
        path = exported(tmp_path, one, kind, policy="Walker")
        found = read_recordings([path], Wanted(one.spaces if kind != "unity" else None, time_limit=4, policy="Walker"))
        first = found["Walker"].episodes[0]
        assert (first.terminated, first.truncated) == (False, True), kind
    path = exported(tmp_path, one, "csv")
    path.write_text(path.read_text().replace(path.read_text().splitlines()[3].split(",")[5], "9.5"))
    with pytest.raises(ConfigError, match=r"row 3 \(line 4\): action is \[9.5, .*outside the bounds of Box.*--clip"):
        read(path, one)
    assert read(path, one, clip_actions=True).episodes[0].action[2, 0] == 1.0


@pytest.mark.parametrize("kind", ["csv", "npz", "json"])
def test_files_read_in_blocks_of_any_size_become_the_same_directory_with_the_same_refusals(tmp_path, monkeypatch, kind):
    rng, number = np.random.default_rng(3), 40
    columns = {
        "obs": rng.normal(size=(number, 3)).astype("f4"),
        "actions": rng.integers(0, 3, number),
        "rewards": rng.integers(-2, 3, number).astype("f4"),
        "dones": np.arange(1, number + 1) % 7 == 0,
        "eps_id": np.arange(number) // 7 + 10**17,
    }
    path = tmp_path / f"walk.{kind}"

    def written():
        if kind == "npz":
            np.savez(path, **columns)
        elif kind == "json":
            parts = [{name: array[i : i + 9].tolist() for name, array in columns.items()} for i in range(0, number, 9)]
            path.write_text("".join(json.dumps({"type": "SampleBatch", **part}) + "\n" for part in parts))
        else:
            flat = {"obs_0": columns["obs"][:, 0], "obs_1": columns["obs"][:, 1], "obs_2": columns["obs"][:, 2]}
            flat |= {name: array for name, array in columns.items() if name != "obs"}
            rows = zip(*(map(str, array.tolist()) for array in flat.values()), strict=True)
            path.write_text("\n".join([",".join(flat), *map(",".join, rows)]))
        os.utime(path, (1, 1))

    def directory(name):
        import_replay(path, tmp_path / name, time_limit=7)
        return {one.name: one.read_bytes() for one in (tmp_path / name).iterdir()}

    def refused():
        with pytest.raises(ConfigError) as told:
            read(path)
        return str(told.value)

    written()
    whole, known = directory("whole"), columns["rewards"][31]
    columns["rewards"][31] = np.nan
    written()
    problem = refused()
    assert f"walk.{kind}: row 32" in problem and "reward is nan, which is not a finite number" in problem
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 100)
    monkeypatch.setattr(npz_file, "BLOCK_BYTES", 100)
    monkeypatch.setattr(csv_file, "LINES", 3)
    assert refused() == problem
    columns["rewards"][31] = known
    written()
    assert directory("parts") == whole
    order = np.argsort(np.arange(number) % 2, kind="stable")  # rows of an episode with others between them
    columns = {name: array[order] for name, array in columns.items()}
    written()
    assert read(path).lengths.sum() == number


def test_a_table_without_rows_is_refused(tmp_path):
    path = exported(tmp_path, recording(), "csv")
    path.write_text(path.read_text().splitlines()[0] + "\n")
    with pytest.raises(ConfigError, match="has no rows"):
        read(path)


def test_what_a_format_has_no_room_for_is_refused_with_what_has(tmp_path):
    for kind in ("csv", "rllib"):
        with pytest.raises(SpaceError, match="use .npz or Minari instead"):
            exported(tmp_path, recording(POINT, HYBRID), kind)
    with pytest.raises(SpaceError, match="use .npz or Minari instead"):
        exported(tmp_path, recording(PARTS, CHOICE), "rllib")


def test_formats_are_known_by_names(tmp_path):
    assert format_of("minari:D4RL/door-v2", None) == "minari"
    assert format_of("what.ever", "csv") == "csv"
    with pytest.raises(ConfigError, match=r"what.ever: unknown format; known are .demo, .npz"):
        format_of("what.ever", None)
    with pytest.raises(ConfigError, match="--format cvs: use one of .* did you mean 'csv'"):
        format_of("what.ever", "cvs")


def test_packages_that_are_not_installed_are_named(tmp_path, monkeypatch):
    import sys

    for package, source in (("pyarrow", "a.parquet"), ("minari", "minari:x-v0")):
        monkeypatch.setitem(sys.modules, package, None)
        monkeypatch.setitem(sys.modules, f"{package}.parquet", None)
        (tmp_path / "a.parquet").write_bytes(b"PAR1")
        source = tmp_path / source if "." in source else source
        with pytest.raises(ConfigError, match=rf"need {package}: pip install 'rookery-rl\[offline\]'"):
            read_recordings([source], Wanted())


@pytest.mark.parametrize("action", [CHOICE, THROTTLE, HYBRID], ids=["choice", "throttle", "hybrid"])
@pytest.mark.parametrize("obs", [POINT, PARTS], ids=["point", "parts"])
def test_minari_goes_there_and_back(tmp_path, monkeypatch, obs, action):
    pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "sets"))
    one = recording(obs, action)
    export_stored(stored(tmp_path, one), "minari:mine/pole-v0", "minari", advance=lambda count: None)
    assert_same(read("minari:mine/pole-v0"), one, ends=False)
    with pytest.raises(FileError, match="minari download mine/nothing-v0 fetches it"):
        read("minari:mine/nothing-v0")
    with pytest.raises(SpaceError, match="are wanted"):
        read("minari:mine/pole-v0", recording(spaces.Box(-1, 1, (5,)), action))


def test_a_file_that_is_imported_twice_becomes_the_same_bytes(tmp_path):
    demo = exported(tmp_path, recording(POINT, THROTTLE), "unity", "Point")
    for name in ("one", "two"):
        import_replay(demo, tmp_path / name)
    one, two = ({file.name: file.read_bytes() for file in (tmp_path / name).iterdir()} for name in ("one", "two"))
    assert one == two
