"""`new_behavior`: converts a section of an old trainer configuration to a behaviour of the present format.

`old_keys` contains the present place of each key; values computed from several keys have a method here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from rookery_mlagents.old.old_files import Section
from rookery_mlagents.old.old_keys import (
    CLONING,
    CLONING_KEYS,
    IMITATION,
    KEYS,
    SELF_PLAY,
    SELF_PLAY_RENAMED,
    SIGNAL_UPDATES,
    SIGNALS,
    SIGNALS_OF_OLD,
    UNREAD,
)
from rookery_mlagents.old.old_release import Facts

SIGNAL_STEPS = "reward_signal_steps_per_update"
"""Key of SAC whose default is ``steps_per_update``."""

CLONE = "rookery train --algo bc --replay DATA"
"""Settings for cloning a policy from demonstrations only."""

Values = dict[str, object]
"""Section of a present-format file."""


def new_behavior(facts: Facts, name: str, section: Section) -> Values:
    """Converts a section; returns an empty one if its trainer is missing or unknown."""
    if "trainer" not in section:
        facts.file.wrong(name, ": trainer is missing, here and in default: write trainer: ppo, or sac")
        return {}
    given = section["trainer"]
    named = "online_bc" if given.value == IMITATION else given.value
    trainer = facts.file.read(given.path, named, KEYS["trainer"].kind)
    return _Behavior(facts, name, section, trainer).converted() if isinstance(trainer, str) else {}


@dataclass
class _Behavior:
    """Section during conversion.

    Attributes:
        facts: Known facts about its file.
        name: Its name.
        section: Its keys.
        trainer: Its trainer.
        read: Values of its keys that are no sections.
        new: Its keys of today.
    """

    facts: Facts
    name: str
    section: Section
    trainer: str
    read: Values = field(default_factory=dict)
    new: Values = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.file, self.version = self.facts.file, self.facts.version
        self.changed = partial(self.facts.changes.add, who=self.name)

    def converted(self) -> Values:
        """Returns the keys in the present format."""
        self.new["trainer_type"] = "ppo" if self.trainer in CLONING else self.trainer
        self._keys()
        self._memory()
        if self.trainer in CLONING:
            self._cloning_alone()
        else:
            self._signals()
            self._signals_of_old()
            self._cloning_beside()
            self._self_play()
        if self.trainer == "sac":
            self._updates()
        network = self.new.get("network_settings")
        if "behavioral_cloning" in self.new and isinstance(network, dict) and "memory" in network:
            self.changed(
                "behavioral_cloning stands beside a memory, which rookery mlagents learn refuses: take "
                "network_settings.memory out of the new file, or imitate by gail alone"
            )
        return self.new

    def _put(self, path: str, value: object) -> None:
        *above, last = path.split(".")
        tree = self.new
        for key in above:
            inner = tree.setdefault(key, {})
            assert isinstance(inner, dict)
            tree = inner
        tree[last] = value

    def _keys(self) -> None:
        """Converts the keys that are not sections and still exist."""
        unread: list[str] = []
        for key, given in self.section.items():
            row = KEYS.get(key)
            if key in SIGNALS_OF_OLD and "reward_signals" not in self.section:
                self.read[key] = self.file.read(given.path, given.value, SIGNALS_OF_OLD[key])
            elif key in UNREAD:
                self.changed(f"{key} is left out: {UNREAD[key]}")
            elif row is None:
                self.file.unknown(given.path.rpartition(".")[0], key, KEYS)
            elif self.trainer not in row.trainers:
                unread.append(key)
            elif self.version not in row.versions:
                self.changed(f"{key} is left out: {self.version} did not read it")
            elif row.kind != "section" and key != "trainer":
                self.read[key] = self.file.read(given.path, given.value, row.kind)
        if unread:
            self.changed(f"left out, because {self.trainer} did not read them: {', '.join(unread)}")
        needed = [key for key, row in KEYS.items() if row.needed and self.trainer in row.trainers]
        missing = [key for key in needed if key not in self.section]
        if missing and self.trainer not in CLONING and not SIGNALS_OF_OLD.keys() & self.read.keys():
            self.changed(
                f"not given, which these releases refused; today's defaults stand for them: {', '.join(missing)}"
            )
        for key, value in self.read.items():
            if key in KEYS and KEYS[key].path and value is not None:
                self._put(KEYS[key].path, self._decisions(value) if KEYS[key].steps else value)

    def _decisions(self, steps: object) -> object:
        """Converts a number of steps to present steps, which count decisions of agents."""
        if self.version != "0.13" or not isinstance(steps, int) or steps == 0:
            return steps
        agents = self.facts.agents_of(self.name)
        if agents is None:
            self.facts.changes.add(
                "max_steps, summary_freq and other counts of steps keep their numbers, which counted steps of an "
                "environment in 0.13 and count steps of agents today: training ends sooner, by the number of agents; "
                "--agents N multiplies them"
            )
            return steps
        self.changed(f"counts of steps are {agents} times the old ones, which counted steps of an environment")
        return steps * agents

    def _memory(self) -> None:
        if self.read.get("use_recurrent") is not True:
            return
        memory = {key: self.read[key] for key in ("sequence_length", "memory_size") if self.read.get(key) is not None}
        size = memory.get("memory_size")
        if isinstance(size, int) and self.version in ("0.13", "0.14") and self.trainer not in CLONING:
            parts = 4 if self.trainer == "sac" else 2
            memory["memory_size"] = new_size = max(2, 2 * round(size / parts / 2))
            text = (
                f"memory_size {size} becomes {new_size}: before 0.15 it was divided among {parts} networks, today it "
                "is the actor's"
            )
            if self.trainer == "ppo":
                text += f"; only with discrete actions all of it was the actor's: write {size} there"
            self.changed(text)
        self._put("network_settings.memory", memory)

    def _updates(self) -> None:
        """Sets the number of agent steps between two updates of SAC."""
        signals = self.section.get("reward_signals")
        extra: Values = {}
        if signals is not None and isinstance(signals.value, Mapping):
            given = {key: signals.value[key] for key in SIGNAL_UPDATES if key in signals.value}
            extra = self.file.keys(signals.path, given, dict.fromkeys(given, "number"))
        if self.version == "0.16":
            own = extra.get(SIGNAL_STEPS, self.read.get("steps_per_update"))
            if own is not None:
                self._put(f"hyperparameters.{SIGNAL_STEPS}", own)
            return
        agents, interval = self.facts.agents_of(self.name), self.read.get("train_interval", 1)
        number = self.read.get("num_update")
        own = extra.get("reward_signal_num_update", number)
        for key, updates in (("steps_per_update", number), (SIGNAL_STEPS, own)):
            if isinstance(updates, int | float) and isinstance(interval, int):
                if updates <= 0:
                    self.file.wrong(f"{self.name}.num_update", f": {updates} updates are none: must be 1 or more")
                    continue
                self._put(f"hyperparameters.{key}", float(interval * (agents or 1) / updates))
                if key != SIGNAL_STEPS or own != number:
                    text = f"{key} = train_interval ({interval}) x agents ({agents or 1}) / updates ({updates})"
                    missing = "" if agents else "; all agents were one step before: --agents N says how many"
                    self.changed(text + missing)

    def _signals(self) -> None:
        given = self.section.get("reward_signals")
        if given is None:
            return
        found: Values = {}
        for signal, value in self.file.section(given.path, given.value).items():
            if signal in SIGNAL_UPDATES:
                if self.trainer != "sac" or self.version not in SIGNAL_UPDATES[signal]:
                    self.changed(f"{signal} is left out: {self.trainer} of {self.version} did not read it")
            elif signal in SIGNALS:
                found[signal] = self._signal(signal, f"{given.path}.{signal}", value)
            else:
                self.file.unknown(given.path, signal, [*SIGNALS, *SIGNAL_UPDATES])
        self.new["reward_signals"] = found

    def _signal(self, signal: str, path: str, value: object) -> Values:
        read = self.file.keys(path, self.file.section(path, value), SIGNALS[signal])
        if signal == "gail" and "demo_path" not in read:
            self.file.wrong(path, ": demo_path is missing: gail learns from a demonstration")
        units = read.pop("encoding_size", 64 if signal == "gail" else None)  # 64: gail's default then
        if units is not None:
            read["network_settings"] = {"hidden_units": units}
            self.changed(f"{signal}: encoding_size is now network_settings.hidden_units of the signal")
        return {key: value for key, value in read.items() if value is not None}

    def _signals_of_old(self) -> None:
        """Converts the rewards of files before 0.9, whose keys were beside all others."""
        if not SIGNALS_OF_OLD.keys() & self.read.keys():
            return
        gamma = self.read.get("gamma", 0.99)
        signals: Values = {"extrinsic": {"strength": 1.0, "gamma": gamma}}
        if self.read.get("use_curiosity") is True:
            signals["curiosity"] = {
                "strength": self.read.get("curiosity_strength", 0.01),
                "gamma": gamma,
                "network_settings": {"hidden_units": self.read.get("curiosity_enc_size", 128)},
            }
        self.new["reward_signals"] = signals
        self.changed("gamma and curiosity stood outside of reward_signals, as before 0.9; they are in it now")

    def _cloning_beside(self) -> None:
        """Converts cloning in addition to rewards."""
        key = next((key for key in ("behavioral_cloning", "pretraining") if key in self.section), None)
        if key is None:
            return
        if key == "pretraining":
            self.changed("pretraining is called behavioral_cloning, as from 0.13 on")
        given = self.section[key]
        found = self.file.keys(given.path, self.file.section(given.path, given.value), CLONING_KEYS)
        if "steps" in found:
            found["steps"] = self._decisions(found["steps"])
        if "demo_path" not in found:
            self.file.wrong(given.path, ": demo_path is missing: a file of demonstrations")
        batch = found.get("batch_size", self.read.get("batch_size"))
        if self.trainer == "sac" and self.version in ("0.13", "0.14") and batch is not None:
            found.setdefault("samples_per_update", batch)
            found.setdefault("num_epoch", 1)
        self.new["behavioral_cloning"] = found

    def _cloning_alone(self) -> None:
        """Converts a trainer that learned only from a demonstration or a player."""
        read = self.read
        demo = read.get("demo_path") if self.trainer == "offline_bc" else self.facts.demo
        if demo is None:
            missing = "demo_path is missing: a file of demonstrations"
            if self.trainer == "online_bc":
                player = f" {read['brain_to_imitate']!r}" if "brain_to_imitate" in read else ""
                missing = (
                    f"online_bc imitated the player{player}, which no trainer does today: record a demonstration of it "
                    "(DemonstrationRecorder in Unity, or rookery replay record) and give --demo FILE"
                )
            self.file.problems.append(f"{self.file.place(self.section['trainer'].path)}: {self.name}: {missing}")
            return
        cloning: Values = {"demo_path": demo, "strength": 1.0, "steps": 0}
        batch, batches = read.get("batch_size"), read.get("batches_per_epoch")
        if isinstance(batch, int):
            cloning["batch_size"] = batch
            if isinstance(batches, int):
                cloning["samples_per_update"] = batch * batches
        self.new["behavioral_cloning"] = cloning
        if isinstance(hyper := self.new.get("hyperparameters"), dict):
            hyper.pop("batch_size", None)
        self.changed(
            f"{self.trainer} becomes ppo with behavioral_cloning, which learns from rewards too; what learns from a "
            f"demonstration alone, without an environment: {CLONE}"
        )

    def _self_play(self) -> None:
        given = self.section.get("self_play")
        if given is None or self.version == "0.13":
            return
        read = self.file.keys(given.path, self.file.section(given.path, given.value), SELF_PLAY)
        for key, today in SELF_PLAY_RENAMED.items():
            if key in read:
                self.changed(f"self_play: {key} is now called {today}")
        found = {SELF_PLAY_RENAMED.get(key, key): value for key, value in read.items()}
        if "swap_steps" not in found:
            found["swap_steps"] = 20000
            self.changed("self_play: swap_steps 20000 is written down, which was the default; today's is 2000")
        if "team_change" not in found and self.version == "0.16" and found.get("save_steps", 20000) != 20000:
            found["team_change"] = 100000
            self.changed("self_play: team_change 100000 is written down, which was the default")
        self.new["self_play"] = found
