"""Names of ``ray.rllib.offline``: recorded experience."""

_BY_MODULE = {
    "io_context": ("IOContext",),
    "input_reader": ("InputReader",),
    "output_writer": ("OutputWriter", "NoopOutput"),
    "json_reader": ("JsonReader",),
    "json_writer": ("JsonWriter",),
    "mixed_input": ("MixedInput",),
    "shuffled_input": ("ShuffledInput",),
}
_AT = "ray.rllib.offline"

NAMES: dict[str, dict[str, str]] = {
    _AT: {name: f"batch.offline:{name}" for names in _BY_MODULE.values() for name in names},
    **{f"{_AT}.{module}": {name: f"batch.offline:{name}" for name in names} for module, names in _BY_MODULE.items()},
    "ray._private.utils": {"get_user_temp_dir": "batch.offline:get_user_temp_dir"},
}

_ESTIMATES = "estimates of a policy's value from recorded experience; play episodes with Trainer.evaluate"
GONE: dict[str, str] = {
    f"{_AT}.D4RLReader": "data sets of D4RL, which pickles hold; Minari's are today's",
    f"{_AT}.d4rl_reader": "data sets of D4RL, which pickles hold; Minari's are today's",
    f"{_AT}.is_estimator": _ESTIMATES,
    f"{_AT}.wis_estimator": _ESTIMATES,
    f"{_AT}.off_policy_estimator": _ESTIMATES,
    "ray._private": "Ray's own functions; nothing of them exists here but get_user_temp_dir",
}
