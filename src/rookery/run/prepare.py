"""Prepares a run from the user's arguments: resolves its settings, and makes its environments and mapping."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from rookery.algorithms.algorithm import Algorithm
from rookery.algorithms.capabilities import algorithms_with, one_of
from rookery.cluster.ranks import Ranks
from rookery.core.config import Resolved
from rookery.core.device import AUTO, check_compiler, check_device, devices, has_bfloat16
from rookery.core.errors import ConfigError, EnvError
from rookery.core.process.cpu import usable_cores
from rookery.core.process.notebook import in_notebook
from rookery.core.process.torch_modes import call_in_user_modes, users_modes
from rookery.core.seeding import Role, Streams
from rookery.core.settings.fields import Settings, object_name, paths_of
from rookery.core.settings.hints import argument_hint
from rookery.core.settings.layers import Layer, yaml_layer
from rookery.core.settings.repeated_keys import Keys, refuse_repeated
from rookery.core.settings.script_objects import refuse_while_defining
from rookery.core.settings.trust import texts_in
from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.envs.base import Kind, VectorBase, VectorEnv, has_throwaways
from rookery.envs.choice import MEASURED, HelperChoice, choose
from rookery.envs.groups import GroupEnv
from rookery.envs.make import env_name, has_single_envs, lane_maker, make_env, why_no_variant
from rookery.envs.parameters import first_plan_by
from rookery.envs.placeholder_env import DATA, PlaceholderEnv
from rookery.envs.process_bound import why_process_bound
from rookery.envs.random_play import random_rows
from rookery.envs.teams import TeamEnv
from rookery.envs.vector.faults import Tolerance
from rookery.models.build import ModelConfig
from rookery.models.image_encoders import RESIDUAL
from rookery.native.actor import attach_actor
from rookery.policies.export import read_policy, start_from
from rookery.policies.policy import Policy
from rookery.rollout.hooks import EpisodeListener
from rookery.rollout.mapping import EpisodeInfo, PolicyMapping
from rookery.run.checkpoint.path_folders import resolve_run
from rookery.run.checkpoint.replay_sources import replay_values
from rookery.run.checks.categorical_images import categorical_layers, categorical_paths
from rookery.run.checks.memory_check import check_copies, check_policies
from rookery.run.checks.misread_settings import misread_settings
from rookery.run.checks.named_policies import check_named
from rookery.run.checks.obs_scale import scale_layers
from rookery.run.checks.unused import unused_settings
from rookery.run.choose_algorithm import choice_notes, explain_choice, with_algorithm
from rookery.run.from_data import capacity_layers, env_of_data
from rookery.run.lessons.parameters import parameter_names, plan_before
from rookery.run.loggers import named_loggers
from rookery.run.opponents.self_play import entry_layers, exploiters_of
from rookery.run.presets import find_preset, space_layer
from rookery.run.ranks.learners import RankTask, learners_of
from rookery.run.ranks.run_workers import notes_of_workers, remote_env_stub
from rookery.run.settings import (
    SECTIONS,
    SHORTHANDS,
    RunConfig,
    algorithm_family,
    algorithm_name,
    has_own_class,
    settings_of,
)


def code_values(
    env: Any,
    algorithm: Settings | type[Settings] | str | None,
    policies: Mapping[str, Any] | Sequence[str] | None,
    policy_mapping: Any,
    seed: int | None,
    overrides: Mapping[str, Any],
) -> dict[str, Any]:
    """Returns the arguments of `Trainer` as one layer of paths and values.

    Raises:
        ConfigError: For an override that is neither a shorthand nor a section, with the nearest name; for two arguments
            that set the same value.
    """
    values: dict[str, Any] = {}
    called: dict[Keys, str] = {}
    wrong = []
    own = (type(algorithm).__name__, paths_of(type(algorithm))) if isinstance(algorithm, Settings) else ("", ())
    for name, value in overrides.items():
        if name == "model" and not isinstance(value, Settings | Mapping):
            values["algorithm.model.module"] = value
            called["algorithm.model.module",] = "model="
        elif name == "verbose" and "console" in overrides:
            wrong.append(f"code: verbose = {value!r}: console is given too; leave one of them out")
        elif name == "verbose":
            values["logging.console"] = "auto" if value else "quiet"
        elif name in ("replay", "memory"):  # `memory` is the former name
            values |= replay_values(value)
        elif name in SHORTHANDS or name in SECTIONS:
            path = SHORTHANDS.get(name, name)
            values[path] = value
            called[path,] = f"{name}="
        else:
            near = argument_hint(name, [*SHORTHANDS, *SECTIONS, "seed"], *own)
            wrong.append(f"code: {name} = {value!r}: Trainer has no such argument{near}")
    if wrong:
        raise ConfigError(*wrong)
    if isinstance(algorithm, str | type):
        values = {"algorithm": {"name": algorithm}, **values}  # first, so that shorthands override it
        algorithm = None
    if policies is not None:
        names = [policies] if isinstance(policies, str) else policies
        named = names if isinstance(names, Mapping) else dict.fromkeys(names)
        policy_mapping = mapping_of_agents(named, policy_mapping)
        settings = {name: {} if entry is None or is_agents(entry) else entry for name, entry in named.items()}
        values["policies"] = settings
    given = {"env.name": env, "algorithm": algorithm, "policy_mapping": policy_mapping, "seed": seed}
    values |= {path: value for path, value in given.items() if value is not None}
    called |= {(path,): f"{path.removesuffix('.name')}=" for path in ("env.name", "algorithm", "policies")}
    refuse_repeated(values, "code", {keys: f"code, {name}" for keys, name in called.items()})
    return values


def is_agents(entry: Any) -> bool:
    """Returns whether an entry of `policies` is a list of the policy's agents instead of its settings."""
    return isinstance(entry, list | tuple) and bool(entry) and all(isinstance(agent, str) for agent in entry)


def mapping_of_agents(policies: Mapping[str, Any], policy_mapping: Any) -> Any:
    """Returns the mapping given by entries of `policies` that are lists of agents; `policy_mapping` if there are none.

    Raises:
        ConfigError: If there is another mapping, or an agent is in two lists.
    """
    listed = {name: entry for name, entry in policies.items() if is_agents(entry)}
    if not listed:
        return policy_mapping
    if policy_mapping is not None:
        raise ConfigError(
            f"code: policies.{next(iter(listed))} lists agents, and policy_mapping is given too: leave one of them out"
        )
    found: dict[str, str] = {}
    for name, agents in listed.items():
        for agent in agents:
            if found.setdefault(agent, name) != name:
                raise ConfigError(f"code: policies: agent {agent!r} is in the lists of {found[agent]} and {name}")
    return found


def layers_of(config: Any) -> list[Layer]:
    """Returns layers of settings from paths, dicts and layers, none, one or several.

    Raises:
        ConfigError: If an item is none of these, a file cannot be read, or a file or dict gives a setting twice.
    """
    items = config if isinstance(config, list | tuple) else [] if config is None else [config]
    layers = []
    for item in items:
        if isinstance(item, Layer):
            layers.append(item)
        elif isinstance(item, str | Path):
            layers.append(yaml_layer(Path(item)))
        elif isinstance(item, Mapping):
            refuse_repeated(item, "code")
            layers.append(Layer("code", item))
        else:
            raise ConfigError(f"code: config = {item!r}: use a path of a YAML file, a dict or a Layer")
    return layers


def callbacks_of(callbacks: Any) -> list[EpisodeListener]:
    """Returns the callbacks of a trainer as a list.

    Raises:
        ConfigError: If they are not objects in a list.
    """

    def name(callback: Any) -> str:
        return str(getattr(callback, "__name__", type(callback).__name__))

    if isinstance(callbacks, EpisodeListener) or not isinstance(callbacks, Sequence):
        raise ConfigError(f"callbacks = {callbacks!r}: pass a list, as in callbacks=[{name(callbacks)}()]")
    for callback in callbacks:
        if isinstance(callback, type):
            raise ConfigError(f"callbacks: {name(callback)} is a class; pass an object, callbacks=[{name(callback)}()]")
        if not isinstance(callback, EpisodeListener):
            raise ConfigError(f"callbacks: {callback!r} is not a Callback; derive its class from rookery.Callback")
    return list(callbacks)


def _resolve_here(task: RankTask) -> tuple[RankTask, Resolved[RunConfig], list[str]]:
    """Resolves settings that depend on where the program runs, the console in a notebook and ``device=auto``, and the
    algorithm where none is named.

    Returns:
        The task with these layers, its settings, and notes.
    """
    refuse_while_defining("makes a trainer")
    if in_notebook():
        task = replace(task, layers=[Layer("default in a notebook", {"logging.console": "auto"}), *task.layers])
    task = replace(task, layers=with_algorithm(task.layers, task.preset))
    with explain_choice(task.layers):
        resolved = resolve_run(task.layers)
    if resolved.config.device != AUTO:
        return task, resolved, choice_notes(task.layers)
    chosen = Layer(f"device = auto: {devices()[0]} (here are {', '.join(devices())})", {"device": devices()[0]})
    task = replace(task, layers=[*task.layers, chosen])
    return task, resolve_run(task.layers), [*choice_notes(task.layers), chosen.source]


def prepare(
    task: RankTask, stand_in: VectorEnv | None, ranks: Ranks
) -> tuple[Resolved[RunConfig], VectorEnv, PolicyMapping, list[EpisodeListener], list[str], Ranks]:
    """Resolves the settings and makes the environments, on which presets depend, unless a placeholder is given.

    Returns:
        Settings, environments, mapping, callbacks, notes and learners.
    """
    task, first, here = _resolve_here(task)
    callbacks = [*task.callbacks, *named_loggers(first.config.logging.loggers)]
    env_cfg = first.config.env
    stand_in = stand_in or env_of_data(first.config)
    if env_cfg.name is None and stand_in is None:
        raise ConfigError(
            "env.name is missing: name an environment, as in Trainer('CartPole-v1') or env: {name: CartPole-v1}"
        )
    name = DATA if env_cfg.name is None else env_name(env_cfg.name)
    found = find_preset(task.preset, name, algorithm_family(first.config.algorithm))
    presets = [] if found is None else [Layer(f"preset {found[0]}", found[1])]
    layers, notes = [*presets, *capacity_layers(first.config), *task.layers], [*here, *(one.source for one in presets)]
    second = first if layers == task.layers else resolve_run(layers)
    check_device(second.config.device)
    learning = [entry.algorithm for entry in second.config.policies.values() if not entry.frozen]
    if any(cfg.model.compile for cfg in learning or [second.config.algorithm]):
        check_compiler()
    ranks = learners_of(second.config, task, ranks, stand_in)
    env: VectorEnv
    if stand_in is not None:
        env = _given_copies(stand_in, second.config)
    elif second.config.sampling.workers:
        env = remote_env_stub(second, make_copies)
        notes.extend(env.notes)
    else:
        choice = _choice(second)
        check_copies(second, lambda lanes: make_copies(second.config, lanes))
        with first_plan_by(plan_before(second) if ranks.size == 1 else None):
            env, choice = _played_copies(second.config, ranks.share(second.config.sampling.num_envs)[1], choice)
        if choice.measured:
            layers.insert(0, Layer(MEASURED, choice.measured))
        cfg = second.config.env
        one_by_one = why_no_variant(cfg.name, cfg.config, cfg.wrappers, env.num_lanes, parameter_names(second.config))
        notes.extend((*filter(None, [one_by_one, choice.reason]), *env.notes))
    exploiters = exploiters_of(second.config.self_play)
    names = [name for name in second.config.policies if name not in exploiters] or ["main"]
    layers += entry_layers(second)
    check_named(task.layers, [agent for kind in env.kinds for agent in kind.agents], second.config.policy_mapping)
    mapping = PolicyMapping(second.config.policy_mapping, names)
    decisions, kinds = second.config.sampling.warmup_steps, kinds_of(env, mapping)
    if decisions and has_throwaways(env):
        config, observed = second.config, {name: kinds.get(name, env.kinds[0]).obs.own for name in names}
        # in the user's torch modes, because only environments run
        decided, lines = call_in_user_modes(
            categorical_layers, config, observed, lambda: _throwaway_copies(config, env)
        )
        layers, notes = [*layers, *decided], [*notes, *lines]
        second = resolve_run(layers) if decided else second
    space_layers = _space_layers(second, env, mapping, [*names, *exploiters])
    resolved = resolve_run([*space_layers, *layers])
    if decisions and has_throwaways(env):
        config = resolved.config
        scaled, lines = call_in_user_modes(scale_layers, config, observed, lambda: _throwaway_copies(config, env))
        notes += lines
        resolved = resolve_run([*space_layers, *layers, *scaled]) if scaled else resolved
    check_policies(resolved, kinds, lambda name: _slots(env, mapping, name))
    notes += [*unused_settings(resolved, kinds), *_notes_of_copies(resolved, env, stand_in), *resolved.notes]
    notes += [*_precision_notes(resolved, env, mapping), *_sequence_notes(resolved), *notes_of_workers(resolved, env)]
    return resolved, env, mapping, callbacks, [*notes, *misread_settings(resolved)], ranks


def make_copies(
    config: RunConfig, lanes: int, choice: HelperChoice | None = None, *, render: bool = False
) -> VectorEnv:
    """Returns vectorized environments of a run.

    Args:
        config: The settings of the run.
        lanes: Number of environments.
        choice: Implementation and environment processes; None for environments outside the training, without processes.
        render: Whether they can render images.

    Raises:
        ConfigError: If the run has no environment.
    """
    cfg, sampling = config.env, config.sampling
    if cfg.name is None:
        raise ConfigError(
            "this run has learned from data and has no environment to evaluate in: name one, as in rookery evaluate "
            "RUN --env CartPole-v1 or Trainer.load(RUN, env='CartPole-v1'); if there is none, evaluate it on data: "
            "rookery evaluate RUN --replay DATA"
        )
    with users_modes():
        env = make_env(
            cfg.name,
            cfg.config,
            cfg.wrappers,
            lanes,
            choice.implementation if choice else cfg.implementation,
            helpers=choice.helpers if choice else 0,
            tolerance=Tolerance(
                cfg.on_error, sampling.max_restarts, sampling.step_timeout_seconds, sampling.reset_timeout_seconds
            ),
            max_entities=cfg.max_entities,
            render=render,
            parameters=parameter_names(config),
            device=config.device,
            try_helpers=choice is not None and not choice.demanded,
        )
    if choice is None and isinstance(env, VectorBase):
        env.in_turn = True
    return as_played(env, config)


def _played_copies(config: RunConfig, lanes: int, choice: HelperChoice) -> tuple[VectorEnv, HelperChoice]:
    """Returns the environments that a run trains in, and their stepping: this process instead of environment processes
    that were not demanded and cannot build or step them.
    """
    try:
        return make_copies(config, lanes, choice), choice
    except EnvError as error:
        if choice.demanded or not choice.helpers:
            raise
        choice = choice.without_helpers(env_name(config.env.name), error)
    return make_copies(config, lanes, choice), choice


def as_played(env: VectorEnv, config: RunConfig) -> VectorEnv:
    """Returns environments as policies see them: with teams, and with groups where an algorithm needs them.

    Args:
        env: The plain environments.
        config: The settings of the run.
    """
    if config.teams:
        env = TeamEnv(env, config.teams)
    learning = [entry.algorithm for entry in config.policies.values()] or [config.algorithm]
    if any(settings.capabilities.needs_group_obs for settings in learning):
        timesteps = any(settings.capabilities.needs_timestep_id for settings in learning)
        ids = any(settings.adds_member_id for settings in learning)
        return GroupEnv(env, timesteps, ids, rivals=bool(config.self_play))
    return env


def _given_copies(env: VectorEnv, config: RunConfig) -> VectorEnv:
    """Returns existing environments as policies see them."""
    if isinstance(env, PlaceholderEnv):
        return env
    lanes = config.sampling.num_envs
    if env.num_lanes != lanes:
        raise ConfigError(
            f"sampling.num_envs = {lanes}: the number of environments in the given {env.name} is {env.num_lanes}: "
            f"set sampling.num_envs={env.num_lanes}, or give one with {lanes}"
        )
    return as_played(env, config)


def _notes_of_copies(resolved: Resolved[RunConfig], env: VectorEnv, stand_in: VectorEnv | None) -> list[str]:
    """Returns notes of existing environments, and a note if a requested warm-up is left out."""
    decisions = resolved.config.sampling.warmup_steps
    notes = [] if stand_in is None else list(env.notes)
    usual = type(resolved.config.sampling)().warmup_steps  # which every stored run gives
    requested = decisions not in (0, usual) and not isinstance(env, PlaceholderEnv)
    if requested and not has_throwaways(env):
        notes.append(
            f"sampling.warmup_steps = {decisions:,}: there is no random warm-up in {env.name}, because no throwaway "
            "environments of it can be made: observation statistics start with the first samples"
        )
    return notes


def _throwaway_copies(config: RunConfig, env: VectorEnv) -> VectorEnv:
    """Returns a few environments for random play before the training."""
    return make_copies(config, min(4, env.num_lanes))


def _choice(resolved: Resolved[RunConfig]) -> HelperChoice:
    """Returns how environments are stepped: by the settings, or by a measurement if these leave it open."""
    env, sampling = resolved.config.env, resolved.config.sampling
    settings = env.name, env.config, env.wrappers
    parameters = parameter_names(resolved.config)
    if not has_single_envs(*settings, sampling.num_envs, env.implementation, parameters):
        return HelperChoice(env.implementation, 0)
    if env.implementation == "serial" and sampling.env_processes:
        raise ConfigError(
            f"sampling.env_processes = {sampling.env_processes}, and env.implementation = serial has none: leave one "
            "of them out, or set env.implementation=processes"
        )
    if env.implementation == "auto" and sampling.env_processes is None:
        maker = lane_maker(*settings, max_entities=env.max_entities)
        with users_modes():
            return choose(maker, sampling.num_envs, env_name(env.name), why_process_bound(env.name))
    if env.implementation == "serial":
        return HelperChoice("serial", 0)
    helpers = max(usable_cores() - 1, 1) if sampling.env_processes is None else sampling.env_processes
    sources = [resolved.history[path][-1][0] for path in ("env.implementation", "sampling.env_processes")]
    implementation = "processes" if env.implementation == "auto" else env.implementation
    return HelperChoice(implementation, helpers, demanded=not all(source.endswith(MEASURED) for source in sources))


def _space_layers(
    resolved: Resolved[RunConfig], env: VectorEnv, mapping: PolicyMapping, names: list[str]
) -> list[Layer]:
    """Returns space presets: of the section `algorithm` if all policies have the same, else of each policy. They
    include bfloat16 for image policies if the hardware supports it.
    """
    kinds = kinds_of(env, mapping)

    def layer(name: str, prefix: str) -> Layer:
        cfg = settings_of(resolved.config, name)
        kind = kinds.get(name, env.kinds[0])
        remembers = isinstance(cfg.model, ModelConfig) and cfg.model.remembers
        codes = categorical_paths(cfg.model)
        made = space_layer(algorithm_name(cfg), kind.obs, kind.action, prefix, remembers=remembers, codes=codes)
        if _sees_images(kind, cfg) and cfg.model.cnn not in RESIDUAL and has_bfloat16(resolved.config.device):
            return Layer(made.source, {**made.values, f"{prefix}.model.precision": "bfloat16"})
        return made

    common = {str(layer(name, "algorithm")) for name in names}
    if len(common) == 1 and not has_own_class(resolved.config):
        return [layer(names[0], "algorithm")]
    own = []
    for name in names:
        made = layer(name, f"policies.{name}")
        # a policy's own entry would override the user's settings for all: such paths are left out
        kept = {path: value for path, value in made.values.items()
                if not resolved.given(path.replace(f"policies.{name}", "algorithm", 1))}  # fmt: skip
        own.append(Layer(made.source, kept))
    return own


def _sees_images(kind: Kind, cfg: Any) -> bool:
    """Returns whether a policy has a built-in network for images of pixels."""
    images = any(leaf.is_image and leaf.path not in categorical_paths(cfg.model) for leaf in kind.obs.leaves)
    return images and isinstance(cfg.model, ModelConfig) and cfg.model.module is None


def _precision_notes(resolved: Resolved[RunConfig], env: VectorEnv, mapping: PolicyMapping) -> list[str]:
    """Returns notes on the precision of image networks, if it is not float32."""
    kinds, device = kinds_of(env, mapping), resolved.config.device
    learning = {name: entry.algorithm for name, entry in resolved.config.policies.items() if not entry.frozen}
    with_images = {name: cfg for name, cfg in learning.items() if name in kinds and _sees_images(kinds[name], cfg)}
    short = ", ".join(name for name, cfg in with_images.items() if cfg.model.precision == "bfloat16")
    if not short:
        return []
    if has_bfloat16(device):
        return [f"image networks learn in bfloat16 ({short}; model.precision)"]
    return [
        f"model.precision = 'bfloat16' ({short}): the {device} here has no such instructions, so learning is slow; the "
        "run keeps it, because float32 would learn other weights"
    ]


def kinds_of(env: VectorEnv, mapping: PolicyMapping) -> dict[str, Kind]:
    """Returns the kind of each policy's agents, as far as it is known before sampling."""
    found: dict[str, Kind] = {}
    if not mapping.is_static:
        if len(env.kinds) == 1:
            found = dict.fromkeys(mapping.policies, env.kinds[0])
        for name, (obs, action) in mapping.spaces.items():
            fitting = [kind for kind in env.kinds if kind.obs.space == obs and kind.action.space == action]
            found[name] = fitting[0] if fitting else Kind((), obs_spec(obs, action), action_spec(action))
        return found
    info = EpisodeInfo(0, 0, Streams(0))
    for kind in env.kinds:
        for agent in kind.agents:
            name = mapping(agent, info)
            if name in found and found[name] is not kind:
                raise ConfigError(
                    f"policy_mapping: policy {name!r} cannot play both {found[name].agents[0]!r} (observes "
                    f"{found[name].obs.space}, acts in {found[name].action.space}) and {agent!r} (observes "
                    f"{kind.obs.space}, acts in {kind.action.space}); give them policies of their own"
                )
            found[name] = kind
    return found


def _slots(env: VectorEnv, mapping: PolicyMapping, name: str) -> int:
    """Returns the number of a policy's agents in all environments; one per environment if unknown before sampling."""
    if not mapping.is_static:
        return env.num_lanes
    info = EpisodeInfo(0, 0, Streams(0))
    played = [agent for kind in env.kinds for agent in kind.agents if mapping(agent, info) == name]
    return env.num_lanes * len(played)


def _sequence_notes(resolved: Resolved[RunConfig]) -> list[str]:
    """Returns notes on memories that learn through shorter sequences than set."""
    notes = []
    for name, entry in resolved.config.policies.items():
        length, model = getattr(entry.algorithm, "fragment_length", None), entry.algorithm.model
        if entry.frozen or length is None or not isinstance(model, ModelConfig) or not model.remembers:
            continue
        if length < model.memory.sequence_length:
            notes.append(
                f"policy {name} learns through {length} consecutive decisions, its fragment_length, and not through "
                f"{model.memory.sequence_length} (model.memory.sequence_length)"
            )
    return notes


def check_learner(learner: Algorithm[Any], resolved: Resolved[RunConfig]) -> None:
    """Refuses an algorithm that does not support the settings of its policy.

    Raises:
        ConfigError: If it does not support stale rollouts or policies with memory, and the run has these.
    """
    name, algorithm, known = learner.name, type(learner).__name__, learner.capabilities
    if learner.staleness and not known.supports_staleness:
        ahead = "asynchronous" if resolved.config.sampling.asynchronous else "staleness"
        now, never = ("true", "false") if ahead == "asynchronous" else ("1", "0")
        others = one_of(algorithms_with(supports_staleness=True, uses_replay=False))
        raise ConfigError(
            f"{resolved.history[f'sampling.{ahead}'][-1][0]}: sampling.{ahead} = {now}: policy {name!r} is trained by "
            f"{algorithm}, which cannot learn from rollouts of older weights; use {others}, or sampling.{ahead} = "
            f"{never}"
        )
    if learner.policy.memory_size and not known.supports_memory:
        plain = {"offline": False, "needs_team": False, "needs_group_obs": False}
        advice = f"use {one_of(algorithms_with(supports_memory=True, **plain))}"
        if known.offline:
            advice = "use dt on data, which attends to its last decisions (--algo dt, algorithm.context)"
        raise ConfigError(
            f"policies.{name}.model.memory: policy {name!r} is trained by {algorithm}, which learns from single "
            f"decisions and does not support memory; {advice}, or leave memory out"
        )


def make_policy(name: str, kind: Kind, config: RunConfig, streams: Streams, env: VectorEnv) -> Policy:
    """Returns a policy before training: with initial weights, or those of `init_from`, and observation statistics.

    Args:
        name: Its name in the mapping.
        kind: Its kind of agents.
        config: The settings of the run.
        streams: Its streams.
        env: The environments that it trains in.
    """
    entry = config.policies[name]
    cfg = entry.algorithm
    generator = torch.Generator().manual_seed(streams.integer(Role.INIT, name, 0))
    policy = cfg.build_policy(kind.obs, kind.action, name, generator)
    decisions = config.sampling.warmup_steps
    if entry.init_from is not None:
        same = {*texts_in([cfg.model.module]), object_name(type(policy.head_spec))}  # as the network has to be anyway
        way_out = f"if you trust its author, give policy {name!r} the same model"
        start_from(policy, read_policy(entry.init_from, trust_code=same, way_out=way_out), entry.init_from)
    elif policy.normalizer is not None and decisions and not cfg.capabilities.offline and has_throwaways(env):
        warm_up(policy, kind, _throwaway_copies(config, env), streams, decisions)
    return attach_actor(policy).to(torch.device(config.device))


def warm_up(policy: Policy, kind: Kind, env: VectorEnv, streams: Streams, decisions: int) -> None:
    """Initializes observation statistics by random play.

    Args:
        policy: The policy with the normalizer.
        kind: Its kind of agents.
        env: Throwaway environments; closed afterwards.
        streams: The run's streams; only those of the warm-up are used.
        decisions: Number of decisions in all environments together.
    """
    assert policy.normalizer is not None
    seeds = Streams(streams.integer(Role.WARMUP)).episodes(Role.ENV)
    rng = streams.generator(Role.WARMUP, policy.name)
    steps = -(-decisions // env.num_lanes)
    shown = call_in_user_modes(random_rows, env, seeds, steps, rng)
    for other, tree in zip(env.kinds, shown, strict=True):
        if policy.obs_spec.is_within(other.obs) and other.action == kind.action:
            policy.normalizer.update({path: torch.from_numpy(array) for path, array in tree.items()})
