"""Domains and schedulers that cannot be are refused where they are written, with the value and the way out."""

import pytest

from messages import check_error
from rookery import tune

DOMAINS = [
    (lambda: tune.uniform(1, 0), "ConfigError: uniform: low must be below high, not 1 and 0"),
    (lambda: tune.uniform(1, 1), "ConfigError: low must be below high"),
    (lambda: tune.uniform(float("nan"), 1), "ConfigError: low must be a finite number, not nan"),
    (lambda: tune.uniform(0, float("inf")), "ConfigError: high must be a finite number, not inf"),
    (lambda: tune.uniform("0", 1), "ConfigError: low must be a finite number, not '0'"),
    (lambda: tune.uniform(True, 2), "ConfigError: low must be a finite number, not True"),
    (lambda: tune.loguniform(0, 1), "ConfigError: low must be above 0, where the logarithm begins, not 0; write a"),
    (lambda: tune.loguniform(-1, 1), "ConfigError: or uniform"),
    (lambda: tune.qloguniform(0, 1, 0.5), "ConfigError: or quniform"),
    (lambda: tune.lograndint(0, 4), "ConfigError: or randint"),
    (lambda: tune.quniform(0, 1, 0), "ConfigError: q must be above 0, not 0"),
    (lambda: tune.quniform(0, 1, -0.1), "ConfigError: q must be above 0, not -0.1"),
    (lambda: tune.quniform(0.05, 1, 0.1), "ConfigError: low must be a multiple of q = 0.1, not 0.05; write 0 or 0.1"),
    (lambda: tune.quniform(0, 0.99, 0.1), "ConfigError: high must be a multiple of q = 0.1, not 0.99; write 0.9 or 1"),
    (lambda: tune.randint(3, 3), "ConfigError: low must be below high, which is excluded, not 3 and 3"),
    (lambda: tune.randint(0.5, 3), "ConfigError: low must be a whole number of at most 64 bits, not 0.5"),
    (lambda: tune.randint(0, 2**70), "ConfigError: high must be a whole number of at most 64 bits"),
    (lambda: tune.qrandint(0, 10, 3), "ConfigError: high must be a multiple of q = 3, not 10; write 9 or 12"),
    (lambda: tune.qrandint(0, 10, 0), "ConfigError: q must be above 0"),
    (lambda: tune.qrandint(0, 10, 2.5), "ConfigError: q must be a whole number"),
    (lambda: tune.randn(0, 0), "ConfigError: randn: std must be above 0, not 0"),
    (lambda: tune.randn(float("nan")), "ConfigError: mean must be a finite number"),
    (lambda: tune.qrandn(0, 1, 0), "ConfigError: qrandn: q must be above 0"),
    (lambda: tune.choice([]), "ConfigError: choice: at least one value is required"),
    (lambda: tune.grid_search([]), "ConfigError: grid_search: at least one value is required"),
    (lambda: tune.choice("tanh"), "ConfigError: choice: the argument must be a list of values, not 'tanh'"),
    (lambda: tune.choice(3), "ConfigError: the argument must be a list of values, not 3"),
    (lambda: tune.choice([tune.uniform(0, 1)]), "ConfigError: values must not be domains"),
    (lambda: tune.choice([[tune.uniform(0, 1)]]), "ConfigError: values must not be domains"),
    (lambda: tune.choice([object(), object()]), "ConfigError: two values have the same name '<object object>'"),
    (lambda: tune.sample_from(3), "ConfigError: must be a function of the configuration so far, not 3"),
    (lambda: tune.sample_from(lambda: 3), "ConfigError: must take the configuration so far"),
    (lambda: tune.grid_search({"a", "b"}), "ConfigError: a set has no order"),
    (lambda: tune.logunifrom, "AttributeError: logunifrom ... did you mean 'loguniform'"),
    (lambda: tune.ASHAScheduler, "AttributeError: ASHAScheduler ... here it is ASHAConfig"),
]

SCHEDULERS = [
    (lambda: tune.ASHAConfig(), "ConfigError: max_time is missing"),
    (lambda: tune.ASHAConfig(max_time=10, grace=10), "ConfigError: grace = 10 must be less than max_time = 10"),
    (lambda: tune.ASHAConfig(max_time=100, brackets=5), "ConfigError: brackets = 5 must be at most 4 ... 1, 4, 16, 64"),
    (lambda: tune.ASHAConfig(max_time=9, reduction=1), "ConfigError: reduction = 1: must be a whole number of at"),
    (lambda: tune.ASHAConfig(max_time=0), "ConfigError: max_time = 0: must be a number above 0"),
    (lambda: tune.HyperBandConfig(max_time=2), "ConfigError: max_time = 2 must be at least grace x reduction = 3"),
    (lambda: tune.HyperBandConfig(grace=50), "ConfigError: max_time = 81 must be at least grace x reduction = 150"),
    (lambda: tune.HyperBandConfig(reduction=1), "ConfigError: reduction = 1: must be a whole number of at least 2"),
    (lambda: tune.HyperBandConfig(reduction=2.5), "ConfigError: reduction = 2.5: must be a whole number of at least 2"),
    (lambda: tune.MedianConfig(grace=0), "ConfigError: grace = 0: must be a number above 0"),
    (lambda: tune.MedianConfig(min_samples=0), "ConfigError: min_samples = 0: must be a whole number of at least 1"),
    (lambda: tune.MedianConfig(hard_stop="no"), "ConfigError: hard_stop = 'no': must be true or false"),
]


@pytest.mark.parametrize(("make", "expected"), [*DOMAINS, *SCHEDULERS])
def test_wrong_arguments_are_refused_where_they_are_written(make, expected):
    check_error(expected, make)
