"""A recorder that tries changes instead of recording: it follows the steps, and writes what each block took."""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import random
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from ..options import Options
from ..ranges import Ranges
from .catalogue import CEILING, SLOW_SETTLING, START, Changes, catalogue, first_line
from .driver import Driver, Limits, Machine
from .observation import Observation
from .program import Program, batches_in_store, torch_module, workers_of
from .schedule import MIN_SHARE, Candidate, Names, Timed

SUFFIX = ".trial.jsonl"
LOOK = 6
"""Steps in which it is seen what the program does, before anything is timed."""
SEED = 0
COMPILING_A_LAYER = 0.3
"""Seconds of compiling for each layer: as it took for a ResNet-50 (126 layers) and a GPT (51) on an H200."""
MAX_UNTIMED = 0.05
"""Of the time limit, for the first steps that are left alone, and as much for those that tell how long a step is."""
_LOADED = time.monotonic()
SET_BY_THE_SCRIPT = "the script sets it back while it runs"
SAME_BATCH = "same-batch"  # only for it the last batch of each loader stays in memory


class Order:
    """What one launch is to do, as the JSON object that is its option: see docs/trying.md."""

    def __init__(self, text: str) -> None:
        read = json.loads(text)
        self.candidates: List[Dict[str, Any]] = list(read.get("candidates") or ())
        self.starts: List[str] = list(read.get("starts") or ())
        self.changes: List[str] = list(read.get("changes") or ())
        self.seconds = float(read.get("seconds") or 60.0)
        self.rounds = int(read.get("rounds", 3))
        self.steps = int(read.get("steps") or 0)
        self.skip = int(read.get("skip", 10))
        self.losses = int(read.get("losses") or 0)
        self.compares = bool(read.get("compares"))
        self.seed = bool(read.get("seed"))
        self.known = {
            str(name): [(str(variant), Timed(float(step), float(size))) for variant, step, size in blocks]
            for name, blocks in dict(read.get("known") or {}).items()
        }


def prepare_environment(order: Order) -> None:
    """Set what must be there before torch is loaded."""
    known = catalogue()
    for name in order.starts:
        if name in known:
            os.environ.update(known[name].environment)


class Torch(Machine):
    """The process, with a clock that waits for the GPU and ranks that agree through the script's own process group."""

    def __init__(self, program: Program, changes: Changes, always: Names) -> None:
        self._program = program
        self._changes = changes
        self._always = always
        torch = torch_module()
        distributed = torch.distributed
        self._gather: Any = distributed.all_gather if distributed.is_available() else None

    def seconds(self) -> float:
        if self._program.uses_gpu:
            torch_module().cuda.synchronize()
        return time.perf_counter()

    def turn(self, changes: Names) -> str:
        if changes and not self._always:
            self._program.wanted_losses = 0
        return self._changes.turn((*self._always, *(each for each in changes if each not in self._always)))

    def settle(self, changes: Names) -> int:
        return self._changes.settle(changes)

    def elements(self) -> int:
        return self._program.elements

    def forget_peak(self) -> None:
        if self._program.uses_gpu:
            torch_module().cuda.reset_peak_memory_stats()

    def peak_bytes(self) -> Optional[int]:
        return int(torch_module().cuda.max_memory_allocated()) if self._program.uses_gpu else None

    def exchange(self, values: List[float]) -> List[List[float]]:
        if self._program.ranks < 2:
            return [values]
        torch = torch_module()
        device = "cuda" if "nccl" in str(torch.distributed.get_backend()) else "cpu"
        mine = torch.tensor(values, dtype=torch.float64, device=device)
        every = [torch.empty_like(mine) for _ in range(self._program.ranks)]
        with torch.no_grad():
            self._gather(every, mine)
        return [each.tolist() for each in every]


class Guard:
    """Calls of the script that are made once more without the change that is tried, where they fail with it."""

    def __init__(self, program: Program, changes: Changes) -> None:
        self._program = program
        self._changes = changes
        self.failed: Optional[Callable[[str], None]] = None

    def is_needed(self) -> bool:
        """Whether anything is being tried that could make a call fail."""
        return self.failed is not None and bool(self._changes.made)

    def run(self, call: Callable[[], Any]) -> Any:
        """What the call gives, if need be without the change."""
        done, given = self._tried(call)
        return given if done else call()

    def _tried(self, call: Callable[[], Any]) -> Tuple[bool, Any]:
        try:
            return True, call()
        except Exception as error:
            reason = first_line(error)
        self._give_up(reason)
        return False, None

    def run_backward(self, call: Callable[[], Any]) -> Any:
        """The same of a backward pass, which cannot be made twice: missing gradients are zero in this one step."""
        done, given = self._tried(call)
        if done:
            return given
        torch = torch_module()
        for optimizer in self._program.optimizers:
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    if parameter.requires_grad and parameter.grad is None:
                        parameter.grad = torch.zeros_like(parameter)
        return None

    def _give_up(self, reason: str) -> None:
        assert self.failed is not None
        self.failed(reason)
        gc.collect()
        if self._program.uses_gpu:
            torch_module().cuda.empty_cache()


class TrialRecorder:
    """Stands where a profiler stands in a session; what it writes are lines of JSON, one file a rank."""

    def __init__(self, options: Options, rank: int, say: Callable[..., None]) -> None:
        self._options = options
        self._rank = rank
        self._say = say
        self._order = Order(options.trial)
        self.ranges = Ranges(lambda _: None, lambda _: None)
        self.written: List[str] = []
        self.recorded = False
        self.complete = False
        self.program = Program()
        self.calls = Observation(self.program)
        #: told the models once they are known
        self.models_are_known: Callable[[List[Any]], None] = lambda models: None
        self._changes = Changes(self.program)
        self._starts = Changes(self.program)
        self._guard = Guard(self.program, self._changes)
        self._driver: Optional[Driver] = None
        self._steps = 0
        self._looked_from = 0.0
        self._ended = False
        self._loading_problem = self._starts.turn(tuple(self._order.starts))
        self.program.wanted_losses = self._order.losses
        self.program.keeps_batches = any(each.get("name") == SAME_BATCH for each in self._order.candidates)
        if self._order.seed:
            _set_seeds()
        self.calls.install()

    def start(self, steps_already: Optional[int]) -> None:
        """The first step begins of those that can be told apart."""
        if steps_already is None:
            self.complete = True
            return
        self.calls.guard = self._guard
        self.calls.look()
        if self._order.changes:
            reason = self._changes.turn(tuple(self._order.changes))
            if reason:
                self._write({"kind": "refused", "candidate": " ".join(self._order.changes), "reason": reason})
        if self._loading_problem:
            self._write(
                {
                    "kind": "refused",
                    "candidate": " ".join(self._order.starts),
                    "reason": self._loading_problem,
                }
            )

    def step(self) -> None:
        program = self.program
        program.step_begins()
        self._changes.at_step()
        if self._driver is not None and not self._changes.are_made():
            self._driver.failed(SET_BY_THE_SCRIPT)
        self._steps += 1
        if self._steps == 1:
            self._looked_from = time.monotonic()
        if self._steps < LOOK:
            return
        if self._driver is None:
            self.calls.stop_looking()
            self.models_are_known(self.program.models)
            self._driver = self._begin()
        self._driver.boundary()
        enough = len(program.losses) >= self._order.losses or bool(self._order.candidates)
        self.complete = self._driver.over and enough

    def script_failed(self, error: str) -> None:
        """The script raised: what is being tried at the moment is to blame, if anything is."""
        if self._driver is not None:
            self._driver.script_failed(error.splitlines()[0][:300] if error else "it failed")

    def finish(self) -> None:
        """Put everything back and close the account; of a script that ended by itself what is known so far."""
        if self._ended:
            return
        self._ended = True
        self.calls.guard = None
        self.calls.stop_looking()
        if self._driver is not None:
            self._driver.finish("stopped")
        self._changes.take_all_back()
        self._starts.take_all_back()
        if self._driver is not None or self.program.losses:
            self._write({"kind": "losses", "values": _values(self.program.losses)})

    def _begin(self) -> Driver:
        """The driver, with those candidates that make sense on every rank."""
        order, changes = self._order, self._changes
        always = tuple(order.changes)
        machine = Torch(self.program, changes, always)
        self._describe()
        known = catalogue()
        wanted = [each for each in order.candidates if each.get("name") in known]
        reasons = [changes.reason_against(each["name"]) for each in wanted]
        told = machine.exchange([1.0 if reason else 0.0 for reason in reasons]) if wanted else []
        fit = []
        for number, each in enumerate(wanted):
            reason = reasons[number]
            cls = known[each["name"]]
            against = reason or (
                "it doesn't apply on every rank" if any(rank[number] for rank in told) else None
            )
            edits = changes.edits(cls.name) if against is None else ()
            compiles = cls.first_settle > SLOW_SETTLING
            takes = COMPILING_A_LAYER * self.program.layers if compiles else 0.0
            self._write(
                {
                    "kind": "candidate",
                    "name": cls.name,
                    "title": cls.title,
                    "level": cls.level,
                    "against": against,
                    "edits": [edit._asdict() for edit in edits],
                    "compiling_s": round(takes, 1),
                }
            )
            if against is None and cls.level != START:
                weight = max(float(each.get("weight") or 1.0), 0.1)
                fit.append(Candidate(cls.name, weight, cls.level != CEILING, cls.group, compiles, takes))
        start = time.monotonic() - _LOADED if order.compares else 0.0
        seconds = max(order.seconds - start, MIN_SHARE * order.seconds)
        looked = (time.monotonic() - self._looked_from) / max(self._steps - 1, 1)
        slowest = max(each[0] for each in machine.exchange([looked]))
        loaders = self.program.loaders
        turn = max(map(workers_of, loaders), default=0)
        stored = max(map(batches_in_store, loaders), default=0)
        skip = order.skip if order.steps else max(order.skip, stored)
        limits = Limits(seconds, skip, order.rounds, order.steps, order.known, turn=turn, start=start)
        limits = limits.within(MAX_UNTIMED, slowest)
        driver = Driver(machine, fit, limits, self._write)
        self._guard.failed = driver.failed
        return driver

    def _describe(self) -> None:
        program, torch = self.program, torch_module()
        self._write(
            {
                "kind": "program",
                "torch": str(torch.__version__),
                "device": program.device,
                "ranks": program.ranks,
                "trains": program.trains,
                "gpu": torch.cuda.get_device_name() if program.uses_gpu else "",
                "sites": [site._asdict() for site in program.sites],
            }
        )

    def _write(self, line: Dict[str, Any]) -> None:
        """One line into this rank's file; the first rank also tells whoever watches."""
        if not self.written:
            os.makedirs(self._options.out, exist_ok=True)
            rank = "" if self._rank < 0 else ".rank{}".format(self._rank)
            self.written.append(os.path.join(self._options.out, self._options.name + rank + SUFFIX))
            self.recorded = True
        with open(self.written[0], "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        if self._rank <= 0 and line["kind"] != "losses":
            self._say("trying", **{**line, "text": _told(line)})


def _told(line: Dict[str, Any]) -> str:
    words = [str(line["kind"])]
    words.extend(
        str(line[key]) for key in ("name", "candidate", "variant", "reason", "against") if line.get(key)
    )
    return " ".join(words)


def _values(losses: List[Any]) -> List[Any]:
    """Exact values; what is no finite number has no place in JSON and is ``None``."""
    read = [float(each) for each in losses]
    return [each if each - each == 0 else None for each in read]


def _set_seeds() -> None:
    """Before the script does anything: what it seeds itself is as it says."""
    random.seed(SEED)
    torch_module().manual_seed(SEED)
    with contextlib.suppress(Exception):
        importlib.import_module("numpy").random.seed(SEED)
