"""VDN and QMIX: what a team's value is made of, redone by hand."""

import numpy as np
import pytest
import torch
from team_learners import MASKED, NUMBERS, THREE, TWO, drawn, learner, team

from rookery.algorithms.multi_agent.qmix import QMIXConfig
from rookery.algorithms.multi_agent.vdn import VDNConfig
from rookery.algorithms.off_policy.q_values import QBatch
from rookery.core.batch import Sequences, Transitions
from rookery.core.spaces.arrays import MASK
from rookery.core.spaces.team_spaces import ALIVE
from rookery.models.build import ModelConfig
from rookery.models.memory import MemoryConfig
from rookery.models.mixers import MonotonicMixer, state_spec
from rookery.policies.policy import Policy

MIXED = team((NUMBERS, TWO), (MASKED, THREE), (NUMBERS, TWO))
SMALL = {"model": {"hidden": (16,)}, "learning_starts": 0, "batch_size": 8}


def stirred(learner):
    """The two networks differ, and no layer is blind."""
    with torch.no_grad():
        for index, net in enumerate((learner.net, learner.target_net)):
            generator = torch.Generator().manual_seed(index)
            for weight in net.parameters():
                weight.copy_(0.6 * torch.randn(weight.shape, generator=generator))
    return learner


def values(net, obs):
    with torch.no_grad():
        return net.value(obs).numpy()


# --- mixing -----------------------------------------------------------------------------------------------------------


def mixer(members=3, width=5, hidden=7, seed=0):
    state = state_spec(MIXED[0])
    made = MonotonicMixer(
        members, state, ModelConfig(), width=width, hidden=hidden, generator=torch.Generator().manual_seed(seed)
    )
    with torch.no_grad():
        for weight in made.parameters():
            weight.copy_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(weight.numel())))
    return made


@pytest.mark.parametrize("hidden", [0, 7])
def test_the_mixed_value_never_falls_when_a_members_value_rises(hidden):
    obs = drawn(MIXED, rows=200).obs
    q = torch.randn(200, 3, generator=torch.Generator().manual_seed(1), requires_grad=True)
    made = mixer(hidden=hidden)
    (gradient,) = torch.autograd.grad(made(q, obs).sum(), q)
    assert (gradient >= 0).all()
    assert (gradient > 1e-3).float().mean() > 0.9
    weights = made.first(made.state(obs))
    assert (weights < 0).any(), "what is taken the size of is negative somewhere, else nothing was tested"


def test_the_mixer_is_two_layers_of_sizes_with_an_elu_and_a_value_of_the_state():
    obs, made = drawn(MIXED, rows=6).obs, mixer()
    q = torch.randn(6, 3, generator=torch.Generator().manual_seed(2))
    state = torch.cat([obs["0"], obs["1/number"], obs["2"], obs[ALIVE].float()], 1).numpy()

    def layer(part, x):
        return x @ part.weight.detach().numpy().T + part.bias.detach().numpy()

    def two(part, x):
        return layer(part[2], np.maximum(layer(part[0], x), 0))

    found = []
    for row in range(6):
        one = state[row]
        first = np.abs(two(made.first, one)).reshape(3, 5)
        between = q[row].numpy() @ first + layer(made.first_bias, one)
        between = np.where(between > 0, between, np.expm1(between))
        found.append(between @ np.abs(two(made.second, one)) + two(made.value, one)[0])
    assert np.allclose(made(q, obs).detach().numpy(), found, rtol=1e-4, atol=1e-4)


def test_qmix_that_mixes_by_the_identity_is_vdn():
    made = mixer(width=3, hidden=0)
    with torch.no_grad():
        for weight in made.parameters():
            weight.zero_()
        made.first.bias.copy_(torch.eye(3).flatten())
        made.second.bias.fill_(-1.0)  # its size counts
    q = torch.rand(30, 3, generator=torch.Generator().manual_seed(3))  # above 0, where an ELU changes nothing
    assert torch.allclose(made(q, drawn(MIXED, rows=30).obs), q.sum(1), atol=1e-6)


def test_the_state_is_what_is_for_critics_alone_where_there_is_such_a_thing():
    from gymnasium import spaces

    seen = spaces.Dict({"own": NUMBERS, "central": spaces.Dict({"all": spaces.MultiBinary(4)})})
    obs, _ = team((seen, TWO), (seen, TWO))
    assert [leaf.path for leaf in state_spec(obs).leaves] == ["central/all"]
    assert [leaf.path for leaf in state_spec(MIXED[0]).leaves] == ["0", "1/number", "2", "alive"]


# --- targets ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("double", [True, False])
def test_targets_sum_what_the_best_allowed_action_of_each_living_member_is_worth(double):
    """Row by row and member by member: the mask holds where actions are chosen, who does not act is worth nothing."""
    vdn = stirred(learner(VDNConfig(double=double, **SMALL), MIXED))
    rows = drawn(MIXED)
    mine, its = values(vdn.net, rows.next_obs), values(vdn.target_net, rows.next_obs)
    mask, alive = rows.next_obs[MASK].numpy(), rows.next_obs[ALIVE].numpy()
    starts = np.cumsum([0, *MIXED[1].sizes])
    found, unmasked = [], []
    for row in range(len(rows)):
        total = free = 0.0
        for member, size in enumerate(MIXED[1].sizes):
            chooser = (mine if double else its)[row, member, :size]
            flags = mask[row, starts[member] : starts[member + 1]]
            allowed = [action for action in range(size) if flags[action]]
            best = max(allowed, key=lambda action: chooser[action])
            total += its[row, member, best] * alive[row, member]
            free += its[row, member, chooser.argmax()]
        found.append(rows.reward[row].item() + rows.discount[row].item() * total)
        unmasked.append(rows.reward[row].item() + rows.discount[row].item() * free)
    target = vdn.targets(rows, vdn.now()).target
    assert np.allclose(target, found, atol=1e-5)
    assert not np.allclose(target, unmasked, atol=1e-2)


def test_double_q_takes_the_targets_value_of_what_the_learner_would_choose():
    """By hand: the learner prefers action 1 of each member, the target network values it 2 and 30, its own best 5."""
    vdn = learner(VDNConfig(**SMALL), team((NUMBERS, TWO), (NUMBERS, TWO)))
    mine = torch.tensor([[[0.0, 1.0], [0.0, 1.0]]])
    its = torch.tensor([[[5.0, 2.0], [5.0, 30.0]]])
    both = {ALIVE: torch.ones(1, 2, dtype=torch.uint8)}
    reward, discount = torch.tensor([1.0]), torch.tensor([0.5])
    assert vdn.target(reward, discount, its, mine, both).item() == 1.0 + 0.5 * (2.0 + 30.0)
    assert vdn.target(reward, discount, its, its, both).item() == 1.0 + 0.5 * (5.0 + 30.0)
    one = {ALIVE: torch.tensor([[1, 0]], dtype=torch.uint8)}
    assert vdn.target(reward, discount, its, mine, one).item() == 1.0 + 0.5 * 2.0


def test_nothing_is_learned_from_what_a_member_is_said_to_do_that_does_not_act():
    vdn = stirred(learner(VDNConfig(share=False, **SMALL), MIXED))
    rows = drawn(MIXED, alive=0.0)  # only the first member acts
    batch = QBatch(rows.obs, rows.action, rows.reward)
    value = vdn.net(batch)
    value.sum().backward()
    gradients = [sum(p.grad.abs().sum().item() for p in part.parameters()) for part in vdn.net.trunk.networks]
    assert gradients[0] > 0
    assert gradients[1:] == [0.0, 0.0]
    other = rows.action.clone()
    other[:, 1:] = 1 - other[:, 1:].clamp(max=1)
    assert torch.equal(vdn.net(QBatch(rows.obs, other, rows.reward)), value)


@pytest.mark.parametrize("share", [True, False])
def test_members_that_are_alike_share_a_network_that_knows_them_apart(share):
    vdn = stirred(learner(VDNConfig(share=share, **SMALL), MIXED))
    assert len(vdn.net.trunk.networks) == (2 if share else 3)
    obs = drawn(MIXED).obs
    same = values(vdn.net, {**obs, "2": obs["0"]})
    assert not np.allclose(same[:, 0], same[:, 2])
    assert (same[:, 0, 2] == 0).all()  # no such action


def test_no_members_values_depend_on_what_another_sees():
    vdn = stirred(learner(VDNConfig(**SMALL), MIXED))
    obs = drawn(MIXED).obs
    before, after = values(vdn.net, obs), values(vdn.net, {**obs, "1/number": obs["1/number"] + 1.0})
    assert (before[:, [0, 2]] == after[:, [0, 2]]).all()
    assert (before[:, 1] != after[:, 1]).any()


def test_what_is_played_is_allowed_and_each_member_explores_by_numbers_of_its_own():
    vdn = stirred(learner(VDNConfig(**SMALL), MIXED))
    rows, rng = drawn(MIXED, rows=500), np.random.default_rng(0)
    head, starts = vdn.policy.head, np.cumsum([0, *MIXED[1].sizes])
    head.epsilon.fill_(0.5)
    noise = torch.from_numpy(rng.random((500, head.noise.width), dtype=np.float32))
    with torch.no_grad():
        action, logp = vdn.policy.act(rows.obs, noise)
        greedy, _ = vdn.policy.act(rows.obs, None, deterministic=True)
    for member in range(3):
        flags = rows.obs[MASK][torch.arange(500), starts[member] + action[:, member].long()]
        assert flags.all()
    strays = (action != greedy).float()
    assert 0.1 < strays[:, 0].mean() < 0.4
    assert abs(np.corrcoef(strays[:, 0], strays[:, 2])[0, 1]) < 0.15
    assert (logp <= 0).all()
    assert (logp[strays.any(1)] < 0).all()


# --- memory -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_members_remember_along_a_sequence_as_step_by_step(kind):
    model = ModelConfig(hidden=(8,), memory=MemoryConfig(kind=kind, size=6, previous_action=True))
    policy = Policy(*MIXED, model, generator=torch.Generator().manual_seed(0), head=VDNConfig().head)
    memory = policy.memory
    x = torch.randn(5, memory.num_members * 8, generator=torch.Generator().manual_seed(1))
    first = torch.tensor([[True], [False], [False], [True], [False]])
    with torch.no_grad():
        along, after = memory(x, torch.zeros(1, memory.size), Sequences(first, torch.tensor([5]), None))
        kept, steps = torch.zeros(1, memory.size), []
        for t in range(5):
            kept = torch.zeros_like(kept) if first[t] else kept
            features, kept = memory.advance(x[t : t + 1], kept)
            steps.append(features)
    assert torch.allclose(along, torch.cat(steps), atol=1e-6)
    assert torch.allclose(after, kept, atol=1e-6)


# --- the two-step game ------------------------------------------------------------------------------------------------

PAID = {1: [[7.0, 7.0], [7.0, 7.0]], 2: [[0.0, 1.0], [1.0, 8.0]]}


def whole_game():
    """Every decision there is in the two-step game, once."""
    rows = [(0, a, b, 0.0, 1 + a) for a in (0, 1) for b in (0, 1)]
    rows += [(state, a, b, PAID[state][a][b], None) for state in (1, 2) for a in (0, 1) for b in (0, 1)]

    def seen(states):
        each = torch.eye(3)[states]
        return {"0": each, "1": each, ALIVE: torch.ones(len(states), 2, dtype=torch.uint8)}

    return Transitions(
        seen([row[0] for row in rows]),
        torch.tensor([[float(row[1]), float(row[2])] for row in rows]),
        torch.tensor([row[3] for row in rows]),
        seen([row[4] or 0 for row in rows]),
        torch.tensor([0.0 if row[4] is None else 1.0 for row in rows]),
        None,
        torch.arange(len(rows)),
    )


@pytest.mark.parametrize(("cfg", "game", "worth"), [(QMIXConfig, 1, 8.0), (VDNConfig, 0, 7.0)])
def test_of_the_whole_two_step_game_qmix_learns_to_earn_8_and_vdn_7(cfg, game, worth):
    """VDN is the control: sums cannot tell the second game, so it plays the first."""
    from gymnasium import spaces

    sight = spaces.Box(0.0, 1.0, (3,), np.float32)
    specs = team((sight, TWO), (sight, TWO))
    one = learner(cfg(**{**SMALL, "lr": 1e-2, "target": {"every": 20}, "model": {"hidden": (32,)}}), specs)
    table = whole_game()
    one.replay.sample = lambda *args, **kwargs: table
    one.learn(250)
    with torch.no_grad():
        best, _ = one.policy.act(table.obs, None, deterministic=True)
    played = {int(torch.argmax(table.obs["0"][row])): best[row].long().tolist() for row in range(12)}
    assert played[0][0] == game
    first, second = played[1 + game]
    assert PAID[1 + game][first][second] == worth


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_what_is_for_critics_alone_reaches_the_mixer_and_no_member():
    from gymnasium import spaces

    seen = spaces.Dict({"own": NUMBERS, "central": spaces.Dict({"all": spaces.Box(-9, 9, (3,))})})
    specs = team((seen, TWO), (seen, TWO))
    one = stirred(learner(QMIXConfig(**SMALL), specs))
    rows = drawn(specs)
    batch = QBatch(rows.obs, rows.action, rows.reward)
    other = QBatch({**rows.obs, "central/all": rows.obs["central/all"] + 1.0}, rows.action, rows.reward)
    assert (values(one.net, batch.obs) == values(one.net, other.obs)).all()
    assert not torch.allclose(one.net(batch), one.net(other))
