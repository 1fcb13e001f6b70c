"""The names of TensorFlow that models for RLlib used in 2021, on Keras 3 with PyTorch below it.

Functions take TensorFlow's arguments, tensors and symbolic inputs of Keras, and return PyTorch's tensors. Everything is
eager: there are no sessions and no graphs. Needs the extra ``keras``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from rookery.face import ConfigError
from rookery_rllib.keras.backend import load_keras

VERSION = "2.4.1"
"""Value of ``tf.__version__``."""


def __getattr__(name: str) -> Any:
    if name == "keras":
        return load_keras()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _ops() -> Any:
    return load_keras().ops


# -- types -------------------------------------------------------------------------------------------------------------


class DType(str):
    """An element type, by the name that Keras and numpy know."""

    __slots__ = ()

    @property
    def name(self) -> str:
        return str(self)

    @property
    def as_numpy_dtype(self) -> type:
        return np.dtype(str(self)).type

    @property
    def is_floating(self) -> bool:
        return np.dtype(str(self)).kind == "f"

    @property
    def is_integer(self) -> bool:
        return np.dtype(str(self)).kind in "iu"

    @property
    def min(self) -> Any:
        return self._reach().min

    @property
    def max(self) -> Any:
        return self._reach().max

    def _reach(self) -> Any:
        return np.finfo(self.as_numpy_dtype) if self.is_floating else np.iinfo(self.as_numpy_dtype)


float16, float32, float64 = DType("float16"), DType("float32"), DType("float64")
int8, int16, int32, int64 = DType("int8"), DType("int16"), DType("int32"), DType("int64")
uint8 = DType("uint8")
bool_ = DType("bool")

Tensor = torch.Tensor


def _dtype(dtype: Any) -> str | None:
    """Returns the name of an element type, or None."""
    if dtype is None:
        return None
    if dtype in (float, int, bool):
        return {float: "float32", int: "int32", bool: "bool"}[dtype]
    return str(dtype) if isinstance(dtype, str) else str(np.dtype(dtype))


def _tensor(value: Any, dtype: Any = None) -> Any:
    """Converts to a tensor as TensorFlow does: Python floats become float32, ints int32."""
    keras = load_keras()
    if isinstance(value, keras.KerasTensor):
        return value if dtype is None else _ops().cast(value, _dtype(dtype))
    typed = isinstance(value, torch.Tensor | np.ndarray | np.generic | keras.Variable) or _has_tensors(value)
    if dtype is None and not typed:
        dtype = {"f": float32, "i": int32, "b": bool_}.get(np.asarray(value).dtype.kind)
    return _ops().convert_to_tensor(value, _dtype(dtype))


def _has_tensors(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_has_tensors, value))
    return isinstance(value, torch.Tensor)


# -- making tensors ----------------------------------------------------------------------------------------------------


def constant(value: Any, dtype: Any = None, shape: Any = None, name: Any = None) -> Any:
    """Returns a tensor with a value; a scalar fills a `shape`."""
    made = _tensor(value, dtype)
    if shape is None:
        return made
    return _ops().broadcast_to(made, tuple(shape)) if made.ndim == 0 else _ops().reshape(made, tuple(shape))


def convert_to_tensor(value: Any, dtype: Any = None, dtype_hint: Any = None, name: Any = None) -> Any:
    return _tensor(value, dtype)


def zeros(shape: Any, dtype: Any = float32, name: Any = None) -> Any:
    return _ops().zeros(_shape(shape), _dtype(dtype))


def ones(shape: Any, dtype: Any = float32, name: Any = None) -> Any:
    return _ops().ones(_shape(shape), _dtype(dtype))


def fill(dims: Any, value: Any, name: Any = None) -> Any:
    return _ops().full(_shape(dims), value, _tensor(value).dtype)


def zeros_like(input: Any, dtype: Any = None, name: Any = None) -> Any:
    return _ops().zeros_like(_tensor(input), _dtype(dtype))


def ones_like(input: Any, dtype: Any = None, name: Any = None) -> Any:
    return _ops().ones_like(_tensor(input), _dtype(dtype))


def eye(num_rows: int, num_columns: int | None = None, dtype: Any = float32, name: Any = None) -> Any:
    return _ops().eye(num_rows, num_columns, dtype=_dtype(dtype))


def range_(start: Any, limit: Any = None, delta: Any = 1, dtype: Any = None, name: Any = None) -> Any:
    if limit is None:
        start, limit = 0, start
    whole = all(isinstance(number, int | np.integer) for number in (start, limit, delta))
    return _ops().arange(start, limit, delta, _dtype(dtype) or ("int32" if whole else None))


def linspace(start: Any, stop: Any, num: int, name: Any = None, axis: int = 0) -> Any:
    return _ops().linspace(start, stop, num, axis=axis)


def one_hot(
    indices: Any,
    depth: int,
    on_value: Any = 1,
    off_value: Any = 0,
    axis: int = -1,
    dtype: Any = float32,
    name: Any = None,
) -> Any:
    hot = _ops().one_hot(_ops().cast(_tensor(indices), "int64"), depth, axis=axis, dtype=_dtype(dtype))
    return hot if (on_value, off_value) == (1, 0) else hot * (on_value - off_value) + off_value


def sequence_mask(lengths: Any, maxlen: Any = None, dtype: Any = bool_, name: Any = None) -> Any:
    """Returns a mask row for each length, ``[..., maxlen]``."""
    lengths = _tensor(lengths)
    if maxlen is None and isinstance(lengths, load_keras().KerasTensor):
        from rookery_rllib.keras.layers import LongestMask

        return LongestMask(_dtype(dtype))(lengths)
    longest = int(_ops().max(lengths)) if maxlen is None else int(maxlen)
    steps = _ops().arange(longest, dtype="int32")
    mask = _ops().expand_dims(_ops().cast(lengths, "int32"), -1) > steps
    return _ops().cast(mask, _dtype(dtype))


def Variable(
    initial_value: Any,
    trainable: bool = True,
    validate_shape: bool = True,
    name: Any = None,
    dtype: Any = None,
    **kwargs: Any,
) -> Any:
    """Returns a variable of Keras with a value; layers and models keep those that are set as attributes."""
    value = initial_value() if callable(initial_value) else initial_value
    tensor = _tensor(value, dtype)
    made = {"name": str(name).replace("/", "_")} if name else {}
    return load_keras().Variable(tensor, trainable=trainable, dtype=_dtype(dtype) or _ops().dtype(tensor), **made)


# -- shapes ------------------------------------------------------------------------------------------------------------


def _shape(shape: Any) -> tuple[Any, ...]:
    if isinstance(shape, int | np.integer):
        return (int(shape),)
    if isinstance(shape, torch.Tensor):
        return tuple(map(int, shape.tolist()))
    return tuple(size if size is None or not hasattr(size, "__int__") else int(size) for size in shape)


def shape(input: Any, out_type: Any = int32, name: Any = None) -> tuple[Any, ...]:
    """Returns the sizes of a tensor; None where a symbolic input leaves one open."""
    sizes: tuple[Any, ...] = tuple(_ops().shape(_tensor(input)))
    return sizes


def size(input: Any, out_type: Any = int32, name: Any = None) -> Any:
    return _ops().size(_tensor(input))


def rank(input: Any, name: Any = None) -> int:
    return len(shape(input))


def reshape(tensor: Any, shape: Any, name: Any = None) -> Any:
    wanted = tuple(-1 if size is None else size for size in _shape(shape))
    return _ops().reshape(_tensor(tensor), wanted)


def expand_dims(input: Any, axis: int, name: Any = None) -> Any:
    return _ops().expand_dims(_tensor(input), axis)


def squeeze(input: Any, axis: Any = None, name: Any = None, squeeze_dims: Any = None) -> Any:
    axis = squeeze_dims if axis is None else axis
    axis = tuple(axis) if isinstance(axis, list) else axis
    return _ops().squeeze(_tensor(input), axis)


def concat(values: Any, axis: int, name: Any = None) -> Any:
    return _ops().concatenate([_tensor(value) for value in values], axis)


def stack(values: Any, axis: int = 0, name: Any = None) -> Any:
    return _ops().stack([_tensor(value) for value in values], axis)


def unstack(value: Any, num: int | None = None, axis: int = 0, name: Any = None) -> list[Any]:
    return list(_ops().unstack(_tensor(value), num, axis))


def split(value: Any, num_or_size_splits: Any, axis: int = 0, num: Any = None, name: Any = None) -> list[Any]:
    if isinstance(num_or_size_splits, int | np.integer):
        return list(_ops().split(_tensor(value), int(num_or_size_splits), axis))
    sizes = list(_shape(num_or_size_splits))
    if -1 in sizes:
        sizes[sizes.index(-1)] = shape(value)[axis] - sum(sizes) - 1
    return list(_ops().split(_tensor(value), [int(end) for end in np.cumsum(sizes)[:-1]], axis))


def tile(input: Any, multiples: Any, name: Any = None) -> Any:
    return _ops().tile(_tensor(input), _shape(multiples))


def repeat(input: Any, repeats: Any, axis: int | None = None, name: Any = None) -> Any:
    return _ops().repeat(_tensor(input), repeats, axis)


def transpose(a: Any, perm: Any = None, conjugate: bool = False, name: Any = None) -> Any:
    return _ops().transpose(_tensor(a), None if perm is None else list(perm))


def reverse(tensor: Any, axis: Any, name: Any = None) -> Any:
    for one in axis if isinstance(axis, list | tuple) else [axis]:
        tensor = _ops().flip(_tensor(tensor), one)
    return tensor


def pad(tensor: Any, paddings: Any, mode: str = "CONSTANT", constant_values: Any = 0, name: Any = None) -> Any:
    how = mode.lower()
    pairs = [tuple(map(int, pair)) for pair in paddings]
    if how == "constant":
        return _ops().pad(_tensor(tensor), pairs, how, constant_values)
    return _ops().pad(_tensor(tensor), pairs, how)


def slice_(input_: Any, begin: Any, size: Any, name: Any = None) -> Any:
    ends = [None if length == -1 else start + length for start, length in zip(begin, size, strict=True)]
    return _tensor(input_)[tuple(slice(start, end) for start, end in zip(begin, ends, strict=True))]


def gather(
    params: Any, indices: Any, validate_indices: Any = None, axis: Any = 0, batch_dims: int = 0, name: Any = None
) -> Any:
    """Returns the parts of a tensor at indices along an axis; with ``batch_dims=1``, row by row."""
    params, indices = _tensor(params), _ops().cast(_tensor(indices), "int64")
    if batch_dims == 0:
        return _ops().take(params, indices, axis=axis or 0)
    if batch_dims != 1 or indices.ndim != 1:
        raise ConfigError("tf.gather with batch_dims takes one index for each row here; use tf.one_hot and a sum")
    hot = _ops().one_hot(indices, params.shape[1], dtype=_ops().dtype(params))
    return _ops().sum(params * _ops().reshape(hot, (*hot.shape, *(1,) * (params.ndim - 2))), axis=1)


def boolean_mask(tensor: Any, mask: Any, axis: int | None = None, name: Any = None) -> Any:
    """Returns the rows of a tensor where a mask is true; tensors with values alone, no symbolic ones."""
    return _tensor(tensor)[_ops().cast(_tensor(mask), "bool")]


def broadcast_to(input: Any, shape: Any, name: Any = None) -> Any:
    return _ops().broadcast_to(_tensor(input), _shape(shape))


# -- numbers -----------------------------------------------------------------------------------------------------------


def cast(x: Any, dtype: Any, name: Any = None) -> Any:
    return _ops().cast(_tensor(x), _dtype(dtype))


def identity(input: Any, name: Any = None) -> Any:
    return _tensor(input)


def stop_gradient(input: Any, name: Any = None) -> Any:
    return _ops().stop_gradient(_tensor(input))


def _named(function: Callable[..., Any], operation: str, what: str) -> Callable[..., Any]:
    """Returns a function with the name of an operation of Keras, and a docstring."""
    function.__name__ = function.__qualname__ = operation
    function.__doc__ = f"Returns keras.ops.{operation} {what}."
    return function


def _of_one(operation: str) -> Callable[..., Any]:
    def function(x: Any, name: Any = None) -> Any:
        return getattr(_ops(), operation)(_floats(x) if operation in ON_FLOATS else _tensor(x))

    return _named(function, operation, "of a tensor, element by element")


def _floats(x: Any) -> Any:
    """Returns a tensor of floats; whole numbers of Python and NumPy become float32."""
    tensor = _tensor(x)
    return tensor if "float" in str(tensor.dtype) else _ops().cast(tensor, "float32")


ON_FLOATS = ("exp", "log", "sqrt", "tanh", "sigmoid", "softplus", "erf", "log1p", "expm1", "rsqrt", "arctanh", "sin",
             "cos")  # fmt: skip
"""Operations with floating-point results."""

exp, log, sqrt, rsqrt = _of_one("exp"), _of_one("log"), _of_one("sqrt"), _of_one("rsqrt")
sin, cos, tanh, atanh = _of_one("sin"), _of_one("cos"), _of_one("tanh"), _of_one("arctanh")
square, abs_, sign, negative = _of_one("square"), _of_one("abs"), _of_one("sign"), _of_one("negative")
floor, ceil, round_ = _of_one("floor"), _of_one("ceil"), _of_one("round")
sigmoid, softplus, erf = _of_one("sigmoid"), _of_one("softplus"), _of_one("erf")
log1p, expm1 = _of_one("log1p"), _of_one("expm1")
is_nan, is_inf, is_finite, logical_not = _of_one("isnan"), _of_one("isinf"), _of_one("isfinite"), _of_one("logical_not")


def _of_two(operation: str) -> Callable[..., Any]:
    def function(x: Any, y: Any, name: Any = None) -> Any:
        return getattr(_ops(), operation)(*_alike(x, y))

    return _named(function, operation, "of two tensors, element by element")


def _alike(x: Any, y: Any) -> tuple[Any, Any]:
    """Returns two values of one type; a plain number takes the other's type."""
    plain = (int, float, bool)
    if isinstance(x, plain) or isinstance(y, plain):
        return (x, y) if not (isinstance(x, plain) and isinstance(y, plain)) else (_tensor(x), y)
    return _tensor(x), _tensor(y)


add, subtract, multiply, divide = _of_two("add"), _of_two("subtract"), _of_two("multiply"), _of_two("divide")
maximum, minimum, pow_, floormod = _of_two("maximum"), _of_two("minimum"), _of_two("power"), _of_two("mod")
equal, not_equal, less, greater = _of_two("equal"), _of_two("not_equal"), _of_two("less"), _of_two("greater")
less_equal, greater_equal = _of_two("less_equal"), _of_two("greater_equal")
logical_and, logical_or = _of_two("logical_and"), _of_two("logical_or")


def add_n(inputs: Sequence[Any], name: Any = None) -> Any:
    total = _tensor(inputs[0])
    for value in inputs[1:]:
        total = total + _tensor(value)
    return total


def _over_axes(operation: str) -> Callable[..., Any]:
    def function(
        input_tensor: Any, axis: Any = None, keepdims: bool = False, name: Any = None, keep_dims: Any = None
    ) -> Any:
        axes = tuple(axis) if isinstance(axis, list) else axis
        return getattr(_ops(), operation)(_tensor(input_tensor), axis=axes, keepdims=bool(keepdims or keep_dims))

    return _named(function, operation, "of a tensor over axes, over all if none is given")


reduce_sum, reduce_mean, reduce_max = _over_axes("sum"), _over_axes("mean"), _over_axes("max")
reduce_min, reduce_prod, reduce_std = _over_axes("min"), _over_axes("prod"), _over_axes("std")
reduce_variance, reduce_any, reduce_all = _over_axes("var"), _over_axes("any"), _over_axes("all")
reduce_logsumexp = _over_axes("logsumexp")


def argmax(input: Any, axis: Any = None, output_type: Any = int64, name: Any = None, dimension: Any = None) -> Any:
    axis = dimension if axis is None else axis
    return _ops().cast(_ops().argmax(_tensor(input), 0 if axis is None else axis), _dtype(output_type))


def argmin(input: Any, axis: Any = None, output_type: Any = int64, name: Any = None) -> Any:
    return _ops().cast(_ops().argmin(_tensor(input), 0 if axis is None else axis), _dtype(output_type))


def clip_by_value(t: Any, clip_value_min: Any, clip_value_max: Any, name: Any = None) -> Any:
    return _ops().clip(_tensor(t), clip_value_min, clip_value_max)


def where(condition: Any, x: Any = None, y: Any = None, name: Any = None) -> Any:
    condition = _ops().cast(_tensor(condition), "bool")
    if x is None and y is None:
        return _ops().transpose(_ops().stack(_ops().nonzero(condition)))
    return _ops().where(condition, *_alike(x, y))


def cond(pred: Any, true_fn: Callable[[], Any], false_fn: Callable[[], Any], name: Any = None) -> Any:
    return true_fn() if bool(pred) else false_fn()


def matmul(a: Any, b: Any, transpose_a: bool = False, transpose_b: bool = False, name: Any = None) -> Any:
    a, b = _tensor(a), _tensor(b)
    a = _ops().swapaxes(a, -1, -2) if transpose_a else a
    return _ops().matmul(a, _ops().swapaxes(b, -1, -2) if transpose_b else b)


def einsum(equation: str, *inputs: Any, name: Any = None) -> Any:
    return _ops().einsum(equation, *map(_tensor, inputs))


def tensordot(a: Any, b: Any, axes: Any, name: Any = None) -> Any:
    return _ops().tensordot(_tensor(a), _tensor(b), axes)


def cumsum(x: Any, axis: int = 0, exclusive: bool = False, reverse: bool = False, name: Any = None) -> Any:
    values = _ops().flip(_tensor(x), axis) if reverse else _tensor(x)
    sums = _ops().cumsum(values, axis)
    sums = sums - values if exclusive else sums
    return _ops().flip(sums, axis) if reverse else sums


def global_norm(t_list: Sequence[Any], name: Any = None) -> Any:
    return _ops().sqrt(add_n([_ops().sum(_ops().square(_tensor(tensor))) for tensor in t_list if tensor is not None]))


# -- tf.nn -------------------------------------------------------------------------------------------------------------


def _activation(operation: str) -> Callable[..., Any]:
    def function(features: Any, axis: Any = None, name: Any = None) -> Any:
        along = {} if axis is None else {"axis": axis}
        return getattr(_ops(), operation)(_floats(features), **along)

    return _named(function, operation, "of a tensor")


relu, relu6, elu, selu, gelu = map(_activation, ("relu", "relu6", "elu", "selu", "gelu"))
softmax, log_softmax, swish, softsign = map(_activation, ("softmax", "log_softmax", "silu", "soft_sign"))


def leaky_relu(features: Any, alpha: float = 0.2, name: Any = None) -> Any:
    return _ops().leaky_relu(_floats(features), alpha)


def l2_loss(t: Any, name: Any = None) -> Any:
    return _ops().sum(_ops().square(_tensor(t))) / 2


def moments(x: Any, axes: Any, shift: Any = None, keepdims: bool = False, name: Any = None) -> tuple[Any, Any]:
    mean, variance = _ops().moments(_floats(x), axes, keepdims=keepdims)
    return mean, variance


def sparse_softmax_cross_entropy_with_logits(labels: Any = None, logits: Any = None, name: Any = None) -> Any:
    logits = _tensor(logits)
    hot = one_hot(labels, logits.shape[-1], dtype=str(_ops().dtype(logits)))
    return -_ops().sum(hot * _ops().log_softmax(logits), axis=-1)


def softmax_cross_entropy_with_logits(labels: Any = None, logits: Any = None, axis: int = -1, name: Any = None) -> Any:
    return -_ops().sum(_tensor(labels) * _ops().log_softmax(_tensor(logits), axis=axis), axis=axis)


def sigmoid_cross_entropy_with_logits(labels: Any = None, logits: Any = None, name: Any = None) -> Any:
    logits = _tensor(logits)
    return _ops().softplus(logits) - logits * _tensor(labels)


# -- random numbers ----------------------------------------------------------------------------------------------------


def random_normal(
    shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = float32, seed: Any = None, name: Any = None
) -> Any:
    return load_keras().random.normal(_shape(shape), dtype=_dtype(dtype), seed=seed) * stddev + mean


def random_uniform(
    shape: Any, minval: Any = 0, maxval: Any = None, dtype: Any = float32, seed: Any = None, name: Any = None
) -> Any:
    if DType(_dtype(dtype) or "float32").is_integer:
        return load_keras().random.randint(_shape(shape), minval, maxval, _dtype(dtype), seed)
    return load_keras().random.uniform(_shape(shape), minval, 1.0 if maxval is None else maxval, _dtype(dtype), seed)


def random_categorical(logits: Any, num_samples: int, dtype: Any = int64, seed: Any = None, name: Any = None) -> Any:
    return _ops().cast(load_keras().random.categorical(_tensor(logits), num_samples, seed=seed), _dtype(dtype))


def set_seed(seed: int) -> None:
    """Seeds the generators of PyTorch, which Keras uses; those of Python and NumPy are not changed."""
    torch.manual_seed(seed)


# -- eager execution ---------------------------------------------------------------------------------------------------


def executing_eagerly() -> bool:
    """Returns True: operations run eagerly."""
    return True


def nothing_to_do(*args: Any, **kwargs: Any) -> None:
    """Placeholder of functions without an effect in eager mode."""


def function(func: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Returns a function unchanged, because nothing is compiled. Serves as a decorator with and without arguments."""
    return func if callable(func) else lambda inner: inner


def py_function(func: Callable[..., Any], inp: Sequence[Any], Tout: Any, name: Any = None) -> Any:
    """Calls a function of tensors and returns its results as tensors of the types `Tout`."""
    given = func(*map(_tensor, inp))
    if isinstance(Tout, list | tuple):
        return [_tensor(value, dtype) for value, dtype in zip(given, Tout, strict=True)]
    return _tensor(given, Tout)


def group(*inputs: Any, **kwargs: Any) -> None:
    """Does nothing: the operations have run already."""


def is_tensor(x: Any) -> bool:
    return isinstance(x, torch.Tensor | load_keras().KerasTensor | load_keras().Variable)


def list_physical_devices(device_type: str | None = None) -> list[str]:
    """Returns the devices of a kind that PyTorch sees."""
    found = ["CPU:0"] if device_type in (None, "CPU") else []
    return found + ([f"GPU:{i}" for i in range(torch.cuda.device_count())] if device_type in (None, "GPU") else [])


# -- weights -----------------------------------------------------------------------------------------------------------


def parameters(model: Any) -> list[torch.nn.Parameter]:
    """Returns the parameters of a Keras model that has been called once.

    Raises:
        ConfigError: If some are lost: PyTorch keeps one of several layers with the same name.
    """
    found = list(model.parameters())
    known = {id(parameter) for parameter in found}
    lost = [variable for variable in model.trainable_variables if id(variable.value) not in known]
    if lost:
        names = ", ".join(sorted({variable.path for variable in lost}))
        why = "of several layers with one name, PyTorch keeps the parameters of one"
        raise ConfigError(
            f"model {model.name!r} loses the parameters {names}: {why}; give each layer a name of its own"
        )
    if not found:
        raise ConfigError(f"model {model.name!r} has no parameters: call it once with a batch before it is trained")
    return found
