"""Settings that algorithms take from a common base stand where each algorithm has always had them."""

import pytest

from rookery import A2CConfig, APPOConfig, PPOConfig, PQNConfig, ReinforceConfig
from rookery.core.settings.fields import fields_of


@pytest.mark.parametrize(
    ("cls", "names"),
    [
        (PPOConfig, ("lr", "gamma", "gae_lambda", "clip", "epochs", "minibatch_size")),
        (APPOConfig, ("lr", "gamma", "gae_lambda", "clip", "epochs", "minibatch_size")),
        (A2CConfig, ("lr", "gamma", "gae_lambda", "fragment_length", "rollout_size")),
        (PQNConfig, ("lr", "gamma", "trace_lambda", "epochs", "minibatch_size")),
        (ReinforceConfig, ("lr", "gamma", "rollout_size", "normalize_returns")),
    ],
)
def test_values_without_names_are_given_in_the_order_of_before(cls, names):
    values = (0.5, 0.25, 0.125, 5, 6, 7) if names[2] != "rollout_size" else (0.5, 0.25, 5, False)
    assert {name: getattr(cls(*values[: len(names)]), name) for name in names} == dict(zip(names, values, strict=False))


@pytest.mark.parametrize("cls", [PPOConfig, A2CConfig, PQNConfig, ReinforceConfig])
def test_the_order_names_every_field(cls):
    assert cls.field_order.split() == list(fields_of(cls))
