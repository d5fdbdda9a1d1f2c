"""What events state about themselves, as sparse columns of attributes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import field
from itertools import islice
from typing import Any, TypeVar

import numpy as np
from msgspec import Raw

from parsers.chrome.decode.categories import GPU_SYNC, KERNEL, Family
from parsers.chrome.decode.messages import collective_name, message_bytes
from parsers.chrome.decode.records import NO_TEXT, Arguments, CollectiveArguments, OperatorArguments
from parsers.chrome.decode.usual_records import CallArguments, OperationArguments
from parsers.model import I64, Attribute, SyncKind
from parsers.model.late import dataclass
from parsers.xprof.details import NO_DETAILS, OperationDetails, details_of

K = TypeVar("K", bound=Hashable)
_SYNCHRONISATIONS = {
    "event sync": SyncKind.EVENT,
    "stream wait event": SyncKind.STREAM_WAIT_EVENT,
    "stream sync": SyncKind.STREAM,
    "context sync": SyncKind.CONTEXT,
}


class Numbered(dict[K, int]):
    """Gives each new key the next number."""

    def __missing__(self, key: K) -> int:
        number = self[key] = len(self)
        return number


@dataclass(slots=True)
class Stated:
    """Attributes of numbered events; texts are numbers of ``names``."""

    names: Numbered[str]
    attributes: dict[Attribute, list[tuple[I64, I64]]] = field(default_factory=lambda: defaultdict(list))
    call_sizes: list[tuple[I64, I64]] = field(default_factory=list)  # bytes that API calls were asked to copy
    _texts: Numbered[bytes] = field(default_factory=lambda: Numbered())
    # name of each text; -1 for an empty one
    _names: I64 = field(default_factory=lambda: np.empty(0, np.int64))
    _shapes: Numbered[bytes] = field(default_factory=lambda: Numbered())
    # product and text of each shape
    _sizes: I64 = field(default_factory=lambda: np.empty((0, 2), np.int64))

    def joined(self) -> dict[Attribute, tuple[I64, I64]]:
        """Events and values of each attribute; those that were stated of the same events share one array of them."""
        events: dict[tuple[int, ...], I64] = {}
        found = {}
        for which, stated in self.attributes.items():
            same = tuple(id(numbers) for numbers, _ in stated)
            if same not in events:
                events[same] = np.concatenate([numbers for numbers, _ in stated])
            found[which] = events[same], np.concatenate([values for _, values in stated])
        return found

    def of_operators(self, numbers: I64, arguments: list[OperatorArguments]) -> None:
        self._integers(Attribute.SEQUENCE, numbers, [each.sequence for each in arguments])
        self._integers(Attribute.FORWARD_THREAD, numbers, [each.forward_thread for each in arguments])
        self._raw_texts(Attribute.INPUT_DIMS, numbers, [each.input_dims for each in arguments])
        self._raw_texts(Attribute.INPUT_DIMS, numbers, [each.input_dims_of_2020 for each in arguments])
        self._raw_texts(Attribute.INPUT_TYPES, numbers, [each.input_types for each in arguments])
        self._collectives(numbers, arguments)

    def of_calls(self, numbers: I64, arguments: list[CallArguments | Arguments]) -> None:
        self._integers(Attribute.CORRELATION, numbers, [each.correlation for each in arguments])
        self._in_words_of_nsys(numbers, arguments)
        sizes, stated = _integers_of([each.size for each in arguments])
        if len(sizes):
            self.call_sizes.append((numbers if stated is None else numbers[stated], sizes))

    def of_operations(
        self, family: Family, numbers: I64, arguments: list[OperationArguments | Arguments]
    ) -> None:
        self._integers(Attribute.CORRELATION, numbers, [each.correlation for each in arguments])
        self._in_words_of_nsys(numbers, arguments)
        if family is KERNEL:
            self._integers(Attribute.REGISTERS, numbers, [each.registers for each in arguments])
            self._shape(Attribute.GRID, Attribute.GRID_SHAPE, numbers, [each.grid for each in arguments])
            self._shape(Attribute.BLOCK, Attribute.BLOCK_SHAPE, numbers, [each.block for each in arguments])
            self._collectives(numbers, arguments)
        elif family is GPU_SYNC:
            kinds = [_sync_kind(each.sync_kind).value for each in arguments]
            self._attribute(Attribute.SYNC_KIND, numbers, np.array(kinds, np.int64))
        else:
            self._integers(Attribute.BYTES, numbers, [each.bytes for each in arguments])
            self._ends_of_copies(numbers, [details_of(None, each.memcpy_details) for each in arguments])
        self._integers(Attribute.GRAPH_NODE, numbers, [each.graph_node for each in arguments])

    def in_words_of_xprof(self, numbers: I64, arguments: list[Arguments]) -> None:
        """Of events of XProf, which says the same in other words."""
        self._integers(Attribute.CORRELATION, numbers, [each.correlation_id for each in arguments])
        self._integers(Attribute.STEP_NUMBER, numbers, [each.step_num for each in arguments])
        self._integers(Attribute.IS_EAGER, numbers, [each.is_eager for each in arguments])
        details = [details_of(each.kernel_details, each.memcpy_details) for each in arguments]
        if any(each is not NO_DETAILS for each in details):
            self._integers(Attribute.REGISTERS, numbers, [each.registers for each in details])
            self._integers(Attribute.BYTES, numbers, [each.size for each in details])
            self._ends_of_copies(numbers, details)
            self._shape(Attribute.GRID, Attribute.GRID_SHAPE, numbers, [each.grid for each in details])
            self._shape(Attribute.BLOCK, Attribute.BLOCK_SHAPE, numbers, [each.block for each in details])

    def _ends_of_copies(self, numbers: I64, details: Sequence[OperationDetails]) -> None:
        self._integers(Attribute.SOURCE_MEMORY, numbers, [each.source for each in details])
        self._integers(Attribute.TARGET_MEMORY, numbers, [each.target for each in details])

    def _in_words_of_nsys(self, numbers: I64, arguments: Sequence[object]) -> None:
        """What converters of Nsight Systems' exports write under the names of its tables."""
        if not isinstance(arguments[0], Arguments):
            return
        mine = [each for each in arguments if isinstance(each, Arguments)]
        if len(mine) == len(arguments):
            self._integers(Attribute.CORRELATION, numbers, [each.correlation_of_nsys for each in mine])
            self._integers(Attribute.REGISTERS, numbers, [each.registers_of_nsys for each in mine])

    def _collectives(self, numbers: I64, arguments: Sequence[CollectiveArguments]) -> None:
        collectives = [each.collective for each in arguments]
        if collectives.count(None) == len(collectives):
            return
        mine = [index for index, each in enumerate(collectives) if each is not None]
        numbers = numbers[mine]
        stating = [arguments[index] for index in mine]
        for which, texts in (
            (Attribute.COLLECTIVE, [collective_name(str(each.collective)) for each in stating]),
            (Attribute.MESSAGE_DTYPE, [each.message_type for each in stating]),
            (Attribute.GROUP, [each.group for each in stating]),
        ):
            stated = [index for index, text in enumerate(texts) if isinstance(text, (str, int))]
            values = [self.names[str(texts[index])] for index in stated]
            self._attribute(which, numbers[stated], np.array(values, np.int64))
        self._integers(Attribute.GROUP_SIZE, numbers, [each.group_size for each in stating])
        sizes = [message_bytes(each.message_elements, each.message_type) for each in stating]
        self._integers(Attribute.MESSAGE_BYTES, numbers, sizes)
        self._integers(Attribute.COLLECTIVE_SEQUENCE, numbers, [each.collective_sequence for each in stating])

    def _attribute(self, which: Attribute, numbers: I64, values: I64) -> None:
        if len(numbers):
            self.attributes[which].append((numbers, values))

    def _integers(self, which: Attribute, numbers: I64, values: list[Any]) -> None:
        column, stated = _integers_of(values)
        if len(column):
            self._attribute(which, numbers if stated is None else numbers[stated], column)

    def _raw_texts(self, which: Attribute, numbers: I64, raws: list[Raw]) -> None:
        if raws.count(NO_TEXT) == len(raws):
            return
        places = _numbers_of(raws, self._texts)
        new = islice(self._texts, len(self._names), None)
        self._names = _longer(self._names, [self._name_of(text) for text in new])
        column = self._names[places]
        stated = column >= 0
        self._attribute(which, numbers[stated], column[stated])

    def _shape(self, product: Attribute, shape: Attribute, numbers: I64, raws: Sequence[Raw | bytes]) -> None:
        places = _numbers_of(raws, self._shapes)
        new = islice(self._shapes, len(self._sizes), None)
        self._sizes = _longer(self._sizes, list(map(self._shape_of, new)))
        sizes = self._sizes[places]
        stated = sizes[:, 0] >= 0
        if not stated.all():
            numbers, sizes = numbers[stated], sizes[stated]
        self._attribute(product, numbers, sizes[:, 0])
        self._attribute(shape, numbers, sizes[:, 1])

    def _name_of(self, text: bytes) -> int:
        return self.names[text.decode("utf-8", "replace")] if text else -1

    def _shape_of(self, text: bytes) -> tuple[int, int]:
        sides = text.strip(b'[]" ').split(b",")
        try:
            numbers = [int(side) for side in sides]
        except ValueError:
            return -1, -1
        product = 1
        for number in numbers:
            product *= number
        if len(numbers) != 3 or not 0 <= product < 1 << 62:
            return -1, -1
        return product, self.names[",".join(map(str, numbers))]


def _longer(column: I64, more: Sequence[Any]) -> I64:
    """The column with more values behind its own, which are not gone through again."""
    return np.concatenate((column, np.array(more, np.int64))) if more else column


def _numbers_of(raws: Sequence[Raw | bytes], known: Numbered[bytes]) -> I64:
    """The number of each text, which are cut from all of them in one piece where none has the byte between them."""
    count, joined, first = len(raws), b"\0".join(raws), bytes(raws[0])
    if len(joined) == (len(first) + 1) * count - 1 and joined == b"\0".join([first] * count):
        return np.full(count, known[first])
    texts = joined.split(b"\0")
    if len(texts) != count:
        texts = list(map(bytes, raws))
    return np.fromiter(map(known.__getitem__, texts), np.int64, count)


def _integers_of(values: list[Any]) -> tuple[I64, list[int] | None]:
    """The values that are whole numbers, and their places; no places means all."""
    stated: list[int] | None = None
    if None in values:
        if values.count(None) == len(values):
            return np.empty(0, np.int64), []
        stated = [index for index, value in enumerate(values) if value is not None]
        values = [values[index] for index in stated]
    try:
        return np.fromiter(values, np.int64, len(values)), stated
    except (TypeError, ValueError, OverflowError):
        numbers = [whole_number(value) for value in values]
        places = range(len(values)) if stated is None else stated
        good = [place for place, number in zip(places, numbers, strict=True) if number is not None]
        return np.array([number for number in numbers if number is not None], np.int64), good


def whole_number(value: Any) -> int | None:
    """7, 7.0, "7" or "0x7" as a number; None for any other text and for what 64 bits do not hold."""
    if value is None or isinstance(value, (list, dict)):
        return None
    try:
        number = int(value, 0) if isinstance(value, str) else int(value)
    except (ValueError, OverflowError):
        return None
    return number if -(1 << 63) <= number < 1 << 63 else None


def _sync_kind(text: Any) -> SyncKind:
    """The kind of a stated ``cuda_sync_kind``."""
    return (
        _SYNCHRONISATIONS.get(text.lower(), SyncKind.UNKNOWN) if isinstance(text, str) else SyncKind.UNKNOWN
    )
