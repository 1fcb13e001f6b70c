"""Names of trainers of RLlib 1.4: each works, or its error names what to use; trainers that scripts add keys to."""

import pytest
import torch

from rookery.core.errors import ConfigError
from rookery_rllib.base import imports
from rookery_rllib.config.defaults import with_common_config
from rookery_rllib.policy.templates import build_torch_policy
from rookery_rllib.trainer.trainers import TRAINERS, UNSUPPORTED, build_trainer, get_trainer_class
from rookery_rllib.tune import experiment

REGISTRY = (
    "A2C", "A3C", "APEX", "APEX_DDPG", "APPO", "ARS", "BC", "CQL", "DDPG", "DDPPO", "DQN", "DREAMER", "ES", "IMPALA",
    "MAML", "MARWIL", "MBMPO", "PG", "PPO", "QMIX", "R2D2", "SAC", "SimpleQ", "SlateQ", "TD3", "contrib/AlphaZero",
    "contrib/LinTS", "contrib/LinUCB", "contrib/MADDPG", "contrib/RandomAgent",
)  # fmt: skip
"""All names of `ray.rllib.agents.registry` and `ray.rllib.contrib.registry` of ray 1.4.0."""


@pytest.mark.parametrize("name", REGISTRY)
def test_every_name_of_the_registry_is_a_trainer_or_says_what_to_use(name):
    if name in UNSUPPORTED:
        with pytest.raises(ConfigError, match=r"(is|are) not implemented; (use|draw|give) .*(PPO|DQN|SAC)"):
            get_trainer_class(name)
        return
    found, config = get_trainer_class(name, return_config=True)
    assert found is TRAINERS[name.removeprefix("contrib/")] and config == found._default_config
    assert str(found._name) == name.removeprefix("contrib/")


def test_there_are_no_other_trainers():
    assert {name.removeprefix("contrib/") for name in REGISTRY} - {
        name.removeprefix("contrib/") for name in UNSUPPORTED
    } == set(TRAINERS)


def test_the_page_lists_every_name(request):
    text = (request.config.rootpath / "docs" / "from-rllib.md").read_text(encoding="utf-8")
    assert [name for name in REGISTRY if f"`{name}`" not in text] == []


# --- contrib/RandomAgent ----------------------------------------------------------------------------------------------


def test_the_random_agent_plays_whole_episodes():
    agent = imports.find("ray.rllib.contrib.random_agent.random_agent.RandomAgentTrainer")
    trainer = agent(config={"env": "CartPole-v0", "rollouts_per_iteration": 25, "seed": 1})
    first, second = trainer.train(), trainer.train()
    assert first["episodes_this_iter"] >= 25 and second["episodes_total"] >= 50
    assert 15 < second["episode_reward_mean"] < 30  # random actions earn 22 on CartPole
    assert {trainer.compute_action([0.0] * 4) for _ in range(40)} == {0, 1}
    trainer.stop()
    with pytest.raises(ConfigError, match="rollouts_per_iterations.*did you mean 'rollouts_per_iteration'"):
        agent(config={"env": "CartPole-v0", "rollouts_per_iterations": 1})


def test_the_random_agent_runs_by_name():
    analysis = experiment.run(
        "contrib/RandomAgent", config={"env": "CartPole-v0"}, stop={"training_iteration": 1}, verbose=0
    )
    assert analysis.trials[0].last_result["episodes_total"] >= 10


# --- keys that a script's trainer adds --------------------------------------------------------------------------------


def scaled_loss(policy, model, dist_class, batch):
    logits, _ = model.from_batch(batch)
    policy.scales.append(policy.config["my_scale"])
    return -policy.config["my_scale"] * torch.mean(dist_class(logits, model).logp(batch["actions"]) * batch["rewards"])


def own_trainer(**arguments):
    policy = build_torch_policy(
        "Scaled", loss_fn=scaled_loss, before_init=lambda policy, *_: setattr(policy, "scales", [])
    )
    defaults = with_common_config({"my_scale": 2.0})
    return build_trainer("Own", default_config=defaults, default_policy=policy, **arguments)


def test_a_trainer_of_a_script_may_have_keys_of_its_own():
    trainer = own_trainer()(config={"env": "CartPole-v0", "my_scale": 3.0})
    trainer.train()
    assert trainer.config["my_scale"] == 3.0 and set(trainer.get_policy().scales) == {3.0}
    trainer.stop()
    policies = {"a": (None, None, None, {"my_scale": 1.5}), "b": (None, None, None, {})}
    both = {"policies": policies, "policy_mapping_fn": lambda agent: "a"}
    trainer = own_trainer()(config={"env": "CartPole-v0", "multiagent": both})
    trainer.train()
    assert set(trainer.get_policy("a").scales) == {1.5} and trainer.config["my_scale"] == 2.0
    trainer.stop()


def test_a_wrong_key_of_such_a_trainer_is_refused():
    with pytest.raises(ConfigError, match=r"my_scael = 3.0: .*did you mean 'my_scale'"):
        own_trainer()(config={"env": "CartPole-v0", "my_scael": 3.0})
    trainer = own_trainer(allow_unknown_configs=True)(config={"env": "CartPole-v0", "another": 3.0})
    assert trainer.config["another"] == 3.0
    trainer.stop()
