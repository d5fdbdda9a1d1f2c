"""What records: the PyTorch profiler, which writes a trace, or a CUDA profiler range inside Nsight's own recording."""

from __future__ import annotations

import contextlib
import gzip
import importlib
import os
import shutil
import warnings
from typing import Any, Callable, Optional

from .allocator import AllocatorHistory
from .machine import machine
from .options import Options
from .places import Places
from .ranges import Ranges, nvtx_ranges, record_function_ranges

COMPRESSION = 4
"""gzip level: level 9, torch's own choice, takes several times longer for a tenth of the size."""
HEAD_BYTES = 64
"""The object of a trace begins within so many."""


class TorchRecorder:
    """``torch.profiler`` over the schedule of the options; each finished recording becomes one file."""

    complete = False

    def __init__(self, options: Options, rank: int, say: Callable[..., None]) -> None:
        self._options = options
        self._rank = rank
        self._say = say
        self._profiler: Any = None
        self.written: list[str] = []
        self.ranges = record_function_ranges()
        self.places = Places()
        self.ranges.note = self.places.note
        self._allocator = AllocatorHistory(say)

    @property
    def recorded(self) -> bool:
        return bool(self.written)

    def start(self, steps_already: Optional[int]) -> None:
        """Begin the schedule, so many steps late; ``None`` records at once and until ``finish``."""
        options = self._options
        profiler = importlib.import_module("torch.profiler")
        schedule = None
        if steps_already is not None:
            schedule = profiler.schedule(
                wait=options.wait,
                warmup=options.warmup,
                active=options.active,
                repeat=options.repeat,
                skip_first=max(0, options.skip_first - steps_already),
            )
        self._profiler = profiler.profile(
            schedule=schedule,
            on_trace_ready=self._write,
            record_shapes=options.shapes,
            with_stack=options.stacks,
            profile_memory=options.memory,
        )
        warnings.filterwarnings("ignore", message=".*Profiler clears events at the end of each cycle")
        if options.memory:
            self._allocator.start()
        self._profiler.start()
        self._follow_schedule()

    def step(self) -> None:
        self._profiler.step()
        self._follow_schedule()

    def finish(self) -> None:
        """End now: what is being recorded is written."""
        profiler, self._profiler = self._profiler, None
        self.ranges.enabled = False
        if profiler is not None:
            profiler.stop()
        self._allocator.stop()

    def _follow_schedule(self) -> None:
        action = str(getattr(self._profiler, "current_action", ""))
        self.ranges.enabled = self._options.phases and "RECORD" in action

    def _write(self, profiler: Any) -> None:
        parts = [self._options.name]
        if self.written:
            parts.append(str(len(self.written) + 1))
        if self._rank >= 0:
            parts.append("rank{}".format(self._rank))
        os.makedirs(self._options.out, exist_ok=True)
        path = os.path.join(self._options.out, ".".join(parts) + ".pt.trace.json.gz")
        self._say("writing", path=path)
        plain = "{}.{}.json".format(path[: -len(".json.gz")], os.getpid())
        packed = plain + ".gz.part"
        try:
            profiler.export_chrome_trace(plain)
            with open(plain, "rb") as source, gzip.open(packed, "wb", compresslevel=COMPRESSION) as sink:
                before, brace, after = source.read(HEAD_BYTES).partition(b"{")
                sink.write(before + brace + machine() + self.places.taken() + after)
                shutil.copyfileobj(source, sink, 1 << 20)
            os.replace(packed, path)
        finally:
            for left in (plain, packed):
                with contextlib.suppress(OSError):
                    os.remove(left)
        self.written.append(path)
        self._say("written", path=path)
        snapshot = path[: -len(".pt.trace.json.gz")] + ".memory.pickle.gz"
        if self._allocator.write(snapshot):
            self._say("written", path=snapshot)


class CudaRangeRecorder:
    """``cudaProfilerStart`` and ``Stop`` around the recorded steps, with NVTX ranges, for Nsight around the process."""

    complete = False

    def __init__(self, options: Options, rank: int, say: Callable[..., None]) -> None:
        self._options = options
        self._say = say
        self._next = 0
        self._started = False
        self._runtime: Any = None
        self.written: list[str] = []
        self.recorded = False
        self.ranges = nvtx_ranges() or Ranges(lambda _: None, lambda _: None)
        self._steps = self.ranges.twin()

    def start(self, steps_already: Optional[int]) -> None:
        """Begin to count steps, so many late; ``None`` starts the CUDA profiler at once."""
        with contextlib.suppress(Exception):
            torch = importlib.import_module("torch")
            self._runtime = torch.cuda.cudart() if torch.cuda.is_available() else None
        if self._runtime is None:
            self._say("problem", text="torch sees no CUDA device here, so Nsight will find nothing to record")
        if steps_already is None:
            self._open()
        else:
            self._next = steps_already
            self._at(self._next)

    def step(self) -> None:
        self._next += 1
        self._at(self._next)

    def finish(self) -> None:
        self._close()

    def _at(self, step: int) -> None:
        options = self._options
        self._steps.close("step")
        cycle = options.wait + options.warmup + options.active
        into = (step - options.skip_first) % cycle if step >= options.skip_first else 0
        recording = into >= options.wait + options.warmup and step < options.all_steps
        if recording:
            self._open()
            self._steps.open("step", "ProfilerStep#{}".format(step))
        else:
            self._close()

    def _open(self) -> None:
        if not self._started:
            self._started = self.recorded = True
            if self._runtime is not None:
                importlib.import_module("torch").cuda.synchronize()
                self._runtime.cudaProfilerStart()
            self._steps.enabled = True
            self.ranges.enabled = self._options.phases

    def _close(self) -> None:
        if self._started:
            self._started = False
            self._steps.close("step")
            self.ranges.enabled = False
            if self._runtime is not None:
                importlib.import_module("torch").cuda.synchronize()
                self._runtime.cudaProfilerStop()
