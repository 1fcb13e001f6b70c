"""Callbacks of 2021: DefaultCallbacks with its seven hooks, called from Rookery's loop."""

from __future__ import annotations

import copy
import functools
import tracemalloc
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from rookery.face import Callback, ConfigError, EncodingError, Episode, LaneShare, VectorEnv, encode, nearest
from rookery_rllib.config.exploration_keys import own_exploration
from rookery_rllib.policy.episodes import MultiAgentEpisode
from rookery_rllib.policy.explorations import Exploration

HOOKS = ("on_episode_start", "on_episode_step", "on_episode_end", "on_postprocess_trajectory", "on_sample_end",
         "on_learn_on_batch", "on_train_result")  # fmt: skip

SAVED_FIELDS = ("user_data", "custom_metrics", "hist_data", "media", "length", "episode_id")
"""Attributes of a running episode that checkpoints hold."""

MAX_PENDING = 1000
"""Limit of the episodes stored for an agent without reported pieces, because its policy does not learn."""


LEGACY = tuple("on_postprocess_traj" if name == "on_postprocess_trajectory" else name for name in HOOKS)
"""Hooks as the keys of a dict of functions, before 2020."""


class DefaultCallbacks:
    def __init__(self, legacy_callbacks_dict: Mapping[str, Any] | None = None) -> None:
        self.legacy_callbacks = dict(legacy_callbacks_dict or {})
        for name in self.legacy_callbacks:
            if name not in LEGACY:
                raise ConfigError(f"callbacks: {name}: there is no such hook{nearest(name, LEGACY)}")

    def __init_subclass__(cls) -> None:
        """Raises an error for methods with names similar to hooks."""
        super().__init_subclass__()
        for name in vars(cls):
            if name.startswith("on_") and name not in HOOKS:
                raise ConfigError(
                    f"callbacks {cls.__name__}.{name}: there is no such hook{nearest(name, HOOKS)}; there are "
                    f"{', '.join(HOOKS)}"
                )

    def _legacy(self, moment: str, **about: Any) -> None:
        if moment in self.legacy_callbacks:
            self.legacy_callbacks[moment](about)

    def on_episode_start(
        self, *, worker: Any, base_env: Any, policies: Any, episode: Any, env_index: int | None = None, **kwargs: Any
    ) -> None:
        self._legacy("on_episode_start", env=base_env, policy=policies, episode=episode)

    def on_episode_step(
        self, *, worker: Any, base_env: Any, episode: Any, env_index: int | None = None, **kwargs: Any
    ) -> None:
        self._legacy("on_episode_step", env=base_env, episode=episode)

    def on_episode_end(
        self, *, worker: Any, base_env: Any, policies: Any, episode: Any, env_index: int | None = None, **kwargs: Any
    ) -> None:
        self._legacy("on_episode_end", env=base_env, policy=policies, episode=episode)

    def on_postprocess_trajectory(
        self,
        *,
        worker: Any,
        episode: Any,
        agent_id: Any,
        policy_id: str,
        policies: Any,
        postprocessed_batch: Any,
        original_batches: Any,
        **kwargs: Any,
    ) -> None:
        """Called before a piece of an agent's episode is learned; its batch may be changed in place."""
        self._legacy(
            "on_postprocess_traj",
            episode=episode,
            agent_id=agent_id,
            pre_batch=original_batches[agent_id],
            post_batch=postprocessed_batch,
            all_pre_batches=original_batches,
        )

    def on_sample_end(self, *, worker: Any, samples: Any, **kwargs: Any) -> None:
        self._legacy("on_sample_end", worker=worker, samples=samples)

    def on_learn_on_batch(self, *, policy: Any, train_batch: Any, result: dict[str, Any], **kwargs: Any) -> None:
        self._legacy("on_learn_on_batch", policy=policy, train_batch=train_batch)

    def on_train_result(self, *, trainer: Any, result: dict[str, Any], **kwargs: Any) -> None:
        self._legacy("on_train_result", trainer=trainer, result=result)


class MemoryTrackingCallbacks(DefaultCallbacks):
    def __init__(self) -> None:
        super().__init__()
        tracemalloc.start(10)

    def on_episode_end(
        self, *, worker: Any, base_env: Any, policies: Any, episode: Any, env_index: int | None = None, **kwargs: Any
    ) -> None:
        for number, line in enumerate(tracemalloc.take_snapshot().statistics("lineno")[:10]):
            episode.custom_metrics[f"tracemalloc/{line.traceback}#{number}/memory_size"] = line.size


class MultiCallbacks(DefaultCallbacks):
    def __init__(self, callback_class_list: Sequence[type[DefaultCallbacks]]) -> None:
        super().__init__()
        self._inner = [each() for each in callback_class_list]
        for name in HOOKS:
            listening = [getattr(each, name) for each in self._inner if overrides(each, name)]
            if listening:
                setattr(self, name, functools.partial(_call_all, listening))

    def __call__(self) -> MultiCallbacks:
        """Returns itself, so that it can be passed instead of a class."""
        return self


def _call_all(listening: Sequence[Any], **about: Any) -> None:
    for hook in listening:
        hook(**about)


def overrides(callbacks: DefaultCallbacks, moment: str) -> bool:
    """Whether callbacks override a hook."""
    own = getattr(type(callbacks), moment) is not getattr(DefaultCallbacks, moment)
    legacy = LEGACY[HOOKS.index(moment)]
    return own or moment in vars(callbacks) or legacy in callbacks.legacy_callbacks


class EpisodeBook:
    """Stores running episodes, calls callbacks with them, and returns those that have ended."""

    def __init__(self, callbacks: DefaultCallbacks, trainer: Any) -> None:
        self.callbacks = callbacks
        self.trainer = trainer
        self.running: dict[int, MultiAgentEpisode] = {}
        self.ended: list[MultiAgentEpisode] = []
        self.waits = overrides(callbacks, "on_postprocess_trajectory")
        """Whether a caller requests the episodes of pieces."""
        self.explores = any(map(own_exploration, trainer.policy_configs.values()))
        """Whether explorations of the script are called with episodes."""
        self._pending: dict[tuple[int, Any], deque[MultiAgentEpisode]] = {}
        """By environment and agent, episodes that have ended and whose last piece was not reported yet."""
        self._ended_agents: dict[int, set[Any]] = {}
        """By environment, the agents whose last piece of the running episode was reported."""

    def listeners(self) -> list[Callback]:
        """Returns the listeners of episodes: for their ends always, for other hooks if callbacks have them."""
        found: list[Callback] = [_ExplorationListener(self)] if self.explores else []
        found.append(_EndListener(self))
        if overrides(self.callbacks, "on_episode_step"):
            found.append(_StepListener(self))
        elif self.trainer.env_maker.rewritten:
            found.append(_Follower(self))
        if overrides(self.callbacks, "on_episode_start"):
            found.append(_StartListener(self))
        return found

    def set_share(self, share: LaneShare, env: VectorEnv) -> None:
        """Receives the environments of its episodes, if these are a share of the run's."""

    def of(self, episode: Episode) -> MultiAgentEpisode:
        """Returns the episode for callbacks, up to date."""
        known = self.running.get(episode.lane)
        new = known is None or known.length > episode.length
        if known is None or new:
            known = self._begun(episode.lane, episode.index)
        known.follow(episode)
        if new and episode.length and overrides(self.callbacks, "on_episode_start"):  # it began before a restore
            self.notify("on_episode_start", known, policies=self.trainer.policy_facades)
        return known

    def _begun(self, lane: int, index: int) -> MultiAgentEpisode:
        made = self.running[lane] = MultiAgentEpisode(
            lane,
            self.trainer.policy_facades,
            functools.partial(self.trainer.policy_of, lane, index),
            self.trainer.workers.local_worker(),
        )
        if (number := self.trainer.mapped_number(lane, index)) is not None:
            made.episode_id = number
        return made

    def notify(self, moment: str, episode: MultiAgentEpisode, **about: Any) -> None:
        worker = self.trainer.workers.local_worker()
        getattr(self.callbacks, moment)(
            worker=worker, base_env=worker.base_env, episode=episode, env_index=episode.env_id, **about
        )

    def take(self) -> list[MultiAgentEpisode]:
        """Returns the episodes that have ended since the last call."""
        ended, self.ended = self.ended, []
        return ended

    def end(self, episode: MultiAgentEpisode) -> None:
        lane = episode.env_id
        self.running.pop(lane, None)
        self.ended.append(episode)
        ended_agents = self._ended_agents.pop(lane, set())
        if self.waits:
            for agent, _ in episode.agent_rewards:
                if agent not in ended_agents:
                    self._pending.setdefault((lane, agent), deque(maxlen=MAX_PENDING)).append(episode)

    def of_piece(self, lane: int, agent: Any, ended: bool) -> MultiAgentEpisode:
        """Returns the episode of the next piece of an agent's trajectory, in the order of time."""
        untold = self._pending.get((lane, agent))
        if untold:
            return untold.popleft() if ended else untold[0]
        if ended:  # before the others' episode does
            self._ended_agents.setdefault(lane, set()).add(agent)
        return self.running.get(lane) or self.nameless(lane)

    def forget(self) -> None:
        """Drops all episodes; new ones follow."""
        self.running, self.ended, self._pending, self._ended_agents = {}, [], {}, {}

    def nameless(self, lane: int) -> MultiAgentEpisode:
        """Returns an episode of an environment that was not followed."""
        return self._begun(lane, 0)

    def state_dict(self) -> dict[str, Any]:
        """Returns the data of callbacks in running episodes, and the policies of their agents.

        An episode with data that cannot be written is left out: for callbacks it begins again.
        """
        running = {}
        for lane, episode in self.running.items():
            noted = {name: getattr(episode, name) for name in SAVED_FIELDS}
            with suppress(EncodingError):
                encode(noted)
                running[lane] = copy.deepcopy(noted)
        state = {"running": running, "assigned": copy.deepcopy(self.trainer.assigned)}
        explorers = self.trainer.explorers
        return {**state, "explorations": {name: each.state() for name, each in explorers.items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.forget()
        self.trainer.assigned = {lane: dict(known) for lane, known in state["assigned"].items()}
        for lane, noted in state["running"].items():
            episode = self._begun(lane, max(self.trainer.assigned.get(lane, {0: None})))
            for name, value in noted.items():
                setattr(episode, name, value)
        explorers = self.trainer.explorers
        for name, known in state.get("explorations", {}).items():
            if name in explorers:
                explorers[name].load(known)


class _Listener(Callback):
    """Base of listeners that update an `EpisodeBook`."""

    def __init__(self, book: EpisodeBook) -> None:
        self.book = book


class _StartListener(_Listener):
    def on_episode_start(self, episode: Episode) -> None:
        if not self.book.explores:  # else it has begun already
            self.book.running.pop(episode.lane, None)
        self.book.notify("on_episode_start", self.book.of(episode), policies=self.book.trainer.policy_facades)


class _StepListener(_Listener):
    def on_episode_step(self, episode: Episode) -> None:
        self.book.notify("on_episode_step", self.book.of(episode))


class _Follower(_Listener):
    def on_episode_step(self, episode: Episode) -> None:
        self.book.of(episode)


class _EndListener(_Listener):
    def __init__(self, book: EpisodeBook) -> None:
        super().__init__(book)
        self.state_dict, self.load_state_dict = book.state_dict, book.load_state_dict  # they are part of checkpoints
        self.set_share = book.set_share
        self.tells = overrides(book.callbacks, "on_episode_end")

    def on_episode_end(self, episode: Episode) -> None:
        book = self.book
        known = book.of(episode)
        known.is_over = True
        if self.tells:
            book.notify("on_episode_end", known, policies=book.trainer.policy_facades)
        book.end(known)


class _ExplorationListener(_Listener):
    def on_episode_start(self, episode: Episode) -> None:
        """Calls explorations at the start of an episode, before callbacks."""
        self.book.running.pop(episode.lane, None)
        self._tell("on_episode_start", episode)

    def on_episode_end(self, episode: Episode) -> None:
        self._tell("on_episode_end", episode)

    def _tell(self, moment: str, episode: Episode) -> None:
        trainer = self.book.trainer
        known = self.book.of(episode)
        for policy in trainer.policy_facades.values():
            exploration = getattr(policy, "exploration", None)
            if isinstance(exploration, Exploration):
                environment = trainer.workers.local_worker().base_env
                getattr(exploration, moment)(policy, environment=environment, episode=known)
