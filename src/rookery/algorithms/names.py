"""Short names of algorithms, for configuration files and the command line, with the import paths of their settings
classes.
"""

from rookery.core.plugins import PluginTable

ALGORITHMS = PluginTable(
    "rookery.algorithms",
    {
        "ppo": "rookery.algorithms.on_policy.ppo:PPOConfig",
        "mappo": "rookery.algorithms.multi_agent.mappo:MAPPOConfig",
        "poca": "rookery.algorithms.multi_agent.poca:POCAConfig",
        "ppo_lagrangian": "rookery.algorithms.on_policy.ppo_lagrangian:PPOLagrangianConfig",
        "trpo": "rookery.algorithms.on_policy.trpo:TRPOConfig",
        "a2c": "rookery.algorithms.on_policy.a2c:A2CConfig",
        "impala": "rookery.algorithms.on_policy.impala:IMPALAConfig",
        "appo": "rookery.algorithms.on_policy.appo:APPOConfig",
        "reinforce": "rookery.algorithms.on_policy.reinforce:ReinforceConfig",
        "es": "rookery.algorithms.evolution.es:ESConfig",
        "ars": "rookery.algorithms.evolution.ars:ARSConfig",
        "alphazero": "rookery.algorithms.model_based.alphazero:AlphaZeroConfig",
        "linucb": "rookery.algorithms.bandits.lin_ucb:LinUCBConfig",
        "lints": "rookery.algorithms.bandits.lin_ts:LinTSConfig",
        "neural_linear": "rookery.algorithms.bandits.neural_linear:NeuralLinearConfig",
        "dqn": "rookery.algorithms.off_policy.dqn:DQNConfig",
        "pqn": "rookery.algorithms.on_policy.pqn:PQNConfig",
        "vdn": "rookery.algorithms.multi_agent.vdn:VDNConfig",
        "qmix": "rookery.algorithms.multi_agent.qmix:QMIXConfig",
        "maddpg": "rookery.algorithms.multi_agent.maddpg:MADDPGConfig",
        "sac": "rookery.algorithms.off_policy.sac:SACConfig",
        "td3": "rookery.algorithms.off_policy.td3:TD3Config",
        "ddpg": "rookery.algorithms.off_policy.ddpg:DDPGConfig",
        "bc": "rookery.algorithms.offline.bc:BCConfig",
        "marwil": "rookery.algorithms.offline.bc:MARWILConfig",
        "iql": "rookery.algorithms.offline.iql:IQLConfig",
        "cql": "rookery.algorithms.offline.cql:CQLConfig",
        "discrete_cql": "rookery.algorithms.offline.cql:DiscreteCQLConfig",
        "td3bc": "rookery.algorithms.offline.td3bc:TD3BCConfig",
        "awac": "rookery.algorithms.offline.awac:AWACConfig",
        "dt": "rookery.algorithms.offline.dt:DTConfig",
    },
)
