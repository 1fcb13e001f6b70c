"""Many steps in one call: the bits of step after step, and step after step where that is needed."""

from __future__ import annotations

import hashlib

import pytest

from rookery import Callback, DQNConfig, MultiAgentArena, PPOConfig, SACConfig, Trainer
from rookery.core.errors import EnvError
from rookery.core.native import best_build
from rookery.envs.native.c_playing import fragment_player

pytestmark = pytest.mark.skipif(best_build() is None or fragment_player() is None, reason="nothing was compiled here")

PPO = PPOConfig(fragment_length=32, epochs=2, minibatch_size=64, model={"hidden": (16,)})
NORMALIZED = PPO.replace(model={"hidden": (16,), "normalize_obs": True})
DQN = DQNConfig(learning_starts=64, train_every=4, batch_size=16, model={"hidden": (16,)})
SAC = SACConfig(learning_starts=64, train_every=8, batch_size=16, model={"hidden": (16,)})


def state_of(trainer):
    """A hash of all weights and statistics."""
    found = hashlib.sha256()
    for _, policy in sorted(trainer.policies.items()):
        for tensor in [*policy.parameters(), *policy.buffers()]:
            found.update(tensor.detach().numpy().tobytes())
    return found.hexdigest()


def played(env, algorithm, at_once, iterations=3, **more):
    """Returns the result of a run, and its number of calls for many steps."""
    with Trainer(env, algorithm, seed=3, **{"num_envs": 6, **more}) as trainer:
        worker = trainer._pool.worker
        if not at_once:
            assert worker.fast_loop is not None
            worker.fast_loop = None
        for _ in range(iterations):
            result = trainer.train_iteration()
        calls = next((row.count for row in trainer.timers.rows() if row.label == "fragments"), 0)
        main = result.policies["main"]
        told = (result.env_steps, result.episodes, result.return_mean, result.length_mean, main.return_mean)
        return (state_of(trainer), told, result.counters), calls


@pytest.mark.parametrize(
    ("env", "algorithm", "more"),
    [
        ("CartPole-v1", PPO, {}),
        ("CartPole-v1", PPO, {"num_envs": 1}),
        ("CartPole-v1", PPO, {"iteration_steps": 50}),  # ends within fragments
        ("CartPole-v1", PPO.replace(rollout_size=100), {}),
        (
            "CartPole-v1",
            PPO.replace(model={"hidden": (16,), "normalize_obs": True}),
            {"env_config": {"max_episode_steps": 9}},
        ),
        ("CartPole-v1", DQN, {"num_envs": 1, "iteration_steps": 250}),
        (MultiAgentArena, PPO, {}),
        ("StatelessCartPole", PPO, {}),
        ("MountainCarContinuous-v0", PPO, {}),
        ("Pendulum-v1", SAC, {"num_envs": 2, "iteration_steps": 150}),
        ("Pendulum-v1", PPO, {}),
    ],
)
def test_many_steps_in_a_call_are_the_bits_of_step_after_step(env, algorithm, more):
    at_once, calls = played(env, algorithm, True, **more)
    one_by_one, none = played(env, algorithm, False, **more)
    assert at_once == one_by_one
    assert calls > 0 == none


@pytest.mark.parametrize(
    "more",
    [
        {"callbacks": [type("Steps", (Callback,), {"on_episode_step": lambda self, episode: None})()]},
        {"algorithm": PPO.replace(model={"hidden": (16,), "native": False})},
        {"algorithm": PPO.replace(model={"hidden": (16,), "memory": {"kind": "gru"}})},
    ],
)
def test_where_something_is_to_be_done_in_between_steps_are_made_one_by_one(more):
    algorithm = more.pop("algorithm", PPO)
    _, calls = played("CartPole-v1", algorithm, True, iterations=1, **more)
    assert calls == 0


def test_an_environment_whose_steps_need_python_is_stepped_one_by_one():
    with Trainer("Acrobot-v1", PPO, seed=3, num_envs=2) as trainer:  # NumPy shows the beginning of its episodes
        assert trainer._pool.worker.fast_loop is None
        trainer.train_iteration()


def test_a_run_that_goes_on_comes_to_the_same(tmp_path):
    whole, _ = played("CartPole-v1", PPO, True, iterations=4)
    with Trainer("CartPole-v1", PPO, seed=3, num_envs=6, run_dir=tmp_path / "run") as trainer:
        for _ in range(2):
            trainer.train_iteration()
        trainer.save()
    with Trainer.load(tmp_path / "run") as trainer:
        for _ in range(2):
            result = trainer.train_iteration()
        assert state_of(trainer) == whole[0]
        assert result.return_mean == whole[1][2]


def test_lessons_and_drawn_parameters_reach_episodes_that_begin_within_a_call():
    more = {
        "config": {
            "env.parameters": {"length": {"sampler": "uniform", "low": 0.3, "high": 0.7}},
        }
    }
    assert played("CartPole-v1", PPO, True, **more)[0] == played("CartPole-v1", PPO, False, **more)[0]


def test_what_an_environment_does_wrong_within_a_call_is_told_as_ever(tmp_path):
    source = tmp_path / "broken.c"
    source.write_text(BROKEN)
    said = []
    for at_once in (True, False):
        with Trainer(str(source), PPO, seed=3, num_envs=3, sampling={"warmup_steps": 0}) as trainer:
            if not at_once:
                trainer._pool.worker.fast_loop = None
            with pytest.raises(EnvError) as caught:
                trainer.train_iteration()
            said.append(str(caught.value))
    assert said[0] == said[1]
    assert "step 8" in said[0] and "finite" in said[0]


BROKEN = """
#include "rookery_env.h"
static const char *describe(const double *settings, RookeryLayout *layout) {
    layout->num_fields = 1;
    layout->fields[0] = (RookeryField){"steps", ROOKERY_INT64, 1};
    layout->num_leaves = 1;
    layout->leaves[0] =
        (RookerySpace){.name = "obs", .kind = ROOKERY_BOX, .rank = 1, .shape = {2}, .low = -1, .high = 1};
    layout->action = (RookerySpace){.kind = ROOKERY_CHOICES, .categories = 2};
    return NULL;
}
static void observe(const RookeryState *state, int64_t first, int64_t count, const RookeryRows *rows) {
    float *obs = rows->obs[0];
    const int64_t *steps = state->fields[0];
    for (int64_t lane = first; lane < first + count; lane++)
        obs[2 * lane] = obs[2 * lane + 1] = steps[lane] == 8 && lane == 1 ? NAN : 0.5f;
}
static void reset(const RookeryState *state, const int64_t *lanes, int64_t count, const uint64_t *seeds,
                  const double *parameters, const RookeryRows *rows) {
    for (int64_t k = 0; k < count; k++) {
        ((int64_t *)state->fields[0])[lanes[k]] = 0;
        observe(state, lanes[k], 1, rows);
    }
}
static void step(const RookeryState *state, int64_t first, int64_t count, const void *actions,
                 const RookeryRows *rows) {
    for (int64_t lane = first; lane < first + count; lane++) {
        rows->reward[lane] = 1;
        ((int64_t *)state->fields[0])[lane]++;
    }
    observe(state, first, count, rows);
}
ROOKERY_ENV(.name = "broken", .describe = describe, .reset = reset, .step = step, .observe = observe);
"""
