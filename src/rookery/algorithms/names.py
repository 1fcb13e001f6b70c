"""Short names of algorithms, for configuration files and the command line: name to the import path of the settings
class.
"""

ALGORITHMS = {
    "ppo": "rookery.algorithms.ppo:PPOConfig",
}
