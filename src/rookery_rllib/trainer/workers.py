"""The workers of a trainer of 2021: a local one, which samples and learns, and views of it with `.remote`."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rookery.face import ConfigError, Rollout
from rookery_rllib.base import ray_core
from rookery_rllib.base.ray_core import wrap_as_actor
from rookery_rllib.batch.minibatches import do_minibatch_sgd
from rookery_rllib.batch.sample_batch import MultiAgentBatch, SampleBatch
from rookery_rllib.batch.trajectories import Reading, trajectories
from rookery_rllib.model.preprocessors import get_preprocessor
from rookery_rllib.policy.learned_policy import hand_out
from rookery_rllib.trainer.results import EpisodeWindow, collect_episodes, summarized

MOST_STEPS = 1_000_000_000
"""Limit of env steps in a round of `RolloutWorker.sample`."""

MOST_ROUNDS = 4
"""Limit of further rounds for policies whose agents act less often."""


class BaseEnv:
    """The environments of a worker."""

    def __init__(self, envs: list[Any]) -> None:
        self._envs = envs

    def get_unwrapped(self) -> list[Any]:
        return list(self._envs)

    get_sub_environments = get_unwrapped

    @property
    def envs(self) -> list[Any]:
        return list(self._envs)


class _RemoteMethod:
    """A method of an environment that can be called as a remote one too."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._method(*args, **kwargs)

    def remote(self, *args: Any, **kwargs: Any) -> ray_core.ObjectRef:
        return ray_core.put(self._method(*args, **kwargs))


class RemoteEnvView:
    """An environment as scripts with ``remote_worker_envs`` call it: ``env.set_task.remote(task)``."""

    def __init__(self, env: Any) -> None:
        self._env = env

    def __getattr__(self, name: str) -> Any:
        if name == "_env":  # during copying
            raise AttributeError(name)
        found = getattr(self._env, name)
        return _RemoteMethod(found) if callable(found) else found


class RolloutWorker:
    """The worker of a trainer, in its process; `worker_index` is always 0."""

    worker_index = 0
    tf_sess = None

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer

    @property
    def _envs(self) -> list[Any]:
        """The script's environments of this worker, as far as they are in this process."""
        self._trainer.check_reach()
        found: list[Any] = self._trainer._envs
        return found

    @property
    def _given_envs(self) -> list[Any]:
        """The environments that functions of scripts get."""
        return [RemoteEnvView(env) for env in self._envs] if self._trainer.config["remote_worker_envs"] else self._envs

    @property
    def env(self) -> Any:
        if not self._trainer._envs:
            self._trainer.env_maker.own()
        if self._trainer.plays_elsewhere:
            return self._trainer._envs[0]
        return (self._envs or self._trainer._envs)[0]

    @property
    def is_multi_agent(self) -> bool:
        return bool(self._trainer.is_multi_agent)

    @property
    def agent_ids(self) -> Callable[[str], Any]:
        """Maps Rookery's id of an agent to the environment's own."""
        found: Callable[[str], Any] = self._trainer.agent_ids
        return found

    @property
    def base_env(self) -> BaseEnv:
        return BaseEnv(self._envs)

    async_env = base_env

    @property
    def num_workers(self) -> int:
        return int(self._trainer.config["num_workers"])

    @property
    def callbacks(self) -> Any:
        return self._trainer.callbacks

    @property
    def policy_config(self) -> dict[str, Any]:
        found: dict[str, Any] = self._trainer.config
        return found

    @property
    def policy_map(self) -> dict[str, Any]:
        found: dict[str, Any] = self._trainer.policy_facades
        return found

    @property
    def policies_to_train(self) -> list[str]:
        return list(self._trainer.rookery.learners)

    @property
    def policy_mapping_fn(self) -> Any:
        return self._trainer.config["multiagent"]["policy_mapping_fn"]

    @property
    def preprocessors(self) -> dict[str, Any]:
        found = {}
        for name, policy in self.policy_map.items():
            space = getattr(policy.observation_space, "original_space", None) or policy.observation_space
            found[name] = get_preprocessor(space)(space, self._trainer.config["model"])
        return found

    @property
    def filters(self) -> dict[str, Any]:
        """The filters by policy: the script's, or the observation statistics of policies that normalize."""
        own = getattr(self._trainer.env_maker.preparation, "filter", None)
        if own is not None:
            return dict.fromkeys(self._trainer.rookery.policies, own)
        return {name: policy.normalizer for name, policy in self._trainer.rookery.policies.items()}

    @property
    def global_vars(self) -> dict[str, int]:
        return {"timestep": self._trainer.timesteps}

    def get_policy(self, policy_id: str = "default_policy") -> Any:
        return self.policy_map.get(policy_id)

    def for_policy(self, func: Callable[[Any], Any], policy_id: str = "default_policy") -> Any:
        return func(self.policy_map[policy_id])

    def foreach_policy(self, func: Callable[[Any, str], Any]) -> list[Any]:
        return [func(policy, name) for name, policy in self.policy_map.items()]

    def foreach_trainable_policy(self, func: Callable[[Any, str], Any]) -> list[Any]:
        return [func(self.policy_map[name], name) for name in self.policies_to_train]

    def foreach_env(self, func: Callable[[Any], Any]) -> list[Any]:
        return [func(env) for env in self._given_envs]

    def foreach_env_with_context(self, func: Callable[[Any, Any], Any]) -> list[Any]:
        context = self._trainer.translation.env_config
        return [func(env, context) for env in self._given_envs]

    def get_weights(self, policies: Any = None) -> dict[str, Any]:
        found: dict[str, Any] = self._trainer.get_weights(policies)
        return found

    def set_weights(self, weights: Mapping[str, Any], global_vars: Any = None) -> None:
        self._trainer.set_weights(weights)

    def set_global_vars(self, global_vars: Mapping[str, Any]) -> None:
        for policy in self.policy_map.values():
            policy.on_global_var_update(global_vars)

    def get_global_vars(self) -> dict[str, int]:
        return self.global_vars

    def apply(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return func(self, *args, **kwargs)

    def get_host(self) -> str:
        return socket.gethostname()

    # --- sampling and learning on request -----------------------------------------------------------------------------

    @property
    def _rounds(self) -> dict[str, Any]:
        """State of each policy's slots, kept between calls of `sample`."""
        found: dict[str, Any] = self.__dict__.setdefault("_slots", {})
        return found

    def sample(self) -> Any:
        """Samples a batch for the policies, and returns it postprocessed: a `SampleBatch`, or a `MultiAgentBatch` for
        several policies. Policies that act less often may be missing.

        Raises:
            ConfigError: If no policy learns: the experience of others is not stored.
        """
        run = self._trainer.rookery
        if not run.learners:
            raise ConfigError("RolloutWorker.sample: no policy learns (policies_to_train): no experience is stored")
        before = run.env_steps
        found: dict[str, list[SampleBatch]] = {}
        for _ in range(MOST_ROUNDS):
            for name, batch in self._round().items():
                found.setdefault(name, []).append(batch)
            if set(found) == set(run.learners):
                break
        batches = {name: SampleBatch.concat_samples(parts) for name, parts in found.items()}
        return MultiAgentBatch.wrap_as_needed(batches, run.env_steps - before)

    def _round(self) -> dict[str, SampleBatch]:
        """Samples until the batch of a policy is complete; returns the complete ones, postprocessed."""
        run = self._trainer.rookery
        self._explore()
        sample = run._pool.sample(MOST_STEPS)
        run._count_played(sample)
        while not sample.rollouts:
            run._introduce(sample.newcomers)
            self._trainer.welcome()
            sample = run._pool.sample(MOST_STEPS)
            run._count_played(sample)
        return {name: self._postprocessed(name, sample.rollouts) for name in sample.rollouts}

    def _explore(self) -> None:
        """Sets the exploration of policies with replay to the values of its schedules."""
        run = self._trainer.rookery
        for name, learner in run.learners.items():
            if learner.replay is not None:
                learner.env_steps, learner.horizon = run.env_steps, run._horizon
                learner.explore()
                hand_out(run, name)

    def _postprocessed(self, name: str, rollouts: Mapping[str, Rollout]) -> SampleBatch:
        """Returns the postprocessed trajectories of a policy."""
        learner, policy = self._trainer.rookery.learners[name], self.policy_map[name]
        rollout = learner.before_targets(rollouts[name], rollouts)
        if learner.replay is not None:
            learner.replay.taken += rollout.num_decisions
        if hasattr(learner, "postprocessed"):
            found: SampleBatch = learner.postprocessed(rollout)
            return found
        reading = Reading(policy.preprocess, extras=policy.with_extras)
        every = max(int(self._trainer.config["rollout_fragment_length"]), 1)
        pieces = trajectories(rollout, reading, every, self._rounds.setdefault(name, {}))
        joined: SampleBatch = SampleBatch.concat_samples([policy.postprocess_trajectory(piece.own) for piece in pieces])
        return joined

    def sample_with_count(self) -> tuple[Any, int]:
        """Samples as `sample`; returns the batch and its number of rows, or of env steps for several policies."""
        batch = self.sample()
        return batch, batch.count

    def _parts(self, samples: Any) -> dict[str, Any]:
        whole = samples if isinstance(samples, MultiAgentBatch) else samples.as_multi_agent()
        return {name: part for name, part in whole.policy_batches.items() if name in self.policies_to_train}

    def learn_on_batch(self, samples: Any) -> dict[str, Any]:
        return {name: self.policy_map[name].learn_on_batch(part) for name, part in self._parts(samples).items()}

    def compute_gradients(self, samples: Any) -> tuple[Any, dict[str, Any]]:
        found = {name: self.policy_map[name].compute_gradients(part) for name, part in self._parts(samples).items()}
        if not isinstance(samples, MultiAgentBatch):
            ((gradients, info),) = found.values()
            return gradients, {**info, "batch_count": samples.count}
        info = {name: info for name, (_, info) in found.items()}
        return {name: gradients for name, (gradients, _) in found.items()}, {**info, "batch_count": samples.count}

    def apply_gradients(self, grads: Any) -> Any:
        if isinstance(grads, Mapping):
            return {name: self.policy_map[name].apply_gradients(part) for name, part in grads.items()}
        ((_, policy),) = self.policy_map.items()
        return policy.apply_gradients(grads)

    def sample_and_learn(
        self, expected_batch_size: int, num_sgd_iter: int, sgd_minibatch_size: int, standardize_fields: Any
    ) -> tuple[dict[str, Any], int]:
        batch = self.sample()
        info = do_minibatch_sgd(batch, self.policy_map, self, num_sgd_iter, sgd_minibatch_size, standardize_fields)
        return info, batch.count

    def get_metrics(self) -> list[Any]:
        found: list[Any] = self._trainer.take_episodes()
        return found

    def stop(self) -> None:
        """Does nothing: the trainer frees the environments."""


class RemoteWorker(RolloutWorker):
    """One of the configured workers, as a view in the trainer's process: its own environments, and the policies of all.
    A request to sample steps the environments of all workers.
    """

    def __init__(self, trainer: Any, worker_index: int) -> None:
        super().__init__(trainer)
        self.worker_index = worker_index

    @property
    def _envs(self) -> list[Any]:
        self._trainer.check_reach()
        every, count = self._trainer._envs, max(self.num_workers, 1)
        return [env for place, env in enumerate(every) if place * count // max(len(every), 1) == self.worker_index - 1]


class WorkerSet:
    """The workers of a trainer: a local one, which does the work, and views of it as remote ones."""

    def __init__(self, trainer: Any) -> None:
        self._local = RolloutWorker(trainer)
        self._remote: list[Any] = []

    def local_worker(self) -> RolloutWorker:
        return self._local

    def remote_workers(self) -> list[Any]:
        """Returns ``num_workers`` workers in this process, which are called with ``.remote``."""
        for number in range(len(self._remote), self._local.num_workers):
            self._remote.append(wrap_as_actor(RemoteWorker(self._local._trainer, number + 1)))
        return list(self._remote)

    def samplers(self) -> list[Callable[[], Any]]:
        """Returns functions that sample a batch each, of all environments together."""
        return [self.local_worker().sample]

    def episode_summary(
        self, smallest: int, selected_workers: Sequence[Any] | None, timeout_seconds: float
    ) -> Callable[[], dict[str, Any]]:
        """Returns a function that summarizes the episodes since its last call, with earlier ones up to `smallest`.

        Args:
            smallest: Smallest number of episodes.
            selected_workers: Remote workers whose episodes count; None = all.
            timeout_seconds: Limit of an answer.
        """
        window = EpisodeWindow(smallest)

        def summary() -> dict[str, Any]:
            others = self.remote_workers() if selected_workers is None else selected_workers
            ended, _ = collect_episodes(self.local_worker(), others, timeout_seconds=timeout_seconds)
            return summarized(window.with_earlier(ended), len(ended))

        return summary

    def _here(self) -> list[Any]:
        """Returns the workers with environments in this process."""
        return [self.local_worker()]

    def foreach_worker(self, func: Callable[[Any], Any]) -> list[Any]:
        return [func(worker) for worker in self._here()]

    def foreach_worker_with_index(self, func: Callable[[Any, int], Any]) -> list[Any]:
        return [func(worker, worker.worker_index) for worker in self._here()]

    def foreach_policy(self, func: Callable[[Any, str], Any]) -> list[Any]:
        return self.local_worker().foreach_policy(func)

    def foreach_trainable_policy(self, func: Callable[[Any, str], Any]) -> list[Any]:
        return self.local_worker().foreach_trainable_policy(func)

    def trainable_policies(self) -> list[str]:
        return self.local_worker().policies_to_train

    def foreach_env(self, func: Callable[[Any], Any]) -> list[list[Any]]:
        return [worker.foreach_env(func) for worker in self._here()]

    def foreach_env_with_context(self, func: Callable[[Any, Any], Any]) -> list[list[Any]]:
        return [worker.foreach_env_with_context(func) for worker in self._here()]

    def sync_weights(self) -> None:
        """Does nothing: all workers have the weights already."""

    def stop(self) -> None: ...
