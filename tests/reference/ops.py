"""One op of the graph on NumPy arrays: float64 inside, one rounding to the result's type."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from . import conv_transpose as ct
from . import convolution, elementwise, movement, normalization, windows
from .rounding import round_to, wide

Arrays = Sequence[np.ndarray]
Evaluator = Callable[[Arrays, Mapping[str, Any], "Sequence[Slot]"], Any]


class Slot(NamedTuple):
    """What is asked of one result."""

    dtype: str
    shape: tuple[int, ...]


def _family(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes of a (transposed) convolution; lists longer than the rank are cut."""
    rank = len(attributes["strides"])
    kept = {k: v for k, v in attributes.items() if k not in ("weights_shape", "dst_shape")}
    if "output_padding" in kept:
        kept["output_padding"] = list(kept["output_padding"])[:rank]
    return kept


def _spatial(shape: Sequence[int], attributes: Mapping[str, Any]) -> tuple[int, ...]:
    last = attributes.get("data_format", "NXC").upper() == "NXC"
    return tuple(shape[1:-1] if last else shape[2:])


def _kernel(shape: Sequence[int], weights_format: str) -> tuple[int, ...]:
    return tuple(shape[:-2] if weights_format.upper().startswith("X") else shape[2:])


def _direct(function: Callable[..., Any]) -> Evaluator:
    """Inputs by position, attributes by name."""
    return lambda inputs, attributes, outputs: function(*inputs, **attributes)


def _forward(function: Callable[..., np.ndarray]) -> Evaluator:
    return lambda inputs, attributes, outputs: function(*inputs, **_family(attributes))


def _transposed_backward_data(inputs, attributes, outputs):
    spatial = _spatial(outputs[0].shape, attributes)
    return ct.backward_data(*inputs, src_spatial=spatial, **_family(attributes))


def _convolution_backward_data(inputs, attributes, outputs):
    spatial = _spatial(outputs[0].shape, attributes)
    return convolution.backward_data(*inputs[:2], spatial, **_family(attributes))


def _backward_weights(function: Callable[..., np.ndarray], default: str) -> Evaluator:
    def evaluate(inputs, attributes, outputs):
        kernel = _kernel(outputs[0].shape, attributes.get("weights_format", default))
        return function(*inputs[:2], kernel, **_family(attributes))

    return evaluate


def _gradient(kind: str) -> Evaluator:
    """diff_src = diff_dst * slope, the slope from src or, with use_dst, from dst."""

    def evaluate(inputs, attributes, outputs):
        attributes = dict(attributes)
        from_dst = attributes.pop("use_dst", True) and kind in elementwise.SLOPE_FROM_DST
        slopes = elementwise.SLOPE_FROM_DST if from_dst else elementwise.SLOPE
        return inputs[1] * slopes[kind](inputs[0], **attributes)

    return evaluate


def _binary(function: Callable[..., np.ndarray]) -> Evaluator:
    return lambda inputs, attributes, outputs: function(*inputs)


def _layer_norm_backward(inputs, attributes, outputs):
    # without an affine part a fifth input is still allowed, and ignored
    return normalization.layer_norm_backward(*inputs, **attributes)


EVALUATORS: dict[str, Evaluator] = {
    **{k: _direct(f) for k, f in elementwise.UNARY.items()},
    **{k: _gradient(k) for k in elementwise.SLOPE},
    **{k: _binary(f) for k, f in elementwise.BINARY.items()},
    **{k: _direct(partial(windows.reduce, k)) for k in windows.REDUCTIONS},
    "AvgPool": _direct(windows.avg_pool),
    "AvgPoolBackward": lambda i, a, o: windows.avg_pool_backward(
        i[0], o[0].shape, **{k: v for k, v in a.items() if k != "src_shape"}
    ),
    "BatchNormForwardTraining": _direct(normalization.batch_norm_training),
    "BatchNormInference": _direct(normalization.batch_norm_inference),
    "BatchNormTrainingBackward": _direct(normalization.batch_norm_backward),
    "BiasAdd": _direct(elementwise.bias_add),
    "BiasAddBackward": _direct(ct.backward_bias),
    "Concat": lambda i, a, o: np.concatenate(i, axis=a["axis"]),
    "ConvTranspose": _forward(ct.forward),
    "ConvTransposeBackwardData": _transposed_backward_data,
    "ConvTransposeBackwardWeights": _backward_weights(ct.backward_weights, "XOI"),
    "Convolution": _forward(convolution.forward),
    "ConvolutionBackwardData": _convolution_backward_data,
    "ConvolutionBackwardWeights": _backward_weights(convolution.backward_weights, "XIO"),
    "Dequantize": _direct(movement.dequantize),
    "Dropout": _direct(movement.dropout),
    "DynamicDequantize": _direct(movement.dynamic_dequantize),
    "DynamicQuantize": _direct(movement.dynamic_quantize),
    "End": lambda i, a, o: (),
    "Gather": _direct(movement.gather),
    "GenIndex": _direct(movement.gen_index),
    "GroupNorm": _direct(normalization.group_norm),
    "Interpolate": _direct(windows.interpolate),
    "InterpolateBackward": _direct(windows.interpolate_backward),
    "LayerNorm": _direct(normalization.layer_norm),
    "LayerNormBackward": _layer_norm_backward,
    "LogSoftmax": _direct(normalization.log_softmax),
    "LogSoftmaxBackward": _direct(normalization.log_softmax_backward),
    "MatMul": _direct(movement.matmul),
    "MaxPool": _direct(windows.max_pool),
    "MaxPoolBackward": _direct(windows.max_pool_backward),
    "PReLU": _direct(elementwise.prelu),
    "PReLUBackward": _direct(elementwise.prelu_backward),
    "Pad": _direct(movement.pad),
    "Quantize": _direct(movement.quantize),
    "RMSNorm": _direct(normalization.rms_norm),
    "Select": lambda i, a, o: np.where(i[0] != 0, i[1], i[2]),
    "Slice": _direct(movement.part),
    "SoftMax": _direct(normalization.softmax),
    "SoftMaxBackward": _direct(normalization.softmax_backward),
    "StaticReshape": _direct(movement.static_reshape),
    "StaticTranspose": lambda i, a, o: i[0].transpose(a["order"]),
}
# stands for an op that the graph cannot name: nothing to evaluate
OPAQUE = frozenset({"Wildcard"})
# 64-bit seeds do not fit into float64
_AS_GIVEN = frozenset({"Dropout"})


def evaluate(kind: str, inputs: Arrays, attributes: Mapping[str, Any], outputs: Sequence[Slot]) -> list[np.ndarray]:
    """Results of one op in the types of `outputs`; KeyError for a kind that has no meaning here."""
    evaluator = EVALUATORS[kind]
    operands = list(inputs) if kind in _AS_GIVEN else [wide(a) for a in inputs]
    with np.errstate(all="ignore"):
        results = evaluator(operands, attributes, outputs)
        if not isinstance(results, tuple):
            results = (results,)
        return [round_to(result, slot.dtype) for result, slot in zip(results[: len(outputs)], outputs, strict=True)]
