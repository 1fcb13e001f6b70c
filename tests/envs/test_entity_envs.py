"""Environments that show sets of entities, through every back end and adapter."""

import numpy as np
import pytest
import torch
from flocks import ENTITY, Flock, plan
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from rookery import EntitySet, ModelConfig, PPOConfig, Trainer, load_policy
from rookery.core.errors import EnvError
from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.envs.check import check_env
from rookery.envs.make import make_env
from rookery.policies.policy import Policy


class Pair:
    """A dict-style environment of two agents with sets of their own sizes."""

    def __init__(self):
        small, large = (spaces.Sequence(spaces.Box(-1, 1, (k,))) for k in (1, 3))
        self.agents = self.possible_agents = ["a", "b"]
        self.observation_spaces = {"a": small, "b": large}
        self.action_spaces = {"a": spaces.Discrete(2), "b": spaces.Discrete(2)}

    def _observe(self):
        return {
            name: tuple(np.full(k, 0.5, np.float32) for _ in range(self.step_ % 3)) for name, k in (("a", 1), ("b", 3))
        }

    def reset(self, seed=None, options=None):
        self.step_ = 0
        return self._observe(), {}

    def step(self, actions):
        self.step_ += 1
        ends = dict.fromkeys(("a", "b", "__all__"), False)
        return self._observe(), {"a": 1.0, "b": 0.0}, ends, dict.fromkeys(ends, self.step_ == 4), {}


def played(env, steps=25):
    """All that a vector env shows, as bytes."""
    shown, seen = env.reset(plan), []
    for step in range(steps):
        rows = shown.rows[0]
        seen += [array.tobytes() for array in (*rows.obs.values(), *rows.final_obs.values(), rows.reward)]
        shown = env.step(((np.arange(env.num_lanes) + step) % 2,))
    env.close()
    return seen


@pytest.mark.parametrize(("implementation", "helpers"), [("processes", 2), ("threads", 2)])
def test_helpers_show_the_sets_that_one_process_shows(implementation, helpers):
    serial = make_env(Flock, {}, (), 4, "serial", max_entities=7)
    helped = make_env(Flock, {}, (), 4, implementation, helpers=helpers, max_entities=7)
    assert serial.kinds == helped.kinds
    assert played(serial) == played(helped)


def test_a_stacked_sequence_is_stored_like_a_tuple():
    loose, stacked = (make_env(Flock, {"stack": stack}, (), 3, "serial", max_entities=7) for stack in (False, True))
    assert {leaf.path: leaf.shape for leaf in loose.kinds[0].obs.leaves} == {"own": (1,), "birds": (7, 1 + 2 + 3)}
    assert played(loose) == played(stacked)


def test_every_entity_arrives_in_its_row_with_ones_in_front():
    env = make_env(Flock, {}, (), 5, "serial", max_entities=9)
    rows = env.reset(plan).rows[0]
    for lane in range(5):
        single = Flock()
        obs, _ = single.reset(seed=plan(lane, 0))
        stored, num = rows.obs["birds"][lane], len(obs["birds"])
        assert stored[:, 0].tolist() == [1.0] * num + [0.0] * (9 - num)
        for row, bird in zip(stored, obs["birds"], strict=False):
            assert row[1:3].tolist() == bird["at"].tolist()
            assert row[3:].argmax() == bird["kind"] - 1
    env.close()


def test_more_entities_than_there_is_room_for_stop_with_lane_number_setting_and_remedy():
    env = make_env(Flock, {}, (), 2, "serial", max_entities=2)
    with pytest.raises(
        EnvError, match=r"birds: \d entities where there is room for 2; set env.max_entities=\d or more"
    ):
        played(env)


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_vector_environments_of_gymnasium_show_their_sets(mode):
    def make(num_envs=3):
        return SyncVectorEnv([Flock] * num_envs, autoreset_mode=mode)

    env = make_env(make, {}, (), 3, "auto", max_entities=7)
    shown, finals = env.reset(plan), 0
    for _ in range(30):
        rows = shown.rows[0]
        np.testing.assert_allclose(rows.obs["birds"][:, :, 0].sum(1), 7 * rows.obs["own"][:, 0], atol=1e-4)
        if len(rows.final_index):
            counts = rows.final_obs["birds"][:, :, 0].sum(1)
            np.testing.assert_allclose(counts, 7 * rows.final_obs["own"][:, 0], atol=1e-4)
            finals += len(rows.final_index)
        shown = env.step((np.zeros(int(rows.waiting.sum()), int),))
    assert finals > 3
    env.close()


def test_agents_have_sets_of_their_own():
    env = make_env(Pair, {}, (), 2, "serial", max_entities=4)
    shown = env.reset(plan)
    for step in range(1, 4):
        shown = env.step([np.zeros(2, int)] * 2)
        for rows, width in zip(shown.rows, (1, 3), strict=True):
            assert rows.obs["obs"].shape == (2, 4, 1 + width)
            assert rows.obs["obs"].sum() == 2 * (step % 3) * (1 + 0.5 * width)
    env.close()


def test_the_check_of_environments_accepts_sets_and_finds_what_is_wrong_in_them():
    def told(**settings):
        found = check_env(Flock, {}, (), episodes=3, max_steps=50, seed=0, **settings)
        return [finding.text for finding in found if finding.severity != "note"]

    assert told(max_entities=7) == []
    assert any("entities where there is room for 3; set env.max_entities" in text for text in told(max_entities=3))
    assert any("a Sequence does not say how many elements" in text for text in told())


class Broken(Flock):
    """A bird flies off the map."""

    def _observe(self):
        obs = super()._observe()
        for bird in obs["birds"]:
            bird["at"][0] = np.nan
        return obs


def test_a_number_of_an_entity_that_is_not_finite_stops_the_run_with_its_place():
    env = make_env(Broken, {}, (), 2, "serial", max_entities=7)
    with pytest.raises(EnvError, match=r"environment \d.*birds: non-finite observation nan"):
        played(env)


def weights_after(iterations, trainer):
    """The weights of the one policy, as bytes."""
    trainer.train(stop={"iterations": iterations})
    return [weight.detach().numpy().tobytes() for weight in trainer.policies["main"].state_dict().values()]


def test_training_on_sets_does_not_depend_on_helpers_and_goes_on_after_a_stop(tmp_path):
    model = ModelConfig(entity_size=8, entity_heads=2, hidden=(8,), normalize_obs=True)
    cfg = PPOConfig(fragment_length=8, epochs=1, model=model)
    settings = {"num_envs": 4, "seed": 0, "max_entities": 7}
    alone = weights_after(3, Trainer(Flock, cfg, **settings))
    with Trainer(
        Flock, cfg, **settings, config={"env.implementation": "processes", "sampling.env_processes": 2}
    ) as helped:
        assert weights_after(3, helped) == alone
    with Trainer(Flock, cfg, **settings, run_dir=tmp_path / "run") as stopped:
        weights_after(1, stopped)
    with Trainer.load(tmp_path / "run", env=Flock) as resumed:
        assert weights_after(3, resumed) == alone


def test_sets_are_not_normalized_and_what_stands_beside_them_is():
    space = spaces.Dict(own=spaces.Box(-9, 9, (2,)), box=spaces.Box(-9, 9, (4, 3)), birds=EntitySet(ENTITY, 4))
    spec, action = obs_spec(space, spaces.Discrete(2)), action_spec(spaces.Discrete(2))
    model = ModelConfig(normalize_obs=True, entities=("box",), entity_size=8)
    policy = Policy(spec, action, model, generator=torch.Generator().manual_seed(0))
    assert policy.normalizer.paths == ("own",)


def test_a_policy_on_sets_is_trained_saved_and_predicts_one_or_a_batch(tmp_path):
    cfg = PPOConfig(fragment_length=8, epochs=1, model=ModelConfig(entity_size=8, entity_heads=2, hidden=(8,)))
    with Trainer(Flock, cfg, num_envs=4, seed=0, run_dir=tmp_path / "run") as trainer:
        trainer.train(stop={"iterations": 2})
        policy = trainer.policies["main"]
        assert policy.obs_spec.leaves[-1].shape == (32, 6)  # env.max_entities, as nothing was said
    env = Flock()
    many = [env.reset(seed=k)[0] for k in range(4)]
    served = load_policy(tmp_path / "run")
    one_by_one = [served.predict(obs) for obs in many]
    batch = {"own": np.stack([obs["own"] for obs in many]), "birds": [obs["birds"] for obs in many]}
    assert served.predict(batch).tolist() == one_by_one
    assert served.obs_spec == policy.obs_spec
    assert torch.equal(served.trunk.sets.output.weight, policy.trunk.sets.output.weight)
