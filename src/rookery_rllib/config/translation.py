"""Translates a configuration of 2021 to our settings: `translated`.

The values form two layers, so that ``explain`` names the layer and key of a value: the defaults of 2021 (the preset
``rllib2021`` of an algorithm), and the keys that were set. The preset holds every path that a space preset would set,
so that none of those has an effect.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any

from rookery.face import ConfigError, Layer, is_undecided, nearest, show
from rookery_rllib.config.algorithms import (
    ALGORITHMS,
    DEFAULT_POLICY_ID,
    LINES_ON_CLUSTER,
    OF_TEAMS,
    OF_VTRACE,
    SAC_KIND,
    pins,
)
from rookery_rllib.config.defaults import (
    DEFAULT_CONFIGS,
    MODEL_DEFAULTS,
    Config,
    copied,
    merge_trainer_configs,
)
from rookery_rllib.config.exploration_keys import OWN_EXPLORATION, exploration_type
from rookery_rllib.config.key_names import keys_of, why_unknown
from rookery_rllib.config.reader import Function, Reader, Values
from rookery_rllib.config.replay_keys import is_td3
from rookery_rllib.config.rows import ConfigKeyStatus, Row
from rookery_rllib.config.table import SECTIONS, rows_of

PRESET = "preset rllib2021"
"""Name of the layer of the defaults of 2021."""

GIVEN = "rllib config"
"""Name of the layer of the keys that were set."""

ASKED = 32
"""Calls of the mapping function with which agents per policy are counted before any episode."""

MOST_KEYS = 60
"""A dict with at least this many keys of the defaults is treated as a changed copy of them."""

COPIES_HERE = "environments run in this process, not on a cluster"
"""Reason why a key about workers on a cluster has no effect in one process."""

SHARED = ("num_workers", "num_envs_per_worker", "framework", "num_gpus", "observation_filter", "model", "gamma")
"""Keys of a trainer that apply to a policy of another algorithm too, as do all keys that were set."""

PolicyMapping = Callable[[Any, Any], str]


@dataclass(frozen=True)
class PolicyEntry:
    """A policy of a configuration.

    Attributes:
        settings: Its own settings, by paths below ``policies.NAME``.
        observation_space: As given; None = the environment's.
        action_space: Likewise.
        policy_class: As given; None = that of the trainer.
        trained: Whether it learns.
        config: Its own keys, as given.
    """

    settings: Values = field(default_factory=dict)
    observation_space: Any = None
    action_space: Any = None
    policy_class: Any = None
    trained: bool = True
    config: Config = field(default_factory=dict)


@dataclass(frozen=True)
class Translation:
    """A translated configuration of 2021.

    Attributes:
        settings: Values by dotted path; those of policies are in `policies`.
        sources: By path, the key a value came from.
        policies: The policies by name; one, ``default_policy``, if none is named.
        policy_mapping: ``(agent, episode) -> policy``; None = the only policy, or policies named like agents.
        env: The key ``env``, as given.
        env_config: Arguments of the environment.
        callbacks: A class, or a function that makes callbacks; None if there are none.
        evaluation: Settings of the evaluation: ``interval``, ``episodes``, ``config``, ``explore``,
            ``custom_function``, ``workers`` on a cluster and whether they run ``beside`` training.
        notes: Lines to print once.
        model: The complete section ``model``.
        counts_rows: Whether timesteps are rows of agents (`Reader.counts_rows`).
        rows_per_step: By how much an env step counts in timesteps (`Reader.rows_per_step`).
        trainer: Keys that the trainer itself uses, with their values (`rows.ConfigKeyStatus.USED`).
        config: All keys, with defaults for those not set.
        layers: The settings as layers, weakest first, with the keys as sources.
    """

    settings: Values
    sources: Mapping[str, str]
    policies: Mapping[str, PolicyEntry]
    policy_mapping: PolicyMapping | None
    env: Any
    env_config: Config
    callbacks: Any
    evaluation: Config
    notes: tuple[str, ...]
    model: Config
    counts_rows: bool
    rows_per_step: int
    trainer: Config
    config: Config
    layers: tuple[Layer, ...]


def translated(
    algorithm: str,
    config: Mapping[str, Any],
    *,
    agents: Sequence[Any] | None = None,
    discrete: bool | None = None,
    cluster: str = "",
    script_keys: Collection[str] = (),
    defaults: Mapping[str, Any] | None = None,
    preset: str = PRESET,
) -> Translation:
    """Translates a configuration of 2021.

    Args:
        algorithm: Name of the algorithm, ``PPO``.
        config: Keys that were set, or a changed copy of the algorithm's defaults.
        agents: The agents of the environment, with which batches of several rounds are counted; None = one per policy.
        discrete: Whether actions are discrete, if known; SAC has two forms.
        cluster: Address of the Ray cluster that workers run on; empty = environments run in this process.
        script_keys: Keys that a script's trainer adds, which only its own code reads.
        defaults: All keys with the defaults of another release, for the layer of the defaults; None = those of 2021.
        preset: Name of that layer.

    Raises:
        ConfigError: With a line for each unknown or impossible key, in the spelling of 2021.
    """
    if algorithm not in DEFAULT_CONFIGS:
        known = list(DEFAULT_CONFIGS)
        raise ConfigError(f"rllib: there is no algorithm {algorithm!r}{nearest(algorithm, known)}; {', '.join(known)}")
    whole, given = _merged(algorithm, config, script_keys)
    policies, mapping = policies_of(whole)
    counts = _counts(policies, mapping, agents)
    everyone = len(agents) if agents else 1
    main = Reader(algorithm, whole, given, counts.get(next(iter(policies)), 1), everyone, cluster,
                  frozenset(script_keys))  # fmt: skip
    found = _settings(main, discrete)
    standard_config = copied(DEFAULT_CONFIGS[algorithm] if defaults is None else dict(defaults))
    standard = _settings(Reader(algorithm, standard_config, frozenset(), cluster=cluster), discrete)
    entries, own = _entries(main, policies, counts, found, discrete)
    if main.problems:
        raise ConfigError(*dict.fromkeys(main.problems))
    evaluation = {
        "interval": whole["evaluation_interval"] or (1 if whole["evaluation_num_workers"] else None),
        "episodes": whole["evaluation_num_episodes"],
        "config": dict(whole["evaluation_config"]),
        "explore": not found.values["evaluation.deterministic"],
        "custom_function": whole["custom_eval_function"],
        "workers": found.values["evaluation.workers"],
        "beside": bool(found.values["evaluation.workers"] and whole["evaluation_parallel_to_training"]),
    }
    line = (LINES_ON_CLUSTER.get(algorithm) if main.workers else None) or ALGORITHMS[algorithm].line
    line = "" if algorithm == "APPO" and found.values["algorithm.name"] == "ppo" else line
    return Translation(
        settings=found.values,
        sources=found.sources,
        policies=entries,
        policy_mapping=mapping,
        env=whole["env"],
        env_config=dict(whole["env_config"]),
        callbacks=whole["callbacks"],
        evaluation=evaluation,
        notes=tuple(dict.fromkeys([*filter(None, [line]), *main.notes])),
        model=whole["model"],
        counts_rows=main.counts_rows,
        rows_per_step=main.rows_per_step,
        trainer=_kept(main),
        config=whole,
        layers=(*_layers(standard, found, preset), *([own] if own.values else [])),
    )


# --- the configuration, whole -----------------------------------------------------------------------------------------


def _merged(
    algorithm: str, config: Mapping[str, Any], script_keys: Collection[str] = ()
) -> tuple[Config, frozenset[str]]:
    """Returns the configuration with its defaults, and the keys that were set.

    Raises:
        ConfigError: If there are unknown keys, or values that are still to be chosen.
    """
    defaults = DEFAULT_CONFIGS[algorithm]
    config = {key: dict(value) if isinstance(value, Mapping) else value for key, value in config.items()}
    problems = [
        f"{GIVEN}: {key} = {show(value)}: {why_unknown(algorithm, str(key), [*keys_of('', algorithm), *script_keys])}"
        for key, value in config.items()
        if key not in defaults and key not in script_keys
    ]
    for key, value in config.items():
        if is_undecided(value) or _is_grid(value):
            problems.append(f"{GIVEN}: {key} = {show(value)}: only tune.run searches; a trainer needs one value")
    if problems:
        raise ConfigError(*problems)
    if config.get("model") is None and "model" in config:
        config["model"] = {}
    whole = merge_trainer_configs(defaults, config, True)
    whole["model"] = merge_trainer_configs(MODEL_DEFAULTS, whole["model"], True)
    given = _given(config, defaults, "")
    for section in SECTIONS:
        value = config.get(section, {})
        if not isinstance(value, Mapping):
            problems.append(f"{GIVEN}: {section} = {show(value)}: must be a dict")
            continue
        kind = exploration_type(Reader(algorithm, whole, frozenset())) if section == "exploration_config" else ""
        known = keys_of(section, algorithm, kind)
        strange = [key for key in value if key not in known]
        if (section == "model" and whole["model"]["custom_model"]) or kind == OWN_EXPLORATION:
            continue  # the script's own code reads them
        if not kind or known != ["type"]:  # else the type is one without keys, or is refused itself
            problems += [
                f"{GIVEN}: {section}.{key} = {show(value[key])}: {why_unknown(algorithm, f'{section}.{key}', known)}"
                for key in strange
            ]
        given |= {f"{section}.{key}" for key in _given(value, _section(defaults, section), f"{section}.")}
    if isinstance(config.get("evaluation_config"), Mapping):
        given |= {f"evaluation_config.{key}" for key in config["evaluation_config"]}
    if problems:
        raise ConfigError(*problems)
    return whole, frozenset(given)


def _section(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = config.get(name)
    return found if isinstance(found, Mapping) else {}


def _given(config: Mapping[str, Any], defaults: Mapping[str, Any], section: str) -> set[str]:
    """Returns the keys that were set; for a copy of the defaults, those that differ."""
    copy = len(defaults) > 1 and set(defaults) <= set(config) and (not section or len(defaults) > len(SECTIONS))
    copy = copy or (not section and len(set(defaults) & set(config)) >= MOST_KEYS)
    return {key for key, value in config.items() if not copy or not _equal(value, defaults.get(key))}


def _equal(one: Any, other: Any) -> bool:
    """Returns whether two values are equal; for objects that cannot be compared, whether they are identical."""
    if one is other:
        return True
    try:
        return type(one) is type(other) and bool(one == other)
    except Exception:
        return False


def _is_grid(value: Any) -> bool:
    return isinstance(value, Mapping) and set(value) == {"grid_search"}


# --- settings ---------------------------------------------------------------------------------------------------------


@dataclass
class _Found:
    """Values by path, the keys they came from, and the paths that were set explicitly."""

    values: Values
    sources: dict[str, str]
    given: set[str]


def _settings(reader: Reader, discrete: bool | None) -> _Found:
    """Translates a configuration, key by key of the table."""
    name = ALGORITHMS[reader.algorithm].name
    name = "td3" if name == "ddpg" and is_td3(reader) else name
    values: Values = {"algorithm.name": name, **pins(reader.algorithm)}
    if reader.algorithm in SAC_KIND and discrete is not None:
        values["algorithm.discrete"] = discrete
    sources = dict.fromkeys(values, reader.algorithm)
    given: set[str] = set()
    keys: dict[Function, list[str]] = {}
    for key, rows in _present(reader).items():
        for row in rows:
            if row.status is ConfigKeyStatus.SET:
                path = row.paths[0]
                values[path], sources[path] = reader.get(key), key
                given |= {path} if key in reader.given else set()
            elif row.status is ConfigKeyStatus.TRANSLATED or (row.status is ConfigKeyStatus.CLUSTER and reader.cluster):
                if row.function is not None:
                    keys.setdefault(row.function, []).append(key)
            else:
                _judge(reader, key, row)
    for function, names in keys.items():
        made = function(reader)
        given_keys = [_written(key) for key in names if _written(key) in reader.given]
        values |= made
        sources |= dict.fromkeys(made, ", ".join(given_keys or map(_written, names)))
    if reader.algorithm == "APPO" and values["algorithm.name"] == "ppo":
        values = {path: value for path, value in values.items() if path not in OF_VTRACE}
    if reader.algorithm == "QMIX" and values["algorithm.name"] == "dqn":
        values = {path: value for path, value in values.items() if path not in OF_TEAMS}
    return _Found(values, sources, given)


def _present(reader: Reader) -> dict[str, list[Row]]:
    """Returns the rows of an algorithm, without those of other types of exploration."""
    kind = exploration_type(reader)
    found = {}
    for key, rows in rows_of(reader.algorithm).items():
        parts = key.split(".")
        if parts[0] != "exploration_config" or len(parts) < 3 or parts[1] == kind:
            found[key] = rows
    return found


def _written(key: str) -> str:
    """Returns a key as written in a configuration, without the exploration type."""
    parts = key.split(".")
    return f"{parts[0]}.{parts[-1]}" if parts[0] == "exploration_config" else key


def _judge(reader: Reader, key: str, row: Row) -> None:
    """Adds a note for an ignored key, or a problem for a refused one, if it differs from its default."""
    key = _written(key)
    value = reader.get(key)
    if key not in reader.given or value in _fine(reader, key, row):
        return
    if row.status in (ConfigKeyStatus.IGNORED, ConfigKeyStatus.CLUSTER):
        why = row.text if row.status is ConfigKeyStatus.IGNORED else COPIES_HERE
        reader.notes.append(f"{key} = {show(value)} has no effect here: {why}")
    elif row.status is ConfigKeyStatus.REFUSED:
        if key == "clip_actions" and reader.get("normalize_actions"):
            return
        reader.refuse(key, row.text)


def _fine(reader: Reader, key: str, row: Row) -> list[Any]:
    """Returns values without a note or problem: defaults, also those of the common configuration."""
    section, _, name = key.rpartition(".")
    base = _section(DEFAULT_CONFIGS[reader.algorithm], section) if section else DEFAULT_CONFIGS[reader.algorithm]
    more = [MODEL_DEFAULTS.get(name)] if section == "model" else []
    return [base.get(name), *more, *row.fine]


def _layers(standard: _Found, found: _Found, preset: str) -> tuple[Layer, Layer]:
    """Returns the defaults and the keys that were set, as layers with the keys as sources.

    Both have the algorithm that the keys lead to: a layer with another one would discard the settings of the defaults.
    """
    standard.values["algorithm.name"] = found.values["algorithm.name"]
    paths = [path for path in found.values if path in standard.values]
    below = {path: standard.values[path] for path in paths}
    above = {
        path: value
        for path, value in found.values.items()
        if path in found.given or path not in below or not _equal(value, below[path])
    }
    return (
        Layer(preset, below, {path: f"{preset}: {standard.sources[path]}" for path in below}),
        Layer(GIVEN, above, {path: f"{GIVEN}: {found.sources[path]}" for path in above}),
    )


def _kept(reader: Reader) -> Config:
    rows = rows_of(reader.algorithm)
    names = [key for key, (first, *_) in rows.items() if first.status is ConfigKeyStatus.USED and "." not in key]
    found = {key: reader.get(key) for key in names}
    if "min_iter_time_s" not in reader.given:
        found["min_iter_time_s"] = 0
    return found


# --- policies ---------------------------------------------------------------------------------------------------------


def policies_of(config: Mapping[str, Any]) -> tuple[dict[str, PolicyEntry], PolicyMapping | None]:
    """Returns the policies of a configuration and their mapping; raises a ConfigError for impossible ones."""
    section = config["multiagent"]
    named = section.get("policies") or {}
    if isinstance(named, str) or not isinstance(named, Mapping | set | frozenset | list | tuple):
        raise ConfigError(
            f"{GIVEN}: multiagent.policies = {show(named)}: must be a dict of (class, observation space, action space, "
            "keys), or a list of names"
        )
    names = sorted(named) if isinstance(named, set | frozenset) else named
    listed: dict[Any, Any] = dict(named) if isinstance(named, Mapping) else dict.fromkeys(names)
    listed = listed or {DEFAULT_POLICY_ID: None}
    trained = _trained(section.get("policies_to_train"), list(listed))
    entries = {str(name): _entry(str(name), given, str(name) in trained) for name, given in listed.items()}
    return entries, _mapping_of(section.get("policy_mapping_fn"), list(entries))


def _entry(name: str, given: Any, trained: bool) -> PolicyEntry:
    """Reads a policy: a tuple of four, an object with such attributes, a dict of keys, or None."""
    where = f"{GIVEN}: multiagent.policies.{name}"
    if given is None:
        return PolicyEntry(trained=trained)
    if isinstance(given, Mapping):
        return PolicyEntry(trained=trained, config=dict(given))
    if isinstance(given, list | tuple):
        if len(given) != 4:
            raise ConfigError(
                f"{where} = {show(given)}: must be (class or None, observation space or None, action space or None, "
                f"keys), four values, not {len(given)}"
            )
        cls, observations, actions, keys = given
    elif hasattr(given, "observation_space") and hasattr(given, "action_space"):
        cls, keys = getattr(given, "policy_class", None), getattr(given, "config", None)
        observations, actions = given.observation_space, given.action_space
    else:
        raise ConfigError(f"{where} = {show(given)}: must be a tuple of four, a PolicySpec or None")
    if keys is not None and not isinstance(keys, Mapping):
        raise ConfigError(f"{where}: its keys are {show(keys)}: must be a dict")
    return PolicyEntry({}, observations, actions, cls, trained, dict(keys or {}))


def _trained(given: Any, names: list[str]) -> set[str]:
    """Returns the names of the policies that learn; raises a ConfigError for an unknown name."""
    if given is None:
        return set(names)
    if callable(given):
        several = len(inspect.signature(given).parameters) > 1
        return {name for name in names if (given(name, None) if several else given(name))}
    wanted = [given] if isinstance(given, str) else list(given)
    for name in wanted:
        if name not in names:
            raise ConfigError(
                f"{GIVEN}: multiagent.policies_to_train: there is no policy {name!r}{nearest(str(name), names)}; there "
                f"are {', '.join(names)}"
            )
    return set(wanted)


def _mapping_of(given: Any, names: list[str]) -> PolicyMapping | None:
    """Wraps a mapping function of any former signature as ``(agent, episode) -> policy``; raises a ConfigError."""
    if isinstance(given, str):
        given = _imported(given)
    if given is None:
        shared = DEFAULT_POLICY_ID in names and len(names) > 1
        return (lambda agent, episode: DEFAULT_POLICY_ID) if shared else None
    if isinstance(given, Mapping):
        table = dict(given)
        return lambda agent, episode: str(table[agent])
    if not callable(given):
        raise ConfigError(f"{GIVEN}: multiagent.policy_mapping_fn = {show(given)}: must be a function of the agent")
    return _AskedMapping(given)


def _imported(text: str) -> Any:
    module, _, name = text.replace(":", ".").rpartition(".")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"{GIVEN}: multiagent.policy_mapping_fn = {text!r}: no such function ({error}); write my_module.my_function"
        ) from error


class _AskedMapping:
    """Mapping function of any version: of the agent, and of the episode and the worker if it takes them."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        try:
            parameters = list(inspect.signature(function).parameters.values())
        except (TypeError, ValueError):  # some built-in callables have none
            parameters = []
        positional = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
        any_keyword = any(one.kind is one.VAR_KEYWORD for one in parameters)
        by_name = {one.name for one in parameters if one.kind is one.KEYWORD_ONLY}
        names = {one.name for one in positional[1:]} | by_name
        self._second = len(positional) > 1 and positional[1].default is inspect.Parameter.empty
        self._second = self._second or (len(positional) > 1 and positional[1].name == "episode")
        self._keywords = {
            name for name in ("episode", "worker") if (name in names or any_keyword) and not (
                self._second and positional[1].name == name
            )
        } - ({"episode"} if self._second else set())  # fmt: skip

    def __call__(self, agent: Any, episode: Any) -> str:
        values = {"episode": episode, "worker": None}
        keywords = {name: values[name] for name in self._keywords}
        return str(self.function(agent, episode, **keywords) if self._second else self.function(agent, **keywords))


def _counts(
    policies: Mapping[str, PolicyEntry], mapping: PolicyMapping | None, agents: Sequence[Any] | None
) -> dict[str, int]:
    """Returns the number of agents of each policy, on average for a random mapping; 1 if unknown."""
    counts = dict.fromkeys(policies, 0)
    for agent in [*(agents or ())] * ASKED:
        try:
            name = mapping(agent, None) if mapping is not None else str(agent)
        except Exception:  # a function that reads its episode
            return dict.fromkeys(policies, 1)
        name = name if name in counts else next(iter(counts))
        counts[name] += 1
    return {name: max(round(count / ASKED), 1) for name, count in counts.items()}


def _entries(
    main: Reader, policies: Mapping[str, PolicyEntry], counts: Mapping[str, int], found: _Found, discrete: bool | None
) -> tuple[dict[str, PolicyEntry], Layer]:
    """Returns the policies with their own settings, and these as a layer."""
    entries: dict[str, PolicyEntry] = {}
    values: Values = {}
    lines: dict[str, str] = {}
    for name, entry in policies.items():
        algorithm = str(getattr(entry.policy_class, "algorithm", None) or main.algorithm)
        own: Values = {}
        if entry.config or counts[name] != main.agents or algorithm != main.algorithm:
            at = f"multiagent.policies.{name}"
            reader, made = _own(main, algorithm, entry.config, counts[name], at, discrete)
            main.problems += [f"{GIVEN}: {at}: {line.removeprefix(f'{GIVEN}: ')}" for line in reader.problems]
            for path, value in made.values.items():
                below = path.removeprefix("algorithm.")
                differs = path not in found.values or not _equal(value, found.values[path])
                if path.startswith("algorithm.") and (differs or algorithm != main.algorithm):
                    own[below] = value
                    lines[f"policies.{name}.{below}"] = f"{GIVEN}: {at}: {made.sources[path]}"
                elif differs and algorithm == main.algorithm:
                    main.notes.append(f"{at}: {made.sources[path]} is the trainer's, and has no effect here")
        own |= {} if entry.trained else {"frozen": True}
        entries[name] = replace(entry, settings=own)
        values |= {f"policies.{name}.{path}": value for path, value in own.items()} or {f"policies.{name}": {}}
        if not entry.trained:
            lines[f"policies.{name}.frozen"] = f"{GIVEN}: multiagent.policies_to_train"
    return entries, Layer(f"{GIVEN}: multiagent.policies", values, lines)


def _own(
    main: Reader, algorithm: str, config: Mapping[str, Any], agents: int, at: str, discrete: bool | None
) -> tuple[Reader, _Found]:
    """Translates the configuration of one policy."""
    base = main.config if algorithm == main.algorithm else DEFAULT_CONFIGS[algorithm]
    try:
        _, given = _merged(algorithm, config, main.script_keys)
    except ConfigError as error:
        raise ConfigError(*(f"{GIVEN}: {at}: {line.removeprefix(f'{GIVEN}: ')}" for line in error.problems)) from error
    given_keys = {key for key in main.given if key in DEFAULT_CONFIGS[algorithm] and key != "multiagent"}
    shared = {key: main.config[key] for key in {*SHARED, *given_keys}}
    whole = merge_trainer_configs({**base, **shared}, dict(config), True)
    whole["model"] = merge_trainer_configs(MODEL_DEFAULTS, whole["model"] or {}, True)
    reader = Reader(algorithm, whole, given, agents, main.env_agents, main.cluster)
    return reader, _settings(reader, discrete)
