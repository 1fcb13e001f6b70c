"""Names of `ray.rllib.models`: models, networks, layers and action distributions."""

_MODEL_V2 = {"ModelV2": "model.model_v2:ModelV2"}
_ACTION_DISTRIBUTION = {"ActionDistribution": "model.action_distributions:ActionDistribution"}
_CATALOG = {
    "ModelCatalog": "model.catalog:ModelCatalog",
    "MODEL_DEFAULTS": "config.defaults:MODEL_DEFAULTS",
}
_SEQUENCES = {
    name: f"batch.sequences:{name}"
    for name in (
        "add_time_dimension",
        "chop_into_sequences",
        "pad_batch_to_sequences_of_same_size",
        "timeslice_along_seq_lens_with_overlap",
    )
}
_FULLY_CONNECTED = {"FullyConnectedNetwork": "model.networks:FullyConnectedNetwork"}
_VISION = {"VisionNetwork": "model.networks:VisionNetwork"}
_COMPLEX = {"ComplexInputNetwork": "model.networks:ComplexInputNetwork"}
_ATTENTION = {
    "GTrXLNet": "model.attention_networks:GTrXLNet",
    "AttentionWrapper": "model.attention_networks:AttentionWrapper",
}
_MODULES = {
    "GRUGate": "model.attention_networks:GRUGate",
    "MultiHeadAttention": "model.attention_networks:MultiHeadAttention",
    "RelativeMultiHeadAttention": "model.attention_networks:RelativeMultiHeadAttention",
    "SkipConnection": "model.network_layers:SkipConnection",
    "NoisyLayer": "model.network_layers:NoisyLayer",
}
_DISTRIBUTIONS = {
    "Categorical": "model.action_distributions:TorchCategorical",
    "MultiCategorical": "model.action_distributions:TorchMultiCategorical",
    "DiagGaussian": "model.action_distributions:TorchDiagGaussian",
    "SquashedGaussian": "model.action_distributions:TorchSquashedGaussian",
    "Beta": "model.action_distributions:TorchBeta",
    "Deterministic": "model.action_distributions:TorchDeterministic",
    "Dirichlet": "model.action_distributions:TorchDirichlet",
    "MultiActionDistribution": "model.action_distributions:TorchMultiActionDistribution",
}
_TORCH = "ray.rllib.models.torch"
_TF = "ray.rllib.models.tf"

NAMES: dict[str, dict[str, str]] = {
    "ray.rllib.models": {**_MODEL_V2, **_ACTION_DISTRIBUTION, **_CATALOG},
    "ray.rllib.models.catalog": {**_CATALOG, **_ACTION_DISTRIBUTION, **_MODEL_V2},
    "ray.rllib.models.modelv2": _MODEL_V2,
    "ray.rllib.models.action_dist": _ACTION_DISTRIBUTION,
    "ray.rllib.models.utils": {
        "get_activation_fn": "model.network_layers:get_activation_fn",
        "get_filter_config": "model.network_layers:get_filter_config",
        "get_initializer": "model.network_layers:get_initializer",
    },
    "ray.rllib.policy.rnn_sequencing": _SEQUENCES,
    "ray.rllib.agents.dqn.distributional_q_tf_model": {"DistributionalQTFModel": "model.model_v2:TFModelV2"},
    "ray.rllib.agents.dqn.dqn_torch_model": {"DQNTorchModel": "model.networks:DQNTorchModel"},
    # torch
    f"{_TORCH}.torch_modelv2": {"TorchModelV2": "model.model_v2:TorchModelV2", **_MODEL_V2},
    f"{_TORCH}.torch_action_dist": {
        **{f"Torch{name}": target for name, target in _DISTRIBUTIONS.items()},
        "TorchDistributionWrapper": "model.action_distributions:TorchDistributionWrapper",
        **_ACTION_DISTRIBUTION,
    },
    f"{_TORCH}.fcnet": _FULLY_CONNECTED,
    f"{_TORCH}.visionnet": _VISION,
    f"{_TORCH}.complex_input_net": _COMPLEX,
    f"{_TORCH}.noop": {"TorchNoopModel": "model.networks:TorchNoopModel"},
    f"{_TORCH}.recurrent_net": {
        "RecurrentNetwork": "model.recurrent_networks:RecurrentNetwork",
        "LSTMWrapper": "model.recurrent_networks:LSTMWrapper",
    },
    f"{_TORCH}.attention_net": _ATTENTION,
    f"{_TORCH}.misc": {
        name: f"model.network_layers:{name}"
        for name in ("normc_initializer", "same_padding", "SlimConv2d", "SlimFC", "AppendBiasLayer", "Reshape")
    },
    f"{_TORCH}.modules": _MODULES,
    f"{_TORCH}.modules.gru_gate": {"GRUGate": _MODULES["GRUGate"]},
    f"{_TORCH}.modules.multi_head_attention": {"MultiHeadAttention": _MODULES["MultiHeadAttention"]},
    f"{_TORCH}.modules.relative_multi_head_attention": {
        "RelativeMultiHeadAttention": _MODULES["RelativeMultiHeadAttention"]
    },
    f"{_TORCH}.modules.skip_connection": {"SkipConnection": _MODULES["SkipConnection"]},
    f"{_TORCH}.modules.noisy_layer": {"NoisyLayer": _MODULES["NoisyLayer"]},
    f"{_TORCH}.modules.convtranspose2d_stack": {"ConvTranspose2DStack": "model.network_layers:ConvTranspose2DStack"},
    # TensorFlow, where the same runs on torch
    _TF: {
        "TFModelV2": "model.model_v2:TFModelV2",
        "RecurrentNetwork": "model.recurrent_networks:TFRecurrentNetwork",
        **_FULLY_CONNECTED,
        **_VISION,
    },
    f"{_TF}.tf_modelv2": {"TFModelV2": "model.model_v2:TFModelV2", **_MODEL_V2},
    f"{_TF}.tf_action_dist": {
        **_DISTRIBUTIONS,
        "GumbelSoftmax": "model.action_distributions:GumbelSoftmax",
        "TFActionDistribution": "model.action_distributions:TorchDistributionWrapper",
        **_ACTION_DISTRIBUTION,
    },
    f"{_TF}.fcnet": _FULLY_CONNECTED,
    f"{_TF}.visionnet": _VISION,
    f"{_TF}.complex_input_net": _COMPLEX,
    f"{_TF}.recurrent_net": {
        "RecurrentNetwork": "model.recurrent_networks:TFRecurrentNetwork",
        "LSTMWrapper": "model.recurrent_networks:LSTMWrapper",
    },
    f"{_TF}.attention_net": _ATTENTION,
    f"{_TF}.misc": {"normc_initializer": "model.network_layers:normc_initializer"},
}

_KERAS = "a Keras network of its own; without a custom_model the network is made by the section model"
_LAYERS = "Keras layers; ray.rllib.models.torch.modules has them on torch"

GONE: dict[str, str] = {
    f"{_TF}.fcnet.Keras_FullyConnectedNetwork": _KERAS,
    f"{_TF}.visionnet.Keras_VisionNetwork": _KERAS,
    f"{_TF}.recurrent_net.Keras_LSTMWrapper": f"{_KERAS}, and use_lstm puts an LSTM on top of it",
    f"{_TF}.attention_net.Keras_GTrXLNet": f"{_KERAS}, and use_attention puts attention on top of it",
    f"{_TF}.attention_net.Keras_AttentionWrapper": f"{_KERAS}, and use_attention puts attention on top of it",
    f"{_TF}.attention_net.TrXLNet": "attention without gates, on TensorFlow; use GTrXLNet, or use_attention",
    f"{_TF}.attention_net.PositionwiseFeedforward": "a Keras layer; use two SlimFC of ray.rllib.models.torch.misc",
    f"{_TF}.layers": _LAYERS,
    f"{_TF}.misc.conv2d": "a layer of TensorFlow graphs; use SlimConv2d of ray.rllib.models.torch.misc",
    f"{_TF}.misc.linear": "a layer of TensorFlow graphs; use SlimFC of ray.rllib.models.torch.misc",
    f"{_TF}.misc.flatten": "a function of TensorFlow graphs; use torch.flatten(x, 1)",
    "ray.rllib.models.jax": "models on JAX; derive yours from TorchModelV2 and torch.nn.Module",
    "ray.rllib.models.model": "models of 2018, which built TensorFlow graphs; derive yours from TorchModelV2",
    "ray.rllib.models.Model": "models of 2018, which built TensorFlow graphs; derive yours from TorchModelV2",
    "ray.rllib.models.preprocessors.legacy_patch_shapes": "a change of spaces for old gym; spaces are gymnasium's",
}
