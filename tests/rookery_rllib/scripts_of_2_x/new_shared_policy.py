from ray.rllib.algorithms.appo import APPOConfig
from ray.rllib.connectors.env_to_module import MeanStdFilter
from ray.rllib.examples.envs.classes.multi_agent import MultiAgentCartPole
from ray.tune.registry import register_env

register_env("env", lambda cfg: MultiAgentCartPole(config=cfg))
config = (
    APPOConfig()
    .environment("env", env_config={"num_agents": 2})
    .env_runners(
        num_env_runners=1,
        num_envs_per_env_runner=2,
        rollout_fragment_length=25,
        env_to_module_connector=lambda env, spaces, device: MeanStdFilter(multi_agent=True),
    )
    .learners(num_learners=0)
    .training(train_batch_size_per_learner=50, vf_loss_coeff=0.05, grad_clip=20.0)
    .multi_agent(policies={"p0"}, policy_mapping_fn=lambda aid, *arg, **kw: "p0")
)
algo = config.build_algo()
for _ in range(4):
    result = algo.train()
assert set(result["learners"]) == {"p0", "__all_modules__"}
assert result["env_runners"]["num_episodes_lifetime"] >= 0
