"""Callbacks of RLlib 2.x: classes and functions, of the new stack and of 2.0 to 2.9, metrics, episodes."""

import math

import gymnasium
import numpy as np
import pytest

from rookery.core.errors import ConfigError
from rookery_rllib.rllib2.algorithm_classes import PPOConfig
from rookery_rllib.rllib2.metrics_logger import MetricsLogger
from rookery_rllib.rllib2.rllib_callbacks import RLlibCallback


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("TUNE_RESULT_DIR", str(tmp_path / "results"))


class Stairs(gymnasium.Env):
    """Episodes of five steps; observation and info are the number of the step, the reward is twice that."""

    observation_space = gymnasium.spaces.Box(0.0, 9.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, config=None):
        self.steps = 0

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return np.array([0.0], np.float32), {"at": 0}

    def step(self, action):
        self.steps += 1
        return np.array([self.steps], np.float32), 2.0 * self.steps, False, self.steps == 5, {"at": self.steps}


def built(config=None):
    config = (config or PPOConfig()).environment(Stairs).env_runners(num_env_runners=0, rollout_fragment_length=20)
    config = config.training(train_batch_size=20, minibatch_size=20, num_epochs=1, model={"fcnet_hiddens": [8]})
    return config.build_algo()


def test_hooks_of_the_new_stack_get_episodes_and_log_metrics():
    seen = []

    class Own(RLlibCallback):
        def on_episode_start(self, *, episode, env_runner, metrics_logger, env, env_index, rl_module, **kwargs):
            seen.append(("start", len(episode), env.envs[env_index].unwrapped.steps))

        def on_episode_end(self, *, episode, env_runner, metrics_logger, **kwargs):
            seen.append(episode.get_return())
            assert [obs[0] for obs in episode.get_observations()] == [0, 1, 2, 3, 4, 5]
            assert [info["at"] for info in episode.get_infos([1, -1])] == [1, 5]
            assert episode.get_rewards() == [2, 4, 6, 8, 10] and len(episode.get_actions()) == len(episode) == 5
            assert episode.is_done and episode.is_truncated
            metrics_logger.log_value("steps", len(episode), reduce="max")
            env_runner.metrics.log_value(("nested", "ends"), 1, reduce="sum")

        def on_train_result(self, *, algorithm, metrics_logger, result, **kwargs):
            result["mine"] = result["env_runners"]["steps"] * 2

    result = built(PPOConfig().callbacks(Own)).train()
    assert seen[:3] == [("start", 0, 0), 30.0, ("start", 0, 0)] and seen.count(30.0) == 4
    assert (result["env_runners"]["steps"], result["env_runners"]["nested"]) == (5, {"ends": 4})
    assert result["mine"] == 10


def test_functions_are_hooks_and_get_what_they_take():
    told = []
    config = PPOConfig().callbacks(
        on_algorithm_init=lambda algorithm, **kwargs: told.append(algorithm),
        on_episode_end=[lambda episode: told.append(len(episode)), lambda metrics_logger: None],
        on_train_result=lambda algorithm, result: told.append(result["training_iteration"]),
        on_environment_created=lambda env, env_context, **kwargs: told.append(env.num_envs),
    )
    algo = built(config)
    algo.train()
    assert told == [algo, 1, 5, 5, 5, 5, 1]


def test_callbacks_of_2_0_to_2_9_log_custom_metrics():
    class Own(RLlibCallback):
        def on_episode_start(self, *, worker, base_env, policies, episode, env_index, **kwargs):
            episode.user_data["ats"] = []
            assert set(policies) == {"default_policy"}

        def on_episode_step(self, *, worker, base_env, episode, env_index, **kwargs):
            episode.user_data["ats"].append(episode.last_info_for()["at"])
            steps = base_env.get_sub_environments()[env_index].steps
            assert steps == (episode.length if episode.length < 5 else 0)  # the next episode has begun

        def on_episode_end(self, *, worker, base_env, policies, episode, env_index, **kwargs):
            episode.custom_metrics["last"] = episode.user_data["ats"][-1]
            episode.hist_data["ats"] = episode.user_data["ats"]
            assert (episode.length, episode.total_reward) == (5, 30.0)

    result = built(PPOConfig().callbacks(Own)).train()
    assert result["custom_metrics"] == {"last_mean": 5.0, "last_min": 5.0, "last_max": 5.0}
    assert result["env_runners"]["custom_metrics"]["last_mean"] == 5.0
    assert result["hist_stats"]["ats"] == [1, 2, 3, 4, 5] * 4


def test_several_classes_and_hooks_of_evaluations():
    told = []

    class First(RLlibCallback):
        def on_evaluate_start(self, *, algorithm, metrics_logger, **kwargs):
            told.append("start")

        def on_episode_end(self, *, metrics_logger, **kwargs):
            metrics_logger.log_value("ends", 1, reduce="sum")

    class Second(RLlibCallback):
        def on_evaluate_end(self, *, algorithm, metrics_logger, evaluation_metrics, **kwargs):
            told.append(evaluation_metrics["env_runners"]["ends"])

    config = PPOConfig().callbacks([First, Second]).evaluation(evaluation_interval=1, evaluation_duration=3)
    result = built(config).train()
    assert told == ["start", 3]
    assert result["env_runners"]["ends"] == 4


def test_a_batch_is_changed_before_it_is_learned():
    class Own(RLlibCallback):
        def on_postprocess_trajectory(self, *, worker, episode, agent_id, policy_id, policies, postprocessed_batch,
                                      original_batches, **kwargs):  # fmt: skip
            postprocessed_batch["value_targets"][:] = 0.0

        def on_learn_on_batch(self, *, policy, train_batch, result, **kwargs):
            result["rows"] = train_batch.count

    result = built(PPOConfig().callbacks(Own).debugging(seed=1)).train()
    plain = built(PPOConfig().debugging(seed=1)).train()
    assert result["info"]["learner"]["default_policy"]["custom_metrics"]["rows"] == 20
    assert plain["learners"]["default_policy"]["vf_loss"] == pytest.approx(10.0)  # clipped: returns up to 30
    assert result["learners"]["default_policy"]["vf_loss"] < 1.0  # targets of 0


def test_a_hook_that_does_not_exist_is_refused_with_the_nearest():
    with pytest.raises(ConfigError, match="on_epsode_end: there is no such hook; did you mean 'on_episode_end'"):

        class Own(RLlibCallback):
            def on_epsode_end(self, **kwargs): ...

    with pytest.raises(ConfigError, match="did you mean 'on_episode_end'"):
        PPOConfig().callbacks(on_episode_ends=print)
    with pytest.raises(ConfigError, match="must be a class derived from RLlibCallback"):
        built(PPOConfig().callbacks(dict))


@pytest.mark.parametrize(
    ("how", "values", "first", "second"),
    [
        ({}, [1.0, 2.0], 1.01, 1.01),
        ({"ema_coeff": 0.5}, [1.0, 2.0], 1.5, 1.5),
        ({"reduce": "mean"}, [1.0, 2.0], 1.5, math.nan),
        ({"window": 2}, [1.0, 2.0, 4.0], 3.0, 3.0),
        ({"reduce": "sum"}, [1, 2], 3, 0),
        ({"reduce": "sum", "clear_on_reduce": False}, [1, 2], 3, 3),
        ({"reduce": "lifetime_sum"}, [1, 2], 3, 3),
        ({"reduce": "min"}, [3, 2], 2, math.nan),
        ({"reduce": "item"}, [3, 2], 2, 2),
        ({"reduce": "item_series"}, [3, 2], [3, 2], []),
        ({"percentiles": [0, 100], "window": 9}, [3, 2], {0: 2.0, 100: 3.0}, {0: 2.0, 100: 3.0}),
    ],
)
def test_metrics_are_reduced_once_an_iteration(how, values, first, second):
    logger = MetricsLogger()
    for value in values:
        logger.log_value(("a", "b"), value, **how)
    assert logger.peek(("a", "b")) == logger.peek("a")["b"] == pytest.approx(first)
    assert logger.reduce() == {"a": {"b": pytest.approx(first)}}
    assert logger.peek(("a", "b")) == pytest.approx(second, nan_ok=True)


def test_a_logger_times_blocks_and_takes_dicts():
    logger = MetricsLogger()
    with logger.log_time("seconds", reduce="sum"):
        pass
    logger.log_dict({"x": 1, "y": {"z": 2}}, key="mine", reduce="max")
    assert 0 <= logger.peek("seconds") < 1 and logger.peek("mine") == {"x": 1, "y": {"z": 2}}
    assert logger.peek("other", default=3) == 3
    with pytest.raises(ConfigError, match="did you mean 'max'"):
        logger.log_value("other", 1, reduce="maxx")
