"""Names of `tensorflow` that models for RLlib used in 2021; those below `tf.keras` are Keras 3's own."""

from rookery_rllib.base.names import gone_in, names_in

_HOMES = ("tensorflow", "tensorflow.compat.v1", "tensorflow.compat.v2")

_FUNCTIONS = """
{home}.math  keras.tensorflow_names:
    add add_n argmax argmin atanh ceil cos cumsum divide equal erf exp expm1 floor floormod greater greater_equal
    is_finite is_inf is_nan less less_equal log log1p log_softmax logical_and logical_not logical_or maximum minimum
    multiply negative not_equal reduce_all reduce_any reduce_logsumexp reduce_max reduce_mean reduce_min reduce_prod
    reduce_std reduce_sum reduce_variance rsqrt sigmoid sign sin softmax softplus sqrt square subtract tanh
    abs=abs_ pow=pow_ round=round_ mod=floormod truediv=divide
{home}.nn  keras.tensorflow_names:
    elu gelu l2_loss leaky_relu log_softmax moments relu relu6 selu sigmoid softmax softplus softsign swish tanh
    sparse_softmax_cross_entropy_with_logits softmax_cross_entropy_with_logits sigmoid_cross_entropy_with_logits
    silu=swish
{home}  .math: *  keras.backend: __needs__=needs_keras
    keras.tensorflow_names: Tensor Variable boolean_mask broadcast_to cast clip_by_value concat cond constant
        convert_to_tensor einsum executing_eagerly expand_dims eye fill float16 float32 float64 function gather group
        identity int16 int32 int64 int8 is_tensor linspace matmul one_hot ones ones_like pad py_function rank repeat
        reshape reverse sequence_mask shape size split squeeze stack stop_gradient tensordot tile transpose uint8
        unstack where zeros zeros_like DType __version__=VERSION bool=bool_ range=range_ slice=slice_ no_op=group
{home}  keras.tensorflow_names:
    linalg.matmul linalg.einsum linalg.tensordot linalg.global_norm linalg.eye
    random.set_seed random.normal=random_normal random.uniform=random_uniform random.categorical=random_categorical
    config.list_physical_devices config.run_functions_eagerly=nothing_to_do
    config.experimental.list_physical_devices config.experimental.set_memory_growth=nothing_to_do
{home}.nest  =keras.tree: map_structure flatten
"""

_OF_VERSION_1 = """
tensorflow.compat.v1  keras.tensorflow_names:
    random_normal random_uniform py_func=py_function set_random_seed=set_seed
    enable_eager_execution=nothing_to_do disable_eager_execution=nothing_to_do enable_v2_behavior=nothing_to_do
    disable_v2_behavior=nothing_to_do enable_resource_variables=nothing_to_do
"""

_KERAS = """
{home}.keras  keras.layers: layers.LSTM layers.GRU layers.SimpleRNN
    keras.tensorflow_names: *=keras activations.*=keras.activations applications.*=keras.applications
        backend.*=keras.backend callbacks.*=keras.callbacks constraints.*=keras.constraints
        initializers.*=keras.initializers layers.*=keras.layers losses.*=keras.losses metrics.*=keras.metrics
        models.*=keras.models optimizers.*=keras.optimizers regularizers.*=keras.regularizers utils.*=keras.utils
"""

NAMES = names_in(
    "".join(_FUNCTIONS.format(home=home) for home in _HOMES)
    + _OF_VERSION_1
    + "".join(_KERAS.format(home=home) for home in (*_HOMES, "tensorflow.python"))
)

_GONE = """
{home}
    Session InteractiveSession placeholder placeholder_with_default global_variables_initializer get_default_session
        get_default_graph Graph ConfigProto GPUOptions control_dependencies: TensorFlow graphs and sessions; here
        operations run at once, and policy.get_session().run(x) returns numpy arrays
    get_variable variable_scope AUTO_REUSE get_collection GraphKeys VariableScope layers global_variables
        trainable_variables constant_initializer random_uniform_initializer random_normal_initializer: variables
        by scope; use layers of tf.keras, which own their variables
    train GradientTape gradients estimator: training by TensorFlow; Rookery makes the gradient steps, by the keys of
        the trainer's configuration (lr, grad_clip)
    distributions: TensorFlow distributions; use the ActionDistribution classes of ray.rllib.models
    summary: writes TensorBoard files; results and custom_metrics of callbacks are written automatically
    contrib: removed from TensorFlow in 2019
    data: input pipelines; recorded experience is read by JsonReader of ray.rllib.offline
    saved_model: TensorFlow's file format; use Trainer.save
"""

GONE = gone_in("".join(_GONE.format(home=home) for home in _HOMES))
