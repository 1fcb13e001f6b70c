"""Training loop: repeatable bit for bit, policies do not disturb each other, and reports are correct."""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import json
import math
import signal
import types
from collections import deque
from collections.abc import Mapping

import gymnasium
import numpy as np
import pytest
import torch
from torch import nn

from recorded import poles
from rookery import (
    A2CConfig,
    APPOConfig,
    Callback,
    DQNConfig,
    EvaluationConfig,
    IMPALAConfig,
    Linear,
    MultiAgentArena,
    PPOConfig,
    ReinforceConfig,
    SACConfig,
    Trainer,
)
from rookery.algorithms.off_policy.td3 import TD3Config
from rookery.algorithms.offline.bc import MARWILConfig
from rookery.core.native import best_build
from rookery.core.process.interrupt import Interrupted
from rookery.core.state import Stateful
from rookery.envs.native.variants import native_unavailable_reason
from rookery.native.actor import NativeActor
from rookery.native.forward import NetworkKernels
from rookery.report.statistics import mean_interval

FAST = PPOConfig(fragment_length=16, epochs=2, minibatch_size=32)
SOFT = {"batch_size": 8, "learning_starts": 16, "updates_per_step": 0.25, "replay": {"capacity": 200}}
REPLAYING = DQNConfig(**SOFT, train_every=4, lr=5e-4, model={"hidden": (8,)})
TWO = {"agent1": "a", "agent2": "b"}


def cart_pole(cfg=FAST, **arguments):
    return Trainer("CartPole-v1", cfg, **{"seed": 1, "num_envs": 4, **arguments})


def arena(cfg=FAST, **arguments):
    return Trainer(MultiAgentArena, cfg, **{"seed": 1, "num_envs": 4, **arguments})


def digest(state):
    """SHA-256 of everything in a state dict: names, numbers, arrays, tensors."""
    seen = hashlib.sha256()

    def add(value):
        if isinstance(value, Mapping):
            for key in value:
                seen.update(str(key).encode())
                add(value[key])
        elif isinstance(value, list | tuple):
            for item in value:
                add(item)
        elif isinstance(value, torch.Tensor | np.ndarray):
            seen.update(np.asarray(value).tobytes())
        else:
            seen.update(repr(value).encode())

    add(state)
    return seen.hexdigest()


def weights(trainer):
    """One hash over all that the learners hold: weights, moments, statistics, random state."""
    return digest({name: learner.state_dict() for name, learner in trainer.learners.items()})


def after(trainer, iterations=3):
    """The hash after some iterations."""
    for _ in range(iterations):
        trainer.train_iteration()
    return weights(trainer)


# --- the same numbers again -------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [cart_pole, lambda **a: arena(policies=["a", "b"], policy_mapping=TWO, **a)])
def test_the_same_run_twice_gives_the_same_weights_and_another_seed_gives_others(make):
    once = after(make())
    assert after(make()) == once
    assert after(make(seed=2)) != once


def test_evaluating_changes_nothing():
    plain = cart_pole()
    evaluated = cart_pole(evaluation=EvaluationConfig(every=1, episodes=3))
    asked = cart_pole()
    expected = after(plain)
    assert after(evaluated) == expected
    for _ in range(3):
        asked.train_iteration()
        asked.evaluate(episodes=2, deterministic=False)
    assert weights(asked) == expected


@pytest.mark.parametrize("make", [cart_pole, lambda **a: arena(env_config={"max_timesteps": 10}, **a)])
def test_an_environment_and_its_batched_twin_give_the_same_weights(make):
    serial = make(config={"env.implementation": "serial"})
    batched = make(config={"env.implementation": "batched"})
    assert type(serial.env) is not type(batched.env)
    assert after(serial) == after(batched)


def test_a_learner_goes_on_from_its_state_as_if_nothing_had_happened():
    cfg = FAST.replace(scale_rewards=True, model={"normalize_obs": True})
    old, new = cart_pole(cfg), cart_pole(cfg, seed=7)
    after(old, 2)
    assert weights(new) != weights(old)
    for name, learner in new.learners.items():
        learner.load_state_dict(old.learners[name].state_dict())
    assert weights(new) == weights(old)
    assert digest(new.policies["main"].state_dict()) == digest(old.policies["main"].state_dict())
    (rollout,) = old._pool.sample(10_000).rollouts.values()
    for trainer in (old, new):
        trainer.learners["main"].training_step(rollout)
    assert weights(new) == weights(old)


# --- policies ---------------------------------------------------------------------------------------------------


def test_a_single_policy_is_called_main_and_plays_every_agent():
    trainer = arena()
    result = trainer.train_iteration()
    assert list(trainer.policies) == list(trainer.learners) == ["main"]
    assert isinstance(trainer.policies["main"], nn.Module)
    assert result.env_steps == 64  # 4 copies x 16 steps
    assert result.policies["main"].valid_rows == 128  # of 2 agents each


def test_a_frozen_policy_keeps_its_weights_and_nothing_it_does_is_stored():
    trainer = arena(policies={"a": None, "b": {"frozen": True}}, policy_mapping=TWO)
    before = digest(trainer.policies["b"].state_dict())
    learning = digest(trainer.policies["a"].state_dict())
    after(trainer)
    result = trainer.train_iteration()
    assert digest(trainer.policies["b"].state_dict()) == before
    assert digest(trainer._pool.worker.policies["b"].policy.state_dict()) == before
    assert digest(trainer.policies["a"].state_dict()) != learning
    assert trainer._pool.worker.policies["b"].store is None
    assert "b" not in trainer.learners
    assert (result.policies["b"].decisions, result.policies["b"].learning) == (0, {})
    assert result.policies["a"].decisions == 4 * 64


def test_a_policy_does_not_notice_the_settings_of_another():
    # what agent1 meets depends on how agent2 moves, so agent2 is frozen: only its settings could disturb
    frozen = {"frozen": True}
    alone = arena(policies={"a": FAST, "b": frozen}, policy_mapping=TWO)
    beside = arena(policies={"b": {**frozen, "lr": 0.5, "gamma": 0.1}, "a": FAST}, policy_mapping=TWO)
    assert after(alone) == after(beside)


def test_a_mapping_function_deals_agents_to_policies_episode_by_episode():
    asked = []

    def mapping(agent, episode):
        asked.append((agent, episode.lane, episode.index))
        return "a" if (episode.index % 2 == 0) == (agent == "agent1") else "b"

    config = {"env.config": {"max_timesteps": 8}, "sampling.num_envs": 1}
    cfg = FAST.replace(fragment_length=32)
    trainer = Trainer(MultiAgentArena, cfg, policies=["a", "b"], policy_mapping=mapping, config=config, seed=0)
    sample = trainer._pool.sample(max_env_steps=24)
    assert asked[:6] == [(agent, 0, index) for index in range(3) for agent in ("agent1", "agent2")]
    trainer._count_played(sample)
    assert [episode.policies for episode in sample.finished[:2]] == [
        {"agent1": "a", "agent2": "b"},
        {"agent1": "b", "agent2": "a"},
    ]
    for result in (trainer.train_iteration(), trainer.train_iteration()):
        assert result.policies.keys() == {"a", "b"}
    assert min(policy.decisions for policy in result.policies.values()) > 0


def test_policies_of_different_pace_share_an_environment():
    policies = {"a": FAST.replace(fragment_length=32), "b": FAST.replace(fragment_length=128)}
    trainer = arena(policies=policies, policy_mapping=TWO, num_envs=2)
    first, second = trainer.train_iteration(), trainer.train_iteration()
    assert (first.env_steps, second.env_steps) == (256, 512)  # 2 copies x 128 steps, until both have learned
    assert (first.policies["a"].updates, first.policies["b"].updates) == (4, 1)
    assert (second.policies["a"].updates, second.policies["b"].updates) == (8, 2)
    assert (first.policies["a"].valid_rows, first.policies["b"].valid_rows) == (64, 256)
    assert second.policies["a"].decisions == second.policies["b"].decisions == 512  # nothing was lost


def test_policies_may_have_algorithm_settings_of_their_own():
    trainer = arena(FAST.replace(lr=0.1), policies={"a": PPOConfig(lr=0.2), "b": None}, policy_mapping=TWO)
    assert (trainer.learners["a"].cfg.lr, trainer.learners["b"].cfg.lr) == (0.2, 0.1)
    assert trainer.learners["a"].cfg.fragment_length == 16  # what it does not say comes from the common settings


@pytest.mark.parametrize(
    "env",
    ["CartPole-v1", "Pendulum-v1", "FrozenLake-v1", MultiAgentArena],
    ids=["choices", "numbers", "category", "arena"],
)
def test_predict_returns_actions_that_the_environment_takes(env):
    trainer = Trainer(env, FAST, seed=0, num_envs=2)
    policy = trainer.policies["main"]
    observation, action = policy.obs_spec.space, policy.action_spec.space
    one = observation.sample()
    assert action.contains(policy.predict(one))
    several = policy.predict(np.stack([one, one, one]), deterministic=False, rng=np.random.default_rng(0))
    assert len(several) == 3
    assert all(action.contains(item) for item in several)


def test_a_trained_policy_can_be_used_in_gymnasiums_own_loop():
    policy = cart_pole().policies["main"]
    env = gymnasium.make("CartPole-v1")
    obs, _ = env.reset(seed=0)
    ended = False
    while not ended:
        obs, _, terminated, truncated, _ = env.step(policy.predict(obs))
        ended = terminated or truncated


# --- the loop and its end ---------------------------------------------------------------------------------------


def test_iterations_go_on_as_long_as_they_are_asked_for():
    trainer = cart_pole()
    numbers = []
    for result in trainer.iterations():
        numbers.append(result.iteration)
        if result.iteration == 3:
            break
    assert numbers == [1, 2, 3]
    assert trainer.train_iteration().iteration == 4


def test_iteration_steps_fix_the_length_of_an_iteration():
    trainer = cart_pole(iteration_steps=40)
    results = [trainer.train_iteration() for _ in range(3)]
    assert [result.env_steps for result in results] == [40, 80, 120]  # a multiple of 4 copies
    assert [result.policies["main"].decisions for result in results] == [0, 64, 64]  # 64 an update: the rest waits


def test_any_criterion_reached_ends_training_and_says_which():
    assert cart_pole().train({"env_steps": 100, "return_mean": 1e9}).stop_reason == "env_steps 128 reached 100"
    assert cart_pole().train({"iterations": 2}).stop_reason == "iterations 2 reached 2"
    result = cart_pole().train({"return_mean": 1, "env_steps": 10_000})
    assert result.stop_reason == f"return_mean {round(result.return_mean, 2):g} reached 1"
    assert result.iteration == 1 + (result.episodes == 0)
    assert cart_pole().train({"policies.main.updates": 3}).iteration == 3
    assert cart_pole().train({"seconds": 0.05}).seconds >= 0.05


def test_a_function_can_end_training():
    result = cart_pole().train(lambda result: result.iteration == 2)
    assert (result.iteration, result.stop_reason) == (2, "the stop function said so")


def test_criteria_count_over_the_life_of_a_run():
    trainer = cart_pole(stop={"env_steps": 128})
    assert trainer.train().env_steps == 128
    assert trainer.train({"env_steps": 256}).env_steps == 256


def test_training_ends_by_an_evaluation():
    trainer = cart_pole(evaluation=EvaluationConfig(every=2, episodes=2))
    result = trainer.train({"evaluation.return_mean": 1, "iterations": 9})
    assert result.iteration == 2
    assert result.stop_reason.startswith("evaluation.return_mean ")


def test_a_schedule_without_a_horizon_stays_constant_and_says_so(capsys):
    cfg = FAST.replace(lr=Linear(1e-3, 0.0), clip=Linear(0.2, 0.1, steps=100))
    result = cart_pole(cfg).train({"iterations": 3})
    note = "note: policies.main: lr would change until stop.env_steps, which is not set: constant\n"
    assert capsys.readouterr().err == note
    assert result.policies["main"].lr == 1e-3
    assert result.policies["main"].clip == pytest.approx(0.1)  # it has steps of its own


def test_a_schedule_ends_at_the_first_stop_by_env_steps(capsys):
    trainer = cart_pole(FAST.replace(lr=Linear(1e-3, 0.0)))
    result = trainer.train({"env_steps": 128})
    assert capsys.readouterr().err == ""
    # the last of two updates is made with what holds when its rollout is complete: after 128 of 128 steps
    assert result.policies["main"].lr == pytest.approx(0.0)
    assert trainer._horizon == 128
    trainer.train({"env_steps": 192})
    assert trainer._horizon == 128


# --- what is reported -------------------------------------------------------------------------------------------


def test_a_result_tells_what_its_policy_learned():
    trainer = cart_pole()
    trainer.train_iteration()
    result = trainer.train_iteration()
    main = result.policies["main"]
    assert main.updates == 2
    assert main.lr == 3e-4
    assert 0 <= main.kl < 0.1
    assert 0 < main.entropy <= math.log(2)
    assert main.explained_variance <= 1
    assert 0 <= main.clip_fraction <= 1
    assert (main.valid_rows, main.cut_fragments, main.decisions) == (64, 0, 128)
    with pytest.raises(AttributeError, match="no metric 'entrpy'; there are .*; did you mean 'entropy'"):
        main.entrpy  # noqa: B018


def test_fragments_cut_by_an_update_are_counted():
    # 40 decisions an update of 2 slots are 20 each: one whole fragment of 16 and one cut after 4
    trainer = arena(FAST.replace(rollout_size=40), num_envs=1)
    main = trainer.train_iteration().policies["main"]
    assert (main.valid_rows, main.cut_fragments) == (40, 2)


def test_there_is_no_return_before_an_episode_ends():
    trainer = arena()  # episodes of 100 steps, iterations of 16
    result = trainer.train_iteration()
    assert (result.return_mean, result.policies["main"].return_mean, result.length_mean) == (None, None, None)
    assert (result.episodes, result.running_length, result.agents) == (0, 16.0, {})
    result = trainer.train({"episodes": 4})
    assert result.length_mean == 100
    # the return of an episode is the sum over its agents
    assert result.return_mean == pytest.approx(result.agents["agent1"] + result.agents["agent2"])
    assert result.policies["main"].return_mean == pytest.approx(result.return_mean / 2)
    assert result.policies["main"].episodes == 8  # each agent counts by itself


def test_metrics_jsonl_holds_the_rows_of_the_results(tmp_path):
    trainer = cart_pole(run_dir=tmp_path / "run", evaluation_every=2)
    rows = [trainer.train_iteration().row() for _ in range(3)]
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == rows
    assert [row["iteration"] for row in rows] == [1, 2, 3]
    assert ["evaluation/return_mean" in row for row in rows] == [False, True, False]
    assert {"policies/main/kl", "agents/agent/return_mean", "time/seconds"} <= rows[-1].keys()


def test_without_a_run_dir_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cart_pole().train({"iterations": 1})
    assert list(tmp_path.iterdir()) == []


def test_config_yaml_says_what_was_set_and_by_whom(tmp_path):
    cart_pole(run_dir=tmp_path)
    lines = (tmp_path / "config.yaml").read_text().splitlines()
    assert any(line.split() == ["fragment_length:", "16", "#", "code"] for line in lines)
    assert any(line.split() == ["gamma:", "0.99", "#", "default"] for line in lines)


def test_an_evaluation_plays_its_episodes_and_gives_their_interval():
    evaluation = cart_pole().evaluate(episodes=7)
    assert evaluation.episodes == len(evaluation.returns) == 7
    assert evaluation.return_mean == pytest.approx(sum(evaluation.returns) / 7)
    assert evaluation.return_interval == mean_interval(evaluation.returns)
    assert evaluation.return_min == min(evaluation.returns)
    assert evaluation.return_max == max(evaluation.returns)
    assert evaluation.length_mean == evaluation.return_mean  # CartPole pays 1 a step
    assert evaluation.deterministic


def test_an_evaluation_repeats_and_does_not_depend_on_its_number_of_copies():
    trainer = cart_pole()
    other = cart_pole(evaluation=EvaluationConfig(num_envs=3))
    first = trainer.evaluate(episodes=7)
    assert trainer.evaluate(episodes=7) == first
    assert other.evaluate(episodes=7).returns == first.returns
    assert trainer.evaluate(episodes=3).returns == first.returns[:3]


def test_an_evaluation_has_seeds_that_training_never_uses():
    seeds = {"training": [], "evaluation": []}
    phase = "training"

    class Listening(gymnasium.Env):
        observation_space, action_space = gymnasium.spaces.Box(0, 1, (1,)), gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            seeds[phase].append(seed)
            return np.zeros(1, np.float32), {}

        def step(self, action):
            return np.zeros(1, np.float32), 0.0, True, False, {}

    trainer = Trainer(Listening, FAST, seed=0, num_envs=2)
    trainer.train_iteration()
    phase = "evaluation"
    trainer.evaluate(episodes=10)
    # the first reset of each looks whether there are action masks
    training, evaluation = seeds["training"][1:], seeds["evaluation"][1:11]
    assert len(training) == 34  # 2 copies of 17 episodes
    assert len({*training, *evaluation}) == 44


def test_evaluation_comes_every_so_many_iterations_with_its_own_settings():
    trainer = cart_pole(evaluation=EvaluationConfig(every=2, episodes=3, num_envs=2, deterministic=False))
    results = [trainer.train_iteration() for _ in range(4)]
    assert [result.evaluation is not None for result in results] == [False, True, False, True]
    assert (results[1].evaluation.episodes, results[1].evaluation.deterministic) == (3, False)
    assert (results[1].evaluation.env_steps, results[3].evaluation.env_steps) == (128, 256)


def test_the_timer_tree_has_the_names_of_the_main_path():
    trainer = cart_pole(evaluation_every=1)
    trainer.train_iteration()

    def labels(node):
        return {name: labels(child) for name, child in node.get("children", {}).items()}

    at_once = best_build() is not None and not native_unavailable_reason()
    played = {"fragments": {"act": {}, "env.step": {}}} if at_once else {"act": {}, "env.step": {}, "record": {}}
    assert labels(trainer.timers.state_dict()) == {
        "train_iteration": {
            "sample": {"env.reset": {}, **played},
            "training_step": {},
            "set_weights": {},
            "evaluate": {},
        }
    }
    tree = trainer.timers.state_dict()["children"]["train_iteration"]["children"]
    playing = tree["sample"]["children"]
    assert (playing["fragments"]["children"] if at_once else playing)["env.step"]["count"] == 16
    assert tree["training_step"]["count"] == tree["set_weights"]["count"] == 1
    for owner, name in (
        (trainer, "train_iteration"),
        (trainer._pool, "sample"),
        (trainer.learners["main"], "training_step"),
        (trainer._pool, "set_weights"),
        (trainer, "evaluate"),
        (trainer.policies["main"], "act"),
    ):
        assert callable(getattr(owner, name))


# --- what must be remembered ------------------------------------------------------------------------------------

FORGETTABLE = {
    "NativeLoop": "where policy, environment and storage lie, found anew when it plays",
    "MemmapArrays": "where rows of replay lie, which save themselves",
    "Playing": "what a call is given: seeds ahead follow from the plan, the rest is others'",
    "PlayingEntry": "the same, as C reads it",
    "Timers": "has a state_dict of its own",
    "InUnit": "holds the unit of rewards, which RewardSignals saves",
    "Measure": "plays in copies of its own, which every evaluation resets",
    "Timer": "is written by Timers",
    "Adam": "has a state_dict of its own",
    "RMSprop": "has a state_dict of its own",
    "RatingGames": "plays in copies of its own, which each match makes anew",
    "FastSeeds": "what a stream and a key begin with; kept because it takes long to find out",
    "TicTacToe": "environments have states of their own kind",
    "StackedActors": "reads the weights of snapshots, which never change, where they lie",
    "Ranks": "who learns together, told anew by whoever makes the trainer",
    "PolicyMapping": "made again from the settings; it remembers nothing",
    "DrQ": "shares weights, which the critics save, and draws with the generator of the algorithm",
    "ActionNoise": "its block follows from the streams and the vector step",
    "Interrupt": "whether somebody asked to stop, asked anew by every train()",
    "Clock": "when the lap under way began; what has passed is in Run._seconds",
    "Guard": "the latest calls of an environment in C, kept for a message",
    "GuardedEntry": "the same, as C reads it",
    "Watch": "what it has seen of the iteration under way, looked at anew by every train()",
    "Parts": "parts of the run, made again from the settings by every train()",
    "CallbacksPart": "holds the trainer, which saves the state of callbacks",
    "SelfPlayPart": "holds the run, which saves its self-play",
    "Route": "found out again from the desks in the next step",
    "Reporter": "shows notes and remembers nothing",
    "EndlessNote": "what a user was told; who goes on with the run is told anew",
    "Remarks": "likewise",
    "FirstLook": "the first samples of a run, which a resumed run does not look at",
    "CallbackStates": "has a state_dict of its own",
    "FindingsPart": "holds the window, which the trainer saves, and what follows from it",
    "HorizonNotes": "whether a note was given; a resumed run gives it again",
    "Step": "what the environment shows, part of the environment's state",
    "Rows": "likewise",
    "BatchedCartPole": "environments have states of their own kind",
    "BatchedArena": "likewise",
    "CartPoleInC": "likewise",
    "ArenaInC": "likewise",
    "PendulumInC": "likewise",
    "TensorRows": "likewise",
    "TensorCartPole": "likewise",
    "TensorContract": "what an environment of tensors must give, which follows from its spaces",
    "TensorActions": "how it takes actions, which follows likewise",
    "PythonLoop": "how environments are stepped, found out anew by every call of sample",
    "DeviceLoop": "room for what a call notes, read at its end",
    "_Room": "likewise; what episodes have earned stands in a RowTable between two calls",
    "CLibrary": "what was compiled, the same for all environments of its kind",
    "TableEntry": "likewise",
    "LayoutEntry": "what an environment in C says of itself",
    "StateEntry": "addresses of the state of an environment in C",
    "RowsEntry": "addresses of what it shows",
    "FaultEntry": "what was wrong in a step that raised",
    "SerialEnv": "likewise",
    "GymLane": "likewise",
    "ParameterHook": "how a copy is given parameters; each reset gives them anew",
    "RowWriter": "writes what the lanes show; part of the environment's state",
    "Slab": "likewise",
    "Block": "likewise",
    "Layout": "likewise",
    "DrawingHead": "says how to draw from what a network puts out, which is settled by the head",
    "SquashedDrawing": "calls kernels with a `DrawingHead`",
    "NativeActor": "reads a policy's weights and statistics where they lie",
    "NetworkKernels": "likewise; what it keeps of a batch is used up within a gradient step",
    "Forward": "holds a network, and kernels on its weights",
    "Recall": "made again from the settings; what it makes a policy remember stands in a SlotMemory",
    "Scorer": "holds a policy and nothing else",
    "PolicyNetwork": "likewise",
    "Rewarding": "holds the signals of a learner, which saves them",
    "DataSet": "read again from the replay buffer",
    "StoredDemonstrations": "likewise, with random numbers that whoever imitates saves",
    "DecisionSlab": "views of the storage of a SlotStore, made when first needed",
    "MeanValue": "says how values are read and learned; remembers nothing",
    "White": "noise that remembers nothing",
    "SACActor": "holds networks that the learner saves",
    "DDPGActor": "likewise",
    "PlainLeaf": "rows of a replay memory, which lie in files of their own (`SavedReplays`)",
    "Pool": "places of such rows; made again when they are restored",
    "Regular": "likewise; a faster way to add rows",
    "SumTree": "likewise; its leaves are saved by the memory",
}
"""Objects of a trainer that change and are no `Stateful`, with the reason why nothing is lost."""


def attributes(thing):
    """Returns the attributes of an object, by name, in ``__dict__`` and ``__slots__``."""
    slots = [name for base in type(thing).__mro__ for name in getattr(base, "__slots__", ())]
    return {**getattr(thing, "__dict__", {}), **{name: getattr(thing, name) for name in slots if hasattr(thing, name)}}


LEAVES = {type(None), bool, int, float, str, np.ndarray, torch.Tensor}


def walk(thing, path, seen, found):
    """Collects in `found` every object of the package that is reached from `thing`, with the path to it."""
    if type(thing) in LEAVES or id(thing) in seen:
        return
    if isinstance(thing, type | types.FunctionType | types.ModuleType | enum.Enum):
        return
    seen[id(thing)] = thing
    if isinstance(thing, types.MethodType):
        walk(thing.__self__, path, seen, found)
    elif isinstance(thing, Mapping):
        for key, value in thing.items():
            walk(value, f"{path}[{key!r}]", seen, found)
    elif isinstance(thing, list | tuple | set | deque):
        for number, value in enumerate(thing):
            walk(value, f"{path}[{number}]", seen, found)
    elif type(thing).__module__.split(".")[0] == "rookery" or isinstance(thing, nn.Module):
        if type(thing).__module__.split(".")[0] == "rookery":
            found[path] = thing
        if isinstance(thing, NativeActor | NetworkKernels):  # inside are addresses
            return
        for name, value in attributes(thing).items():
            walk(value, f"{path}.{name}", seen, found)


SIGNALS = {"rnd": {}, "curiosity": {}, "count": {}}


@pytest.fixture(scope="module")
def reached(tmp_path_factory):
    """Every object of the package in trainers that have been used, by path."""
    normalized = FAST.replace(scale_rewards=True, model={"normalize_obs": True})
    shown, found = poles(tmp_path_factory.mktemp("shown") / "shown", 2), {}
    for number, trainer in enumerate(
        (
            cart_pole(normalized, evaluation_every=1, config={"env.implementation": "serial"}),
            cart_pole(),
            arena(policies={"a": None, "b": {"frozen": True}}, policy_mapping=TWO),
            cart_pole(A2CConfig(signals=SIGNALS), callbacks=[Watching()]),
            cart_pole(FAST.replace(model={"memory": {"kind": "lstm", "size": 8, "previous_reward": True}})),
            cart_pole(FAST.replace(model={"memory": {"kind": "attention", "size": 8, "frame_stack": 2}})),
            cart_pole(ReinforceConfig(rollout_size=16), iteration_steps=400),
            cart_pole(REPLAYING.replace(signals=SIGNALS), iteration_steps=200),
            cart_pole(
                REPLAYING.replace(replay={"kind": "prioritized"}, model={"memory": {"kind": "gru", "size": 8}}),
                iteration_steps=200,
            ),
            arena(policies={"a": FAST, "b": REPLAYING}, policy_mapping=TWO),
            arena(policies={"a": IMPALAConfig(rollout_size=64), "b": APPOConfig(rollout_size=64)}, policy_mapping=TWO),
            Trainer("rookery.tasks:TicTacToe", FAST, seed=1, num_envs=4, self_play={"main": {"snapshot_every": 90}}),
            cart_pole(FAST.replace(imitation={"replay": [shown]})),
            cart_pole(
                MARWILConfig(batch_size=8, gradient_steps=20, model={"hidden": (8,), "normalize_obs": True}),
                replay=shown,
            ),
            Trainer("Pendulum-v1", SACConfig(**SOFT), seed=1, num_envs=4, iteration_steps=80),
            Trainer("TensorCartPole", FAST, seed=1, num_envs=4),
            Trainer("Pendulum-v1", TD3Config(**SOFT), seed=1, num_envs=4, iteration_steps=80),
        )
    ):
        trainer.train_iteration()
        trainer._interrupt.number = signal.SIGINT
        with pytest.raises(Interrupted):  # so that it stands in the middle of an iteration
            trainer.train_iteration()
        walk(trainer, f"trainer{number}", {}, found)
    return found


class Watching(Callback):
    """Asks for episodes."""

    def on_episode_step(self, episode):
        episode.metrics["length"] = episode.length


def test_every_attribute_of_a_stateful_object_is_saved_or_fixed(reached):
    stateful = {path: thing for path, thing in reached.items() if isinstance(thing, Stateful)}
    names = {type(thing).__name__ for thing in stateful.values()}
    assert names >= {
        "Trainer",
        "LocalPool",
        "DevicePool",
        "DeviceStore",
        "RolloutWorker",
        "WorkerPolicy",
        "SlotStore",
        "SlotMemory",
        "RowTable",
        "PPO",
        "A2C",
        "IMPALA",
        "APPO",
        "BatchRing",
        "Reinforce",
        "DQN",
        "SAC",
        "TD3",
        "ReplayBuffer",
        "SavedReplays",
        "Windows",
        "ReturnScale",
        "RewardSignals",
        "RND",
        "Curiosity",
        "Count",
        "Progress",
        "EpisodeListeners",
        "SelfPlay",
        "Contender",
        "Ratings",
        "OpponentMapping",
        "SnapshotStack",
        "Episode",
    }
    forgotten = {
        f"{path}.{name}"
        for path, thing in stateful.items()
        for name in attributes(thing).keys() - set(thing._saved_names()) - set(thing._fixed_names())
    }
    assert forgotten == set()
    invented = {
        f"{path}.{name}"
        for path, thing in stateful.items()
        for name in {*thing._saved_names(), *thing._fixed_names()} - attributes(thing).keys()
    }
    assert invented == set()
    twice = {path for path, thing in stateful.items() if set(thing._saved_names()) & set(thing._fixed_names())}
    assert twice == set()


PUBLIC = """close collect config diagnose env env_steps evaluate fixed iteration iterations learn learners load
load_state_dict paths pause_sampling policies record replays resolved results resume_sampling run_dir save saved seed
state_dict state_version timers train train_iteration upgrade""".split()

STORED = """@versions apart callback_states counters criteria curriculum decisions env_steps finished frozen horizon
iteration lane_steps last_learning learners paused policies pool progress resting running_length score seconds self_play
threads timers window windows""".split()


def test_a_trainer_has_these_public_names_and_its_stored_state_these_keys():
    with cart_pole() as trainer:
        assert [name for name in dir(trainer) if not name.startswith("_")] == PUBLIC
        assert sorted(trainer.state_dict()) == STORED
        assert not hasattr(trainer, "pool")


def test_every_other_object_that_changes_is_known_to(reached):
    unknown = {}
    for path, thing in reached.items():
        kind = type(thing)
        frozen = dataclasses.is_dataclass(kind) and kind.__dataclass_params__.frozen
        if not isinstance(thing, Stateful | nn.Module) and not frozen and kind.__name__ not in FORGETTABLE:
            unknown[path] = kind.__name__
    names = sorted(set(unknown.values()))
    assert not names, " ".join(names)


def test_what_need_not_be_remembered_is_still_there(reached):
    absent = set() if best_build() else {"NativeActor", "NetworkKernels", "DrawingHead", "SquashedDrawing"}
    in_c = {name for name in FORGETTABLE if name.endswith(("InC", "Entry", "CLibrary", "Player", "Playing", "Guard"))}
    absent |= in_c if native_unavailable_reason() else {"BatchedCartPole", "BatchedArena"}
    assert FORGETTABLE.keys() - absent <= {type(thing).__name__ for thing in reached.values()}


def test_saving_a_trainer_changes_nothing():
    saved, plain = cart_pole(), cart_pole()
    saved.train_iteration()
    plain.train_iteration()
    first = digest(saved.state_dict()["learners"])
    assert digest(saved.state_dict()["learners"]) == first
    assert after(saved, 2) == after(plain, 2)


def test_torch_has_as_many_threads_after_each_call_as_before(tmp_path):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with cart_pole(REPLAYING, run_dir=tmp_path / "run") as trainer:
            found = [torch.get_num_threads()]
            for call in (
                trainer.train_iteration,
                lambda: trainer.train({"iterations": 2}),
                lambda: trainer.collect(8),
                lambda: trainer.learn(2),
                lambda: trainer.evaluate(1),
                lambda: trainer.record(tmp_path / "film.webp", max_frames=2),
            ):
                call()
                found.append(torch.get_num_threads())
        Trainer.load(tmp_path / "run").close()
        assert [*found, torch.get_num_threads()] == [2] * 8
    finally:
        torch.set_num_threads(before)
