"""One training: the loop that plays, learns and hands out weights. Concrete; it is never subclassed.

`Trainer.train_iteration` is the whole of it, and the only place that loops over policies.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from secrets import randbits
from time import perf_counter
from typing import Any, Self

import torch

from rookery.algorithms.algorithm import Algorithm, Row
from rookery.core.batch import Rollout, flat
from rookery.core.device import Staging
from rookery.core.errors import ConfigError
from rookery.core.files import FileError, last_good
from rookery.core.interrupt import Interrupt, Interrupted
from rookery.core.layers import Layer, import_object
from rookery.core.runtime import keep_large_blocks
from rookery.core.seeding import Role, Streams
from rookery.core.settings import Settings
from rookery.core.state import Stateful
from rookery.core.timers import Timers
from rookery.envs.absent import AbsentEnv, describe
from rookery.envs.base import Kind
from rookery.policies.export import policy_files
from rookery.policies.policy import Policy
from rookery.replay.replay import Replay
from rookery.rollout.hooks import EpisodeWatch
from rookery.rollout.mapping import MappingFunction
from rookery.rollout.pool import WorkerPool
from rookery.rollout.worker import RolloutWorker
from rookery.training import checkpoint, halves, recording
from rookery.training.callbacks import Callback, checked, watches_episodes
from rookery.training.compute import acting_threads, changed_paths, learning_threads, paths_of, threads_for
from rookery.training.console import Reporter, reporter
from rookery.training.evaluation import Measure
from rookery.training.memories import Memories, begin_with
from rookery.training.pace import CHUNK, ITERATION, ahead, measured_pace, remaining
from rookery.training.prepare import (
    check_learner,
    code_values,
    endless_schedules,
    kinds_of,
    layers_of,
    make_policy,
    prepare,
)
from rookery.training.results import EvaluationResult, IterationResult, Progress, Windows, mean_rows, result_of
from rookery.training.run_dir import RunDir, versions
from rookery.training.settings import RunConfig
from rookery.training.stopping import StopFunction, stop_rule


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
        callbacks: Your code in the loop, called in this order.
        config: More layers, weakest first: paths of YAML files, dicts of paths and values, or `Layer` objects.
        preset: ``none``, ``auto`` (the preset of a known environment) or the name of one.
        seed: Names all random streams; None = drawn once, see `trainer.seed`.
        run_dir: Directory for checkpoints, `metrics.jsonl` and the rest (docs/reference/run-directory.md); None writes
            nothing.
        force: Replace the run that is in `run_dir`.
        stand_in: What stands for the environment of a trainer that only learns; see `load`.
        overrides: Shorthands such as ``num_envs=16``, or whole sections such as
            ``evaluation=EvaluationConfig(every=5)``.

    Raises:
        ConfigError: If a setting is wrong; says all that are.
        EnvError: If the environment cannot be made or used.
    """

    saved = ("pool", "learners", "policies", "windows", "timers", "iteration", "seconds", "decisions", "last_learning",
             "frozen", "threads", "horizon", "criteria", "progress", "score", "paused")  # fmt: skip
    fixed = ("resolved", "config", "seed", "streams", "env", "mapping", "reporter", "run_dir", "notes", "stop_function",
             "interrupt", "callbacks", "silent", "staging", "measure", "memories")  # fmt: skip

    def __init__(
        self,
        env: Any = None,
        algorithm: Settings | None = None,
        *,
        policies: Mapping[str, Any] | Sequence[str] | None = None,
        policy_mapping: Mapping[str, str] | MappingFunction | None = None,
        callbacks: Sequence[Callback] = (),
        config: Any = (),
        preset: str = "none",
        seed: int | None = None,
        run_dir: str | Path | None = None,
        force: bool = False,
        stand_in: AbsentEnv | None = None,
        **overrides: Any,
    ) -> None:
        torch.set_num_threads(1)  # learning may take more, see `threads`
        keep_large_blocks()
        values = code_values(env, algorithm, policies, policy_mapping, seed, overrides)
        user_layers = [*layers_of(config), Layer("code", values)]
        self.resolved, self.env, self.mapping, self.notes = prepare(user_layers, preset, stand_in)
        self.config: RunConfig = self.resolved.config
        self.seed: int = randbits(31) if self.config.seed is None else self.config.seed
        self.streams = Streams(self.seed)
        self.timers = Timers()
        self.staging = Staging(torch.device(self.config.device))
        self.policies: dict[str, Policy] = {}
        self.learners: dict[str, Algorithm[Any]] = {}
        self.frozen: list[str] = []
        self.threads: dict[str, int] = {}
        """Threads that each learner's steps are worth; as they were at the start of the run, wherever it goes on."""
        self.windows = Windows()
        self.iteration = 0
        self.seconds = 0.0
        self.decisions: dict[str, int] = {}
        self.last_learning: dict[str, Row] = {}
        self.paused = False
        self.progress: Progress | None = None
        """The iteration that is under way, so that a run can be stopped and taken up in the middle of it."""
        self.criteria: dict[str, float] = {}
        """What last ended a training, or was to end it."""
        self.score: float | None = None
        """What the best checkpoint is chosen by: the last evaluation's mean return, or else that of training."""
        self.horizon: int | None = None
        self.stop_function: StopFunction | None = None
        self.reporter: Reporter = reporter(self.config.logging.console)
        self.interrupt = Interrupt()
        self.measure = Measure(self)
        self.memories = Memories()
        self.callbacks = checked(callbacks)
        self.silent: list[Any] = []
        """States of callbacks that are not here, kept where nothing is played."""
        self.pool = self._make_pool()
        for name, kind in kinds_of(self.env, self.mapping).items():
            self._introduce(name, kind)
        self.run_dir: RunDir | None = None
        if run_dir is not None:
            self.run_dir = RunDir(Path(run_dir))
            try:
                self.run_dir.begin(self.resolved, force)
            except Exception:
                self.run_dir.close()
                raise

    # --- the loop -----------------------------------------------------------------------------------------------------

    def train_iteration(self) -> IterationResult:
        """Plays and learns for one iteration: `sampling.iteration_steps` env steps, or one update of every learner.

        While sampling is paused nothing is played, and learned as much from memories as belongs to so many env steps.
        """
        began = perf_counter()
        progress = self.progress = self.progress or self.begin_iteration()
        try:
            with self.timers["train_iteration"]:
                while (budget := remaining(self, progress)) > 0:
                    if self.paused:
                        halves.learn_for(self, min(budget, CHUNK), progress)
                    else:
                        with self.timers["sample"]:
                            rollouts = self.pool.sample(budget)
                        if rollouts and self.config.sampling.staleness:  # the next are played while these are learned
                            self.pool.play_ahead(ahead(self, progress))
                        for name, rollout in rollouts.items():
                            progress.note(name, self._learn(name, rollout), rollout)
                        self.hand_out(rollouts)
                        if self.pool.resting:
                            halves.learn_for(self, None, progress)
                    self.interrupt.check()
                evaluation = None if self.paused else self._evaluate_when_due()
        finally:
            self.seconds += perf_counter() - began
        self.progress = None
        return self.end_iteration(progress, evaluation)

    def begin_iteration(self) -> Progress:
        """An iteration, from here on."""
        made = {name: replay.gradient_steps for name, replay in self.replays.items()}
        return Progress(self.env_steps, self.pool.lane_steps, self.seconds, made)

    def end_iteration(self, progress: Progress, evaluation: EvaluationResult | None = None) -> IterationResult:
        """Counts an iteration and writes down what came of it."""
        self.iteration += 1
        self.windows.add(self.pool.drain_finished())
        for name, rows in progress.learned.items():
            learner = self.learners[name]
            self.last_learning[name] = mean_rows(rows) | learner.summary() | measured_pace(self, learner, progress)
        result = result_of(self, progress, evaluation)
        if result.sampling:
            self.score = result.return_mean if evaluation is None else evaluation.return_mean
        if self.run_dir is not None:
            self.run_dir.record(result, self.config.logging.tensorboard)
        return result

    @property
    def replays(self) -> dict[str, Replay]:
        """The experience that learners keep, of those that keep any."""
        return {name: learner.replay for name, learner in self.learners.items() if learner.replay is not None}

    def hand_out(self, names: Iterable[str]) -> None:
        """Lets the worker play with what these policies have learned."""
        if names:
            with self.timers["set_weights"]:
                self.pool.set_weights({name: self.learners[name].behaviour for name in names})

    def _evaluate_when_due(self) -> EvaluationResult | None:
        every = self.config.evaluation.every
        return self.evaluate() if every and (self.iteration + 1) % every == 0 else None

    def _learn(self, name: str, rollout: Rollout) -> Row:
        """One update of one policy; its observation statistics move afterwards, and only here."""
        learner = self.learners[name]
        learner.env_steps, learner.horizon = self.env_steps, self.horizon
        rollout = self.staging.send_rollout(rollout)
        with self.timers["training_step"], threads_for(learner, self.threads[name]):
            row = learner.training_step(rollout)
        if self.config.sampling.staleness:
            row["stale_fraction"] = self.pool.stale_fraction(name, rollout)
        self.take_note(name, rollout)
        return row

    def take_note(self, name: str, rollout: Rollout) -> None:
        """What remains to be done about a rollout that a learner has taken: statistics, and the count of decisions."""
        normalizer = self.policies[name].normalizer
        if normalizer is not None:
            rows = rollout.valid_rows()
            normalizer.update({path: flat(leaf, rows) for path, leaf in rollout.obs.items()})
        self.decisions[name] = self.decisions.get(name, 0) + rollout.num_decisions

    def iterations(self) -> Iterator[IterationResult]:
        """Iterations without end; break when you have seen enough."""
        while True:
            yield self.train_iteration()

    def train(self, stop: Mapping[str, float] | StopFunction | None = None) -> IterationResult:
        """Trains until any criterion is reached; returns the last result.

        With a run directory, a checkpoint is written every `checkpoint.every` iterations and at the end. Ctrl-C (or
        SIGTERM) once stops after the vector step under way, writes a checkpoint and raises; twice stops at once.

        Args:
            stop: Criteria such as ``{"return_mean": 18, "env_steps": 200_000}`` on the whole life of the run, added to
                those of the configuration; or a function that looks at each result and says True to stop.

        Raises:
            ConfigError: If nothing would ever end the training, or a criterion names no metric.
            Interrupted: A KeyboardInterrupt, after the first Ctrl-C or SIGTERM.
        """
        for result in self.results(stop):
            last = result
        return last

    def results(self, stop: Mapping[str, float] | StopFunction | None = None) -> Generator[IterationResult, None, None]:
        """Trains as `train` does and gives each result; the last says in `stop_reason` why. Who stops asking earlier
        ends the training there (``close()`` does so at once); `save` keeps what it has come to.
        """
        rule = stop_rule(stop, self.config.stop | self.criteria, self.stop_function, self.config.evaluation.every)
        self.criteria, self.stop_function = dict(rule.criteria), rule.function
        if self.horizon is None and "env_steps" in rule.criteria:
            self.horizon = int(rule.criteria["env_steps"])
        if self.horizon is None:
            for line in endless_schedules(self.learners):
                self.reporter.note(line)
        with self.session(rule.criteria):
            self._tell("on_train_start")
            result = result_of(self, self.begin_iteration())
            reason = rule.reason(result) if self.iteration and self.progress is None else ""
            if reason:
                self.reporter.note(f"nothing to do: {reason} already; a higher criterion goes on")
                result = replace(result, stop_reason=reason)
                yield result
            while not reason:
                result = self.train_iteration()
                reason = rule.reason(result)
                result = replace(result, stop_reason=reason)
                self.report(result)
                yield result
            self.interrupt.check()
            self._tell("on_train_end", result)

    @contextmanager
    def session(self, criteria: Mapping[str, float]) -> Iterator[None]:
        """What the reporter and signals are told before and after iterations that belong together."""
        self.reporter.start(self, criteria)
        try:
            with self.interrupt.watching():
                yield
        except Interrupted:
            if self.run_dir is not None:
                self.reporter.event(f"stopped; checkpoint {self.save()}")
            raise
        finally:
            self.reporter.finish(self)
            if self.run_dir is not None:
                with suppress(FileError):  # of a full disk the checkpoint has told
                    self.run_dir.write_timers(self.timers)

    def report(self, result: IterationResult) -> None:
        """Tells of an iteration; writes a checkpoint if one is due, or if this was the last."""
        self.reporter.iteration(result)
        self._tell("on_iteration", result)
        every = self.config.checkpoint.every
        if self.run_dir is not None and (result.stop_reason or (every and self.iteration % every == 0)):
            self.reporter.event(f"checkpoint {self.save().name}")

    def learn(self, gradient_steps: int = ITERATION, policies: Sequence[str] | None = None) -> IterationResult:
        """Learns from replay memories alone: no environment is touched, and no schedule moves.

        Every 1000 gradient steps are an iteration: a row of metrics, and a checkpoint when one is due; one is written
        at the end too, if there is a run directory. Evaluations are left out. Ctrl-C ends it as it ends `train`.

        Args:
            gradient_steps: Of each policy.
            policies: Which; None = all that have a memory.

        Returns:
            Where the run stands then.

        Raises:
            ConfigError: If a policy has no memory, or nothing is in it.
            Interrupted: A KeyboardInterrupt, after the first Ctrl-C or SIGTERM.
        """
        return halves.learn(self, gradient_steps, policies)

    def collect(self, env_steps: int) -> IterationResult:
        """Plays and stores what is played in replay memories; nothing is learned.

        Policies without a memory play with the weights they have; what they play is not kept. Every 1000 env steps are
        an iteration, as of `learn`. Steps in which the environment rests do not count.

        Args:
            env_steps: How many, at least; whole vector steps are made.

        Returns:
            Where the run stands then.

        Raises:
            ConfigError: If no policy has a memory.
            Interrupted: A KeyboardInterrupt, after the first Ctrl-C or SIGTERM.
        """
        return halves.collect(self, env_steps)

    def pause_sampling(self) -> None:
        """From now on iterations learn from replay memories only, and the environment is not touched, until
        `resume_sampling`. Each makes as many gradient steps as belong to its env steps. A checkpoint keeps this.

        Raises:
            ConfigError: If no policy has a memory that learning could begin with.
        """
        halves.check_can_pause(self)
        self.paused = True

    def resume_sampling(self) -> None:
        """Iterations play again."""
        self.paused = False

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
        with self.timers["evaluate"]:
            evaluation = self.measure(count, cfg.deterministic if deterministic is None else deterministic)
        self._tell("on_evaluate", evaluation)
        return evaluation

    def record(
        self,
        path: str | Path,
        episodes: int = 1,
        deterministic: bool | None = None,
        labels: bool = False,
        max_frames: int = 1000,
        frames_per_second: float = 12.0,
    ) -> EvaluationResult:
        """Plays episodes in one environment and writes them as a film.

        Args:
            path: The file: ``.webp`` (smallest), ``.gif``, ``.png`` or, with the package av, ``.mp4``.
            episodes: How many.
            deterministic: Play the most likely actions; None = `evaluation.deterministic`.
            labels: Write below the pictures who plays, and what each has earned.
            max_frames: Pictures, at most.
            frames_per_second: Speed of the film.
        """
        return recording.record(
            self,
            Path(path),
            episodes=episodes,
            deterministic=self.config.evaluation.deterministic if deterministic is None else deterministic,
            labels=labels,
            max_frames=max_frames,
            frames_per_second=frames_per_second,
        )

    # --- stopping and going on ----------------------------------------------------------------------------------------

    def save(self, path: str | Path | None = None, pin: bool = False) -> Path:
        """Writes a checkpoint: all that is needed to go on exactly, in one directory that is whole or not there.

        Args:
            path: Where; None = the run directory, where the last `checkpoint.keep_last`, the best and pinned ones stay.
            pin: Never remove it to make room.

        Raises:
            ConfigError: If there is no run directory, or `path` exists.
            FileError: If it cannot be written; says which checkpoint is the last good one.
        """
        folder = None if self.run_dir is None or path is not None else self.run_dir.checkpoints
        if folder is None and path is None:
            raise ConfigError("save: this trainer has no run directory; say where, as in trainer.save('my-checkpoint')")
        target = Path(str(path)) if folder is None else folder / checkpoint.next_name(folder, self.iteration)
        if target.exists():
            raise ConfigError(f"save: {target} exists; choose another path")
        models = {name: self.config.policies[name].algorithm.model for name in self.policies}
        extra = {"config.json": checkpoint.config_file(self.resolved, self.seed), **policy_files(self.policies, models)}
        facts = {
            "iteration": self.iteration,
            "env_steps": self.env_steps,
            "score": self.score,
            "exact": self.env.exact,
            "env": describe(self.env),
            "pinned": pin,
            "versions": versions(),
            "paths": self.paths,
        }
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            files, held = self.memories.files(self.replays)
            checkpoint.write_checkpoint(target, self.state_dict(), {**extra, **files}, {**facts, **held})
            if folder is not None or self.run_dir is None:
                self.memories.lie_in(target)
            if folder is not None:
                checkpoint.note_best(folder, target.name, self.score)
                checkpoint.tidy(folder, self.config.checkpoint.keep_last)
        except (FileError, OSError) as error:
            good = None if folder is None else last_good(folder)
            raise FileError(f"{error}; the last good checkpoint is {good}" if good else str(error)) from None
        self._tell("on_checkpoint", target)
        return target

    def _tell(self, moment: str, *about: Any) -> None:
        """Calls one method of every callback."""
        for callback in self.callbacks:
            getattr(callback, moment)(self, *about)

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        resume: bool = False,
        play: bool = True,
        env: Any = None,
        policy_mapping: Mapping[str, str] | MappingFunction | None = None,
        callbacks: Sequence[Callback] = (),
        config: Any = (),
        **overrides: Any,
    ) -> Self:
        """A trainer as it was when a checkpoint was written.

        Args:
            path: A run (its last checkpoint) or a checkpoint.
            resume: Go on writing in the run's directory: later rows and checkpoints of it are forgotten.
            play: Make the environment. False: it is not looked for, and the trainer can only `learn`, from replay
                memories; what it saves goes on playing exactly where this checkpoint stands.
            env: The environment, if it was made in code that cannot be found by name (in a script or notebook).
            policy_mapping: The mapping function, likewise.
            callbacks: Your code in the loop; objects are not part of a checkpoint, what they keep can be.
            config: Other such settings by path, or settings to change.
            overrides: Shorthands, as for the constructor.

        Raises:
            FileError: If there is no checkpoint, or it is broken; names the last good one.
            ConfigError: If something made in code has to be given again; names all of it.
        """
        run_dir = RunDir(checkpoint.run_of(Path(path))) if resume else None  # first: nobody else may write from now on
        trainer = None
        try:
            saved = checkpoint.read_checkpoint(Path(path))
            layers = [*layers_of(config), Layer("code", code_values(env, None, None, policy_mapping, None, overrides))]
            values = checkpoint.values_to_load(saved, {path for layer in layers for path in layer.values}, play)
            stand_in = None if play else checkpoint.absent_env(saved)
            trainer = cls(config=[Layer(str(saved.path), values), *layers], callbacks=callbacks, stand_in=stand_in)
            trainer.resolved = replace(trainer.resolved, history=checkpoint.joined_history(saved, trainer.resolved))
            trainer.load_state_dict(saved.state)
            trainer.memories.restore(saved, trainer.replays, trainer.reporter.note)
            if run_dir is not None:
                checkpoint.forget_later(saved.path)  # first: a kill in between leaves rows that the next start cuts
                run_dir.write_settings(trainer.resolved)
                run_dir.go_on_from(trainer.iteration, trainer.env_steps, trainer.config.logging.tensorboard)
        except BaseException:
            for opened in (trainer, run_dir):
                if opened is not None:
                    opened.close()
            raise
        trainer.run_dir = run_dir
        if saved.facts["exact"] and not trainer.env.exact:
            trainer.reporter.note("unfinished episodes could not be taken up again: this run is no longer exact")
        for line in changed_paths(saved.facts.get("paths", {}), trainer.paths) if resume else ():
            trainer.reporter.note(line)
        return trainer

    def state_dict(self) -> dict[str, Any]:
        """Everything that changes, the state of callbacks included."""
        state = super().state_dict()  # first: it waits for what is played ahead, which callbacks may watch
        own = [callback.state_dict() if hasattr(callback, "state_dict") else None for callback in self.callbacks]
        return {**state, "callbacks": own + self.silent}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes over what `state_dict` gave, environments in the middle of their episodes included."""
        state = dict(state)
        self.progress = None if state["progress"] is None else self.begin_iteration()
        heard = state.pop("callbacks")
        self.silent = heard[len(self.callbacks) :] if isinstance(self.env, AbsentEnv) else []
        for callback, own in zip(self.callbacks, heard, strict=False):
            if own is not None and hasattr(callback, "load_state_dict"):
                callback.load_state_dict(own)
        super().load_state_dict(state)
        if self.config.threads is not None:
            self.threads = dict.fromkeys(self.threads, self.config.threads)
        self.pool.threads = acting_threads(self.learners, self.threads)

    def close(self) -> None:
        """Frees the environments and the run directory."""
        self.pool.close()
        self.measure.close()
        if self.run_dir is not None:
            self.run_dir.close()
            self.run_dir = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- making the parts ---------------------------------------------------------------------------------------------

    @property
    def env_steps(self) -> int:
        """Environment steps of the run so far."""
        return self.pool.env_steps

    @property
    def paths(self) -> dict[str, str]:
        """What computes each policy: compiled kernels or torch (docs/kernels.md)."""
        return paths_of(self.policies, self.learners)

    def _make_pool(self) -> WorkerPool:
        """Who plays, and is watched by callbacks that want to."""
        seeds = self.streams.episodes(Role.ENV)
        who = self.env, self.mapping, self.streams, seeds, self._introduce, self.timers
        worker = RolloutWorker(*who, interrupt=self.interrupt)
        watching = [callback for callback in self.callbacks if watches_episodes(callback)]
        if watching:
            worker.watch = EpisodeWatch(self.env, watching)
        return WorkerPool(worker, self.config.sampling.staleness)

    def _introduce(self, name: str, kind: Kind) -> None:
        """Makes a policy, and the algorithm that learns it, when its first agent is known."""
        entry = self.config.policies[name]
        policy = self.policies[name] = make_policy(name, kind, self.config, self.streams, self.env)
        policy.to(self.staging.device)
        if entry.frozen:
            policy.requires_grad_(False)
            self.frozen.append(name)
            self.pool.add_policy(name, policy, None)
            return
        make: type[Algorithm[Any]] = import_object(entry.algorithm.algorithm)
        learner = make(policy, entry.algorithm, self.streams, name)
        learner.staleness = self.config.sampling.staleness
        check_learner(learner, self.resolved)
        begin_with(name, learner, self.reporter.note)
        self.learners[name] = learner
        self.threads[name] = self.config.threads or learning_threads(learner, self.env.num_lanes)
        self.pool.threads = acting_threads(self.learners, self.threads)
        self.pool.add_policy(name, learner.behaviour, learner.demand)
