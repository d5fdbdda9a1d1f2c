"""Operators that move memory or compare rows: how many bytes each reads and writes at least, every tensor once."""

from __future__ import annotations

import math
from collections.abc import Iterable

from rules.kernels.operator_work import Inputs, Kind, Work

INDEX_BYTES = 8


def _moves(moved: float) -> Work:
    return Work(0.0, moved)


def pointwise(inputs: Inputs) -> Work | None:
    """Reads its inputs, and writes an output as large as all of them spread over each other."""
    tensors = [each for index in range(len(inputs.shapes)) for each in inputs.tensors(index)]
    if not tensors:
        return None
    longest = max(len(shape) for shape, _ in tensors)
    sides = zip(*([1] * (longest - len(shape)) + shape for shape, _ in tensors), strict=True)
    made = math.prod(max(side) if min(side) else 0 for side in sides)
    return _moves(inputs.all_bytes + made * max(size for _, size in tensors))


def compares(inputs: Inputs) -> Work | None:
    """The same with an output of one byte for each element."""
    work = pointwise(inputs)
    largest = max((math.prod(shape) * size for shape, size in inputs.tensors(0)), default=0)
    return _moves(work.moved - largest * (1 - 1 / inputs.element(0))) if work and largest else None


def handed_over(inputs: Inputs) -> Work | None:
    """Reads or writes each tensor that is handed over: copies, reductions, kernels whose outputs are arguments."""
    return _moves(inputs.all_bytes) if inputs.all_bytes else None


def joined(inputs: Inputs) -> Work | None:
    """Reads all of a list of tensors, and writes as much."""
    return _moves(2 * inputs.bytes_at(0))


def list_by_list(inputs: Inputs) -> Work | None:
    """Reads all lists of tensors, and writes one like the first."""
    return _moves(inputs.all_bytes + inputs.bytes_at(0)) if inputs.all_bytes else None


def written(inputs: Inputs) -> Work | None:
    """Writes its first input."""
    return _moves(inputs.bytes_at(0))


def as_large(*read: int, writes: int) -> Kind:
    """Reads the inputs at some places, and writes a tensor as large as the one at another."""

    def work(inputs: Inputs) -> Work | None:
        return _moves(inputs.bytes_at(*read) + inputs.bytes_at(writes))

    return work


def stated(place: int, channels: bool) -> Kind:
    """Reads its first input and writes a tensor of the size that was handed over, with or without its first sides."""

    def work(inputs: Inputs) -> Work | None:
        sides = inputs.value(place)
        shape, size = inputs.tensors(0)[0]
        made = math.prod(sides) if not channels else math.prod(shape[: len(shape) - len(sides)] + sides)
        return _moves(inputs.bytes_at(0) + made * size)

    return work


def rows_read(inputs: Inputs) -> Work | None:
    """Reads those rows of a table that one index names, and writes them."""
    shape, size = inputs.tensors(0)[0]
    indices = inputs.tensors(1)
    if len(indices) != 1 or (len(indices[0][0]) > 1 and indices[0][0] == shape[: len(indices[0][0])]):
        return None  # several indices, or a mask
    chosen = math.prod(indices[0][0])
    return _moves(chosen * (INDEX_BYTES + 2 * math.prod(shape[1:]) * size))


def gathered(inputs: Inputs) -> Work | None:
    """Reads one element for each of the index, and writes it."""
    chosen = math.prod(inputs.shapes[2])
    return _moves(inputs.bytes_at(2) + 2 * chosen * inputs.element(0)) if chosen else None


def selected(inputs: Inputs) -> Work | None:
    """Reads slices along one side, and writes them."""
    shape, size = inputs.tensors(0)[0]
    slices = math.prod(inputs.shapes[2]) * math.prod(shape) / max(shape[inputs.value(1)], 1)
    return _moves(inputs.bytes_at(2) + 2 * slices * size)


def added_at(target: int, index: int, source: int) -> Kind:
    """Reads a source, and reads and writes what it is added to, as far as the source reaches."""

    def work(inputs: Inputs) -> Work | None:
        source_bytes = inputs.bytes_at(source)
        touched = min(inputs.bytes_at(target), source_bytes)
        return _moves(inputs.bytes_at(index) + source_bytes + 2 * touched) if source_bytes else None

    return work


def weights_of_rows(inputs: Inputs) -> Work | None:
    """Reads gradients of rows and writes those of the whole table."""
    shape, size = inputs.tensors(0)[0]
    return _moves(inputs.bytes_at(0, 1) + int(inputs.value(2)) * shape[-1] * size)


def all_pairs(inputs: Inputs) -> Work | None:
    """Writes a number for each pair of rows: per column a difference, its square and a sum."""
    first, second = inputs.shapes[0], inputs.shapes[1]
    if len(first) < 2 or len(second) < 2:
        return None
    made = math.prod(first[:-1]) * second[-2]
    return Work(3.0 * made * first[-1], inputs.bytes_at(0, 1) + made * inputs.element(0))


def _each(names: str, kind: Kind, endings: Iterable[str] = ("",)) -> dict[str, Kind]:
    return {name + ending: kind for name in names.split() for ending in endings}


MEMORY: dict[str, Kind] = {
    **_each(
        "add sub rsub mul div neg exp log sqrt rsqrt pow abs clamp clamp_min clamp_max relu gelu silu mish "
        "sigmoid tanh sin cos elu leaky_relu hardtanh hardswish hardsigmoid softplus addcmul addcdiv lerp "
        "maximum minimum masked_fill where sign round floor ceil reciprocal square erf log1p expm1 remainder "
        "fmod bitwise_and bitwise_or bitwise_not logical_and logical_or logical_not clone tril triu flip roll",
        pointwise,
        ("", "_"),
    ),
    **_each(
        "gelu_backward silu_backward mish_backward sigmoid_backward tanh_backward elu_backward leaky_relu_backward "
        "hardtanh_backward hardswish_backward hardsigmoid_backward softplus_backward threshold_backward "
        "native_dropout native_dropout_backward mse_loss smooth_l1_loss",
        pointwise,
    ),
    **_each("cat stack", joined),
    **_each(
        "_foreach_add _foreach_mul _foreach_div _foreach_sqrt _foreach_addcmul _foreach_addcdiv _foreach_lerp "
        "_foreach_neg",
        list_by_list,
        ("", "_"),
    ),
    **_each("eq ne lt gt le ge", compares),
    **_each("fill_ zero_ normal_ uniform_ bernoulli_ random_ exponential_", written),
    **_each(
        "copy_ sum mean amax amin max min prod norm linalg_vector_norm var std var_mean argmax argmin any all "
        "_fused_adamw_ _fused_adam_ _fused_sgd_ max_pool2d_with_indices max_pool3d_with_indices avg_pool2d avg_pool3d "
        "_adaptive_avg_pool2d _adaptive_avg_pool3d nll_loss2d_forward",
        handed_over,
    ),
    **_each(
        "cumsum cumprod native_layer_norm native_group_norm native_batch_norm cudnn_batch_norm miopen_batch_norm "
        "batch_norm_elemt _fused_rms_norm _softmax _log_softmax",
        as_large(0, writes=0),
    ),
    **_each(
        "native_layer_norm_backward native_group_norm_backward native_batch_norm_backward cudnn_batch_norm_backward "
        "miopen_batch_norm_backward batch_norm_backward_elemt _fused_rms_norm_backward _softmax_backward_data "
        "_log_softmax_backward_data",
        as_large(0, 1, writes=1),
    ),
    **_each("avg_pool2d_backward avg_pool3d_backward _adaptive_avg_pool2d_backward", as_large(0, writes=1)),
    **_each("max_pool2d_with_indices_backward max_pool3d_with_indices_backward", as_large(0, 7, writes=1)),
    **_each("grid_sampler_2d grid_sampler_3d", as_large(1, writes=0)),
    **_each(
        "upsample_nearest1d upsample_nearest2d upsample_nearest3d _upsample_nearest_exact1d _upsample_nearest_exact2d "
        "_upsample_nearest_exact3d upsample_linear1d upsample_bilinear2d upsample_bicubic2d upsample_trilinear3d "
        "_upsample_bilinear2d_aa _upsample_bicubic2d_aa",
        stated(1, channels=True),
    ),
    **_each(
        "upsample_nearest1d_backward upsample_nearest2d_backward upsample_nearest3d_backward "
        "_upsample_nearest_exact1d_backward _upsample_nearest_exact2d_backward _upsample_nearest_exact3d_backward "
        "upsample_linear1d_backward upsample_bilinear2d_backward upsample_bicubic2d_backward "
        "upsample_trilinear3d_backward _upsample_bilinear2d_aa_backward _upsample_bicubic2d_aa_backward",
        stated(2, channels=False),
    ),
    **_each("embedding index", rows_read),
    **_each("gather", gathered),
    **_each("_cdist_forward", all_pairs),
    **_each("index_select", selected),
    **_each("embedding_dense_backward", weights_of_rows),
    **_each("index_add_ index_copy_", added_at(0, 2, 3)),
    **_each("scatter_add_ scatter_add scatter_ scatter scatter_reduce_", added_at(0, 2, 3)),
    **_each("index_put_ _index_put_impl_", added_at(0, 1, 2)),
}
