"""Names of ``ray.rllib.examples.policy``: the policies of RLlib's examples, which act by a rule."""

_AT = "ray.rllib.examples.policy"

NAMES: dict[str, dict[str, str]] = {
    f"{_AT}.random_policy": {"RandomPolicy": "examples.scripted_policies:RandomPolicy"},
    f"{_AT}.rock_paper_scissors_dummies": {
        "AlwaysSameHeuristic": "examples.scripted_policies:AlwaysSameHeuristic",
        "BeatLastHeuristic": "examples.scripted_policies:BeatLastHeuristic",
    },
    f"{_AT}.episode_env_aware_policy": {
        "EpisodeEnvAwareLSTMPolicy": "examples.scripted_policies:EpisodeEnvAwareLSTMPolicy",
        "EpisodeEnvAwareAttentionPolicy": "examples.scripted_policies:EpisodeEnvAwareAttentionPolicy",
    },
}
