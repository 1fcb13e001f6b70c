"""Short names of algorithms, for configuration files and the command line: name to the import path of the settings
class.
"""

ALGORITHMS = {
    "ppo": "rookery.algorithms.ppo:PPOConfig",
    "mappo": "rookery.algorithms.mappo:MAPPOConfig",
    "poca": "rookery.algorithms.poca:POCAConfig",
    "a2c": "rookery.algorithms.a2c:A2CConfig",
    "impala": "rookery.algorithms.impala:IMPALAConfig",
    "appo": "rookery.algorithms.appo:APPOConfig",
    "reinforce": "rookery.algorithms.reinforce:ReinforceConfig",
    "dqn": "rookery.algorithms.dqn:DQNConfig",
    "pqn": "rookery.algorithms.pqn:PQNConfig",
    "vdn": "rookery.algorithms.vdn:VDNConfig",
    "qmix": "rookery.algorithms.qmix:QMIXConfig",
    "maddpg": "rookery.algorithms.maddpg:MADDPGConfig",
    "sac": "rookery.algorithms.sac:SACConfig",
    "td3": "rookery.algorithms.td3:TD3Config",
    "ddpg": "rookery.algorithms.ddpg:DDPGConfig",
    "bc": "rookery.algorithms.bc:BCConfig",
    "marwil": "rookery.algorithms.bc:MARWILConfig",
    "iql": "rookery.algorithms.iql:IQLConfig",
    "cql": "rookery.algorithms.cql:CQLConfig",
    "discrete_cql": "rookery.algorithms.cql:DiscreteCQLConfig",
    "td3bc": "rookery.algorithms.td3bc:TD3BCConfig",
    "awac": "rookery.algorithms.awac:AWACConfig",
    "dt": "rookery.algorithms.dt:DTConfig",
}

FROM_DATA = ("bc", "marwil", "iql", "awac", "td3bc", "cql", "discrete_cql", "dt")
"""Those that learn from data alone."""

WITH_REPLAY = ("dqn", "sac", "td3", "ddpg")
"""Those that may start from data, and learn from these and from what they play; without those that learn a team as one
(vdn, qmix, maddpg).
"""
