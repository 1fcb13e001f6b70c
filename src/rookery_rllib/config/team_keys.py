"""Keys of QMIX and MADDPG, whose agents are members of a team."""

from __future__ import annotations

from rookery.face import nearest
from rookery_rllib.config.algorithms import A, M, R
from rookery_rllib.config.reader import Reader, Values
from rookery_rllib.config.replay_keys import ddpg_networks, ddpg_rates, q_target
from rookery_rllib.config.rows import by, ignored, refused, to
from rookery_rllib.config.run_keys import learning_rate
from rookery_rllib.config.sampling_keys import replay_pace
from rookery_rllib.env.teams import TEAM_KIND


def mixer(reader: Reader) -> Values:
    """Translates the mixer of the members' values: QMIX, VDN, or none, with which members learn by themselves."""
    kind = reader.get("mixer")
    if kind == "vdn":
        return {"algorithm.name": "vdn"}
    if kind is None:
        reader.notes.append(
            "mixer = None: members learn by themselves, by DQN from their own rewards, with one network for all; a "
            "batch is train_batch_size decisions of members"
        )
        return {"algorithm.name": "dqn"}
    if kind != "qmix":
        reader.refuse("mixer", f"must be 'qmix', 'vdn' or None{nearest(str(kind), ['qmix', 'vdn'])}")
    return {"algorithm.name": "qmix", "algorithm.mixing_size": reader.whole("mixing_embed_dim", 1)}


def member_layers(reader: Reader) -> Values:
    """Translates the layer before a member's GRU, of the same width."""
    width = reader.whole("model.lstm_cell_size", 1)
    return {"algorithm.model.hidden": (width,), "algorithm.model.activation": "relu"}


def team_replay(reader: Reader) -> Values:
    return {"algorithm.replay.kind": "uniform", "algorithm.replay.capacity": reader.whole("buffer_size", 1)}


TEAM_KEYS = [
    by(replay_pace, "rollout_fragment_length train_batch_size", f"{A}train_every {A}updates_per_step {A}batch_size",
       "Each round of rollout_fragment_length steps of every environment is followed by a gradient step on "
       "train_batch_size decisions, with QMIX in sequences.", TEAM_KIND),
    ignored("batch_mode", "replayed data does not depend on where sampling paused", TEAM_KIND),
    by(team_replay, {"buffer_size": 10000}, f"{R}capacity", "Capacity of the replay buffer in decisions.", TEAM_KIND),
    to({"learning_starts": 1000}, f"{A}learning_starts",
       "Decisions before learning starts; until then actions are random.", TEAM_KIND),
    to({"grad_norm_clipping": 10}, f"{A}max_grad_norm", "Gradient norm limit; None = no clipping.", TEAM_KIND),
    refused({"worker_side_prioritization": False}, "decisions are sampled uniformly; leave it out", TEAM_KIND),
    by(learning_rate, "lr", f"{A}lr", "Learning rate.", ("QMIX",)),
    by(mixer, {"mixer": "qmix", "mixing_embed_dim": 32}, "algorithm.name algorithm.mixing_size",
       "mixer: qmix, vdn (the sum of the members' values), or None (members learn by themselves, by DQN). "
       "mixing_embed_dim: width of the mixer.", ("QMIX",)),
    to({"double_q": True}, f"{A}double", "Whether the online network selects the next actions.", ("QMIX",)),
    by(q_target, {"target_network_update_freq": 500}, f"{A}target.every_env_steps",
       "Env steps between updates of the target network.", ("QMIX",)),
    ignored({"optim_alpha": 0.99, "optim_eps": 0.00001}, "QMIX uses Adam here, and RMSprop in RLlib", ("QMIX",)),
    by(member_layers, "model.lstm_cell_size", f"{M}hidden {M}activation",
       "Width of the layer and of the GRU that all members share.", ("QMIX",)),
    ignored("model.fcnet_hiddens model.fcnet_activation model.post_fcnet_hiddens model.post_fcnet_activation",
            "the network of members is one layer and a GRU, both of lstm_cell_size units", ("QMIX",)),
    ignored("model.fcnet_hiddens model.fcnet_activation model.post_fcnet_hiddens model.post_fcnet_activation lr",
            "layers and learning rates of actors and critic have their own keys", ("MADDPG",)),
    refused("model.conv_filters model.conv_activation model.no_final_linear",
            "convolutions cannot be listed for this algorithm; the setting model.cnn chooses the image network",
            TEAM_KIND),
    ignored("model.vf_share_layers", "the algorithm has no value function beside its policy network", TEAM_KIND),
    ignored({"agent_id": None, "good_policy": "maddpg", "adv_policy": "maddpg"},
            "all agents are members of one team, whose critic learns the sum of their rewards", ("MADDPG",)),
    refused({"use_local_critic": False}, "the critic always receives all observations and actions; use DDPG",
            ("MADDPG",)),
    refused({"use_state_preprocessor": False}, "there is no separate network for observations; leave it out",
            ("MADDPG",)),
    by(ddpg_networks, {"actor_hiddens": [64, 64], "actor_hidden_activation": "relu", "critic_hiddens": [64, 64],
       "critic_hidden_activation": "relu"}, f"{M}hidden {A}critic.widths {M}activation",
       "Hidden layers of actors and critic; their activation must be the same.", ("MADDPG",)),
    by(ddpg_rates, {"actor_lr": 1e-2, "critic_lr": 1e-2}, f"{A}lr {A}actor_lr", "Learning rates of actors and critic.",
       ("MADDPG",)),
    to({"n_step": 1}, f"{A}n_step", "Steps of n-step targets.", ("MADDPG",)),
    to({"tau": 0.01}, f"{A}tau", "Soft update rate of the target networks per gradient step.", ("MADDPG",)),
    to({"actor_feature_reg": 0.001}, f"{A}logit_coef", "Weight of the squared logits in the actors' loss.",
       ("MADDPG",)),
    refused({"target_network_update_freq": 0}, "target networks are updated in every gradient step, by tau; use 0",
            ("MADDPG",)),
]  # fmt: skip
