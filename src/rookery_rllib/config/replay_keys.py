"""Keys of algorithms with replay: DQN and its variants, SAC, DDPG, TD3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rookery_rllib.base.deprecation import DEPRECATED_VALUE
from rookery_rllib.config.algorithms import (
    APEX_KIND,
    CLONING_KIND,
    DDPG_KIND,
    DQN_KIND,
    OFF_POLICY,
    Q_KIND,
    SAC_KIND,
    A,
    M,
    R,
    X,
)
from rookery_rllib.config.exploration_keys import critic_exploration, q_exploration
from rookery_rllib.config.model_keys import OURS, activation
from rookery_rllib.config.reader import Reader, Values
from rookery_rllib.config.rows import by, computed, ignored, refused, to
from rookery_rllib.config.scheduled_values import ramp


def replay(reader: Reader) -> Values:
    path = "algorithm.replay."
    prioritized = bool(reader.get("prioritized_replay"))
    if prioritized and reader.algorithm == "R2D2":
        reader.refuse("prioritized_replay", "R2D2 of 2021 samples sequences uniformly; set it to False")
    values: Values = {
        f"{path}kind": "prioritized" if prioritized else "uniform",
        f"{path}capacity": reader.whole("buffer_size", 1),
    }
    if reader.algorithm == "SimpleQ":
        return values | {f"{path}alpha": 0.6, f"{path}beta": 0.4, f"{path}priority_eps": 1e-6}
    first, last = reader.number("prioritized_replay_beta"), reader.number("final_prioritized_replay_beta")
    return {
        **values,
        f"{path}alpha": reader.get("prioritized_replay_alpha"),
        f"{path}beta": ramp(reader, first, last, reader.number("prioritized_replay_beta_annealing_timesteps")),
        f"{path}priority_eps": reader.get("prioritized_replay_eps"),
    }


def q_values(reader: Reader) -> Values:
    """Translates the form of DQN's action values."""
    atoms = reader.whole("num_atoms", 1)
    rescaled = reader.algorithm == "R2D2" and bool(reader.get("use_h_function"))
    if rescaled and atoms > 1:
        reader.refuse("num_atoms", "a distribution is not rescaled; set use_h_function = False, or num_atoms = 1")
    values: Values = {
        "algorithm.values.kind": "categorical" if atoms > 1 else "mean",
        "algorithm.values.atoms": atoms if atoms > 1 else 51,
        "algorithm.values.low": reader.number("v_min"),
        "algorithm.values.high": reader.number("v_max"),
        "algorithm.values.rescale": rescaled,
    }
    return values


def dueling(reader: Reader) -> Values:
    apart = bool(reader.get("dueling"))
    return {
        "algorithm.dueling": apart,
        "algorithm.dueling_hidden": tuple(reader.get("hiddens") or ()) if apart else (),
    }


def q_target(reader: Reader) -> Values:
    """Translates the interval of target network updates."""
    return {
        "algorithm.target.every_env_steps": max(
            reader.whole("target_network_update_freq", 1) // reader.rows_per_step, 1
        ),
        "algorithm.target.every": None,
    }


def critic_layers(reader: Reader, actor: Sequence[int], critic: Sequence[int]) -> Values:
    """Returns the hidden layers of the actor, and those of critics if they differ."""
    actor, critic = tuple(actor), tuple(critic)
    return {"algorithm.model.hidden": actor, "algorithm.critic.widths": None if actor == critic else critic}


def same_function(reader: Reader, keys: Sequence[str]) -> str:
    """Returns the activation of layers of actor and critics, which must be the same, and one of ours."""
    name, other = (activation(reader, key) for key in keys)
    if name != other:
        reader.refuse(
            keys[1], f"actor and critics have one activation here, and {keys[0]} is {name}: give both the same"
        )
    if name not in OURS:
        reader.refuse(keys[0], f"must be one of {', '.join(OURS)}")
    return OURS.get(name, "relu")


def sac_networks(reader: Reader) -> Values:
    layers = {}
    for network in ("policy_model", "Q_model"):
        if reader.get(f"{network}.custom_model") is not None:
            reader.refuse(f"{network}.custom_model", "SAC has no custom networks here; set fcnet_hiddens")
        names = (f"{network}.fcnet_hiddens", f"{network}.post_fcnet_hiddens")
        layers[network] = [tuple(reader.get(name) or ()) for name in names]
    before, after = layers["policy_model"]
    q_before, q_after = layers["Q_model"]
    values = critic_layers(reader, before + after, q_before + q_after)
    used = [
        f"{network}.{'fcnet' if first else 'post_fcnet'}_activation"
        for network, (first, last) in layers.items()
        if first or last
    ]
    function = same_function(reader, used) if len(used) == len(layers) else "relu"
    return {**values, "algorithm.model.activation": function}


def part_rates(reader: Reader, critic: str, **parts: str) -> Values:
    """Returns the learning rate of critics, and that of each part which differs."""
    rate = reader.number(critic)
    own = {f"algorithm.{name}": reader.number(key) for name, key in parts.items()}
    return {"algorithm.lr": rate, **{path: None if value == rate else value for path, value in own.items()}}


def sac_rates(reader: Reader) -> Values:
    at = "optimization."
    return part_rates(
        reader, f"{at}critic_learning_rate", actor_lr=f"{at}actor_learning_rate", alpha_lr=f"{at}entropy_learning_rate"
    )


def ddpg_networks(reader: Reader) -> Values:
    values = critic_layers(reader, reader.get("actor_hiddens") or (), reader.get("critic_hiddens") or ())
    function = same_function(reader, ("actor_hidden_activation", "critic_hidden_activation"))
    return {**values, "algorithm.model.activation": function}


def ddpg_rates(reader: Reader) -> Values:
    return part_rates(reader, "critic_lr", actor_lr="actor_lr")


def target_updates(reader: Reader) -> Values:
    """Translates the env steps that must have passed between updates of target networks to gradient steps."""
    if reader.algorithm in APEX_KIND:  # rows that were learned are counted, not env steps
        return {
            "algorithm.target_every": reader.whole("target_network_update_freq") // reader.whole("train_batch_size", 1)
            + 1
        }
    steps = reader.whole("target_network_update_freq") / reader.rows_per_step
    rounds = int(steps // reader.round) + 1  # RLlib looks after each round, and updates when more steps have passed
    intensity = reader.get("training_intensity")
    each = 1.0
    if intensity:
        each = reader.number("training_intensity") * reader.round * reader.agents / reader.whole("train_batch_size", 1)
    return {"algorithm.target_every": max(round(rounds * each), 1)}


def huber(reader: Reader) -> Values:
    return {"algorithm.critic.huber": reader.number("huber_threshold") if reader.get("use_huber") else None}


def smoothing(reader: Reader) -> Values:
    """Translates the additions of TD3; DDPG with either of them is TD3."""
    if not is_td3(reader):
        return {}
    smooth = bool(reader.get("smooth_target_policy"))
    return {
        "algorithm.policy_delay": reader.whole("policy_delay", 1),
        "algorithm.target_noise": reader.get("target_noise") if smooth else 0.0,
        "algorithm.target_noise_clip": reader.get("target_noise_clip"),
    }


def is_td3(reader: Reader) -> bool:
    """Returns whether actor updates are delayed, or targets are smoothed."""
    return reader.algorithm == "TD3" or reader.get("policy_delay") != 1 or bool(reader.get("smooth_target_policy"))


SAC_NETWORK: dict[str, Any] = {
    "fcnet_hiddens": [256, 256], "fcnet_activation": "relu", "post_fcnet_hiddens": [], "post_fcnet_activation": None,
    "custom_model": None,
}  # fmt: skip
"""Keys of both networks of SAC."""

REPLAY = [
    by(replay, {"buffer_size": 50000}, f"{R}capacity", "Capacity of the replay buffer in decisions.",
       OFF_POLICY, rl2="training"),
    by(replay, {"prioritized_replay": True, "prioritized_replay_alpha": 0.6, "prioritized_replay_beta": 0.4,
       "prioritized_replay_eps": 1e-6, "final_prioritized_replay_beta": 0.4,
       "prioritized_replay_beta_annealing_timesteps": 20000}, f"{R}kind {R}alpha {R}beta {R}priority_eps",
       "Prioritized replay by TD error: whether, exponents alpha and beta, constant added to priorities. Beta changes "
       "linearly to its final value over the annealing steps.",
       tuple(name for name in OFF_POLICY if name != "SimpleQ")),
    to({"n_step": 1}, f"{A}n_step", "Steps of n-step targets.", (*DQN_KIND, *SAC_KIND, *DDPG_KIND),
       rl2="training"),
    to({"learning_starts": 1000}, f"{A}learning_starts",
       "Decisions before learning starts. Until then actions are random.", Q_KIND, rl2="training"),
    to({"grad_clip": None}, f"{A}max_grad_norm", "Gradient norm limit; None = no clipping.", OFF_POLICY),
    refused({"worker_side_prioritization": False}, "new decisions have the highest priority; leave it out",
            tuple(name for name in OFF_POLICY if name not in ("SimpleQ", *APEX_KIND))),
    ignored("worker_side_prioritization", "the learner sets priorities, and new decisions have the highest", APEX_KIND,
            fine=(True,)),
]  # fmt: skip

DQN_KEYS = [
    to({"adam_epsilon": 1e-8}, f"{A}adam_eps", "Epsilon of Adam.", Q_KIND, rl2="training"),
    to({"double_q": True}, f"{A}double", "Whether the online network selects the next action.", DQN_KIND,
       rl2="training"),
    by(dueling, {"dueling": True, "hiddens": [256]}, f"{A}dueling {A}dueling_hidden",
       "dueling: separate streams of widths hiddens for state values and advantages. Without it, hiddens are further "
       "layers.", DQN_KIND,
       rl2="training"),
    by(q_values, {"num_atoms": 1, "v_min": -10.0, "v_max": 10.0},
       f"{A}values.kind {A}values.atoms {A}values.low {A}values.high",
       "num_atoms above 1: learns the distribution of returns, from v_min to v_max.", DQN_KIND, rl2="training"),
    by(q_exploration, {"noisy": False, "sigma0": 0.5}, f"{X}kind {X}noisy_std",
       "Noisy layers; sigma0 is the initial scale of their noise.", DQN_KIND,
       rl2="training"),
    by(q_target, {"target_network_update_freq": 500}, f"{A}target.every_env_steps",
       "Env steps between updates of the target network.", Q_KIND, rl2="training"),
    refused({"replay_sequence_length": 1}, "single decisions are sampled; R2D2 samples sequences",
            ("DQN", "SimpleQ", "APEX")),
    refused("replay_sequence_length", "it follows from max_seq_len and burn_in; leave it out", ("R2D2",)),
    refused({"before_learn_on_batch": None}, "read or change batches in on_learn_on_batch", DQN_KIND, rl2="training"),
    to({"burn_in": 0}, f"{R}burn_in", "Decisions at the start of a sequence that only update the recurrent state.",
       ("R2D2",)),
    ignored({"zero_init_states": True}, "sequences start from the stored recurrent state, as with False",
            ("R2D2",)),
    by(q_values, {"use_h_function": True}, f"{A}values.rescale", "Whether values are rescaled by h, as in the paper.",
       ("R2D2",)),
    refused({"h_function_epsilon": 1e-3}, "epsilon of h is always 0.001; leave it out", ("R2D2",)),
]  # fmt: skip

CRITIC_KEYS = [
    computed(lambda reader: 2 if reader.get("twin_q") else 1, {"twin_q": True}, f"{A}critic.number",
             "Whether there are two critics, of which the lower value is used.", (*SAC_KIND, *DDPG_KIND),
             rl2="training"),
    to({"tau": 5e-3}, f"{A}tau", "Soft update rate of target networks per gradient step.", (*SAC_KIND, *DDPG_KIND),
       rl2="training"),
    by(target_updates, {"target_network_update_freq": 0}, f"{A}target_every",
       "Timesteps between updates of target networks, by tau; 0 = in every gradient step.", (*SAC_KIND, *DDPG_KIND)),
    refused({"use_state_preprocessor": DEPRECATED_VALUE}, "there is no separate network for observations; leave it out",
            (*SAC_KIND, *DDPG_KIND), fine=(DEPRECATED_VALUE, False)),
    by(critic_exploration, {"learning_starts": 1500}, f"{A}learning_starts",
       "Decisions before learning starts; until then actions are random.", (*SAC_KIND, *DDPG_KIND)),
    by(sac_networks,
       {f"{net}.{name}": value for net in ("policy_model", "Q_model") for name, value in SAC_NETWORK.items()},
       f"{M}hidden {A}critic.widths {M}activation", "Hidden layers of actor and critics; their activation must be the "
       "same.", SAC_KIND),
    ignored({"policy_model.custom_model_config": {}, "Q_model.custom_model_config": {}},
            "SAC has no custom_model here", SAC_KIND),
    to({"initial_alpha": 1.0}, f"{A}alpha_init", "Initial temperature.", SAC_KIND, rl2="training"),
    computed(lambda reader: None if reader.get("target_entropy") in (None, "auto") else reader.number("target_entropy"),
             {"target_entropy": None}, f"{A}target_entropy", "Target entropy; None or 'auto' = from the action space.",
             SAC_KIND, rl2="training"),
    by(sac_rates, {"optimization.actor_learning_rate": 3e-4, "optimization.critic_learning_rate": 3e-4,
       "optimization.entropy_learning_rate": 3e-4}, f"{A}lr {A}actor_lr {A}alpha_lr",
       "Learning rates of critics, actor and temperature.", SAC_KIND),
    refused({"_deterministic_loss": False, "_use_beta_distribution": False},
            "the policy is always a squashed Gaussian; leave it out", SAC_KIND),
    by(ddpg_networks, {"actor_hiddens": [400, 300], "actor_hidden_activation": "relu", "critic_hiddens": [400, 300],
       "critic_hidden_activation": "relu"}, f"{M}hidden {A}critic.widths {M}activation",
       "Hidden layers of actor and critics; their activation must be the same.", DDPG_KIND),
    by(ddpg_rates, {"actor_lr": 1e-3, "critic_lr": 1e-3}, f"{A}lr {A}actor_lr", "Learning rates of actor and critics.",
       DDPG_KIND),
    by(smoothing, {"policy_delay": 1, "smooth_target_policy": False, "target_noise": 0.2, "target_noise_clip": 0.5},
       f"{A}policy_delay {A}target_noise {A}target_noise_clip",
       "policy_delay: gradient steps of the critics per actor update. smooth_target_policy: noise of standard "
       "deviation target_noise, clipped to target_noise_clip, is added to target actions. DDPG with either is TD3.",
       DDPG_KIND),
    by(huber, {"use_huber": False, "huber_threshold": 1.0}, f"{A}critic.huber",
       "use_huber: errors of values above huber_threshold count linearly; else all are squared.", DDPG_KIND),
    ignored({"l2_reg": 1e-6}, "weights do not decay", DDPG_KIND, fine=(0, 0.0)),
]  # fmt: skip


def cql_gap(reader: Reader) -> Values:
    """Translates the multiplier of the penalty: its threshold is weighted there, and not here."""
    if not reader.get("lagrangian"):
        return {"algorithm.lagrange_gap": None}
    weight = reader.number("min_q_weight")
    if weight <= 0:
        reader.refuse("min_q_weight", "with lagrangian = True it must be above 0")
        return {}
    return {"algorithm.lagrange_gap": reader.number("lagrangian_thresh") / weight}


OFFLINE_KEYS = [
    computed(lambda reader: reader.whole("train_batch_size", 1), "train_batch_size", f"{A}batch_size",
             "Decisions of the data per gradient step. An iteration is one gradient step, or as many as "
             "timesteps_per_iteration needs.", CLONING_KIND),
    ignored("rollout_fragment_length batch_mode", "nothing is sampled: it learns from recorded data", CLONING_KIND),
    to({"beta": 1.0}, f"{A}beta", "How much actions with high returns are preferred; 0 = behavioural cloning.",
       ("MARWIL",)),
    refused("beta", "behavioural cloning has no preference; use MARWIL", ("BC",), fine=(0.0,)),
    ignored({"vf_coeff": 1.0}, "values have their own network and optimizer", CLONING_KIND),
    to("grad_clip", f"{A}max_grad_norm", "Gradient norm limit; None = no clipping.", CLONING_KIND),
    ignored({"replay_buffer_size": 1000}, "all data are learned from", CLONING_KIND),
    ignored("learning_starts", "learning starts at once, on all data", CLONING_KIND),
    ignored("use_gae", "advantages are returns of the data minus values", CLONING_KIND),
    to({"bc_iters": 20000}, f"{A}cloning_steps", "Gradient steps at the start in which the actor clones the data.",
       ("CQL",)),
    to({"temperature": 1.0}, f"{A}conservative_temperature", "Temperature of the soft maximum over actions.", ("CQL",)),
    to({"num_actions": 10}, f"{A}num_actions", "Actions compared with that of the data, of each kind.", ("CQL",)),
    to({"min_q_weight": 5.0}, f"{A}conservative_weight", "Weight of the conservative penalty.", ("CQL",)),
    by(cql_gap, {"lagrangian": False, "lagrangian_thresh": 5.0}, f"{A}lagrange_gap",
       "lagrangian: the weight has a multiplier that keeps the gap at lagrangian_thresh / min_q_weight.", ("CQL",)),
]  # fmt: skip
