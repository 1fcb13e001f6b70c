"""Tensor environments as rows: all code that plays a `VectorEnv` plays them, and mistakes raise clear errors."""

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

import small_tensor_envs
from messages import check_error
from rookery import (
    Callback,
    DQNConfig,
    EntitySet,
    EnvError,
    PPOConfig,
    SACConfig,
    TensorEnv,
    TensorStep,
    Trainer,
)
from rookery.envs.make import env_name, is_vector, make_env
from rookery.tensor_envs.rows import TensorRows
from small_tensor_envs import Everything, Forgetting, Measuring, Reaching, Ticking, made_by_a_function

SMALL = PPOConfig(fragment_length=8, epochs=1, minibatch_size=32, model={"hidden": (8,)})


def rows_of(env, lanes=3, **config):
    return make_env(env, config, (), lanes, "auto")


def plan(lane, episode):
    return 100 * lane + episode


def test_rows_show_what_tensors_do():
    env, tensors = rows_of(Ticking), Ticking(3)
    shown = env.reset(plan)
    assert np.array_equal(shown.rows[0].obs["obs"], tensors.reset(plan(0, 0)).numpy())
    ended = np.zeros(3, int)
    for t in range(30):
        action = np.array([t % 3, 0, (t + 1) % 3])
        step, (rows,) = tensors.step(torch.from_numpy(action)), (shown := env.step([action])).rows
        assert np.array_equal(rows.obs["obs"], step.obs.numpy())
        assert np.array_equal(rows.reward, step.reward.numpy().astype(np.float64))
        assert np.array_equal(rows.terminated, step.terminated.numpy())
        assert np.array_equal(rows.truncated, step.truncated.numpy())
        cut = (step.truncated & ~step.terminated).numpy()
        assert rows.final_index.tolist() == np.flatnonzero(cut).tolist()
        assert np.array_equal(rows.final_obs["obs"], step.final_obs.numpy()[cut])
        ended += shown.ended
        assert env.episode.tolist() == ended.tolist()
        assert rows.waiting.all()
    assert ended.min() > 0


def test_observations_of_all_kinds_are_laid_out_as_those_of_arrays():
    env = rows_of(Everything)
    (rows,) = env.reset(plan).rows
    (kind,) = env.kinds
    assert [leaf.path for leaf in kind.obs.leaves][-1] == "action_mask"
    place = env.tensors.place.numpy()
    assert rows.obs["place"].tolist() == place.tolist()
    assert rows.obs["many"].tolist() == [[one % 2, one] for one in place.tolist()]
    assert rows.obs["inside/bytes"].dtype == np.uint8
    assert rows.obs["action_mask"].dtype == bool
    for leaf in kind.obs.leaves:
        assert rows.obs[leaf.path].shape == (3, *leaf.shape)
        assert rows.obs[leaf.path].dtype == leaf.dtype


@pytest.mark.parametrize("env", [Ticking, Reaching, Everything])
def test_a_state_goes_on_in_another_environment_to_the_bit(env):
    one, other = rows_of(env), rows_of(env)
    shown = one.reset(plan)
    rng = np.random.default_rng(0)

    def action():
        return rng.uniform(-1, 1, (3, 2)).astype(np.float32) if env is Reaching else rng.integers(0, 1, 3)

    for _ in range(5):
        shown = one.step([action()])
    again, lost = other.load_state_dict(one.state_dict(), plan)
    assert not lost.any()
    assert other.exact
    for _ in range(12):
        for path, array in shown.rows[0].obs.items():
            assert np.array_equal(array, again.rows[0].obs[path])
        assert np.array_equal(one.episode, other.episode)
        given = action()
        shown, again = one.step([given]), other.step([given])


def test_an_environment_that_cannot_be_saved_begins_new_episodes_and_says_so():
    env = rows_of(Forgetting)
    assert not env.exact
    assert env.notes == (
        "Forgetting: it names nothing in `saved`, so a resumed run begins new episodes (exact: false)",
    )
    env.reset(plan)
    env.step([np.zeros(3, int)])
    shown, lost = env.load_state_dict(env.state_dict(), plan)
    assert lost.all()
    assert env.episode.tolist() == [1, 1, 1]
    assert shown.rows[0].obs["obs"][:, 1].tolist() == [0, 0, 0]


def test_a_state_of_something_else_is_refused():
    env, other = rows_of(Ticking), rows_of(Ticking, lanes=4)
    env.reset(plan)
    with pytest.raises(EnvError, match="Ticking: the saved state is of another environment, or of other settings"):
        other.load_state_dict(env.state_dict(), plan)
    everything = rows_of(Everything)
    state = env.state_dict()
    with pytest.raises(EnvError, match=r"Everything: the saved state has \['generator', 'start', 'ticks'\]"):
        everything.load_state_dict(state, plan)


def test_they_are_named_by_class_path_and_function_and_told_their_device():
    assert isinstance(rows_of("small_tensor_envs:Ticking", limit=5), TensorRows)
    assert is_vector("small_tensor_envs:Ticking")
    made = rows_of(made_by_a_function)
    assert (made.name, made.tensors.limit) == (env_name(made_by_a_function), 7)
    assert rows_of("small_tensor_envs:made_by_a_function").tensors.limit == 7

    class Placed(Ticking):
        def __init__(self, num_envs, device="nowhere"):
            self.told = device
            super().__init__(num_envs)

    assert make_env(Placed, {}, (), 2, "auto", device="cuda").tensors.told == "cuda"
    assert make_env(Placed, {"device": "cpu"}, (), 2, "auto", device="cuda").tensors.told == "cpu"
    assert make_env(Placed, {}, (), 2, "auto").tensors.told == "nowhere"
    with Trainer(Placed, SMALL, num_envs=2) as trainer:
        assert trainer.env.tensors.told == "cpu"


def test_a_run_evaluates_records_and_reports(tmp_path, capsys):
    with Trainer("TensorCartPole", SMALL, num_envs=4, seed=0, run_dir=tmp_path / "run") as trainer:
        trainer.train(stop={"env_steps": 64})
        assert trainer.evaluate(3).episodes == 3
        trainer.record(tmp_path / "film.webp", max_frames=5)
        assert (tmp_path / "film.webp").stat().st_size > 1000
    with pytest.raises(EnvError, match="Ticking renders no images"), Trainer(Ticking, SMALL, num_envs=4) as trainer:
        trainer.record(tmp_path / "other.webp")


def test_numbers_that_an_environment_reports_are_read_once_an_iteration(monkeypatch):
    asked = []
    numbers = Measuring.numbers
    monkeypatch.setattr(Measuring, "numbers", lambda self: asked.append(1) or numbers(self))
    with Trainer(Measuring, SMALL, num_envs=4, seed=0) as trainer:
        for iteration in range(1, 3):
            result = trainer.train_iteration()
            assert len(asked) == iteration
            ticks = trainer.env.tensors.ticks
            assert result.reported == {
                "ticks": ("most_recent", [pytest.approx(float(ticks.float().mean()))]),
                "oldest": ("most_recent", [float(ticks.max())]),
            }
    monkeypatch.setattr(Measuring, "numbers", lambda self: {"ticks": self.ticks})
    with Trainer(Measuring, SMALL, num_envs=4, seed=0) as trainer, pytest.raises(EnvError) as caught:
        trainer.train_iteration()
    assert str(caught.value) == "Measuring: numbers() returned 'ticks' of shape (4,), expected a tensor of one number"


class Steps(Callback):
    def __init__(self):
        self.seen = 0

    def on_episode_step(self, episode):
        self.seen += 1


@pytest.mark.parametrize("algorithm", [SMALL, DQNConfig(learning_starts=32, batch_size=8, model={"hidden": (8,)})])
def test_callbacks_hear_of_steps(algorithm):
    steps = Steps()
    with Trainer(Ticking, algorithm, num_envs=4, seed=0, iteration_steps=40, callbacks=[steps]) as trainer:
        trainer.train_iteration()
    assert steps.seen == 40


def test_numbers_are_learned_by_sac():
    cfg = SACConfig(learning_starts=32, batch_size=8, model={"hidden": (8,)})
    with Trainer(Reaching, cfg, num_envs=4, seed=0, iteration_steps=48) as trainer:
        result = trainer.train_iteration()
    assert result.policies["main"].gradient_steps > 0


# --- mistakes -------------------------------------------------------------------------------------------------------


def wrong(parts=lambda step: step, **changes):
    """An environment whose steps, or first observations, are changed."""

    class Wrong(Ticking):
        def step(self, actions):
            return parts(super().step(actions)._replace(**{key: f(self) for key, f in changes.items()}))

    return Wrong


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (
            wrong(obs=lambda env: env.shown[:, :2]),
            "obs of step() has shape (3, 2), expected (3, 3): one row for each of 3 environments",
        ),
        (
            wrong(reward=lambda env: torch.zeros(3, 1)),
            "reward of step() has shape (3, 1), expected (3,): one row for each of 3 environments",
        ),
        (
            wrong(reward=lambda env: torch.zeros(3, dtype=torch.float64)),
            "reward of step() is of float64, expected float32; write .to(torch.float32)",
        ),
        (
            wrong(obs=lambda env: env.shown.double()),
            "obs of step() is of float64, expected float32; write .to(torch.float32)",
        ),
        (
            wrong(terminated=lambda env: torch.zeros(3)),
            "terminated of step() is of float32, expected bool; write .to(torch.bool)",
        ),
        (
            wrong(truncated=lambda env: torch.zeros(3, device="meta", dtype=torch.bool)),
            "truncated of step() is on meta, expected cpu, the environment's device; make every tensor with "
            "device=self.device",
        ),
        (
            wrong(obs=lambda env: env.shown.to("meta")),
            "obs of step() is on meta, expected cpu, the environment's device; make every tensor with "
            "device=self.device",
        ),
        (wrong(reward=lambda env: np.zeros(3)), "reward of step() is ndarray, expected a tensor on cpu"),
        (
            wrong(final_obs=lambda env: None),
            "final_obs of step() is None, expected a tensor (3, 3) of float32: the observations before the next "
            "episodes began; an environment that never truncates returns obs again",
        ),
        (
            wrong(final_obs=lambda env: env.last[:1]),
            "final_obs of step() has shape (1, 3), expected (3, 3): one row for each of 3 environments",
        ),
        (
            wrong(lambda step: tuple(step)[:4]),
            "step() returned 4 values, expected obs, reward, terminated, truncated, final_obs; final_obs, the "
            "observations before the next episodes began, is missing",
        ),
        (
            wrong(lambda step: (*step[:4], {})),
            "step() returned 5 values, the last of them infos, expected obs, reward, terminated, truncated, final_obs",
        ),
        (
            wrong(lambda step: step.obs),
            "step() returned Tensor, expected obs, reward, terminated, truncated, final_obs",
        ),
    ],
)
def test_what_a_step_gives_in_another_form_is_told(env, message):
    rows = rows_of(env)
    rows.reset(plan)
    with pytest.raises(EnvError) as caught:
        rows.step([np.zeros(3, int)])
    assert str(caught.value) == f"Wrong: {message}"


class Unreset(Ticking):
    def reset(self, seed):
        super().reset(seed)


class Partly(Everything):
    def show(self):
        shown = super().show()
        del shown["inside"]["bytes"]
        return shown


class Spaces(Ticking):
    def __init__(self, num_envs, what):
        super().__init__(num_envs)
        if what == "sets":
            self.single_observation_space = EntitySet(spaces.Box(-1.0, 1.0, (2,)), 4)
        elif what == "composite":
            self.single_action_space = spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Box(-1.0, 1.0, (1,))})
        else:
            self.single_action_space = spaces.Text(3)


class Outside(Everything):
    def show(self):
        shown = super().show()
        shown["place"][1] = 9
        return shown


def test_steps_before_a_reset_and_actions_of_another_shape_are_refused():
    env = rows_of(Ticking)
    with pytest.raises(EnvError, match=r"Ticking: step\(\) before reset\(seeds\)"):
        env.step([np.zeros(3, int)])
    env.reset(plan)
    with pytest.raises(EnvError, match=r"Ticking: step\(\) got actions of shape \(2,\), expected \(3,\)"):
        env.step([np.zeros(2, int)])


def test_what_an_environment_raises_is_told_with_its_own_traceback():
    env = rows_of(small_tensor_envs.Broken, mistake="raises")
    env.reset(plan)
    for _ in range(4):
        env.step([np.zeros(3, int)])
    with pytest.raises(EnvError, match="Broken: vector step 4: raised ValueError: the wheel is off") as caught:
        env.step([np.zeros(3, int)])
    assert isinstance(caught.value.__cause__, ValueError)


def test_a_gymnasium_vector_environment_that_a_function_makes_is_one_still():
    def made(num_envs):
        return gymnasium.make_vec("CartPole-v1", num_envs, vectorization_mode="vector_entry_point")

    assert type(rows_of(made)).__name__ == "ForeignEnv"
    with pytest.raises(EnvError, match=r"makes list, expected a gymnasium\.vector\.VectorEnv"):
        rows_of(lambda num_envs: [])


def test_names_are_public():
    assert issubclass(Ticking, TensorEnv)
    assert TensorStep._fields == ("obs", "reward", "terminated", "truncated", "final_obs")


LESSONS = {"curriculum.wind.lessons": [{"value": 1.0, "until": {"measure": "return", "threshold": 1.0}}, 2.0]}


def ticking(config=None, wrappers=(), implementation="auto", env=Ticking):
    return make_env(env, config or {}, wrappers, 2, implementation)


def trained(config):
    return Trainer(Ticking, SMALL, num_envs=2, config=config)


MISTAKES = [
    (
        lambda: ticking(wrappers=[lambda env: env]),
        "EnvError: Ticking plays many environments at once and cannot be wrapped",
    ),
    (
        lambda: ticking(implementation="processes"),
        "EnvError: plays many environments at once: env.implementation=processes",
    ),
    (lambda: ticking({"limt": 3}), "EnvError: Ticking: env.config has 'limt', unknown to it; did you mean 'limit'"),
    (
        lambda: ticking(env=lambda num_envs: Ticking(3)),
        "EnvError: env makes 3 environments where num_envs=2 were asked for",
    ),
    (lambda: trained({"env.parameters.wind": 3.0}), "ConfigError: Ticking has no parameters"),
    (lambda: trained(LESSONS), "ConfigError: wind"),
    (lambda: rows_of(Spaces, what="sets"), "EnvError: Spaces: sets of entities (Sequence) cannot be given as tensors"),
    (lambda: rows_of(Spaces, what="composite"), "EnvError: actions of Dict( ... cannot be given as one tensor; use"),
    (lambda: rows_of(Spaces, what="text"), "EnvError: Spaces: action space Text( ... use Discrete"),
    (lambda: rows_of(Unreset).reset(plan), "EnvError: what reset() returned is None, expected a tensor (3, 3) of"),
    (lambda: rows_of(Partly).reset(plan), "EnvError: what reset() returned: inside/bytes: missing from the"),
    (
        lambda: rows_of(Outside).reset(plan),
        "EnvError: environment 1, vector step 0: place: category 9 is outside the space",
    ),
    (
        lambda: rows_of(Everything)._contract.obs(None, "obs"),
        "EnvError: Everything: obs is None, expected tensors by central, flags, inside/bytes, ins",
    ),
]


@pytest.mark.parametrize(("make", "expected"), MISTAKES)
def test_what_cannot_be_had_is_refused_in_words(make, expected):
    check_error(expected, make)
