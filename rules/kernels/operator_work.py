"""What an operator has to do at least, by its name and the shapes of its inputs: operations, and bytes moved once."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

from parsers.model.late import dataclass

Shape = list[int]
_SIZES = {
    "double": 8, "long": 8, "long int": 8, "int64": 8, "c10::complex<float>": 8, "c10::complex<double>": 16,
    "float": 4, "int": 4, "int32": 4,
    "c10::bfloat16": 2, "c10::half": 2, "at::bfloat16": 2, "at::half": 2, "short": 2, "short int": 2,
    "bool": 1, "char": 1, "signed char": 1, "unsigned char": 1, "byte": 1,
    "c10::float8_e4m3fn": 1, "c10::float8_e5m2": 1,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Work:
    """What one call has to do at least: operations, and bytes when every tensor is read or written once."""

    operations: float
    moved: float


@dataclass(frozen=True, slots=True)
class Inputs:
    """What was recorded of one call: shapes (of a list of tensors a list of them, [] of all else) and types.

    ``size`` is the bytes of an element where no type was recorded, ``values`` fetches numbers and lists as text.
    """

    shapes: list[Any]
    types: list[Any]
    size: int
    values: Callable[[], Sequence[str]]

    def tensors(self, place: int) -> list[tuple[Shape, int]]:
        """(shape, bytes of an element) of the tensors at one place; none where there is another thing."""
        shape = self.shapes[place]
        stated = _SIZES.get(str(self.types[place]).lower(), 0) if place < len(self.types) else 0
        many = shape if shape and isinstance(shape[0], list) else [shape]
        return [(each, stated or self.size) for each in many if each]

    def bytes_at(self, *places: int) -> int:
        """Bytes of the tensors at these places."""
        return sum(math.prod(shape) * size for place in places for shape, size in self.tensors(place))

    @property
    def all_bytes(self) -> int:
        """Bytes of every tensor that is handed over."""
        return self.bytes_at(*range(len(self.shapes)))

    def value(self, place: int) -> Any:
        """A number, list or truth that is no tensor; raises where it was not recorded."""
        return json.loads(self.values()[place].replace("True", "true").replace("False", "false"))

    def given(self, place: int) -> bool:
        """Whether a truth was recorded, and is true; or a number, and is not 0."""
        values = self.values()
        return place < len(values) and values[place] not in ("False", "0", "")

    def element(self, place: int) -> int:
        return self.tensors(place)[0][1]


Kind = Callable[[Inputs], "Work | None"]


def inputs_of(dims: str, types: str, size: int, values: Callable[[], Sequence[str]] = tuple) -> Inputs | None:
    """From the recorded JSON lists; None where they are none."""
    try:
        shapes, found = json.loads(dims), json.loads(types) if types else []
    except ValueError:
        return None
    if not isinstance(shapes, list) or not isinstance(found, list):
        return None
    return Inputs([each if isinstance(each, list) else [] for each in shapes], found, size, values)


def matrix(first: int) -> Kind:
    """Of two matrices, or as many of each, from this place on."""

    def work(inputs: Inputs) -> Work | None:
        left, right = inputs.shapes[first], inputs.shapes[first + 1]
        if len(left) < 2 or len(right) < 2 or left[-1] != right[-2]:
            return None
        batch, rows, inner, columns = math.prod(left[:-2]), left[-2], left[-1], right[-1]
        made = batch * rows * columns
        moved = inputs.bytes_at(first, first + 1) + made * inputs.element(first)
        return Work(2.0 * made * inner, moved)

    return work


def vector(first: int) -> Kind:
    """Of a matrix and a vector."""

    def work(inputs: Inputs) -> Work | None:
        return Work(2.0 * math.prod(inputs.shapes[first]), inputs.bytes_at(first, first + 1))

    return work


def convolution(stride: int, padding: int, dilation: int, transposed: int | None) -> Kind:
    """Of data with weights; the places of what else decides the size of the output."""

    def work(inputs: Inputs) -> Work | None:
        data, weight = inputs.shapes[0], inputs.shapes[1]
        if transposed is not None and inputs.given(transposed):
            return None
        steps, pads, apart = (inputs.value(place) for place in (stride, padding, dilation))
        sizes = [
            (data[2 + axis] + 2 * _of(pads, axis) - _of(apart, axis) * (weight[2 + axis] - 1) - 1)
            // _of(steps, axis)
            + 1
            for axis in range(len(weight) - 2)
        ]
        made = data[0] * weight[0] * math.prod(sizes)
        return Work(2.0 * made * math.prod(weight[1:]), inputs.bytes_at(0, 1) + made * inputs.element(0))

    return work


def _of(values: Sequence[int], axis: int) -> int:
    return int(values[axis] if axis < len(values) else values[-1])


def convolution_backward(inputs: Inputs) -> Work:
    """Gradients of data and of weights, as far as they are asked for: each as many operations as forward."""
    gradient, weight = inputs.shapes[0], inputs.shapes[2]
    forward = 2.0 * math.prod(gradient) * math.prod(weight[1:])
    values = inputs.values()
    asked = inputs.value(10) if len(values) > 10 else [True, True, False]
    wanted = [place for place, each in zip((1, 2), asked, strict=False) if each]
    return Work(len(wanted) * forward, inputs.bytes_at(0, 1, 2) + inputs.bytes_at(*wanted))


# the backward pass multiplies five matrices where the forward pass multiplies two
FORWARD, BACKWARD = (2.0, 5.0)


def attention(first: int, heads_before_length: bool, products: float, causal: int) -> Kind:
    """Of queries, keys and values from a place on; half of the operations where it is causal."""

    def work(inputs: Inputs) -> Work | None:
        query, key, value = inputs.shapes[first : first + 3]
        if len(query) != 4 or len(key) != 4 or len(value) != 4:
            return None
        heads, length, keys = (
            (query[1], query[2], key[2]) if heads_before_length else (query[2], query[1], key[1])
        )
        operations = products * query[0] * heads * length * keys * (query[3] + value[3])
        if inputs.given(causal):
            operations /= 2
        moved = inputs.bytes_at(first, first + 1, first + 2) + inputs.bytes_at(first)
        return Work(operations, moved * (1 if products == FORWARD else 2))

    return work


PRODUCTS: dict[str, Kind] = {
    "mm": matrix(0),
    "bmm": matrix(0),
    "_scaled_mm": matrix(0),
    "_int_mm": matrix(0),
    "addmm": matrix(1),
    "_addmm_activation": matrix(1),
    "baddbmm": matrix(1),
    "mv": vector(0),
    "addmv": vector(1),
    "convolution": convolution(3, 4, 5, 6),
    "convolution_overrideable": convolution(3, 4, 5, 6),
    "cudnn_convolution": convolution(3, 2, 4, None),
    "mkldnn_convolution": convolution(4, 3, 5, None),
    "miopen_convolution": convolution(4, 3, 5, None),
    "convolution_backward": convolution_backward,
    "_flash_attention_forward": attention(0, False, FORWARD, 8),
    "_flash_attention_backward": attention(1, False, BACKWARD, 11),
    "_efficient_attention_forward": attention(0, False, FORWARD, 9),
    "_efficient_attention_backward": attention(1, False, BACKWARD, 14),
    "_cudnn_attention_forward": attention(0, True, FORWARD, 10),
    "_cudnn_attention_backward": attention(1, True, BACKWARD, 14),
    "_flash_attn_forward": attention(0, False, FORWARD, 5),
    "_flash_attn_backward": attention(1, False, BACKWARD, 11),
    "_scaled_dot_product_flash_attention": attention(0, True, FORWARD, 4),
    "_scaled_dot_product_flash_attention_backward": attention(1, True, BACKWARD, 11),
    "_scaled_dot_product_efficient_attention": attention(0, True, FORWARD, 6),
    "_scaled_dot_product_efficient_attention_backward": attention(1, True, BACKWARD, 11),
    "_scaled_dot_product_cudnn_attention": attention(0, True, FORWARD, 6),
    "_scaled_dot_product_cudnn_attention_backward": attention(1, True, BACKWARD, 14),
    "_scaled_dot_product_fused_attention_overrideable": attention(0, True, FORWARD, 5),
    "_scaled_dot_product_fused_attention_overrideable_backward": attention(1, True, BACKWARD, 13),
    "_scaled_dot_product_flash_attention_for_cpu": attention(0, True, FORWARD, 4),
    "_scaled_dot_product_flash_attention_for_cpu_backward": attention(1, True, BACKWARD, 7),
}
