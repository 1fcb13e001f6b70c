"""`Trainer`: the training loop, which samples, learns and distributes weights.

`Trainer.train_iteration` is the whole loop, and the only place that loops over policies.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self

from rookery.cluster.ranks import SINGLE, Ranks
from rookery.core.errors import ConfigError
from rookery.core.io.files import FileError
from rookery.core.process.interrupt import Interrupted
from rookery.core.process.runtime import keep_large_blocks
from rookery.core.process.torch_modes import own_torch
from rookery.core.settings.fields import Settings
from rookery.core.settings.hints import with_argument_hints
from rookery.core.settings.layers import Layer
from rookery.core.settings.starting_folder import absolute, shown, started_in, starting_folder
from rookery.core.settings.trust import TrustCode
from rookery.envs.base import VectorEnv
from rookery.envs.logs import logs_in
from rookery.envs.placeholder_env import PlaceholderEnv
from rookery.envs.remote_env_stub import RemoteEnvStub
from rookery.report.console import Reporter, reporter
from rookery.report.finding import Finding
from rookery.report.results import EvaluationResult, IterationResult
from rookery.report.videos import VideoProgress
from rookery.rollout.hooks import UNNAMED, EpisodeListener
from rookery.rollout.mapping import MappingFunction
from rookery.run.checkpoint import checkpoint
from rookery.run.checkpoint.callback_states import CallbacksPart, CallbackStates, notify
from rookery.run.checkpoint.changes import explain_mismatch
from rookery.run.checkpoint.checkpoint_part import CheckpointPart
from rookery.run.checkpoint.other_env import load_state
from rookery.run.checkpoint.rank_shards import own_shard, write_shard
from rookery.run.checkpoint.replays import SavedReplays
from rookery.run.checkpoint.run_dir import RunDir
from rookery.run.checkpoint.saving import save_run
from rookery.run.checks.memory_check import explain_memory_error
from rookery.run.checks.remarks import Remarks
from rookery.run.checks.trusted_code import notes_of_directory, without_foreign_code
from rookery.run.compute import changed_paths, paths_of
from rookery.run.describe.facts import nothing_to_do, run_facts
from rookery.run.evaluate.evaluation import Measure, record
from rookery.run.findings.diagnose import findings_of, plain_settings
from rookery.run.findings.part import FindingsPart
from rookery.run.findings.window import Window
from rookery.run.gradient_steps import learn_from_replay, update_in_parts
from rookery.run.horizon import HorizonNotes, move_horizon
from rookery.run.learn_or_collect import CollectOnly, LearnOnly, collect_task, learn_task
from rookery.run.lessons.lessons_part import LessonsPart
from rookery.run.opponents.self_play_part import SelfPlayPart
from rookery.run.pace import CHUNK, ITERATION, MaxDecisionsPart, ahead, check_can_pause, measured_pace, remaining
from rookery.run.parts import Parts
from rookery.run.prepare import callbacks_of, code_values, layers_of, prepare
from rookery.run.ranks.learners import RankTask
from rookery.run.ranks.pool_parts import LagPart, WaitsPart
from rookery.run.ranks.ranks_part import RanksPart
from rookery.run.ranks.serve_rank import serve_rank
from rookery.run.results import iteration_within, mean_rows, result_of
from rookery.run.run import Progress, Round, Run
from rookery.run.stopping import StopFunction, check_criteria, criteria_of, history_of, resumed_criteria, stop_rule
from rookery.run.watch import Watch


class Trainer(Run):
    """Trains one or many policies in one environment.

    Args:
        env: A Gymnasium id, an environment class, a function that makes one, or an import path ``my.module:MyEnv``.
            None if the configuration names it.
        algorithm: Settings of the algorithm, ``PPOConfig(lr=1e-3)``, their class or its name, ``"ppo"``: for the policy
            ``main``, or as the base of every entry of `policies`.
        policies: Policies by name: settings, or ``None`` for those of `algorithm`, or a dict with ``frozen`` and
            settings, or a list of the policy's agents.
        policy_mapping: Agent to policy: a dict, or a function ``(agent, episode) -> policy`` or ``(agent) -> policy``.
            Not needed for a single policy, or where policies are named like agents.
        callbacks: Callbacks, called in this order.
        config: More settings, weakest first: paths of YAML files, dicts of paths and values, or `Layer` objects.
        preset: ``none``, ``auto`` (the preset of a known environment, and its algorithm if none is named), or a name.
        seed: Random seed of the run; None = drawn once, see `trainer.seed`.
        run_dir: Directory for the files of the run (docs/reference/run-directory.md); None writes nothing.
        force: Replace an existing run in `run_dir`.
        stand_in: Existing vectorized environments; or their placeholder in a trainer that only learns, see `load`.
        ranks: The learners of the run, one of which is this trainer (docs/how-to/several-learners.md).
        overrides: Shorthands such as ``num_envs=16``, or whole sections such as
            ``evaluation=EvaluationConfig(every=5)``.

    Raises:
        ConfigError: If settings are wrong; names all of them.
        EnvError: If the environment cannot be made or used.
    """

    state_version: ClassVar[int] = 3
    saved: ClassVar[tuple[str, ...]] = ("_callback_states", "_window")
    fixed: ClassVar[tuple[str, ...]] = ("_reporter", "run_dir", "_notes", "_callbacks", "_stop_function", "_measure",
                                        "_saved_replays", "_remarks", "_horizon_notes", "_watch")  # fmt: skip

    def __init__(
        self,
        env: Any = None,
        algorithm: Settings | type[Settings] | str | None = None,
        *,
        policies: Mapping[str, Any] | Sequence[str] | None = None,
        policy_mapping: Mapping[str, str] | MappingFunction | None = None,
        callbacks: Sequence[EpisodeListener] = (),
        config: Any = (),
        preset: str = "none",
        seed: int | None = None,
        run_dir: str | Path | None = None,
        force: bool = False,
        stand_in: VectorEnv | None = None,
        ranks: Ranks = SINGLE,
        **overrides: Any,
    ) -> None:
        keep_large_blocks()
        with own_torch(1), logs_in(run_dir), started_in(starting_folder()):  # learning may take more, see `_threads`
            values = code_values(env, algorithm, policies, policy_mapping, seed, overrides)
            task = RankTask([*layers_of(config), Layer("code", values)], preset, callbacks_of(callbacks))
            resolved, vector_env, mapping, self._callbacks, self._notes, ranks = prepare(task, stand_in, ranks)
            self._reporter: Reporter = reporter(resolved.config.logging.console)
            super().__init__(resolved, vector_env, mapping, self._callbacks, self._reporter.note, ranks)
        self._measure, self._watch = Measure(self, lambda: self.evaluate()), Watch(self, lambda: self._reporter)
        self._window = Window()
        self._remarks, self._horizon_notes = Remarks(self), HorizonNotes(self)
        self.run_dir: RunDir | None = None
        self._parts = self._make_parts()
        check_criteria(resolved, result_of(self, self._begin_iteration()))
        self._callback_states = CallbackStates(
            self._callbacks, self._windows, self._note, self._notes, not isinstance(vector_env, PlaceholderEnv)
        )
        self._stop_function: StopFunction | None = None
        self._saved_replays = SavedReplays()
        if run_dir is not None:
            self.run_dir = RunDir(Path(self._folder, run_dir))
            try:
                self.run_dir.begin(self.resolved, force)
            except Exception:
                self.run_dir.close()
                raise

    def _make_parts(self) -> Parts:
        """Returns the parts enabled in the settings, in the order of their calls."""
        config = self.config
        limited = any(entry.max_decisions is not None for entry in config.policies.values())
        return Parts(
            (
                RanksPart(self) if self._ranks.size > 1 else None,
                LagPart(self) if config.sampling.lag else None,
                WaitsPart(self) if isinstance(self.env, RemoteEnvStub) else None,
                self._horizon_notes if self._horizon is not None else None,
                MaxDecisionsPart(self) if limited else None,
                self._measure if config.evaluation.every else None,
                LessonsPart(self) if config.curriculum else None,
                SelfPlayPart(self) if config.self_play else None,
                FindingsPart(self, self._window) if config.doctor.enabled else None,
                self._remarks,
                CallbacksPart(self._notify) if self._callbacks else None,
                CheckpointPart(config.checkpoint, self.save, self._reporter) if self.run_dir is not None else None,
            )
        )

    # --- the loop -----------------------------------------------------------------------------------------------------

    def train_iteration(self) -> IterationResult:
        """Samples and learns for one iteration: `sampling.iteration_steps` env steps, or one update of every learner.

        While sampling is paused, the iteration makes the gradient steps on replay that belong to as many env steps.
        """
        with self._timed():
            progress = self._progress = self._progress or self._begin_iteration()
            while (this := progress.round) or (budget := remaining(self, progress)) > 0:
                if this is None and self._paused:
                    this = progress.round = Round(self.replays, env_steps=min(budget, CHUNK))
                elif this is None:
                    with self.timers["sample"]:
                        sample = self._pool.sample(budget)
                    self._count_played(sample)
                    if sample.rollouts and self._pool.plays_ahead:  # samples the next rollouts meanwhile
                        self._pool.play_ahead(ahead(self, progress))
                    this = progress.round = Round(sample.rollouts, sample.rollouts)
                if this.alone:
                    learn_from_replay(self, this, progress)
                for name in this.each(self._check_stop):
                    self._learn(name, this, progress)
                self._end_round(this, progress)
        return self._end_iteration(progress)

    def _learn(self, name: str, this: Round, progress: Progress) -> None:
        """Makes one update of one policy; its observation statistics change afterwards, and only here."""
        learner, played = self.learners[name], this.rollouts[name]
        self._set_clock(name, played)
        rollout = played if self._staging is None else self._staging.send_rollout(played)
        with self.timers["training_step"], self._threads_of(name):
            if learner.in_parts:
                row = update_in_parts(self, this, name, rollout)
            else:
                row = learner.training_step(learner.before_targets(rollout, this.rollouts))
        for add in self._parts.in_update:
            row = {**row, **add(name, played)}
        progress.note(name, row, played)
        self._count_learned(name, rollout)

    @contextmanager
    def _timed(self, call: str = "train_iteration", task: Any = None) -> Iterator[Any]:
        """Context of every iteration: counts its time, and gives torch one thread unless a learner requests more.
        Yields the task of rank 0.
        """
        self._clock.begin()
        self._apart = {name: stopped for name, stopped in self._apart.items() if name == call}
        try:
            with own_torch(1), self.timers["train_iteration"]:
                for begin in self._parts.before_call:
                    task = begin(call, task)
                yield task
                for end in self._parts.after_call:
                    end(call)
        except (MemoryError, RuntimeError) as error:
            explain_memory_error(error)
            raise
        finally:
            self._seconds += self._clock.lap()

    def _end_iteration(self, progress: Progress) -> IterationResult:
        """Counts an iteration, and returns and writes its result."""
        self._apart, self._progress = {}, None if progress is self._progress else self._progress
        self.iteration += 1
        for take in self._parts.before_result:
            take()
        self._windows.add(self._finished, self.env)
        self._finished = []
        for name, rows in progress.learned.items():
            learner = self.learners[name]
            pace = {} if learner.replay is None else measured_pace(self, learner.replay, progress)
            self._last_learning[name] = mean_rows(rows) | learner.summary() | pace
        result = result_of(self, progress)
        for add in self._parts.after_iteration:
            result = add(result)
        if result.sampling:
            self._score = result.score
        if self.run_dir is not None:
            self.run_dir.record(result, self.config.logging.tensorboard)
        return result

    def iterations(self) -> Iterator[IterationResult]:
        """Yields results of iterations without end."""
        while True:
            yield self.train_iteration()

    @with_argument_hints
    def train(self, stop: Mapping[str, float] | StopFunction | None = None) -> IterationResult:
        """Trains until any criterion is reached; returns the last result.

        With a run directory, checkpoints are written as set in the section `checkpoint`, and one at the end. The first
        Ctrl-C (or SIGTERM, or SIGHUP) stops after the vector step or gradient step, writes a checkpoint and raises; the
        second stops at once. A time limit ends it at the same places, within an iteration (`IterationResult.whole`).

        Args:
            stop: Criteria such as ``{"return_mean": 18, "env_steps": 200_000}`` over the whole life of the run, added
                to those of the configuration and stronger than these; or a function of each result that returns True
                to stop. None: the criteria of the last call, also before the run was loaded, unless `load` had others.

        Raises:
            ConfigError: If nothing would ever end the training, or a criterion names no metric.
            Interrupted: A KeyboardInterrupt, after the first Ctrl-C, SIGTERM or SIGHUP.
        """
        for result in self.results(stop):
            last = result
        return last

    def results(self, stop: Mapping[str, float] | StopFunction | None = None) -> Generator[IterationResult, None, None]:
        """Trains as `train` does and yields each result; the last one has the reason in `stop_reason`. Closing the
        generator stops the training; `save` keeps its state. The time that the caller takes between two results is not
        training time.
        """
        if self._ranks.rank:
            yield from serve_rank(self._ranks, self._interrupt, "train_iteration", self.train_iteration, self.save)
            return
        given = isinstance(stop, Mapping) and bool(stop)
        standing = criteria_of(self.config.stop) if given else self._current_criteria
        rule = stop_rule(stop, standing, self._stop_function, self.config.evaluation.every)
        self._criteria, self._stop_function = dict(rule.criteria), rule.function
        if given and self.run_dir is not None:
            self.run_dir.write_criteria(history_of(self.resolved, self.config.stop, self._criteria))
        self._horizon_notes.begin(rule.criteria)
        with self._session(rule.criteria):
            self._notify("on_train_start")
            result = result_of(self, self._begin_iteration())
            rule.check(result)
            reason = rule.reason(result) if self.iteration and self._progress is None else rule.late(self._seconds)
            if reason:
                self._note(nothing_to_do(self, reason))
                result = replace(result, stop_reason=reason)
                with self._clock.held():
                    yield result
            with self._watch.over(rule.limit):
                while not reason:
                    result, reason = iteration_within(self, self.train_iteration, rule)
                    result = replace(result, stop_reason=reason)
                    self._report(result)
                    with self._clock.held():
                        yield result
            self._interrupt.check()
            self._notify("on_train_end", result)
            self._ranks.broadcast_call("end", result)

    @contextmanager
    def _session(self, criteria: Mapping[str, float]) -> Iterator[None]:
        """Context of one training: starts and ends the reporter, signal handling and the parts of the run."""
        facts = run_facts(self, [*self._notes, *notes_of_directory(self.run_dir)], criteria)
        self._reporter.start(facts, self.timers)
        self._parts = self._make_parts()
        try:
            with self._interrupt.watching(), self._clock.running():
                yield
                self._seconds += self._clock.lap()
        except Interrupted as stopped:
            if self.run_dir is not None:
                self._reporter.event(f"stopped; checkpoint {self.save()}")
            self._ranks.broadcast_call("end")
            raise stopped.as_error() from None
        finally:
            self._reporter.finish()
            if self.run_dir is not None:
                with suppress(FileError):  # saving the checkpoint has reported a full disk
                    self.run_dir.write_timers(self.timers)

    def _report(self, result: IterationResult) -> None:
        """Shows the result of an iteration, and passes it to the parts."""
        self._reporter.iteration(result)
        for take in self._parts.after_report:
            take(result)

    @with_argument_hints
    def learn(self, gradient_steps: int = ITERATION, policies: Sequence[str] | None = None,
              stop: Mapping[str, float] | None = None) -> IterationResult:  # fmt: skip
        """Learns from replay only: no environment is stepped, and no schedule moves.

        An iteration has 1000 gradient steps. It writes a row of metrics, and a checkpoint if it is time for one; with
        a run directory, a checkpoint is also written at the end. There are no evaluations. Ctrl-C acts as in `train`.

        Args:
            gradient_steps: Gradient steps of each policy.
            policies: Names of policies; None = all that learn from replay.
            stop: Time limit, ``{"seconds": 60}`` or minutes of training over the whole life of the run.

        Returns:
            The result of the last iteration.

        Raises:
            ConfigError: If a policy does not learn from replay, or its replay is empty.
            Interrupted: A KeyboardInterrupt, after the first Ctrl-C, SIGTERM or SIGHUP.
        """
        return self._run_task("learn", learn_task(self, gradient_steps, policies, stop or {}))

    def collect(self, env_steps: int) -> IterationResult:
        """Samples experience into replay, without learning.

        Policies without replay act with their current weights; their experience is not kept. An iteration has 1000 env
        steps, as in `learn`. Steps in which the environment rests do not count.

        Args:
            env_steps: Fewest env steps; whole vector steps are made.

        Returns:
            The result of the last iteration.

        Raises:
            ConfigError: If no policy learns from replay.
            Interrupted: A KeyboardInterrupt, after the first Ctrl-C, SIGTERM or SIGHUP.
        """
        return self._run_task("collect", collect_task(self, env_steps))

    def _run_task(self, call: str, task: LearnOnly | CollectOnly) -> IterationResult:
        """Makes iterations of a task; an interrupted iteration of `train` is left unchanged."""
        if self._ranks.rank:
            *_, last = serve_rank(self._ranks, self._interrupt, call, lambda: self._iterate_task(call, task), self.save)
            return last
        with self._session(task.criteria(self)):
            reason = task.rule.late(self._seconds)
            result = replace(result_of(self, self._begin_iteration()), stop_reason=reason)
            if reason:
                self._note(nothing_to_do(self, reason))
            with self._watch.over(task.rule.limit):
                while not reason:
                    result, late = iteration_within(self, lambda: self._iterate_task(call, task), task.rule)
                    reason = task.reason(self) or late
                    result = replace(result, stop_reason=reason)
                    self._report(result)
                    if not reason:
                        self._interrupt.check()
            self._interrupt.check()
            self._ranks.broadcast_call("end", result)
        return result

    def _iterate_task(self, call: str, task: LearnOnly | CollectOnly | None) -> IterationResult:
        """Makes an iteration of learning only or collecting only; rank 0 gives the task."""
        progress = self._apart.get(call) or self._begin_iteration()
        self._apart = {call: progress}
        with self._timed(call, task) as given:
            given(self, progress)
        return self._end_iteration(progress)

    def pause_sampling(self) -> None:
        """Makes iterations learn from replay only, without stepping the environment, until `resume_sampling`. Each
        makes as many gradient steps as belong to its env steps. Checkpoints keep this state.

        Raises:
            ConfigError: If no policy has enough experience in its replay for learning to begin.
        """
        check_can_pause(self)
        self._paused = True

    def resume_sampling(self) -> None:
        """Makes iterations sample again."""
        self._paused = False

    @with_argument_hints
    def evaluate(self, episodes: int | None = None, deterministic: bool | None = None) -> EvaluationResult:
        """Evaluates the policies, without learning and without any effect on the training.

        Args:
            episodes: Number of episodes; None = `evaluation.episodes`.
            deterministic: Play the most likely actions; None = `evaluation.deterministic`.
        """
        cfg = self.config.evaluation
        count = cfg.episodes if episodes is None else episodes
        if count < 1:
            raise ConfigError(f"evaluate: episodes = {count}: must be at least 1")
        with own_torch(1), self.timers["evaluate"], self._watch.over():
            evaluation = self._measure(count, cfg.deterministic if deterministic is None else deterministic)
        self._notify("on_evaluate", evaluation)
        return evaluation

    def diagnose(self) -> list[Finding]:
        """Returns likely reasons why the training does not learn, the worst first, from the results of its iterations:
        nothing is played (docs/how-to/diagnose.md). It is empty before the first iterations, and with
        ``doctor.enabled=false``.
        """
        return findings_of(self._window, plain_settings(self.resolved), self.config.doctor.ignore)

    def record(
        self, path: str | Path, episodes: int = 1, deterministic: bool | None = None, labels: bool = False,
        max_frames: int = 1000, frames_per_second: float | None = None, progress: VideoProgress | None = None,
        seconds: float | None = None,
    ) -> EvaluationResult:  # fmt: skip
        """Plays episodes in one environment and writes a video of them.

        Args:
            path: The file: ``.webp`` (smallest), ``.gif``, ``.png`` or, with the package av, ``.mp4``.
            episodes: Number of episodes.
            deterministic: Play the most likely actions; None = `evaluation.deterministic`.
            labels: Write the policies and their returns below the images.
            max_frames: Most frames of the video.
            frames_per_second: Frame rate; None = the environment's `render_fps`, at most 50, or 12 without one.
            progress: Called after each encoded frame with the number of encoded frames and of all frames.
            seconds: Longest duration of the video; None = no limit but `max_frames`.
        """
        with own_torch(1), self._watch.over():
            return record(
                self,
                absolute(path),
                episodes=episodes,
                deterministic=self.config.evaluation.deterministic if deterministic is None else deterministic,
                labels=labels,
                max_frames=max_frames,
                frames_per_second=frames_per_second,
                seconds=seconds,
                progress=progress,
            )

    # --- saving and loading -------------------------------------------------------------------------------------------

    def save(self, path: str | Path | None = None, pin: bool = False) -> Path:
        """Writes a checkpoint: the state from which the run resumes exactly, in one directory, written atomically.

        Args:
            path: Directory to write; None = a new one in the run directory (it keeps the last, best and pinned ones).
            pin: Never remove it to make room.

        Raises:
            ConfigError: If there is no run directory, or `path` exists.
            FileError: If it cannot be written; names the last good checkpoint.
        """
        if self._ranks.rank:
            return write_shard(self, self._saved_replays, self.state_dict())
        target = save_run(self, self._saved_replays, self.run_dir, path, pin)
        self._notify("on_checkpoint", target)
        return shown(target)

    def _notify(self, moment: str, *about: Any) -> None:
        """Calls one method of every callback."""
        notify(self._callbacks, moment, self, *about)

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        resume: bool = False,
        play: bool | VectorEnv = True,
        env: Any = None,
        policy_mapping: Mapping[str, str] | MappingFunction | None = None,
        callbacks: Sequence[EpisodeListener] = (),
        config: Any = (),
        trust_code: TrustCode = False,
        keep_schedules: bool = False,
        other_env: bool = False,
        **overrides: Any,
    ) -> Self:
        """Returns a trainer in the state of a checkpoint.

        Args:
            path: A run (its last checkpoint) or a checkpoint.
            resume: Continue the run in its directory; its later rows and checkpoints are deleted.
            play: Make the environment, or existing vectorized environments. False: no environment is made, and the
                trainer can only `learn`, from replay; its checkpoints resume sampling exactly from this point.
            env: The environment, if it was made in code that cannot be found by name (in a script or notebook).
            policy_mapping: The mapping function.
            callbacks: Callbacks; a checkpoint holds their states, not the objects.
            config: Other such settings by path, or settings to change.
            trust_code: Whether a checkpoint of another user may run code of any package that it names; or the allowed
                names, ``["my.module:MyEnv"]`` (docs/trust.md). Your own checkpoints always may.
            keep_schedules: Keep the end of schedules, which a larger `stop.env_steps` in `config` moves.
            other_env: Continue in other environments with the same spaces: other arguments, another number of
                environments or agents. Episodes begin anew, and the run is no longer exact.
            overrides: Shorthands, as for the constructor.

        Raises:
            FileError: If there is no checkpoint, or it is broken; names the last good one.
            ConfigError: If objects made in code must be given again or are not trusted, or if settings that are fixed
                during a run were changed; names all of them.
        """
        place, trainer = absolute(path), None
        run_dir = RunDir(checkpoint.run_of(place)) if resume else None  # first: locks out other writers
        try:
            layers = [*layers_of(config), Layer("code", code_values(env, None, None, policy_mapping, None, overrides))]
            saved = without_foreign_code(checkpoint.read_checkpoint(place), layers, trust_code, run_dir)
            stored = checkpoint.layer_to_load(saved, {path for layer in layers for path in layer.values}, play)
            stand_in = checkpoint.stand_in_of(saved, play, layers)
            with logs_in(run_dir.path if run_dir else None):
                trainer = cls(config=[stored, *layers], callbacks=callbacks, stand_in=stand_in)
            fresh, stop, mine = trainer.resolved, trainer.config.stop, own_shard(trainer._ranks, saved)
            criteria = resumed_criteria(saved.state["criteria"], fresh, stop, str(saved.path))
            trainer.resolved = replace(fresh, history=checkpoint.joined_history(saved, fresh))
            with own_torch(1), explain_mismatch(fresh, saved, trainer.env, other_env):
                load_state(trainer, mine, other_env)
            trainer._criteria = criteria
            move_horizon(trainer, fresh, str(saved.path), keep_schedules)
            trainer._parts = trainer._make_parts()  # the loaded horizon may need one
            trainer._saved_replays.restore(mine, trainer.replays, trainer._note)
            if run_dir is not None:
                trainer._continue_in(run_dir, saved.path)
        except BaseException:
            for opened in (trainer, run_dir):
                if opened is not None:
                    opened.close()
            raise
        trainer.run_dir = run_dir
        if resume and saved.facts["exact"] and not trainer.env.exact and not other_env:
            trainer._reporter.note("unfinished episodes could not be resumed: this run is no longer exact")
        changed = changed_paths(saved.facts.get("paths", {}), trainer.paths) if resume else ()
        for line in (*saved.notes, *changed):
            trainer._reporter.note(line)
        return trainer

    def _continue_in(self, run_dir: RunDir, place: Path) -> None:
        """Prepares the directory of a run that continues from the checkpoint at `place`."""
        checkpoint.delete_later_checkpoints(place)  # before rows: a later start can still cut these
        run_dir.write_settings(self.resolved)
        run_dir.write_criteria(history_of(self.resolved, self.config.stop, self._criteria))
        run_dir.resume_from(self.iteration, self.env_steps, self.config.logging.tensorboard)

    def upgrade(self, state: dict[str, Any], version: int) -> dict[str, Any]:
        """Converts the states of callbacks, which version 1 listed without names, to the form of `CallbackStates`; adds
        the window of rows, which versions 1 and 2 did not have.
        """
        state = {"window": Window().state_dict(), **state}
        if version > 1:
            return state
        listed = state["callbacks"]
        rest = {name: value for name, value in state.items() if name != "callbacks"}
        return {**rest, "callback_states": {UNNAMED: listed} if listed else {}}

    def close(self) -> None:
        """Closes the environments and the run directory."""
        self._pool.close()
        self._measure.close()
        self._ranks.close()
        if self.run_dir is not None:
            self.run_dir.close()
            self.run_dir = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def paths(self) -> dict[str, str]:
        """Compute path of each policy: compiled kernels or torch (docs/kernels.md)."""
        return paths_of(self.policies, self.learners)
