"""Records demonstrations: whole episodes of a trained policy, of a function or of a person."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rookery.core.batch import Demand, Rollout, TensorTree
from rookery.core.errors import ConfigError, EnvError, SpaceError
from rookery.core.io.files import make_folder, write_directory
from rookery.core.io.leftovers import restore
from rookery.core.process.torch_modes import call_in_user_modes, own_modes, users_modes
from rookery.core.seeding import Role, Streams
from rookery.core.settings.starting_folder import absolute
from rookery.core.settings.trust import TrustCode
from rookery.core.spaces.arrays import MASK, ActionSpec, ObsSpec
from rookery.core.timers import Timers
from rookery.envs.base import VectorEnv
from rookery.envs.make import env_name, make_env
from rookery.envs.vector.rendering import drawn
from rookery.models.build import ModelConfig
from rookery.models.distributions import Behavior, NoiseSpec
from rookery.models.squashed import Hybrid, HybridHead, SquashedGaussian, SquashedHead
from rookery.policies.policy import Policy
from rookery.replay import segments
from rookery.replay.recording import LIKELIEST, files_of, joined_segments
from rookery.replay.segment_arrays import SegmentArrays, rows_in, segment_of
from rookery.replay.segments import RAW, Spaces, unknown_raw
from rookery.rollout.hooks import EpisodeResult
from rookery.rollout.mapping import EpisodeInfo, PolicyMapping
from rookery.rollout.slots import WorkerPolicy
from rookery.rollout.worker import RolloutWorker
from rookery.run.prepare import make_copies
from rookery.run.settings import EvaluationConfig
from rookery.run.trainer import Trainer

FRAGMENT = 256
"""Decisions of a fragment, after which they are taken from the worker."""

Decide = Callable[..., Any]
"""Returns an action of the environment's action space: ``decide(obs)``, or ``decide(obs, info)``."""


class EpisodeDiscarded(Exception):
    """The player discards the current episode."""


class RecordingEnded(Exception):
    """The player ends the recording; the current episode is not kept."""


class FunctionPolicy(Policy):
    """Policy that calls a function for each observation.

    Args:
        obs: Layout of the observations.
        action: Layout of the actions.
        decide: The function.
        name: The policy's name.
    """

    def __init__(self, obs: ObsSpec, action: ActionSpec, decide: Decide, name: str) -> None:
        super().__init__(obs, action, ModelConfig(hidden=()), name, generator=torch.Generator())
        self.decide = decide
        self.info: Callable[[], Any] = dict
        """Returns the environment's info of the current step."""
        self._takes_info = takes_info(decide)

    def __deepcopy__(self, memo: dict[int, Any]) -> FunctionPolicy:
        """Returns itself, because the function may have state."""
        return self

    def act(
        self, obs: TensorTree, noise: Tensor | None = None, deterministic: bool = False, memory: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Calls the function; log-probabilities are unknown, and 0.

        Raises:
            SpaceError: If the function returns a value that is not an action; shows the value.
        """
        tree = {path: tensor.cpu().numpy() for path, tensor in obs.items()}
        number = len(next(iter(tree.values())))
        answers = []
        for row in range(number):
            one = {path: array[row : row + 1] for path, array in tree.items()}
            seen, info = row_of(self.obs_spec.to_env(one)), self.info()
            if self.obs_spec.has_mask and MASK not in info:
                info = {**info, MASK: one[MASK][0]}
            with users_modes():
                answer = self.decide(seen, info) if self._takes_info else self.decide(seen)
            try:
                answers.append(self.action_spec.from_env([answer]))
            except (SpaceError, TypeError, ValueError, KeyError) as error:
                raise SpaceError(
                    f"{function_name(self.decide)} returned {answer!r}, which is not an action of "
                    f"{self.action_spec.space}: {error}"
                ) from None
        return torch.from_numpy(np.concatenate(answers)), torch.zeros(number, dtype=torch.float32, device="cpu")


def takes_info(decide: Decide) -> bool:
    """Returns whether a function takes the environment's info as a second argument."""
    try:
        signature = inspect.signature(decide)
    except (TypeError, ValueError):  # some built-in callables have none
        return False
    by_place = [
        one for one in signature.parameters.values() if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
    ]
    return len([one for one in by_place if one.default is one.empty or one.name == "info"]) > 1


def function_name(decide: Decide) -> str:
    """Returns the name of a function for messages."""
    return f"{getattr(decide, '__module__', '')}:{getattr(decide, '__qualname__', type(decide).__name__)}"


def row_of(values: Any) -> Any:
    """Returns the only row of an observation that was stacked leaf by leaf."""
    if isinstance(values, Mapping):
        return {key: row_of(part) for key, part in values.items()}
    if isinstance(values, tuple):
        return tuple(row_of(part) for part in values)
    return values[0]


class EpisodeRecorder:
    """Plays episodes in one environment, one after the other, and returns the decisions of each.

    Args:
        env: One environment; it is reset.
        policies: Policies that act, by name.
        mapping: Policy of each agent.
        seed: Random seed of the episodes and of actions.
        deterministic: Whether the most likely actions are played.
        limit: Environment steps after which an episode counts as truncated; None = none.

    Attributes:
        worker: The rollout worker.
        result: The last finished episode.
    """

    def __init__(
        self,
        env: VectorEnv,
        policies: Mapping[str, Policy],
        mapping: PolicyMapping,
        *,
        seed: int,
        deterministic: bool,
        limit: int | None = None,
    ) -> None:
        self.env, self.policies, self.mapping, self.limit = env, policies, mapping, limit
        self.deterministic = deterministic
        self.result: EpisodeResult | None = None
        self._streams = Streams(seed)
        self._started = 0
        if any(isinstance(policy, FunctionPolicy) and policy._takes_info for policy in policies.values()):
            env.keep_infos = "all"
        for policy in policies.values():
            if isinstance(policy, FunctionPolicy):
                policy.info = self.infos
        self._begin()

    def _begin(self) -> None:
        """Resets the environment to the next episode."""
        first, plan = self._started, self._streams.episodes(Role.ENV)
        streams = Streams(self._streams.integer(Role.ACTION, first)) if first else self._streams

        def seeds(lane: int, episode: int) -> int:
            return plan(lane, first + episode)

        self.worker = RolloutWorker(self.env, self.mapping, streams, seeds, Timers(), self.deterministic)
        for name, policy in self.policies.items():
            self.worker.add_policy(name, policy, Demand(FRAGMENT))
        self._raw = {name: raw_actions_of(mine, self.deterministic) for name, mine in self.worker.policies.items()}
        self._fresh = False
        self._parts = self._new_parts()
        self.worker.reset()

    def infos(self) -> Mapping[str, Any]:
        """Returns the environment's infos of the last step: of its only agent, or by agent where there are several;
        empty at the start of an episode.
        """
        if not self.worker.lengths[0]:
            return {}
        env_infos = self.env.infos.get(0, {})
        agents = [agent for kind in self.env.kinds for agent in kind.agents]
        found: Mapping[str, Any] = env_infos.get(agents[0], {}) if len(agents) == 1 else env_infos
        return found

    def standing(self) -> EpisodeResult:
        """Returns the result of the current episode so far."""
        return self.worker.standing(0, self._started)

    def picture(self) -> np.ndarray | None:
        """Returns an image of the current state; None if the environment renders none."""
        return call_in_user_modes(drawn, self.env, 0)

    def play(self) -> dict[str, SegmentArrays]:
        """Plays an episode to its end; returns the decisions of each policy.

        Raises:
            EnvError: If an agent has no policy here, or the environment breaks its contract.
            EpisodeDiscarded: If the player discards the episode; the next call plays the next one.
            RecordingEnded: If the player ends the recording.
        """
        if self._fresh:
            self._begin()
        try:
            while True:
                sample = self.worker.sample(1)
                for name, kind in sample.newcomers.items():
                    raise EnvError(f"no policy {name!r} for agents {', '.join(kind.agents)}; map them to another")
                for name, rollout in sample.rollouts.items():
                    self._parts[name].append(rollout)
                if sample.finished:
                    self.result = sample.finished[-1]
                    self._started += 1
                    return self._taken(cut=False)
                if self.limit is not None and int(self.worker.lengths[0]) >= self.limit:
                    self.result = self.standing()
                    self._started, self._fresh = self._started + 1, True
                    return self._taken(cut=True)
        except (EpisodeDiscarded, RecordingEnded):
            self._started, self._fresh = self._started + 1, True
            raise

    def _taken(self, cut: bool) -> dict[str, SegmentArrays]:
        """Returns the decisions of the episode, including those that the worker's stores still hold.

        Args:
            cut: Whether the episode is cut here, so that all of its agents are truncated.
        """
        assert self.worker.now is not None
        for name, policy in self.worker.policies.items():
            if policy.store is not None and policy.kind >= 0 and policy.store.complete:
                rollout = policy.store.drain(self.worker.now.rows[policy.kind].obs, policy.row_of_slot)
                self._parts[name].append(rollout)
        found = {name: part.segment(cut) for name, part in self._parts.items() if part.total}
        self._parts = self._new_parts()
        return found

    def _new_parts(self) -> dict[str, PlayedPart]:
        for raw in self._raw.values():
            if raw is not None:
                raw.clear()
        return {name: PlayedPart(self._raw[name]) for name in self.policies}


class PlayedPart:
    """Decisions of one policy in an episode so far.

    Args:
        raw: Keeps actions before tanh; None for policies that do not squash.

    Attributes:
        total: Number of decisions.
    """

    def __init__(self, raw: RawActions | None = None) -> None:
        self.total = 0
        self._raw = raw
        self._rollouts: list[SegmentArrays] = []
        self._newest: dict[int, int] = {}  # by slot: number of its newest decision
        self._due: dict[int, int] = {}  # by slot: clock of the decision that would follow

    def append(self, rollout: Rollout) -> None:
        """Adds the decisions of a rollout, which may be overwritten afterwards."""
        slots = rollout.slot.tolist()
        newest = np.array([self._newest.get(slot, -1) for slot in slots])
        due = np.array([self._due.get(slot, -1) for slot in slots])
        segment = segment_of(rollout, self.total, newest, due)
        if self._raw is not None:
            segment[RAW] = self._raw.column(segment)
        self._rollouts.append({name: np.array(array) for name, array in segment.items()})
        for row, (slot, clock) in enumerate(zip(segment["slot"].tolist(), segment["clock"].tolist(), strict=True)):
            self._newest[slot], self._due[slot] = self.total + row, clock + 1
        self.total += rows_in(segment)

    def segment(self, cut: bool) -> SegmentArrays:
        """Returns all decisions as one segment; if the episode is `cut`, all unfinished agents are truncated."""
        segment = joined_segments(self._rollouts, 0)
        later = np.flatnonzero((segment["before"] > 0) & ~segment["begins"])
        kept = ~np.isin(segment["next_row"], later - segment["before"][later])  # the next decisions of others are known
        segment |= {name: array[kept] for name, array in segment.items() if name.startswith("next_")}
        if cut:
            segment["truncated"][segment["next_row"]] = True
        return segment


class RecordedReplay:
    """Episodes to be written as a replay directory.

    Args:
        policies: The policies that act.
        missing: Unknown columns, names of `replay/recording.py:MISSING`.
        likeliest: Whether policies play their most likely actions.
    """

    def __init__(self, policies: Mapping[str, Policy], missing: Sequence[str], likeliest: bool = False) -> None:
        self._notes = {name: (LIKELIEST,) for name, one in policies.items() if likeliest and squashes(one)}
        self.spaces = {
            name: Spaces(policy.obs_spec, policy.action_spec, policy.memory_size) for name, policy in policies.items()
        }
        self.missing = missing
        self._episodes: dict[str, list[SegmentArrays]] = {}
        self.results: list[EpisodeResult] = []

    def keep(self, decisions: Mapping[str, SegmentArrays], result: EpisodeResult) -> None:
        """Adds an episode."""
        for name, segment in decisions.items():
            self._episodes.setdefault(name, []).append(segment)
        self.results.append(result)

    def lengths(self) -> dict[str, list[int]]:
        """Returns the number of decisions of each episode, by policy."""
        return {name: [rows_in(segment) for segment in episodes] for name, episodes in self._episodes.items()}

    def write(self, path: Path, *, replace: bool) -> None:
        """Writes the episodes as a replay directory.

        Raises:
            ConfigError: If there are none.
            FileError: If it cannot be written.
        """
        if not self._episodes:
            raise ConfigError(f"{path}: no episode was kept, so there is nothing to write")
        segments_ = {name: self._segments(episodes) for name, episodes in self._episodes.items()}
        files, facts = files_of(segments_, self.spaces, dict.fromkeys(segments_, self.missing), notes=self._notes)
        make_folder(path.parent)
        write_directory(path, files, facts, replace=replace)

    def _segments(self, episodes: Sequence[SegmentArrays]) -> list[SegmentArrays]:
        """Returns the episodes joined to segments of about `SEGMENT_BYTES`."""
        found: list[SegmentArrays] = []
        part: list[SegmentArrays] = []
        size = serial = 0
        for number, segment in enumerate(episodes, 1):
            part.append(segment)
            size += sum(array.nbytes for array in segment.values())
            if size >= segments.SEGMENT_BYTES or number == len(episodes):
                found.append(joined_segments(part, serial))
                serial += rows_in(found[-1])
                part, size = [], 0
        return found


def function_policies(env: VectorEnv, decide: Decide) -> tuple[dict[str, FunctionPolicy], PolicyMapping]:
    """Returns policies that call one function: ``main``, or one for each kind of agents, named like its first agent."""
    names = ["main"] if len(env.kinds) == 1 else [kind.agents[0] for kind in env.kinds]
    made = {
        name: FunctionPolicy(kind.obs, kind.action, decide, name) for name, kind in zip(names, env.kinds, strict=True)
    }

    def policy_of(agent: str, episode: EpisodeInfo) -> str:
        return next(name for name, kind in zip(names, env.kinds, strict=True) if agent in kind.agents)

    return made, PolicyMapping(policy_of, names)


def record_episodes(
    recorder: EpisodeRecorder,
    kept: RecordedReplay,
    episodes: int,
    *,
    wanted: Callable[[EpisodeResult], bool] = lambda result: True,
    note: Callable[[str], None] = lambda line: None,
    most: int | None = None,
) -> None:
    """Plays until a number of episodes is kept, or the player ends the recording.

    Args:
        recorder: Plays the episodes.
        kept: Receives the episodes.
        episodes: Number of episodes to keep.
        wanted: Returns whether to keep an episode.
        note: Called with a line about each episode.
        most: Most episodes to play; None = no limit.

    Raises:
        ConfigError: If not enough of them were kept.
        EnvError: If an agent has no policy here, or the environment breaks its contract.
    """
    played = 0
    while len(kept.results) < episodes:
        number = len(kept.results) + 1
        if most is not None and played == most:
            raise ConfigError(
                f"of {played:,} episodes {number - 1} were good enough to be kept, and {episodes} are needed"
            )
        played += 1
        try:
            decisions = recorder.play()
            assert recorder.result is not None
            result = replace(recorder.result, index=number - 1)
            keep = wanted(result)
        except EpisodeDiscarded:
            note(f"episode {number}: discarded")
            continue
        except RecordingEnded:
            return
        if keep:
            kept.keep(decisions, result)
        outcome = "kept" if keep else "discarded"
        note(f"episode {number}: return {result.total:.6g}, {result.length:,} steps, {outcome}")


@own_modes()
def record_replay(
    env: Any,
    source: str | Path | Decide,
    episodes: int,
    out: str | Path,
    *,
    env_config: Mapping[str, Any] | None = None,
    seed: int = 0,
    deterministic: bool = True,
    max_episode_steps: int | None = None,
    trust_code: TrustCode = False,
    force: bool = False,
) -> list[float]:
    """Plays episodes and writes them as a replay directory, which runs can imitate or start from.

    Args:
        env: The environment, as in `Trainer`; None = that of the run.
        source: The player: a run or a checkpoint, or a function ``decide(obs)`` or ``decide(obs, info)`` that returns
            actions of the environment's action space.
        episodes: Number of episodes.
        out: The directory.
        env_config: Keyword arguments of the environment's constructor.
        seed: Random seed of the episodes and of actions.
        deterministic: Whether policies play their most likely actions.
        max_episode_steps: Steps after which an episode counts as truncated; None = `evaluation.max_episode_steps` of
            the run, or the default of that setting.
        trust_code: As in `Trainer.load`.
        force: Whether an existing directory is replaced.

    Returns:
        The return of each episode.

    Raises:
        ConfigError: If `out` exists, or the run and the environment do not match.
        EnvError: If the environment cannot be made or used.
    """
    place = absolute(out)
    if restore(place) and not force:
        raise ConfigError(f"{place}: exists; give force=True to replace it, or another name")
    with prepared(env, source, env_config or {}, trust_code) as (copy, policies, mapping, limit):
        limit = limit if max_episode_steps is None else max_episode_steps
        recorder = EpisodeRecorder(copy, policies, mapping, seed=seed, deterministic=deterministic, limit=limit)
        kept = RecordedReplay(policies, ("logp",) if callable(source) else (), deterministic)
        record_episodes(recorder, kept, episodes)
    kept.write(place, replace=force)
    return [result.total for result in kept.results]


@contextmanager
def prepared(
    env: Any, source: str | Path | Decide, env_config: Mapping[str, Any], trust_code: TrustCode, *, render: bool = False
) -> Iterator[tuple[VectorEnv, Mapping[str, Policy], PolicyMapping, int]]:
    """Makes one environment, its policies and their mapping, as a context, with the most steps of an episode.

    Args:
        env: As in `record_replay`, like the others.
        source: The player.
        env_config: Keyword arguments of the environment's constructor.
        trust_code: Whether code that a run names may be run.
        render: Whether the environment is to render images, if it can.
    """
    if callable(source):
        if env is None:
            raise ConfigError("the environment is missing: it must be given if a function plays")
        with users_modes():
            copy = make_env(env, env_config, (), 1, "serial", render=render)
        policies, mapping = function_policies(copy, source)
        with closing(copy):
            yield copy, policies, mapping, EvaluationConfig().max_episode_steps
        return
    with Trainer.load(source, trust_code=trust_code, console="quiet") as trainer:
        cfg = trainer.config.env
        same = env is None or env_name(env) == env_name(cfg.name)
        if same and not env_config:
            copy = make_copies(trainer.config, 1)
        elif same:
            with users_modes():
                copy = make_env(cfg.name, {**cfg.config, **env_config}, cfg.wrappers, 1, "serial")
        else:
            with users_modes():
                copy = make_env(env, env_config, (), 1, "serial")
        with closing(copy):
            yield copy, trainer.policies, trainer._mapping, trainer.config.evaluation.max_episode_steps


# --- actions before tanh ----------------------------------------------------------------------------------------------


Drawn = Callable[[Tensor, Tensor, Tensor], None]
"""Receives actions before tanh ``[N, k]``, and the resulting actions and log-probabilities."""


class RawActions:
    """Keeps the actions before tanh of a policy until the decisions are returned as rows.

    Close to a bound, the value before tanh cannot be computed from an action in float32, and so neither can its
    log-probability.

    Attaching it makes the policy act by its torch modules, because kernels do not return these values.

    Args:
        policy: The policy of a worker.
    """

    def __init__(self, policy: WorkerPolicy) -> None:
        self._drawn: dict[bytes, list[np.ndarray]] = {}
        self._width = policy.policy.action_spec.num_numbers
        policy.actor = None
        policy.policy.head.register_forward_hook(self._keeping)

    def _keeping(self, head: nn.Module, given: tuple[object, ...], behavior: Behavior) -> Behavior:
        assert isinstance(behavior, SquashedGaussian | Hybrid)
        return _KeepingBehavior(behavior, self._keep)

    def _keep(self, raw: Tensor, action: Tensor, logp: Tensor) -> None:
        rows = (tensor.detach().cpu().numpy() for tensor in (raw, action, logp))
        for one, decided, likely in zip(*rows, strict=True):
            self._drawn.setdefault(decided.tobytes() + likely.tobytes(), []).append(one)

    def column(self, segment: SegmentArrays) -> np.ndarray:
        """Returns the column `action_raw` of decisions, found by the bits of their actions and log-probabilities."""
        found = unknown_raw(rows_in(segment), self._width)
        for row, (action, logp) in enumerate(zip(segment["action"], segment["logp"], strict=True)):
            if numbers := self._drawn.get(action.tobytes() + logp.tobytes()):
                found[row] = numbers.pop(0)
        return found

    def clear(self) -> None:
        """Removes all values at the end of an episode."""
        self._drawn.clear()


def raw_actions_of(policy: WorkerPolicy, deterministic: bool) -> RawActions | None:
    """Returns a `RawActions` for a policy; None if it is deterministic or does not squash its actions."""
    return None if deterministic or not squashes(policy.policy) else RawActions(policy)


def squashes(policy: Policy) -> bool:
    """Returns whether a policy squashes its actions by tanh."""
    return isinstance(policy.head, SquashedHead | HybridHead)


class _KeepingBehavior(Behavior):
    """Samples as another behavior does, and passes on the values before tanh."""

    def __init__(self, behavior: SquashedGaussian | Hybrid, keep: Drawn) -> None:
        self._behavior, self._keep = behavior, keep

    @property
    def noise(self) -> NoiseSpec:
        return self._behavior.noise

    def sample(self, noise: Tensor) -> Tensor:
        return self.sample_logp(noise)[0]

    def mode(self) -> Tensor:
        return self._behavior.mode()

    def log_prob(self, action: Tensor) -> Tensor:
        return self._behavior.log_prob(action)

    def sample_logp(self, noise: Tensor) -> tuple[Tensor, Tensor]:
        action, logp = self._behavior.sample_logp(noise)
        self._keep(self._behavior.raw(noise), action, logp)
        return action, logp
