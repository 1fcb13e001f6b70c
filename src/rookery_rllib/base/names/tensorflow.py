"""Names of `tensorflow` that models for RLlib used in 2021; those below `tf.keras` are Keras 3's own."""


def _at(names: str = "", **renamed: str) -> dict[str, str]:
    """Entries for functions of `tensorflow_names`: of the same name, or of another."""
    return {
        name: f"keras.tensorflow_names:{here}" for name, here in {**{n: n for n in names.split()}, **renamed}.items()
    }


_MATH = _at(
    "add add_n argmax argmin atanh ceil cos cumsum divide equal erf exp expm1 floor floormod greater greater_equal "
    "is_finite is_inf is_nan less less_equal log log1p log_softmax logical_and logical_not logical_or maximum minimum "
    "multiply negative not_equal reduce_all reduce_any reduce_logsumexp reduce_max reduce_mean reduce_min reduce_prod "
    "reduce_std reduce_sum reduce_variance rsqrt sigmoid sign sin softmax softplus sqrt square subtract tanh",
    abs="abs_",
    pow="pow_",
    round="round_",
    mod="floormod",
    truediv="divide",
)

_NN = _at(
    "elu gelu l2_loss leaky_relu log_softmax moments relu relu6 selu sigmoid softmax softplus softsign swish tanh "
    "sparse_softmax_cross_entropy_with_logits softmax_cross_entropy_with_logits sigmoid_cross_entropy_with_logits",
    silu="swish",
)

_TF = {
    **_MATH,
    **_at(
        "Tensor Variable boolean_mask broadcast_to cast clip_by_value concat cond constant convert_to_tensor einsum "
        "executing_eagerly expand_dims eye fill float16 float32 float64 function gather group identity int16 int32 "
        "int64 int8 is_tensor linspace matmul one_hot ones ones_like pad py_function rank repeat reshape reverse "
        "sequence_mask shape size split squeeze stack stop_gradient tensordot tile transpose uint8 unstack where zeros "
        "zeros_like DType",
        __version__="VERSION",
        bool="bool_",
        range="range_",
        slice="slice_",
        no_op="group",
    ),
    "__needs__": "keras.backend:needs_keras",
}

_SWITCHES = (
    "enable_eager_execution",
    "disable_eager_execution",
    "disable_v2_behavior",
    "enable_v2_behavior",
    "enable_resource_variables",
)

_TF1 = {
    **_TF,
    **_at("random_normal random_uniform", py_func="py_function", set_random_seed="set_seed"),
    **_at(**dict.fromkeys(_SWITCHES, "nothing_to_do")),
}

_PARTS = {
    "math": _MATH,
    "nn": _NN,
    "linalg": _at("matmul einsum tensordot global_norm eye"),
    "random": _at("set_seed", normal="random_normal", uniform="random_uniform", categorical="random_categorical"),
    "nest": {"map_structure": "=keras.tree:map_structure", "flatten": "=keras.tree:flatten"},
    "config": _at("list_physical_devices", run_functions_eagerly="nothing_to_do"),
    "config.experimental": _at("list_physical_devices", set_memory_growth="nothing_to_do"),
}

_KERAS_PARTS = (
    "activations applications backend callbacks constraints initializers layers losses metrics models optimizers "
    "regularizers utils"
)

_HOMES = {"tensorflow": _TF, "tensorflow.compat.v1": _TF1, "tensorflow.compat.v2": _TF}

NAMES = {
    **_HOMES,
    **{f"{home}.{part}": entries for home in _HOMES for part, entries in _PARTS.items()},
    **{f"{home}.keras": {"*": "keras.tensorflow_names:keras"} for home in (*_HOMES, "tensorflow.python")},
    **{
        f"{home}.keras.{part}": {"*": f"keras.tensorflow_names:keras.{part}"}
        for home in (*_HOMES, "tensorflow.python")
        for part in _KERAS_PARTS.split()
    },
}

for _home in (*_HOMES, "tensorflow.python"):
    NAMES[f"{_home}.keras.layers"] = {
        "LSTM": "keras.layers:LSTM",
        "GRU": "keras.layers:GRU",
        "SimpleRNN": "keras.layers:SimpleRNN",
        "*": "keras.tensorflow_names:keras.layers",
    }

_SESSIONS = "a part of graphs and sessions; all is done at once here, and policy.get_session().run(x) gives numpy"

_VARIABLES = "variables by scope; layers of tf.keras keep their own"

_TRAINING = "training by TensorFlow; Rookery steps weights as the trainer's config says (lr, grad_clip)"

_OF_SESSIONS = (
    "Session InteractiveSession placeholder placeholder_with_default global_variables_initializer get_default_session "
    "get_default_graph Graph ConfigProto GPUOptions control_dependencies"
)

_OF_VARIABLES = (
    "get_variable variable_scope AUTO_REUSE get_collection GraphKeys VariableScope layers global_variables "
    "trainable_variables constant_initializer random_uniform_initializer random_normal_initializer"
)

_GONE = {
    **dict.fromkeys(_OF_SESSIONS.split(), _SESSIONS),
    **dict.fromkeys(_OF_VARIABLES.split(), _VARIABLES),
    **dict.fromkeys(("train", "GradientTape", "gradients", "estimator"), _TRAINING),
    "distributions": "distributions of TensorFlow; ActionDistribution of ray.rllib.models has those of actions",
    "summary": "writing for TensorBoard; results and callbacks' custom_metrics are written for it",
    "contrib": "TensorFlow dropped it in 2019",
    "data": "pipelines of data; offline data is read by the key `input`",
    "saved_model": "TensorFlow's files; Trainer.save writes checkpoints",
}

GONE = {f"{home}.{name}": told for home in _HOMES for name, told in _GONE.items()}
