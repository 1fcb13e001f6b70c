"""Names of `ray.rllib.models`: models, networks, layers and action distributions."""

from rookery_rllib.base.names import gone_in, names_in

NAMES = names_in("""
ray.rllib.models.catalog ray.rllib.models  model.catalog: ModelCatalog  config.defaults: MODEL_DEFAULTS
    model.action_distributions: ActionDistribution
    model.model_v2: ModelV2
ray.rllib.models.modelv2  model.model_v2: ModelV2
ray.rllib.models.action_dist  model.action_distributions: ActionDistribution
ray.rllib.models.utils  model.network_layers: get_activation_fn get_filter_config get_initializer
ray.rllib.policy.rnn_sequencing  batch.sequences:
    add_time_dimension chop_into_sequences pad_batch_to_sequences_of_same_size timeslice_along_seq_lens_with_overlap
ray.rllib.agents.dqn.distributional_q_tf_model  model.model_v2: DistributionalQTFModel=TFModelV2
ray.rllib.agents.dqn.dqn_torch_model  model.networks: DQNTorchModel

ray.rllib.models.torch ray.rllib.models.tf
    model.networks: fcnet.FullyConnectedNetwork visionnet.VisionNetwork complex_input_net.ComplexInputNetwork
    model.attention_networks: attention_net.GTrXLNet attention_net.AttentionWrapper
    model.recurrent_networks: recurrent_net.LSTMWrapper

ray.rllib.models.torch  model.networks: noop.TorchNoopModel
    model.recurrent_networks: recurrent_net.RecurrentNetwork
ray.rllib.models.torch.misc  model.network_layers:
    normc_initializer same_padding SlimConv2d SlimFC AppendBiasLayer Reshape
ray.rllib.models.torch.modules
    model.attention_networks: gru_gate.GRUGate multi_head_attention.MultiHeadAttention
        relative_multi_head_attention.RelativeMultiHeadAttention
    model.network_layers: skip_connection.SkipConnection noisy_layer.NoisyLayer  .*: *
    model.network_layers: convtranspose2d_stack.ConvTranspose2DStack
ray.rllib.models.torch.torch_action_dist  model.action_distributions:
    ActionDistribution TorchDistributionWrapper TorchCategorical TorchMultiCategorical TorchDiagGaussian
    TorchSquashedGaussian TorchBeta TorchDeterministic TorchDirichlet TorchMultiActionDistribution
ray.rllib.models.torch.torch_modelv2  model.model_v2: TorchModelV2 ModelV2

ray.rllib.models.tf  model.recurrent_networks: recurrent_net.RecurrentNetwork=TFRecurrentNetwork
    model.network_layers: misc.normc_initializer
    model.model_v2: tf_modelv2.TFModelV2 TFModelV2 tf_modelv2.ModelV2
    .fcnet: *  .visionnet: *  .recurrent_net: RecurrentNetwork
ray.rllib.models.tf.tf_action_dist  model.action_distributions:
    ActionDistribution TFActionDistribution=TorchDistributionWrapper Categorical=TorchCategorical
    MultiCategorical=TorchMultiCategorical DiagGaussian=TorchDiagGaussian SquashedGaussian=TorchSquashedGaussian
    Beta=TorchBeta Deterministic=TorchDeterministic Dirichlet=TorchDirichlet GumbelSoftmax
    MultiActionDistribution=TorchMultiActionDistribution
""")

_KERAS = "a Keras version of the default network; without a custom_model the section model defines the network"

GONE = gone_in(f"""
ray.rllib.models
    tf.fcnet.Keras_FullyConnectedNetwork tf.visionnet.Keras_VisionNetwork: {_KERAS}
    tf.recurrent_net.Keras_LSTMWrapper: {_KERAS}, and use_lstm adds an LSTM
    tf.attention_net.Keras_GTrXLNet tf.attention_net.Keras_AttentionWrapper: {_KERAS}, and use_attention
        adds attention
    tf.attention_net.TrXLNet: attention without gates in TensorFlow; use GTrXLNet, or use_attention
    tf.attention_net.PositionwiseFeedforward: a Keras layer; use two SlimFC of ray.rllib.models.torch.misc
    tf.layers: Keras layers; use those of ray.rllib.models.torch.modules
    tf.misc.conv2d: a layer of TensorFlow graphs; use SlimConv2d of ray.rllib.models.torch.misc
    tf.misc.linear: a layer of TensorFlow graphs; use SlimFC of ray.rllib.models.torch.misc
    tf.misc.flatten: a function of TensorFlow graphs; use torch.flatten(x, 1)
    jax: models in JAX; derive from TorchModelV2 and torch.nn.Module
    model Model: models of 2018, which build TensorFlow graphs; derive from TorchModelV2
    preprocessors.legacy_patch_shapes: a patch for spaces of old Gym versions; spaces are those of gymnasium
""")
