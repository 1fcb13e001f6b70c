"""Off-policy evaluation as a whole: contents of the result, source of probabilities, refusals."""

from __future__ import annotations

import json
from dataclasses import replace

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from quick import SMALL

from recorded import keep
from rookery import (
    BCConfig,
    ConfigError,
    ModelConfig,
    PPOConfig,
    RookeryError,
    Trainer,
    evaluate_offline,
    judge,
    record_replay,
)
from rookery.report.offline_evaluation import ReturnEstimate, draw_evaluation, estimates_table, lines_of


def test_a_policy_evaluated_by_its_own_play_earns_what_that_earned(poles_run, poles):
    found = evaluate_offline(poles_run, poles, deterministic=False, **SMALL)
    own = found["data"]
    for method in ("is", "wis", "pdis"):
        assert found[method].value == pytest.approx(own.value, rel=1e-4)
        np.testing.assert_allclose(found[method].interval, own.interval, rtol=1e-3)
    assert own.interval[0] < own.value < own.interval[1]
    assert found["dr"].interval[0] < found["dr"].value < found["dr"].interval[1]
    assert (found.probabilities, found.gamma, found.episodes, found.left_out) == ("recorded", 0.99, 40, 0)
    assert found.effective_size == pytest.approx(40) and found.mean_ratio == pytest.approx(1.0, abs=1e-4)
    assert found.log_likelihood == pytest.approx(np.log(0.5), abs=0.05)
    assert found.td_source == "fitted" and found.td_error > 0
    assert found.coverage.measure == "probability" and found.coverage.share == 0.0
    assert found.meaning.startswith("discounted return (gamma 0.99) of an episode")
    json.dumps(found.row())


def test_it_repeats_and_the_seed_counts(poles_run, poles):
    one, same, other = (
        evaluate_offline(poles_run, poles, deterministic=False, seed=seed, **SMALL) for seed in (1, 1, 2)
    )
    assert one == same and one["fqe"].value != other["fqe"].value


def test_what_is_worth_little_is_said(poles_run, poles):
    few = evaluate_offline(poles_run, poles, deterministic=False, gamma=1, methods=["fqe"], **{**SMALL, "fit_steps": 1})
    (told,) = [note for note in few.notes if "unexplained" in note]
    assert told.endswith("more gradient steps may help: --set fit_steps=10")
    exact = evaluate_offline(
        poles_run, poles, deterministic=False, gamma=0, methods=["fqe"], **{**SMALL, "fit_steps": 600}
    )
    assert not any("unexplained" in note for note in exact.notes)
    alone = dict(lines_of(replace(few, effective_size=1.0)))["weights"]
    assert alone.endswith(
        "single episodes dominate the estimates by weights; neither these nor their intervals are reliable"
    )
    assert dict(lines_of(replace(few, effective_size=39.0)))["weights"] == "effective sample size 39.0 of 40"


def test_undiscounted_returns_are_those_that_playing_measures(poles_run, poles):
    found = evaluate_offline(poles_run, poles, deterministic=False, gamma=1, methods=["wis"], **SMALL)
    assert found["data"].value == pytest.approx(found.decisions / found.episodes)
    assert found.return_name == "return" and [one.method for one in found.estimates] == ["data", "wis"]


def test_likeliest_choices_have_weights_too(poles_run, poles):
    found = evaluate_offline(poles_run, poles, **SMALL)
    assert found.deterministic
    assert found.effective_size < 5, "few episodes of drawn actions are those of the likeliest"
    assert found["fqe"].value > 0


def test_weights_can_be_cut_off(poles_run, poles):
    found = evaluate_offline(poles_run, poles, weights_below=1.5, **SMALL)
    assert found.max_weight == 1.5
    assert found["is"].value <= 1.5 * found["data"].value


def test_a_run_of_dqn_has_critics_and_probabilities_of_its_own(valued):
    found = evaluate_offline(valued, valued, **SMALL)
    assert found.td_source == "critics" and found.probabilities == "recorded"
    assert found.left_out > 0
    assert any("the run was trained on these data" in note for note in found.notes)


def test_numbers_have_distances(swings):
    run, data = swings
    found = evaluate_offline(run, data, deterministic=False, **SMALL)
    assert found.probabilities == "recorded" and found["wis"].value == pytest.approx(found["data"].value, rel=1e-3)
    assert found.coverage.measure == "distance" and 0 <= found.coverage.share <= 1
    assert any("10 whole episodes are few" in note for note in found.notes)


def test_probabilities_that_were_not_recorded_are_cloned(poles_run, tmp_path):
    rng = np.random.default_rng(0)
    episodes = [
        {
            "obs": rng.uniform(-1, 1, (6, 4)).astype(np.float32),
            "action": rng.integers(0, 2, 5),
            "reward": np.ones(5),
            "terminated": True,
        }
        for _ in range(30)
    ]
    found = evaluate_offline(poles_run, unknown(tmp_path, episodes), deterministic=False, **SMALL)
    assert found.probabilities == "cloned"
    assert found["wis"].value is not None
    assert "estimated by cloning" in dict(lines_of(found))["behaviour"]
    with pytest.raises(ConfigError, match="probabilities = recorded: the data have no probability of each action"):
        evaluate_offline(poles_run, unknown(tmp_path, episodes), probabilities="recorded", **SMALL)


def unknown(tmp_path, episodes, missing=("logp",)):
    """Data of CartPole's spaces of which some things are not known."""
    import gymnasium

    from recorded import buffer_of
    from rookery.core.io.files import read_manifest, write_directory
    from rookery.replay.segments import FACTS, facts_of, new_segments

    env = gymnasium.make("CartPole-v1")
    buffer = buffer_of(env.observation_space, env.action_space, episodes)
    place = tmp_path / "-".join(("unknown", *missing))
    facts = {FACTS: {"main": {**facts_of(buffer), "missing": list(missing)}}}
    write_directory(place, new_segments(buffer, "main", 0, buffer.total), facts, replace=True)
    assert read_manifest(place)
    return place


def test_estimates_that_single_episodes_dominate_are_hollow_and_a_reason_is_written_once(poles_run, poles, tmp_path):
    pytest.importorskip("matplotlib")
    found = evaluate_offline(poles_run, poles, **SMALL)
    few, many = replace(found, effective_size=2.0), replace(found, effective_size=50.0)
    assert many.dominated == () and {"is", "dr"} <= set(few.dominated) and "data" not in few.dominated
    for name, one in (("few", few), ("many", many)):
        draw_evaluation(one, "poles", tmp_path / f"{name}.svg")
    texts = [(tmp_path / f"{name}.svg").read_text() for name in ("few", "many")]
    assert ["dominated by single episodes" in text for text in texts] == [True, False]
    assert all("behaviour's mean return" in text and "of an episode" in text for text in texts)
    none = [ReturnEstimate(name, None, None, "no density") for name in ("is", "wis", "pdis")]
    table = estimates_table(replace(found, estimates=(found.estimates[0], *none)))
    assert [list(column.cells)[1:] for column in table.columns[1:]] == [["-"] * 3, [""] * 3]


def test_returns_have_their_names_and_each_missing_estimate_its_reason(poles_run, poles):
    found = evaluate_offline(poles_run, poles, **SMALL, methods=["wis"], gamma=0.9)
    none = [ReturnEstimate(name, None, None, "no density") for name in ("is", "pdis")]
    found = replace(found, estimates=(found.estimates[0], *none))
    assert estimates_table(found).columns[1].header == "discounted return (gamma 0.9)"
    lines = list(lines_of(found))
    assert [text for label, text in lines if label == "-"] == [
        "importance sampling (--method is): no density",
        "per-decision importance sampling (--method pdis): no density",
    ]
    assert dict(lines)["return"] == f"{found.data_return:.2f} of an episode of the data, undiscounted (--set gamma=1)"
    assert found.data_return == pytest.approx(found.decisions / found.episodes)  # each step of CartPole earns 1
    whole = replace(found, gamma=1.0)
    assert estimates_table(whole).columns[1].header == "return" and "return" not in dict(lines_of(whole))


def test_a_picture_is_drawn(poles_run, poles, swings, tmp_path):
    pytest.importorskip("matplotlib")
    draw_evaluation(evaluate_offline(poles_run, poles, **SMALL), "poles", tmp_path / "choices.png")
    draw_evaluation(evaluate_offline(*swings, **SMALL), "swings", tmp_path / "numbers.svg")
    assert (tmp_path / "choices.png").stat().st_size > 5_000 and (tmp_path / "numbers.svg").stat().st_size > 5_000


def test_long_work_tells_how_far_it_is(poles_run, poles):
    told = []
    evaluate_offline(poles_run, poles, progress=lambda *words: told.append(words), **{**SMALL, "fit_steps": 250})
    assert ("fitting Q, half 1 of 2", 100, 250) in told and ("fitting Q, half 2 of 2", 250, 250) in told
    assert ("cloning the behaviour, half 2 of 2", 20, 20) in told


def test_a_trainer_can_be_evaluated_as_it_is(poles):
    with Trainer("CartPole-v1", PPOConfig(model=ModelConfig(hidden=(8,))), seed=0, console="quiet") as trainer:
        found = evaluate_offline(trainer, poles, methods=["pdis"], **SMALL)
    assert found.source == "this trainer" and found.policy == "main"


def test_judge_is_a_deprecated_name(poles_run, poles):
    with pytest.warns(DeprecationWarning, match="is now rookery.evaluate_offline"):
        found = judge(poles_run, poles, methods=["wis"], **SMALL)
    assert found == evaluate_offline(poles_run, poles, methods=["wis"], **SMALL)


# --- deterministic policies and behaviour -----------------------------------------------------------------------------


def test_a_note_names_data_that_the_run_was_trained_on(held, swings, poles_run, poles):
    told = "the run was trained on these data"
    assert any(told in note for note in evaluate_offline(held, swings[1], **SMALL).notes)
    assert not any(told in note for note in evaluate_offline(poles_run, poles, **SMALL).notes)


def test_of_a_deterministic_policy_fitted_q_alone_is_given(held, swings):
    found = evaluate_offline(held, swings[1], **SMALL)
    assert found["fqe"].value is not None and found.td_source == "critics"
    for method in ("is", "wis", "pdis", "dr"):
        assert found[method].value is None and "the policy is deterministic" in found[method].reason
    assert found.log_likelihood is None and found.probabilities == "none"
    with pytest.raises(ConfigError, match="--method wis: the policy is deterministic: .*fqe needs none"):
        evaluate_offline(held, swings[1], methods=["wis"], **SMALL)


def test_likeliest_numbers_have_no_density(swings):
    found = evaluate_offline(*swings, **SMALL)
    assert "evaluate sampled ones (--stochastic), or use fqe" in found["is"].reason and found["fqe"].value is not None


@pytest.mark.parametrize("kind", ["choices", "numbers"])
def test_of_deterministic_behaviour_fitted_q_alone_is_given(kind, poles_run, swings, tmp_path):
    run, env = (poles_run, "CartPole-v1") if kind == "choices" else (swings[0], "Pendulum-v1")
    record_replay(env, run, 6, tmp_path / "likeliest", deterministic=True, max_episode_steps=60)
    found = evaluate_offline(run, tmp_path / "likeliest", deterministic=False, **SMALL)
    assert "deterministic" in found["wis"].reason and "use fqe" in found["wis"].reason
    assert found["fqe"].value is not None and found.probabilities == "none"
    with pytest.raises(ConfigError, match="--method dr: .*deterministic"):
        evaluate_offline(run, tmp_path / "likeliest", deterministic=False, methods=["dr"], **SMALL)


def test_cloned_choices_that_are_certain_are_deterministic_behaviour(poles_run, tmp_path):
    episodes = [
        {"obs": np.ones((4, 4), np.float32), "action": [1, 1, 1], "reward": [1, 1, 1], "terminated": True}
        for _ in range(8)
    ]
    settings = {**SMALL, "clone_steps": 400}
    found = evaluate_offline(poles_run, unknown(tmp_path, episodes), deterministic=False, **settings)
    assert (
        "the behaviour is deterministic: under its clone, recorded actions have a probability of" in found["is"].reason
    )


def test_numbers_on_their_bounds_have_no_density(swings, tmp_path):
    box = spaces.Box(np.float32([-1, -1, -8]), np.float32([1, 1, 8])), spaces.Box(-2, 2, (1,), np.float32)
    episodes = [
        {"obs": np.zeros((4, 3)), "action": [[1.0], [-1.0], [1.0]], "reward": [0, 0, 1], "terminated": True}
        for _ in range(4)
    ]
    data = keep(tmp_path / "bounds", *box, episodes)
    found = evaluate_offline(swings[0], data, deterministic=False, probabilities="cloned", **SMALL)
    assert "100.00% of the data's action values lie at a bound or beyond" in found["is"].reason


class Masked(gymnasium.Env):
    """One of four choices is forbidden in each step."""

    observation_space = spaces.Dict(observation=spaces.Box(-1, 1, (2,), np.float32), action_mask=spaces.MultiBinary(4))
    action_space = spaces.Discrete(4)

    def seen(self):
        seen = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return {"observation": seen, "action_mask": (np.arange(4) != self.t % 4).astype(np.int8)}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self.seen(), {}

    def step(self, action):
        self.t += 1
        return self.seen(), float(action), self.t == 4, False, {}


@pytest.mark.regression(
    "unclear error", "Drawn choices among those that a mask allows are not taken for likeliest ones"
)
def test_drawn_choices_of_which_some_are_forbidden_have_weights(tmp_path):
    settings = PPOConfig(model=ModelConfig(hidden=(8,)))
    with Trainer(Masked, settings, seed=0, run_dir=tmp_path / "run", console="quiet") as trainer:
        trainer.save()
    for name, drawn in (("drawn", True), ("likeliest", False)):
        record_replay(Masked, tmp_path / "run", 20, tmp_path / name, deterministic=not drawn, trust_code=True)
        found = evaluate_offline(tmp_path / "run", tmp_path / name, deterministic=False, trust_code=True, **SMALL)
        if drawn:
            assert found["wis"].value == pytest.approx(found["data"].value, rel=1e-3)
        else:
            assert "deterministic" in found["wis"].reason


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_data_of_other_spaces_are_refused(poles_run, swings):
    with pytest.raises(RookeryError, match="does not fit: it holds observations .*policy 'main' has"):
        evaluate_offline(poles_run, swings[1], **SMALL)


def test_data_without_rewards_are_refused(poles_run, tmp_path):
    episode = {"obs": np.zeros((3, 4)), "action": [0, 1], "reward": [0, 0], "terminated": True}
    data = unknown(tmp_path, [episode] * 4, missing=("reward",))
    with pytest.raises(ConfigError, match="has no rewards, .*import the data again with their rewards"):
        evaluate_offline(poles_run, data, **SMALL)


@pytest.mark.parametrize(("episodes", "said"), [(1, "1 whole episode of 1"), (0, "0 whole episodes of 2")])
def test_an_empty_hold_out_is_refused(poles_run, tmp_path, episodes, said):
    one = {"obs": np.zeros((3, 4)), "action": [0, 1], "reward": [1, 1]}
    data = unknown(tmp_path, [one] * episodes or [{**one, "open": True}] * 2, missing=())
    with pytest.raises(ConfigError, match=f"holds {said}, and some are held out .*record more"):
        evaluate_offline(poles_run, data, **SMALL)


def test_a_number_that_is_none_is_refused(poles_run, tmp_path):
    one = {"obs": np.zeros((3, 4)), "action": [0, 1], "reward": [1, np.nan], "terminated": True}
    with pytest.raises(ConfigError, match="row 2: its reward has a number that is not finite"):
        evaluate_offline(poles_run, unknown(tmp_path, [one] * 2, missing=()), **SMALL)


def test_a_policy_that_remembers_is_refused(poles):
    settings = PPOConfig(model=ModelConfig(hidden=(8,), memory={"kind": "gru"}))
    with (
        Trainer("CartPole-v1", settings, seed=0, console="quiet") as trainer,
        pytest.raises(ConfigError, match="policy 'main' has memory, .*evaluated by playing episodes only"),
    ):
        evaluate_offline(trainer, poles, **SMALL)


def test_of_several_policies_one_must_be_named(poles):
    policies = {"pol1": PPOConfig(), "pol2": PPOConfig()}
    mapping = {"agent1": "pol1", "agent2": "pol2"}
    with Trainer("MultiAgentArena", policies=policies, policy_mapping=mapping, seed=0, console="quiet") as trainer:
        with pytest.raises(ConfigError, match=r"several policies \(pol1, pol2\), .*--policy NAME"):
            evaluate_offline(trainer, poles, **SMALL)
        with pytest.raises(ConfigError, match="--policy pol3: .*did you mean 'pol.'.*it has pol1, pol2"):
            evaluate_offline(trainer, poles, policy="pol3", **SMALL)


def test_settings_are_checked(poles_run, poles):
    with pytest.raises(ConfigError, match="methods"):
        evaluate_offline(poles_run, poles, methods=["magic"])
    with pytest.raises(ConfigError, match="fit_step.*fit_steps"):
        evaluate_offline(poles_run, poles, fit_step=5)
    with pytest.raises(RookeryError, match="nowhere"):
        evaluate_offline(poles_run, "nowhere")


# --- other spaces -----------------------------------------------------------------------------------------------------


def test_one_of_several_policies_is_evaluated_among_the_others(tmp_path):
    policies = {"pol1": PPOConfig(model=ModelConfig(hidden=(8,))), "pol2": PPOConfig(model=ModelConfig(hidden=(8,)))}
    mapping = {"agent1": "pol1", "agent2": "pol2"}
    run = {"policies": policies, "policy_mapping": mapping, "seed": 0, "console": "quiet"}
    with Trainer("MultiAgentArena", run_dir=tmp_path / "run", **run) as trainer:
        trainer.save()
    record_replay("MultiAgentArena", tmp_path / "run", 4, tmp_path / "data", deterministic=False, max_episode_steps=20)
    found = evaluate_offline(tmp_path / "run", tmp_path / "data", policy="pol2", deterministic=False, **SMALL)
    assert found.policy == "pol2" and found.data.endswith(":pol2")
    assert found["wis"].value == pytest.approx(found["data"].value, rel=1e-3, abs=1e-4)
    assert any("all other policies count as part of the environment" in note for note in found.notes)


def test_images_and_continuous_actions_are_evaluated(tmp_path):
    seen = spaces.Dict(camera=spaces.Box(0, 255, (8, 8, 3), np.uint8), near=spaces.Box(-np.inf, np.inf, (3,)))
    rng = np.random.default_rng(0)
    episodes = [
        {
            "obs": {"camera": rng.integers(0, 256, (6, 8, 8, 3)), "near": rng.normal(size=(6, 3))},
            "action": rng.uniform(-0.9, 0.9, (5, 2)),
            "reward": rng.normal(size=5),
            "terminated": number % 2 == 0,
        }
        for number in range(6)
    ]
    data = keep(tmp_path / "data", seen, spaces.Box(-1, 1, (2,), np.float32), episodes)
    settings = BCConfig(model=ModelConfig(hidden=(8,)), batch_size=8, distribution="squashed")
    with Trainer(None, settings, replay=data, seed=0, console="quiet") as trainer:
        found = evaluate_offline(
            trainer, data, deterministic=False, probabilities="cloned", fit_steps=5, clone_steps=5, resamples=20
        )
    assert found.gamma == 1.0 and found.return_name == "return", "cloning knows no discount"
    assert all(one.value is not None for one in found.estimates) and found.coverage.measure == "distance"


@pytest.mark.parametrize("deterministic", [False, True])
def test_several_choices_at_once_have_weights_and_no_fitted_values(tmp_path, deterministic):
    rng = np.random.default_rng(0)
    episodes = [
        {"obs": rng.normal(size=(4, 2)), "action": rng.integers(0, 2, (3, 2)), "reward": np.ones(3), "terminated": True}
        for _ in range(20)
    ]
    data = keep(tmp_path / "data", spaces.Box(-9, 9, (2,)), spaces.MultiDiscrete([3, 2]), episodes)
    with Trainer(None, BCConfig(batch_size=8), replay=data, seed=0, console="quiet") as trainer:
        found = evaluate_offline(trainer, data, deterministic=deterministic, probabilities="cloned", **SMALL)
    assert found["pdis"].value is not None and found.coverage is None and found.td_error is None
    assert "fitted Q takes discrete (Discrete) or continuous (Box) actions" in found["dr"].reason
