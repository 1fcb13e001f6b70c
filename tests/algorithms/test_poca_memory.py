"""MA-POCA with a memory: learned through time as played, passed to the critic, and none for members that have ended."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rookery import Trainer
from rookery.algorithms.multi_agent.poca import POCAConfig, poca_loss
from rookery.models.cells.base import Memory
from selection import slow, slow_except

MEMORIES = {
    "lstm": {"kind": "lstm", "size": 8},
    "two layers": {"kind": "gru", "size": 8, "layers": 2},
    "attention": {"kind": "attention", "size": 8, "heads": 2, "context": 4},
    "recall": {"previous_action": True, "previous_reward": True, "frame_stack": 3},
    "all": {"kind": "scan", "size": 8, "previous_action": True, "previous_reward": True, "frame_stack": 2},
}


class Leaving:
    """Three agents, who see noise and go at chance; their group ends with the last, or is cut off."""

    possible_agents = ["a", "b", "c"]  # noqa: RUF012
    groups = {"crew": possible_agents}  # noqa: RUF012
    observation_spaces = dict.fromkeys(possible_agents, spaces.Box(-9, 9, (2,)))
    action_spaces = dict.fromkeys(possible_agents, spaces.Discrete(3))

    def _obs(self):
        return {agent: self.rng.normal(size=2).astype(np.float32) for agent in self.alive}

    def reset(self, seed=None, options=None):
        self.rng, self.alive = np.random.default_rng(seed), list(self.possible_agents)
        return self._obs(), {}

    def step(self, actions):
        left = [agent for agent in self.alive if self.rng.random() < 0.12]
        shown = self._obs()
        self.alive = [agent for agent in self.alive if agent not in left]
        cut = bool(self.alive) and self.rng.random() < 0.06
        infos = {agent: {"group_reward": 1.0} for agent in left}
        rewards = {agent: float(self.rng.normal()) for agent in actions}
        return shown, rewards, {**dict.fromkeys(left, True), "__all__": not self.alive}, {"__all__": cut}, infos


def trainer_of(memory, lanes=2, T=13, **settings):
    model = {"hidden": (16,), "memory": {"sequence_length": 5, **memory}}
    cfg = POCAConfig(fragment_length=T, model=model, normalize_advantage=False, **settings)
    trainer = Trainer(Leaving, cfg, seed=0, num_envs=lanes)
    with torch.no_grad():
        for weight in trainer.policies["main"].head.parameters():
            weight.mul_(100.0)  # first heads are nearly blind to what they stand on
    trainer._pool.set_weights(trainer.policies)
    return trainer


def rollouts_of(trainer, number):
    found = []
    while len(found) < number:
        played = trainer._pool.sample(1000).rollouts.values()
        found += [rollout.map(lambda _, tensor: tensor.clone()) for rollout in played]
    return found


@pytest.mark.parametrize("memory", slow_except("recall", "two layers", of=list(MEMORIES)))
def test_the_learner_gives_every_decision_the_probability_with_which_it_was_played(memory):
    trainer = trainer_of(MEMORIES[memory])
    learner = trainer.learners["main"]
    for rollout in rollouts_of(trainer, 3):
        data = learner.targets(rollout)
        assert not data.acted.all() and data.logp.std() > 0.004
        with torch.no_grad():
            for batch in (data, *data.shuffled(8, np.random.default_rng(0))):
                assert torch.allclose(learner.net(batch).distribution.log_prob(batch.action), batch.logp, atol=2e-5)


@pytest.mark.parametrize("memory", slow_except("lstm", "attention", "all", of=list(MEMORIES)))
def test_values_see_what_every_member_remembers_as_step_by_step(memory):
    trainer = trainer_of(MEMORIES[memory])
    learner = trainer.learners["main"]
    policy, cut, met = learner.policy, 0, 0
    for rollout in rollouts_of(trainer, 3):
        obs, last, final = policy.sights(rollout, learner.seen)
        known = learner.features(rollout, obs, last, final)
        decided = known.decided.view(*rollout.reward.shape, *known.decided.shape[1:])
        finals = {(t, f): number for number, (t, f) in enumerate(rollout.boot_index.tolist())}
        at, of_final = {}, {}
        with torch.no_grad():
            for f in range(len(rollout.length)):
                kept = rollout.memory[0, f].clone().unsqueeze(0)
                for t in range(int(rollout.length[f])):
                    kept = policy.initial_memory(1) if rollout.begins[t, f] else kept
                    row = {path: leaf[t, f].unsqueeze(0) for path, leaf in rollout.obs.items()}
                    at[int(row["central/moment"]), int(row["central/me"])] = policy.features(row, kept)[0]
                    kept = advanced(policy, row, kept, rollout.action[t, f], rollout.reward[t, f])
                    if (t, f) in finals:
                        number = finals[t, f]
                        row = {path: leaf[number].unsqueeze(0) for path, leaf in rollout.final_obs.items()}
                        of_final[int(row["central/moment"]), int(row["central/me"])] = policy.features(row, kept)[0]
                if not bool((rollout.terminated | rollout.truncated)[t, f]):
                    row = {path: leaf[f].unsqueeze(0) for path, leaf in rollout.last_obs.items()}
                    who = int(row["central/moment"]), int(row["central/me"])
                    at.setdefault(who, policy.features(row, kept)[0])
        for table, seen, ids in (
            (at, decided.flatten(0, 1), rollout.obs),
            (at, known.last, rollout.last_obs),
            (of_final, known.final, rollout.final_obs),
        ):
            alive = ids["central/alive"].flatten(0, -2)
            for number, moment in enumerate(ids["central/moment"].flatten().tolist()):
                for mate in range(3):
                    if (moment, mate) in table and alive[number, mate]:
                        assert torch.allclose(seen[number, mate, :-1], table[moment, mate], atol=1e-5)
                        assert seen[number, mate, -1] == 1
                        met, cut = met + 1, cut + (table is of_final)
    assert cut > 3 and met > 100


def advanced(policy, row, kept, action, reward):
    """Returns the memory after a decision."""
    before, kept = kept.clone(), kept.clone()
    policy.act(row, None, True, kept)
    if policy.recall is not None:  # what was done, not what is most probable now
        stacks = policy.recall.look(row, before, policy.normalize)[1]
        policy.recall.remember(kept, stacks, action.unsqueeze(0))
    if policy.reward_column is not None:
        kept[:, policy.reward_column] += reward
    return kept


def gradients_of(learner, data):
    """Gives the loss of a batch, and its gradients by name."""
    names, weights = zip(*learner.net.named_parameters(), strict=True)
    loss, _ = poca_loss(learner.net(data), data, learner.cfg)
    found = torch.autograd.grad(loss, weights, allow_unused=True, materialize_grads=True)
    return loss, dict(zip(names, found, strict=True))


def test_the_gradient_through_time_is_that_of_single_steps():
    trainer = trainer_of(MEMORIES["lstm"])
    learner = trainer.learners["main"]
    (*_, rollout) = rollouts_of(trainer, 2)
    data = learner.targets(rollout)
    loss, at_once = gradients_of(learner, data)

    def step_by_step(obs, memory, sequences):
        x, first, length = learner.policy.trunk(obs), sequences.first, sequences.length
        number = sequences._numbers
        rows = [None] * len(x)
        for column in range(len(length)):
            kept = memory[column : column + 1]
            for step in range(int(length[column])):
                kept = torch.zeros_like(kept) if first[step, column] else kept
                row = int(number[step, column])
                rows[row], kept = learner.policy.memory.advance(x[row : row + 1], kept)
        return torch.cat(rows)

    learner.net.features = step_by_step
    other, one_by_one = gradients_of(learner, data)
    assert torch.allclose(loss, other, atol=1e-6)
    for name, gradient in at_once.items():
        assert torch.allclose(gradient, one_by_one[name], atol=2e-5), name
    assert all(gradient.abs().sum() > 0 for name, gradient in at_once.items() if "memory" in name)


def test_what_those_who_have_gone_would_remember_is_nobodys():
    trainer = trainer_of(MEMORIES["lstm"])
    learner = trainer.learners["main"]
    learner.value_scale.is_fixed = True  # else the first targets move the values before the second are made
    (*_, rollout) = rollouts_of(trainer, 2)
    gone = (rollout.obs["central/acted"] == 0) & rollout.valid.unsqueeze(-1)
    assert gone.any()
    garbage = rollout.map(lambda _, tensor: tensor.clone())
    garbage.obs["obs"].masked_fill_(gone, 7.0)
    garbage.logp.masked_fill_(gone.squeeze(-1), torch.nan)
    data, other = learner.targets(rollout), learner.targets(garbage)
    for name in ("advantage", "value_target", "value", "baseline"):
        assert torch.equal(getattr(data, name), getattr(other, name)), name
    (loss, mine), (same, theirs) = gradients_of(learner, data), gradients_of(learner, other)
    assert torch.equal(loss, same) and all(torch.equal(mine[name], theirs[name]) for name in mine)
    nobody = replace(data, acted=torch.zeros_like(data.acted))
    rows = (~data.acted).nonzero().squeeze(1)
    value = learner.net(nobody).value.index_select(0, rows)
    weights = list(learner.policy.memory.parameters())
    (gradient, *_) = torch.autograd.grad(value.sum(), weights, allow_unused=True, materialize_grads=True)
    assert not gradient.any()


class Bypass(Memory):
    """Gives what it is given, and remembers nothing."""

    def __init__(self, width):
        super().__init__()
        self.num_features, self.size = width, 16

    def advance(self, x, memory):
        return x, memory

    def forward(self, x, memory, sequences):
        return x, memory


def test_with_a_cell_that_is_bypassed_it_is_poca_without_a_memory():
    settings = {"minibatch_size": 26, "epochs": 3, "lr": 1e-3}
    plain = trainer_of({"kind": "none"}, **settings)
    other = trainer_of({"kind": "lstm", "size": 16, "sequence_length": 1}, **settings)
    one, two = plain.learners["main"], other.learners["main"]
    with torch.no_grad():
        mine = dict(two.net.named_parameters())
        for name, weight in one.net.named_parameters():
            mine[name].copy_(weight)
        for group in two.net.critic_trunk.groups:
            for weight in group.knows.parameters():
                weight.zero_().requires_grad_(False)
    two.policy.memory = Bypass(16)
    for rollout in rollouts_of(plain, 3):
        steps, fragments = rollout.reward.shape
        assert not rollout.num_cut and not rollout.reward.numel() % 26
        one.training_step(rollout)
        two.training_step(replace(rollout, memory=torch.zeros(steps, fragments, 16), memory_every=1))
    mine = dict(two.net.named_parameters())
    for name, weight in one.net.named_parameters():
        assert torch.allclose(weight, mine[name], atol=1e-6), name


def test_members_that_leave_at_their_end_are_not_valued_after_it():
    trainer = trainer_of(MEMORIES["lstm"], leave_group_at_end=True)
    learner = trainer.learners["main"]
    data = learner.targets(rollouts_of(trainer, 1)[0])
    assert not data.acted.all() and data.sequences is not None
    outputs = learner.net(data)
    _, metrics = poca_loss(outputs, data, learner.cfg)
    error = (outputs.value - data.value_target)[data.acted].square().mean()
    assert metrics["value_loss"].item() == pytest.approx(error.item())


class Answers:
    """Two agents see a sign each, at first; in the third step a must name the opposite of its own and goes, in the
    fourth b must name its own. Their group earns half for each that was right, when b has gone.
    """

    possible_agents = ["a", "b"]  # noqa: RUF012
    groups = {"pair": possible_agents}  # noqa: RUF012
    observation_spaces = dict.fromkeys(possible_agents, spaces.Box(-1, 1, (2,)))
    action_spaces = dict.fromkeys(possible_agents, spaces.Discrete(2))

    def _obs(self):
        shown = self.signs if self.t == 0 else {"a": 0, "b": 0}
        return {agent: np.float32([shown[agent], self.t / 3]) for agent in ("ab" if self.t < 4 else "b")}

    def reset(self, seed=None, options=None):
        rng = np.random.default_rng(seed)
        self.t, self.right = 0, 0.0
        self.signs = {agent: 2 * int(rng.integers(2)) - 1 for agent in "ab"}
        return self._obs(), {}

    def step(self, actions):
        answers = {2: "a", 3: "b"}.get(self.t)
        if answers is not None:
            wanted = -self.signs["a"] if answers == "a" else self.signs["b"]
            self.right += 0.5 * (2 * int(actions[answers]) - 1 == wanted)
        self.t += 1
        over = self.t == 4
        shown = self._obs() if self.t <= 3 else {"b": np.zeros(2, np.float32)}
        shown = {agent: one for agent, one in shown.items() if agent in actions}
        ends = {answers: True} if answers else {}
        infos = {"b": {"group_reward": self.right}} if over else {}
        return shown, dict.fromkeys(actions, 0.0), {**ends, "__all__": over}, {"__all__": False}, infos


@pytest.mark.slow
def test_who_remembers_and_goes_is_credited_for_it_later():
    def score(kind, **more):
        model = {"hidden": (16,), "memory": {"kind": kind, "size": 16, "sequence_length": 8}}
        cfg = POCAConfig(lr=3e-3, fragment_length=16, minibatch_size=128, epochs=4, model=model, **more)
        with Trainer(Answers, cfg, num_envs=16, seed=0) as run:
            run.train({"decisions": 20_000})
            return run.evaluate(episodes=100).return_mean

    assert score("lstm") >= 0.95
    assert score("none") <= 0.75  # no sign is seen when it is to be named
    assert score("lstm", leave_group_at_end=True) <= 0.75  # no reward reaches a


@pytest.mark.parametrize("memory", [slow("lstm"), "all"])
def test_a_run_that_was_killed_goes_on_as_if_it_had_not(memory, tmp_path):
    model = {"hidden": (16,), "memory": {"sequence_length": 5, **MEMORIES[memory]}, "normalize_obs": True}
    cfg = POCAConfig(fragment_length=13, minibatch_size=32, epochs=1, model=model)
    settings = {"num_envs": 2, "seed": 1, "config": {"logging.console": "quiet"}}
    with Trainer(Leaving, cfg, **settings) as through:
        through.train({"iterations": 3})
        wanted = through.learners["main"].optimizer.flat.data.clone()
    with Trainer(Leaving, cfg, **settings, run_dir=tmp_path / "run") as one:
        one.train({"iterations": 2})
        one.save()
    with Trainer.load(tmp_path / "run", env=Leaving) as other:
        other.train({"iterations": 3})
        assert torch.equal(other.learners["main"].optimizer.flat.data, wanted)
