"""What slows a GPU's clock, and how to lift it."""

from __future__ import annotations

from rules.analysis.logs.clocks import Limit
from rules.remedies.remedy import Remedy, remedy
from rules.wording.words import Words, ours

LOG_CLOCKS = """# During the recording, and opened together with it:
# nvidia-smi --query-gpu=timestamp,index,clocks.sm,clocks.max.sm,power.draw,power.limit,temperature.gpu,\\
#     clocks_event_reasons.active --format=csv -lms 200 > clocks.csv"""
_ELSEWHERE = "Move the job to another node and compare"
_SUPPLY: tuple[Words, ...] = (
    "Have the node's power supply and cables checked: something external made the board draw less, or it is "
    "protecting itself.",
    f"{_ELSEWHERE}.",
)
_COOLING: tuple[Words, ...] = (
    "Look at the cooling: fans, airflow, dust, the temperature of the room and of neighbouring GPUs.",
    f"{_ELSEWHERE}: a GPU that alone slows down may be faulty.",
)
_BY_LIMIT: dict[Limit, tuple[Words, ...]] = {
    Limit.POWER: (
        "Use less energy for the same result: 16-bit or 8-bit types instead of TF32 and FP32, less data moved, no "
        "wasted work.",
        ours("If the limit was lowered, raise it ($PowerLimit); the board's own maximum cannot be exceeded."),
        "Compare runs at the same clock: a short test on a cold GPU looks faster than the same work after a minute.",
    ),
    Limit.POWER_BRAKE: _SUPPLY,
    Limit.HW_SLOWDOWN: _SUPPLY,
    Limit.SETTING: (ours("Reset the clocks ($ResetClocks), unless somebody set them on purpose."),),
    Limit.SYNC_BOOST: ("Look for the GPU of the group that is hot or short of power.",),
}

REACH_MEMORY = remedy(
    ours(
        "Look at the memory's clock while the program runs ($GpuMonitor); plug a laptop in, and let it use full power."
    ),
    "Look at what is allocated there, and on Windows at the shared GPU memory: a smaller batch, or 16 bits, may fit.",
    "Then record it again, before anything else is changed.",
    code=LOG_CLOCKS,
)


def higher_clock(limit: Limit) -> Remedy:
    """What lifts a limit, or at least tells more about it."""
    return Remedy(_BY_LIMIT.get(limit, _COOLING), LOG_CLOCKS)
