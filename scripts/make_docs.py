"""Writes the generated pages of docs/: settings, presets, the keys of RLlib and ML-Agents, regressions, the map;
the generated parts of the pages of algorithms and environments; and the list of settings that the command line completes.

``python scripts/make_docs.py --check`` writes nothing and exits 1 if a page is out of date.
"""

# ruff: noqa: E501 - lines of pages stand here as they are on the page

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from itertools import chain, groupby
from pathlib import Path
from typing import Any

from algorithm_pages import algorithm_pages, supported_actions
from environment_pages import environment_pages
from iteration_picture import iteration_picture
from map_page import map_page
from regressions import regressions_page
from rule_pages import rule_pages

from rookery.algorithms.capabilities import TABLE_HEAD, Capabilities, capability_table
from rookery.algorithms.imitation import ImitationConfig
from rookery.algorithms.model_based.alphazero import TreeSearchConfig
from rookery.algorithms.names import ALGORITHMS
from rookery.algorithms.off_policy.action_noise import NoiseConfig, SizedNoiseConfig
from rookery.algorithms.off_policy.critics import CriticConfig
from rookery.algorithms.off_policy.dqn import TargetConfig
from rookery.algorithms.off_policy.q_exploration import ExplorationConfig
from rookery.algorithms.off_policy.q_values import ValuesConfig
from rookery.cli.settings.listing import REQUIRED, paths_text, settings_in
from rookery.core.settings.fields import former_names, object_name
from rookery.core.settings.layers import flow, import_object
from rookery.core.source import field_texts
from rookery.models.build import ModelConfig
from rookery.models.memory import MemoryConfig
from rookery.ope.offline_evaluation import OfflineEvaluationConfig
from rookery.replay.buffer import ReplayConfig
from rookery.replay.episode_filter import SelectionConfig
from rookery.replay.hindsight.settings import HindsightConfig
from rookery.replay.relabel import RelabelConfig
from rookery.run.presets import ENV_PRESETS, MEMORY_PRESETS, NAMED_PRESETS, SPACE_PRESETS
from rookery.run.settings import (
    SHORTHANDS,
    CheckpointConfig,
    ClusterConfig,
    DoctorConfig,
    EnvConfig,
    EvaluationConfig,
    LoggingConfig,
    PolicyEntry,
    RunConfig,
    SamplingConfig,
)
from rookery.tune.optuna_search import OptunaConfig
from rookery.tune.schedulers.asha import ASHAConfig
from rookery.tune.schedulers.hyperband import HyperBandConfig
from rookery.tune.schedulers.median import MedianConfig
from rookery.tune.schedulers.pb2 import PB2Config
from rookery.tune.schedulers.pbt import PBTConfig
from rookery.tune.settings import TuneConfig
from rookery_mlagents.files.reading_behaviors import TRAINERS
from rookery_mlagents.files.reading_parameters import SAMPLERS
from rookery_mlagents.files.run_options import RunOptions, plain
from rookery_mlagents.files.sections import (
    BehaviorOptions,
    CloningOptions,
    CriteriaOptions,
    MemoryOptions,
    NetworkOptions,
    SelfPlayOptions,
)
from rookery_mlagents.keys import (
    A2C_ROWS,
    CHECKPOINT_ROWS,
    CLONING_ROWS,
    CONSTANTS,
    DIFFERENCES,
    ENGINE_ROWS,
    ENV_ROWS,
    KEY_WORDS,
    NETWORK_ROWS,
    OFF_POLICY_ROWS,
    ON_POLICY_ROWS,
    OTHER_ROWS,
    PARAMETER_KEYS,
    PARAMETER_ROWS,
    SELF_PLAY_ROWS,
    SIGNAL_ROWS,
    TRAINER_ROWS,
    KeyRow,
)
from rookery_mlagents.learn.translate import all_signals
from rookery_rllib.config.table import SUBJECTS

DOCS = Path(__file__).parent.parent / "docs" / "reference"

SECTIONS: list[tuple[str, str, type]] = [
    ("The run", "", RunConfig),
    ("env", "env.", EnvConfig),
    ("sampling", "sampling.", SamplingConfig),
    ("cluster", "cluster.", ClusterConfig),
    *((f"algorithm: {name}", "algorithm.", import_object(path)) for name, path in ALGORITHMS.own.items()),
    ("algorithm.imitation, of ppo and sac", "algorithm.imitation.", ImitationConfig),
    ("algorithm.replay, of all that learn from a memory", "algorithm.replay.", ReplayConfig),
    ("algorithm.replay.select", "algorithm.replay.select.", SelectionConfig),
    ("algorithm.replay.relabel", "algorithm.replay.relabel.", RelabelConfig),
    ("algorithm.replay.hindsight, of dqn, sac, td3 and ddpg", "algorithm.replay.hindsight.", HindsightConfig),
    ("algorithm.values, of dqn", "algorithm.values.", ValuesConfig),
    ("algorithm.target, of dqn", "algorithm.target.", TargetConfig),
    ("algorithm.search, of alphazero", "algorithm.search.", TreeSearchConfig),
    ("algorithm.exploration, of dqn", "algorithm.exploration.", ExplorationConfig),
    ("algorithm.exploration, of sac", "algorithm.exploration.", NoiseConfig),
    ("algorithm.exploration, of td3 and ddpg", "algorithm.exploration.", SizedNoiseConfig),
    ("algorithm.critic, of sac, td3 and ddpg", "algorithm.critic.", CriticConfig),
    ("algorithm.model", "algorithm.model.", ModelConfig),
    ("algorithm.model.memory", "algorithm.model.memory.", MemoryConfig),
    ("policies.NAME (beside the settings of its algorithm)", "policies.NAME.", PolicyEntry),
    ("evaluation", "evaluation.", EvaluationConfig),
    ("checkpoint", "checkpoint.", CheckpointConfig),
    ("logging", "logging.", LoggingConfig),
    ("doctor", "doctor.", DoctorConfig),
    ("evaluate_offline, and rookery evaluate --replay", "--set ", OfflineEvaluationConfig),
    ("tune, of rookery tune", "tune.", TuneConfig),
    ("tune.search: optuna", "tune.search.", OptunaConfig),
    ("tune.scheduler: median", "tune.scheduler.", MedianConfig),
    ("tune.scheduler: asha", "tune.scheduler.", ASHAConfig),
    ("tune.scheduler: hyperband", "tune.scheduler.", HyperBandConfig),
    ("tune.scheduler: pbt", "tune.scheduler.", PBTConfig),
    ("tune.scheduler: pb2", "tune.scheduler.", PB2Config),
]


def settings_page() -> str:
    """Every setting: path, what it may be, default, meaning."""
    lines = [
        "# Settings",
        "",
        "Generated from the code by `make docs`. Each field is declared, with its default, in the file of the class it",
        "steers. A path is what you write in a YAML file (as nested keys), on the command line (`algorithm.lr=1e-3`)",
        "and in messages.",
        "A *schedule* is written `{start: 1e-3, end: 0}`; it ends at its own `steps`, else at `stop.env_steps`",
        "([what moves that end](../how-to/stop-and-resume.md#where-schedules-end)).",
        "",
    ]
    for title, prefix, cls in SECTIONS:
        lines += [f"## {title}", "", "| path | value | default | meaning |", "|---|---|---|---|"]
        for setting in settings_in(cls, prefix):
            if cls is PolicyEntry and setting.path == f"{prefix}algorithm":
                continue  # its settings stand beside it
            shown = "see below" if not setting.default else setting.default
            shown = f"`{shown}`" if setting.default not in ("", REQUIRED) else shown
            lines.append(f"| `{setting.path}` | {setting.kind.replace('|', 'or')} | {shown} | {setting.text} |")
        lines.append("")
    lines += ["## Shorthands of `Trainer`", "", "| argument | path |", "|---|---|"]
    lines += [
        f"| `{name}` | `{path}` |" for name, path in SHORTHANDS.items() if name not in former_names(SamplingConfig)
    ]
    return "\n".join(lines) + "\n"


def presets_page() -> str:
    """Every preset as a table."""
    lines = [
        "# Presets",
        "",
        "Generated from the code by `make docs` (`run/presets.py`). A preset is a config layer like any other:",
        "defaults < space preset < environment preset < file < command line or code. Where no algorithm is named, the presets of",
        "an environment [choose it](../how-to/choose-an-algorithm.md).",
        "",
        "## By space",
        "",
        "These always apply: *image* if any part of the observation is an image, else *continuous* if any part",
        "of an action is a Box, else *discrete*.",
        "",
    ]
    for algorithm in ENV_PRESETS:
        for kind in ("discrete", "continuous", "image"):
            values = SPACE_PRESETS.get(algorithm, {}).get(kind, {})
            text = ", ".join(f"`{path}={flow(value)}`" for path, value in values.items()) or "the defaults as they are"
            lines.append(f"- **{algorithm}, {kind}**: {text}")
    for algorithm, values in MEMORY_PRESETS.items():
        text = ", ".join(f"`{path}={flow(value)}`" for path, value in values.items())
        lines.append(f"- **{algorithm}, of any kind, with `model.memory.kind` other than none**: also {text}")
    lines += [
        "",
        "## By environment",
        "",
        'On by default at the command line (`--preset none` turns it off); in code `Trainer(..., preset="auto")`.',
        "",
    ]
    lines += rows_of(ENV_PRESETS)
    lines += ["", "## By name", "", "For any environment, if asked for: `--preset rainbow`.", ""]
    lines += rows_of(NAMED_PRESETS)
    return "\n".join(lines) + "\n"


def algorithms_page() -> str:
    """Every algorithm with what it can do, and what the words mean."""
    lines = [
        "# Algorithms",
        "",
        "Generated from the code by `make docs`; `rookery algos` prints the table. Each algorithm declares what it can do on",
        "its settings class, as `capabilities = Capabilities(...)`; so does [your own](../how-to/own-algorithm.md).",
        "",
        f"| {' | '.join(TABLE_HEAD)} | action spaces |",
        "|---" * (len(TABLE_HEAD) + 1) + "|",
    ]
    for name, *row in capability_table():
        page = DOCS.parent / "algorithms" / f"{name.removeprefix('discrete_')}.md"
        actions = ", ".join(supported_actions(name))
        lines.append(f"| [{name}](../algorithms/{page.name}) | {' | '.join(row)} | {actions} |")
    lines += ["", "## Fields of `Capabilities`", "", "| field | default | meaning |", "|---|---|---|"]
    texts = field_texts(object_name(Capabilities))
    for name, default in vars(Capabilities()).items():
        lines.append(f"| `{name}` | `{flow(default)}` | {texts[name]} |")
    lines += ["", *inspect.cleandoc(Capabilities.__doc__ or "").splitlines()[2:]]
    return "\n".join(lines) + "\n"


def rows_of(presets: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> list[str]:
    """Presets by algorithm and name, a line each."""
    lines = []
    for algorithm, by_name in presets.items():
        for name, values in by_name.items():
            text = ", ".join(f"`{path}={flow(value)}`" for path, value in values.items())
            lines.append(f"- **{algorithm}, {name}**: {text}")
    return lines


def rllib_keys_page() -> str:
    """Every key of a configuration of RLlib 2021, and what becomes of it."""
    lines = [
        "# Keys of RLlib",
        "",
        "Generated from the code by `make docs` (`rookery_rllib/config/table.py`). The keys of a configuration of RLlib",
        "2021, and the [settings](settings.md) that they determine. `trainer.rookery.resolved.explain(SETTING)` names the",
        "key that a value came from; [coming from RLlib](../from-rllib.md) is about scripts.",
        "",
        "| status | treatment of the key |",
        "|---|---|",
        "| set | its value is copied to the setting |",
        "| translated | the settings are computed from it and its neighbours |",
        "| used | the trainer reads it |",
        "| cluster | translated or used if workers run on a Ray cluster that the script has joined, else ignored |",
        "| ignored | no effect; a note gives the reason if it is set |",
        "| refused | only its default is accepted; the error gives the reason |",
        "",
    ]
    for title, rows in SUBJECTS.items():
        lines += [f"## {title}", "", "| key | algorithms | status | settings | meaning |", "|---|---|---|---|---|"]
        same = groupby(chain.from_iterable(rows), lambda row: (row.only, row.status, row.paths, row.text))
        for row, keys in (
            (group[0], ", ".join(f"`{one.key}`" for one in group)) for group in (list(g) for _, g in same)
        ):
            of, paths = ", ".join(row.only) or "all", ", ".join(f"`{path}`" for path in row.paths)
            text = row.text[:1].upper() + row.text[1:].rstrip(".")
            lines.append(f"| {keys} | {of} | {row.status.value} | {paths} | {text.replace('|', 'or')} |")
        lines.append("")
    return "\n".join(lines)


MLAGENTS_SECTIONS: list[tuple[str, list[KeyRow]]] = [
    ("A behavior", TRAINER_ROWS),
    ("hyperparameters: ppo, poca", ON_POLICY_ROWS),
    ("hyperparameters: a2c", A2C_ROWS),
    ("hyperparameters: sac, dqn", OFF_POLICY_ROWS),
    ("network_settings", NETWORK_ROWS),
    ("reward_signals", SIGNAL_ROWS),
    ("behavioral_cloning", CLONING_ROWS),
    ("self_play", SELF_PLAY_ROWS),
    ("environment_parameters", PARAMETER_ROWS),
    ("env_settings", ENV_ROWS),
    ("engine_settings", ENGINE_ROWS),
    ("checkpoint_settings", CHECKPOINT_ROWS),
    ("torch_settings, debug", OTHER_ROWS),
]


def default_of_key(key: str, only: tuple[str, ...]) -> str:
    """The default of a key of ML-Agents, as YAML has it: of the section's class, by the trainer that has the key."""
    trainer = only[0] if only else "ppo"
    behaviour = BehaviorOptions(
        trainer_type=trainer,
        hyperparameters=TRAINERS[trainer](),
        reward_signals=all_signals(),
        self_play=SelfPlayOptions(),
        behavioral_cloning=CloningOptions(),
        network_settings=NetworkOptions(memory=None if key == "network_settings.memory" else MemoryOptions()),
    )
    found: Any = {**plain(RunOptions()), **plain(behaviour)}
    for part in key.split("."):
        found = found[part]
    if key.endswith("demo_path"):
        return "required"
    return "{}" if isinstance(found, Mapping) else flow(found)


def parameter_key_lines() -> list[str]:
    """The keys inside `environment_parameters`, a table."""
    criteria = plain(CriteriaOptions())
    lines = ["| key inside a parameter | default | meaning |", "|---|---|---|"]
    for key, of, meaning in PARAMETER_KEYS:
        last = key.rpartition(".")[2]
        if of in SAMPLERS or of == "any":
            default = flow(SAMPLERS["constant" if of == "any" else of][last])
        elif of == "criteria" and last != "behavior":
            default = flow(criteria[last])
        else:
            default = "null" if of == "lesson" else "required"
        told = f" (of {of})" if of in SAMPLERS else ""
        lines.append(f"| `{key}` | `{default}` | {meaning.rstrip('.')}{told} |")
    return [*lines, ""]


def mlagents_keys_page() -> str:
    """Every key of a configuration of ML-Agents, and what becomes of it."""
    lines = [
        "# Keys of ML-Agents",
        "",
        "Generated from the code by `make docs` (`rookery_mlagents/keys.py`). The keys of a configuration file of",
        "ML-Agents 1.1.0, with ML-Agents' defaults, and the [settings](settings.md) that they determine. NAME is the name",
        "of the behavior, and of its policy. `rookery explain RUN SETTING` names the line of the file that set a value.",
        "",
        "| status | treatment of the key |",
        "|---|---|",
        "| set | its value is copied to the setting |",
        "| translated | the settings are computed from it and its neighbours |",
        "| used | `rookery mlagents learn` reads it |",
        "| ignored | no effect; a note gives the reason if it is set |",
        "| refused | only its default is accepted; the error gives the reason |",
        "",
    ]
    for title, rows in MLAGENTS_SECTIONS:
        lines += [f"## {title}", ""]
        if rows is PARAMETER_ROWS:
            lines += parameter_key_lines()
        lines += ["| key | default | trainers | status | settings | meaning |", "|---|---|---|---|---|---|"]
        for (only, status, paths, text), same in groupby(rows, lambda row: (row.only, row.status, row.paths, row.text)):
            group, here = [row.key for row in same], ", ".join(f"`{name}`" for name in paths)
            meaning = (text[:1].upper() + text[1:].rstrip(".")).replace("|", "or")
            for number, key in enumerate(group):
                own = KEY_WORDS.get(key, KEY_WORDS.get(key.rpartition(".")[2], "")) if len(group) > 1 else ""
                parts = filter(None, [own, "" if number else meaning])
                beside = (here, ". ".join(parts)) if not number else ("as above", own or "As above")
                start = f"| `{key}` | `{default_of_key(key, only)}` | {', '.join(only) or 'all'} | {status.value} | "
                lines.append(start + " | ".join(beside) + " |")
        lines.append("")
    lines += ["## Settings without a key", "", "Set as in ML-Agents, whatever Rookery's presets have:", ""]
    lines += [f"- `{name}`: {text}" for name, text in CONSTANTS.items()]
    lines += ["", "## Intended differences", "", "| subject | ML-Agents | Rookery |", "|---|---|---|"]
    lines += [f"| {what} | {theirs} | {here} |" for what, theirs, here in DIFFERENCES]
    lines.append("")
    return "\n".join(lines)


def main() -> int:
    """Writes or checks the pages."""
    pages = {
        "settings.md": settings_page(),
        "presets.md": presets_page(),
        "algorithms.md": algorithms_page(),
        "rllib-keys.md": rllib_keys_page(),
        "mlagents-keys.md": mlagents_keys_page(),
        "regressions.md": regressions_page(),
        **rule_pages(),
        **algorithm_pages(),
        **environment_pages(),
        "../map.md": map_page(),
        "../images/iteration.svg": iteration_picture(),
        "../../src/rookery/core/settings/paths.txt": paths_text(),
    }
    stale = [name for name, text in pages.items() if not (DOCS / name).exists() or (DOCS / name).read_text() != text]
    if "--check" in sys.argv:
        if stale:
            sys.stderr.write(f"out of date: {', '.join(stale)}; run: make docs\n")
        return 1 if stale else 0
    DOCS.mkdir(parents=True, exist_ok=True)
    for name, text in pages.items():
        (DOCS / name).parent.mkdir(exist_ok=True)
        (DOCS / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
