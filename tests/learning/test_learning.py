"""Short versions of the claims in benchmarks/learning.py, each with a control that must fail: nothing learned."""

from statistics import median

import pytest

from rookery import MultiAgentArena, PPOConfig, Trainer
from selection import slow

A2C, REINFORCE = {"algorithm.name": "a2c"}, {"algorithm.name": "reinforce"}
TWO = {
    "policies": {"pol1": PPOConfig(lr=3e-4), "pol2": PPOConfig(lr=4e-4)},
    "policy_mapping": {"agent1": "pol1", "agent2": "pol2"},
    "num_envs": 16,
}


def trained(env, env_steps, learning, seed=0, **settings):
    trainer = Trainer(env, seed=seed, **settings)
    if not learning:
        for learner in trainer.learners.values():
            learner.cfg = learner.cfg.replace(lr=1e-12)
    return trainer, trainer.train(stop={"env_steps": env_steps})


@pytest.mark.parametrize(("learning", "solved"), [(True, True), (False, False)])
def test_cartpole_is_nearly_solved_in_30000_steps(learning, solved):
    # a third of the way, at full learning rate, one seed in five is below: hence the middle one of three
    seeds = range(3 if learning else 1)
    env_steps = 30_000 if learning else 10_000
    trainers = [trained("CartPole-v1", env_steps, learning, seed, preset="auto")[0] for seed in seeds]
    assert (median(trainer.evaluate(20).return_mean for trainer in trainers) >= 300) == solved


@pytest.mark.slow
@pytest.mark.parametrize(("learning", "solved"), [(True, True), (False, False)])
def test_a2c_keeps_the_pole_up_three_times_as_long_after_60000_steps(learning, solved):
    _, result = trained("CartPole-v1", 60_000 if learning else 20_000, learning, preset="auto", config=A2C)
    assert (result.return_mean >= 65) == solved  # untrained: about 22


@pytest.mark.parametrize(("learning", "solved"), [(True, True), slow(False, False)])
@pytest.mark.parametrize(("algorithm", "env_steps"), [slow("impala", 60_000), ("appo", 30_000)])
def test_impala_and_appo_keep_the_pole_up_four_times_as_long_by_older_weights(algorithm, env_steps, learning, solved):
    config = {"algorithm.name": algorithm, "sampling.staleness": 1}
    _, result = trained("CartPole-v1", env_steps if learning else 20_000, learning, preset="auto", config=config)
    assert (result.return_mean >= 95) == solved  # untrained: about 22; learned, by five seeds: 120 to 204


@pytest.mark.slow
@pytest.mark.parametrize(("learning", "solved"), [(True, True), (False, False)])
def test_reinforce_keeps_the_pole_up_six_times_as_long_after_40000_steps(learning, solved):
    _, result = trained("CartPole-v1", 40_000 if learning else 20_000, learning, preset="auto", config=REINFORCE)
    assert (result.return_mean >= 130) == solved  # untrained: about 22


@pytest.mark.parametrize(("learning", "solved"), [(True, True), slow(False, False)])
def test_pendulum_swings_up_after_41000_steps(learning, solved):
    trainer, _ = trained("Pendulum-v1", 41_000 if learning else 8_000, learning, preset="auto")
    assert (trainer.evaluate(20).return_mean >= -400) == solved


@pytest.mark.parametrize(
    ("signals", "env_steps", "found"), [({"count": {}}, 60_000, True), slow({"curiosity": {}}, 150_000, True),
                                        ({}, 60_000, False), slow({}, 150_000, False)],
)  # fmt: skip
def test_signals_find_a_goal_that_is_not_found_without(signals, env_steps, found):
    config = {"algorithm.signals.rnd": None, **{f"algorithm.signals.{name}": more for name, more in signals.items()}}
    _, result = trained("KeyDoor", env_steps, True, preset="auto", config=config)  # at random: 1 in 27,000 episodes
    assert result.return_mean >= 0.9 if found else result.return_mean < 0.1


@pytest.mark.slow
@pytest.mark.parametrize(("learning", "solved"), [(True, True), (False, False)])
def test_minigrid_goal_is_found_straight_after_16000_steps(learning, solved):
    trainer, _ = trained("MiniGrid-Empty-5x5-v0", 16_000 if learning else 4_000, learning, preset="auto")
    assert (trainer.evaluate(20).return_mean >= 0.8) == solved


@pytest.mark.slow
@pytest.mark.parametrize(("learning", "solved"), [(True, True), (False, False)])
def test_minigrid_door_is_opened_with_its_key_after_100000_steps(learning, solved):
    trainer, _ = trained("MiniGrid-DoorKey-5x5-v0", 100_000 if learning else 4_000, learning, preset="auto")
    assert (trainer.evaluate(100).return_mean >= 0.8) == solved


@pytest.mark.parametrize(("learning", "solved"), [(True, True), slow(False, False)])
def test_two_policies_in_the_arena_gain_15_points_in_40000_steps(learning, solved):
    _, result = trained(MultiAgentArena, 40_000 if learning else 20_000, learning, **TWO)
    assert (result.return_mean >= 5) == solved  # untrained: about -10


@pytest.mark.slow
@pytest.mark.parametrize(("learning", "solved"), [(True, True), (False, False)])
def test_one_shared_policy_in_the_arena_gains_15_points_in_40000_steps(learning, solved):
    _, result = trained(MultiAgentArena, 40_000 if learning else 20_000, learning, algorithm=PPOConfig(), num_envs=16)
    assert (result.return_mean >= 5) == solved
