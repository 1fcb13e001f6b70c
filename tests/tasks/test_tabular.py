"""Tasks that play by tables: single copies, twins that play them to the last bit, states, pictures."""

import functools

import numpy as np
import pytest

from rookery import PPOConfig, Trainer
from rookery.core.errors import EnvError
from rookery.core.io.encoding import decode, encode
from rookery.envs.adapters.bundled import OURS
from rookery.envs.adapters.snapshot import can_capture, capture, restore
from rookery.envs.base import VectorEnv
from rookery.envs.check import check_env
from rookery.envs.make import make_env
from rookery.envs.vector.serial import SerialEnv
from rookery.tasks.deep_sea import DeepSea
from rookery.tasks.key_door import KeyDoor
from selection import slow

TASKS = {
    "sea": (DeepSea, {}),
    "small sea": (DeepSea, {"size": 2}),
    "plain sea": (DeepSea, {"size": 4, "randomize_actions": False}),
    "house": (KeyDoor, {"max_steps": 30}),
    "small house": (KeyDoor, {"size": 3, "max_steps": 40}),
}


def plan(lane, episode):
    return (lane * 7919 + episode * 104729 + 13) % 2**31


@pytest.mark.parametrize("name", TASKS)
def test_the_batched_twin_is_bit_equal(name):
    task, settings = TASKS[name]
    batched = make_env(task, settings, (), 5, "auto")
    assert isinstance(batched, VectorEnv) and not isinstance(batched, SerialEnv) and batched.exact
    rows = batched.reset(plan).rows[0]
    single = [task(**settings) for _ in range(5)]
    obs = [env.reset(seed=plan(lane, 0))[0] for lane, env in enumerate(single)]
    episode, rng, earned = [0] * 5, np.random.default_rng(0), 0.0
    for step in range(400):
        assert rows.obs["obs"].tolist() == np.array(obs).tolist()
        if step % 37 == 0:
            assert np.array_equal(batched.render(4), single[4].render())
        actions = rng.integers(0, batched.kinds[0].action.sizes[0], 5)
        shown, final = batched.step((actions,)), {}
        for lane, env in enumerate(single):
            obs[lane], reward, terminated, truncated, _ = env.step(int(actions[lane]))
            earned += reward > 0
            assert (reward, terminated, truncated) == (rows.reward[lane], rows.terminated[lane], rows.truncated[lane])
            assert shown.ended[lane] == (terminated or truncated)
            if truncated and not terminated:
                final[lane] = obs[lane]
            if terminated or truncated:
                episode[lane] += 1
                obs[lane], _ = env.reset(seed=plan(lane, episode[lane]))
        assert shown.any_end == shown.ended.any()
        assert rows.final_index.tolist() == list(final)
        assert rows.final_obs["obs"].tolist() == [np.asarray(last).tolist() for last in final.values()]
        assert batched.episode.tolist() == episode
    assert min(episode) >= 5 and (earned > 0) == (name not in ("sea", "house"))


@pytest.mark.parametrize("name", ["sea", "house"])
def test_a_saved_twin_goes_on_as_if_nothing_had_happened(name):
    task, settings = TASKS[name]
    one, other = (make_env(task, settings, (), 4, "batched") for _ in range(2))
    rng = np.random.default_rng(0)
    one.reset(plan)
    for _ in range(23):
        one.step((rng.integers(0, 2, 4),))
    other.reset(lambda lane, episode: 5)
    shown, lost = other.load_state_dict(decode(*encode(one.state_dict())), plan)
    assert not lost.any() and shown.rows[0].waiting.all()
    for step in range(60):
        assert step % 30 or np.array_equal(one.render(2), other.render(2))
        actions = rng.integers(0, 2, 4)
        expected, found = one.step((actions,)).rows[0], other.step((actions,)).rows[0]
        for field in ("reward", "terminated", "truncated"):
            assert np.array_equal(getattr(expected, field), getattr(found, field))
        assert np.array_equal(expected.obs["obs"], found.obs["obs"])


@pytest.mark.parametrize("name", ["DeepSea", "KeyDoor"])
def test_a_saved_twin_of_other_settings_is_refused(name):
    state = make_env(name, {"size": 5}, (), 2, "batched").state_dict()
    with pytest.raises(EnvError, match="another environment"):
        make_env(name, {"size": 6}, (), 2, "batched").load_state_dict(state, plan)


@pytest.mark.parametrize("make", [functools.partial(task, **settings) for task, settings in TASKS.values()])
def test_a_copy_put_back_where_another_was_goes_on_like_it(make):
    one, other = make(), make()
    assert can_capture(one)
    rng = np.random.default_rng(0)
    one.reset(seed=1)
    other.reset(seed=2)
    for _ in range(30):
        if any(one.step(int(rng.integers(2)))[2:4]):
            one.reset()
    restore(other, decode(*encode(capture(one))))
    for _ in range(100):
        assert np.array_equal(one.render(), other.render())
        action = int(rng.integers(2))
        (obs, *outcome), (obs_again, *outcome_again) = one.step(action), other.step(action)
        assert np.array_equal(obs, obs_again) and outcome == outcome_again
        if any(outcome[1:3]):
            assert np.array_equal(one.reset()[0], other.reset()[0])


@pytest.mark.parametrize("name", ["DeepSea", "KeyDoor"])
def test_each_is_known_by_its_name_and_keeps_the_contract(name):
    assert OURS[name].endswith(f":{name}")
    errors = [one for one in check_env(name, {}, (), episodes=3, max_steps=600, seed=0) if one.severity == "error"]
    assert not errors
    assert make_env(name, None, (), 2, "auto").name.endswith("batched")


@pytest.mark.parametrize("name", ["DeepSea", "KeyDoor"])
def test_each_draws_pictures_with_even_sides_that_change(name):
    env = make_env(name, None, (), 1, "serial", render=True)
    env.reset(plan)
    first = env.render(0)
    assert first.dtype == np.uint8 and first.shape[0] % 2 == 0 and first.shape[1] % 2 == 0
    for _ in range(3):
        env.step([np.full(1, 1)])
    assert env.render(0).shape == first.shape and not np.array_equal(env.render(0), first)


def test_a_house_is_drawn_with_the_key_or_with_an_open_door():
    env = KeyDoor()
    assert env.render() is None
    env.reset()
    pictures = [env.render()]
    for _ in range(8):
        env.step(2)
    env.step(0)
    pictures.append(env.render())
    door = [picture[20:68, 20 + 4 * 48 : 20 + 5 * 48] for picture in pictures]
    assert not np.array_equal(*door)


@pytest.mark.parametrize("make", [DeepSea, KeyDoor])
def test_a_step_without_an_episode_and_a_wrong_action_are_errors(make):
    env = make()
    with pytest.raises(EnvError, match=r"no episode is under way; call reset\(\) first"):
        env.step(0)
    env.reset(seed=0)
    with pytest.raises(EnvError, match=r"step 0: action 4 is not in Discrete"):
        env.step(4)
    while not any(env.step(0)[2:4]):
        pass
    with pytest.raises(EnvError, match="no episode is under way"):
        env.step(0)


@pytest.mark.parametrize("name", [slow("DeepSea"), "KeyDoor"])
def test_a_run_with_signals_goes_on_to_the_same_weights(name, tmp_path):
    signals = {"rnd": {"share": 0.5}, "curiosity": {}, "count": {}}
    cfg = PPOConfig(signals=signals, fragment_length=20, epochs=2, minibatch_size=64)

    def trained(iterations):
        with Trainer(name, cfg, num_envs=4, seed=3, run_dir=tmp_path / str(iterations)) as trainer:
            trainer.train(stop={"iterations": iterations})
            return trainer.save(), capture_weights(trainer)

    def capture_weights(trainer):
        return {key: value.clone() for key, value in trainer.learners["main"].net.state_dict().items()}

    _, whole = trained(5)
    checkpoint, _ = trained(3)
    with Trainer.load(checkpoint) as again:
        again.train(stop={"iterations": 5})
        found = capture_weights(again)
    assert whole.keys() == found.keys() and all(bool((whole[key] == found[key]).all()) for key in whole)
