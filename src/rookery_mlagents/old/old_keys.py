"""Tables of the keys of ML-Agents 0.13 to 0.16 and their successors, by trainer and release, for the converter."""

from __future__ import annotations

from dataclasses import dataclass

VERSIONS = ("0.13", "0.14", "0.15", "0.16")
"""Releases whose files are supported; a few keys have different meanings in them."""


@dataclass(frozen=True)
class OldKey:
    """A key of a section of an old trainer configuration.

    Attributes:
        path: Path of its value in a present behaviour section; empty = the converter computes a value from it.
        kind: ``whole``, ``number``, ``flag``, ``text``, ``section``, or the words that are allowed, separated by ``|``.
        trainers: Trainers that read it.
        versions: Releases that read it.
        steps: Whether it counts steps, which 0.13 counted otherwise.
        needed: Whether these releases refused a section without it.
    """

    path: str
    kind: str
    trainers: tuple[str, ...] = ("ppo", "sac")
    versions: tuple[str, ...] = VERSIONS
    steps: bool = False
    needed: bool = False


PPO, SAC, CLONING = ("ppo",), ("sac",), ("offline_bc", "online_bc")
IMITATION = "imitation"
"""Name of ``online_bc`` before 0.6."""

EVERY = (*PPO, *SAC, *CLONING)
BEFORE_016, SINCE_014 = VERSIONS[:3], VERSIONS[1:]

KEYS = {
    "trainer": OldKey("", "ppo|sac|offline_bc|online_bc", EVERY),
    "batch_size": OldKey("hyperparameters.batch_size", "whole", EVERY, needed=True),
    "buffer_size": OldKey("hyperparameters.buffer_size", "whole", needed=True),
    "learning_rate": OldKey("hyperparameters.learning_rate", "number", EVERY, needed=True),
    "learning_rate_schedule": OldKey("hyperparameters.learning_rate_schedule", "linear|constant"),
    "beta": OldKey("hyperparameters.beta", "number", PPO, needed=True),
    "epsilon": OldKey("hyperparameters.epsilon", "number", PPO, needed=True),
    "lambd": OldKey("hyperparameters.lambd", "number", PPO, needed=True),
    "num_epoch": OldKey("hyperparameters.num_epoch", "whole", PPO, needed=True),
    "buffer_init_steps": OldKey("hyperparameters.buffer_init_steps", "whole", SAC, steps=True, needed=True),
    "init_entcoef": OldKey("hyperparameters.init_entcoef", "number", SAC, needed=True),
    "tau": OldKey("hyperparameters.tau", "number", SAC, needed=True),
    "save_replay_buffer": OldKey("hyperparameters.save_replay_buffer", "flag", SAC),
    "steps_per_update": OldKey("hyperparameters.steps_per_update", "number", SAC, ("0.16",)),
    "num_update": OldKey("", "whole", SAC, BEFORE_016),
    "train_interval": OldKey("", "whole", SAC, BEFORE_016),
    "normalize": OldKey("network_settings.normalize", "flag", EVERY, needed=True),
    "hidden_units": OldKey("network_settings.hidden_units", "whole", EVERY, needed=True),
    "num_layers": OldKey("network_settings.num_layers", "whole", EVERY, needed=True),
    "vis_encode_type": OldKey("network_settings.vis_encode_type", "simple|nature_cnn|resnet"),
    "use_recurrent": OldKey("", "flag", EVERY, needed=True),
    "sequence_length": OldKey("", "whole", EVERY),
    "memory_size": OldKey("", "whole", EVERY),
    "max_steps": OldKey("max_steps", "whole", EVERY, steps=True, needed=True),
    "time_horizon": OldKey("time_horizon", "whole", EVERY, needed=True),
    "summary_freq": OldKey("summary_freq", "whole", EVERY, steps=True, needed=True),
    "threaded": OldKey("threaded", "flag", ("ppo", "sac"), ("0.16",)),
    "reward_signals": OldKey("", "section", needed=True),
    "self_play": OldKey("", "section", versions=SINCE_014),
    "behavioral_cloning": OldKey("", "section"),
    "pretraining": OldKey("", "section"),
    "demo_path": OldKey("", "text", CLONING),
    "brain_to_imitate": OldKey("", "text", CLONING),
    "batches_per_epoch": OldKey("", "whole", CLONING),
}  # fmt: skip
"""Keys of a section of a trainer configuration."""

UNREAD = {
    "gamma": "no release since 0.9 read it; a discount stands in each reward signal",
    "use_curiosity": "no release since 0.9 read it; curiosity is a section of reward_signals",
    "curiosity_strength": "no release since 0.9 read it; curiosity is a section of reward_signals",
    "curiosity_enc_size": "no release since 0.9 read it; curiosity is a section of reward_signals",
    "burn_in_ratio": "today's memory has no steps that are played and not learned from",
    "init_path": "it named weights in TensorFlow's format, which cannot be read; train anew or clone from a .demo file",
    "keep_checkpoints": "the flag --keep-checkpoints stood over it: give it after --, or write it into the new file",
    "summary_path": "the trainer set it itself",
    "model_path": "the trainer set it itself",
    "graph_scope": "no release since 0.12 read it",
    "use_depth": "no release read it",
}
"""Keys that are left out, with the reason."""

SIGNALS_OF_OLD = {
    "gamma": "number",
    "use_curiosity": "flag",
    "curiosity_strength": "number",
    "curiosity_enc_size": "whole",
}
"""Keys of rewards before 0.9; they count in a section without ``reward_signals``, which later releases require."""

SIGNALS = {
    "extrinsic": {"strength": "number", "gamma": "number"},
    "curiosity": {"strength": "number", "gamma": "number", "encoding_size": "whole", "learning_rate": "number"},
    "gail": {
        "strength": "number", "gamma": "number", "demo_path": "text", "encoding_size": "whole",
        "learning_rate": "number", "use_actions": "flag", "use_vail": "flag",
    },
}  # fmt: skip
"""Reward signals, and the keys of each."""

SIGNAL_UPDATES = {"reward_signal_num_update": BEFORE_016, "reward_signal_steps_per_update": ("0.16",)}
"""Keys inside the reward signals that belong to SAC, and the releases that read them."""

SELF_PLAY = {
    "save_steps": "whole", "swap_steps": "whole", "window": "whole", "initial_elo": "number",
    "play_against_current_self_ratio": "number", "play_against_latest_model_ratio": "number", "team_change": "whole",
}  # fmt: skip
"""Keys of ``self_play``."""

SELF_PLAY_RENAMED = {"play_against_current_self_ratio": "play_against_latest_model_ratio"}
"""Keys of ``self_play`` that were renamed."""

CLONING_KEYS = {
    "demo_path": "text", "steps": "whole", "strength": "number", "samples_per_update": "whole", "num_epoch": "whole",
    "batch_size": "whole",
}  # fmt: skip
"""Keys of ``behavioral_cloning``."""

SPOKEN = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
"""Words that YAML 1.1 read as a boolean."""

SIGNS = {
    "reward_signals": SIGNAL_UPDATES,
    "self_play": {
        "play_against_current_self_ratio": ("0.14", "0.15"),
        "play_against_latest_model_ratio": ("0.16",),
        "team_change": ("0.16",),
    },
}
"""Keys of a section that only some releases had, with these releases."""

HINTS = (
    (
        "max_steps and summary_freq of default, which are those that 0.13 came with",
        {"max_steps": 5e4, "summary_freq": 1000},
        ("0.13",),
    ),
    (
        "max_steps and summary_freq of default, which are those of releases from 0.14 on",
        {"max_steps": 5e5, "summary_freq": 10000},
        SINCE_014,
    ),
    ("memory_size of default, which is that of releases before 0.15", {"memory_size": 256}, ("0.13", "0.14")),
    ("memory_size of default, which is that of releases from 0.15 on", {"memory_size": 128}, ("0.15", "0.16")),
)
"""Values in the ``default`` section that a release shipped: their name in messages, the values, and the releases."""
