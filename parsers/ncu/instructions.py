"""What a binary report counts for each instruction, joined with the code that it holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from operator import itemgetter

import numpy as np

from parsers.model import BOOL, I64, KernelSource, Progress, SourcePlace
from parsers.model.arrays import MAX_NUMBER, distinct_values
from parsers.model.late import dataclass
from parsers.ncu.cubin import Cubin, read_cubin
from parsers.protobuf.columns import Spans, buffer_of, decode, parts_of
from parsers.protobuf.wire import fields, integer, message, text

EXECUTED, SAMPLES = "inst_executed", "smsp__pcsamp_sample_count"
_STALL, _NOT_ISSUED = "smsp__pcsamp_warps_issue_stalled_", "_not_issued"
_REASONS = {"no_instructions": "no_instruction", "warpgroup_arrive": "gmma"}  # as the other metrics call them
MAX_CODE_BYTES = 1 << 20  # bytes of one kernel: an instruction that never ran is a row, too
_WIDTH = 16  # bytes of an instruction since Volta
_VOLTA = 7 << 16


def counts_instructions(metric: str) -> bool:
    """Whether the parts of a metric are counts by the instruction's address that a source page shows."""
    return metric in (EXECUTED, SAMPLES) or (metric.startswith(_STALL) and not metric.endswith(_NOT_ISSUED))


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """By the instruction's address, both int64 columns."""

    address: I64
    value: I64


def counts_from(series: Iterable[tuple[int | str, float]]) -> Counts:
    """The same from parts that were read one at a time."""
    known = [(key, int(value)) for key, value in series if isinstance(key, int) and 0 <= key < 1 << 63]
    return Counts(*np.array(known, np.int64).reshape(len(known), 2).T)


def counts_of(messages: Sequence[memoryview]) -> list[Counts]:
    """The parts of some metrics; those that are no counts by address are left out."""
    if not messages:
        return []
    data = buffer_of(b"".join(messages))
    begins, ends, owners = [], [], []
    first = 0
    for number, each in enumerate(messages):
        found = parts_of(each, first, Progress()).of(3, data)
        begins.append(found.begin)
        ends.append(found.end)
        owners.append(np.full(len(found), number))
        first += len(each)
    parts = Spans(data, np.concatenate(begins), np.concatenate(ends))
    owner = np.concatenate(owners)
    pairs = decode(parts, Progress(), {1, 2})
    address, known = _whole(pairs.spans(1), len(parts))
    value, counted = _whole(pairs.spans(2), len(parts))
    fine = known & counted
    return [
        Counts(address[mine], value[mine])
        for mine in (fine & (owner == number) for number in range(len(messages)))
    ]


def _whole(values: tuple[I64, Spans], count: int) -> tuple[I64, BOOL]:
    """The whole number of each of ``count`` parts, and which of them have one."""
    owner, spans = values
    found = decode(spans, Progress(), {4, 5})
    numbers, known = np.zeros(count, np.int64), np.zeros(count, np.bool_)
    numbers[owner[found.message]] = found.value.view(np.int64)
    known[owner[found.message]] = True
    return numbers, known


@dataclass(slots=True)
class _Module:
    """Functions that were loaded together: their code, where each lies, and the source files kept with them."""

    revision: int = 0
    cubin: Cubin = field(default_factory=Cubin)
    bases: dict[str, int] = field(default_factory=dict)
    files: dict[str, tuple[str, ...]] = field(default_factory=dict)
    placed: dict[str, tuple[tuple[int, ...], tuple[SourcePlace, ...]]] = field(default_factory=dict)

    def places(self, function: str) -> tuple[tuple[int, ...], tuple[SourcePlace, ...]]:
        if function not in self.placed:
            self.placed[function] = self.cubin.places(function, _WIDTH)
        return self.placed[function]

    def functions(self) -> Iterable[tuple[int, int, str]]:
        """(first address, bytes, name) of the functions whose code is here, by address."""
        return [
            (base, size - size % _WIDTH, name)
            for name, base in sorted(self.bases.items(), key=itemgetter(1))
            if base < MAX_NUMBER and (size := self.cubin.code.get(name, (0, 0))[1]) <= MAX_CODE_BYTES
        ]


class Code:
    """All code of a report, by the number that results refer to."""

    def __init__(self) -> None:
        self._modules: dict[int, _Module] = {}

    def take(self, data: memoryview) -> None:
        """One piece of it; what is known of a number may come in several. Raises ``Damaged``."""
        parts = list(fields(data))
        reference = next((integer(value) for number, _, value in parts if number == 1), 0)
        module = self._modules.setdefault(reference, _Module())
        for number, _, value in parts:
            if number == 4:
                module.cubin = read_cubin(bytes(message(value)))
            elif number == 6:
                module.revision = integer(value)
            elif number == 8:
                for at, _, file in fields(message(value)):
                    if at == 1:
                        found = {key: text(each) for key, _, each in fields(message(file))}
                        module.files[found.get(1, "")] = tuple(found.get(2, "").splitlines())
            elif number == 9:
                for at, _, function in fields(message(value)):
                    if at == 1:
                        inner = {key: each for key, _, each in fields(message(function))}
                        module.bases[text(inner.get(1, 0))] = integer(inner.get(2, 0))

    def source_of(self, reference: int, counts: Mapping[str, Counts]) -> KernelSource | None:
        """The instructions of a launch, by address; without the code those that were counted."""
        met = [each.address for each in counts.values() if len(each.address)]
        if not met:
            return None
        module = self._modules.get(reference, _Module())
        address = distinct_values(np.concatenate(met))
        place = np.full(len(address), -1)
        places: list[SourcePlace] = []
        if module.revision >= _VOLTA:
            for base, size, name in module.functions():
                inside = (address >= base) & (address < base + size)
                if not inside.any() or ((address[inside] - base) % _WIDTH).any():
                    continue
                numbers, of_function = module.places(name)
                rows = base + _WIDTH * np.arange(len(numbers))
                numbered = np.array(numbers, np.int64)
                numbered[numbered >= 0] += len(places)
                before = len(places)
                places += [
                    replace(each, inlined_at=each.inlined_at + before) if each.inlined_at >= 0 else each
                    for each in of_function
                ]
                kept = ~inside
                address = np.concatenate([address[kept], rows])
                place = np.concatenate([place[kept], numbered])
        order = np.argsort(address, kind="stable")
        address, place = address[order], place[order]

        def column(metric: str) -> tuple[int, ...]:
            values = np.zeros(len(address), np.int64)
            if (found := counts.get(metric)) is not None:
                values[np.searchsorted(address, found.address)] = found.value
            return tuple(values.tolist())

        stalls = {
            _REASONS.get(reason, reason): numbers
            for metric in sorted(counts)
            if (reason := metric.removeprefix(_STALL)) != metric and any(numbers := column(metric))
        }
        return KernelSource(
            address=tuple((address - address[0]).tolist()),
            text=("",) * len(address),
            samples=column(SAMPLES),
            executed=column(EXECUTED),
            stalls=stalls,
            place=tuple(place.tolist()) if places else (),
            places=tuple(places),
            files={
                name: module.files[name]
                for name in sorted({each.file for each in places} & module.files.keys())
            },
        )
