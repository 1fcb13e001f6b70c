import numpy as np
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.examples.envs.classes.stateless_cartpole import StatelessCartPole

config = (
    PPOConfig()
    .api_stack(enable_rl_module_and_learner=False, enable_env_runner_and_connector_v2=False)
    .environment(StatelessCartPole)
    .env_runners(num_env_runners=0, observation_filter="MeanStdFilter")
    .training(
        train_batch_size=200,
        minibatch_size=100,
        num_epochs=1,
        model={"use_lstm": True, "lstm_cell_size": 16, "max_seq_len": 10, "fcnet_hiddens": [8]},
    )
)
algo = config.build()
algo.train()
policy = algo.get_policy()
state = policy.get_initial_state()
action, state, _ = algo.compute_single_action(np.zeros(2, np.float32), state=state)
assert action in (0, 1) and len(state) >= 1
