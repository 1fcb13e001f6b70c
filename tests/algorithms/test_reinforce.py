"""REINFORCE: that every decision of a finished episode counts once, with the reward that came after it."""

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from rookery import ReinforceConfig, Trainer
from rookery.algorithms.on_policy import reinforce
from rookery.algorithms.on_policy.reinforce import Reinforce, ReinforceBatch, reinforce_loss, rewards_to_go
from rookery.core.batch import Rollout
from rookery.core.errors import TrainingError
from rookery.core.seeding import Streams
from rookery.core.spaces.arrays import action_spec, obs_spec
from rookery.models.distributions import Categorical
from rookery.policies.policy import Policy

NUMBER, TWO = spaces.Box(-np.inf, np.inf, (1,), np.float32), spaces.Discrete(2)


def learner(cfg=None, seed=0):
    cfg = cfg or ReinforceConfig(gamma=0.5)
    generator = torch.Generator().manual_seed(seed)
    policy = Policy(obs_spec(NUMBER, TWO), action_spec(TWO), cfg.model, name="hero", generator=generator)
    subject = Reinforce(policy, cfg, Streams(seed), "hero")
    subject.batches = []

    def watched(distribution, batch, settings):
        subject.batches.append(batch)
        return reinforce_loss(distribution, batch, settings)

    subject.loss = watched
    return subject


def rollout(fragments):
    """Fragments from dicts: slot, first, and rows as text: ``"a b C d!"`` is four decisions.

    The reward of a decision is its place in the alphabet; a capital letter ended its episode, ``!`` cut it off. Its
    observation is its reward too.
    """
    T, F = max(len(f["rows"].split()) for f in fragments), len(fragments)
    reward, terminated, truncated = torch.full((T, F), torch.nan), *torch.ones(2, T, F, dtype=torch.bool)
    for f, fragment in enumerate(fragments):
        for t, word in enumerate(fragment["rows"].split()):
            reward[t, f] = ord(word[0].lower()) - ord("a") + 1
            terminated[t, f], truncated[t, f] = word[0].isupper(), word.endswith("!")
    length = torch.tensor([len(f["rows"].split()) for f in fragments])
    return Rollout(
        obs={"obs": reward.unsqueeze(-1).clone()},
        action=torch.zeros(T, F, dtype=torch.long),
        logp=torch.zeros(T, F),
        reward=reward,
        terminated=terminated,
        truncated=truncated,
        last_obs={"obs": torch.zeros(F, 1)},
        final_obs={"obs": torch.zeros(0, 1)},
        boot_index=torch.zeros(0, 2, dtype=torch.long),
        slot=torch.tensor([f.get("slot", 0) for f in fragments]),
        clock=torch.zeros(F, dtype=torch.long),
        length=length,
        first=torch.tensor([f.get("first", False) for f in fragments]),
        version=torch.zeros(F, dtype=torch.long),
    )


def seen(batch):
    """The decisions of a batch as letters."""
    return "".join(chr(int(number) + ord("a") - 1) for number in batch.obs["obs"].flatten())


# --- returns --------------------------------------------------------------------------------------------------------


def test_returns_are_discounted_to_the_end_of_the_episode_and_no_further():
    # 1 + .5 * (2 + .5 * 4) = 3, 2 + 2 = 4, 4 | 8 | 1 + .5 * 1 = 1.5, 1
    reward = torch.tensor([1.0, 2.0, 4.0, 8.0, 1.0, 1.0])
    last = torch.tensor([False, False, True, True, False, True])
    assert rewards_to_go(reward, last, gamma=0.5).tolist() == [3, 4, 4, 8, 1.5, 1]
    assert rewards_to_go(reward[:0], last[:0], gamma=0.5).tolist() == []


def test_the_loss_is_the_score_times_the_normalized_return():
    # returns 1 and 3: mean 2, deviation sqrt 2; log(1/4) and log(1/2)
    distribution = Categorical(torch.tensor([[0.25, 0.75], [0.5, 0.5]]).log())
    batch = ReinforceBatch({}, torch.tensor([0, 1]), torch.tensor([1.0, 3.0]))
    loss, metrics = reinforce_loss(distribution, batch, ReinforceConfig(entropy_coef=0.1))
    policy_loss = -(-1.386294 * -0.707107 + -0.693147 * 0.707107) / 2
    assert metrics["policy_loss"].item() == pytest.approx(policy_loss, abs=1e-5)
    assert loss.item() == pytest.approx(policy_loss - 0.1 * (0.562335 + 0.693147) / 2, abs=1e-5)
    assert metrics["return_to_go"].item() == 2.0
    plain, _ = reinforce_loss(distribution, batch, ReinforceConfig(normalize_returns=False))
    assert plain.item() == pytest.approx((1.386294 * 1 + 0.693147 * 3) / 2, abs=1e-5)


def test_one_decision_alone_keeps_its_return():
    batch = ReinforceBatch({}, torch.tensor([0]), torch.tensor([5.0]))
    loss, _ = reinforce_loss(Categorical(torch.zeros(1, 2)), batch, ReinforceConfig())
    assert loss.item() == pytest.approx(5 * 0.693147, abs=1e-5)


# --- episodes -------------------------------------------------------------------------------------------------------


def test_decisions_of_a_running_episode_wait_until_it_is_over():
    subject = learner()
    row = subject.training_step(rollout([{"rows": "a b C d e", "first": True}]))
    assert (row["finished_episodes"], row["kept_decisions"], row["stale_fraction"]) == (1, 2, 0.0)
    row = subject.training_step(rollout([{"rows": "f g"}]))
    assert (row["finished_episodes"], row["kept_decisions"], row["stale_fraction"]) == (0, 4, None)
    row = subject.training_step(rollout([{"rows": "H i"}]))
    assert (row["finished_episodes"], row["kept_decisions"], row["stale_fraction"]) == (1, 1, 0.8)
    assert [seen(batch) for batch in subject.batches] == ["abc", "defgh"]
    # 8; 7 + 4 = 11; 6 + 5.5 = 11.5; 5 + 5.75 = 10.75; 4 + 5.375 = 9.375
    assert subject.batches[1].returns.tolist() == [9.375, 10.75, 11.5, 11, 8]


def test_an_episode_that_was_cut_off_counts_as_ended():
    subject = learner()
    subject.training_step(rollout([{"rows": "a b! c", "first": True}]))
    assert seen(subject.batches[0]) == "ab"
    assert subject.batches[0].returns.tolist() == [2, 2]  # 1 + .5 * 2, and nothing for what might have come


def test_fragments_and_updates_may_cut_episodes_of_several_slots_anywhere():
    subject = learner()
    subject.training_step(rollout([{"slot": 2, "rows": "a b"}, {"slot": 0, "rows": "k"}, {"slot": 2, "rows": "c"}]))
    subject.training_step(rollout([{"slot": 0, "rows": "L m"}, {"slot": 1, "rows": "X"}, {"slot": 2, "rows": "d E f"}]))
    assert [seen(batch) for batch in subject.batches] == ["klxabcde"]
    assert seen(ReinforceBatch(subject.kept["obs"], None, None)) == "mf"
    assert subject.kept["slot"].tolist() == [0, 2]


def test_without_an_end_nothing_is_learned_and_nothing_is_lost():
    subject = learner()
    before = subject.optimizer.flat.data.clone()
    row = subject.training_step(rollout([{"rows": "a b"}]))
    assert torch.equal(subject.optimizer.flat.data, before)
    assert (row["policy_loss"], row["entropy"], row["grad_norm"], row["updates"]) == (None, None, None, 0)
    assert not subject.batches


def test_an_episode_whose_end_was_never_seen_is_dropped_and_counted():
    # its slot starts another one, so its last reward will not come any more
    subject = learner()
    subject.training_step(rollout([{"rows": "a b", "first": True}]))
    row = subject.training_step(rollout([{"rows": "x Y", "first": True}]))
    assert [seen(batch) for batch in subject.batches] == ["xy"]
    assert (row["dropped_decisions"], row["kept_decisions"], row["stale_fraction"]) == (2, 0, 0.0)


def test_what_is_kept_is_no_view_of_the_workers_memory():
    subject = learner()
    first = rollout([{"rows": "a b"}])
    subject.training_step(first)
    first.reward.fill_(99)
    first.obs["obs"].fill_(99)
    subject.training_step(rollout([{"rows": "C"}]))
    assert seen(subject.batches[0]) == "abc"
    assert subject.batches[0].returns.tolist() == [1 + 0.5 * 3.5, 3.5, 3]


def test_an_episode_without_end_is_an_error_that_says_what_to_do(monkeypatch):
    monkeypatch.setattr(reinforce, "LONGEST", 3)
    subject = learner()
    subject.training_step(rollout([{"rows": "a b c"}]))
    with pytest.raises(TrainingError, match="policy 'hero': an episode has 4 decisions and no end.*time limit.*a2c"):
        subject.training_step(rollout([{"rows": "d"}]))


def test_the_gradient_is_that_of_the_formula():
    # mean over decisions of -(G - mean) / std * grad log pi(a | s), summed here decision by decision
    subject = learner()
    subject.training_step(rollout([{"rows": "a b C", "first": True}]))
    other = learner()
    returns = torch.tensor([1 + 0.5 * 3.5, 3.5, 3.0])
    weights = (returns - returns.mean()) / (returns.std() + 1e-8)
    for number, weight in zip((1.0, 2.0, 3.0), weights, strict=True):
        logp = other.policy({"obs": torch.tensor([[number]])}).log_prob(torch.tensor([0]))
        (-weight * logp / 3).sum().backward()
    mine, theirs = (torch.cat([p.grad.flatten() for p in s.policy.parameters()]) for s in (subject, other))
    assert torch.allclose(mine, theirs, atol=1e-7)
    assert theirs.norm() > 1e-3


# --- with an environment --------------------------------------------------------------------------------------------


class Numbered(gymnasium.Env):
    """Shows its episode's seed and the step; ends, in one of both ways, after a number of steps drawn from the seed."""

    observation_space, action_space = spaces.Box(-np.inf, np.inf, (2,), np.float32), TWO

    def reset(self, *, seed=None, options=None):
        self.seed, self.t = seed % 2**20, 0
        self.length = int(np.random.default_rng(seed).integers(1, 12))
        return np.array([self.seed, 0], np.float32), {}

    def step(self, action):
        self.t += 1
        ended, cut = self.t == self.length, self.length % 3 == 0
        return np.array([self.seed, self.t], np.float32), float(self.t), ended and not cut, ended and cut, {}


@given(lanes=st.integers(1, 4), batch_size=st.integers(1, 60), seed=st.integers(0, 99))
def test_every_decision_of_a_finished_episode_is_learned_from_exactly_once(lanes, batch_size, seed):
    cfg = ReinforceConfig(rollout_size=batch_size, gamma=0.5, model={"hidden": (), "normalize_obs": False})
    with Trainer(Numbered, cfg, num_envs=lanes, seed=seed) as trainer:
        subject, found = trainer.learners["main"], {}

        def watched(distribution, batch, settings):
            for (episode, t), value in zip(batch.obs["obs"].tolist(), batch.returns.tolist(), strict=True):
                assert (episode, t) not in found
                found[episode, t] = value
            return reinforce_loss(distribution, batch, settings)

        subject.loss = watched
        while trainer.env_steps < 100:
            trainer.train_iteration()
        finished = {episode for episode, _ in found}
        kept = [(e, t) for e, t in subject.kept["obs"]["obs"].tolist()]
        assert len(found) + len(kept) == trainer._decisions["main"]
        assert not finished & {episode for episode, _ in kept}
        for episode in finished:
            values = [found[episode, t] for t in range(sum(e == episode for e, _ in found))]
            later = 0.0
            for t in reversed(range(len(values))):
                later = t + 1 + 0.5 * later
                assert values[t] == pytest.approx(later, rel=1e-6)


def test_a_learner_goes_on_from_its_saved_state_with_what_it_had_kept():
    cfg = ReinforceConfig(rollout_size=50, model={"normalize_obs": True})
    old, new = (Trainer("CartPole-v1", cfg, seed=seed, num_envs=4) for seed in (1, 2))
    for _ in range(3):
        old.train_iteration()
    mine, theirs = old.learners["main"], new.learners["main"]
    assert len(mine.kept["slot"])
    theirs.load_state_dict(mine.state_dict())
    for _ in range(2):
        (rollout,) = old._pool.sample(10_000).rollouts.values()
        for learner in (mine, theirs):
            learner.training_step(rollout)
    assert torch.equal(mine.optimizer.flat.data, theirs.optimizer.flat.data)
    assert torch.equal(mine.kept["obs"]["obs"], theirs.kept["obs"]["obs"])


def test_what_it_reports():
    with Trainer("CartPole-v1", ReinforceConfig(rollout_size=200), seed=0, num_envs=2) as trainer:
        learning = trainer.train_iteration().policies["main"].learning
    assert set(learning) == {
        "policy_loss", "entropy", "return_to_go", "grad_norm", "finished_episodes", "stale_fraction",
        "kept_decisions", "dropped_decisions", "lr", "skipped_steps", "updates",
    }  # fmt: skip
    assert learning["dropped_decisions"] == 0
