"""RLlib's tutorial of 2021, cell by cell and unedited but for `EDITS`, run by ``rookery rllib run``.

The tutorial is not part of this repository: ROOKERY_RLLIB_TUTORIAL names a file with its text, of which `CELLS` are the
lines of the code cells. Without it these tests are skipped.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TUTORIAL = os.environ.get("ROOKERY_RLLIB_TUTORIAL", "")

CELLS = [
    (115, 289),  # the arena
    (313, 327),  # a trainer that acts by chance
    (337, 364),  # exercise 1
    (374, 381),  # ray.init
    (405, 424),  # PPOTrainer
    (431, 439),  # an iteration
    (444, 448),  # 15 more
    (468, 471),  # the trainer, shown
    (476, 495),  # policy, model, distribution
    (506, 516),  # save
    (527, 537),  # restore, evaluate
    (549, 566),  # default configurations
    (605, 626),  # tune.run
    (692, 721),  # a grid of learning rates
    (872, 900),  # two policies
    (926, 942),  # exercise 2
    (1030, 1032),  # the cloud
    (1049, 1090),  # a Keras model
    (1093, 1100),  # tried out
    (1107, 1121),  # trained
    (1190, 1250),  # callbacks
    (1254, 1264),  # with the policies of an earlier experiment
    (1515, 1563),  # exercise 3
]
"""First and last line of each code cell, from 1. Left out are lines that print what others have printed."""

EDITS = {
    'restore="/Users/sven/ray_results/PPO/PPO_MultiAgentArena_fd451_00000_0_2021-05-25_15-13-26/checkpoint_000010/'
    'checkpoint-10")': 'restore=tune.run("PPO", config=config, stop={"training_iteration": 10}, '
    "checkpoint_at_end=True).get_last_checkpoint())",
}
"""Texts that cannot be as they are, and what stands there: for the author's checkpoint, one of the same config."""

SHORT = {
    "for _ in range(15):": "for _ in range(2):",
    '"training_iteration": 3,': '"training_iteration": 1,',
    '"training_iteration": 100}': '"training_iteration": 2}',
    '"training_iteration": 20}': '"training_iteration": 2}',
    '{"training_iteration": 10}': '{"training_iteration": 1}',
    "time.sleep(0.02)": "time.sleep(0)",
}
"""Numbers of iterations that the quick variant makes small."""

FACTS = """
# --- what the test looks at
import json
trial = results.trials[0].last_result
json.dump({
    "trained": rllib_trainer.iteration,
    "grid": [[trial.config["lr"], trial.config["train_batch_size"], trial.last_result["timesteps_this_iter"],
              trial.last_result["training_iteration"], trial.last_result["episode_reward_mean"], trial.status]
             for trial in experiment_analysis.trials],
    "iterations": [trial["training_iteration"], trial["iterations_since_restore"]],
    "metrics": sorted(trial["custom_metrics"]),
    "rewards": [len(trial["hist_stats"]["agent1_rewards"]), len(trial["hist_stats"]["episode_lengths"])],
    "policies": trial["policy_reward_mean"],
    "mean": trial["episode_reward_mean"],
}, open("facts.json", "w"))
"""


def ran(folder, edits):
    """Runs the cells, and gives facts, what was printed, and the last lines of results by experiment."""
    lines = Path(TUTORIAL).read_text(encoding="utf-8").split("\n")
    code = "\n".join("\n".join([f"# --- lines {first} to {last}", *lines[first - 1 : last]]) for first, last in CELLS)
    for text, other in edits.items():
        assert text in code, text
        code = code.replace(text, other)
    (folder / "tutorial.py").write_text(code + FACTS, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "rookery", "rllib", "run", "tutorial.py"],
        cwd=folder,
        env={**os.environ, "TUNE_RESULT_DIR": str(folder / "results")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    last = max((folder / "results").rglob("result.json"), key=lambda path: path.stat().st_mtime)
    return json.loads((folder / "facts.json").read_text()), done.stdout, json.loads(last.read_text().splitlines()[-1])


@pytest.mark.skipif(not TUTORIAL, reason="ROOKERY_RLLIB_TUTORIAL names no file")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("variant", ["quick", pytest.param("whole", marks=pytest.mark.slow)])
def test_the_tutorial_runs_from_top_to_bottom(variant, tmp_path):
    whole = variant == "whole"
    facts, printed, last = ran(tmp_path, {**EDITS, **({} if whole else SHORT)})
    assert facts["trained"] == (16 if whole else 3)
    assert "Iteration=2: R=" in printed and "logits=[[" in printed and "PPO's default config is:" in printed
    assert [[lr, batch] for lr, batch, *_ in facts["grid"]] == [[lr, batch] for batch in (2000, 3000)
                                                               for lr in (0.0001, 0.0005)]  # fmt: skip
    assert {steps for _, _, steps, *_ in facts["grid"]} == {4000}  # two workers, 10 copies, 200 steps: whole rounds
    assert all(status == "TERMINATED" for *_, status in facts["grid"])
    if whole:
        assert all(mean >= 15 or iteration == 100 for *_, iteration, mean, _ in facts["grid"])
        assert all(mean >= 15 and iteration <= 50 for lr, _, _, iteration, mean, _ in facts["grid"] if lr == 0.0005)
    ended, since = facts["iterations"]
    assert (ended, since) == ((20, 10) if whole else (2, 1))
    assert facts["metrics"] == [f"{agent}_R_{kind}" for agent in ("ag1", "ag2") for kind in ("max", "mean", "min")]
    assert facts["rewards"][0] == 100 * facts["rewards"][1]  # a number for each step of each episode
    assert sum(facts["policies"].values()) == pytest.approx(facts["mean"])
    measured = last["custom_metrics"]  # of exercise 3
    assert 0 < measured["new_fields_discovered_mean"] < 100 and measured["num_collisions_min"] >= 0
    assert last["training_iteration"] == (10 if whole else 1)
