"""Named ranges around the phases and modules of a step, seen by the PyTorch profiler or, as NVTX, by Nsight."""

from __future__ import annotations

import contextlib
import gc
import importlib
import threading
from typing import Any, Callable, ContextManager, Iterator, List, Optional, Protocol

Push = Callable[[str], Any]
Pop = Callable[[Any], None]
_NOTHING = contextlib.nullcontext()


class Watch(Protocol):
    """What is put into torch or Python to see more of a program, and taken out again."""

    def install(self) -> None: ...

    def remove(self) -> None: ...


class Ranges:
    """Opens and closes named ranges on the calling thread, only while ``enabled``."""

    def __init__(self, push: Push, pop: Pop) -> None:
        #: what ``enabled`` was set to, for what runs in every step
        self.on = False
        self._watches: List[Watch] = []
        self._push = push
        self._pop = pop
        self._local = threading.local()
        #: gets the name of each range that the program's own code opens by what it calls
        self.note: Optional[Callable[[str], Any]] = None

    @property
    def enabled(self) -> bool:
        return self.on

    @enabled.setter
    def enabled(self, enabled: bool) -> None:
        if enabled != self.on:
            self.on = enabled
            for each in self._watches:
                each.install() if enabled else each.remove()

    def watch_with(self, watch: Watch) -> None:
        """Install this only while ranges are enabled: a program that is not being recorded pays nothing for it."""
        self._watches.append(watch)
        if self.on:
            watch.install()

    def twin(self) -> Ranges:
        """Another set of the same kind, switched on and off by itself."""
        return Ranges(self._push, self._pop)

    def open(self, key: Any, name: str) -> None:
        """Open a range that ``close`` of the same key ends; nothing when switched off."""
        if self.on:
            if self.note is not None and name != GarbageRanges.NAME:
                self.note(name)
            self._stack().append((key, self._push(name)))

    def close(self, key: Any) -> None:
        """Close the innermost range if it carries this key, and those left open inside it by an exception."""
        stack = self._stack()
        if not stack or not any(entry[0] == key for entry in stack):
            return
        while stack:
            opened, token = stack.pop()
            self._pop(token)
            if opened == key:
                return

    def around(self, name: str) -> ContextManager[None]:
        """The range for the length of a block."""
        return self._opened(name) if self.on else _NOTHING

    @contextlib.contextmanager
    def _opened(self, name: str) -> Iterator[None]:
        key = object()
        self.open(key, name)
        try:
            yield
        finally:
            self.close(key)

    def _stack(self) -> List[Any]:
        try:
            stack: list[Any] = self._local.stack
        except AttributeError:
            stack = self._local.stack = []
        return stack


def record_function_ranges() -> Ranges:
    """Ranges that the PyTorch profiler records as user annotations."""
    record_function = importlib.import_module("torch.profiler").record_function

    def push(name: str) -> Any:
        entered = record_function(name)
        entered.__enter__()
        return entered

    return Ranges(push, lambda entered: entered.__exit__(None, None, None))


def nvtx_ranges() -> Optional[Ranges]:
    """NVTX ranges through torch or, failing that, through the ``nvtx`` package; ``None`` where neither has NVTX."""
    with contextlib.suppress(Exception):
        nvtx = importlib.import_module("torch.cuda.nvtx")
        nvtx.range_push("stallscope")
        nvtx.range_pop()
        return Ranges(nvtx.range_push, lambda _: nvtx.range_pop())
    with contextlib.suppress(Exception):
        package = importlib.import_module("nvtx")
        return Ranges(package.push_range, lambda _: package.pop_range())
    return None


class GarbageRanges:
    """A range for each full collection of Python's garbage, which stops every thread that runs Python."""

    NAME = "Python GC"  # as torch's own profiler calls it, where it is asked to
    FULL = 2

    def __init__(self, ranges: Ranges) -> None:
        self._ranges = ranges

    def install(self) -> None:
        """Follow the collector; ``remove`` lets it go."""
        gc.callbacks.append(self._seen)

    def remove(self) -> None:
        with contextlib.suppress(ValueError):
            gc.callbacks.remove(self._seen)

    def _seen(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start" and info["generation"] >= self.FULL:
            self._ranges.open(self, self.NAME)
        elif phase == "stop":
            self._ranges.close(self)


def unwrapped_class_name(module: Any) -> str:
    """Class of a model inside the wrappers that training puts around it (DDP, DataParallel, torch.compile)."""
    for _ in range(4):
        inner = module.__dict__.get("_orig_mod") or module.__dict__.get("_modules", {}).get("_orig_mod")
        if inner is None and type(module).__name__ in ("DistributedDataParallel", "DataParallel"):
            inner = getattr(module, "module", None)
        if inner is None:
            break
        module = inner
    return type(module).__name__


class ModuleRanges:
    """A range per module call (``layer1.0.conv1 (Conv2d)``) through torch's global forward hooks."""

    def __init__(self, ranges: Ranges) -> None:
        self._ranges = ranges
        self._names: dict[int, str] = {}
        self._handles: list[Any] = []

    def know(self, root: Any) -> None:
        """Learn the dotted names of everything inside a model."""
        for name, module in root.named_modules():
            if name:
                self._names.setdefault(id(module), "{} ({})".format(name, type(module).__name__))

    def install(self) -> None:
        """Put the hooks in place; ``remove`` takes them away again."""
        hooks = importlib.import_module("torch.nn.modules.module")
        compiling = getattr(getattr(importlib.import_module("torch"), "compiler", None), "is_compiling", bool)
        ranges, names = self._ranges, self._names

        def before(module: Any, inputs: Any) -> None:
            if not compiling():
                name = names.get(id(module))
                if name is not None:
                    ranges.open(id(module), name)

        def after(module: Any, inputs: Any, output: Any) -> None:
            if not compiling():
                ranges.close(id(module))

        self._handles = [
            hooks.register_module_forward_pre_hook(before),
            hooks.register_module_forward_hook(after),
        ]

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []
