"""MADDPG: what its critic and its actors learn from, redone by hand."""

import numpy as np
import torch
from gymnasium import spaces
from team_learners import MASKED, NUMBERS, REACH, THREE, TWO, drawn, learner, team

from rookery.algorithms.multi_agent.maddpg import ActorRows, MADDPGConfig, actor_loss
from rookery.algorithms.off_policy.critics import StateAction
from rookery.core.spaces.arrays import MASK
from rookery.core.spaces.team_spaces import ALIVE
from rookery.models.distributions import MASKED_LOGIT
from rookery.models.team_heads import TeamActions, member_columns, relaxed_action

MIXED = team((NUMBERS, REACH), (MASKED, THREE), (NUMBERS, TWO))
SMALL = {"model": {"hidden": (16,)}, "learning_starts": 0, "batch_size": 8}


def stirred(one):
    """Target and learner differ, and no layer is blind."""
    with torch.no_grad():
        nets = one.policy, one.actor_target, one.critics, one.critic_target
        for index, net in enumerate(nets):
            generator = torch.Generator().manual_seed(index)
            for weight in net.parameters():
                weight.copy_(0.6 * torch.randn(weight.shape, generator=generator))
    return one


def test_critics_take_choices_as_flags_then_numbers():
    action = MIXED[1]
    stored = torch.tensor([[2.0, 1.0, 0.25, -0.5]])  # choices of the second and third member, numbers of the first
    assert relaxed_action(action, stored).tolist() == [[0, 0, 1, 0, 1, 0.25, -0.5]]
    assert member_columns(action) == [slice(5, 7), slice(0, 3), slice(3, 5)]
    assert action.to_env(stored.numpy())[0]["1"] == 2
    assert action.to_env(stored.numpy())[0]["0"].tolist() == [0.25, -0.5]


def test_a_straight_through_choice_is_a_flag_with_the_gradient_of_the_softmax():
    logits = torch.tensor([[1.0, 0.0, -1.0]], requires_grad=True)
    acts = TeamActions(logits, torch.zeros(1, 0), (3,), torch.tensor(0.0))
    even = torch.tensor([[0.2, 0.9, 0.5]])
    weight = torch.tensor([3.0, -1.0, 2.0])
    hard = acts.relaxed(even)
    scores = logits.detach() - torch.log(-torch.log(even))
    assert hard.detach().round().tolist() == torch.eye(3)[scores.argmax(1)].tolist()
    (found,) = torch.autograd.grad((hard * weight).sum(), logits)
    p = torch.softmax(scores, 1)[0]
    by_hand = p * (weight - (p * weight).sum())
    assert torch.allclose(found[0], by_hand, atol=1e-6)


def test_choices_are_drawn_by_their_probabilities_and_never_a_forbidden_one():
    logits = torch.tensor([1.0, MASKED_LOGIT, 0.0]).expand(20_000, 3)
    acts = TeamActions(logits, torch.zeros(20_000, 0), (3,), torch.tensor(0.0))
    noise = torch.from_numpy(np.random.default_rng(0).random((20_000, 3), dtype=np.float32))
    drawn_choices = acts.sample(noise)[:, 0]
    share = torch.bincount(drawn_choices.long(), minlength=3) / 20_000
    assert share[1] == 0
    assert abs(share[0].item() - 1 / (1 + np.exp(-1.0))) < 0.015


def test_targets_are_the_target_critics_values_of_what_the_target_actors_would_do():
    one, rows = stirred(learner(MADDPGConfig(**SMALL), MIXED)), drawn(MIXED)
    with torch.no_grad():
        acts = one.actor_target.head(one.actor_target.trunk(rows.next_obs), rows.next_obs[MASK])
        alive = rows.next_obs[ALIVE]
        following = torch.zeros(len(rows), 7)
        for row in range(len(rows)):
            if alive[row, 1]:
                following[row, acts.logits[row, :3].argmax()] = 1.0
            if alive[row, 2]:
                following[row, 3 + acts.logits[row, 3:].argmax()] = 1.0
            if alive[row, 0]:
                following[row, 5:] = acts.numbers[row]
        value = one.critic_target(StateAction(rows.next_obs, following))[0]
    assert torch.allclose(one.target(rows), rows.reward + rows.discount * value, atol=1e-5)
    flags = rows.next_obs[MASK][torch.arange(len(rows)), following[:, :3].argmax(1)]
    assert flags[alive[:, 1] > 0].all()


def test_each_actor_learns_by_its_own_action_with_those_of_others_as_they_were_played():
    one, rows = stirred(learner(MADDPGConfig(logit_coef=0.0, **SMALL), MIXED)), drawn(MIXED, alive=1.0)
    even = torch.full((len(rows), 5), 0.5)
    batch = ActorRows(rows.obs, one.critic_actions(rows.action, rows.obs), even)
    loss, _ = actor_loss(one.actor(batch), batch, one.now())
    found = torch.autograd.grad(loss, list(one.policy.parameters()))
    acts = one.policy.head(one.policy.trunk(rows.obs), rows.obs[MASK])
    fresh, total = acts.relaxed(even), 0.0
    for columns in member_columns(MIXED[1]):
        mine = batch.action.clone()
        mine[:, columns] = fresh[:, columns]
        total = total - one.critics(StateAction(rows.obs, mine))[0].mean() / 3
    by_hand = torch.autograd.grad(total, list(one.policy.parameters()))
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(found, by_hand, strict=True))


def test_a_member_that_does_not_act_teaches_its_actor_nothing():
    one, rows = stirred(learner(MADDPGConfig(logit_coef=0.0, **SMALL), MIXED)), drawn(MIXED, alive=0.0)
    batch = ActorRows(rows.obs, one.critic_actions(rows.action, rows.obs), torch.full((len(rows), 5), 0.5))
    loss, _ = actor_loss(one.actor(batch), batch, one.now())
    loss.backward()
    gradients = [sum(p.grad.abs().sum().item() for p in net.parameters()) for net in one.policy.trunk.networks]
    assert gradients[0] > 0
    assert gradients[1:] == [0.0, 0.0]


def test_actors_see_what_their_member_sees_and_the_critic_sees_all():
    one, rows = stirred(learner(MADDPGConfig(**SMALL), MIXED)), drawn(MIXED)
    other = {**rows.obs, "2": rows.obs["2"] + 1.0}
    with torch.no_grad():
        before, after = (one.policy.head(one.policy.trunk(obs)) for obs in (rows.obs, other))
        assert torch.equal(before.numbers, after.numbers)
        assert torch.equal(before.logits[:, :3], after.logits[:, :3])
        assert not torch.equal(before.logits[:, 3:], after.logits[:, 3:])
        action = one.critic_actions(rows.action, rows.obs)
        judged = [one.critics(StateAction(obs, action)) for obs in (rows.obs, other)]
    assert not torch.allclose(*judged)


def test_a_gradient_step_moves_actors_critics_and_their_targets():
    one = learner(MADDPGConfig(critic={"number": 2, "norm": "layer"}, **SMALL), MIXED)
    rows = drawn(MIXED)
    one.replay.sample = lambda *args, **kwargs: rows
    nets = {"policy": one.policy, "actor": one.actor_target, "critics": one.critics, "target": one.critic_target}
    before = {name: [p.detach().clone() for p in net.parameters()] for name, net in nets.items()}
    one.learn(1)
    for name, net in nets.items():
        assert any(not torch.equal(a, b) for a, b in zip(before[name], net.parameters(), strict=True)), name


def test_each_member_learns_the_best_answer_to_what_the_other_was_seen_doing():
    """The reward is how near the sum of two numbers is to 0.5; in what is learned from the other's is 0 on average,
    so that each finds 0.5.
    """
    here = spaces.Box(-1.0, 1.0, (1,), np.float32)
    specs = team((here, here), (here, here))
    one = learner(MADDPGConfig(**{**SMALL, "lr": 1e-2, "model": {"hidden": (32,)}}), specs)
    cfg, rows = one.now(), drawn(specs, rows=200, alive=1.0)
    rows = type(rows)(**{**vars(rows), "reward": -(rows.action.sum(1) - 0.5).square(), "discount": torch.zeros(200)})
    for _ in range(200):
        one.learn_critic(rows, cfg)
    for _ in range(60):
        one.learn_actors(rows, cfg)
    with torch.no_grad():
        action, _ = one.policy.act(rows.obs, None, deterministic=True)
    assert torch.allclose(action.mean(0), torch.tensor(0.5), atol=0.2), action.mean(0)
