"""Workers that functions of scripts evaluate with, and the remote ones of a trainer."""

import gymnasium
import pytest

from rookery_rllib.base import ray_core as ray
from rookery_rllib.batch.sample_batch import MultiAgentBatch
from rookery_rllib.examples.multi_agent_envs import MultiAgentCartPole
from rookery_rllib.examples.single_agent_envs import SimpleCorridor
from rookery_rllib.trainer.results import collect_episodes, collect_metrics, summarize_episodes
from rookery_rllib.trainer.trainers import PPOTrainer

SMALL = {
    "num_workers": 0, "train_batch_size": 60, "sgd_minibatch_size": 30, "model": {"fcnet_hiddens": [4]}, "seed": 1,
    "rollout_fragment_length": 30, "evaluation_num_workers": 2, "evaluation_interval": 1,
}  # fmt: skip


def trained(evaluate, **config):
    trainer = PPOTrainer(config={"custom_eval_function": evaluate, **SMALL, **config})
    try:
        return trainer.train()
    finally:
        trainer.stop()


def test_each_worker_plays_in_an_environment_of_its_own():
    told = {}

    def evaluate(trainer, workers):
        one, other = workers.remote_workers()
        one.foreach_env.remote(lambda env: env.set_corridor_length(1))
        other.foreach_env.remote(lambda env: env.set_corridor_length(2))
        batches = [ray.get([one.sample.remote(), other.sample.remote()]) for _ in range(3)]
        told["lengths"] = [[batch.count >= length for batch, length in zip(pair, (1, 2))] for pair in batches]
        told["dones"] = [int(batch["dones"].sum()) for pair in batches for batch in pair]
        told["ends"] = {batch["new_obs"][-1].item() for pair in batches for batch in pair}
        told["contexts"] = [
            ray.get(worker.foreach_env_with_context.remote(lambda env, context: (context.worker_index, context["x"])))
            for worker in workers.remote_workers()
        ]
        episodes, rest = collect_episodes(remote_workers=workers.remote_workers(), timeout_seconds=9)
        assert not rest
        return {**summarize_episodes(episodes), "foo": 1}

    result = trained(
        evaluate,
        env=SimpleCorridor,
        env_config={"corridor_length": 10, "x": 3},
        evaluation_config={"env_config": {"x": 4}},
    )
    assert result["evaluation"]["episodes_this_iter"] == 6 and result["evaluation"]["foo"] == 1
    assert result["evaluation"]["episode_reward_mean"] == 1.0
    assert told["lengths"] == [[True, True]] * 3
    assert told["dones"] == [1] * 6
    assert told["contexts"] == [[(1, 4)], [(2, 4)]]
    assert told["ends"] <= {0.0, 1.0, 2.0}


def test_the_local_worker_plays_too_and_evaluations_do_not_touch_training():
    def evaluate(trainer, workers):
        assert workers.foreach_worker(lambda worker: worker.worker_index) == [0, 1, 2]
        before = trainer.rookery.env_steps
        batch = workers.local_worker().sample()
        assert trainer.rookery.env_steps == before
        assert (batch["obs"][1:] == batch["new_obs"][:-1]).all()
        assert batch["t"].tolist() == list(range(batch.count))
        return collect_metrics(workers.local_worker(), workers.remote_workers())

    result = trained(evaluate, env="CartPole-v0")
    assert result["evaluation"]["episodes_this_iter"] == 1
    apart = [PPOTrainer(config={**SMALL, "env": "CartPole-v0", "evaluation_interval": None}) for _ in range(2)]
    apart[0].evaluation_workers.local_worker().sample()
    assert apart[0].train()["episode_reward_mean"] == apart[1].train()["episode_reward_mean"]
    for trainer in apart:
        trainer.stop()


def test_several_policies_give_a_batch_of_each():
    one = gymnasium.make("CartPole-v1")
    policies = {name: (None, one.observation_space, one.action_space, {}) for name in "ab"}

    def evaluate(trainer, workers):
        batch = ray.get(workers.remote_workers()[0].sample.remote())
        assert isinstance(batch, MultiAgentBatch)
        assert batch.env_steps() == max(part.count for part in batch.policy_batches.values())
        return {"policies": sorted(batch.policy_batches)}

    result = trained(
        evaluate, env=MultiAgentCartPole, env_config={"num_agents": 2},
        multiagent={"policies": policies, "policy_mapping_fn": lambda agent: "ab"[agent]},
    )  # fmt: skip
    assert result["evaluation"] == {"policies": ["a", "b"]}


@pytest.mark.parametrize("count", [0, 2])
def test_a_trainer_has_as_many_remote_workers_as_it_was_told(count):
    trainer = PPOTrainer(
        config={**SMALL, "env": SimpleCorridor, "evaluation_interval": None, "evaluation_num_workers": 0,
                "num_workers": count, "num_envs_per_worker": 2}
    )  # fmt: skip
    workers = trainer.workers.remote_workers()
    assert [ray.get(worker.apply.remote(lambda worker: worker.worker_index)) for worker in workers] == [1, 2][:count]
    every = trainer.workers.local_worker().foreach_env(id)
    theirs = [ray.get(worker.foreach_env.remote(id)) for worker in workers]
    assert sum(theirs, []) == (every if count else [])
    for worker in workers:
        assert ray.get(worker.get_weights.remote()).keys() == {"default_policy"}
    trainer.stop()
