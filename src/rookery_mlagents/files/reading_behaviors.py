"""Sections of behaviours, merged with the common settings as in ML-Agents: `read_behavior`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from rookery.face import ALGORITHMS, PluginTable, nearest
from rookery_mlagents.files.reading import NONE, NONE_TEXT, Reader, keys_of
from rookery_mlagents.files.sections import (
    A2COptions,
    BehaviorOptions,
    CloningOptions,
    CuriosityOptions,
    DQNOptions,
    GAILOptions,
    HyperOptions,
    MemoryOptions,
    NetworkOptions,
    OwnOptions,
    Plain,
    POCAOptions,
    PPOOptions,
    RewardOptions,
    RNDOptions,
    SACOptions,
    SelfPlayOptions,
)
from rookery_mlagents.files.yaml_file import Node, merged

TRAINERS: dict[str, type[PPOOptions | SACOptions | POCAOptions | A2COptions | DQNOptions]] = {
    "ppo": PPOOptions,
    "sac": SACOptions,
    "poca": POCAOptions,
    "a2c": A2COptions,
    "dqn": DQNOptions,
}
"""Hyperparameters by the trainer's type: those of ML-Agents, and of Unity's ``ml-agents-trainer-plugin``."""

TRAINER_PLUGINS = PluginTable("mlagents.trainer_type", {})
"""Trainers that installed packages add to ML-Agents. None is imported: they are built on its own classes."""

SIGNALS: dict[str, type[RewardOptions]] = {
    "extrinsic": RewardOptions,
    "curiosity": CuriosityOptions,
    "rnd": RNDOptions,
    "gail": GAILOptions,
}
"""Reward signals by name."""

ELSEWHERE_IN: dict[str, str] = {
    **dict.fromkeys(keys_of(MemoryOptions), "network_settings.memory"),
    **dict.fromkeys(keys_of(CloningOptions), "behavioral_cloning"),
    **dict.fromkeys(keys_of(SelfPlayOptions), "self_play"),
    **dict.fromkeys(keys_of(GAILOptions), "reward_signals"),
    **dict.fromkeys(keys_of(NetworkOptions), "network_settings"),
    **dict.fromkeys((key for trainer in TRAINERS.values() for key in keys_of(trainer)), "hyperparameters"),
    **dict.fromkeys(keys_of(BehaviorOptions), "the section of a behaviour"),
}
"""The right section of each key that may be in a wrong one."""

DEPRECATED = {
    "framework": "networks are torch's",
    "output_path": "models lie in the folder of the run (--results-dir, --run-id), since 0.17",
}
"""Ignored keys of a behaviour, with the reason: one selected TensorFlow or torch, one was part of the first files of
this form.
"""

ENCODING_SIZE = "encoding_size"
"""Former key of a reward signal, replaced by ``network_settings``."""

NO_MEMORY = "the networks of reward signals remember nothing: memory is passed over"


def read_behavior(reader: Reader, node: Node, path: str, common: Node | None) -> BehaviorOptions:
    """Reads the section of a behaviour.

    Args:
        reader: Collects mistakes and places.
        node: The section.
        path: ``behaviors.NAME``, or ``default_settings``.
        common: The section ``default_settings``; None = there is none.
    """
    own = reader.mapping(node, path)
    if common is not None:
        node = _over_common(node, common)
    inside = {key: value for key, value in (node.section or {}).items() if key not in DEPRECATED}
    for key, why in DEPRECATED.items():
        if key in own:
            reader.notes.append(f"{own[key].place}: {path}.{key} does nothing: {why}")
    trainer = _trainer(reader, inside, path)
    signals = _signals(reader, inside.get("reward_signals"), f"{path}.reward_signals")
    read = ("trainer_type", "hyperparameters", "reward_signals", "self_play")
    options = reader.section(BehaviorOptions, Node(inside, node.place), path, skip=read)
    hyper = _hyperparameters(reader, inside, trainer, path)
    self_play = inside.get("self_play")
    if self_play is not None and self_play.value == NONE_TEXT:
        reader.refuse(self_play, f"{path}.self_play", NONE)
    elif self_play is not None and self_play.value is not None:
        found = reader.section(SelfPlayOptions, self_play, f"{path}.self_play")
        if "team_change" not in (self_play.section or {}):
            found = replace(found, team_change=5 * found.save_steps)
        options = replace(options, self_play=found)
    cloning = inside.get("behavioral_cloning")
    if cloning is not None and options.behavioral_cloning is not None and _lacks_demo(cloning):
        reader.refuse(cloning, f"{path}.behavioral_cloning", "demo_path is missing: say which demonstrations")
    memory = options.network_settings.memory
    if memory is not None:
        size = (inside["network_settings"].section or {})["memory"]
        if memory.memory_size % 2:
            reader.refuse(size, f"{path}.network_settings.memory", "memory_size must be even: half of it is the cell's")
        batch = getattr(hyper, "batch_size", None)
        if batch is not None and memory.sequence_length > batch:
            reader.refuse(
                size,
                f"{path}.network_settings.memory",
                f"sequence_length {memory.sequence_length} is longer than batch_size {batch}: raise batch_size, or "
                "shorten the sequences",
            )
    return replace(options, trainer_type=trainer, hyperparameters=hyper, reward_signals=signals)


def demonstrations_of(options: BehaviorOptions) -> Iterator[tuple[str, str]]:
    """Yields every ``demo_path`` of a behaviour with its key."""
    if options.behavioral_cloning is not None:
        yield "behavioral_cloning.demo_path", options.behavioral_cloning.demo_path
    gail = options.reward_signals.get("gail")
    if isinstance(gail, GAILOptions):
        yield "reward_signals.gail.demo_path", gail.demo_path


def _lacks_demo(node: Node) -> bool:
    """Returns whether a section has no demonstrations; False for a value that is not a section, which has another
    problem.
    """
    if node.section is None:
        return False
    demo = node.section.get("demo_path")
    return demo is None or demo.value in (None, "")


def _over_common(node: Node, common: Node) -> Node:
    """Merges a behaviour's section over ``default_settings``, section by section and including reward signals; the
    common ones have ``extrinsic`` by default. Hyperparameters of another trainer are left out.
    """
    base, own = dict(common.section or {}), node.section or {}
    if "reward_signals" in own and "reward_signals" not in base:
        base["reward_signals"] = Node({"extrinsic": Node({}, "")}, "")
    trainer_type = base["trainer_type"].value if "trainer_type" in base else "ppo"
    if "trainer_type" in own and own["trainer_type"].value != trainer_type:
        base.pop("hyperparameters", None)
    base.setdefault("trainer_type", Node("ppo", ""))
    return merged(Node(base, common.place), Node(own, node.place))


def _trainer(reader: Reader, inside: Mapping[str, Node], path: str) -> str:
    """Returns the type of the trainer, ``ppo`` by default."""
    node = inside.get("trainer_type")
    if node is None:
        if "hyperparameters" in inside:
            reader.refuse(
                inside["hyperparameters"],
                f"{path}.hyperparameters",
                "hyperparameters are given and no trainer_type, so their trainer is unknown: add trainer_type: ppo",
            )
        return "ppo"
    text = str(node.written())
    reader.note_place(f"{path}.trainer_type", node)
    if text in TRAINERS or (isinstance(node.value, str) and ":" in text):
        return text
    if text in ALGORITHMS:
        if not ALGORITHMS.load(text).capabilities.offline:
            return text
        why = "learns from stored data, and a run of mlagents-learn plays: use rookery train --algo"
        reader.refuse(node, f"{path}.trainer_type", f"{text} {why} {text}")
        return "ppo"
    if text in TRAINER_PLUGINS:
        reader.refuse(
            node,
            f"{path}.trainer_type",
            f"is a trainer of the package {TRAINER_PLUGINS.package_of(text)}, built on classes of ML-Agents "
            f"({TRAINER_PLUGINS[text]}), which do not run here. Use {', '.join(playing_trainers())}, or write the "
            "algorithm as one class of settings and one of learning (rookery.extend) and give trainer_type: "
            "my.module:MyConfig (docs/how-to/own-algorithm.md)",
        )
        return "ppo"
    removed = {
        "offline_bc": "; it was removed in 0.13: use behavioral_cloning, or rookery train --algorithm bc",
        "online_bc": "; it was removed in 0.13: use behavioral_cloning",
        "coma": "; it is called poca today",
    }
    hint = removed.get(text, nearest(text.lower(), playing_trainers()))
    reader.refuse(
        node,
        f"{path}.trainer_type",
        f"there is no such trainer{hint}; there are {', '.join(playing_trainers())}, and settings of your own "
        "algorithm as my.module:MyConfig",
    )
    return "ppo"


def playing_trainers() -> list[str]:
    """Returns the names of Rookery's algorithms that learn from play, ML-Agents' own first."""
    others = [name for name in ALGORITHMS.own if name not in TRAINERS]
    return [*TRAINERS, *(name for name in others if not ALGORITHMS.load(name).capabilities.offline)]


def _hyperparameters(reader: Reader, inside: Mapping[str, Node], trainer: str, path: str) -> HyperOptions:
    """Reads the hyperparameters of a trainer; schedules default to that of the learning rate."""
    here, node = f"{path}.hyperparameters", inside.get("hyperparameters", Node({}, ""))
    if trainer not in TRAINERS:
        values: dict[str, Plain] = {}
        for key, one in reader.mapping(node, here).items():
            reader.note_place(f"{here}.{key}", one)
            values[key] = one.written()  # type: ignore[assignment]
        return OwnOptions(values)
    given = reader.mapping(node, here)
    if "trainer_type" not in inside or inside["trainer_type"].value != trainer:
        return TRAINERS[trainer]()  # which has been refused, if there are any
    if trainer == "poca" and "shared_critic" in given:
        reader.refuse(given["shared_critic"], f"{here}.shared_critic", "poca has a critic of the group: leave it out")
        given = {key: one for key, one in given.items() if key != "shared_critic"}
    for other, options in TRAINERS.items():
        strange = [key for key in given if key in keys_of(options) and key not in keys_of(TRAINERS[trainer])]
        for key in strange:
            reader.refuse(
                given[key], f"{here}.{key}", f"is a key of {other}, and trainer_type is {trainer}: leave it out"
            )
        given = {key: one for key, one in given.items() if key not in strange}
    found = reader.section(TRAINERS[trainer], Node(given, node.place), here)
    if isinstance(found, A2COptions):
        return found
    if isinstance(found, SACOptions | DQNOptions):
        if "reward_signal_steps_per_update" not in given:
            found = replace(found, reward_signal_steps_per_update=found.steps_per_update)
        return found
    same = found.learning_rate_schedule
    if "beta_schedule" not in given:
        found = replace(found, beta_schedule=same)
    return found if "epsilon_schedule" in given else replace(found, epsilon_schedule=same)


def _signals(reader: Reader, node: Node | None, path: str) -> dict[str, RewardOptions]:
    """Reads reward signals; only the environment's by default."""
    if node is None or node.value is None:
        return {"extrinsic": RewardOptions()}
    found: dict[str, RewardOptions] = {}
    for name, one in reader.mapping(node, path).items():
        here = f"{path}.{name}"
        if name not in SIGNALS:
            reader.problems.append(
                f"{one.place}: {here}: there is no such reward signal{nearest(name, list(SIGNALS))}; there are "
                f"{', '.join(SIGNALS)}"
            )
            continue
        inside = dict(reader.mapping(one, here))
        size = inside.pop(ENCODING_SIZE, None)
        if size is not None and size.value is not None and name != "extrinsic":
            reader.notes.append(f"{size.place}: {here}.{ENCODING_SIZE} is network_settings.hidden_units today")
            inside.setdefault("network_settings", Node({"hidden_units": size}, size.place))
        elif size is not None and name == "extrinsic":
            inside[ENCODING_SIZE] = size  # to be refused
        options = reader.section(SIGNALS[name], Node(inside, one.place), here)
        if options.network_settings.memory is not None:
            reader.notes.append(f"{one.place}: {here}.network_settings: {NO_MEMORY}")
            options = replace(options, network_settings=replace(options.network_settings, memory=None))
        if isinstance(options, GAILOptions) and _lacks_demo(one):
            reader.refuse(one, here, "demo_path is missing: say which demonstrations")
        found[name] = options
    if not found:
        reader.notes.append(f"{node.place}: {path}: names no signal, so nothing is learned from rewards: add extrinsic")
    return found
