"""Short names of searches, schedulers and workers, and where they are."""

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

WORKERS = {
    "here": "rookery.tune.here:Here",
    "processes": "rookery.tune.processes:Processes",
    "ray": "rookery.tune.ray_workers:RayWorkers",
}
