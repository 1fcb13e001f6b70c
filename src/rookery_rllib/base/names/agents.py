"""Names of trainers, policies, callbacks, workers and episodes: ``ray.rllib.agents``, ``.policy``, ``.evaluation``."""

from __future__ import annotations

_PLACES = {
    "PPO": ("ppo", "ppo"),
    "DDPPO": ("ppo", "ddppo"),
    "DQN": ("dqn", "dqn"),
    "SimpleQ": ("dqn", "simple_q"),
    "R2D2": ("dqn", "r2d2"),
    "SAC": ("sac", "sac"),
    "DDPG": ("ddpg", "ddpg"),
    "TD3": ("ddpg", "td3"),
    "A2C": ("a3c", "a2c"),
    "A3C": ("a3c", "a3c"),
    "PG": ("pg", "pg"),
    "QMIX": ("qmix", "qmix"),
    "IMPALA": ("impala", "impala"),
    "APPO": ("ppo", "appo"),
}
"""Package and module of each trainer below ``ray.rllib.agents``."""

_POLICIES = {
    "PPO": "ppo",
    "DQN": "dqn",
    "SimpleQ": "simple_q",
    "R2D2": "r2d2",
    "SAC": "sac",
    "DDPG": "ddpg",
    "A3C": "a3c",
    "PG": "pg",
}
"""Which of them have policy classes of their own, and what the modules of these begin with."""

_CALLBACKS = {
    name: f"policy.callbacks:{name}" for name in ("DefaultCallbacks", "MemoryTrackingCallbacks", "MultiCallbacks")
}
_TRAINER = {
    "Trainer": "trainer.trainers:Trainer",
    "COMMON_CONFIG": "config.defaults:COMMON_CONFIG",
    "with_common_config": "config.defaults:with_common_config",
    "with_base_config": "trainer.trainers:with_base_config",
}
_POLICY = {"Policy": "policy.policies:Policy", "TorchPolicy": "policy.torch_policy:TorchPolicy"}
_EPISODE = {"MultiAgentEpisode": "policy.episodes:MultiAgentEpisode"}
_WORKER = {"RolloutWorker": "trainer.script_workers:RolloutWorker"}

NAMES: dict[str, dict[str, str]] = {
    "ray.rllib": {**_POLICY, **_WORKER},
    "ray.rllib.agents": {**_CALLBACKS, **_TRAINER},
    "ray.rllib.agents.callbacks": _CALLBACKS,
    "ray.rllib.agents.trainer": _TRAINER,
    "ray.rllib.agents.trainer_template": {"build_trainer": "trainer.trainers:build_trainer"},
    "ray.rllib.agents.registry": {
        "get_trainer_class": "trainer.trainers:get_trainer_class",
        "get_agent_class": "trainer.trainers:get_trainer_class",
        "ALGORITHMS": "trainer.trainers:TRAINERS",
    },
    "ray.rllib.policy": _POLICY,
    "ray.rllib.policy.policy": {
        "Policy": "policy.policies:Policy",
        "LEARNER_STATS_KEY": "policy.policies:LEARNER_STATS_KEY",
    },
    "ray.rllib.evaluation": {**_WORKER, **_EPISODE},
    "ray.rllib.evaluation.episode": _EPISODE,
    "ray.rllib.evaluation.rollout_worker": _WORKER,
    "ray.rllib.evaluation.worker_set": {"WorkerSet": "trainer.script_workers:WorkerSet"},
    "ray.rllib.evaluation.metrics": {
        "collect_metrics": "trainer.metrics:collect_metrics",
        "collect_episodes": "trainer.metrics:collect_episodes",
        "summarize_episodes": "trainer.metrics:summarize_episodes",
        "LEARNER_STATS_KEY": "policy.policies:LEARNER_STATS_KEY",
    },
}

for _name, (_package, _module) in _PLACES.items():
    _home = NAMES.setdefault(f"ray.rllib.agents.{_package}", {})
    _own = NAMES.setdefault(f"ray.rllib.agents.{_package}.{_module}", {})
    for _table in (_home, _own):
        _trainer = {"QMIX": "QMixTrainer", "IMPALA": "ImpalaTrainer"}.get(_name, f"{_name}Trainer")
        _table[_trainer] = f"trainer.trainers:{_trainer}"
    _own["DEFAULT_CONFIG"] = f"config.defaults:{_name.upper()}_DEFAULT_CONFIG"
    if _name in ("PPO", "DQN", "SAC", "DDPG", "A3C", "PG", "QMIX", "IMPALA"):
        _home["DEFAULT_CONFIG"] = _own["DEFAULT_CONFIG"]
    if _name in _POLICIES:
        for _framework in ("torch", "tf"):
            _class = f"{_name}{'Torch' if _framework == 'torch' else 'TF'}Policy"
            _entry = {_class: f"policy.templates:{_class}"}
            _home.update(_entry)
            NAMES[f"ray.rllib.agents.{_package}.{_POLICIES[_name]}_{_framework}_policy"] = _entry
_MADDPG = {"MADDPGTrainer": "trainer.trainers:MADDPGTrainer", "DEFAULT_CONFIG": "config.defaults:MADDPG_DEFAULT_CONFIG"}
NAMES["ray.rllib.contrib.maddpg"] = NAMES["ray.rllib.contrib.maddpg.maddpg"] = _MADDPG
NAMES["ray.rllib.agents.dqn"] |= {
    "SIMPLE_Q_DEFAULT_CONFIG": "config.defaults:SIMPLEQ_DEFAULT_CONFIG",
    "R2D2_DEFAULT_CONFIG": "config.defaults:R2D2_DEFAULT_CONFIG",
}
for _name, _package, _trainer in ("APEX", "dqn", "ApexTrainer"), ("APEX_DDPG", "ddpg", "ApexDDPGTrainer"):
    _own = {
        _trainer: f"trainer.trainers:{_trainer}",
        f"{_name}_DEFAULT_CONFIG": f"config.defaults:{_name}_DEFAULT_CONFIG",
    }
    NAMES[f"ray.rllib.agents.{_package}.apex"] = _own
    NAMES[f"ray.rllib.agents.{_package}"] |= _own
NAMES["ray.rllib.agents.dqn.dqn"]["GenericOffPolicyTrainer"] = "trainer.trainers:GenericOffPolicyTrainer"

_OPERATIONS = {
    "rollout_ops": ("ParallelRollouts", "SelectExperiences", "ConcatBatches", "StandardizeFields", "AsyncGradients"),
    "train_ops": ("TrainOneStep", "TrainTFMultiGPU", "UpdateTargetNetwork", "ComputeGradients", "ApplyGradients",
                  "AverageGradients"),
    "replay_ops": ("StoreToReplayBuffer", "Replay", "MixInReplay", "SimpleReplayBuffer", "WaitUntilTimestepsElapsed"),
    "metric_ops": ("StandardMetricsReporting", "CollectMetrics"),
    "concurrency_ops": ("Concurrently", "Enqueue", "Dequeue"),
    "replay_buffer": ("LocalReplayBuffer", "ReplayBuffer", "PrioritizedReplayBuffer"),
    "learner_thread": ("LearnerThread",),
    "common": ("_get_shared_metrics", "_get_global_vars"),
}  # fmt: skip
NAMES["ray.util.iter"] = {name: f"base.not_here:{name}" for name in ("LocalIterator", "ParallelIterator")}
for _module, _names in _OPERATIONS.items():
    NAMES[f"ray.rllib.execution.{_module}"] = {name: f"base.not_here:{name}" for name in _names}
for _module, _names in {
    "ray.rllib": ("TFPolicy",),
    "ray.rllib.policy": ("TFPolicy",),
    "ray.rllib.policy.tf_policy": ("TFPolicy",),
}.items():
    NAMES.setdefault(_module, {}).update({name: f"base.not_here:{name}" for name in _names})

GONE: dict[str, str] = {
    **{
        f"ray.rllib.agents.{package}": f"{what} is not here yet"
        for package, what in {
            "es": "evolution strategies",
            "ars": "augmented random search",
            "dreamer": "Dreamer",
            "maml": "MAML",
            "mbmpo": "MBMPO",
            "slateq": "SlateQ",
            "marwil": "MARWIL or BC as a trainer (rookery train --algo marwil, or bc, --replay DATA learns by it)",
            "cql": "CQL as a trainer (rookery train --algo cql --replay DATA learns by it)",
        }.items()
    },
}
"""Names of 2021 that are not here, and what to use."""
