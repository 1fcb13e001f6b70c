"""Execution plans of scripts: streams, their operations, and trainers whose loop is a plan."""

import queue

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from rookery.core.errors import ConfigError, EnvError
from rookery_rllib.base.imports import find
from rookery_rllib.batch.sample_batch import MultiAgentBatch, SampleBatch
from rookery_rllib.examples.multi_agent_envs import MultiAgentCartPole
from rookery_rllib.execution.iterators import LocalIterator, SharedMetrics, _NextValueNotReady, next_result
from rookery_rllib.execution.metric_ops import OncePerTimeInterval, OncePerTimestepsElapsed, StandardMetricsReporting
from rookery_rllib.execution.replay_buffers import LocalReplayBuffer
from rookery_rllib.execution.replay_ops import (
    Concurrently,
    Dequeue,
    Enqueue,
    MixInReplay,
    Replay,
    ReplayActor,
    StoreToReplayBuffer,
    WaitUntilTimestepsElapsed,
)
from rookery_rllib.execution.rollout_ops import ConcatBatches, ParallelRollouts, SelectExperiences, StandardizeFields
from rookery_rllib.execution.train_ops import (
    ApplyGradients,
    AsyncGradients,
    AverageGradients,
    ComputeGradients,
    TrainOneStep,
    TrainTFMultiGPU,
    UpdateTargetNetwork,
)
from rookery_rllib.trainer.script_workers import WorkerSet
from rookery_rllib.trainer.trainers import TRAINERS, DQNTrainer, PPOTrainer, build_trainer

DQNTorchPolicy = find("ray.rllib.agents.dqn.DQNTorchPolicy")
PPOTorchPolicy = find("ray.rllib.agents.ppo.PPOTorchPolicy")
NAME = "default_policy"


class Signs(gymnasium.Env):
    """Ten decisions; the reward of each is 1 if the action is the sign of the product of both observations."""

    observation_space, action_space = Box(-1.0, 1.0, (2,)), Discrete(2)

    def __init__(self, config=None):
        self.time = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self._seen(), {}

    def _seen(self):
        self.obs = self.np_random.choice([-1.0, 1.0], 2).astype(np.float32)
        return self.obs

    def step(self, action):
        reward = float((self.obs.prod() > 0) == bool(action))
        self.time += 1
        return self._seen(), reward, False, self.time >= 10, {}


def counting(count):
    return LocalIterator(lambda: iter(range(count)))


def waiting(*items):
    """A stream that is not ready before each item."""
    return LocalIterator(lambda: iter([each for item in items for each in (_NextValueNotReady(), item)]))


def ready(stream):
    return [item for item in stream if not isinstance(item, _NextValueNotReady)]


# --- streams ----------------------------------------------------------------------------------------------------------


def test_operations_on_streams():
    assert list(counting(5).for_each(lambda x: x * x).filter(lambda x: x % 2 == 0)) == [0, 4, 16]
    assert list(counting(5).batch(2)) == [[0, 1], [2, 3], [4]]
    assert list(counting(4).batch(2).flatten()) == [0, 1, 2, 3]
    assert list(counting(3).combine(lambda x: [x] * x)) == [1, 2, 2]
    assert list(counting(3).transform(lambda items: (10 + item for item in items))) == [10, 11, 12]
    shuffled = list(counting(20).shuffle(5, seed=1))
    assert sorted(shuffled) == list(range(20)) != shuffled
    stream = counting(5)
    assert (stream.take(2), stream.take(9), counting(3).take(0)) == ([0, 1], [2, 3, 4], [])
    assert repr(counting(1).for_each(abs).batch(2)) == "LocalIterator.for_each(abs).batch(2)"


def test_every_operation_passes_on_what_is_not_ready():
    for made in (lambda s: s.for_each(lambda x: x), lambda s: s.filter(bool), lambda s: s.batch(1),
                 lambda s: s.combine(lambda x: [x]), lambda s: s.shuffle(1), lambda s: s.duplicate(2)[0]):  # fmt: skip
        assert isinstance(next(made(waiting(1))), _NextValueNotReady)
    assert next_result(waiting(7)) == 7
    with pytest.raises(ConfigError, match="the plan has ended"):
        next_result(counting(0))


def test_streams_that_are_duplicated_wait_for_each_other():
    one, two = counting(4).duplicate(2)
    assert [next(one), next(one)] == [0, 1]
    assert isinstance(next(one), _NextValueNotReady)
    assert [next(two), next(one)] == [0, 2]
    assert ready(Concurrently([one, two])) == [1, 3, 2, 3]
    with pytest.raises(ValueError, match="into 2 or more"):
        counting(1).duplicate(1)


def test_several_streams_take_turns():
    tens = counting(3).for_each(lambda x: 10 + x)
    assert list(Concurrently([counting(2), tens])) == [0, 10, 1, 11, 12]
    tens = counting(3).for_each(lambda x: 10 + x)
    assert list(Concurrently([counting(4), tens], round_robin_weights=[2, 1])) == [0, 1, 10, 2, 3, 11, 12]
    assert list(Concurrently([counting(3), counting(2)], round_robin_weights=[1, "*"])) == [0, 0, 1, 1, 2]
    assert ready(Concurrently([waiting(5, 6), counting(2)], mode="async", output_indexes=[0])) == [5, 6]
    for wrong, message in (({"mode": "other"}, "mode = 'other'"), ({"output_indexes": [2]}, "there are 2 streams"),
                           ({"round_robin_weights": ["*", "*"]}, "at least is a number"),
                           ({"round_robin_weights": [1]}, "1 weights for 2 streams")):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            Concurrently([counting(1), counting(1)], **wrong)
    with pytest.raises(ValueError, match="1 streams"):
        Concurrently([counting(1)])
    with pytest.raises(ValueError, match="is no LocalIterator"):
        counting(1).union([1])


def test_joined_streams_have_the_same_counters():
    def count(name):
        def function(item):
            LocalIterator.get_metrics().counters[name] += 1
            return item

        return function

    one, two = counting(2).for_each(count("one")), counting(3).for_each(count("two"))
    assert one.take(1) == [0]
    joined = Concurrently([one, two]).for_each(count("both"))
    assert len(list(joined)) == 4
    assert dict(joined.shared_metrics.get().counters) == {"one": 2, "two": 3, "both": 4}
    assert one.shared_metrics.get() is two.shared_metrics.get() is joined.shared_metrics.get()
    again = SharedMetrics()
    again.get().restore(joined.shared_metrics.get().save())
    assert again.get().counters["both"] == 4
    with pytest.raises(ValueError, match="no plan runs"):
        LocalIterator.get_metrics()


def test_queues_are_not_waited_for():
    kept = queue.Queue(2)
    assert ready(counting(4).for_each(Enqueue(kept))) == [0, 1]
    assert ready(Dequeue(kept).take(3)) == [0, 1]
    with pytest.raises(RuntimeError, match="check of the queue"):
        next(Dequeue(kept, check=lambda: False))
    with pytest.raises(ValueError, match=r"must be a queue.Queue"):
        Enqueue([])


# --- batches ----------------------------------------------------------------------------------------------------------


def rows(count, first=0.0):
    return SampleBatch(obs=np.arange(count)[:, None] + first, x=np.arange(count, dtype=np.float32))


def test_batches_are_selected_joined_and_standardized():
    both = MultiAgentBatch({"one": rows(3), "two": rows(4, 10.0)}, 4)
    kept = SelectExperiences(["two"])(both)
    assert (list(kept.policy_batches), kept.count) == (["two"], 4)
    assert SelectExperiences(["two"])(rows(2)).count == 2
    join = ConcatBatches(7, count_steps_by="agent_steps")
    assert join(rows(4)) == []
    (joined,) = join(rows(4))
    assert joined.count == 8 and join(rows(4)) == []
    assert ConcatBatches(4)(both)[0].agent_steps() == 7
    done = StandardizeFields(["x"])(both)
    assert all(
        abs(part["x"].mean()) < 1e-6 and abs(part["x"].std() - 1) < 1e-6 for part in done.policy_batches.values()
    )
    with pytest.raises(ValueError, match="dict: must be a SampleBatch"):
        StandardizeFields(["x"])({})
    with pytest.raises(ValueError, match="count_steps_by = 'rows'"):
        ConcatBatches(1, count_steps_by="rows")
    np.random.seed(0)
    assert [batch.count for batch in MixInReplay(2, 2.0)(rows(3))] == [3, 3, 3]
    with pytest.raises(ValueError, match="nothing to draw from"):
        MixInReplay(0, 1.0)


def test_a_store_may_be_an_actor():
    actor = ReplayActor.remote(learning_starts=4, buffer_size=100, replay_batch_size=2)
    store = StoreToReplayBuffer(actors=[actor])
    assert store(rows(3)).count == 3
    replay = Replay(actors=[actor])
    assert isinstance(next(replay), _NextValueNotReady)
    store(rows(3))
    assert next(replay).count == 2
    with pytest.raises(ValueError, match="give local_buffer, or actors"):
        Replay()


def test_streams_let_results_through_once_in_a_while():
    every = OncePerTimestepsElapsed(3)
    stream = counting(8).for_each(lambda x: _step(x)).filter(every)
    assert list(stream) == [2, 5]
    assert list(counting(3).for_each(_step).filter(WaitUntilTimestepsElapsed(1))) == [1, 2]
    seldom = OncePerTimeInterval(60.0)
    assert [seldom(None), seldom(None)] == [True, False]
    assert OncePerTimeInterval(0)(None)


def _step(item):
    LocalIterator.get_metrics().counters["num_steps_sampled"] += 1
    return item


# --- trainers ---------------------------------------------------------------------------------------------------------


def dqn_plan(learns=True):
    def plan(workers, config):
        memory = LocalReplayBuffer(
            learning_starts=config["learning_starts"],
            buffer_size=config["buffer_size"],
            replay_batch_size=config["train_batch_size"],
        )

        def prioritize(item):
            batch, info = item
            errors = {name: (batch.policy_batches[name]["batch_indexes"], told["td_error"])
                      for name, told in info.items()}  # fmt: skip
            memory.update_priorities(errors)
            return info

        store = ParallelRollouts(workers).for_each(StoreToReplayBuffer(local_buffer=memory))
        replay = Replay(local_buffer=memory)
        if learns:
            replay = replay.for_each(TrainOneStep(workers)).for_each(prioritize)
            replay = replay.for_each(UpdateTargetNetwork(workers, config["target_network_update_freq"]))
        both = Concurrently([store, replay], mode="round_robin", output_indexes=[1])
        return StandardMetricsReporting(both, workers, config)

    return plan


SMALL = {"env": Signs, "num_workers": 0, "seed": 2, "framework": "torch"}
OF_DQN = {
    **SMALL, "lr": 0.01, "learning_starts": 100, "buffer_size": 1000, "train_batch_size": 32, "gamma": 0.5,
    "rollout_fragment_length": 4, "target_network_update_freq": 50, "timesteps_per_iteration": 300,
    "min_iter_time_s": 0, "dueling": False, "hiddens": [], "model": {"fcnet_hiddens": [16]},
    "exploration_config": {"epsilon_timesteps": 300, "final_epsilon": 0.0},
}  # fmt: skip


def planned(plan, **config):
    return DQNTrainer.with_updates(name="Planned", execution_plan=plan)(config={**OF_DQN, **config})


def test_a_plan_learns_and_one_that_does_not_train_does_not():
    trainer, control = planned(dqn_plan()), planned(dqn_plan(learns=False))
    for _ in range(3):
        result, other = trainer.train(), control.train()
    new = result["hist_stats"]["episode_reward"][-20:]
    assert np.mean(new) > 9.5  # of 10
    assert np.mean(other["hist_stats"]["episode_reward"][-20:]) < 8.0
    assert 900 <= result["timesteps_total"] <= 1000
    info = result["info"]
    assert info["num_steps_sampled"] == result["timesteps_total"] == trainer.rookery.env_steps
    assert info["num_steps_trained"] > 5000
    assert info["num_target_updates"] >= 14
    assert info["learner"][NAME]["mean_td_error"] >= 0
    assert {"sample_time_ms", "learn_time_ms", "learn_throughput"} <= result["timers"].keys()
    assert result["config"]["train_batch_size"] == 32


def test_equal_seeds_give_equal_plans():
    one, other, third = planned(dqn_plan()), None, None
    one.train()
    other = planned(dqn_plan())
    other.train()
    third = planned(dqn_plan(), seed=3)
    third.train()
    mine, same, different = (each.get_policy().get_weights() for each in (one, other, third))
    assert all(np.array_equal(mine[name], same[name]) for name in mine)
    assert not all(np.array_equal(mine[name], different[name]) for name in mine)


def test_counters_of_a_plan_go_on_after_restore(tmp_path):
    trainer = planned(dqn_plan())
    before = trainer.train()
    other = planned(dqn_plan())
    other.restore(trainer.save(str(tmp_path)))
    after = other.train()
    assert after["training_iteration"] == 2
    assert after["timesteps_total"] >= before["timesteps_total"] + 4
    assert after["info"]["num_target_updates"] >= before["info"]["num_target_updates"]


def test_a_plan_reads_its_own_batch_sizes():
    seen = []

    def plan(workers, config):
        seen.append((config["rollout_fragment_length"], config["train_batch_size"], config["sgd_minibatch_size"]))
        batches = ParallelRollouts(workers, mode="bulk_sync")
        batches = batches.for_each(lambda batch: seen.append(batch.count) or batch)
        batches = batches.combine(ConcatBatches(config["train_batch_size"]))
        batches = batches.for_each(StandardizeFields(["advantages"]))
        learned = batches.for_each(TrainOneStep(workers, num_sgd_iter=3, sgd_minibatch_size=32))
        return StandardMetricsReporting(learned, workers, config)

    made = build_trainer("Mine", default_policy=PPOTorchPolicy, default_config=PPOTrainer._default_config,
                         execution_plan=plan)  # fmt: skip
    config = {**SMALL, "num_workers": 2, "rollout_fragment_length": 25, "train_batch_size": 120, "lr": 0.01}
    trainer = made(config={**config, "sgd_minibatch_size": 64, "model": {"fcnet_hiddens": [16]}})
    result = trainer.train()
    assert seen == [(25, 120, 64), 50, 50, 50]  # rounds of both environments
    assert trainer.execution_plan is plan
    assert result["config"]["train_batch_size"] == 120
    assert result["info"]["num_steps_trained"] == 150
    first = result["episode_reward_mean"]
    for _ in range(8):
        result = trainer.train()
    assert np.mean(result["hist_stats"]["episode_reward"][-20:]) > first + 2.0


def test_two_algorithms_learn_in_one_plan():
    space = gymnasium.make("CartPole-v1").observation_space
    policies = {
        "ppo": (PPOTorchPolicy, space, Discrete(2), {**PPOTrainer._default_config, "model": {"fcnet_hiddens": [8]}}),
        "dqn": (DQNTorchPolicy, space, Discrete(2), {**DQNTrainer._default_config, "model": {"fcnet_hiddens": [8]}}),
    }

    def plan(workers, config):
        memory = LocalReplayBuffer(learning_starts=40, buffer_size=500, replay_batch_size=16)
        one, two = ParallelRollouts(workers).duplicate(2)
        store = one.for_each(SelectExperiences(["dqn"])).for_each(StoreToReplayBuffer(local_buffer=memory))
        replay = Replay(local_buffer=memory).for_each(TrainOneStep(workers, policies=["dqn"]))
        replay = replay.for_each(UpdateTargetNetwork(workers, 20, by_steps_trained=True, policies=["dqn"]))
        ppo = two.for_each(SelectExperiences(["ppo"])).combine(ConcatBatches(40))
        ppo = ppo.for_each(StandardizeFields(["advantages"])).for_each(
            TrainOneStep(workers, policies=["ppo"], num_sgd_iter=2, sgd_minibatch_size=32)
        )
        dqn = Concurrently([store, replay], output_indexes=[1])
        return StandardMetricsReporting(Concurrently([ppo, dqn], mode="async"), workers, config)

    made = build_trainer("Both", execution_plan=plan)
    config = {"env": MultiAgentCartPole, "env_config": {"num_agents": 4}, "num_workers": 0, "seed": 1,
              "rollout_fragment_length": 20, "timesteps_per_iteration": 200}  # fmt: skip
    mapping = {"policies": policies, "policy_mapping_fn": lambda agent: ("ppo", "dqn")[agent % 2]}
    trainer = made(config={**config, "multiagent": mapping})
    before = trainer.get_weights()
    result = trainer.train()
    after = trainer.get_weights()
    for name in ("ppo", "dqn"):
        assert any((before[name][part] != after[name][part]).any() for part in before[name])
    assert result["timesteps_total"] >= 200
    assert result["agent_timesteps_total"] > result["timesteps_total"]
    assert result["info"]["num_target_updates"] >= 1
    assert result["policy_reward_mean"].keys() == {"ppo", "dqn"}


def test_gradients_may_be_averaged():
    def plan(workers, config):
        gradients = AsyncGradients(workers).batch(2).for_each(AverageGradients()).for_each(ApplyGradients(workers))
        return StandardMetricsReporting(gradients, workers, config)

    made = build_trainer("Mine", default_policy=PPOTorchPolicy, default_config=PPOTrainer._default_config,
                         execution_plan=plan)  # fmt: skip
    trainer = made(config={**SMALL, "rollout_fragment_length": 20, "model": {"fcnet_hiddens": [8]}})
    before = trainer.get_policy().get_weights()
    result = trainer.train()
    assert any((before[name] != value).any() for name, value in trainer.get_policy().get_weights().items())
    assert result["info"]["num_steps_trained"] == 40
    assert "policy_loss" in result["info"]["learner"][NAME]
    named = AverageGradients()([({"one": [np.ones(2), None]}, 3), ({"one": [np.zeros(2), None]}, 1)])
    assert named[1] == 4 and named[0]["one"][0].tolist() == [0.5, 0.5] and named[0]["one"][1] is None
    with pytest.raises(ValueError, match="must be a pair"):
        ApplyGradients(trainer.workers)(None)
    assert isinstance(TrainTFMultiGPU(workers=trainer.workers, sgd_minibatch_size=5, num_sgd_iter=1), TrainOneStep)


def test_workers_of_a_script_sample_one_by_one():
    config = {
        **TRAINERS["PG"]._default_config,
        "rollout_fragment_length": 10,
        "model": {"fcnet_hiddens": [4]},
        "seed": 0,
    }
    policy = find("ray.rllib.agents.pg.PGTorchPolicy")
    group = WorkerSet(env_creator=lambda context: Signs(), policy_class=policy, trainer_config=config, num_workers=2)
    assert [next(ParallelRollouts(group, mode=mode)).count for mode in ("bulk_sync", "async")] == [20, 10]
    with pytest.raises(ConfigError, match="mode = 'raw'"):
        ParallelRollouts(group, mode="raw")
    gradients, count = next(ParallelRollouts(group, mode="async").for_each(ComputeGradients(group)))
    assert count == 10 and len(gradients) == 1
    group.stop()


def test_a_plan_must_return_a_stream():
    with pytest.raises(ConfigError, match="execution_plan returned list: must return a stream"):
        planned(lambda workers, config: [])


def test_the_loop_of_every_trainer_is_a_stream():
    trainer = DQNTrainer(config=OF_DQN)
    first = trainer.train()
    second = next(trainer.train_exec_impl)
    counters = trainer.train_exec_impl.shared_metrics.get().counters
    assert second["timesteps_total"] == counters["num_steps_sampled"] > first["timesteps_total"]
    assert any("replay" in line for line in trainer.execution_plan)


def test_a_trainer_goes_on_after_an_error_of_its_environment():
    class Fails(Signs):
        fails = True

        def step(self, action):
            if Fails.fails:
                raise RuntimeError("the simulator is gone")
            return super().step(action)

    trainer = DQNTrainer(config={**OF_DQN, "env": Fails})
    with pytest.raises(EnvError, match="the simulator is gone"):
        trainer.train()
    Fails.fails = False
    assert trainer.train()["timesteps_total"] > 0
