"""The page docs/map.md: the path of an iteration, read from the timers of short trainings, and where each subject is.

Functions are named as ``file.py:Class.function``; a test keeps every name pointing at code that exists.
"""

# ruff: noqa: E501 - lines of pages stand here as they are on the page

from __future__ import annotations

from rookery import DQNConfig, PPOConfig, Trainer
from rookery.core.timers import PLACES

TRAININGS = {
    "PPO": (PPOConfig, {"sampling.env_processes": 0}),
    "DQN": (DQNConfig, {"sampling.env_processes": 0, "sampling.iteration_steps": 64}),
}
"""Trainings on CartPole whose timers are read."""

LABELS = {
    "train_iteration": "an iteration: sample, learn, hand out weights; the only loop over policies",
    "sample": "**the one call that steps environments**, by one of four loops",
    "env.reset": "the first episodes begin",
    "fragments": "many steps in one call: environments in C, helper processes, tensors on a device",
    "act": "one forward pass per policy, over all rows that wait for an action",
    "env.step": "one vector step",
    "record": "rows become fragments of slots",
    "training_step": "one update of one policy from one rollout",
    "learn": "gradient steps on replay alone",
    "set_weights": "the only moment workers see new weights, normalizer statistics, lessons or opponents",
}
"""What happens under each label of the timers, in the order of a training."""

BELOW_LEARNING = (
    ("targets", "algorithms/on_policy/ppo.py:PPO.targets", "advantages and value targets, by `core/ops.py:gae`"),
    ("loss", "algorithms/on_policy/ppo.py:ppo_loss", "a function of outputs, batch and settings"),
    ("gradient_step", "core/optim.py:gradient_step", "**the one place where weights change**"),
)
"""What a training step calls; it has no timers of its own."""

ROOMS = (
    ("faces", "`rookery_rllib` → `rookery_mlagents`", "RLlib, Tune and gym · ML-Agents' files, wire and API"),
    ("8", "`cli`", "arguments to settings, a file a verb"),
    ("7", "`extend` \\| `script`", "public names for own parts \\| runs a script with names of its own in sight"),
    (
        "6",
        "`tune` \\| `serving` \\| `ope` \\| `doctor`",
        "many trainings \\| policies that answer \\| off-policy evaluation \\| why a run does not learn",
    ),
    ("5", "`run`", "one training: its loop, checkpoints, evaluation, opponents, lessons, ranks"),
    ("4", "`algorithms` \\| `rollout`", "learning \\| playing; they meet only in `run/run.py:Run`"),
    (
        "3",
        "`signals` \\| `replay` \\| `native` \\| `cluster` \\| `onnx`",
        "rewards \\| experience kept \\| kernels \\| Ray and ranks \\| export",
    ),
    (
        "2",
        "`policies` \\| `tasks` \\| `tensor_envs` \\| `search`",
        "what acts \\| bundled environments \\| environments of tensors \\| tree search",
    ),
    (
        "1",
        "`models` \\| `envs` \\| `report`",
        "networks \\| environments (no torch) \\| results as tables, curves, videos",
    ),
    ("0", "`core`", "batches, mathematics, optimizer, settings, files, processes, kernels"),
)
"""Layer, rooms, contents; lowest last."""

SUBJECTS = (
    (
        "settings and who set them",
        "core/config.py:resolve, run/prepare.py:prepare, run/presets.py",
        "reference/settings.md",
    ),
    ("environments by name", "envs/make.py:make_env, envs/schemes.py:EnvScheme", "how-to/install.md"),
    (
        "many environments at once",
        "envs/vector/serial.py:SerialEnv, envs/vector/shares.py:SharesEnv",
        "how-to/parallel-envs.md",
    ),
    (
        "loops that step environments",
        "rollout/loops/loop.py:Loop, rollout/loops/python.py:PythonLoop, rollout/loops/helper_process.py:HelperLoop, "
        "rollout/loops/helper_side.py:HelperLoopServer, rollout/loops/native.py:NativeLoop, "
        "rollout/loops/device.py:DeviceLoop, rollout/worker_state.py:WorkerState",
        "design.md",
    ),
    ("environments in C", "envs/native/c_env.py:CEnv, envs/native/c_playing.py:Playing", "how-to/c-environments.md"),
    (
        "environments in tensors",
        "tensor_envs/env.py:TensorEnv, rollout/device_pool.py:DevicePool",
        "how-to/tensor-environments.md",
    ),
    (
        "several agents and policies",
        "rollout/mapping.py:PolicyMapping, rollout/tables.py:RowTable",
        "how-to/several-agents.md",
    ),
    ("groups and teams", "envs/groups.py:GroupEnv, envs/teams.py:TeamEnv", "how-to/teams.md"),
    ("memory of policies", "models/cells/base.py:Memory, models/recall.py", "how-to/memory.md"),
    ("kernels", "native/forward.py:Forward, native/actor.py:NativeActor", "kernels.md"),
    ("replay", "replay/replay.py:Replay, replay/buffer.py:ReplayBuffer", "how-to/replay-memory.md"),
    (
        "search before acting",
        "search/gumbel.py:search, rollout/searching.py:SearchingPolicy, envs/game_rules.py:GameRules",
        "algorithms/alphazero.md",
    ),
    ("goals reached in hindsight", "replay/hindsight/relabeling.py:Hindsight, run/goals.py", "algorithms/her.md"),
    ("reward signals", "signals/rewards.py:RewardSignals", "how-to/explore.md"),
    (
        "demonstrations, data",
        "replay/demonstrations.py:DataSet, algorithms/offline/data_learner.py",
        "how-to/learn-from-data.md",
    ),
    (
        "lessons and parameters",
        "run/lessons/curriculum.py:Curriculum, envs/parameters.py:EpisodePlan",
        "how-to/curriculum.md",
    ),
    (
        "self-play, ratings",
        "run/opponents/self_play.py:SelfPlay, run/opponents/ratings.py:Ratings",
        "how-to/self-play.md",
    ),
    ("evaluation, videos", "run/evaluate/evaluation.py, report/videos.py", "how-to/read-results.md"),
    (
        "checkpoints, resume",
        "run/checkpoint/checkpoint.py, core/state.py:Stateful, core/moved.py",
        "how-to/stop-and-resume.md",
    ),
    ("trust in foreign runs", "core/settings/trust.py:Trust, core/settings/reach.py", "trust.md"),
    ("asynchronous sampling", "rollout/pool.py:LocalPool.play_ahead", "how-to/asynchronous-sampling.md"),
    ("workers on Ray", "rollout/remote/remote_pool.py:RemotePool, cluster/ray_hosts.py:RayHosts", "how-to/workers.md"),
    ("several learners", "cluster/ranks.py:Ranks, algorithms/ranked.py:RankAgreement", "how-to/several-learners.md"),
    ("experiments of many trials", "tune/runner.py:Runner, tune/journal.py:Journal", "how-to/tune.md"),
    (
        "off-policy evaluation",
        "ope/offline_evaluation.py:evaluate_offline, ope/estimators.py",
        "how-to/off-policy-evaluation.md",
    ),
    ("policies that answer", "serving/server.py:PolicyServer, serving/batcher.py:Batcher", "how-to/serve.md"),
    ("ONNX", "onnx/generic.py:generic_model, onnx/check.py", "how-to/export.md"),
    ("clients from outside", "envs/external/client.py:Client, envs/external/env.py:ExternalEnv", "how-to/external.md"),
    ("plug-ins", "core/plugins.py:PluginTable", "how-to/plug-in.md"),
    ("scripts of RLlib", "rookery_rllib/config/translation.py, rookery_rllib/trainer/trainers.py", "from-rllib.md"),
    ("scripts of RLlib 2", "rookery_rllib/rllib2/config.py, rookery_rllib/rllib2/algorithm.py", "from-rllib2.md"),
    (
        "files and games of ML-Agents",
        "rookery_mlagents/learn/learn.py:learning, rookery_mlagents/link/unity_env.py:UnityEnv",
        "from-mlagents.md",
    ),
)
"""Subject, what to read first, page."""


def map_page() -> str:
    """Returns the text of docs/map.md."""
    lines = [
        "# Map: where everything happens",
        "",
        "Generated by `make docs` (`scripts/map_page.py`). A test keeps every name here pointing at code that exists.",
        "",
        "## Three questions, one answer each",
        "",
        "| question | answer |",
        "|---|---|",
        "| Where do weights change? | `core/optim.py:gradient_step` |",
        "| Where is the environment stepped? | `rollout/worker.py:RolloutWorker.sample` |",
        "| Which value of a setting wins, and who set it? | `core/config.py:resolve`; `core/config.py:Resolved.explain` |",
        "",
        "Architecture tests (`tests/test_architecture.py`) keep these unique. `rookery explain RUN weights` and `rookery explain RUN",
        "env.step` show the calls of a run, `rookery explain RUN algorithm.gamma` the source of a value.",
        "",
        "## One iteration",
        "",
        "The labels of the timers of trainings on CartPole, in the order of a training; `rookery timers RUN` prints them with",
        "seconds. Arrows show the depth.",
        "",
        "| timer | where | what happens | in |",
        "|---|---|---|---|",
        "| | `cli/train.py:train` → `run/prepare.py:prepare` | the command line becomes layers of settings, these a trainer | all |",
    ]  # fmt: skip
    found = timed()
    for label, text in LABELS.items():
        if label not in found:
            continue
        depth, where = found[label]
        lines.append(f"| {'→' * depth}`{label}` | `{place_of(label)}` | {text} | {', '.join(where)} |")
        if label == "training_step":
            lines += [f"| →→{name} | `{place}` | {what} | PPO |" for name, place, what in BELOW_LEARNING]
    lines += [
        "",
        "## Rooms",
        "",
        "Rooms are the folders of a package. Imports point down only; rooms on one line never import each other.",
        "",
    ]
    lines += ["| layer | rooms | contents |", "|---|---|---|"]
    lines += [f"| {layer} | {rooms} | {contents} |" for layer, rooms, contents in ROOMS]
    lines += ["", "## By subject", "", "| subject | read first | page |", "|---|---|---|"]
    for subject, places, page in SUBJECTS:
        names = ", ".join(f"`{place}`" for place in places.split(", "))
        lines.append(f"| {subject} | {names} | [{page.rpartition('/')[2].removesuffix('.md')}]({page}) |")
    return "\n".join([*lines, ""])


def timed() -> dict[str, tuple[int, list[str]]]:
    """Returns depth, and the trainings that have it, of each label of the timers."""
    found: dict[str, tuple[int, list[str]]] = {}
    for name, (settings, more) in TRAININGS.items():
        with Trainer("CartPole-v1", settings(), config={"sampling.num_envs": 4, **more}) as trainer:
            trainer.train_iteration()
            rows = trainer.timers.rows()
        for row in rows:
            found.setdefault(row.label, (row.depth, []))[1].append(name)
    missing = found.keys() - LABELS.keys()
    assert not missing, f"scripts/map_page.py has no text for {sorted(missing)}"
    return {
        label: (depth, ["all"] if len(names) == len(TRAININGS) else names) for label, (depth, names) in found.items()
    }


def place_of(label: str) -> str:
    """Returns ``file.py:Class.function`` of a label."""
    module, _, inside = PLACES[label].partition(":")
    path = module.removeprefix("rookery.").replace(".", "/")
    return f"{path}.py:{inside.partition(' ')[0]}"
