"""Learning to remember on kernels: the same as by torch, on every build that this processor can run."""

import itertools

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from rookery import A2CConfig, APPOConfig, IMPALAConfig, PPOConfig, Trainer
from rookery.core.native import SWITCH, best_build, path_name
from rookery.core.spaces.arrays import MASK, action_spec
from rookery.models.cells.table import CELLS
from rookery.native.forward import NetworkKernels
from rookery.native.ppo import SequencesCall
from rookery.run.compute import describe_path
from selection import WITHOUT_SLOW, slow, slow_repeats

UPDATES = 4 if WITHOUT_SLOW else 10
"""How many updates it is after which learners are compared."""

pytestmark = pytest.mark.usefixtures("kernels")

VECTOR = spaces.Box(-1.0, 1.0, (5,), np.float32)
ACTIONS = {
    "discrete": spaces.Discrete(3),
    "multi_discrete": spaces.MultiDiscrete([2, 5, 3]),
    "multi_binary": spaces.MultiBinary(4),
    "box": spaces.Box(-1.0, 1.0, (2,), np.float32),
    "composite": spaces.Dict(
        {"a": spaces.MultiDiscrete([2, 4]), "b": spaces.MultiBinary(3), "c": spaces.Box(-1.0, 1.0, (2,), np.float32)}
    ),
}
MEMORIES = {
    **{kind: {"kind": kind, "size": 9} for kind, cell in CELLS.items() if cell.kernel},
    "layers": {"kind": "lstm", "size": 6, "layers": 3},
    "recall": {"previous_action": True, "previous_reward": True, "frame_stack": 2},
    "recall and gru": {
        "kind": "gru", "size": 7, "layers": 2, "previous_action": True, "previous_reward": True, "frame_stack": 3,
    },
}  # fmt: skip


class Noise(gymnasium.Env):
    """Noise to look at, with a mask if there are choices to forbid; ends of both sorts lie everywhere."""

    def __init__(self, action, masked=False):
        self.action_space = action
        self.sizes = action_spec(action).sizes
        self.observation_space = VECTOR
        if masked:
            self.observation_space = spaces.Dict({"obs": VECTOR, MASK: spaces.MultiBinary(sum(self.sizes))})
        self.masked = masked

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.seen(), {}

    def seen(self):
        obs = self.np_random.uniform(-1, 1, 5).astype(np.float32)
        if not self.masked:
            return obs
        mask = (self.np_random.random(sum(self.sizes)) < 0.7).astype(np.int8)
        mask[np.cumsum((0, *self.sizes[:-1]))] = 1
        return {"obs": obs, MASK: mask}

    def step(self, action):
        end = self.np_random.random()
        return self.seen(), float(self.np_random.normal()), end < 0.07, 0.07 < end < 0.15, {}


# as in test_native_learning: with Adam's usual eps the rounding of the smallest gradients would be compared
LEARNERS = {
    "ppo": PPOConfig(fragment_length=13, epochs=2, minibatch_size=20, lr=1e-3, adam_eps=1e-3, scale_rewards=False),
    "appo": APPOConfig(
        fragment_length=13,
        rollout_size=None,
        minibatch_size=20,
        lr=1e-3,
        adam_eps=1e-3,
        scale_rewards=False,
        target_every=3,
    ),
    "impala": IMPALAConfig(fragment_length=13, rollout_size=None, lr=1e-3, adam_eps=1e-3, scale_rewards=False),
    "a2c": A2CConfig(fragment_length=13, entropy_coef=0.01, lr=1e-2, scale_rewards=False),
}


def trainer_of(memory, action="discrete", algorithm="ppo", masked=False, native=True, **settings):
    model = {"hidden": (8,), "native": native, "memory": {"sequence_length": 5, **MEMORIES[memory]}}
    cfg = LEARNERS[algorithm].replace(**{"model": model, **settings})
    arguments = {"env_config": {"action": ACTIONS[action], "masked": masked}, "num_envs": 4, "seed": 2}
    return Trainer(Noise, cfg, **arguments, config={"env.implementation": "serial"})


def weights(learner):
    return learner.optimizer.flat.data.double().clone()


def learn_alike(memory, updates=UPDATES, staleness=0, **settings):
    """Asserts that updates on kernels and in torch, on the same experience, end at the same weights."""
    with trainer_of(memory, native=False, **settings) as trainer, trainer_of(memory, **settings) as other:
        by_torch, native = trainer.learners["main"], other.learners["main"]
        by_torch.staleness = native.staleness = staleness
        start = weights(by_torch)
        assert torch.equal(weights(native), start)
        assert (native.on_kernels, by_torch.on_kernels) == (True, False)
        rng, cut = np.random.default_rng(0), 0
        for _ in range(updates):
            (rollout,) = trainer._pool.sample(1000).rollouts.values()
            rollout.logp.add_(torch.from_numpy(0.2 * rng.standard_normal(rollout.logp.shape, dtype=np.float32)))
            mine = native.training_step(rollout.map(lambda _, tensor: tensor.clone()))
            theirs = by_torch.training_step(rollout)
            for name, value in theirs.items():
                # means of uneven minibatches are weighted by rows in one and not in the other
                assert mine[name] == pytest.approx(value, rel=0.01, abs=0.005), name
            trainer._pool.set_weights(trainer.policies)
            cut += rollout.num_cut
        went = (weights(by_torch) - start).norm()
        assert went > 0.001
        assert ((weights(native) - weights(by_torch)).norm() / went).item() < 1e-5
        return cut


@pytest.mark.parametrize(("memory", "algorithm"), slow_repeats(of=itertools.product(MEMORIES, LEARNERS)))
def test_updates_are_those_of_torch(memory, algorithm):
    learn_alike(memory, algorithm=algorithm)


def test_the_loss_of_ppo_is_computed_on_kernels(monkeypatch):
    called, real = [], SequencesCall.__call__
    monkeypatch.setattr(SequencesCall, "__call__", lambda *given: called.append(1) or real(*given))
    learn_alike("lstm", updates=1)
    assert called


@pytest.mark.parametrize(
    ("action", "memory"),
    slow_repeats(of=itertools.product([name for name in ACTIONS if name != "discrete"], ["lstm", "recall and gru"])),
)
def test_updates_are_those_of_torch_for_any_actions(action, memory):
    learn_alike(memory, action=action)


@pytest.mark.parametrize("action", [slow("discrete"), "multi_discrete", "composite"])
def test_updates_are_those_of_torch_with_masks(action):
    learn_alike("scan", action=action, masked=True)


@pytest.mark.parametrize(
    "settings",
    [
        {"value_clip": 0.1}, {"kl_coef": 0.2}, {"normalize_advantage": False, "entropy_coef": 0.3},
        {"normalize_advantage": "batch"},
        {"max_grad_norm": 0.01}, {"minibatch_size": 1}, {"minibatch_size": 1000}, {"scale_rewards": True},
    ],
    ids=str,
)  # fmt: skip
def test_updates_are_those_of_torch_with_any_settings(settings):
    learn_alike("gru", updates=2 if settings.get("minibatch_size") == 1 else UPDATES, **settings)


@pytest.mark.parametrize("algorithm", LEARNERS)
def test_updates_on_partial_fragments_and_older_weights_are_those_of_torch(algorithm):
    assert learn_alike("lstm", algorithm=algorithm, staleness=1, rollout_size=100) > UPDATES


@pytest.mark.parametrize("memory", ["lstm", "recall and gru"])
def test_the_same_again_is_the_same_bit_for_bit(memory):
    found = []
    for _ in range(2):
        with trainer_of(memory) as trainer:
            for _ in range(3):
                trainer.train_iteration()
            found.append(weights(trainer.learners["main"]))
    assert torch.equal(*found)


def test_hooks_and_attention_learn_in_torch_and_the_reason_is_told(kernels):
    with trainer_of("lstm") as trainer:
        learner = trainer.learners["main"]
        assert isinstance(learner.forward.kernels, NetworkKernels)
        assert describe_path(trainer.paths["main"], learner.policy) == path_name(True)
        hook = learner.policy.memory.register_forward_hook(lambda *arguments: None)
        learner.forward.refresh()
        assert learner.forward.kernels is None
        assert describe_path("torch", learner.policy) == "torch: forward hooks"
        before = weights(learner)
        trainer.train_iteration()
        assert not torch.equal(weights(learner), before)
        hook.remove()
        learner.forward.refresh()
        assert learner.forward.kernels is not None
    attention = {"kind": "attention", "size": 8, "context": 4, "heads": 2}
    with trainer_of("lstm", model={"hidden": (8,), "memory": attention}) as trainer:
        assert trainer.learners["main"].forward.kernels is None
        assert describe_path(trainer.paths["main"], trainer.policies["main"]) == "torch: attention"
        assert trainer.train_iteration().iteration == 1


def test_without_kernels_it_learns_in_torch(monkeypatch):
    monkeypatch.setenv(SWITCH, "0")
    best_build.cache_clear()
    with trainer_of("lstm") as mine, trainer_of("lstm", native=False) as theirs:
        for trainer in (mine, theirs):
            assert trainer.learners["main"].forward.kernels is None
            assert trainer._pool.worker.policies["main"].actor is None
            trainer.train_iteration()
        assert torch.equal(weights(mine.learners["main"]), weights(theirs.learners["main"]))
