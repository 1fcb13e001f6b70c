"""Names of ``ray.rllib.examples.policy``: the policies of RLlib's examples, which act by a rule."""

_AT = "ray.rllib.examples.policy"

NAMES: dict[str, dict[str, str]] = {
    f"{_AT}.random_policy": {"RandomPolicy": "example_policies:RandomPolicy"},
    f"{_AT}.rock_paper_scissors_dummies": {
        "AlwaysSameHeuristic": "example_policies:AlwaysSameHeuristic",
        "BeatLastHeuristic": "example_policies:BeatLastHeuristic",
    },
    f"{_AT}.episode_env_aware_policy": {
        "EpisodeEnvAwareLSTMPolicy": "example_policies:EpisodeEnvAwareLSTMPolicy",
        "EpisodeEnvAwareAttentionPolicy": "example_policies:EpisodeEnvAwareAttentionPolicy",
    },
}
