"""Writes the messages that mlagents_envs 1.1.0 reads and writes, with what it reads in them, for the tests.

    benchmarks/peers/.venv-mlagents/bin/python benchmarks/peers/mlagents_messages.py tests/rookery_mlagents/link/golden

Files ``NAME.bin`` are messages, made by its own protobuf classes; ``expected.json`` is what its own functions make of
those of players, and what its own calls were for those of trainers. Pictures with their channels last, which 1.1.0
cannot read, are expected as the images they were made of.
"""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from uuid import UUID

import numpy as np
from mlagents_envs.base_env import ActionTuple
from mlagents_envs.communicator_objects.unity_message_pb2 import UnityMessageProto
from mlagents_envs.communicator_objects.unity_rl_initialization_input_pb2 import UnityRLInitializationInputProto
from mlagents_envs.environment import UnityEnvironment
from mlagents_envs.rpc_utils import behavior_spec_from_proto, steps_from_proto
from mlagents_envs.side_channel.engine_configuration_channel import EngineConfig, EngineConfigurationChannel
from mlagents_envs.side_channel.environment_parameters_channel import EnvironmentParametersChannel
from mlagents_envs.side_channel.float_properties_channel import FloatPropertiesChannel
from mlagents_envs.side_channel.incoming_message import IncomingMessage
from mlagents_envs.side_channel.outgoing_message import OutgoingMessage
from mlagents_envs.side_channel.raw_bytes_channel import RawBytesChannel
from mlagents_envs.side_channel.side_channel_manager import SideChannelManager
from mlagents_envs.side_channel.stats_side_channel import StatsSideChannel
from PIL import Image

RNG = np.random.default_rng(0)
RAW = "0f3c7a52-55a1-4ab8-9d5c-6d9e0b1f2a33"


def plain(array: object) -> object:
    """Lists of what numpy has."""
    return np.asarray(array).tolist()


def png(planes: np.ndarray) -> bytes:
    """A PNG of ``[H, W, 3]``."""
    file = io.BytesIO()
    Image.fromarray(planes).save(file, "PNG")
    return file.getvalue()


# --- players ----------------------------------------------------------------------------------------------------------


def vector(info, values, name="", goal=False, properties=(1,)) -> None:
    """A sensor of numbers."""
    values = np.asarray(values, np.float32)
    obs = info.observations.add(shape=values.shape, observation_type=int(goal), name=name)
    obs.dimension_properties.extend(properties)
    obs.float_data.data.extend(values.ravel().tolist())


def picture(info, planes, name, *, first=True, properties=True, mapping=()) -> None:
    """Adds an image ``[H, W, C]`` of bytes as PNGs, three channels in each."""
    height, width, channels = planes.shape
    obs = info.observations.add(shape=(channels, height, width) if first else (height, width, channels), name=name)
    if properties:
        obs.dimension_properties.extend((1, 2, 2) if first else (2, 2, 1))
    obs.compression_type = 1
    padded = np.concatenate([planes] * 3, 2) if channels == 1 else planes
    if channels > 1:
        padded = np.concatenate([planes, np.zeros((height, width, -channels % 3), np.uint8)], 2)
    obs.compressed_data = b"".join(png(padded[:, :, at : at + 3]) for at in range(0, padded.shape[2], 3))
    obs.compressed_channel_mapping.extend(mapping)


def brain(message, name, numbers=0, branches=(), old=False):
    """Adds a behavior to a player's message; returns its list of agents."""
    behavior = message.unity_output.rl_initialization_output.brain_parameters.add(brain_name=name, is_training=True)
    if old or not (numbers and branches):
        behavior.vector_action_size_deprecated.extend(branches or (numbers,))
        behavior.vector_action_space_type_deprecated = 0 if branches else 1
    if not old:
        behavior.action_spec.num_continuous_actions, behavior.action_spec.num_discrete_actions = numbers, len(branches)
        behavior.action_spec.discrete_branch_sizes.extend(branches)
    return message.unity_output.rl_output.agentInfos[name].value


def message():
    """An empty message with the status of success."""
    made = UnityMessageProto()
    made.header.status = 200
    return made


def striker():
    """Groups, masks, a goal; agents that end, one of them cut off, and new ones in their place."""
    made = message()
    agents = brain(made, "Striker?team=1", branches=(3, 2))
    for number, (ended, cut) in enumerate(
        [(False, False), (True, False), (True, True), (False, False), (False, False)]
    ):
        one = agents.add(id=40 + number, reward=0.5 - number, group_id=1 + number % 2, group_reward=float(number) / 4)
        one.done, one.max_step_reached = ended, cut
        if number != 3:
            one.action_mask.extend([number == 0, False, number == 4, False, number != 0])
        vector(one, RNG.normal(size=8), "rays")
        vector(one, np.eye(2)[number % 2], "want", goal=True)
    made.unity_output.rl_output.side_channel = b"\1\2\3"
    return made, {}


def walker():
    """Numbers and choices at once; entities, a table, numbers in three dimensions."""
    made = message()
    agents = brain(made, "Walker", 2, (4,))
    for number in range(3):
        one = agents.add(id=number, reward=number)
        entities = np.zeros((4, 3))
        entities[: number + 1] = RNG.normal(size=(number + 1, 3))
        vector(one, entities, "BufferSensor", properties=(4, 1))
        vector(one, RNG.normal(size=(2, 3)), "table", properties=(1, 1))
        vector(one, RNG.uniform(size=(3, 5, 6)), "view", properties=(1, 2, 2))
        vector(one, [-0.0, 1e-30], "", properties=())
    return made, {}


def camera():
    """PNGs of package 3: colours, grey, six channels in two files, and three images stacked by a mapping."""
    made = message()
    agents = brain(made, "Camera", 1)
    six, shown = [0, 1, 2, 3, 4, 5], []
    for number in range(2):
        one = agents.add(id=7 - number)
        colours, grey, many = (RNG.integers(0, 255, (6, 7, c), np.uint8) for c in (3, 1, 6))
        stacked = RNG.integers(0, 255, (6, 7, 3), np.uint8)
        picture(one, colours, "a colours")
        picture(one, grey, "b grey")
        picture(one, many, "c many", mapping=six)
        picture(one, np.repeat(stacked, 3, axis=2), "d stacked", mapping=[0, 0, 0, 1, 1, 1, 2, 2, 2])
        obs = one.observations[3]
        obs.shape[0] = 3
        shown.append(stacked)
    return made, {}


def old_camera():
    """PNGs of package 2 and before, whose channels come last; of the one nothing is said, of the other it is."""
    made = message()
    agents = brain(made, "OldCamera?team=0", branches=(2,), old=True)
    pictures = RNG.integers(0, 255, (2, 6, 5, 3), np.uint8)
    one = agents.add(id=3, reward=1.0)
    picture(one, pictures[0], "", first=False, properties=False)
    picture(one, pictures[1], "", first=False)
    return made, {"obs": [plain(one[None] / 255.0) for one in pictures]}


def first_packages():
    """Numbers as players of API 1.0 say them: old action fields, no names and properties."""
    made = message()
    agents = brain(made, "Roller", 3, old=True)
    for number in range(2):
        vector(agents.add(id=number, reward=0.1), RNG.normal(size=4), properties=())
    return made, {}


def read(made, instead: dict) -> dict:
    """Returns what mlagents_envs reads from a message."""
    found = {}
    for parameters in made.unity_output.rl_initialization_output.brain_parameters:
        name = parameters.brain_name
        infos = made.unity_output.rl_output.agentInfos[name].value
        spec = behavior_spec_from_proto(parameters, infos[0])
        told = {
            "shapes": [list(one.shape) for one in spec.observation_specs],
            "names": [one.name for one in spec.observation_specs],
            "goals": [one.observation_type.value for one in spec.observation_specs],
            "continuous": spec.action_spec.continuous_size,
            "branches": list(spec.action_spec.discrete_branches),
        }
        if instead:
            told["asking"] = {"id": [info.id for info in infos], "reward": [info.reward for info in infos], **instead}
            found[name] = told
            continue
        asking, ended = steps_from_proto(infos, spec)
        for key, steps in (("asking", asking), ("ended", ended)):
            told[key] = {
                "id": plain(steps.agent_id),
                "reward": plain(steps.reward),
                "obs": [plain(one) for one in steps.obs],
                "group": plain(steps.group_id),
                "group_reward": plain(steps.group_reward),
            }
        told["asking"]["forbidden"] = None if asking.action_mask is None else [plain(one) for one in asking.action_mask]
        told["ended"]["interrupted"] = plain(ended.interrupted)
        found[name] = told
    return found


def greeting():
    """Everything a player says first."""
    made = message()
    start = made.unity_output.rl_initialization_output
    start.name, start.communication_version, start.log_path = "Game", "1.5.0", "/tmp/Player-0.log"
    start.package_version = "3.0.0"
    for name in ("baseRLCapabilities", "compressedChannelMapping", "trainingAnalytics", "multiAgentGroups"):
        setattr(start.capabilities, name, True)
    one = start.brain_parameters.add(brain_name="Brain", is_training=True, vector_action_space_type_deprecated=1)
    one.vector_action_size_deprecated.extend([3])
    one.vector_action_descriptions_deprecated.extend(["x", "y"])
    one.action_spec.num_continuous_actions, one.action_spec.num_discrete_actions = 3, 2
    one.action_spec.discrete_branch_sizes.extend([300, 2])
    one.action_spec.action_descriptions.extend(["far", "near"])
    return made


# --- trainers ---------------------------------------------------------------------------------------------------------


class Kept:
    """Keeps what a UnityEnvironment would send."""

    def __init__(self) -> None:
        self.sent = []

    def wrapped(self, told) -> bytes:
        """A message of a trainer."""
        made = message()
        made.unity_input.CopyFrom(told)
        return made.SerializeToString(deterministic=True)

    def initialize(self, inputs, poll=None):
        """Keeps it; a player that greets is the answer."""
        self.sent.append(self.wrapped(inputs))
        return greeting().unity_output

    exchange = initialize


def environment(made, channels=()) -> UnityEnvironment:
    """A UnityEnvironment that has seen a message, without a player."""
    env = object.__new__(UnityEnvironment)
    env._communicator, env._process, env._loaded = Kept(), None, False
    env._side_channel_manager = SideChannelManager(list(channels))
    env._env_specs, env._env_state, env._env_actions = {}, {}, {}
    env._update_behavior_specs(made.unity_output)
    env._update_state(made.unity_output.rl_output)
    return env


def steps(name: str, made, actions: ActionTuple) -> tuple[bytes, dict]:
    """The message with actions."""
    made.unity_output.rl_output.side_channel = b""
    env = environment(made)
    behavior = next(iter(env._env_specs))
    told = env._generate_step_input({behavior: actions})
    parts = {"continuous": actions.continuous, "discrete": actions.discrete}
    return Kept().wrapped(told), {"behavior": behavior, **{key: plain(value) for key, value in parts.items()}}


def channels() -> tuple[dict[str, bytes], dict]:
    """Messages of side channels, as mlagents_envs writes and reads them."""
    engine, parameters, properties = (
        EngineConfigurationChannel(),
        EnvironmentParametersChannel(),
        FloatPropertiesChannel(),
    )
    raw = RawBytesChannel(UUID(RAW))
    engine.set_configuration(EngineConfig(84, 85, 3, 20.0, -1, 60))
    parameters.set_float_parameter("gravity", -9.81)
    parameters.set_uniform_sampler_parameters("mass", 0.5, 2.5, 11)
    parameters.set_gaussian_sampler_parameters("wind", 1.0, 0.25, 12)
    parameters.set_multirangeuniform_sampler_parameters("size", [(0.5, 1.0), (2.0, 3.0)], 13)
    properties.set_property("speed", 1.5)
    raw.send_raw_data(b"\0\1bytes")
    told = SideChannelManager([engine, parameters, properties, raw]).generate_side_channel_messages()
    stats = StatsSideChannel()
    written = b""
    for name, value, how in (("Environment/Score", 2.5, 0), ("Latest", -1.0, 1), ("Sum", 3.0, 2), ("Bars", 0.5, 3)):
        one = OutgoingMessage()
        one.write_string(name)
        one.write_float32(value)
        one.write_int32(how)
        stats.on_message_received(IncomingMessage(one.buffer))
        stats.queue_message_to_send(one)
    written = SideChannelManager([stats]).generate_side_channel_messages()
    kept = {name: [[value, how.value] for value, how in values] for name, values in stats.get_and_reset_stats().items()}
    one = OutgoingMessage()
    one.write_bool(True)
    one.write_float32_list([1.5, -2.0])
    values = bytes(one.buffer)
    return {"trainer_channels": bytes(told), "statistics": bytes(written), "values": values}, {"statistics": kept}


def descriptions() -> dict:
    """The fields of all messages, by number: kind, and whether there are any number of them."""
    found: dict[str, dict] = {}
    waiting = [UnityMessageProto.DESCRIPTOR]
    while waiting:
        one = waiting.pop()
        if one.full_name in found:
            continue
        fields = found[one.full_name] = {}
        for field in one.fields:
            inside = field.message_type
            is_map = inside is not None and inside.GetOptions().map_entry
            fields[field.number] = [field.type, field.label == field.LABEL_REPEATED and not is_map, is_map]
            if is_map:
                inside = inside.fields_by_name["value"].message_type
            if inside is not None:
                fields[field.number].append(inside.name)
                waiting.append(inside)
    return {name.rpartition(".")[2]: fields for name, fields in found.items()}


def main(folder: Path) -> None:
    """Writes all files."""
    folder.mkdir(parents=True, exist_ok=True)
    files: dict[str, bytes] = {}
    expected: dict[str, object] = {}
    for make in (striker, walker, camera, old_camera, first_packages):
        made, instead = make()
        files[make.__name__] = made.SerializeToString(deterministic=True)
        expected[make.__name__] = read(made, instead)
    files["greeting"] = greeting().SerializeToString(deterministic=True)
    goodbye = message()
    goodbye.header.status, goodbye.header.message = 400, "bye"
    files["goodbye"] = goodbye.SerializeToString(deterministic=True)
    files["empty"] = message().SerializeToString(deterministic=True)

    choices = ActionTuple(discrete=np.array([[2, 1], [0, 0], [1, 1]], np.int32))
    both = ActionTuple(np.array([[0.5, -1], [0, 1], [-0.25, 0.125]], np.float32), np.array([[3], [0], [2]], np.int32))
    numbers = ActionTuple(np.array([[0.5, -1.0, 0.0], [1.0, 0.25, -0.0]], np.float32))
    for name, make, actions in (
        ("striker_actions", striker, choices),
        ("walker_actions", walker, both),
        ("first_packages_actions", first_packages, numbers),
    ):
        files[name], expected[name] = steps(name, make()[0], actions)
    env = environment(message())
    introduction = UnityRLInitializationInputProto(
        seed=-7, communication_version="1.5.0", package_version="1.1.0", num_areas=3
    )
    introduction.capabilities.CopyFrom(UnityEnvironment._get_capabilities_proto())
    env._send_academy_parameters(introduction)
    files["introduction"] = env._communicator.sent[0]
    files["reset"] = Kept().wrapped(env._generate_reset_input())
    expected["descriptions"] = descriptions()
    told, kept = channels()
    files |= told
    expected |= kept
    for name, content in files.items():
        (folder / f"{name}.bin").write_bytes(content)
    (folder / "expected.json").write_text(json.dumps(expected, indent=None) + "\n")
    print(f"{len(files)} messages, {sum(map(len, files.values())):,} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
