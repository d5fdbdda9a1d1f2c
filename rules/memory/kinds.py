"""What each allocation is for, told by the stack that made it and by how long it lives."""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from parsers.model.arrays import BOOL, I8, I32, I64, distinct_values
from parsers.model.late import regex
from parsers.model.memory import AFTER, BEFORE, Allocations, Frame, Memory
from parsers.model.names.source_files import is_own_file


class Kind(StrEnum):
    """What memory is used for; the value is what users read."""

    PARAMETERS = "parameters"
    GRADIENTS = "gradients"
    OPTIMIZER = "optimizer state"
    ACTIVATIONS = "activations"
    COMMUNICATION = "communication buffers"
    INPUTS = "inputs"
    KEPT = "kept over steps"
    TEMPORARIES = "temporaries"
    OLDER = "before recording"
    UNKNOWN = "unknown"


KINDS = tuple(Kind)
_OPTIMIZER = regex(r"[/\\]torch[/\\]optim[/\\]|[/\\](apex|bitsandbytes)[/\\].*optim")
_COMMUNICATION = regex(r"[/\\]torch[/\\](distributed|nn[/\\]parallel)[/\\]|[/\\]deepspeed[/\\]runtime[/\\]")
_MODULE = regex(r"[/\\]torch[/\\]nn[/\\]modules[/\\]module\.py$")
_PLACED = frozenset({"convert", "_apply"})  # Module.to, Module.cuda
_FUNCTIONAL = regex(r"[/\\]torch[/\\]nn[/\\]functional\.py$")  # a loss outside of modules too
_CALLED = frozenset({"_call_impl", "_wrapped_call_impl", "forward"})
_LOADED = regex(
    r"load_(state_dict|model|checkpoint)|reset_parameters|from_pretrained|(init|load|create)_(all_)?weights?(_list)?"
)
# as accelerate, transformers and Lightning move batches
_MOVED = frozenset(
    {
        "to_device",
        "send_to_device",
        "move_data_to_device",
        "batch_to_device",
        "transfer_batch_to_device",
        "_prepare_input",
        "_prepare_inputs",
    }
)
_DATA = regex(r"[/\\]torch[/\\]utils[/\\]data[/\\]")
_NO_FILE = ("", "??")
_OF_TORCH = regex(r"(?:\w+ )?(?:torch|at|c10|std|pybind11)::")  # recorded with stacks="all"
_ENGINE = "torch::autograd::Engine::"  # its threads have no Python frames
# the last by zero_grad(): of what no Python code made, only where it was freed is known
_IS_OPTIMIZER, _IS_COMMUNICATION, _IS_FORWARD, _IS_PLACED, _IS_BACKWARD, _IS_INPUT, _IS_CLEARED = (
    1 << bit for bit in range(7)
)


def kinds_of(memory: Memory) -> I8:
    """The kind of each allocation, as an index into ``KINDS``.

    What an optimizer makes is its state where it is kept, or outlives what runs next: some replace it in every step.
    What it makes for a moment is temporary. Where nothing is trained, so is what the program's own lines make between
    the modules and give back. In a training process, what has no Python stack was made by the backward
    pass: a gradient where it is as large as a parameter, or is still there when the optimizer runs. What is older than
    the recorded history, and has no stack of its own, is of no kind that could be told.
    """
    held = memory.allocations
    flags = _flags_of_stacks(memory)
    mine = (
        np.where(held.stack >= 0, flags[held.stack], 0) if len(flags) else np.zeros(len(held.stack), np.int64)
    )
    kind = np.full(len(held.stack), KINDS.index(Kind.UNKNOWN), np.int8)

    def assign(where: BOOL, which: Kind) -> None:
        kind[where] = KINDS.index(which)

    nobody = held.stack < 0
    backward = nobody | ((mine & _IS_BACKWARD) > 0)
    trains = bool((mine & _IS_OPTIMIZER).any()) or bool((mine & _IS_BACKWARD).any())
    forward = (mine & _IS_FORWARD) > 0
    placed = ((mine & _IS_PLACED) > 0) & ~forward
    assign((mine & _IS_INPUT) > 0, Kind.INPUTS)
    assign(forward, Kind.ACTIVATIONS)
    assign(placed, Kind.PARAMETERS)
    of_optimizer = (mine & _IS_OPTIMIZER) > 0
    if trains:
        of_backward = backward & ~forward
        is_gradient = np.isin(held.size, distinct_values(held.size[placed])) | _outlives(
            held, held.start[of_optimizer]
        )
        assign(of_backward, Kind.TEMPORARIES)
        assign(of_backward & is_gradient, Kind.GRADIENTS)
    elif forward.any():
        between = _is_of_own_lines(memory) & (held.start > held.start[forward].min()) & (held.end != AFTER)
        assign(between & (kind == KINDS.index(Kind.UNKNOWN)), Kind.TEMPORARIES)
    assign(((mine & _IS_COMMUNICATION) > 0) & ~forward, Kind.COMMUNICATION)
    assign(of_optimizer, Kind.TEMPORARIES)
    assign(of_optimizer & ((held.end == AFTER) | _outlives(held, held.start[forward])), Kind.OPTIMIZER)
    assign((mine & _IS_CLEARED) > 0, Kind.GRADIENTS)
    freed = (kind == KINDS.index(Kind.UNKNOWN)) & (held.end != AFTER)  # its stack is of what freed it
    assign((nobody | freed) & (held.start == BEFORE), Kind.OLDER)
    return kind


def _outlives(held: Allocations, moments: I64) -> BOOL:
    """Which allocations were made before one of these moments (ns) and are still there at it."""
    moments = np.sort(moments)
    after = np.searchsorted(moments, held.start, side="right")
    following = np.append(moments, AFTER)[after]
    outlives: BOOL = (following < held.end) & (following != AFTER)
    return outlives


def _is_of_own_lines(memory: Memory) -> BOOL:
    """Which allocations the user's own code made, whatever it called."""
    stack = memory.allocations.stack
    own = own_frames(memory) >= 0
    return (stack >= 0) & own[stack] if len(own) else np.zeros(len(stack), bool)


def own_frames(memory: Memory) -> I32:
    """For each stack, the innermost frame of the user's own code (an index into ``frames``); -1 where there is none."""
    own = np.fromiter(map(_is_own, memory.frames), bool, len(memory.frames))
    count = len(memory.stack_offset) - 1
    first = np.full(count, -1, np.int32)
    if not len(memory.stack_frame):
        return first
    at = np.flatnonzero(own[memory.stack_frame])
    stack = np.searchsorted(memory.stack_offset, at, side="right") - 1
    stacks, where = np.unique(stack, return_index=True)
    first[stacks] = memory.stack_frame[at[where]]
    return first


def _is_own(frame: Frame) -> bool:
    return is_own_file(frame.file) and frame.file not in _NO_FILE and _OF_TORCH.match(frame.function) is None


def _flags_of_stacks(memory: Memory) -> I64:
    flags = np.fromiter(map(_flags, memory.frames), np.int64, len(memory.frames))
    count = len(memory.stack_offset) - 1
    if not count or not len(memory.stack_frame):
        return np.zeros(count, np.int64)
    found = np.zeros(count, np.int64)
    filled = np.flatnonzero(np.diff(memory.stack_offset) > 0)
    found[filled] = np.bitwise_or.reduceat(flags[memory.stack_frame], memory.stack_offset[:-1][filled])
    return found


def _flags(frame: Frame) -> int:
    flags = 0
    if _OPTIMIZER.search(frame.file):
        flags |= _IS_OPTIMIZER
    if _COMMUNICATION.search(frame.file):
        flags |= _IS_COMMUNICATION
    in_module = _MODULE.search(frame.file) is not None
    called = in_module and frame.function in _CALLED
    if frame.function == "forward" or called or _FUNCTIONAL.search(frame.file):
        flags |= _IS_FORWARD
    if (in_module and frame.function in _PLACED) or _LOADED.fullmatch(frame.function):
        flags |= _IS_PLACED
    if frame.function == "zero_grad":
        flags |= _IS_CLEARED
    if frame.function in _MOVED or _DATA.search(frame.file):
        flags |= _IS_INPUT
    if frame.function in ("backward", "_engine_run_backward") or frame.function.startswith(_ENGINE):
        flags |= _IS_BACKWARD
    return flags
