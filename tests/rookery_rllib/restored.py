"""Trainers that are restored from a checkpoint."""

import numpy as np


def weights_of(trainer):
    """Returns the weights of a trainer's policy in one vector."""
    return np.concatenate([part.ravel() for part in trainer.get_policy().get_weights().values()])


def check_that_it_goes_on(trainer, other, folder):
    """Restores `other` from a checkpoint of `trainer`: after one more iteration both have the same weights."""
    other.restore(trainer.save(str(folder)))
    for each in (trainer, other):
        each.train()
        each.stop()
    np.testing.assert_array_equal(weights_of(trainer), weights_of(other))
