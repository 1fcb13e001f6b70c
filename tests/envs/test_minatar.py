"""MinAtar's games: named by their ids, flags as bytes, episodes that depend on nothing but seed and actions."""

import copy
import sys

import gymnasium
import numpy as np
import pytest

from rookery import EnvError, Trainer
from rookery.envs.make import make_env

FRAMES = 300


def seeds(lane: int, episode: int) -> int:
    """The seed of a lane's episode."""
    return 100 * lane + episode


def played(env: gymnasium.Env, seed: int, actions: np.ndarray) -> list[tuple[bytes, float, bool]]:
    """Returns observations and rewards of a game until it ends."""
    seen = [(env.reset(seed=seed)[0].tobytes(), 0.0, False)]
    for action in actions:
        obs, reward, terminated, truncated, _ = env.step(action)
        assert env.observation_space.contains(obs)
        assert not truncated
        seen.append((obs.tobytes(), reward, terminated))
        if terminated:
            break
    return seen


@pytest.mark.parametrize("game", ["asterix", "breakout", "freeway", "seaquest", "space_invaders"])
def test_an_episode_depends_on_its_seed_and_its_actions_and_not_on_the_one_before(game):
    pytest.importorskip("minatar")
    from rookery.envs.adapters.minatar import MinAtar

    actions = np.random.default_rng(3).integers(6, size=FRAMES)
    fresh, used = MinAtar(game, False), MinAtar(game, False)
    for seed in range(5):
        played(used, seed, actions[::-1])
    for seed in range(5, 10):
        assert played(used, seed, actions) == played(MinAtar(game, False), seed, actions)
    assert played(fresh, 5, actions) != played(fresh, 6, actions)


def test_it_plays_the_game_of_minatar():
    minatar = pytest.importorskip("minatar")
    from rookery.envs.adapters.minatar import MinAtar

    ours, theirs = MinAtar("breakout", True, sticky_action_prob=0.0), minatar.Environment("breakout", 0.0)
    obs, _ = ours.reset(seed=0)
    theirs.seed(0)
    theirs.reset()
    while not np.array_equal(obs, theirs.state()):  # the ball starts on the left or on the right
        theirs.reset()
    for action in np.random.default_rng(3).integers(3, size=FRAMES):
        obs, reward, terminated, _, _ = ours.step(action)
        assert (reward, terminated) == theirs.act(theirs.minimal_action_set()[action])
        assert np.array_equal(obs, theirs.state())
        if terminated:
            break
    assert terminated


@pytest.mark.parametrize("game", ["Asterix", "Breakout", "Seaquest"])
def test_a_game_under_way_is_taken_up_where_it_was(game):
    pytest.importorskip("minatar")
    one, other = (make_env(f"MinAtar/{game}-v1", None, [], 3, "serial") for _ in range(2))
    actions = np.random.default_rng(3).integers(one.kinds[0].action.sizes[0], size=(120, 3))
    one.reset(seeds)
    for row in actions[:60]:
        one.step([row])
    _, lost = other.load_state_dict(copy.deepcopy(one.state_dict()), seeds)
    assert not lost.any()
    for row in actions[60:]:
        mine, again = one.step([row]).rows[0], other.step([row]).rows[0]
        assert np.array_equal(mine.obs["obs"], again.obs["obs"])
        assert np.array_equal(mine.reward, again.reward)
        assert np.array_equal(mine.terminated, again.terminated)


def test_its_ids_are_known_with_few_or_all_actions_and_pictures_of_bytes():
    pytest.importorskip("minatar")
    for name, actions in (("MinAtar/Breakout-v1", 3), ("MinAtar/Breakout-v0", 6), ("MinAtar/SpaceInvaders-v1", 4)):
        env = make_env(name, {"sticky_action_prob": 0.0}, [], 2, "auto")
        leaf = env.kinds[0].obs.leaves[0]
        assert leaf.is_image
        assert leaf.shape[:2] == (10, 10)
        assert env.kinds[0].action.sizes == (actions,)
        env.close()


def test_a_film_shows_each_cell_in_colour():
    pytest.importorskip("minatar")
    env = gymnasium.make("rookery.envs.adapters.minatar:MinAtar/Breakout-v1", render_mode="rgb_array")
    env.reset(seed=3)
    env.step(0)
    env.step(0)  # the ball has left the bricks
    picture = env.render()
    assert picture.shape == (160, 160, 3)
    assert not picture[0, 0].any()
    colours = {tuple(cell) for cell in picture[::16, ::16].reshape(-1, 3).tolist()}
    assert len(colours) == 5  # nothing, paddle, ball, where that was, brick


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["pqn", "dqn", "ppo"])
def test_its_pictures_are_learned_from(algorithm):
    pytest.importorskip("minatar")
    config = {
        "algorithm.name": algorithm,
        "sampling.num_envs": 4,
        **({"algorithm.learning_starts": 100} if algorithm == "dqn" else {}),
    }
    with Trainer("MinAtar/Breakout-v1", config=config, preset="auto", seed=3) as trainer:
        before = [weight.clone() for weight in trainer.learners["main"].policy.parameters()]
        assert len(trainer.learners["main"].policy.trunk.images) == 1
        trainer.train({"env_steps": 600})
        after = trainer.learners["main"].policy.parameters()
        assert any(not old.equal(new) for old, new in zip(before, after, strict=True))


def test_a_missing_package_is_named(monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "minatar"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "minatar", None)
    monkeypatch.delitem(sys.modules, "rookery.envs.adapters.minatar", raising=False)
    for name in [name for name in gymnasium.registry if name.startswith("MinAtar/")]:
        monkeypatch.delitem(gymnasium.registry, name)
    with pytest.raises(EnvError, match=r"'MinAtar/Breakout-v1' needs the package minatar: pip install minatar"):
        make_env("MinAtar/Breakout-v1", None, [], 1, "serial")
