"""A run on Atari games that was stopped in the middle of episodes resumes exactly."""

import pytest
import torch

from rookery import PPOConfig, Trainer

pytest.importorskip("ale_py")


@pytest.mark.slow  # tests/envs/test_atari.py stops games, test_resume.py trainings
@pytest.mark.parametrize("implementation", ["serial", "batched"])
def test_stopped_and_resumed_it_has_the_weights_of_a_run_that_was_not(tmp_path, implementation):
    cfg = PPOConfig(fragment_length=16, minibatch_size=32, epochs=1)
    game = {"game": "breakout", "repeat_action_probability": 0.25, "episodic_life": True}

    def train(run, *until):
        layers = [{"env.implementation": implementation}]
        with Trainer(
            "Atari", cfg, env_config=game, config=layers, num_envs=2, seed=0, run_dir=tmp_path / run
        ) as trainer:
            trainer.train(stop={"iterations": until[0]})
        for iterations in until[1:]:
            with Trainer.load(tmp_path / run, resume=True) as trainer:
                trainer.train(stop={"iterations": iterations})
        assert trainer.env.exact
        return trainer.learners["main"].optimizer.flat.data

    assert torch.equal(train("whole", 4), train("halved", 2, 4))
