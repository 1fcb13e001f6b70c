"""One training: the loop that plays, learns and hands out weights. Concrete; it is never subclassed.

`Trainer.train_iteration` is the whole of it, and the only place that loops over policies.
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
from rookery.core.settings.layers import Layer
from rookery.core.settings.starting_folder import absolute, shown, started_in, starting_folder
from rookery.core.settings.trust import TrustCode
from rookery.envs.base import VectorEnv
from rookery.envs.logs import logs_in
from rookery.envs.placeholder_env import PlaceholderEnv
from rookery.envs.remote_env_stub import RemoteEnvStub
from rookery.report.console import Reporter, reporter
from rookery.report.results import EvaluationResult, IterationResult
from rookery.report.videos import VideoProgress
from rookery.rollout.hooks import UNNAMED, EpisodeListener
from rookery.rollout.mapping import MappingFunction
from rookery.run.checkpoint import checkpoint
from rookery.run.checkpoint.callback_states import CallbacksPart, CallbackStates, tell
from rookery.run.checkpoint.changes import explained_misfit
from rookery.run.checkpoint.checkpoint_part import CheckpointPart
from rookery.run.checkpoint.replays import SavedReplays
from rookery.run.checkpoint.run_dir import RunDir
from rookery.run.checkpoint.saved_shares import own_share, write_share
from rookery.run.checkpoint.saving import save_run
from rookery.run.checks.memory_check import explain_shortage
from rookery.run.checks.remarks import Remarks
from rookery.run.checks.trusted_code import notes_of_directory, without_foreign_code
from rookery.run.compute import changed_paths, paths_of
from rookery.run.describe.facts import nothing_to_do, run_facts
from rookery.run.evaluate.evaluation import Measure, record
from rookery.run.gradient_steps import learn_from_replay, update_in_parts
from rookery.run.horizon import HorizonNotes, move_horizon
from rookery.run.learn_or_collect import LearnAlone, PlayAlone, to_learn, to_play
from rookery.run.lessons.lessons_part import LessonsPart
from rookery.run.opponents.self_play_part import SelfPlayPart
from rookery.run.pace import CHUNK, ITERATION, MaxDecisionsPart, ahead, check_can_pause, measured_pace, remaining
from rookery.run.parts import Parts
from rookery.run.prepare import callbacks_of, code_values, layers_of, prepare
from rookery.run.ranks.learners import RankTask
from rookery.run.ranks.pool_parts import LagPart, WaitsPart
from rookery.run.ranks.ranks_part import RanksPart
from rookery.run.ranks.serve_rank import follow
from rookery.run.results import made_within, mean_rows, result_of
from rookery.run.run import Progress, Round, Run
from rookery.run.stopping import StopFunction, carried_on, check_criteria, criteria_of, history_of, stop_rule
from rookery.run.watch import Watch


class Trainer(Run):
    """Trains one or many policies in one environment.

    Args:
        env: A Gymnasium id, an environment class, a function that makes one, or an import path ``my.module:MyEnv``.
            None if the configuration names it.
        algorithm: Settings of the algorithm, ``PPOConfig(lr=1e-3)``, their class or its name, ``"ppo"``: for the policy
            ``main``, or what every entry of `policies` starts from.
        policies: Policies by name: settings, or ``None`` for those of `algorithm`, or a dict with ``frozen`` and
            settings, or a list of the agents that the policy plays.
        policy_mapping: Which policy plays which agent: a dict, or a function ``(agent, episode) -> policy`` or
            ``(agent) -> policy``. Not needed for a single policy, or where policies are named like agents.
        callbacks: Your code in the loop, called in this order.
        config: More layers, weakest first: paths of YAML files, dicts of paths and values, or `Layer` objects.
        preset: ``none``, ``auto`` (the preset of a known environment) or the name of one.
        seed: Names all random streams; None = drawn once, see `trainer.seed`.
        run_dir: Directory for what the run writes (docs/reference/run-directory.md); None writes nothing.
        force: Replace the run that is in `run_dir`.
        stand_in: Copies that are there already; or what stands for them in a trainer that only learns, see `load`.
        ranks: The learners of the run, of which this is one (docs/how-to/several-learners.md).
        overrides: Shorthands such as ``num_envs=16``, or whole sections such as
            ``evaluation=EvaluationConfig(every=5)``.

    Raises:
        ConfigError: If a setting is wrong; says all that are.
        EnvError: If the environment cannot be made or used.
    """

    state_version: ClassVar[int] = 2
    saved: ClassVar[tuple[str, ...]] = ("callback_states",)
    fixed: ClassVar[tuple[str, ...]] = ("reporter", "run_dir", "notes", "stop_function", "callbacks",
                                        "measure", "saved_replays", "remarks", "horizon_notes", "watch")  # fmt: skip

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
        with own_torch(1), logs_in(run_dir), started_in(starting_folder()):  # learning may take more, see `threads`
            values = code_values(env, algorithm, policies, policy_mapping, seed, overrides)
            task = RankTask([*layers_of(config), Layer("code", values)], preset, callbacks_of(callbacks))
            resolved, vector_env, mapping, self.callbacks, self.notes, ranks = prepare(task, stand_in, ranks)
            self.reporter: Reporter = reporter(resolved.config.logging.console)
            super().__init__(resolved, vector_env, mapping, self.callbacks, self.reporter.note, ranks)
        self.measure, self.watch = Measure(self, lambda: self.evaluate()), Watch(self, lambda: self.reporter)
        self.remarks, self.horizon_notes = Remarks(self), HorizonNotes(self)
        self.run_dir: RunDir | None = None
        self.parts = self._make_parts()
        check_criteria(resolved, result_of(self, self.begin_iteration()))
        self.callback_states = CallbackStates(
            self.callbacks, self.windows, self.note, self.notes, not isinstance(vector_env, PlaceholderEnv)
        )
        self.stop_function: StopFunction | None = None
        self.saved_replays = SavedReplays()
        if run_dir is not None:
            self.run_dir = RunDir(Path(self.folder, run_dir))
            try:
                self.run_dir.begin(self.resolved, force)
            except Exception:
                self.run_dir.close()
                raise

    def _make_parts(self) -> Parts:
        """Returns the parts that settings ask for, in the order of their calls."""
        config = self.config
        limited = any(entry.max_decisions is not None for entry in config.policies.values())
        return Parts(
            (
                RanksPart(self) if self.ranks.size > 1 else None,
                LagPart(self) if config.sampling.lag else None,
                WaitsPart(self) if isinstance(self.env, RemoteEnvStub) else None,
                self.horizon_notes if self.horizon is not None else None,
                MaxDecisionsPart(self) if limited else None,
                self.measure if config.evaluation.every else None,
                LessonsPart(self) if config.curriculum else None,
                SelfPlayPart(self) if config.self_play else None,
                self.remarks,
                CallbacksPart(self._tell) if self.callbacks else None,
                CheckpointPart(config.checkpoint, self.save, self.reporter) if self.run_dir is not None else None,
            )
        )

    # --- the loop -----------------------------------------------------------------------------------------------------

    def train_iteration(self) -> IterationResult:
        """Plays and learns for one iteration: `sampling.iteration_steps` env steps, or one update of every learner.

        While sampling is paused nothing is played, and learned as much from replay as belongs to so many env steps.
        """
        with self._timed():
            progress = self.progress = self.progress or self.begin_iteration()
            while (this := progress.round) or (budget := remaining(self, progress)) > 0:
                if this is None and self.paused:
                    this = progress.round = Round(self.replays, env_steps=min(budget, CHUNK))
                elif this is None:
                    with self.timers["sample"]:
                        sample = self.pool.sample(budget)
                    self.count_played(sample)
                    if sample.rollouts and self.pool.plays_ahead:  # the next are played meanwhile
                        self.pool.play_ahead(ahead(self, progress))
                    this = progress.round = Round(sample.rollouts, sample.rollouts)
                if this.alone:
                    learn_from_replay(self, this, progress)
                for name in this.each(self.check_stop):
                    self._learn(name, this, progress)
                self.end_round(this, progress)
        return self._end_iteration(progress)

    def _learn(self, name: str, this: Round, progress: Progress) -> None:
        """One update of one policy; its observation statistics move afterwards, and only here."""
        learner, played = self.learners[name], this.rollouts[name]
        self.tell_time(name, played)
        rollout = played if self.staging is None else self.staging.send_rollout(played)
        with self.timers["training_step"], self.threads_of(name):
            if learner.in_parts:
                row = update_in_parts(self, this, name, rollout)
            else:
                row = learner.training_step(learner.before_targets(rollout, this.rollouts))
        for add in self.parts.in_update:
            row = {**row, **add(name, played)}
        progress.note(name, row, played)
        self.count_learned(name, rollout)

    @contextmanager
    def _timed(self, call: str = "train_iteration", task: Any = None) -> Iterator[Any]:
        """What every iteration is done in: its time counts, and torch has one thread unless a learner asks for more. It
        gives the task of rank 0.
        """
        self.clock.begin()
        self.apart = {name: stopped for name, stopped in self.apart.items() if name == call}
        try:
            with own_torch(1), self.timers["train_iteration"]:
                for begin in self.parts.before_call:
                    task = begin(call, task)
                yield task
                for end in self.parts.after_call:
                    end(call)
        except (MemoryError, RuntimeError) as error:
            explain_shortage(error)
            raise
        finally:
            self.seconds += self.clock.lap()

    def _end_iteration(self, progress: Progress) -> IterationResult:
        """Counts an iteration and writes down what came of it."""
        self.apart, self.progress = {}, None if progress is self.progress else self.progress
        self.iteration += 1
        for take in self.parts.before_result:
            take()
        self.windows.add(self.finished, self.env)
        self.finished = []
        for name, rows in progress.learned.items():
            learner = self.learners[name]
            pace = {} if learner.replay is None else measured_pace(self, learner.replay, progress)
            self.last_learning[name] = mean_rows(rows) | learner.summary() | pace
        result = result_of(self, progress)
        for add in self.parts.after_iteration:
            result = add(result)
        if result.sampling:
            self.score = result.score
        if self.run_dir is not None:
            self.run_dir.record(result, self.config.logging.tensorboard)
        return result

    def iterations(self) -> Iterator[IterationResult]:
        """Iterations without end; break when you have seen enough."""
        while True:
            yield self.train_iteration()

    def train(self, stop: Mapping[str, float] | StopFunction | None = None) -> IterationResult:
        """Trains until any criterion is reached; returns the last result.

        With a run directory, checkpoints are written as the section `checkpoint` says, and one at the end. Ctrl-C (or
        SIGTERM, or SIGHUP) once stops after the vector step or gradient step under way, writes a checkpoint and raises;
        twice stops at once. Criteria of time end it at the same places, within an iteration (`IterationResult.whole`).

        Args:
            stop: Criteria such as ``{"return_mean": 18, "env_steps": 200_000}`` on the whole life of the run, added to
                those of the configuration and stronger than these; or a function that looks at each result and says
                True to stop. None: what it was last given, also before the run was loaded, as far as `load` was not
                given other criteria.

        Raises:
            ConfigError: If nothing would ever end the training, or a criterion names no metric.
            Interrupted: A KeyboardInterrupt, after the first Ctrl-C, SIGTERM or SIGHUP.
        """
        for result in self.results(stop):
            last = result
        return last

    def results(self, stop: Mapping[str, float] | StopFunction | None = None) -> Generator[IterationResult, None, None]:
        """Trains as `train` does and gives each result; the last says in `stop_reason` why. Who stops asking earlier
        ends the training there (``close()`` does so at once); `save` keeps what it has come to. The time between two
        questions is no time of the training.
        """
        if self.ranks.rank:
            yield from follow(self.ranks, self.interrupt, "train_iteration", self.train_iteration, self.save)
            return
        given = isinstance(stop, Mapping) and bool(stop)
        standing = criteria_of(self.config.stop) if given else self.standing_criteria
        rule = stop_rule(stop, standing, self.stop_function, self.config.evaluation.every)
        self.criteria, self.stop_function = dict(rule.criteria), rule.function
        if given and self.run_dir is not None:
            self.run_dir.write_criteria(history_of(self.resolved, self.config.stop, self.criteria))
        self.horizon_notes.begin(rule.criteria)
        with self._session(rule.criteria):
            self._tell("on_train_start")
            result = result_of(self, self.begin_iteration())
            rule.check(result)
            reason = rule.reason(result) if self.iteration and self.progress is None else rule.late(self.seconds)
            if reason:
                self.note(nothing_to_do(self, reason))
                result = replace(result, stop_reason=reason)
                with self.clock.held():
                    yield result
            with self.watch.over(rule.limit):
                while not reason:
                    result, reason = made_within(self, self.train_iteration, rule)
                    result = replace(result, stop_reason=reason)
                    self._report(result)
                    with self.clock.held():
                        yield result
            self.interrupt.check()
            self._tell("on_train_end", result)
            self.ranks.broadcast_call("end", result)

    @contextmanager
    def _session(self, criteria: Mapping[str, float]) -> Iterator[None]:
        """What the reporter and signals are told before and after iterations that belong together."""
        facts = run_facts(self, [*self.notes, *notes_of_directory(self.run_dir)], criteria)
        self.reporter.start(facts, self.timers)
        self.parts = self._make_parts()
        try:
            with self.interrupt.watching(), self.clock.running():
                yield
                self.seconds += self.clock.lap()
        except Interrupted as stopped:
            if self.run_dir is not None:
                self.reporter.event(f"stopped; checkpoint {self.save()}")
            self.ranks.broadcast_call("end")
            raise stopped.as_error() from None
        finally:
            self.reporter.finish()
            if self.run_dir is not None:
                with suppress(FileError):  # of a full disk the checkpoint has told
                    self.run_dir.write_timers(self.timers)

    def _report(self, result: IterationResult) -> None:
        """Shows an iteration, and gives it to the parts."""
        self.reporter.iteration(result)
        for take in self.parts.after_report:
            take(result)

    def learn(self, gradient_steps: int = ITERATION, policies: Sequence[str] | None = None,
              stop: Mapping[str, float] | None = None) -> IterationResult:  # fmt: skip
        """Learns from replay alone: no environment is touched, and no schedule moves.

        Every 1000 gradient steps are an iteration: a row of metrics, and a checkpoint when one is due; one is written
        at the end too, if there is a run directory. Evaluations are left out. Ctrl-C ends it as it ends `train`.

        Args:
            gradient_steps: Of each policy.
            policies: Which; None = all that learn from replay.
            stop: Ends it earlier, ``{"seconds": 60}`` or minutes: of training, on the whole life of the run.

        Returns:
            Where the run stands then.

        Raises:
            ConfigError: If a policy does not learn from replay, or nothing is in it.
            Interrupted: A KeyboardInterrupt, after the first Ctrl-C, SIGTERM or SIGHUP.
        """
        return self._apart("learn", to_learn(self, gradient_steps, policies, stop or {}))

    def collect(self, env_steps: int) -> IterationResult:
        """Plays and stores what is played in replay; nothing is learned.

        Policies without replay play with the weights they have; what they play is not kept. Every 1000 env steps are
        an iteration, as of `learn`. Steps in which the environment rests do not count.

        Args:
            env_steps: How many, at least; whole vector steps are made.

        Returns:
            Where the run stands then.

        Raises:
            ConfigError: If no policy learns from replay.
            Interrupted: A KeyboardInterrupt, after the first Ctrl-C, SIGTERM or SIGHUP.
        """
        return self._apart("collect", to_play(self, env_steps))

    def _apart(self, call: str, task: LearnAlone | PlayAlone) -> IterationResult:
        """Iterations of learning alone, or playing alone, which leave one that was stopped in its middle as it is."""
        if self.ranks.rank:
            return [*follow(self.ranks, self.interrupt, call, lambda: self.iteration_apart(call, task), self.save)][-1]
        with self._session(task.criteria(self)):
            told = task.rule.late(self.seconds)
            result = replace(result_of(self, self.begin_iteration()), stop_reason=told)
            if told:
                self.note(nothing_to_do(self, told))
            with self.watch.over(task.rule.limit):
                while not told:
                    result, late = made_within(self, lambda: self.iteration_apart(call, task), task.rule)
                    told = task.reason(self) or late
                    result = replace(result, stop_reason=told)
                    self._report(result)
                    if not told:
                        self.interrupt.check()
            self.interrupt.check()
            self.ranks.broadcast_call("end", result)
        return result

    def iteration_apart(self, call: str, task: LearnAlone | PlayAlone | None) -> IterationResult:
        """Makes an iteration of learning alone, or of playing alone, as rank 0 says that gives the task."""
        progress = self.apart.get(call) or self.begin_iteration()
        self.apart = {call: progress}
        with self._timed(call, task) as given:
            given(self, progress)
        return self._end_iteration(progress)

    def pause_sampling(self) -> None:
        """From now on iterations learn from replay only, and the environment is not touched, until
        `resume_sampling`. Each makes as many gradient steps as belong to its env steps. A checkpoint keeps this.

        Raises:
            ConfigError: If no policy has enough in its replay for learning to begin.
        """
        check_can_pause(self)
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
        with own_torch(1), self.timers["evaluate"], self.watch.over():
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
        frames_per_second: float | None = None,
        progress: VideoProgress | None = None,
    ) -> EvaluationResult:
        """Plays episodes in one environment and writes them as a video.

        Args:
            path: The file: ``.webp`` (smallest), ``.gif``, ``.png`` or, with the package av, ``.mp4``.
            episodes: How many.
            deterministic: Play the most likely actions; None = `evaluation.deterministic`.
            labels: Write below the pictures who plays, and what each has earned.
            max_frames: Pictures, at most.
            frames_per_second: Speed of the video; None = the environment's `render_fps`, at most 50, or 12 without one.
            progress: Told of every picture that has been encoded: how many are, and how many there will be.
        """
        with own_torch(1), self.watch.over():
            return record(
                self,
                absolute(path),
                episodes=episodes,
                deterministic=self.config.evaluation.deterministic if deterministic is None else deterministic,
                labels=labels,
                max_frames=max_frames,
                frames_per_second=frames_per_second,
                progress=progress,
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
        if self.ranks.rank:
            return write_share(self, self.saved_replays, self.state_dict())
        target = save_run(self, self.saved_replays, self.run_dir, path, pin)
        self._tell("on_checkpoint", target)
        return shown(target)

    def _tell(self, moment: str, *about: Any) -> None:
        """Calls one method of every callback."""
        tell(self.callbacks, moment, self, *about)

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
        **overrides: Any,
    ) -> Self:
        """A trainer as it was when a checkpoint was written.

        Args:
            path: A run (its last checkpoint) or a checkpoint.
            resume: Go on writing in the run's directory: later rows and checkpoints of it are forgotten.
            play: Make the environment, or the copies to play in. False: it is not looked for, and the trainer can only
                `learn`, from replay memories; what it saves goes on playing exactly where this checkpoint stands.
            env: The environment, if it was made in code that cannot be found by name (in a script or notebook).
            policy_mapping: The mapping function, likewise.
            callbacks: Your code in the loop; objects are not part of a checkpoint, what they keep can be.
            config: Other such settings by path, or settings to change.
            trust_code: Whether code of any package may be run where a checkpoint of somebody else names it; or the
                names that may be, ``["my.module:MyEnv"]`` (docs/trust.md). One's own checkpoints always may.
            keep_schedules: Leave the end of schedules where it is, which a larger `stop.env_steps` in `config` moves.
            overrides: Shorthands, as for the constructor.

        Raises:
            FileError: If there is no checkpoint, or it is broken; names the last good one.
            ConfigError: If something made in code has to be given again or is not trusted, or settings were changed
                that keep their value in the middle of a run; names all.
        """
        place, trainer = absolute(path), None
        run_dir = RunDir(checkpoint.run_of(place)) if resume else None  # first: nobody else may write from now on
        try:
            layers = [*layers_of(config), Layer("code", code_values(env, None, None, policy_mapping, None, overrides))]
            saved = without_foreign_code(checkpoint.read_checkpoint(place), layers, trust_code, run_dir)
            stored = checkpoint.layer_to_load(saved, {path for layer in layers for path in layer.values}, play)
            stand_in = checkpoint.stand_in_of(saved, play, layers)
            with logs_in(run_dir.path if run_dir else None):
                trainer = cls(config=[stored, *layers], callbacks=callbacks, stand_in=stand_in)
            fresh, stop, mine = trainer.resolved, trainer.config.stop, own_share(trainer.ranks, saved)
            criteria = carried_on(saved.state["criteria"], fresh, stop, str(saved.path))
            trainer.resolved = replace(fresh, history=checkpoint.joined_history(saved, fresh))
            with own_torch(1), explained_misfit(fresh, saved, trainer.env):
                trainer.load_state_dict(mine.state)
            trainer.criteria = criteria
            move_horizon(trainer, fresh, str(saved.path), keep_schedules)
            trainer.parts = trainer._make_parts()  # of a horizon that it had before
            trainer.saved_replays.restore(mine, trainer.replays, trainer.note)
            if run_dir is not None:
                checkpoint.forget_later(saved.path)  # first: a kill in between leaves rows that the next start cuts
                run_dir.write_settings(trainer.resolved)
                run_dir.write_criteria(history_of(trainer.resolved, stop, criteria))
                run_dir.go_on_from(trainer.iteration, trainer.env_steps, trainer.config.logging.tensorboard)
        except BaseException:
            for opened in (trainer, run_dir):
                if opened is not None:
                    opened.close()
            raise
        trainer.run_dir = run_dir
        if saved.facts["exact"] and not trainer.env.exact:
            trainer.reporter.note("unfinished episodes could not be taken up again: this run is no longer exact")
        changed = changed_paths(saved.facts.get("paths", {}), trainer.paths) if resume else ()
        for line in (*saved.notes, *changed):
            trainer.reporter.note(line)
        return trainer

    def upgrade(self, state: dict[str, Any], version: int) -> dict[str, Any]:
        """Turns the states of callbacks that version 1 listed without names into what `CallbackStates` reads."""
        listed = state["callbacks"]
        rest = {name: value for name, value in state.items() if name != "callbacks"}
        return {**rest, "callback_states": {UNNAMED: listed} if listed else {}}

    def close(self) -> None:
        """Frees the environments and the run directory."""
        self.pool.close()
        self.measure.close()
        self.ranks.close()
        if self.run_dir is not None:
            self.run_dir.close()
            self.run_dir = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def paths(self) -> dict[str, str]:
        """What computes each policy: compiled kernels or torch (docs/kernels.md)."""
        return paths_of(self.policies, self.learners)
