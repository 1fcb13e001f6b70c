"""Short names of searches and schedulers, and where their settings are."""

SEARCHES = {
    "random": "rookery.tune.search:RandomConfig",
    "optuna": "rookery.tune.optuna_search:OptunaConfig",
}

SCHEDULERS = {
    "fifo": "rookery.tune.scheduler:FIFOConfig",
    "median": "rookery.tune.median:MedianConfig",
    "asha": "rookery.tune.asha:ASHAConfig",
    "hyperband": "rookery.tune.hyperband:HyperBandConfig",
    "pbt": "rookery.tune.pbt:PBTConfig",
    "pb2": "rookery.tune.pb2:PB2Config",
}
