"""Short names of algorithms, for configuration files and the command line: name to the import path of the settings
class.
"""

ALGORITHMS = {
    "ppo": "rookery.algorithms.ppo:PPOConfig",
    "a2c": "rookery.algorithms.a2c:A2CConfig",
    "reinforce": "rookery.algorithms.reinforce:ReinforceConfig",
}
