"""RolloutWorker and WorkerSet that scripts construct themselves: workers that sample and learn on request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rookery.face import ConfigError, nearest
from rookery_rllib.base import ray_core
from rookery_rllib.config.defaults import COMMON_CONFIG, DEFAULT_CONFIGS
from rookery_rllib.env.envs import EnvContext
from rookery_rllib.policy.policies import Policy
from rookery_rllib.trainer import workers
from rookery_rllib.trainer.trainers import TRAINERS, Trainer
from rookery_rllib.trainer.trial.loggers import NoopLogger

KEYS = {
    "rollout_fragment_length": "rollout_fragment_length", "count_steps_by": "multiagent.count_steps_by",
    "batch_mode": "batch_mode", "episode_horizon": "horizon", "num_envs": "num_envs_per_worker",
    "observation_filter": "observation_filter", "clip_rewards": "clip_rewards", "clip_actions": "clip_actions",
    "env_config": "env_config", "model_config": "model", "callbacks": "callbacks", "soft_horizon": "soft_horizon",
    "no_done_at_end": "no_done_at_end", "seed": "seed", "preprocessor_pref": "preprocessor_pref",
    "observation_fn": "multiagent.observation_fn",
}  # fmt: skip
"""Keys of a configuration by arguments of a worker."""

IGNORED = (
    "tf_session_creator", "sample_async", "compress_observations", "record_env", "log_dir", "log_level",
    "input_creator", "input_evaluation", "output_creator", "remote_worker_envs", "remote_env_batch_wait_ms",
    "extra_python_environs", "fake_sampler", "spaces", "monitor_path", "policies_to_train", "validate_env",
)  # fmt: skip
"""Arguments without an effect."""


class RolloutWorker(workers.RolloutWorker):
    """A worker that runs policies in an environment, and trains them on request of a script."""

    def __init__(
        self,
        *,
        env_creator: Callable[[Any], Any],
        policy_spec: Any = None,
        policy_mapping_fn: Callable[..., str] | None = None,
        policies_to_train: list[str] | None = None,
        policy_config: Mapping[str, Any] | None = None,
        worker_index: int = 0,
        num_workers: int = 0,
        policy: Any = None,
        **options: Any,
    ) -> None:
        for name in options:
            if name not in KEYS and name not in IGNORED:
                known = [*KEYS, *IGNORED]
                raise ConfigError(f"RolloutWorker: {name}: there is no such argument{nearest(name, known)}")
        spec = policy_spec if policy_spec is not None else policy
        given = dict(policy_config or {})
        kind = _trainer_for(spec, given)
        defaults = DEFAULT_CONFIGS[str(vars(kind)["_algorithm"])]
        config = {key: value for key, value in given.items() if key in defaults}
        config |= {"rollout_fragment_length": 100} | _translated(options)
        config["multiagent"] = _multiagent(config.get("multiagent"), spec, policy_mapping_fn, options)
        config["num_workers"] = 0
        size = int(config["rollout_fragment_length"]) * int(config.get("num_envs_per_worker", 1))
        config["train_batch_size"] = size
        if "sgd_minibatch_size" in defaults:
            config["sgd_minibatch_size"] = min(int(config.get("sgd_minibatch_size", 128)), size)

        def env(context: Any) -> Any:
            at = getattr(context, "vector_index", 0)
            return env_creator(
                EnvContext(dict(context), worker_index=worker_index, vector_index=at, num_workers=num_workers)
            )

        beyond = {key: value for key, value in given.items() if key not in defaults}
        chosen = {"_policy_class": spec} if isinstance(spec, type) else {}
        made = type("WorkerTrainer", (kind,), {"_name": "RolloutWorker", "_beyond": beyond, **chosen})
        super().__init__(made({**config, "env": env}, logger_creator=lambda _: NoopLogger({}, "")))
        self.worker_index = worker_index
        self._to_train = policies_to_train

    @property
    def policies_to_train(self) -> list[str]:
        return super().policies_to_train if self._to_train is None else list(self._to_train)

    @classmethod
    def as_remote(cls, num_cpus: Any = None, num_gpus: Any = None, memory: Any = None, **options: Any) -> Any:
        """Returns the class with ``remote(...)``, which makes workers that are called with ``.remote``."""
        return ray_core.remote(cls)

    def stop(self) -> None:
        self._trainer.cleanup()


def _classes(spec: Any) -> list[Any]:
    found = [entry[0] for entry in spec.values()] if isinstance(spec, Mapping) else [spec]
    return [cls for cls in found if cls is not None]


def _trainer_for(spec: Any, config: Mapping[str, Any]) -> type[Trainer]:
    """Returns the trainer of the policies' algorithm; PG's for custom policies."""
    for cls in _classes(spec):
        if not (isinstance(cls, type) and issubclass(cls, Policy)):
            raise ConfigError(f"RolloutWorker: policy_spec: {cls!r} is not a class derived from Policy")
        if cls.algorithm is not None:
            return TRAINERS[cls.algorithm]
    return TRAINERS["PPO" if "num_sgd_iter" in config else "PG"]


def _translated(options: Mapping[str, Any]) -> dict[str, Any]:
    found = {}
    for name, value in options.items():
        key = KEYS.get(name, "")
        if key and "." not in key and value is not None and COMMON_CONFIG.get(key, ...) != value:
            found[key] = value
    return found


def _multiagent(
    given: Any, spec: Any, mapping: Callable[..., str] | None, options: Mapping[str, Any]
) -> dict[str, Any]:
    section = dict(given or {})
    if isinstance(spec, Mapping):
        section["policies"] = {name: tuple(entry) for name, entry in spec.items()}
    if mapping is not None:
        section["policy_mapping_fn"] = mapping
    for name in ("count_steps_by", "observation_fn"):
        if options.get(name) is not None:
            section[name] = options[name]
    return section


class WorkerSet(workers.WorkerSet):
    def __init__(
        self,
        *,
        env_creator: Callable[[Any], Any],
        validate_env: Callable[..., Any] | None = None,
        policy_class: Any = None,
        trainer_config: Mapping[str, Any] | None = None,
        num_workers: int = 0,
        logdir: str | None = None,
        _setup: bool = True,
    ) -> None:
        config = dict(trainer_config or COMMON_CONFIG)
        policies = (config.get("multiagent") or {}).get("policies")
        about = {
            "env_creator": env_creator,
            "policy_spec": policies or policy_class,
            "policy_config": {key: value for key, value in config.items() if key != "env"},
            "num_workers": num_workers,
        }
        for argument, key in KEYS.items():
            if "." not in key and config.get(key) is not None:
                about[argument] = config[key]
        self._local = RolloutWorker(**about)
        self._remote = [RolloutWorker.as_remote().remote(**about, worker_index=i + 1) for i in range(num_workers)]
        if validate_env is not None:
            validate_env(self._local.env, EnvContext(config.get("env_config") or {}))

    def remote_workers(self) -> list[Any]:
        return list(self._remote)

    def samplers(self) -> list[Callable[[], Any]]:
        """Returns functions that sample a batch of a remote worker each; of the local one if there are none."""

        def sampling(worker: Any) -> Callable[[], Any]:
            return lambda: ray_core.get(worker.sample.remote())

        return [sampling(worker) for worker in self._remote] or [self._local.sample]

    def sync_weights(self) -> None:
        """Copies the weights of the local worker to the others."""
        weights = self._local.get_weights()
        for worker in self._remote:
            worker.set_weights.remote(weights)

    def foreach_worker(self, func: Callable[[Any], Any]) -> list[Any]:
        return [func(self._local), *(ray_core.get(worker.apply.remote(func)) for worker in self._remote)]

    def foreach_worker_with_index(self, func: Callable[[Any, int], Any]) -> list[Any]:
        others = enumerate(self._remote, 1)
        return [func(self._local, 0), *(ray_core.get(worker.apply.remote(func, number)) for number, worker in others)]

    def stop(self) -> None:
        self._local.stop()
        for worker in self._remote:
            worker.stop.remote()
