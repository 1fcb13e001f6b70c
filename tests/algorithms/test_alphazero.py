"""AlphaZero: targets, loss and window by hand, searches in the rollout, symmetries, opponents, exact resume."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from rookery import AlphaZeroConfig, Trainer
from rookery.algorithms.algorithm import BatchHook
from rookery.algorithms.model_based.alphazero import (
    NewestDecisions,
    Targets,
    alphazero_gradient,
    alphazero_loss,
)
from rookery.core.errors import ConfigError, SpaceError
from rookery.core.spaces.arrays import MASK
from rookery.models.search_head import POLICY, VALUE, Prior
from rookery.native.actor import load_policy
from rookery.rollout.searching import SearchingPolicy
from rookery.run.opponents.matches import Matches, entrant_of_run, scripted_entrant

SMALL = AlphaZeroConfig(
    fragment_length=16, rollout_size=64, minibatch_size=32, passes=1, search={"simulations": 6},
    model={"hidden": (16,)}
)  # fmt: skip


class Watched(BatchHook):
    """Keeps rollouts and minibatches."""

    def __init__(self):
        self.rollouts, self.batches = [], []

    def before_targets(self, learner, rollout, rollouts):
        self.rollouts.append(rollout.map(lambda _, tensor: tensor.clone()))
        return rollout

    def before_update(self, learner, batch):
        self.batches.append(batch)
        return batch


def tic_tac_toe(cfg=SMALL, **more):
    trainer = Trainer("TicTacToe", cfg, **{"num_envs": 4, "seed": 3, "console": "quiet", **more})
    watched = Watched()
    trainer.learners["main"].hooks.append(watched)
    return trainer, watched


def weights(trainer):
    return {name: tensor.clone() for name, tensor in trainer.policies["main"].state_dict().items()}


def test_the_loss_of_two_rows_by_hand():
    logits = torch.tensor([[0.0, 1.0, -1e8], [2.0, 0.0, 1.0]], requires_grad=True)
    value = torch.tensor([0.5, -1.0], requires_grad=True)
    policy = torch.tensor([[0.25, 0.75, 0.0], [0.0, 0.5, 0.5]])
    batch = Targets({}, policy, torch.tensor([1.0, -1.0]))
    cfg = AlphaZeroConfig(value_coef=2.0)
    loss, metrics = alphazero_loss(Prior(logits, value), batch, cfg)
    first = -(0.25 * -np.log(1 + np.e) + 0.75 * (1 - np.log(1 + np.e)))
    second = -(0.5 * (0 - np.log(np.e**2 + 1 + np.e)) + 0.5 * (1 - np.log(np.e**2 + 1 + np.e)))
    assert float(metrics["policy_loss"]) == pytest.approx((first + second) / 2, rel=1e-5)
    assert float(metrics["value_loss"]) == pytest.approx(0.125)
    assert loss.item() == pytest.approx((first + second) / 2 + 0.25, rel=1e-5)
    loss.backward()
    (by_logits, by_value), _ = alphazero_gradient(Prior(logits.detach(), value.detach()), batch, cfg)
    torch.testing.assert_close(by_logits, logits.grad)
    torch.testing.assert_close(by_value[:, 0], value.grad)


def test_the_target_of_a_value_is_the_outcome_for_the_player_that_observes():
    trainer, watched = tic_tac_toe()
    trainer.train_iteration()
    rollout, learner = watched.rollouts[0], trainer.learners["main"]
    found = learner.targets(rollout).value
    kept = torch.full_like(rollout.reward, torch.nan)
    kept[rollout.valid] = found if rollout.num_cut else found.view_as(rollout.reward)[rollout.valid]
    checked = 0
    for fragment in range(len(rollout.length)):
        outcome = None
        for step in range(int(rollout.length[fragment]) - 1, -1, -1):
            if rollout.terminated[step, fragment]:
                outcome = rollout.reward[step, fragment]
            if outcome is not None:
                assert kept[step, fragment] == outcome
                checked += 1
    assert checked > 30
    assert {-1.0, 1.0} <= {float(value) for value in kept[rollout.terminated]}


def test_rollouts_hold_the_policy_and_value_that_each_search_found():
    trainer, watched = tic_tac_toe()
    trainer.train_iteration()
    rollout = watched.rollouts[0]
    policy, value = rollout.extras[POLICY][rollout.valid], rollout.extras[VALUE][rollout.valid]
    mask, action = rollout.obs[MASK][rollout.valid].bool(), rollout.action[rollout.valid]
    assert policy.shape[1] == 9
    torch.testing.assert_close(policy.sum(1), torch.ones(len(policy)))
    assert not policy[~mask].any()
    chosen = policy.gather(1, action.unsqueeze(1)).squeeze(1)
    torch.testing.assert_close(chosen.clamp(min=1e-30).log(), rollout.logp[rollout.valid], atol=1e-4, rtol=1e-4)
    assert float(value.abs().max()) <= 1.0
    assert float(value.abs().max()) > 0.0


def test_the_searches_of_pending_decisions_stay_with_them():
    """Decisions whose reward is incomplete open the next rollout, with what their searches found."""
    trainer, watched = tic_tac_toe(SMALL.replace(rollout_size=10))
    trainer.train(stop={"env_steps": 200})
    rows = [rollout.extras[POLICY][rollout.valid] for rollout in watched.rollouts]
    torch.testing.assert_close(torch.cat(rows).sum(1), torch.ones(sum(map(len, rows))))


def test_minibatches_are_seen_under_the_symmetries_of_the_game():
    trainer, watched = tic_tac_toe()
    trainer.train_iteration()
    learner = trainer.learners["main"]
    kept = Targets(**learner.window.held)
    assert len(learner.symmetry) == 8
    known = {row.numpy().tobytes() for row in kept.obs["board"]}
    drawn = watched.batches[0]
    assert any(row.numpy().tobytes() not in known for row in drawn.obs["board"])
    taken = drawn.obs["board"].view(-1, 2, 9).sum(1) > 0
    torch.testing.assert_close(drawn.obs[MASK].bool(), ~taken)  # boards and masks turn together
    assert not drawn.policy[taken].any()
    plain, watched = tic_tac_toe(SMALL.replace(symmetries=False))
    plain.train_iteration()
    known = {row.numpy().tobytes() for row in Targets(**plain.learners["main"].window.held).obs["board"]}
    assert all(row.numpy().tobytes() in known for row in watched.batches[0].obs["board"])


def test_only_the_newest_decisions_are_kept():
    window = NewestDecisions(5)
    for start in (0, 3, 6):
        numbers = torch.arange(start, start + 3, dtype=torch.float32)
        kept = window.add(Targets({"obs": numbers.unsqueeze(1)}, numbers.unsqueeze(1), numbers))
    assert kept.value.tolist() == [4, 5, 6, 7, 8]
    assert kept.obs["obs"][:, 0].tolist() == [4, 5, 6, 7, 8]


def test_a_run_that_was_stopped_has_the_weights_of_one_that_was_not(tmp_path):
    whole, _ = tic_tac_toe()
    whole.train(stop={"env_steps": 250})
    part, _ = tic_tac_toe()
    part.train(stop={"env_steps": 100})
    saved = part.save(tmp_path / "saved")
    again = Trainer.load(saved, console="quiet")
    again.train(stop={"env_steps": 250})
    expected, found = weights(whole), weights(again)
    assert whole.env_steps == again.env_steps
    assert all(torch.equal(expected[name], found[name]) for name in expected)


def test_search_in_torch_and_on_kernels_agree():
    """The networks of both paths have equal weights, and games are the same until a rounding error decides."""
    runs = [tic_tac_toe(SMALL.replace(model={"hidden": (16,), "native": native})) for native in (True, False)]
    for trainer, _ in runs:
        trainer.train_iteration()
    one, two = (watched.rollouts[0] for _, watched in runs)
    torch.testing.assert_close(one.extras[VALUE][0], two.extras[VALUE][0], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(one.extras[POLICY][0], two.extras[POLICY][0], atol=1e-3, rtol=1e-3)


def test_snapshots_search_too():
    config = {"self_play.main": {"snapshot_every": 50, "swap_every": 50, "latest_ratio": 0.0}}
    trainer, _ = tic_tac_toe(config=config)
    trainer.train(stop={"env_steps": 200})
    stack = trainer._pool.worker.policies["main@"]
    assert stack._alone
    assert all(isinstance(one, SearchingPolicy) and one.evaluations for one in stack._alone.values())


def test_a_match_searches_and_beats_random_moves_even_without_training():
    cfg = SMALL.replace(search={"simulations": 64, "considered_actions": 9})
    trainer, _ = tic_tac_toe(cfg)
    with trainer._copies(20) as env:
        mine = entrant_of_run(trainer, env, None, "main")
        other = scripted_entrant(env, "random", "random", trainer._streams)
        games = Matches(trainer, env, [mine, other], None, 40, deterministic=True, seed=0).play()
    assert np.mean([game.score for game in games]) > 0.8


def test_without_a_game_the_policy_acts_by_its_logits(tmp_path):
    trainer, _ = tic_tac_toe()
    policy = load_policy(trainer.save(tmp_path / "saved"))
    board = {"board": np.zeros(18, np.int8), MASK: np.array([0, 1, 0, 0, 1, 0, 0, 0, 0], np.int8)}
    assert policy.predict(board) in (1, 4)
    drawn = {int(policy.predict(board, deterministic=False, rng=np.random.default_rng(seed))) for seed in range(30)}
    assert drawn == {1, 4}


def test_an_environment_of_one_agent_is_searched_by_its_states():
    config = {"env.implementation": "serial", "evaluation.max_episode_steps": 30}
    for simulations, longest in ((32, 30.0), (2, 15.0)):  # untrained weights that see far enough, or not
        cfg = SMALL.replace(search={"simulations": simulations, "low": 0.0, "high": 10.0}, gamma=0.9)
        trainer = Trainer("CartPole-v1", cfg, num_envs=1, seed=0, config=config, console="quiet")
        result = trainer.evaluate(episodes=1).return_mean
        assert result == longest if simulations == 32 else result < longest


def test_environments_without_rules_are_refused():
    with pytest.raises(ConfigError, match="needs a BoardGame .* or a Gymnasium environment with get_state"):
        Trainer("CartPole-v1", SMALL, console="quiet")
    with pytest.raises(SpaceError, match="search chooses one of several actions"):
        Trainer("Pendulum-v1", SMALL, config={"env.implementation": "serial"}, console="quiet")


@pytest.mark.slow
def test_it_learns_not_to_lose_and_without_learning_it_does():
    """All replies to a deterministic search of 16 simulations are followed, from both sides."""
    sys.path.append(str(Path(__file__).parents[2] / "benchmarks" / "studies"))
    from alphazero import reachable_losses

    cfg = AlphaZeroConfig(rollout_size=2048, minibatch_size=128, search={"simulations": 16, "considered_actions": 9})
    trained = Trainer("TicTacToe", cfg, num_envs=64, seed=0, console="quiet")
    assert reachable_losses(trained.policies["main"])[1] > 50
    trained.train(stop={"env_steps": 60_000})
    assert reachable_losses(trained.policies["main"])[1] < 10
