"""Attention over entities solves a task that a flattened network with more weights does not."""

import pytest

from rookery import ModelConfig, PPOConfig, Trainer


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "solved"),
    [
        (ModelConfig(shared_trunk=True, entity_size=32), True),
        (ModelConfig(shared_trunk=True, entities_as="flat", hidden=(96, 64)), False),
    ],
    ids=["set", "flat"],
)
def test_tiles_are_sorted_by_a_net_on_sets_and_not_by_a_flat_one_after_110000_steps(model, solved):
    cfg = PPOConfig(
        lr=1e-3, fragment_length=64, minibatch_size=512, epochs=4, gamma=0.95, entropy_coef=0.003, model=model
    )
    trainer = Trainer("Sorter", cfg, num_envs=32, seed=0)
    trainer.train(stop={"env_steps": 110_000})
    returns = trainer.evaluate(100, deterministic=False).return_mean
    assert (returns >= 0.75) == solved
    assert (returns <= 0.6) != solved  # a random walk visits a fifth
