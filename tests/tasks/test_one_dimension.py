"""The line: where it leads, what is seen of it, what each variant earns; and that short runs on it learn."""

import itertools

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rookery import PPOConfig, Trainer, load_policy
from rookery.core.errors import ConfigError
from rookery.tasks import OneDimension
from selection import slow_except

PPO = PPOConfig(
    lr=5e-3, minibatch_size=16, rollout_size=64, fragment_length=64, epochs=3, entropy_coef=5e-3, max_grad_norm=None,
    normalize_advantage="batch", normalize_values=False, scale_rewards=False,
    model={"hidden": (32,), "activation": "silu", "normalize_obs": False},
)  # fmt: skip


def plan(lane, episode):
    return lane * 1000 + episode


def line(signs=None, num_lanes=1, **settings):
    env = OneDimension(num_lanes, **settings)
    env.reset(plan)
    if signs is not None:
        env._sign[:] = signs
        env._show()
    return env


def walk(env, *actions):
    """Returns the rewards of each agent in each step."""
    return [env.step([np.array(action)]).rows[0].reward.tolist() for action in actions]


def test_the_right_end_earns_and_steps_cost():
    env = line(1.0)
    assert walk(env, *[[[0.9]]] * 5) == [[-0.01]] * 4 + [[pytest.approx(1.06)]]
    assert env._step.ended.tolist() == [True]
    assert env._rows.terminated.tolist() == [True]
    env = line(-1.0, step_size=0.5)
    assert walk(env, [[0.5]], [[0.5]]) == [[-0.01], [pytest.approx(-1.06)]]
    env = line(1.0, numbers=0, choices=1, step_size=0.5)
    assert walk(env, [0], [1], [1], [1]) == [[-0.01]] * 3 + [[pytest.approx(1.06)]]


def test_all_lines_must_be_walked_and_each_counts_its_share():
    env = line(1.0, numbers=0, choices=2, step_size=0.8)
    assert walk(env, [[1, 0]], [[1, 0]]) == [[-0.01], [pytest.approx(0.0)]]
    env = line(1.0, numbers=2, step_size=0.8)
    assert walk(env, [[0.8, 0.8]], [[0.8, 0.1]], [[0.0, 0.1]]) == [[-0.01], [-0.01], [pytest.approx(1.06)]]
    env = line(1.0, numbers=1, choices=1, step_size=0.8)
    both = np.array([{"choices": np.array([1]), "numbers": np.array([0.7])}], dtype=object)
    assert [env.step([both]).rows[0].reward.tolist() for _ in range(2)] == [[-0.01], [pytest.approx(1.06)]]


def test_signs_are_drawn_evenly_by_the_seed():
    signs = [line(num_lanes=400)._sign[:, 0].copy() for _ in range(2)]
    assert np.array_equal(*signs)
    assert set(signs[0]) == {-1.0, 1.0}
    assert abs(signs[0].mean()) < 0.2


def test_what_must_be_remembered_is_shown_at_first_only():
    env = line(-1.0, remember=True)
    seen = [env._rows.obs["obs"].ravel().tolist()]
    for _ in range(4):
        env.step([np.array([[0.1]])])
        seen.append(env._rows.obs["obs"].ravel().tolist())
    assert seen == [[-1.0]] * 3 + [[0.0]] * 2


def test_pictures_are_filled_with_the_sign():
    env = line([[1.0], [-1.0]], num_lanes=2, pictures=2, picture_shape=(5, 5, 4))
    assert set(env._rows.obs) == {"vector", "picture_0", "picture_1"}
    assert [np.unique(image).tolist() for image in env._rows.obs["picture_1"]] == [[1.0], [-1.0]]
    alone = line(1.0, pictures=1, vector=False)
    assert alone._rows.obs["obs"].shape == (1, 20, 20, 3)


def test_in_a_group_the_last_one_earns_for_all():
    env = line([[1.0, -1.0]], agents=2, play="group", numbers=0, choices=1, step_size=0.5)
    assert walk(env, [1, 1]) == [[-0.01, -0.01]]
    shown = env.step([np.array([1, 0])]).rows[0]
    assert shown.reward.tolist() == [-0.01, -0.01]  # who succeeds before the last pays for a step alone
    assert shown.terminated.tolist() == [True, False]
    assert shown.waiting.tolist() == [False, True]
    assert shown.group_reward.tolist() == [0.0, 0.0]
    walk(env, [0])
    shown = env.step([np.array([0])]).rows[0]
    assert shown.reward.tolist() == [0.0, 0.0]
    assert shown.group_reward.tolist() == [pytest.approx(1.06)] * 2
    env = line([[-1.0, -1.0]], agents=2, play="group", numbers=0, choices=1, step_size=1.0)
    env = line([[-1.0, 1.0]], agents=2, play="group", numbers=0, choices=1, step_size=0.5)
    walk(env, [1, 0])
    assert walk(env, [1, 1]) == [[pytest.approx(-1.06), -0.01]]  # who fails before the last pays for it alone


def test_sides_do_not_touch_each_other():
    env = line([[1.0, 1.0]], agents=2, play="sides", numbers=0, choices=1, step_size=0.5)
    assert walk(env, [1, 0], [1, 0]) == [[-0.01] * 2, [pytest.approx(1.06), pytest.approx(-1.06)]]


def test_nobody_walks_for_ever():
    env = line(1.0, max_steps=3)
    walk(env, [[0.0]], [[0.0]])
    shown = env.step([np.array([[0.0]])]).rows[0]
    assert shown.truncated.tolist() == [True]
    assert not shown.terminated.any()


def test_spaces_say_what_is_done():
    def actions(**settings):
        return OneDimension(1, **settings).kinds[0].action.space

    assert actions() == spaces.Box(-1, 1, (1,))
    assert actions(numbers=0, choices=1) == spaces.Discrete(2)
    assert actions(numbers=0, choices=3) == spaces.MultiDiscrete([2] * 3)
    assert set(actions(choices=1)) == {"choices", "numbers"}


# --- short runs -------------------------------------------------------------------------------------------------------


def learned(cfg, steps, **env):
    with Trainer(OneDimension, cfg, env_config={"max_steps": 30, **env}, num_envs=1, seed=0) as trainer:
        trainer.train({"env_steps": steps})
        return trainer.evaluate(40, deterministic=False).return_mean


WAYS = {"number": {}, "choice": {"numbers": 0, "choices": 1}, "both": {"choices": 1}}


@pytest.mark.parametrize(
    ("way", "learns"),
    slow_except(*((way, True) for way in WAYS), ("both", False), of=itertools.product(WAYS, [True, False])),
)
def test_ppo_walks_to_where_the_sign_points(way, learns):
    cfg = PPO if learns else PPO.replace(lr=1e-12)
    score = learned(cfg, 1500, **WAYS[way], step_size=0.5)
    assert score > 0.85 if learns else score < 0.6


PICTURES = [("simple", (20, 20, 3)), ("match3", (5, 5, 5)), ("flat", (5, 5, 3))]


@pytest.mark.parametrize(("cnn", "shape"), slow_except(("match3", (5, 5, 5)), of=PICTURES))
def test_a_picture_is_read_by_each_network(cnn, shape):
    cfg = PPO.replace(lr=1e-3, model=PPO.model.replace(cnn=cnn, cnn_features=16))
    env = {"numbers": 0, "choices": 1, "pictures": 1, "vector": False, "picture_shape": shape, "step_size": 0.5}
    assert learned(cfg, 900, **env) > 0.85


def test_a_picture_network_is_kept_and_others_are_refused(tmp_path):
    env = {"pictures": 1, "vector": False, "picture_shape": (20, 20, 3), "max_steps": 5}
    cfg = PPO.replace(model=PPO.model.replace(cnn="simple", cnn_features=16))
    where = {"env_config": env, "num_envs": 1, "seed": 0}
    with Trainer(OneDimension, cfg, run_dir=tmp_path / "run", **where) as trainer:
        trainer.train({"iterations": 1})
        policy = trainer.policies["main"]
    kept = load_policy(tmp_path / "run")
    image = np.full((3, 20, 20, 3), 0.5, np.float32)
    for name, value in policy.state_dict().items():
        assert torch.equal(kept.state_dict()[name], value), name
    # the learner's weights lie in one array, where torch may add up in another order
    np.testing.assert_allclose(kept.predict(image), policy.predict(image), rtol=1e-6)
    start = {"policies": {"main": {"init_from": str(tmp_path / "run")}}}
    with Trainer(OneDimension, cfg, config=start, **where) as trainer:
        assert np.array_equal(trainer.policies["main"].predict(image), policy.predict(image))
    for cnn, features in (("flat", 16), ("match3", 16), ("simple", 20)):
        other = PPO.replace(model=PPO.model.replace(cnn=cnn, cnn_features=features))
        with pytest.raises(ConfigError, match="that policy has another network; give 'main' the same model"):
            Trainer(OneDimension, other, config=start, **where)
