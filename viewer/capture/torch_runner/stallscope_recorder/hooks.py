"""Where torch is watched: DataLoader fetches, outermost forward calls, backward, optimizer steps, named regions."""

from __future__ import annotations

import contextlib
import functools
import importlib
import threading
from typing import Any, Callable, Iterable, Iterator

from .ranges import Ranges, unwrapped_class_name
from .steps import StepFinder

OUTSIDE = -1
"""The number of the backward pass where there is none, and always in a torch that cannot tell."""


def _watched_call(
    original: Any, is_compiling: Any, finder: StepFinder, ranges: Ranges, inside: threading.local, hooks: Any
) -> Any:
    """A stand-in for ``nn.Module.__call__``.

    The profiler's Python tracer takes the local variable ``self`` of whatever function stands there for the
    module, so that name must be the module and nothing else. A module called inside a backward pass is a part of the
    model that is computed again, such as by activation checkpointing, and no forward pass of its own.
    """

    torch = importlib.import_module("torch")
    backward_pass = getattr(torch._C, "_current_graph_task_id", lambda: OUTSIDE)

    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_compiling() or getattr(inside, "a_module", False) or backward_pass() != OUTSIDE:
            return original(self, *args, **kwargs)
        hooks.meet(self)
        finder.forward(id(self), self.training and torch.is_grad_enabled())
        inside.a_module = True
        try:
            if hooks.calls is not None:
                return hooks.calls.forward(original, self, args, kwargs)
            with ranges.around("forward: " + unwrapped_class_name(self)):
                return original(self, *args, **kwargs)
        finally:
            inside.a_module = False

    return __call__


class Hooks:
    """Watches torch for a step finder and puts a range around each phase; ``remove`` leaves torch as it was."""

    def __init__(self, finder: StepFinder, ranges: Ranges, region: str = "") -> None:
        self._finder = finder
        self._ranges = ranges
        self._region = region
        self._undo: list[Callable[[], Any]] = []
        self._off = False
        self._original_call: Any = None
        self._outermost: set[Any] = set()
        self.roots: list[Any] = []
        self.on_new_root: Any = None
        #: makes the calls of outermost modules in the place of these hooks
        self.calls: Any = None

    def install(self) -> None:
        """Start to watch; what an old torch lacks is left out."""
        for part in (self._watch_loader, self._watch_forward, self._watch_backward, self._watch_optimizer):
            with contextlib.suppress(ImportError, AttributeError):
                part()
        if self._region:
            with contextlib.suppress(ImportError, AttributeError):
                self._watch_region()

    def remove(self) -> None:
        """Stop to watch.

        The two optimizer hooks stay and do nothing: torch may be going through them right now.
        """
        self._off = True
        while self._undo:
            self._undo.pop()()

    def _replace(self, owner: Any, name: str, new: Any) -> None:
        old = getattr(owner, name)
        setattr(owner, name, new)
        self._undo.append(lambda: setattr(owner, name, old))

    def _watch_loader(self) -> None:
        iterator_class = importlib.import_module("torch.utils.data.dataloader")._BaseDataLoaderIter
        original = iterator_class.__next__
        finder, ranges = self._finder, self._ranges

        def __next__(iterator: Any) -> Any:
            finder.fetch(id(iterator))
            try:
                if not ranges.on:
                    return original(iterator)
                with ranges.around("data"):
                    return original(iterator)
            except StopIteration:
                finder.loader_ended(id(iterator))
                raise

        self._replace(iterator_class, "__next__", __next__)

    def _watch_forward(self) -> None:
        module_class = importlib.import_module("torch.nn").Module
        original = self._original_call = module_class.__call__
        is_compiling = getattr(
            getattr(importlib.import_module("torch"), "compiler", None), "is_compiling", bool
        )
        finder, ranges, inside = self._finder, self._ranges, threading.local()
        self._replace(
            module_class, "__call__", _watched_call(original, is_compiling, finder, ranges, inside, self)
        )

    def meet(self, module: Any) -> None:
        self._outermost.add(type(module))
        if self.on_new_root is None:
            return
        for root in self.roots:
            if root is module:
                return
        self.roots.append(module)
        self.on_new_root(module)

    def spare(self, models: Iterable[Any]) -> None:
        """Call what is only ever a part of these models as if nobody watched.

        Those are classes without modules of their own, or two levels and more inside a model. A class that was
        called by itself, or that one derives from, stays watched.
        """
        owner = importlib.import_module("torch.nn").Module
        watched, original = owner.__call__, self._original_call
        for cls in {type(part) for model in models for part in _only_parts(model)}:
            if cls.__call__ is watched and not any(issubclass(each, cls) for each in self._outermost):
                cls.__call__ = original
                self._undo.append(functools.partial(delattr, cls, "__call__"))

    def _watch_backward(self) -> None:
        autograd = importlib.import_module("torch.autograd")
        original = autograd.backward
        finder, ranges = self._finder, self._ranges

        def backward(*args: Any, **kwargs: Any) -> Any:
            finder.backward()
            if not ranges.on:
                return original(*args, **kwargs)
            with ranges.around("backward"):
                return original(*args, **kwargs)

        self._replace(autograd, "backward", backward)

    def _watch_optimizer(self) -> None:
        module = importlib.import_module("torch.optim.optimizer")
        finder, ranges = self._finder, self._ranges
        original = module.Optimizer.__init__

        def __init__(optimizer: Any, *args: Any, **kwargs: Any) -> None:
            finder.optimizer_exists = True
            original(optimizer, *args, **kwargs)

        self._replace(module.Optimizer, "__init__", __init__)

        def before(optimizer: Any, args: Any, kwargs: Any) -> None:
            if ranges.on and not self._off:
                ranges.open(("optimizer", id(optimizer)), "optimizer")

        def after(optimizer: Any, args: Any, kwargs: Any) -> None:
            if not self._off:
                ranges.close(("optimizer", id(optimizer)))
                finder.optimized(id(optimizer))

        module.register_optimizer_step_pre_hook(before)
        module.register_optimizer_step_post_hook(after)

    def _watch_region(self) -> None:
        record_function = importlib.import_module("torch.autograd.profiler").record_function
        enter = record_function.__enter__
        finder, region = self._finder, self._region

        def __enter__(entered: Any) -> Any:
            if entered.name == region:
                finder.region()
            return enter(entered)

        self._replace(record_function, "__enter__", __enter__)
        with contextlib.suppress(ImportError, AttributeError):
            nvtx = importlib.import_module("torch.cuda.nvtx")
            push = nvtx.range_push

            def range_push(message: Any, *args: Any) -> Any:
                if message == region:
                    finder.region()
                return push(message, *args)

            self._replace(nvtx, "range_push", range_push)


def _only_parts(model: Any) -> Iterator[Any]:
    """The modules inside a model that nobody would call by themselves."""
    outer = {id(model), *map(id, model.children())}
    for part in model.modules():
        alone = id(part) in outer or type(part).__module__ == "torch.nn.modules.container"
        if part is not model and not (alone and any(True for _ in part.children())):
            yield part
