"""Rules: each finds its fault in rows, and is silent on those of runs that learn."""

from __future__ import annotations

import pytest

from rookery.report.finding import Finding
from rookery.run.findings.catalog import RULES
from rookery.run.findings.diagnose import LIVE_RULES, findings_of, findings_of_rows
from rookery.run.findings.window import PAST, Window, windows_of

PPO = {
    "algorithm.gamma": 0.99, "algorithm.lr": 3e-4, "algorithm.max_grad_norm": 0.5, "algorithm.minibatch_size": 64,
    "algorithm.normalize_values": True, "algorithm.scale_rewards": False, "stop.env_steps": 20_000,
}  # fmt: skip
DQN = {
    "algorithm.gamma": 0.99, "algorithm.lr": 3e-4, "algorithm.max_grad_norm": 10.0, "algorithm.learning_starts": 1000,
    "algorithm.batch_size": 64, "algorithm.replay.capacity": 100_000, "stop.env_steps": 20_000,
}  # fmt: skip
ON_POLICY = {
    "policy_loss": 0.0, "kl": 0.01, "clip_fraction": 0.1, "entropy": 0.6, "explained_variance": 0.5, "value_loss": 1.0,
    "grad_norm": 0.4, "lr": 3e-4, "skipped_steps": 0, "valid_rows": 200,
}  # fmt: skip
OFF_POLICY = {"gradient_steps": 100, "q_mean": 10.0, "grad_norm": 2.0, "epsilon": 0.05, "skipped_steps": 0, "lr": 3e-4}


def rows(count=60, returns=lambda n: 20.0, learning=ON_POLICY, run=None, **columns):
    """Rows of a run; a column is a number, or a function of the iteration."""

    def value(of, n):
        return of(n) if callable(of) else of

    made = []
    for n in range(1, count + 1):
        mean = returns(n)
        row = {
            "iteration": n, "env_steps": 200 * n, "episodes": 10 * n, "return_mean": mean,
            "return_min": None if mean is None else mean - 10, "return_max": None if mean is None else mean + 10,
            "length_mean": 20.0, "running_length": 10.0, "agents/agent/return_mean": mean,
            "policies/main/return_mean": mean, "policies/main/decisions": 200 * n,
        }  # fmt: skip
        row |= {f"policies/main/{key}": value(of, n) for key, of in (learning | columns).items()}
        row |= {key: value(of, n) for key, of in (run or {}).items()}
        made.append(row)
    return made


def rules_of(made, settings=PPO, counted=True):
    found = findings_of(windows_of(made), settings)
    return [one.rule for one in found if one.counts or not counted]


def rising(n):
    return 20.0 + n


FAULTS = {
    "entropy-collapsed": (PPO, rows(entropy=lambda n: 0.69 * 0.8**n)),
    "entropy-stuck": (PPO, rows(entropy=0.693)),
    "entropy-dominates": (PPO | {"algorithm.entropy_coef": 1.0}, rows(returns=rising, policy_loss=0.01)),
    "kl-out-of-range": (PPO, rows(kl=0.4)),
    "clip-fraction-out-of-range": (PPO, rows(clip_fraction=0.7)),
    "gradient-clipped": (PPO, rows(grad_norm=40.0)),
    "steps-skipped": (PPO, rows(returns=rising, skipped_steps=lambda n: max(n - 55, 0))),
    "schedule-short": (
        PPO | {"algorithm.lr": {"start": 1e-3, "end": 0.0, "steps": 60}, "stop.env_steps": 12_000},
        rows(returns=rising, updates=lambda n: n),
    ),
    "lr-exhausted": (PPO, rows(returns=rising, lr=lambda n: max(30 - n, 0) * 1e-5)),
    "lr-out-of-range": (PPO | {"algorithm.lr": 1.0}, rows()),
    "minibatch-misfit": (PPO | {"algorithm.minibatch_size": 4096}, rows()),
    "critic-explains-nothing": (PPO, rows(explained_variance=-0.2)),
    "reward-scale": (
        PPO | {"algorithm.normalize_values": False},
        rows(run={"return_mean": -1e6, "return_min": -2e6, "return_max": -5e5}),
    ),
    "q-diverging": (DQN, rows(learning=OFF_POLICY, q_mean=lambda n: 10.0 * 1.3**n)),
    "gamma-zero": (PPO | {"algorithm.gamma": 0.0}, rows()),
    "horizon-beyond-gamma": (PPO | {"algorithm.gamma": 0.9}, rows(run={"length_mean": 400.0})),
    "gamma-one": (PPO | {"algorithm.gamma": 1.0}, rows(run={"length_mean": 400.0})),
    "temperature-growing": (DQN, rows(learning={"q_mean": 1.0}, alpha=lambda n: 1.2**n)),
    "target-entropy-unreachable": (
        DQN | {"algorithm.target_entropy": 3.0},
        rows(returns=rising, learning={"entropy": 2.05}, alpha=lambda n: 1.0 + 0.1 * n),
    ),
    "reward-constant": (PPO, rows(run={"return_min": 20.0, "return_max": 20.0})),
    "reward-missing": (
        PPO,
        rows(returns=lambda n: 0.0, run={"return_min": 0.0, "return_max": 0.0}),
    ),
    "return-falling": (PPO, rows(returns=lambda n: 20.0 + 5 * min(n, 60 - n))),
    "episodes-endless": (
        PPO,
        rows(60, lambda n: None, run={"episodes": 0, "running_length": 6000.0, "length_mean": None}),
    ),
    "replay-young": (
        DQN | {"algorithm.learning_starts": 50_000},
        rows(learning={"epsilon": 0.05}, gradient_steps=0, valid_rows=4),
    ),
    "replay-small": (DQN | {"algorithm.replay.capacity": 200}, rows(learning=OFF_POLICY)),
    "epsilon-stuck": (DQN, rows(learning=OFF_POLICY, returns=rising, epsilon=0.9)),
    "evaluation-below-training": (
        PPO,
        rows(
            returns=rising,
            run={"evaluation/return_mean": -30.0, "evaluation/return_low": -40.0, "evaluation/return_high": -20.0},
        ),
    ),
    "episodes-shrink": (PPO, rows(run={"length_mean": lambda n: 20.0 if n < 5 else 1.0})),
    "episodes-short": (PPO, rows(run={"length_mean": 1.0})),
    "few-updates": (PPO, rows(2, rising, run={"env_steps": lambda n: 16_000 * n}, updates=lambda n: n)),
    "setting-out-of-range": (PPO | {"algorithm.gae_lambda": 0.0, "algorithm.value_coef": 0.0}, rows()),
    "target-stays": (DQN | {"algorithm.target.every": 10_000}, rows(learning=OFF_POLICY)),
    "policy-unmapped": (PPO | {"policies.main.gamma": 0.99, "policies.other.gamma": 0.99}, rows(returns=rising)),
}


@pytest.mark.parametrize("rule", FAULTS)
def test_a_fault_is_found(rule):
    settings, made = FAULTS[rule]
    assert rule in rules_of(made, settings)
    assert rule not in [one.rule for one in findings_of(windows_of(made), settings, ignored=[rule])]


def test_every_rule_on_rows_has_a_fault_here_and_is_in_the_catalog():
    there = {name for name, text in RULES.items() if text.source == "rows"}
    assert there - {"evaluation-above-training"} == FAULTS.keys()
    assert {rule.name for rule in LIVE_RULES} <= RULES.keys()
    assert len(RULES) >= 28


@pytest.mark.parametrize(
    ("name", "value"),
    [("gae_lambda", 0.0), ("value_coef", 0), ("entropy_coef", 1.0), ("max_grad_norm", 1e-6), ("clip", 1e-3),
     ("adam_eps", 0.1), ("minibatch_size", 1), ("batch_size", 1), ("model.hidden", [2, 64]),
     ("entropy_coef", {"start": 0.5, "end": 0.0})],
)  # fmt: skip
def test_settings_that_hinder_learning_are_named_with_a_usual_value(name, value):
    settings = PPO | {f"algorithm.{name}": value}
    (found,) = [one for one in findings_of(windows_of(rows()), settings) if one.rule == "setting-out-of-range"]
    assert found.message.startswith(f"{name} = ")
    assert f"algorithm.{name}=" in found.remedies[0]
    assert "setting-out-of-range" not in rules_of(rows(returns=rising), settings)


@pytest.mark.parametrize(
    ("settings", "steps"),
    [({"target.every": 250}, 100), ({"target.kind": "soft", "target.every": 250, "target.tau": 0.0}, 5_000),
     ({"tau": 1e-7}, 5_000), ({"target.every_env_steps": 1_000_000, "target.tau": 0.01}, 5_000)],
)  # fmt: skip
def test_target_networks_that_stay_are_found(settings, steps):
    made = rows(learning=OFF_POLICY | {"gradient_steps": steps})
    assert "target-stays" in rules_of(made, DQN | {f"algorithm.{path}": value for path, value in settings.items()})


def test_targets_that_move_are_no_finding():
    for settings in (
        {"target.every": 250},
        {"target.every_env_steps": 500},
        {"target.every": None, "target.tau": 0.01},
        {"tau": 0.005},
    ):
        given = DQN | {f"algorithm.{path}": value for path, value in settings.items()}
        assert "target-stays" not in rules_of(rows(learning=OFF_POLICY | {"gradient_steps": 5_000}), given)


def test_few_updates_are_found_after_the_first_iteration_with_a_length_for_more():
    given = PPO | {"algorithm.fragment_length": 1024, "sampling.num_envs": 8}
    made = rows(1, run={"env_steps": 8192}, updates=1)
    (found,) = [one for one in findings_of(windows_of(made), given) if one.rule == "few-updates"]
    assert found.message == "20,000 env steps are enough for 2 updates of the policy only"
    assert found.remedies[0] == "algorithm.fragment_length=50"
    assert windows_of(made).next_look == 10
    small = rows(1, run={"env_steps": 2048}, updates=1)
    assert "few-updates" in rules_of(small, given)
    assert "few-updates" not in rules_of(small, given | {"stop.env_steps": 40_000})
    assert "few-updates" not in rules_of(small, given | {"stop.env_steps": 4_096})


def test_half_of_the_updates_are_a_note_where_the_return_has_improved():
    given = PPO | {"stop.env_steps": 32_768}

    def severities(updates, returns):
        made = rows(updates, returns=returns, run={"env_steps": lambda n: 32_768 * n // updates}, updates=lambda n: n)
        return [one.severity for one in findings_of(windows_of(made), given) if one.rule == "few-updates"]

    assert severities(8, rising) == ["note"]
    assert severities(8, lambda n: 10.0) == ["warning"]
    assert severities(2, rising) == ["warning"]


def test_few_gradient_steps_are_found_once_half_of_the_run_shows_their_rate():
    made = rows(learning=OFF_POLICY, returns=rising, gradient_steps=lambda n: n // 2)
    assert "few-updates" in rules_of(made, DQN)
    assert "few-updates" not in rules_of(made[:30], DQN)


def test_short_episodes_that_pay_are_no_fault():
    assert "episodes-shrink" not in rules_of(rows(returns=rising, run={"length_mean": lambda n: max(20.0 - n, 1.0)}))
    assert "episodes-shrink" not in rules_of(rows(run={"length_mean": 1.0}))


def test_tasks_of_one_decision_are_no_fault_where_the_policy_learns_unless_the_time_limit_is_long():
    once = {"length_mean": 1.0}
    assert "episodes-short" not in rules_of(rows(returns=rising, run=once))
    assert "episodes-short" in rules_of(rows(returns=lambda n: 20.0 + 0.02 * n, run=once))  # hardly
    assert "episodes-short" in rules_of(rows(returns=rising, run=once), PPO | {"env.name": "CartPole-v1"})
    assert "episodes-short" not in rules_of(rows(returns=rising), PPO | {"env.name": "CartPole-v1"})


def test_an_entropy_bonus_dominates_only_if_it_is_large_and_the_policy_stays_random():
    large = PPO | {"algorithm.entropy_coef": 1.0}
    for settings, columns in (
        (PPO | {"algorithm.entropy_coef": 0.01}, {}),
        (large, {"entropy": lambda n: 0.69 * 0.98**n}),  # the policy decides
        (large, {"policy_loss": 5.0}),  # advantages that are not normalized
    ):
        assert "entropy-dominates" not in rules_of(rows(returns=rising, **columns), settings)
    widened = rows(returns=rising, entropy=lambda n: -1.0 + 0.1 * n, policy_loss=0.01)  # of a normal distribution
    assert "entropy-dominates" in rules_of(widened, large)


def test_no_discount_is_usual_in_short_episodes_and_where_the_return_rises():
    settings = PPO | {"algorithm.gamma": 1.0}
    assert "gamma-one" not in rules_of(rows(), settings)
    assert "gamma-one" not in rules_of(rows(returns=rising, run={"length_mean": 400.0}), settings)


def test_evaluations_above_training_are_a_note():
    better = {"evaluation/return_mean": 90.0, "evaluation/return_low": 80.0, "evaluation/return_high": 95.0}
    made = rows(run=better)
    assert rules_of(made, counted=False).count("evaluation-above-training") == 1
    assert "evaluation-above-training" not in rules_of(made)


@pytest.mark.parametrize(
    ("settings", "learning"),
    [
        (PPO, ON_POLICY),
        (PPO, ON_POLICY | {"entropy": lambda n: 0.69 * 0.9**n, "kl": 1e-9, "explained_variance": -3.0}),  # solved
        (PPO, ON_POLICY | {"grad_norm": 40.0, "entropy": 0.693}),
        (PPO | {"algorithm.lr": 0.5, "algorithm.gamma": 0.6}, ON_POLICY),
        (DQN | {"algorithm.replay.capacity": 1200}, OFF_POLICY),
        (DQN, OFF_POLICY | {"q_mean": lambda n: 1e6 * 1.1**n}),
    ],
)
def test_nothing_is_found_in_a_run_that_learns(settings, learning):
    assert rules_of(rows(returns=rising, learning=learning), settings) == []


def test_a_solved_task_is_no_fault():
    made = rows(returns=lambda n: min(20.0 + 40 * n, 500.0), kl=0.0, explained_variance=-4.9, entropy=0.01, count=200)
    for row in made[20:]:
        row |= {"return_min": 500.0, "return_max": 500.0}
    assert rules_of(made, counted=False) == []


def test_small_steps_at_the_end_of_a_schedule_are_expected():
    assert "kl-out-of-range" in rules_of(rows(kl=1e-8, entropy=lambda n: 0.6 - 0.005 * n))
    late = rows(kl=1e-8, entropy=lambda n: 0.6 - 0.005 * n, lr=lambda n: 1e-4 * (61 - n))
    assert "kl-out-of-range" not in rules_of(late)


@pytest.mark.parametrize("rule", ["entropy-collapsed", "kl-out-of-range", "critic-explains-nothing", "return-falling"])
def test_one_unusual_iteration_is_no_finding(rule):
    settings, faulty = FAULTS[rule]
    made = rows(59, entropy=lambda n: 0.6 - 0.001 * n) + faulty[-1:]
    assert rule not in rules_of(made, settings)


def test_opponents_whose_rewards_cancel_are_not_judged_by_their_sum():
    opposed = {"agents/agent/return_mean": 0.5, "agents/other/return_mean": -0.5}
    made = rows(run={"return_mean": 0.0, "return_min": 0.0, "return_max": 0.0, **opposed}, kl=0.4, entropy=1e-5)
    assert rules_of(made) == []


def test_the_first_episodes_to_end_are_short_and_not_the_beginning():
    made = rows(returns=lambda n: 12.0 if n < 3 else 22.0, entropy=0.693)  # an untrained policy, all the time
    assert "entropy-stuck" in rules_of(made)


def test_a_return_is_compared_with_that_of_typical_episodes():
    def early(then, now):
        return lambda n: then if n < 4 else now

    returns = early(90.0, 20.0)  # of the successful episodes, which end first
    assert "return-falling" in rules_of(rows(returns=returns))
    few = {"episodes": lambda n: 2 * n if n < 4 else 10 * (n - 3), "length_mean": early(6.0, 20.0)}
    assert "return-falling" not in rules_of(rows(returns=returns, run=few))
    fallen = rows(returns=lambda n: 90.0 if n < 30 else 20.0, run=few)
    assert "return-falling" in rules_of(fallen)


def test_a_fault_that_has_passed_is_reported_if_it_stood_often():
    made = rows(kl=lambda n: 0.5 if n < 50 else 1e-3, entropy=lambda n: 0.6 - 0.001 * n)
    assert "kl-out-of-range" in [one.rule for one in findings_of_rows(made, PPO)]
    assert "kl-out-of-range" not in rules_of(made)


def test_errors_come_first_and_settings_are_those_of_the_policy():
    made = rows(kl=0.4, skipped_steps=lambda n: n)
    for row in made:
        row |= {f"policies/left/{key.rpartition('/')[2]}": value for key, value in row.items() if "policies/" in key}
    found = findings_of(windows_of(made), PPO)
    assert [one.severity for one in found[:2]] == ["error", "error"]
    assert {one.subject for one in found} == {"main", "left"}
    remedies = [one for finding in found if finding.subject == "left" for one in finding.remedies]
    assert any(one.startswith("policies.left.lr=") for one in remedies)


def test_the_window_is_bounded_and_spans_the_run():
    window = windows_of(rows(5000))
    assert len(window.past) <= PAST + 1
    assert window.past[0]["iteration"] == 1
    assert window.past[-1]["iteration"] > 4500
    again = Window()
    looks = sum(again.add_row(row) for row in rows(5000))
    assert looks < 50  # so that looking costs little


def test_a_finding_is_read_back_from_its_row():
    (first, *_) = findings_of(windows_of(FAULTS["lr-out-of-range"][1]), FAULTS["lr-out-of-range"][0])
    again = Finding.from_row({**first.row(), "of_a_later_version": 1})
    assert (again.rule, again.message, again.iterations, again.remedies) == (
        first.rule, first.message, first.iterations, first.remedies)  # fmt: skip


SCHEDULES = [
    ("lr", {"start": 1e-3, "end": 0.0, "steps": 60}, True),
    ("lr", {"start": 1e-3, "end": 0.0, "steps": 11_000}, False),
    ("lr", {"start": 1e-3, "end": 0.0}, False),
    ("lr", {"start": 1e-3, "end": 5e-4, "steps": 6_000}, False),  # half of the rate is left
    ("lr", {"points": [[0, 1e-3], [50, 1e-5], [100, 0.0]]}, True),
    ("clip", {"start": 0.2, "end": 0.0, "steps": 6_000}, True),
    ("lr", {"start": 1e-3, "end": 0.0, "steps": 60, "by": "decisions"}, True),
    ("lr", {"start": 1e-3, "end": 0.0, "steps": 12_000, "by": "decisions"}, False),
    ("exploration.epsilon", {"start": 1.0, "end": 0.05, "steps": 100}, True),
    ("exploration.epsilon", {"start": 1.0, "end": 0.05, "steps": 1_200}, False),
    ("entropy_coef", {"start": 0.01, "end": 0.0, "steps": 60}, True),
]


@pytest.mark.parametrize(("path", "schedule", "is_short"), SCHEDULES)
def test_a_schedule_that_is_over_early_is_found_with_its_steps_and_those_of_the_run(path, schedule, is_short):
    settings = PPO | {f"algorithm.{path}": schedule, "stop.env_steps": 12_000}
    found = [one for one in findings_of(windows_of(rows(returns=rising, updates=lambda n: n)), settings)
             if one.rule == "schedule-short"]  # fmt: skip
    assert len(found) == is_short
    for one in found:
        assert path in one.message and "12,000" in one.message and "12000" in one.remedies[0]
        assert "60 updates are 12,000 env steps" in one.evidence[-2] or schedule.get("steps") != 60


def test_a_number_of_the_policy_hides_the_schedule_of_all_policies():
    settings = PPO | {"algorithm.lr": {"start": 1e-3, "end": 0.0, "steps": 60}, "policies.main.lr": 3e-4}
    found = findings_of(windows_of(rows(returns=rising, updates=lambda n: n)), settings | {"stop.env_steps": 12_000})
    assert "schedule-short" not in {one.rule for one in found}
