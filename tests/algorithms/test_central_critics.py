"""Observations under ``central`` reach values and nothing else: critics see them, policies act without them."""

import itertools

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from rookery import ConfigError, DQNConfig, PPOConfig, SACConfig, TD3Config, Trainer, load_policy
from rookery.algorithms.on_policy.actor_critic import values_of
from rookery.core.spaces.arrays import CENTRAL, MASK
from selection import slow_repeats

NUMBER = spaces.Box(-9, 9, (2,), np.float32)


class Hidden(gymnasium.Env):
    """Shows noise to the policy and what pays to the critic, for some steps, cut off or over."""

    metadata = {"render_modes": []}

    def __init__(self, actions=3, masks=False, central=True):
        self.action_space = spaces.Discrete(actions) if actions else spaces.Box(-1, 1, (2,), np.float32)
        shown = {"number": NUMBER, "kind": spaces.Discrete(3)}
        if masks:
            shown[MASK] = spaces.MultiBinary(actions)
        if central:
            state = {"goal": spaces.Discrete(4), "place": spaces.Box(-9, 9, (3,), np.float32)}
            shown[CENTRAL] = spaces.Dict(state)
        self.observation_space = spaces.Dict(shown)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.seen(), {}

    def seen(self):
        rng = self.np_random
        shown = {"number": rng.normal(size=2).astype(np.float32), "kind": int(rng.integers(3))}
        if MASK in self.observation_space.spaces:
            mask = np.ones(self.action_space.n, dtype=np.int8)
            mask[rng.integers(self.action_space.n)] = 0
            shown[MASK] = mask
        state = {"goal": int(rng.integers(4)), "place": rng.normal(size=3).astype(np.float32)}
        self.goal = state["goal"]
        if CENTRAL in self.observation_space.spaces:
            shown[CENTRAL] = state
        return shown

    def step(self, action):
        paid, end = float(self.goal), self.np_random.random()
        return self.seen(), paid, bool(end < 0.1), bool(0.1 < end < 0.2), {}


MEMORIES = {
    "none": {},
    "lstm": {"kind": "lstm", "size": 8, "sequence_length": 5},
    "recall": {"previous_action": True, "previous_reward": True, "frame_stack": 3},
    "all": {"kind": "gru", "size": 8, "previous_reward": True, "sequence_length": 4},
}


def trainer_of(algorithm=PPOConfig, lanes=4, seed=0, memory=None, native=True, env_config=None, **settings):
    model = {"hidden": (16,), "normalize_obs": True, "native": native, "memory": memory or {}}
    length = {"fragment_length": 9} if algorithm is PPOConfig else {}
    cfg = algorithm(**{"model": model, **length, **settings})
    return Trainer(Hidden, cfg, seed=seed, config={"env.config": env_config or {}}, sampling={"num_envs": lanes})


def rollout_of(trainer):
    (rollout,) = trainer._pool.sample(1000).rollouts.values()
    return rollout


def changed(rollout, path):
    """The same rollout with other numbers in a leaf."""

    def other(name, tensor):
        if not name.endswith(path):
            return tensor
        return tensor.flip(0) if tensor.dtype == torch.int64 else tensor + 1.0

    return rollout.map(other)


@pytest.mark.parametrize(
    ("actions", "memory", "native"), slow_repeats(of=itertools.product([3, 0], MEMORIES, [True, False]))
)
def test_values_see_what_is_central_and_what_is_drawn_does_not(memory, actions, native):
    trainer = trainer_of(memory=MEMORIES[memory], native=native, env_config={"actions": actions})
    learner = trainer.learners["main"]
    trainer.train_iteration()
    assert learner.on_kernels == native, learner.obstacle
    assert learner.net.critic_trunk is not None
    rollout = rollout_of(trainer)
    for path, reaches in ((f"{CENTRAL}/place", True), (f"{CENTRAL}/goal", True), ("number", True)):
        other = changed(rollout, f"obs/{path}")
        mine, theirs = values_of(learner.forward, rollout), values_of(learner.forward, other)
        assert torch.equal(mine.value, theirs.value) is not reaches
        assert torch.equal(mine.next_value, theirs.next_value) is not reaches
        data, changed_data = learner.targets(rollout), learner.targets(other)
        drawn, drawn_then = learner.net(data).distribution, learner.net(changed_data).distribution
        same = path.startswith(CENTRAL)
        assert torch.equal(drawn.parameters, drawn_then.parameters) is same
    trainer.close()


def test_last_and_final_observations_are_valued_by_what_is_central_in_them():
    trainer = trainer_of()
    learner, rollout = trainer.learners["main"], rollout_of(trainer)
    assert len(rollout.boot_index)
    for part in ("last_obs", "final_obs"):
        other = changed(rollout, f"{part}/{CENTRAL}/place")
        mine, theirs = (values_of(learner.forward, each).next_value for each in (rollout, other))
        differs = (mine != theirs).squeeze(-1)
        wanted = torch.zeros_like(differs)
        if part == "final_obs":
            wanted[rollout.boot_index[:, 0], rollout.boot_index[:, 1]] = True
        else:
            ends = rollout.terminated | rollout.truncated
            wanted[rollout.length - 1, torch.arange(len(rollout.length))] = True
            wanted &= ~ends
        assert torch.equal(differs, wanted)


@pytest.mark.parametrize("memory", ["none", "lstm"])
def test_an_update_on_kernels_is_that_of_torch(memory):
    nets = []
    for native in (True, False):
        with trainer_of(memory=MEMORIES[memory], native=native, seed=3) as trainer:
            trainer.train_iteration()
            trainer.train_iteration()
            nets.append([weight.clone() for weight in trainer.learners["main"].net.parameters()])
    for mine, theirs in zip(*nets, strict=True):
        assert torch.allclose(mine, theirs, atol=2e-4)


def explained(trainer):
    results = list(trainer.results({"env_steps": 5_000}))
    return results[-1].policies["main"].learning["explained_variance"]


def test_only_a_central_critic_can_tell_what_nothing_else_shows():
    settings = {"gamma": 0.0, "lr": 1e-2, "normalize_values": False, "fragment_length": 64}
    with trainer_of(**settings) as central, trainer_of(env_config={"central": False}, **settings) as control:
        assert explained(central) > 0.9
        assert explained(control) < 0.1


def test_a_shared_trunk_gives_way_where_the_critic_sees_more():
    with trainer_of(model={"hidden": (8,), "shared_trunk": True}) as trainer:
        assert trainer.learners["main"].net.critic_trunk is not None
        trainer.train_iteration()


class GivesValues(torch.nn.Module):
    """Ends in values of its own."""

    def __init__(self, obs_space, action_space, num_outputs):
        super().__init__()
        self.layer = torch.nn.Linear(2, num_outputs + 1)

    def forward(self, obs):
        out = self.layer(obs["number"])
        return out[:, :-1], out[:, -1]


def test_a_model_that_gives_values_itself_is_refused():
    with pytest.raises(ConfigError, match="cannot see what the environment shows for critics alone"):
        trainer_of(model={"module": GivesValues, "output": "action_params"})


class Features(torch.nn.Module):
    """Takes all numbers of a Dict, of whatever depth."""

    def __init__(self, obs_space):
        super().__init__()
        self.num_features = 4
        self.width = sum(space.shape[0] for space in self.boxes(obs_space))
        self.layer = torch.nn.Linear(self.width, 4)

    def boxes(self, space):
        return [found for key in sorted(space) for found in self.found(space[key])]

    def found(self, part):
        if isinstance(part, spaces.Dict | dict):
            return self.boxes(part)
        return [part] if isinstance(part, spaces.Box) or getattr(part, "ndim", 1) == 2 else []

    def forward(self, obs):
        return self.layer(torch.cat(self.boxes(obs), 1))


def test_a_module_is_made_for_what_the_policy_sees_and_again_for_what_the_critic_does():
    with trainer_of(model={"module": Features}) as trainer:
        net = trainer.learners["main"].net
        assert net.policy.trunk.module.width == 2
        assert net.critic_trunk.module.width == 5
        trainer.train_iteration()


@pytest.mark.parametrize("algorithm", [SACConfig, TD3Config])
def test_critics_of_actions_see_it_too(algorithm):
    settings = {"learning_starts": 20, "batch_size": 16, "train_every": 1}
    with trainer_of(algorithm=algorithm, env_config={"actions": 0}, **settings) as trainer:
        trainer.train({"env_steps": 60})
        learner = trainer.learners["main"]
        seen = {leaf.path for leaf in learner.critics.net.networks[0].trunk.vectors}
        assert f"{CENTRAL}/place" in seen
        assert learner.on_kernels, learner.obstacle
        assert f"{CENTRAL}/place" not in {leaf.path for leaf in learner.policy.trunk.vectors}


def test_who_has_no_critic_stores_nothing_of_it():
    with trainer_of(algorithm=DQNConfig, learning_starts=20, batch_size=16) as trainer:
        trainer.train({"env_steps": 60})
        policy = trainer.policies["main"]
        assert {leaf.path for leaf in policy.obs_spec.leaves} == {"number", "kind"}
        assert trainer.learners["main"].replay.buffer.obs_spec == policy.obs_spec


@pytest.mark.parametrize(
    ("native", "memory"), slow_repeats(of=itertools.product([True, False], ["none", "all", "recall"]))
)
def test_predict_needs_nothing_that_is_central(memory, native, tmp_path):
    with trainer_of(memory=MEMORIES[memory], native=native, env_config={"masks": True}) as trainer:
        trainer.train_iteration()
        trainer.save(tmp_path / "saved")
        env = Hidden(masks=True)
        whole, _ = env.reset(seed=0)
        without = {key: value for key, value in whole.items() if key != CENTRAL}
        for policy in (trainer.policies["main"], load_policy(tmp_path / "saved")):
            reward = {"reward": 0.0} if policy.reward_column is not None else {}
            given = [policy.predict(obs, **reward) for obs in (whole, without)]
            actions = [each[0] if policy.memory_size else each for each in given]
            assert actions[0] == actions[1]
            batch = {key: np.stack([value] * 3) for key, value in without.items()}
            batched = policy.predict(batch, **reward)
            assert len(batched[0] if policy.memory_size else batched) == 3


def test_a_run_goes_on_as_if_it_had_not_stopped(tmp_path):
    def weights(trainer):
        return {name: value.clone() for name, value in trainer.learners["main"].net.state_dict().items()}

    with trainer_of(memory=MEMORIES["lstm"]) as whole:
        for _ in range(4):
            whole.train_iteration()
        wanted = weights(whole)
    with trainer_of(memory=MEMORIES["lstm"]) as first:
        for _ in range(2):
            first.train_iteration()
        first.save(tmp_path / "half")
    with Trainer.load(tmp_path / "half") as second:
        for _ in range(2):
            second.train_iteration()
        found = weights(second)
    assert all(torch.equal(found[name], value) for name, value in wanted.items())


def test_where_nothing_is_central_layouts_stay_the_objects_they_are():
    with trainer_of(env_config={"central": False}) as trainer:
        policy = trainer.policies["main"]
        assert policy.own_spec is policy.obs_spec
        assert policy.critic_spec is policy.input_spec
        assert not policy.has_central


def test_parts_of_a_layout_are_left_out_with_their_spaces():
    with trainer_of() as trainer:
        spec = trainer.policies["main"].obs_spec
    less = spec.without(f"{CENTRAL}/goal")
    assert [leaf.path for leaf in less.leaves] == [leaf.path for leaf in spec.leaves if not leaf.path.endswith("goal")]
    assert set(less.space[CENTRAL]) == {"place"}
    assert set(spec.own.space) == {"number", "kind"}
    assert spec.without("numb") is spec
    assert less.is_within(spec)
    assert spec.own.is_within(spec)
    assert not spec.is_within(less)
    assert not spec.without("number").is_within(spec)
