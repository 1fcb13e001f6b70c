"""Workers that scripts make themselves, and loops of scripts that play and learn by hand."""

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Discrete

from rookery.core.errors import ConfigError
from rookery_rllib.base import ray_core
from rookery_rllib.base.imports import find
from rookery_rllib.batch.sample_batch import MultiAgentBatch, SampleBatch
from rookery_rllib.examples.multi_agent_envs import MultiAgentCartPole, TwoStepGame
from rookery_rllib.policy.policies import Policy
from rookery_rllib.policy.templates import build_policy_class
from rookery_rllib.trainer.results import collect_metrics
from rookery_rllib.trainer.script_workers import RolloutWorker, WorkerSet
from rookery_rllib.trainer.trainers import A2CTrainer, DQNTrainer, PGTrainer, PPOTrainer

PPOTorchPolicy = find("ray.rllib.agents.ppo.PPOTorchPolicy")


class Drawn(Policy):
    w = 1.0

    def compute_actions(self, obs_batch, state_batches=None, **kwargs):
        return np.array([self.action_space.sample() for _ in obs_batch]), [], {}

    def learn_on_batch(self, samples):
        return {"rows": samples.count}

    def get_weights(self):
        return {"w": self.w}

    def set_weights(self, weights):
        self.w = weights["w"]


def cartpole(context):
    return gymnasium.make("CartPole-v1")


def test_a_hand_written_policy_plays_for_a_script():
    worker = RolloutWorker(env_creator=cartpole, policy=Drawn, rollout_fragment_length=30, num_envs=2, seed=1)
    batch = worker.sample()
    assert isinstance(batch, SampleBatch)
    assert batch.count == 60
    assert batch["obs"].shape == (60, 4)
    rows, count = worker.sample_with_count()
    assert (rows.count, count) == (60, 60)
    assert worker.learn_on_batch(batch) == {"default_policy": {"rows": 60}}
    worker.for_policy(lambda policy: setattr(policy, "w", 3.0))
    assert worker.get_weights() == {"default_policy": {"w": 3.0}}
    told = collect_metrics(worker)
    assert told["episodes_this_iter"] > 0
    assert collect_metrics(worker)["episodes_this_iter"] == 0
    worker.stop()


def test_what_comes_next_and_came_before_is_what_was_seen():
    worker = RolloutWorker(env_creator=cartpole, policy=Drawn, rollout_fragment_length=40, seed=0)
    first, second = worker.sample(), worker.sample()
    both = SampleBatch.concat_samples([first, second])
    goes_on = ~both["dones"][:-1]
    assert np.array_equal(both["new_obs"][:-1][goes_on], both["obs"][1:][goes_on])
    assert np.array_equal(both["prev_actions"][1:][goes_on], both["actions"][:-1][goes_on])
    assert not both["prev_rewards"][1:][~goes_on].any()
    assert np.array_equal(both["t"][1:][goes_on], both["t"][:-1][goes_on] + 1)
    assert not both["t"][1:][~goes_on].any()
    episodes = both.split_by_episode()
    assert len(episodes) == 1 + both["dones"][:-1].sum()
    assert all(not each["dones"][:-1].any() for each in episodes)


def test_actors_play_with_the_weights_they_are_given():
    workers = [RolloutWorker.as_remote(num_cpus=1).remote(env_creator=cartpole, policy=Drawn) for _ in range(2)]
    for worker in workers:
        worker.set_weights.remote({"default_policy": {"w": 7.0}})
    batches = ray_core.get([worker.sample.remote() for worker in workers])
    assert SampleBatch.concat_samples(batches).count == 200
    assert ray_core.get(workers[1].get_weights.remote()) == {"default_policy": {"w": 7.0}}
    assert collect_metrics(remote_workers=workers)["episodes_this_iter"] > 2


def test_several_policies_give_a_batch_of_each():
    space = gymnasium.make("CartPole-v1").observation_space
    spec = {name: (Drawn, space, Discrete(2, seed=seed), {}) for seed, name in enumerate(("one", "two"))}
    worker = RolloutWorker(
        env_creator=lambda context: MultiAgentCartPole({"num_agents": 2}),
        policy_spec=spec,
        policy_mapping_fn=lambda agent: ("one", "two")[agent % 2],
        policies_to_train=["two"],
        rollout_fragment_length=20,
        seed=3,
    )
    batch = worker.sample()
    assert isinstance(batch, MultiAgentBatch)
    counts = {name: part.count for name, part in batch.policy_batches.items()}
    assert set(counts) == {"one", "two"}
    assert all(count % 20 == 0 and count for count in counts.values())
    assert 20 <= batch.env_steps() <= sum(counts.values())
    assert worker.learn_on_batch(batch) == {"two": {"rows": counts["two"]}}


def test_ppo_is_learned_in_a_loop_of_the_script():
    worker = RolloutWorker(
        env_creator=cartpole, policy_spec=PPOTorchPolicy, rollout_fragment_length=64, num_envs=2, seed=0,
        policy_config={"lr": 0.01, "gamma": 0.9, "lambda": 0.8, "model": {"fcnet_hiddens": [16]}},
    )  # fmt: skip
    policy = worker.get_policy()
    batch = worker.sample()
    assert {"advantages", "value_targets", "vf_preds", "action_dist_inputs"} <= batch.keys()
    episode = batch.split_by_episode()[0]
    values, wanted = np.append(episode["vf_preds"], 0.0), 0.0
    assert episode["dones"][-1]
    for row in range(episode.count - 1, -1, -1):
        error = episode["rewards"][row] + 0.9 * values[row + 1] - values[row]
        wanted = error + 0.72 * wanted
        assert episode["advantages"][row] == pytest.approx(wanted, abs=1e-4)
    before = policy.get_weights()
    told = worker.learn_on_batch(batch)["default_policy"]["learner_stats"]
    assert told["kl"] == pytest.approx(0.0, abs=1e-6)
    assert told["vf_loss"] > 0
    changed = policy.get_weights()
    assert any((before[name] != weight).any() for name, weight in changed.items())
    again = worker.sample()
    logits = again["action_dist_inputs"]
    logp = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    assert np.allclose(logp[np.arange(len(logp)), again["actions"]], again["action_logp"], atol=1e-5)  # played by them


@pytest.mark.parametrize("trainer", [PPOTrainer, A2CTrainer, PGTrainer])
def test_two_ways_to_the_same_step(trainer):
    config = {"env": "CartPole-v1", "seed": 3, "model": {"fcnet_hiddens": [8]}, "num_workers": 0}
    config |= {"rollout_fragment_length": 50, "train_batch_size": 50}
    config |= {"sgd_minibatch_size": 50} if trainer is PPOTrainer else {}
    one, other = trainer(config=config), trainer(config=config)
    batch = one.workers.local_worker().sample()
    assert batch.count >= 50
    policy, twin = one.get_policy(), other.get_policy()
    policy.learn_on_batch(batch)
    gradients, told = other.workers.local_worker().compute_gradients(batch)
    assert told["batch_count"] == batch.count
    before = twin.get_weights()
    other.workers.local_worker().apply_gradients(gradients)
    assert any((before[name] != weight).any() for name, weight in twin.get_weights().items())
    for name, weight in policy.get_weights().items():
        assert np.allclose(weight, twin.get_weights()[name], atol=1e-7)


def test_what_cannot_be_learned_by_hand_says_why():
    trainer = DQNTrainer(config={"env": "CartPole-v1", "model": {"fcnet_hiddens": [8]}, "dueling": False})
    with pytest.raises(ConfigError, match="no column actions, rewards, new_obs, dones"):
        trainer.get_policy().learn_on_batch(SampleBatch(obs=np.zeros((1, 4))))
    trainer = A2CTrainer(config={"env": "CartPole-v1", "model": {"fcnet_hiddens": [8]}})
    with pytest.raises(ConfigError, match="no column actions, advantages, value_targets, action_logp"):
        trainer.get_policy().learn_on_batch(SampleBatch(obs=np.zeros((1, 4))))
    trainer = PPOTrainer(config={"env": "CartPole-v1", "model": {"fcnet_hiddens": [8], "use_lstm": True}})
    with pytest.raises(ConfigError, match="is recurrent"):
        trainer.get_policy().learn_on_batch(SampleBatch(obs=np.zeros((1, 4))))


def test_arguments_are_checked():
    with pytest.raises(ConfigError, match="num_env: there is no such argument; did you mean 'num_envs'"):
        RolloutWorker(env_creator=cartpole, policy_spec=Drawn, num_env=2)
    with pytest.raises(ConfigError, match="is not a class derived from Policy"):
        RolloutWorker(env_creator=cartpole, policy_spec=dict)
    frozen = PPOTrainer(
        config={"env": TwoStepGame, "train_batch_size": 200, "multiagent": {
            "policies": {"only": (None, None, None, {})}, "policy_mapping_fn": lambda agent: "only",
            "policies_to_train": []}}
    )  # fmt: skip
    with pytest.raises(ConfigError, match="no policy learns"):
        frozen.workers.local_worker().sample()


def test_a_set_of_workers_shares_weights():
    def score(policy, model, dist_class, batch):
        return -dist_class(model(batch)[0], model).logp(batch["actions"]).mean()

    cls = build_policy_class("Mine", "torch", loss_fn=score)
    config = {**PGTrainer._default_config, "rollout_fragment_length": 10, "model": {"fcnet_hiddens": [4]}, "seed": 0}
    group = WorkerSet(env_creator=cartpole, policy_class=cls, trainer_config=config, num_workers=1)
    local, (remote,) = group.local_worker(), group.remote_workers()
    local.learn_on_batch(local.sample())
    mine = local.get_weights()["default_policy"]
    theirs = ray_core.get(remote.get_weights.remote())["default_policy"]
    assert any((mine[name] != weight).any() for name, weight in theirs.items())
    group.sync_weights()
    theirs = ray_core.get(remote.get_weights.remote())["default_policy"]
    assert all((mine[name] == weight).all() for name, weight in theirs.items())
    assert [batch.count for batch in group.foreach_worker(lambda worker: worker.sample())] == [10, 10]
    group.stop()
