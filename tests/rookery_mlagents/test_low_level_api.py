"""ML-Agents' low-level API on pretended players: what scripts of its documentation do."""

import json
import subprocess
import sys
import time
import uuid
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("grpc")
from one_player import free_port, opened, start_player

from rookery.core.errors import EnvError
from rookery_mlagents import api as environment
from rookery_mlagents import mlagents_envs
from rookery_mlagents.api import (
    ActionSpec,
    ActionTuple,
    BehaviorSpec,
    DecisionSteps,
    DimensionProperty,
    EngineConfig,
    EngineConfigurationChannel,
    EnvironmentParametersChannel,
    FloatPropertiesChannel,
    IncomingMessage,
    ObservationSpec,
    ObservationType,
    OutgoingMessage,
    RawBytesChannel,
    SideChannel,
    StatsAggregationMethod,
    StatsSideChannel,
    TerminalSteps,
    UnityEnvironment,
    default_registry,
    importing,
    running,
)
from rookery_mlagents.api.exceptions import (
    UnityActionException,
    UnityCommunicationException,
    UnityCommunicatorStoppedException,
    UnityEnvironmentException,
    UnityException,
    UnitySideChannelException,
    UnityTimeOutException,
    UnityWorkerInUseException,
)
from rookery_mlagents.api.side_channels import SideChannelManager
from rookery_mlagents.link.grpc_server import Mailbox

BASIC = "rookery.tasks:Basic"
ECHO = uuid.UUID("1f3d7a52-6f0e-4c86-9d0b-6f1d3f9b2c11")
"""The channel on which a pretended player sends back what it receives."""


# --- what is known without a player -----------------------------------------------------------------------------------


def test_actions_keep_their_types_and_the_other_part_is_empty():
    both = ActionTuple()
    both.add_discrete(np.array([[1], [2]]))
    assert both.discrete.dtype == np.int32 and both.continuous.shape == (2, 0) and both.continuous.dtype == np.float32
    both.add_continuous(np.ones((2, 3)))
    assert both.continuous.dtype == np.float32 and both.discrete.shape == (2, 1)
    assert ActionTuple(continuous=np.zeros((4, 2))).discrete.shape == (4, 0)


def test_action_specs_say_what_is_decided():
    discrete, numbers, both = ActionSpec.create_discrete((3, 2)), ActionSpec.create_continuous(2), ActionSpec(1, (4,))
    assert discrete.is_discrete() and not discrete.is_continuous() and discrete.discrete_size == 2
    assert numbers.is_continuous() and not numbers.is_discrete() and both == ActionSpec.create_hybrid(1, (4,))
    assert not both.is_discrete() and not both.is_continuous()
    assert both.empty_action(3).continuous.shape == (3, 1) and not both.empty_action(3).discrete.any()
    drawn = ActionSpec(2, (3, 50)).random_action(200)
    assert (abs(drawn.continuous) <= 1).all() and set(drawn.discrete[:, 0]) == {0, 1, 2}
    assert drawn.discrete.max() > 10
    np.random.seed(5)
    first = both.random_action(4)
    np.random.seed(5)
    assert (both.random_action(4).continuous == first.continuous).all(), "drawn by NumPy's global generator"


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        (ActionTuple(discrete=np.zeros((1, 1))), r"discrete actions have shape \(1, 1\), expected \(2, 1\)"),
        (ActionTuple(np.zeros((2, 1)), np.zeros((2, 1))), r"continuous actions have shape \(2, 1\), expected \(2, 0\)"),
        (np.zeros((2, 1)), "actions are ndarray, expected an ActionTuple"),
    ],
)
def test_actions_of_another_form_are_refused(actions, message):
    with pytest.raises(UnityActionException, match=message):
        ActionSpec(0, (3,))._validate_action(actions, 2, "Walker")


def some_steps():
    obs = [np.arange(6, dtype=np.float32).reshape(3, 2), np.zeros((3, 4, 4, 1), np.float32)]
    told = np.array([0.5, 1.0, 1.5], np.float32), np.array([7, 3, 9], np.int32)
    return obs, *told


def test_decision_steps_are_a_mapping_from_agent_to_step():
    obs, reward, ids = some_steps()
    mask = [np.array([[True, False], [False, False], [False, True]])]
    steps = DecisionSteps(obs, reward, ids, mask, np.array([0, 2, 2]), np.zeros(3, np.float32))
    assert len(steps) == 3 and list(steps) == [7, 3, 9] and 3 in steps and 4 not in steps
    assert steps.agent_id_to_index == {7: 0, 3: 1, 9: 2}
    one = steps[9]
    assert one.obs[0].tolist() == [4.0, 5.0] and one.obs[1].shape == (4, 4, 1) and one.reward == 1.5
    assert one.agent_id == 9 and one.group_id == 2 and one.action_mask[0].tolist() == [False, True]
    assert steps == DecisionSteps(obs, reward, ids, mask, np.array([0, 2, 2]), np.zeros(3, np.float32))
    assert steps != DecisionSteps(obs, reward, ids, None, np.array([0, 2, 2]), np.zeros(3, np.float32))
    with pytest.raises(KeyError, match="agent 4 is not in these DecisionSteps; there are: 7, 3, 9"):
        steps[4]


def test_terminal_steps_are_a_mapping_from_agent_to_step():
    obs, reward, ids = some_steps()
    cut = np.array([True, False, False])
    steps = TerminalSteps(obs, reward, cut, ids, np.zeros(3, np.int32), np.array([0, 0, 4.0]))
    assert steps[7].interrupted and not steps[3].interrupted and steps[9].group_reward == 4.0
    assert [steps[agent].agent_id for agent in steps] == [7, 3, 9]


def test_empty_steps_have_the_shapes_of_a_behaviour():
    sensor = ObservationSpec(
        (5, 2), (DimensionProperty.VARIABLE_SIZE, DimensionProperty.NONE), ObservationType.DEFAULT, "s"
    )
    spec = BehaviorSpec([sensor], ActionSpec(0, (2,)))
    for steps in (DecisionSteps.empty(spec), TerminalSteps.empty(spec)):
        assert len(steps) == 0 and steps.obs[0].shape == (0, 5, 2) and steps.agent_id.dtype == np.int32
    assert DecisionSteps.empty(spec).action_mask is None


def test_messages_are_read_as_they_were_written_with_defaults_beyond_their_end():
    told = OutgoingMessage()
    told.write_bool(True)
    told.write_int32(-3)
    told.write_float32(0.25)
    told.write_float32_list([1.0, 2.0])
    told.write_string("hello")
    read = IncomingMessage(bytes(told.buffer))
    assert read.read_bool() is True and read.read_int32() == -3 and read.read_float32() == 0.25
    assert read.read_float32_list() == [1.0, 2.0] and read.read_string() == "hello"
    assert read.read_string("end") == "end" and read.read_float32_list() == [] and read.read_int32(7) == 7
    assert bytes(read.get_raw_bytes()) == bytes(told.buffer)
    with pytest.raises(UnitySideChannelException, match="has 2 bytes, and a value of 4 bytes"):
        IncomingMessage(b"ab").read_int32()


def test_channels_with_one_id_and_half_a_window_are_refused():
    with pytest.raises(UnityEnvironmentException, match="StatsSideChannel and StatsSideChannel have the same"):
        SideChannelManager([StatsSideChannel(), StatsSideChannel()])
    with pytest.raises(UnitySideChannelException, match="a width and no height"):
        EngineConfigurationChannel().set_configuration_parameters(width=3)
    with pytest.raises(UnityCommunicationException, match="only Python sends"):
        EnvironmentParametersChannel().on_message_received(IncomingMessage(b"x"))
    with pytest.raises(UnityEnvironmentException, match="cannot be read"):
        SideChannelManager([]).process_side_channel_message(b"garbage")


def test_the_registry_says_what_to_do_instead():
    with pytest.raises(UnityEnvironmentException, match=r"'3DBall'.*nothing is downloaded here.*rookery envs"):
        default_registry["3DBall"].make()
    assert len(default_registry) == 0 and "3DBall" not in default_registry


# --- the same names as ML-Agents --------------------------------------------------------------------------------------

THEIRS = json.loads((Path(__file__).parent / "mlagents_envs_api.json").read_text())
"""Public names and signatures of mlagents_envs 1.1.0, as benchmarks/peers/mlagents_api.py lists them."""

LEFT_OUT = {"DefaultTrainingAnalyticsSideChannel", "BaseRegistryEntry", "RemoteRegistryEntry"}
"""Names that inform the Editor about packages, and names that download."""


def parameters(function):
    import inspect

    return [
        [one.name, None if one.default is one.empty else repr(one.default)]
        for one in inspect.signature(function).parameters.values()
    ]


@pytest.mark.parametrize("name", sorted(THEIRS))
def test_names_and_signatures_are_those_of_mlagents_envs(name):
    module = importing.module(f"mlagents_envs.{name}")
    for key, told in THEIRS[name]["classes"].items():
        if key in LEFT_OUT or (not told and not hasattr(module, key)):
            continue  # what a module only uses need not be in it
        ours = getattr(module, key)
        if not told:
            continue
        if "members" in told:
            assert {one: member.value for one, member in ours.__members__.items()} == told["members"]
            continue
        assert list(getattr(ours, "_fields", [])) == told.get("fields", [])
        if "parameters" in told:
            wanted = [one for one in told["parameters"] if one[0] not in ("args", "kwargs")]
            assert [one[0] for one in parameters(ours)][: len(wanted)] == [one[0] for one in wanted], key
        if key == "UnityEnvironment":
            assert parameters(ours) == told["parameters"]
        for method, wanted in told.get("methods", {}).items():
            if wanted[:1] != [["args", None]]:  # hidden by a decorator there
                assert parameters(getattr(ours, method)) == wanted, f"{key}.{method}"
        assert all(hasattr(ours, one) for one in told.get("properties", ())), key
        assert {one: getattr(ours, one, None) for one in told.get("constants", {})} == told.get("constants", {}), key
    for key, wanted in THEIRS[name]["functions"].items():
        assert parameters(getattr(module, key)) == wanted


# --- importing --------------------------------------------------------------------------------------------------------


@pytest.fixture
def ours_installed():
    before = sys.meta_path[:]
    running.install(over=True)
    yield
    sys.meta_path[:] = before
    for name in [name for name in sys.modules if name.partition(".")[0] in importing.TOPS]:
        del sys.modules[name]


def test_imports_of_every_form_find_ours(ours_installed):
    import mlagents_envs as theirs
    import mlagents_envs.side_channel.stats_side_channel as stats
    from gym_unity.envs import UnityToGymWrapper
    from mlagents_envs.base_env import ActionTuple as Actions
    from mlagents_envs.environment import UnityEnvironment as Environment

    assert theirs.__version__ == "1.1.0" and Environment is UnityEnvironment and Actions is ActionTuple
    assert stats.StatsSideChannel is StatsSideChannel and UnityToGymWrapper is environment.UnityToGymWrapper
    assert mlagents_envs.environment.UnityEnvironment is UnityEnvironment


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("from mlagents_envs.environment import UnityEnviroment", "cannot import name"),
        ("import mlagents_envs.rpc_utils", "rpc_utils is not supported: internal"),
        ("import mlagents_envs.nothing", "has no 'nothing' in Rookery"),
        ("from mlagents_envs.base_env import StatsSideChannel", "cannot import name"),
    ],
)
def test_what_is_not_here_is_refused_with_words(ours_installed, line, message):
    with pytest.raises(ImportError, match=message):
        exec(line)


def test_a_missing_package_is_ours_and_an_installed_one_stays(tmp_path):
    (tmp_path / "mlagents_envs").mkdir()
    (tmp_path / "mlagents_envs" / "__init__.py").write_text("installed = True")
    script = "from rookery_mlagents import install; install(); import mlagents_envs as m; "
    script += "print(vars(m).get('installed'))"
    said = [
        subprocess.run(
            [sys.executable, "-c", f"import sys; {more}{script}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        for more in ("", f"sys.path.insert(0, {str(tmp_path)!r}); ")
    ]
    assert said == ["None", "True"]


# --- with a player ----------------------------------------------------------------------------------------------------


def test_the_loop_of_the_documentation_follows_one_agent_through_its_episodes(tmp_path):
    with opened(tmp_path, BASIC, "--ids", "new") as env:
        assert not env.behavior_specs
        env.reset()
        name = next(iter(env.behavior_specs))
        spec = env.behavior_specs[name]
        assert spec.observation_specs[0].shape == (20,) and spec.action_spec == ActionSpec(0, (3,))
        earned = []
        for _ in range(3):
            decisions, terminals = env.get_steps(name)
            followed, total = -1, 0.0
            while True:
                if followed == -1 and len(decisions):
                    followed = int(decisions.agent_id[0])
                actions = spec.action_spec.empty_action(len(decisions))
                actions.discrete[:] = 2  # to the right
                env.set_actions(name, actions)
                env.step()
                decisions, terminals = env.get_steps(name)
                if followed in decisions:
                    total += decisions[followed].reward
                if followed in terminals:
                    total += terminals[followed].reward
                    assert not terminals[followed].interrupted
                    break
            earned.append(round(float(total), 2))
        assert earned == [0.93, 0.93, 0.93]
    env.close()
    with pytest.raises(UnityEnvironmentException, match="is closed"):
        env.step()


def test_steps_without_actions_are_zeros_and_the_first_step_resets(tmp_path):
    with opened(tmp_path, BASIC) as env:
        env.step()
        (name,) = env.behavior_specs
        before = env.get_steps(name)[0].obs[0].argmax()
        env.step()
        env.step()
        still = env.get_steps(name)[0]
        assert still.obs[0].argmax() == before and still.reward[0] == pytest.approx(-0.01)
        env.set_action_for_agent(name, int(still.agent_id[0]), ActionTuple(discrete=np.array([[2]])))
        env.step()
        assert env.get_steps(name)[0].obs[0].argmax() == before + 1
        with pytest.raises(IndexError, match="agent 99 of Basic asks for no action; there ask: "):
            env.set_action_for_agent(name, 99, ActionTuple(discrete=np.array([[2]])))
        with pytest.raises(UnityActionException, match="there is no behaviour 'Bsic'; there are: Basic"):
            env.get_steps("Bsic")


def test_pictures_of_bytes_are_numbers_from_0_to_1_and_masks_say_what_is_forbidden(tmp_path):
    with opened(tmp_path, "rookery.tasks:GoalGrid", "--pictures", "png", "--layout", "chw", "--goal", "goal") as env:
        env.reset()
        (name,) = env.behavior_specs
        spec = env.behavior_specs[name]
        goals = [one.name for one in spec.observation_specs if one.observation_type is ObservationType.GOAL_SIGNAL]
        assert goals == ["goal"]
        decisions, _ = env.get_steps(name)
        pictures = [values for values in decisions.obs if values.ndim == 4]
        assert all(values.dtype == np.float32 and 0 <= values.min() and values.max() <= 1 for values in decisions.obs)
        assert all(one.shape[1:] == tuple(spec.observation_specs[at].shape) for at, one in enumerate(decisions.obs))
        assert pictures and pictures[0].max() > 0
        for _ in range(30):
            decisions, _ = env.get_steps(name)
            mask = decisions.action_mask[0]
            assert mask.shape == (len(decisions), spec.action_spec.discrete_branches[0]) and not mask.all(axis=1).any()
            env.set_actions(name, ActionTuple(discrete=mask.argmin(axis=1)[:, None]))
            env.step()


def test_numbers_and_choices_together_and_several_agents(tmp_path):
    with opened(tmp_path, "rookery.tasks:FoodCollector") as env:
        env.reset()
        (name,) = env.behavior_specs
        spec = env.behavior_specs[name]
        assert spec.action_spec.continuous_size and spec.action_spec.discrete_branches
        for _ in range(5):
            decisions, _ = env.get_steps(name)
            assert len(decisions) == 5
            env.set_actions(name, spec.action_spec.random_action(5))
            env.step()


class Words(SideChannel):
    """A channel of texts, as the documentation shows one."""

    def __init__(self):
        super().__init__(ECHO)
        self.heard = []

    def on_message_received(self, msg):
        self.heard.append(msg.read_string())

    def say(self, text):
        msg = OutgoingMessage()
        msg.write_string(text)
        self.queue_message_to_send(msg)


def test_a_channel_of_ones_own_speaks_with_the_game(tmp_path):
    words = Words()
    with opened(tmp_path, BASIC, side_channels=[words]) as env:
        words.say("before the reset")
        env.reset()
        words.say("good morning")
        env.step()
        env.step()
    assert "good morning" in words.heard


def test_bytes_come_back_whole(tmp_path):
    raw = RawBytesChannel(ECHO)
    with opened(tmp_path, BASIC, side_channels=[raw]) as env:
        env.reset()
        raw.send_raw_data(b"\x00\xff123")
        env.step()
        env.step()
        assert raw.get_and_clear_received_messages() == [bytearray(b"\x00\xff123")]
        assert raw.get_and_clear_received_messages() == []


def test_settings_and_parameters_reach_the_game_and_statistics_come(tmp_path):
    engine, told, stats, numbers = (
        EngineConfigurationChannel(), EnvironmentParametersChannel(), StatsSideChannel(), FloatPropertiesChannel(),
    )  # fmt: skip
    channels = [engine, told, stats, numbers]
    with opened(tmp_path, "rookery.tasks:BallPlate", "--stats", side_channels=channels) as env:
        engine.set_configuration_parameters(time_scale=12.0)
        engine.set_configuration(EngineConfig.default_config())
        told.set_float_parameter("mass", 2.0)
        told.set_uniform_sampler_parameters("scale", 1.0, 2.0, 5)
        told.set_gaussian_sampler_parameters("gravity", 9.0, 0.1, 5)
        numbers.set_property("wind", 0.5)
        env.reset()
        env.step()
        found = stats.get_and_reset_stats()
        assert found and all(isinstance(how, StatsAggregationMethod) for _, how in next(iter(found.values())))
        assert not stats.get_and_reset_stats()
    log = (tmp_path / "player.log").read_text()
    assert "mass" in log and "time_scale" in log.replace("timeScale", "time_scale"), log
    assert numbers.get_property("wind") == 0.5 and numbers.list_properties() == ["wind"]


def test_ports_that_are_taken_and_players_that_are_none_are_refused(tmp_path):
    port = free_port()
    start_player(port, tmp_path / "log", BASIC)
    env = UnityEnvironment(base_port=port, timeout_wait=10)
    with pytest.raises(UnityWorkerInUseException, match="the port of worker 0 is taken"):
        UnityEnvironment(base_port=port)
    env.close()
    with pytest.raises(UnityEnvironmentException, match="there is no such file"):
        UnityEnvironment(str(tmp_path / "Gaem"))
    with pytest.raises(UnityEnvironmentException, match="worker_id = 2 and no file_name"):
        UnityEnvironment(worker_id=2)
    with pytest.raises(UnityTimeOutException, match="has not connected"):
        UnityEnvironment(base_port=free_port(), timeout_wait=0)
    assert issubclass(UnityException, EnvError)


def test_a_player_that_says_goodbye_is_told_of(tmp_path):
    with opened(tmp_path, BASIC, "--close-at", "4") as env:
        env.reset()
        with pytest.raises(UnityCommunicatorStoppedException, match="goodbye"):
            [env.step() for _ in range(10)]


def test_a_player_that_falls_silent_is_waited_for_in_vain(tmp_path):
    port = free_port()
    start_player(port, tmp_path / "log", BASIC, "--hang-at", "2")
    env = UnityEnvironment(base_port=port, timeout_wait=1)
    env.reset()
    with pytest.raises(UnityTimeOutException, match="has not answered"):
        [env.step() for _ in range(4)]
    env.close()


# --- by path, and as scripts ------------------------------------------------------------------------------------------


@pytest.fixture
def game(tmp_path):
    """A program that is a player."""
    path = tmp_path / "Game.x86_64"
    path.write_text(f'#!/bin/sh\nexec {sys.executable} -m rookery_mlagents.testing {BASIC} "$@"\n')
    path.chmod(0o755)
    return path


SCRIPT = '''
"""An agent that acts at random, as a script of somebody."""
import argparse
import numpy as np
from mlagents_envs.environment import UnityEnvironment
from mlagents_envs.base_env import ActionTuple
from mlagents_envs.exception import UnityEnvironmentException
from mlagents_envs.side_channel.engine_configuration_channel import EngineConfigurationChannel

parser = argparse.ArgumentParser()
parser.add_argument("--env")
parser.add_argument("--port", type=int)
parser.add_argument("--crash", action="store_true")
args = parser.parse_args()
channel = EngineConfigurationChannel()
env = UnityEnvironment(
    file_name=args.env, base_port=args.port, side_channels=[channel], no_graphics=True, timeout_wait=20,
    additional_args=["--crash-at", "5"] if args.crash else [],
)
channel.set_configuration_parameters(time_scale=20.0)
env.reset()
name = list(env.behavior_specs)[0]
spec = env.behavior_specs[name]
ended = 0
while ended < 2:
    decisions, terminals = env.get_steps(name)
    ended += len(terminals)
    env.set_actions(name, spec.action_spec.random_action(len(decisions)))
    env.step()
env.close()
print("episodes", ended)
'''


def test_a_script_runs_unedited_with_a_player_by_its_path(tmp_path, game, ours_installed, capfd):
    script = tmp_path / "random_agent.py"
    script.write_text(SCRIPT)
    assert running.main(["run", str(script), "--", "--env", str(game), "--port", str(free_port())]) == 0
    assert "episodes 2" in capfd.readouterr().out


def test_a_player_that_crashes_is_told_of_with_the_end_of_its_log(tmp_path, game, ours_installed, capfd):
    script = tmp_path / "random_agent.py"
    script.write_text(SCRIPT)
    assert running.main(["run", str(script), "--env", str(game), "--port", str(free_port()), "--crash"]) == 1
    said = capfd.readouterr().err
    assert "env.step()" in said and "the player" in said and "the end of" in said and "launch 1" in said


def test_nothing_is_lost_that_comes_while_nobody_looks(tmp_path, monkeypatch):
    take = Mailbox.take

    def take_late(mailbox, seconds):
        until = time.monotonic() + 30
        while mailbox._messages.qsize() < 2 and not late and time.monotonic() < until:  # greeting, ready
            time.sleep(0.001)
        late.append(mailbox._messages.qsize())
        return take(mailbox, seconds)

    late = []
    monkeypatch.setattr(Mailbox, "take", take_late)
    with opened(tmp_path, BASIC) as env:
        env.reset()
        assert len(env.get_steps(next(iter(env.behavior_specs)))[0]) == 1
    assert late[0] == 2
