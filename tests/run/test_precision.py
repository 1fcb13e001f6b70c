"""Image networks learn in bfloat16 where the CPU supports it, and a run keeps its precision."""

import pytest

from rookery import A2CConfig, ModelConfig, PPOConfig, Trainer
from rookery.run import prepare
from small_envs import Noise


@pytest.fixture
def processor(monkeypatch):
    """Sets whether the CPU supports bfloat16."""
    return lambda has: monkeypatch.setattr(prepare, "has_bfloat16", lambda device: has)


def test_picture_networks_learn_in_bfloat16_where_the_processor_has_it(processor):
    processor(True)
    with Trainer(Noise, num_envs=2) as trainer:
        assert trainer.config.policies["main"].algorithm.model.precision == "bfloat16"
        assert "image networks learn in bfloat16 (main; model.precision)" in trainer._notes
        assert trainer.policies["main"].trunk.images[0].learns_in_bfloat16
    processor(False)
    with Trainer(Noise, num_envs=2) as trainer:
        assert trainer.config.policies["main"].algorithm.model.precision == "float32"
        assert not any("bfloat16" in note for note in trainer._notes)


def test_numbers_custom_models_and_those_who_say_float32_stay_float32(processor):
    processor(True)
    exact = PPOConfig(model=ModelConfig(precision="float32"))
    for what, cfg in (("numbers", PPOConfig()), ("picture", exact)):
        with Trainer(Noise, cfg, num_envs=2, env_config={"what": what}) as trainer:
            assert trainer.config.policies["main"].algorithm.model.precision == "float32"


def test_each_policy_follows_what_was_said_for_it(processor):
    processor(True)
    exact = A2CConfig(model=ModelConfig(precision="float32"))
    mapping = {"agent": "a"}
    with Trainer(Noise, policies={"a": A2CConfig(), "b": exact}, policy_mapping=mapping, num_envs=2) as trainer:
        models = {name: entry.algorithm.model for name, entry in trainer.config.policies.items()}
    assert {name: model.precision for name, model in models.items()} == {"a": "bfloat16", "b": "float32"}
    assert models["a"].shared_trunk  # the rest of the space preset, of a class that is not the `algorithm` section's


@pytest.mark.parametrize(("began", "goes_on"), [(True, False), (False, True)])
def test_a_run_keeps_its_precision_on_another_machine_and_says_so_if_it_is_slow(began, goes_on, processor, tmp_path):
    processor(began)
    cfg = PPOConfig(fragment_length=8, epochs=1)
    with Trainer(Noise, cfg, num_envs=2, seed=0, run_dir=tmp_path / "run") as trainer:
        trainer.train(stop={"env_steps": 16})
    processor(goes_on)
    with Trainer.load(tmp_path / "run", env=Noise) as trainer:
        assert trainer.config.policies["main"].algorithm.model.precision == ("bfloat16" if began else "float32")
        slow = [note for note in trainer._notes if "has no such instructions, so learning is slow" in note]
        assert len(slow) == (1 if began else 0)
