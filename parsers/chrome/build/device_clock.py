"""Checks the GPU's clock against the CPU's: nothing can run before it was launched."""

from __future__ import annotations

from parsers.device_clock import clock_shift, note_shift
from parsers.model import GPU_WORK, I64, U8, Effect, EventKind, QualityRecorder
from parsers.model.arrays import place_in
from parsers.model.events import of_kinds
from parsers.model.units import duration as duration_text

_ON_DEVICE = (*GPU_WORK, EventKind.GPU_REGION, EventKind.GPU_SYNC)


def move_device_clock(start: I64, kind: U8, events: I64, correlation: I64, quality: QualityRecorder) -> None:
    """Where the GPU's times are on another clock altogether, shift them in place so that none precedes its launch."""
    work = of_kinds(kind[events], *GPU_WORK) & (correlation != 0)
    calls = of_kinds(kind[events], EventKind.API) & (correlation != 0)
    if not work.any() or not calls.any():
        return
    launch, operation = events[calls], events[work]
    place = place_in(correlation[calls], correlation[work])
    found = place >= 0
    if not found.any():
        return
    delay = start[operation[found]] - start[launch[place[found]]]
    if shift := clock_shift(delay):
        on_device = of_kinds(kind, *_ON_DEVICE)
        start[on_device] += shift
        note_shift(quality, shift, int(on_device.sum()))


def note_causality(start: I64, operation: I64, launch: I64, quality: QualityRecorder) -> None:
    """State how many operations begin before the call that launched them."""
    early = start[launch] - start[operation]
    wrong = early > 0
    if wrong.any():
        quality.note(
            "before-launch",
            Effect.NOTED,
            "a GPU operation begins before the call that launched it: the clocks of CPU and GPU disagree",
            f"by up to {duration_text(float(early.max()))}",
            int(wrong.sum()),
        )
