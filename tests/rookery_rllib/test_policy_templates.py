"""Policies put together from functions: the classes, their parts, their optimizers, their steps."""

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete

from rookery.core.errors import ConfigError
from rookery_rllib.base.imports import find
from rookery_rllib.batch.postprocessing import compute_gae_for_sample_batch
from rookery_rllib.batch.sample_batch import SampleBatch
from rookery_rllib.config.defaults import DEFAULT_CONFIGS, MODEL_DEFAULTS
from rookery_rllib.model.catalog import ModelCatalog
from rookery_rllib.policy import losses, mixins
from rookery_rllib.policy.templates import build_policy_class, build_tf_policy, build_torch_policy
from rookery_rllib.policy.torch_policy import TorchPolicy

SEEN, ACTIONS = Box(-1, 1, (3,)), Discrete(2)
CONFIG = {"model": {"fcnet_hiddens": [8]}, "lr": 0.01, "gamma": 0.9}


def score(policy, model, dist_class, train_batch):
    outputs, _ = model(train_batch)
    policy.seen = train_batch
    return -(dist_class(outputs, model).logp(train_batch["actions"]) * train_batch["rewards"]).mean()


def rows(num=8):
    rng = np.random.default_rng(0)
    obs = rng.uniform(-1, 1, (num, 3)).astype(np.float32)
    actions = rng.integers(0, 2, num)
    return SampleBatch(obs=obs, actions=actions, rewards=(actions == 1).astype(np.float32), dones=np.zeros(num, bool))


def made(cls, **config):
    torch.manual_seed(0)
    return cls(SEEN, ACTIONS, {**CONFIG, **config})


def test_a_built_class_is_an_ordinary_one():
    cls = build_policy_class("Mine", "torch", loss_fn=score)
    assert issubclass(cls, TorchPolicy)
    assert cls.__name__ == "Mine"
    policy = made(cls)
    assert policy.config["framework"] == "torch"
    actions, states, extra = policy.compute_actions(rows()["obs"])
    assert actions.shape == (8,) and states == []
    assert extra["action_dist_inputs"].shape == (8, 2)
    likely = policy.compute_log_likelihoods(actions, rows()["obs"])
    assert np.allclose(likely.numpy(), extra["action_logp"], atol=1e-6)


def test_what_it_learns_is_what_an_adam_of_torch_would():
    policy, batch = made(build_policy_class("Mine", "torch", loss_fn=score)), rows()
    twin = ModelCatalog.get_model_v2(SEEN, ACTIONS, 2, {**MODEL_DEFAULTS, **CONFIG["model"]})
    twin.load_state_dict(policy.model.state_dict())
    theirs = torch.optim.Adam(twin.parameters(), lr=0.01)
    for _ in range(3):
        policy.learn_on_batch(batch.copy())
        theirs.zero_grad()
        given = {name: torch.as_tensor(column) for name, column in batch.items()}
        score(policy, twin, policy.dist_class, given).backward()
        theirs.step()
    for name, weight in twin.state_dict().items():
        assert torch.allclose(policy.model.state_dict()[name], weight, atol=1e-6), name


def test_gradients_can_be_taken_and_given():
    cls = build_policy_class("Mine", "torch", loss_fn=score, stats_fn=lambda policy, batch: {"size": batch.count})
    one, other, batch = made(cls), made(cls), rows()
    before = one.get_weights()
    gradients, told = one.compute_gradients(batch.copy())
    assert told["learner_stats"]["size"] == 8
    assert all((before[name] == weight).all() for name, weight in one.get_weights().items())
    one.apply_gradients([None if part is None else part.numpy() for part in gradients])
    other.learn_on_batch(batch.copy())
    for name, weight in one.get_weights().items():
        assert np.allclose(weight, other.get_weights()[name], atol=1e-7)
        assert not np.array_equal(weight, before[name]) or "value" in name


def test_each_part_is_called_at_its_moment():
    called = []

    def noted(name, result=None):
        def function(*given):
            called.append(name)
            return result(*given) if result else None

        return function

    cls = build_torch_policy(
        "Mine",
        loss_fn=noted("loss", score),
        get_default_config=lambda: {"horizon": 7, "lr": 1.0},
        validate_spaces=noted("spaces"),
        before_init=noted("before"),
        before_loss_init=noted("late"),
        _after_loss_init=noted("after"),
        postprocess_fn=noted("postprocess", lambda policy, batch, others, episode: batch),
        extra_action_out_fn=noted(
            "out", lambda policy, seen, states, model, distribution: {"one": torch.ones(len(seen))}
        ),
        extra_grad_process_fn=noted("gradients", lambda policy, optimizer, loss: {"loss": loss.item()}),
        extra_learn_fetches_fn=noted("fetches", lambda policy: {"td_error": torch.ones(2)}),
        stats_fn=noted("stats", lambda policy, batch: {"mean": torch.tensor(2.0)}),
    )
    policy = made(cls)
    assert called == ["spaces", "before", "late", "out", "postprocess", "loss", "stats", "after"]
    assert policy.config["horizon"] == 7
    assert policy.config["lr"] == 0.01
    called.clear()
    told = policy.learn_on_batch(rows())
    assert called == ["loss", "gradients", "stats", "fetches"]
    assert told["learner_stats"]["mean"] == 2.0
    assert np.array_equal(told["td_error"], [1, 1])
    assert policy.compute_actions(rows()["obs"])[2]["one"].shape == (8,)


def test_what_processes_gradients_sees_them_and_changes_them():
    clipped = []

    def clip(policy, optimizer, loss):
        (group,) = optimizer.param_groups
        clipped.append(float(torch.nn.utils.clip_grad_norm_(group["params"], 0.0)))
        return {}

    policy = made(build_policy_class("Still", "torch", loss_fn=score, extra_grad_process_fn=clip))
    before = policy.get_weights()
    policy.learn_on_batch(rows())
    assert clipped[0] > 0
    assert all((before[name] == weight).all() for name, weight in policy.get_weights().items())


def test_each_optimizer_goes_down_its_own_loss():
    def heads(policy, config):
        outputs = [w for name, w in policy.model.named_parameters() if "_value" not in name]
        values = [w for name, w in policy.model.named_parameters() if "_value" in name]
        return torch.optim.Adam(outputs, lr=0.0), torch.optim.Adam(values, lr=0.1, eps=1e-3)

    def both(policy, model, dist_class, train_batch):
        outputs, _ = model(train_batch)
        return outputs.sum(), model.value_function().sum()

    policy = made(build_policy_class("Two", "torch", loss_fn=both, optimizer_fn=heads))
    before = policy.get_weights()
    policy.learn_on_batch(rows())
    moved = {name for name, weight in policy.get_weights().items() if not np.array_equal(weight, before[name])}
    assert moved
    assert all("_value" in name for name in moved)
    state = policy.get_state()
    again = made(type(policy))
    again.set_state(state)
    for one in (policy, again):
        one.learn_on_batch(rows())
    assert all((again.get_weights()[name] == weight).all() for name, weight in policy.get_weights().items())


@pytest.mark.regression("data lost", "A policy refuses the moments of another number of optimizers or groups")
def test_moments_of_other_groups_or_optimizers_are_refused():
    def groups(policy, config):
        first, *rest = policy.model.parameters()
        return torch.optim.Adam([{"params": [first]}, {"params": rest}], lr=0.1)

    two = made(build_policy_class("Groups", "torch", loss_fn=score, optimizer_fn=groups))
    one = made(build_policy_class("One", "torch", loss_fn=score))
    for policy, other, numbers in ((one, two, "2 groups of parameters, and there are 1"), (two, one, "1 groups .* 2")):
        with pytest.raises(ConfigError, match=numbers):
            policy.set_state(other.get_state())
    weights = {"weights": two.get_weights()}
    one.set_state(weights)  # of weights alone, with fresh moments
    twice = {**one.get_state(), "_optimizer_variables": one.get_state()["_optimizer_variables"] * 2}
    with pytest.raises(ConfigError, match="the moments of 2 optimizers, and the policy has 1"):
        one.set_state(twice)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda policy, config: torch.optim.SGD(policy.model.parameters(), lr=0.1), "returned SGD"),
        (lambda policy, config: torch.optim.Adam(policy.model.parameters(), weight_decay=0.1), "weight_decay = 0.1"),
    ],
)
def test_other_optimizers_are_refused_with_what_to_do(make, told):
    with pytest.raises(ConfigError, match=rf"optimizer_fn: .*{told}.*return torch.s Adam"):
        made(build_policy_class("Mine", "torch", loss_fn=score, optimizer_fn=make))


def test_losses_and_optimizers_must_be_as_many():
    def two(policy, model, dist_class, batch):
        return [model(batch)[0].sum()] * 2

    with pytest.raises(ConfigError, match="2 losses and 1 optimizers"):
        made(build_policy_class("Mine", "torch", loss_fn=two)).learn_on_batch(rows())


def test_own_gradient_functions_take_the_place_of_the_step():
    called = []

    def compute(policy, batch):
        called.append("compute")
        return TorchPolicy.compute_gradients(policy, batch)

    def apply(policy, gradients):
        called.append(len(gradients))

    policy = made(
        build_policy_class("Mine", "torch", loss_fn=score, compute_gradients_fn=compute, apply_gradients_fn=apply)
    )
    before = policy.get_weights()
    policy.learn_on_batch(rows())
    assert called == ["compute", len(list(policy.model.parameters()))]
    assert all((before[name] == weight).all() for name, weight in policy.get_weights().items())


def test_with_updates_changes_some_parts_and_keeps_the_others():
    cls = build_policy_class("Mine", "torch", loss_fn=score, stats_fn=lambda policy, batch: {"old": 1})
    other = cls.with_updates(name="Other", stats_fn=lambda policy, batch: {"new": 2})
    assert other.__name__ == "Other"
    assert made(other).learn_on_batch(rows())["learner_stats"]["new"] == 2
    assert "old" in made(cls).learn_on_batch(rows())["learner_stats"]


def test_bad_parts_are_named():
    with pytest.raises(ConfigError, match="los_fn: there is no such part; did you mean 'loss_fn'"):
        build_policy_class("Mine", "torch", los_fn=score)
    with pytest.raises(ConfigError, match="loss_fn is missing"):
        build_policy_class("Mine", "torch")
    with pytest.raises(ConfigError, match="framework = 'jax'"):
        build_policy_class("Mine", "jax", loss_fn=score)
    with pytest.raises(ConfigError, match="not both"):
        build_policy_class("Mine", "torch", loss_fn=score, make_model=score, make_model_and_action_dist=score)
    with pytest.raises(ConfigError, match="its model is a Linear"):
        made(build_policy_class("Mine", "torch", loss_fn=score, make_model=lambda *given: torch.nn.Linear(3, 2)))
    with pytest.raises(ConfigError, match="exploration_config.type = 'Curiosity'"):
        made(build_policy_class("Mine", "torch", loss_fn=score), exploration_config={"type": "Curiosity"})
    with pytest.raises(ConfigError, match="TensorFlow's graph"):
        build_tf_policy("Mine", loss_fn=score, gradients_fn=score)


def test_ppo_is_put_together_from_its_parts():
    ppo = find("ray.rllib.agents.ppo.PPOTorchPolicy")
    cls = ppo.with_updates(name="Central", loss_fn=lambda *given: 2.0 * losses.ppo_surrogate_loss(*given))
    policy = made(cls, **{key: value for key, value in DEFAULT_CONFIGS["PPO"].items() if key not in CONFIG})
    assert isinstance(policy, mixins.KLCoeffMixin)
    assert policy.kl_coeff == 0.2
    batch = policy.with_extras(rows())
    assert batch["vf_preds"].shape == (8,)
    batch["new_obs"], batch["action_logp"] = batch["obs"], np.full(8, -0.7, np.float32)
    done = policy.postprocess_trajectory(batch)
    assert done["advantages"].shape == (8,)
    stats = policy.learn_on_batch(done)["learner_stats"]
    assert {"total_loss", "policy_loss", "vf_loss", "kl", "entropy", "cur_lr", "cur_kl_coeff"} <= stats.keys()


def test_of_policies_with_replay_only_some_parts_change():
    dqn = find("ray.rllib.agents.dqn.DQNTorchPolicy")
    assert dqn.with_updates(name="Named").algorithm == "DQN"
    both = dqn.with_updates(loss_fn=score).with_updates(name="Both", stats_fn=score)
    assert (both.algorithm, both.parts) == ("DQN", {"loss_fn": score, "stats_fn": score})
    assert dqn.parts == {}
    with pytest.raises(ConfigError, match="DQNTorchPolicy.with_updates: postprocess_fn: DQN learns from replay"):
        dqn.with_updates(postprocess_fn=score)
    with pytest.raises(ConfigError, match="SACTorchPolicy.with_updates: loss_fn: SAC learns from replay"):
        find("ray.rllib.agents.sac.SACTorchPolicy").with_updates(loss_fn=score)


def test_mixins_keep_numbers_and_move_them():
    cls = build_policy_class(
        "Mine",
        "torch",
        loss_fn=score,
        before_init=lambda policy, *given: (
            mixins.LearningRateSchedule.__init__(policy, 0.1, [[0, 0.1], [100, 0.0]]),
            mixins.EntropyCoeffSchedule.__init__(policy, 0.4, 100),
            mixins.KLCoeffMixin.__init__(policy, {"kl_coeff": 1.0, "kl_target": 0.1}),
        ),
        mixins=[mixins.LearningRateSchedule, mixins.EntropyCoeffSchedule, mixins.KLCoeffMixin],
    )
    policy = made(cls)
    policy.on_global_var_update({"timestep": 50})
    assert policy.cur_lr == pytest.approx(0.05)
    assert policy._optimizers[0].param_groups[0]["lr"] == pytest.approx(0.05)
    assert policy.entropy_coeff == pytest.approx(0.2)
    assert policy.global_timestep == 50
    assert [policy.update_kl(kl) for kl in (0.3, 0.1, 0.01)] == [1.5, 1.5, 0.75]


def test_values_of_what_came_next_are_the_models():
    cls = build_policy_class(
        "Mine", "torch", loss_fn=score, mixins=[mixins.ValueNetworkMixin],
        before_loss_init=lambda policy, *given: mixins.ValueNetworkMixin.__init__(policy, *given),
    )  # fmt: skip
    policy = made(cls, **{"lambda": 1.0, "use_gae": True, "use_critic": True})
    batch = rows(4)
    batch["new_obs"] = batch["obs"] + 0.5
    with torch.no_grad():
        policy.model({"obs": torch.as_tensor(batch["new_obs"])})
        values = policy.model.value_function().numpy().copy()
    batch["vf_preds"] = np.zeros(4, np.float32)
    done = compute_gae_for_sample_batch(policy, batch)
    wanted = values[-1]
    for reward in reversed(batch["rewards"].tolist()):
        wanted = reward + 0.9 * wanted
    assert done["value_targets"][0] == pytest.approx(wanted, abs=1e-5)


def test_a_target_follows_its_model():
    class Holder(mixins.TargetNetworkMixin, TorchPolicy):
        pass

    torch.manual_seed(0)
    model, target = (ModelCatalog.get_model_v2(SEEN, ACTIONS, 2, MODEL_DEFAULTS) for _ in range(2))
    policy = Holder.__new__(Holder)
    TorchPolicy.__init__(policy, SEEN, ACTIONS, CONFIG, model=model, loss=score, action_distribution_class=None)
    policy.target_model = target
    mixins.TargetNetworkMixin.__init__(policy)
    far = sum((a - b).detach().abs().sum().item() for a, b in zip(model.parameters(), target.parameters()))
    policy.update_target(0.5)
    half = sum((a - b).detach().abs().sum().item() for a, b in zip(model.parameters(), target.parameters()))
    assert half == pytest.approx(far / 2, rel=1e-4)
    policy.update_target()
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), target.parameters()))


def test_own_ways_to_act_are_asked():
    def sampler(policy, model, input_dict, state, explore, timestep):
        return torch.ones(len(input_dict["obs"]), dtype=torch.int64), torch.zeros(len(input_dict["obs"])), []

    policy = made(build_policy_class("Mine", "torch", loss_fn=score, action_sampler_fn=sampler))
    assert policy.compute_actions(rows()["obs"])[0].tolist() == [1] * 8
    with pytest.raises(ConfigError, match="action_distribution_fn"):
        policy.compute_log_likelihoods([1], rows(1)["obs"])

    def new(policy, model, *, input_dict, explore, is_training, **further):
        return model(input_dict)[0] * 0 + torch.tensor([50.0, 0.0]), policy.dist_class, []

    def old(policy, model, obs_batch, explore, timestep, is_training):
        return obs_batch[:, :2] * 0 + torch.tensor([0.0, 50.0]), policy.dist_class, []

    for make, wanted in ((new, 0), (old, 1)):
        policy = made(build_policy_class("Mine", "torch", loss_fn=score, action_distribution_fn=make))
        assert policy.compute_actions(rows()["obs"])[0].tolist() == [wanted] * 8
