"""Torch's global state as set by a user's program: default type and device, no gradients, inference mode, autocast.
Our results must not depend on it, and the user's code must see its own settings.
"""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import torch
from torch_states import CASES, STATES, arguments_of, data_sets, outcome

from rookery import Callback, ConfigError, EvaluationConfig, PPOConfig, TensorEnv, TensorStep, Trainer
from rookery.algorithms.names import ALGORITHMS
from rookery.core.native import SWITCH, best_build
from rookery.core.process.thread_context import in_this_context
from rookery.core.process.torch_modes import OWN, keep_own, modes_now, own_modes, user_modes_differ, users_modes
from selection import slow_except

QUICK = [
    ("ppo", "none", "float64", True),
    ("ppo", "none", "no_grad", False),
    ("ppo", "lstm", "meta", True),
    ("poca", "none", "float64", False),
    ("a2c", "none", "autocast", False),
    ("dqn", "none", "inference_mode", True),
    ("dqn", "gru", "float64", False),
    ("sac", "none", "meta", False),
    ("dt", "none", "autocast", True),
    ("iql", "none", "float64", True),
]
"""In ``make test``: each state on kernels or without, and what each default type was once left to."""

MATRIX = [(*case, state, native) for case in CASES for state in STATES for native in (True, False)]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return data_sets(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def as_ever(data, tmp_path_factory):
    """Returns the result of a run in a program that has set nothing."""
    known = {}

    def run(algorithm, memory, native):
        key = algorithm, memory, native
        if key not in known:
            folder = tmp_path_factory.mktemp("plain") / "saved"
            known[key] = outcome(arguments_of(algorithm, memory, data), folder)
        return known[key]

    return run


def test_each_algorithm_is_in_the_matrix_and_each_that_may_remember_with_all_memories(data):
    assert {algorithm for algorithm, _ in CASES} == set(ALGORITHMS)
    for algorithm in ALGORITHMS:
        if (algorithm, "gru") not in CASES:
            with pytest.raises(ConfigError, match=r"memory|remember|is linear in the observation"):
                Trainer(**arguments_of(algorithm, "gru", data), console="quiet")


@pytest.mark.regression(
    "wrong result",
    "A run in a program that has set torch's default type or device, no gradients, inference mode or autocast has the "
    "same weights as in one that has not",
)
@pytest.mark.parametrize(("algorithm", "memory", "state", "native"), slow_except(*QUICK, of=MATRIX))
def test_weights_and_answers_are_those_of_a_program_that_has_set_nothing(
    algorithm, memory, state, native, as_ever, data, tmp_path, monkeypatch
):
    if not native:
        monkeypatch.setenv(SWITCH, "0")
    best_build.cache_clear()
    try:
        before = torch.get_default_dtype(), torch.get_default_device(), modes_now(), torch.get_rng_state()
        wanted = as_ever(algorithm, memory, native)
        assert outcome(arguments_of(algorithm, memory, data), tmp_path / "saved", STATES[state]) == wanted
        *after, drawn = torch.get_default_dtype(), torch.get_default_device(), modes_now(), torch.get_rng_state()
        assert after == list(before[:3])
        assert torch.equal(drawn, before[3])  # torch's own generator is the user's
    finally:
        monkeypatch.undo()
        best_build.cache_clear()


# --- whose modes are seen where ---------------------------------------------------------------------------------------


SEEN = []
"""What each part of the user's code has seen: the name of the part, the modes, the default type and device."""


def see(part):
    SEEN.append((part, modes_now(), torch.get_default_dtype(), torch.get_default_device().type))


class Watched(gymnasium.Env):
    """Notes what it sees of torch's state."""

    observation_space = gymnasium.spaces.Box(-1, 1, (3,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    metadata = {"render_modes": ["rgb_array"]}

    def __init__(self, render_mode=None, fails_at=None, sets_grad=None):
        see("environment")
        self.render_mode, self.fails_at, self.sets_grad = render_mode, fails_at, sets_grad

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        see("reset")
        self.t = 0
        return self.np_random.uniform(-1, 1, 3).astype(np.float32), {}

    def step(self, action):
        see("step")
        self.t += 1
        if self.t == self.fails_at:
            raise ValueError("this far")
        if self.sets_grad is not None:
            torch.set_grad_enabled(self.sets_grad)
        return self.np_random.uniform(-1, 1, 3).astype(np.float32), float(action), False, self.t == 7, {}

    def render(self):
        see("render")
        return np.full((8, 8, 3), 100, np.uint8)


class Listening(Callback):
    """Notes what it sees in every moment."""

    def on_train_start(self, trainer):
        see("on_train_start")

    def on_episode_start(self, episode):
        see("on_episode_start")

    def on_episode_step(self, episode):
        see("on_episode_step")

    def on_episode_end(self, episode):
        see("on_episode_end")

    def on_iteration(self, trainer, result):
        see("on_iteration")

    def on_evaluate(self, trainer, evaluation):
        see("on_evaluate")

    def on_checkpoint(self, trainer, path):
        see("on_checkpoint")

    def on_train_end(self, trainer, result):
        see("on_train_end")


SMALL = PPOConfig(fragment_length=8, epochs=1, minibatch_size=16, model={"hidden": (8,)})


def who_plays(agent, episode):
    see("policy_mapping")
    return "main"


@pytest.fixture(autouse=True)
def _nothing_seen():
    SEEN.clear()


WAYS = {
    "serial": {"env.implementation": "serial"},
    "threads": {"env.implementation": "threads", "sampling.env_processes": 1},
    "ahead": {"env.implementation": "serial", "sampling.staleness": 1},
}
"""Where environments are stepped: in the user's thread, or in one of ours."""


@pytest.mark.regression(
    "foreign code",
    "Environments and callbacks run in torch's modes and default device as the program around a training has set them, "
    "also in threads of ours",
)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("state", slow_except("autocast", "inference_mode", of=STATES))
def test_environments_and_callbacks_see_what_the_user_has_set(state, way, tmp_path):
    with STATES[state]():
        see("program")
        wanted = SEEN[0][1:]
        with Trainer(
            Watched,
            SMALL,
            num_envs=2,
            seed=1,
            run_dir=tmp_path / "run",
            callbacks=[Listening()],
            policy_mapping=who_plays,
            evaluation=EvaluationConfig(every=1, episodes=1),
            config=WAYS[way],
            console="quiet",
        ) as trainer:
            trainer.train({"iterations": 2})
            trainer.record(tmp_path / "film.gif")
        see("program")
    assert {seen[1:] for seen in SEEN} == {wanted}
    parts = {seen[0] for seen in SEEN}
    assert parts == {
        "program", "environment", "reset", "step", "render", "policy_mapping", "on_train_start", "on_episode_start",
        "on_episode_step", "on_episode_end", "on_iteration", "on_evaluate", "on_checkpoint", "on_train_end",
    }  # fmt: skip


@pytest.mark.parametrize("state", STATES)
def test_an_error_gives_back_what_the_user_has_set(state):
    with STATES[state]():
        before = modes_now()
        with Trainer(Watched, SMALL, num_envs=1, env_config={"fails_at": 3}, console="quiet") as trainer:
            with pytest.raises(Exception, match="this far"):
                trainer.train_iteration()
            assert modes_now() == before
            with pytest.raises(ConfigError):
                trainer.evaluate(0)
            assert modes_now() == before
        with pytest.raises(ConfigError):
            Trainer(Watched, SMALL, num_envs=0)
        assert modes_now() == before


@pytest.mark.parametrize(("program", "environment"), [(True, False), (False, True)])
def test_what_an_environment_sets_itself_is_kept_for_its_next_step_and_not_for_learning(program, environment):
    def weights(sets_grad):
        config = {"env_config": {"sets_grad": sets_grad}, "num_envs": 1, "seed": 1, "console": "quiet"}
        with torch.set_grad_enabled(program), Trainer(Watched, SMALL, **config) as trainer:
            SEEN.clear()
            trainer.train_iteration()
            assert torch.is_grad_enabled() == (program if sets_grad is None else sets_grad)
        return [value.clone() for value in trainer.policies["main"].parameters()]

    wanted = weights(None)
    found = weights(environment)
    assert [modes.gradients for part, modes, *_ in SEEN if part in ("step", "reset")][2:6] == [environment] * 4
    assert all(map(torch.equal, found, wanted))


class Tensors(TensorEnv):
    """Notes what it sees, in tensors."""

    def __init__(self, num_envs, device="cpu"):
        box = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
        super().__init__(box, gymnasium.spaces.Discrete(2), num_envs, device)

    def reset(self, seed):
        see("reset")
        self.place = torch.zeros(self.num_envs, 2, dtype=torch.float32, device=self.device)
        return self.place

    def step(self, actions):
        see("step")
        self.place = self.place + 0.125 * (actions.unsqueeze(1).to(torch.float32) - 0.5)
        ended = self.place[:, 0].abs() > 0.5
        self.place = self.place.masked_fill(ended.unsqueeze(1), 0.0)
        return TensorStep(self.place, self.place[:, 0], ended, torch.zeros_like(ended), self.place)


@pytest.mark.parametrize("state", slow_except("autocast", "inference_mode", of=STATES))
def test_environments_in_tensors_see_what_the_user_has_set_and_no_gradients(state):
    def weights():
        SEEN.clear()
        with Trainer(Tensors, SMALL, num_envs=4, seed=1, console="quiet") as trainer:
            trainer.train_iteration()
            seen = set(SEEN)
            trainer.train_iteration()
            return seen, [value.clone() for value in trainer.policies["main"].parameters()]

    _, wanted = weights()
    with STATES[state]():
        seen, found = weights()
        mine = modes_now()._replace(gradients=False)
        assert {modes._replace(gradients=False) for _, modes, *_ in seen} == {mine}
        assert {modes.gradients for part, modes, *_ in seen if part == "step"} == {False}
    assert all(map(torch.equal, found, wanted))


# --- the modes themselves ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", STATES)
def test_our_modes_and_the_users_take_turns(state):
    with STATES[state]():
        theirs = modes_now()
        with users_modes():
            assert modes_now() == theirs
        with own_modes():
            assert modes_now() == OWN
            assert user_modes_differ() == (theirs != OWN)
            with own_modes(), torch.no_grad(), users_modes():
                assert modes_now() == theirs
                with own_modes():
                    assert modes_now() == OWN
                with users_modes():
                    assert modes_now() == theirs
            assert modes_now() == OWN
        assert modes_now() == theirs


def test_a_mode_that_the_user_sets_in_between_is_kept():
    with own_modes():
        with users_modes():
            torch.set_grad_enabled(False)
        assert modes_now() == OWN and user_modes_differ()
        torch.set_grad_enabled(False)  # by code of the user's that was called as it is
        keep_own()
        assert modes_now() == OWN
    assert not torch.is_grad_enabled()
    torch.set_grad_enabled(True)


def test_a_thread_takes_over_the_users_modes_and_default_device():
    from threading import Thread

    found = []
    with torch.device("meta"), torch.autocast("cpu", torch.bfloat16), own_modes():
        thread = Thread(target=in_this_context(lambda: found.append((modes_now(), torch.get_default_device().type))))
        thread.start()
        thread.join()
    assert found == [(OWN._replace(autocast=(torch.bfloat16, None)), "meta")]
