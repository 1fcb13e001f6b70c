"""One training: the loop that plays, learns and hands out weights. Concrete; it is never subclassed.

`Trainer.train_iteration` is the whole of it, and the only place that loops over policies.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from secrets import randbits
from time import perf_counter
from typing import Any, Self

import torch

from rookery.algorithms.algorithm import Algorithm, Row
from rookery.core.batch import Rollout, flat
from rookery.core.config import Resolved, resolve
from rookery.core.errors import ConfigError
from rookery.core.layers import Layer, import_object, yaml_layer
from rookery.core.seeding import Role, Streams
from rookery.core.settings import Settings
from rookery.core.state import Stateful
from rookery.core.timers import Timers
from rookery.envs.base import Kind, VectorEnv
from rookery.envs.make import env_name, make_env, random_rows
from rookery.policies.policy import Policy
from rookery.rollout.mapping import EpisodeInfo, MappingFunction, PolicyMapping
from rookery.rollout.pool import WorkerPool
from rookery.rollout.worker import RolloutWorker
from rookery.training.console import Reporter, reporter
from rookery.training.evaluation import Recorder, play, summarize
from rookery.training.presets import find_preset, space_layer
from rookery.training.results import EvaluationResult, IterationResult, PolicyResult, Windows, mean, mean_rows
from rookery.training.settings import RunConfig, algorithm_class, algorithm_name, spread
from rookery.training.stopping import Stop, StopFunction

CAP = 10
"""An iteration without a fixed length ends at the latest after this many times the largest demand, in environment
steps.
"""


class Trainer(Stateful):
    """Trains one or many policies in one environment.

    Args:
        env: A Gymnasium id, an environment class, a function that makes one, or an import path ``my.module:MyEnv``.
            None if the
            configuration names it.
        algorithm: Settings of the algorithm, ``PPOConfig(lr=1e-3)``: for the policy ``main``, or what every entry of
            `policies`
            starts from.
        policies: Policies by name: settings, or ``None`` for those of `algorithm`, or a dict with ``frozen`` and
            settings.
        policy_mapping: Which policy plays which agent: a dict, or a function ``(agent, episode) -> policy``. Not
            needed for a
            single policy, or where policies are named like agents.
        config: More layers, weakest first: paths of YAML files, dicts of paths and values, or `Layer` objects.
        preset: ``none``, ``auto`` (the preset of a known environment) or the name of one.
        seed: Names all random streams; None = drawn once, see `trainer.seed`.
        run_dir: Folder for `metrics.jsonl`, `config.yaml` and `timers.json`; None writes nothing.
        overrides: Shorthands such as ``num_envs=16``, or whole sections such as
            ``evaluation=EvaluationConfig(every=5)``.

    Raises:
        ConfigError: If a setting is wrong; says all that are.
        EnvError: If the environment cannot be made or used.
    """

    saved = ("pool", "learners", "policies", "windows", "timers", "iteration", "seconds", "decisions", "last_learning",
             "last_evaluation", "frozen", "horizon")  # fmt: skip
    fixed = ("resolved", "config", "seed", "streams", "env", "mapping", "reporter", "run_dir", "notes", "stop_function",
             "_evaluation_env")  # fmt: skip

    def __init__(
        self,
        env: Any = None,
        algorithm: Settings | None = None,
        *,
        policies: Mapping[str, Any] | Sequence[str] | None = None,
        policy_mapping: Mapping[str, str] | MappingFunction | None = None,
        config: Any = (),
        preset: str = "none",
        seed: int | None = None,
        run_dir: str | Path | None = None,
        **overrides: Any,
    ) -> None:
        torch.set_num_threads(1)
        values = _code_values(env, algorithm, policies, policy_mapping, seed, overrides)
        user_layers = [*_layers(config), Layer("code", values)]
        self.resolved, self.env, self.mapping, self.notes = _prepare(user_layers, preset)
        self.config: RunConfig = self.resolved.config
        self.seed: int = randbits(31) if self.config.seed is None else self.config.seed
        self.streams = Streams(self.seed)
        self.timers = Timers()
        self.policies: dict[str, Policy] = {}
        self.learners: dict[str, Algorithm[Any]] = {}
        self.frozen: list[str] = []
        self.windows = Windows()
        self.iteration = 0
        self.seconds = 0.0
        self.decisions: dict[str, int] = {}
        self.last_learning: dict[str, Row] = {}
        self.last_evaluation: EvaluationResult | None = None
        self.horizon: int | None = None
        self.stop_function: StopFunction | None = None
        self.reporter: Reporter = reporter(self.config.logging.console)
        self._evaluation_env: VectorEnv | None = None
        worker = RolloutWorker(
            self.env, self.mapping, self.streams, self.streams.episodes(Role.ENV), self._introduce, self.timers
        )
        self.pool = WorkerPool(worker)
        for name, kind in _kinds_of(self.env, self.mapping).items():
            self._introduce(name, kind)
        self.run_dir = None if run_dir is None else Path(run_dir)
        if self.run_dir is not None:
            self.run_dir.mkdir(parents=True, exist_ok=True)
            (self.run_dir / "config.yaml").write_text(self.resolved.to_yaml(), encoding="utf-8")

    # --- the loop -----------------------------------------------------------------------------------------------------

    def train_iteration(self) -> IterationResult:
        """Plays and learns for one iteration: `sampling.iteration_steps` environment steps, or one update of every
        learner.
        """
        began, before = perf_counter(), self.env_steps
        learned: dict[str, list[Row]] = {name: [] for name in self.policies}
        sizes: dict[str, tuple[int, int]] = {}
        with self.timers["train_iteration"]:
            while (budget := self._remaining(before, learned)) > 0:
                with self.timers["sample"]:
                    rollouts = self.pool.sample(budget)
                for name, rollout in rollouts.items():
                    learned[name].append(self._learn(name, rollout))
                    sizes[name] = (rollout.num_decisions, rollout.num_cut)
                with self.timers["set_weights"]:
                    self.pool.set_weights({name: self.policies[name] for name in rollouts})
            self.iteration += 1
            self.windows.add(self.pool.drain_finished())
            evaluation = None
            every = self.config.evaluation.every
            if every and self.iteration % every == 0:
                evaluation = self.evaluate()
        took = perf_counter() - began
        self.seconds += took
        self.last_learning |= {name: mean_rows(rows) for name, rows in learned.items() if rows}
        result = self._result(sizes, evaluation, (self.env_steps - before) / took)
        self._write(result)
        return result

    def _learn(self, name: str, rollout: Rollout) -> Row:
        """One update of one policy; its observation statistics move afterwards, and only here."""
        learner, policy = self.learners[name], self.policies[name]
        learner.env_steps, learner.horizon = self.env_steps, self.horizon
        with self.timers["training_step"]:
            row = learner.training_step(rollout)
        if policy.normalizer is not None:
            rows = rollout.valid_rows()
            policy.normalizer.update({path: flat(leaf, rows) for path, leaf in rollout.obs.items()})
        self.decisions[name] = self.decisions.get(name, 0) + rollout.num_decisions
        return row

    def _remaining(self, before: int, learned: dict[str, list[Row]]) -> int:
        """Environment steps this iteration may still take."""
        played = self.env_steps - before
        if self.config.sampling.iteration_steps is not None:
            return self.config.sampling.iteration_steps - played
        if not self.learners:
            return (1000 if self.policies or not played else 0) - played
        if all(learned[name] for name in self.learners):
            return 0
        demands = [learner.demand for learner in self.learners.values()]
        largest = max(d.decisions or d.fragment_length * self.env.num_lanes for d in demands)
        return CAP * largest - played

    def iterations(self) -> Iterator[IterationResult]:
        """Iterations without end; break when you have seen enough."""
        while True:
            yield self.train_iteration()

    def train(self, stop: Mapping[str, float] | StopFunction | None = None) -> IterationResult:
        """Trains until any criterion is reached; returns the last result.

        Args:
            stop: Criteria such as ``{"return_mean": 18, "env_steps": 200_000}`` on the whole life of the run, added to
                those of
                the configuration; or a function that looks at each result and says True to stop.

        Raises:
            ConfigError: If nothing would ever end the training, or a criterion names no metric.
        """
        criteria = dict(self.config.stop)
        if callable(stop):
            self.stop_function = stop
        elif isinstance(stop, Mapping):
            criteria |= stop
        elif stop is not None:
            raise ConfigError(f'stop = {stop!r}: use criteria like {{"env_steps": 100_000}}, or a function of a result')
        rule = Stop(criteria, self.stop_function)
        if not rule.criteria and rule.function is None:
            raise ConfigError('stop: nothing ends this training; say when, as in train(stop={"env_steps": 100_000})')
        measured = [name for name in criteria if name.startswith("evaluation")]
        if measured and not self.config.evaluation.every:
            raise ConfigError(f"stop.{measured[0]}: nothing is evaluated in training; set evaluation.every, to 5 say")
        if self.horizon is None and "env_steps" in criteria:
            self.horizon = int(criteria["env_steps"])
        self._warn_of_schedules(criteria)
        self.reporter.start(self, criteria)
        try:
            while True:
                result = self.train_iteration()
                reason = rule.reason(result)
                result = replace(result, stop_reason=reason)
                self.reporter.iteration(result)
                if reason:
                    return result
        finally:
            self.reporter.finish(self)
            self._write_timers()

    def evaluate(self, episodes: int | None = None, deterministic: bool | None = None) -> EvaluationResult:
        """Plays episodes to measure; nothing is learned, and training goes on as if it had not happened.

        Args:
            episodes: How many; None = `evaluation.episodes`.
            deterministic: Play the most likely actions; None = `evaluation.deterministic`.
        """
        cfg = self.config.evaluation
        count = cfg.episodes if episodes is None else episodes
        if count < 1:
            raise ConfigError(f"evaluate: episodes = {count}: must be at least 1")
        greedy = cfg.deterministic if deterministic is None else deterministic
        with self.timers["evaluate"]:
            lanes = min(count, cfg.num_envs)
            env = self._evaluation_env
            if env is None or env.num_lanes != lanes:
                if env is not None:
                    env.close()
                env = self._evaluation_env = self._make_env(lanes)
            results = play(env, self.policies, self.mapping, self.streams, episodes=count, deterministic=greedy)
        self.last_evaluation = summarize(results, env_steps=self.env_steps, deterministic=greedy)
        return self.last_evaluation

    def record(
        self,
        path: str | Path,
        episodes: int = 1,
        deterministic: bool | None = None,
        max_frames: int = 1000,
        frames_per_second: float = 12.0,
    ) -> EvaluationResult:
        """Plays episodes in one environment and writes them as an animation.

        Args:
            path: The file: ``.webp`` (smallest), ``.gif`` or ``.png``.
            episodes: How many.
            deterministic: Play the most likely actions; None = `evaluation.deterministic`.
            max_frames: Pictures, at most.
            frames_per_second: Speed of the animation.
        """
        greedy = self.config.evaluation.deterministic if deterministic is None else deterministic
        env = self._make_env(1, render=True)
        recorder = Recorder(max_frames)
        try:
            results = play(
                env,
                self.policies,
                self.mapping,
                self.streams,
                episodes=episodes,
                deterministic=greedy,
                after_step=recorder,
            )
        finally:
            env.close()
        recorder.save(Path(path), frames_per_second)
        return summarize(results, env_steps=self.env_steps, deterministic=greedy)

    def close(self) -> None:
        """Frees the environments."""
        self.pool.close()
        if self._evaluation_env is not None:
            self._evaluation_env.close()
            self._evaluation_env = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- making the parts ---------------------------------------------------------------------------------------------

    @property
    def env_steps(self) -> int:
        """Environment steps of the run so far."""
        return self.pool.worker.env_steps

    def _make_env(self, lanes: int, render: bool = False) -> VectorEnv:
        cfg = self.config.env
        return make_env(cfg.name, cfg.config, cfg.wrappers, lanes, cfg.implementation, render=render)

    def _introduce(self, name: str, kind: Kind) -> None:
        """Makes a policy, and the algorithm that learns it, when its first agent is known."""
        entry = self.config.policies[name]
        generator = torch.Generator().manual_seed(self.streams.integer(Role.INIT, name, 0))
        policy = Policy(kind.obs, kind.action, entry.algorithm.model, name=name, generator=generator)
        self.policies[name] = policy
        if policy.normalizer is not None and self.config.sampling.warmup_steps:
            self._warm_up(policy, kind)
        if entry.frozen:
            policy.requires_grad_(False)
            self.frozen.append(name)
            self.pool.add_policy(name, policy, None)
            return
        make: type[Algorithm[Any]] = import_object(entry.algorithm.algorithm)
        learner = self.learners[name] = make(policy, entry.algorithm, self.streams, name)
        self.pool.add_policy(name, policy, learner.demand)

    def _warm_up(self, policy: Policy, kind: Kind) -> None:
        """Starts observation statistics from random play on throwaway copies."""
        assert policy.normalizer is not None
        lanes = min(4, self.env.num_lanes)
        env = self._make_env(lanes)
        seeds = Streams(self.streams.integer(Role.WARMUP)).episodes(Role.ENV)
        rng = self.streams.generator(Role.WARMUP, policy.name)
        steps = -(-self.config.sampling.warmup_steps // lanes)
        for other, tree in zip(env.kinds, random_rows(env, seeds, steps, rng), strict=True):
            if other.obs == kind.obs and other.action == kind.action:
                policy.normalizer.update({path: torch.from_numpy(array) for path, array in tree.items()})

    def _warn_of_schedules(self, criteria: Mapping[str, float]) -> None:
        if self.horizon is not None:
            return
        for name, learner in self.learners.items():
            endless = learner.cfg.open_schedules()
            if endless:
                self.reporter.note(
                    f"policies.{name}: {', '.join(endless)} would change until stop.env_steps, "
                    "which is not set: constant"
                )

    # --- reporting ----------------------------------------------------------------------------------------------------

    def _result(
        self, sizes: dict[str, tuple[int, int]], evaluation: EvaluationResult | None, speed: float
    ) -> IterationResult:
        windows = self.windows
        policies = {}
        for name in self.policies:
            valid, cut = sizes.get(name, (0, 0))
            policies[name] = PolicyResult(
                return_mean=mean(windows.policies.get(name, ())),
                episodes=windows.agent_episodes.get(name, 0),
                decisions=self.decisions.get(name, 0),
                valid_rows=valid,
                cut_fragments=cut,
                learning=self.last_learning.get(name, {}),
            )
        return IterationResult(
            iteration=self.iteration,
            env_steps=self.env_steps,
            episodes=windows.episodes,
            return_mean=mean(windows.totals),
            return_min=min(windows.totals, default=None),
            return_max=max(windows.totals, default=None),
            length_mean=mean(windows.lengths),
            running_length=float(self.pool.worker.lengths.mean()),
            agents={agent: value for agent, values in windows.agents.items() if (value := mean(values)) is not None},
            policies=policies,
            evaluation=evaluation,
            seconds=self.seconds,
            steps_per_second=speed,
            exact=self.env.exact,
        )

    def _write(self, result: IterationResult) -> None:
        if self.run_dir is not None:
            with (self.run_dir / "metrics.jsonl").open("a", encoding="utf-8") as file:
                file.write(json.dumps(result.row()) + "\n")

    def _write_timers(self) -> None:
        if self.run_dir is not None:
            (self.run_dir / "timers.json").write_text(json.dumps(self.timers.state_dict(), indent=1), encoding="utf-8")


def _code_values(
    env: Any,
    algorithm: Settings | None,
    policies: Mapping[str, Any] | Sequence[str] | None,
    policy_mapping: Any,
    seed: int | None,
    overrides: Mapping[str, Any],
) -> dict[str, Any]:
    """The arguments of `Trainer` as one layer of paths and values."""
    sections = {"sampling", "evaluation", "stop", "logging", "device"}
    values = spread(overrides, lambda name: name in sections)
    if env is not None:
        values["env.name"] = env
    if algorithm is not None:
        values["algorithm"] = algorithm
    if policies is not None:
        names = [policies] if isinstance(policies, str) else policies
        named = names if isinstance(names, Mapping) else dict.fromkeys(names)
        values["policies"] = {name: {} if entry is None else entry for name, entry in named.items()}
    if policy_mapping is not None:
        values["policy_mapping"] = policy_mapping
    if seed is not None:
        values["seed"] = seed
    return values


def _layers(config: Any) -> list[Layer]:
    """Layers from paths, dicts and layers, one or several."""
    items = config if isinstance(config, list | tuple) else [config]
    layers = []
    for item in items:
        if isinstance(item, Layer):
            layers.append(item)
        elif isinstance(item, str | Path):
            layers.append(yaml_layer(Path(item)))
        elif isinstance(item, Mapping):
            layers.append(Layer("code", item))
        else:
            raise ConfigError(f"code: config = {item!r}: use a path of a YAML file, a dict or a Layer")
    return layers


def _prepare(user_layers: list[Layer], preset: str) -> tuple[Resolved, VectorEnv, PolicyMapping, list[str]]:
    """Resolves the settings and makes the environments, which presets depend on."""
    first = resolve(RunConfig, user_layers, algorithm_class)
    env_cfg = first.config.env
    if env_cfg.name is None:
        raise ConfigError(
            "env.name is missing: say which environment, as in Trainer('CartPole-v1') or env: {name: CartPole-v1}"
        )
    name = env_name(env_cfg.name)
    notes = []
    layers = list(user_layers)
    found = find_preset(preset, name)
    if found is not None:
        notes.append(f"preset {found[0]}")
        layers.insert(0, Layer(f"preset {found[0]}", found[1]))
    second = resolve(RunConfig, layers, algorithm_class)
    env = make_env(
        env_cfg.name, env_cfg.config, env_cfg.wrappers, second.config.sampling.num_envs, env_cfg.implementation
    )
    notes.extend(env.notes)
    names = list(second.config.policies) or ["main"]
    if not second.config.policies:
        layers.append(Layer("default", {"policies.main": {}}))
    mapping = PolicyMapping(second.config.policy_mapping, names)
    space_layers = _space_layers(second, env, mapping, names)
    resolved = resolve(RunConfig, [*space_layers, *layers], algorithm_class)
    notes.extend(resolved.notes)
    return resolved, env, mapping, notes


def _space_layers(resolved: Resolved, env: VectorEnv, mapping: PolicyMapping, names: list[str]) -> list[Layer]:
    """Space presets: of the `algorithm` section where all policies agree on one, else of each policy."""
    kinds = _kinds_of(env, mapping)
    entries = resolved.config.policies

    def layer(name: str, prefix: str) -> Layer:
        entry = entries.get(name)
        cfg = resolved.config.algorithm if entry is None else entry.algorithm
        kind = kinds.get(name, env.kinds[0])
        return space_layer(algorithm_name(cfg), kind.obs, kind.action, prefix)

    common = {str(layer(name, "algorithm")) for name in names}
    if len(common) == 1:
        return [layer(names[0], "algorithm")]
    own = []
    for name in names:
        made = layer(name, f"policies.{name}")
        # a policy's own entry would beat what the user said for all: such paths are left to the user
        said = {path: value for path, value in made.values.items()
                if not resolved.given(path.replace(f"policies.{name}", "algorithm", 1))}  # fmt: skip
        own.append(Layer(made.source, said))
    return own


def _kinds_of(env: VectorEnv, mapping: PolicyMapping) -> dict[str, Kind]:
    """The kind of each policy's agents, as far as it is known before playing."""
    found: dict[str, Kind] = {}
    if not mapping.is_static:
        return dict.fromkeys(mapping.policies, env.kinds[0]) if len(env.kinds) == 1 else {}
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
