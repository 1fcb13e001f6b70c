"""Names of ``ray.rllib.utils.exploration``: how actions are tried out."""

_MODULES = {
    "exploration": "Exploration",
    "stochastic_sampling": "StochasticSampling",
    "random": "Random",
    "epsilon_greedy": "EpsilonGreedy",
    "soft_q": "SoftQ",
    "gaussian_noise": "GaussianNoise",
    "ornstein_uhlenbeck_noise": "OrnsteinUhlenbeckNoise",
}
_AT = "ray.rllib.utils.exploration"

NAMES: dict[str, dict[str, str]] = {
    _AT: {name: f"policy.explorations:{name}" for name in _MODULES.values()},
    **{f"{_AT}.{module}": {name: f"policy.explorations:{name}"} for module, name in _MODULES.items()},
}

_PER_WORKER = "exploration that differs from worker to worker; all copies play in one here and explore alike: use "
_GONE = {
    "per_worker_epsilon_greedy.PerWorkerEpsilonGreedy": f"{_PER_WORKER}EpsilonGreedy",
    "per_worker_gaussian_noise.PerWorkerGaussianNoise": f"{_PER_WORKER}GaussianNoise",
    "per_worker_ornstein_uhlenbeck_noise.PerWorkerOrnsteinUhlenbeckNoise": f"{_PER_WORKER}OrnsteinUhlenbeckNoise",
    "curiosity.Curiosity": "rewards for surprise; write exploration_config = {'type': 'Curiosity'} with PPO, A2C or "
    "PG, which Rookery's own signal then is (algorithm.signals.curiosity)",
    "re3.RE3": "rewards for novelty; add them in postprocess_trajectory of an Exploration of your own",
    "parameter_noise.ParameterNoise": "disturbed weights; write exploration_config = {'type': 'ParameterNoise'} with "
    "DQN, which Rookery's own setting then is (algorithm.exploration.kind = parameters)",
    "slate_epsilon_greedy.SlateEpsilonGreedy": "exploration of slates, which are not here",
    "slate_soft_q.SlateSoftQ": "exploration of slates, which are not here",
}
GONE: dict[str, str] = {
    **{f"{_AT}.{path}": text for path, text in _GONE.items()},
    **{f"{_AT}.{path.partition('.')[2]}": text for path, text in _GONE.items()},
    **{f"{_AT}.{path.partition('.')[0]}": text for path, text in _GONE.items()},
}
