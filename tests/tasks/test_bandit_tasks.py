"""Contextual bandits: their rewards and regrets, redone by hand, and what belongs to the task."""

import numpy as np
import pytest

from rookery.core.errors import EnvError
from rookery.tasks.bandits.drawn_weights import LinearBandit, QuadraticBandit, SharedBandit
from rookery.tasks.bandits.wheel import WheelBandit

ALL = (LinearBandit, SharedBandit, QuadraticBandit, WheelBandit)


@pytest.mark.parametrize(
    ("make", "mean"),
    [
        (
            LinearBandit,
            lambda weights, context: [sum(w * c for w, c in zip(row, context, strict=True)) for row in weights],
        ),
        (
            SharedBandit,
            lambda weights, context: [sum(w * c for w, c in zip(weights, row, strict=True)) for row in context],
        ),
        (QuadraticBandit, lambda weights, context: [float(row @ context) ** 2 for row in weights]),
    ],
)
def test_regret_is_the_best_mean_less_that_of_the_arm(make, mean):
    env = make(num_arms=3, dimensions=2, noise=0.0)
    total = uniform = 0.0
    for seed, arm in enumerate((2, 0, 1)):
        context, _ = env.reset(seed=seed)
        means = np.array(mean(env.weights.astype(np.float64), context.astype(np.float64)))
        _, reward, terminated, truncated, info = env.step(arm)
        total, uniform = total + means.max() - means[arm], uniform + means.max() - means.mean()
        assert reward == pytest.approx(means[arm]) and terminated and not truncated
        assert info["regret"] == pytest.approx(means.max() - means[arm])
        assert info["cumulative_regret"] == pytest.approx(total)
        assert info["relative_regret"] == pytest.approx(total / uniform)


def test_the_wheel_pays_in_the_quarter_of_an_arm_outside_of_the_radius_alone():
    env = WheelBandit(delta=0.5)
    assert env.mean_rewards(np.array([0.3, 0.3])).tolist() == [1.2, 1.0, 1.0, 1.0, 1.0]
    quarters = [(0.6, 0.6), (0.6, -0.6), (-0.6, 0.6), (-0.6, -0.6)]
    means = [env.mean_rewards(np.array(point)) for point in quarters]
    assert sorted(int(mean.argmax()) for mean in means) == [1, 2, 3, 4]
    assert all(sorted(mean) == [1.0, 1.0, 1.0, 1.2, 50.0] for mean in means)


def test_weights_belong_to_the_seed_of_the_task_and_are_drawn_again_after_pulls():
    one, other, third = LinearBandit(redraw_every=2), LinearBandit(redraw_every=2), LinearBandit(task_seed=1)
    assert (one.weights == other.weights).all() and (one.weights != third.weights).all()
    first = one.weights
    for pull in range(2):
        assert one.weights is first
        one.reset(seed=pull)
        one.step(0)
    assert (one.weights != first).all()
    assert abs(np.mean(LinearBandit(num_arms=100, dimensions=100).weights)) < 0.03


@pytest.mark.parametrize("make", ALL)
def test_a_state_continues_as_the_environment_did(make):
    env, other = make(), make()
    for seed in range(3):
        env.reset(seed=seed)
        env.step(1)
    env.reset(seed=9)
    other.reset(seed=0)
    other.set_state(env.get_state())
    assert str(env.step(2)) == str(other.step(2))
    assert str(env.reset()) == str(other.reset())


@pytest.mark.parametrize("make", ALL)
def test_contexts_follow_from_the_seed_and_have_images(make):
    obs, _ = make().reset(seed=5)
    assert make().observation_space.contains(obs) and (obs == make().reset(seed=5)[0]).all()
    env = make(render_mode="rgb_array")
    assert env.render() is None
    env.reset(seed=0)
    before = env.render()
    env.step(0)
    assert before.dtype == np.uint8 and (before != env.render()).any()


@pytest.mark.parametrize(
    ("make", "settings"),
    [
        (LinearBandit, {"num_arms": 1}),
        (LinearBandit, {"dimensions": 0}),
        (SharedBandit, {"noise": -1.0}),
        (QuadraticBandit, {"redraw_every": 0}),
        (WheelBandit, {"delta": 1.5}),
        (WheelBandit, {"render_mode": "human"}),
    ],
)
def test_settings_out_of_range_are_refused(make, settings):
    with pytest.raises(ValueError, match=make.__name__):
        make(**settings)


def test_a_pull_needs_a_context_and_an_arm():
    env = LinearBandit(num_arms=2)
    with pytest.raises(EnvError, match="reset"):
        env.step(0)
    env.reset(seed=0)
    with pytest.raises(EnvError, match="action 2"):
        env.step(2)
    env.step(1)
    with pytest.raises(EnvError, match="pulled"):
        env.step(1)
