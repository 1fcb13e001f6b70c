"""Names of ``ray.rllib.examples.models``: the models of RLlib's examples.

The names for TensorFlow stand for the same models on torch.
"""

_AT = "ray.rllib.examples.models"


def _of(**names: str) -> dict[str, str]:
    """Names with the classes of `example_models` that they stand for."""
    return {name: f"examples.torch_models:{target}" for name, target in names.items()}


def _both(**names: str) -> dict[str, str]:
    """Names for TensorFlow with those for torch, and these themselves."""
    return _of(**names, **{target: target for target in names.values()})


NAMES: dict[str, dict[str, str]] = {
    f"{_AT}.autoregressive_action_dist": _both(
        BinaryAutoregressiveDistribution="TorchBinaryAutoregressiveDistribution"
    ),
    f"{_AT}.autoregressive_action_model": _both(AutoregressiveActionModel="TorchAutoregressiveActionModel"),
    f"{_AT}.batch_norm_model": _both(BatchNormModel="TorchBatchNormModel", KerasBatchNormModel="TorchBatchNormModel"),
    f"{_AT}.centralized_critic_models": _both(
        CentralizedCriticModel="TorchCentralizedCriticModel",
        YetAnotherCentralizedCriticModel="YetAnotherTorchCentralizedCriticModel",
    ),
    f"{_AT}.custom_loss_model": _both(CustomLossModel="TorchCustomLossModel"),
    f"{_AT}.custom_model_api": _both(DuelingQModel="TorchDuelingQModel", ContActionQModel="TorchContActionQModel"),
    f"{_AT}.fast_model": _both(FastModel="TorchFastModel"),
    f"{_AT}.modelv3": _of(RNNModel="NativeRNNModel"),
    f"{_AT}.parametric_actions_model": _both(ParametricActionsModel="TorchParametricActionsModel"),
    f"{_AT}.rnn_model": _of(RNNModel="RNNModel", TorchRNNModel="TorchRNNModel"),
    f"{_AT}.shared_weights_model": _both(
        SharedWeightsModel1="TorchSharedWeightsModel",
        SharedWeightsModel2="TorchSharedWeightsModel",
        TF2SharedWeightsModel="TorchSharedWeightsModel",
    )
    | _of(TORCH_GLOBAL_SHARED_LAYER="TORCH_GLOBAL_SHARED_LAYER"),
    f"{_AT}.simple_rpg_model": _both(CustomTFRPGModel="CustomTorchRPGModel"),
    f"{_AT}.trajectory_view_utilizing_models": _both(FrameStackingCartPoleModel="TorchFrameStackingCartPoleModel"),
}

GONE: dict[str, str] = {
    f"{_AT}.eager_model": "a TensorFlow model that ran a function eagerly; all models run eagerly here, any will do",
    f"{_AT}.mobilenet_v2_with_lstm_models": "a MobileNet whose weights are downloaded, with an LSTM; write a "
    "TorchModelV2 around a network of yours, as TorchRNNModel of ray.rllib.examples.models.rnn_model is one",
    f"{_AT}.neural_computer": "a model on the package dnc; write a RecurrentNetwork around it, as TorchRNNModel of "
    "ray.rllib.examples.models.rnn_model is one",
    f"{_AT}.rnn_spy_model": "a TensorFlow model that wrote its inputs to Ray's store for a test; use TorchRNNModel of "
    "ray.rllib.examples.models.rnn_model, whose forward_rnn can be overridden",
}
