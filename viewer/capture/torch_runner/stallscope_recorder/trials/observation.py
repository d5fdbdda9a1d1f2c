"""What the script does with torch, seen from below the recorder's own hooks: batches, losses, read-backs."""

from __future__ import annotations

import contextlib
import importlib
import sys
from typing import Any, Callable, List, Tuple

from .known_calls import COLLECTIVES, LOGGING, READERS, found, is_read_by_script
from .program import LARGE_COPY, MAX_LOSSES, Program, elements_of, torch_module

MAX_REPEATS = 1000
"""Of batches in one step, of a loader without a length; then it is asked in truth, so that a loop over it ends."""


class Observation:
    """Tells a Program what happens. ``install`` comes before the recorder's hooks, which lie around it.

    What only says whether something happens at all (read-backs, logging) is watched until ``stop_looking``, so that
    no timed step pays for it.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._looking: List[Callable[[], Any]] = []
        self.guard: Any = None

    def install(self) -> None:
        for part in (
            self._watch_batches,
            self._watch_backward,
            self._watch_optimizers,
            self._watch_parallel,
            self._watch_scaler,
        ):
            with contextlib.suppress(ImportError, AttributeError):
                part()

    def look(self) -> None:
        """Watch what tells which changes make sense; calls of libraries that the script has loaded by now."""
        torch, saw = torch_module(), self._program.seen.add
        functional = importlib.import_module("torch.nn.functional")
        self._note(functional, "scaled_dot_product_attention", lambda *_: saw("attention"))
        for name in READERS:
            self._note(torch.Tensor, name, self._see_read_back)
        for name in ("to", "cuda"):
            self._note(torch.Tensor, name, lambda tensor, *args: self._see_copy(tensor, args))
        for owner in (torch.optim.Optimizer, torch.nn.Module):
            self._note(owner, "zero_grad", self._see_zero_grad)
        for mark, calls in (("logging", LOGGING), ("collective", COLLECTIVES)):
            for owner, name in found(calls):
                self._note(owner, name, lambda *_, mark=mark: saw(mark))
        with contextlib.suppress(ImportError, AttributeError):
            parallel = importlib.import_module("torch.nn.parallel").DistributedDataParallel
            self._note(parallel, "no_sync", lambda *_: saw("no_sync"))

    def stop_looking(self) -> None:
        while self._looking:
            self._looking.pop()()

    def forward(self, original: Any, module: Any, args: Tuple[Any, ...], kwargs: Any) -> Any:
        program = self._program
        program.meet_model(module)
        if self._looking:
            program.note_site("model")
            self._see_forward(torch_module(), module)
        if not program.fetches:
            for each in args:
                program.elements += elements_of(each)
            if kwargs:
                program.elements += elements_of(kwargs)
        guard = self.guard
        if guard is None or not guard.is_needed():
            return original(module, *args, **kwargs)
        return guard.run(lambda: original(module, *args, **kwargs))

    def _see_forward(self, torch: Any, module: Any) -> None:
        saw = self._program.seen.add
        if torch.is_autocast_enabled() or getattr(torch, "is_autocast_cpu_enabled", bool)():
            saw("autocast")
        if torch.is_inference_mode_enabled():
            saw("inference mode")
        if not module.training:
            saw("evaluation")

    def _see_read_back(self, tensor: Any, *args: Any) -> None:
        if is_read_by_script(sys._getframe(2)) and (tensor.is_cuda or self._program.device != "cuda"):
            self._program.seen.add("read-back")
            self._see_copy(tensor, ("cpu",))

    def _see_copy(self, tensor: Any, args: Tuple[Any, ...]) -> None:
        wanted = str(args[0]) if args else "cuda"
        if tensor.device.type == "cpu" and wanted.startswith("cuda"):
            self._program.seen.add("copy to the GPU")
            self._program.note_site("copy")
        elif tensor.is_cuda and wanted == "cpu" and tensor.nbytes >= LARGE_COPY:
            self._program.seen.add("large copy from the GPU")

    def _see_zero_grad(self, owner: Any, *args: Any, **kwargs: Any) -> None:
        if not kwargs.get("set_to_none", args[0] if args else True):
            self._program.seen.add("zeroed gradients")
            self._program.note_site("zero_grad")

    def _note(self, owner: Any, name: str, see: Callable[..., Any]) -> None:
        original = getattr(owner, name, None)
        if original is None:
            return
        compiling = getattr(getattr(torch_module(), "compiler", None), "is_compiling", bool)

        def noted(*args: Any, **kwargs: Any) -> Any:
            if not compiling():
                with contextlib.suppress(Exception):
                    see(*args, **(kwargs if name == "zero_grad" else {}))
            return original(*args, **kwargs)

        own = name in vars(owner)
        setattr(owner, name, noted)
        self._looking.append(
            (lambda: setattr(owner, name, original)) if own else (lambda: delattr(owner, name))
        )

    def _watch_batches(self) -> None:
        data: Any = importlib.import_module("torch.utils.data.dataloader")
        fetch = data._BaseDataLoaderIter.__next__
        program = self._program

        def __next__(iterator: Any) -> Any:
            key = id(getattr(iterator, "_dataset", None))
            if program.repeats_batch and key in program.batches and _may_repeat(iterator, program):
                batch = program.batches[key]
            else:
                batch = fetch(iterator)
                program.fetches += 1
                if program.keeps_batches:
                    program.batches[key] = batch
            program.elements += elements_of(batch)
            return batch

        data._BaseDataLoaderIter.__next__ = __next__
        make = data.DataLoader.__init__

        def __init__(loader: Any, *args: Any, **kwargs: Any) -> None:
            make(loader, *args, **kwargs)
            program.loaders.append(loader)
            program.note_site("loader", type(loader).__name__)

        __init__.__wrapped__ = make  # type: ignore[attr-defined]
        data.DataLoader.__init__ = __init__

    def _watch_backward(self) -> None:
        autograd: Any = importlib.import_module("torch.autograd")
        original = autograd.backward
        program = self._program

        def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            program.backwards += 1
            program.backwards_in_step += 1
            self._keep_loss(tensors)
            scaler = program.scaler
            if scaler is not None:
                tensors = scaler.scale(tensors)

            guard = self.guard
            if guard is None or not guard.is_needed():
                made = original(tensors, *args, **kwargs)
            else:
                made = guard.run_backward(lambda: original(tensors, *args, **kwargs))
            if scaler is not None and scaler is program.scaler and program.backwards_per_step <= 1:
                for optimizer in program.optimizers:
                    with contextlib.suppress(RuntimeError):
                        scaler.unscale_(optimizer)
            return made

        autograd.backward = backward

    def _keep_loss(self, tensors: Any) -> None:
        program = self._program
        if len(program.losses) >= min(program.wanted_losses, MAX_LOSSES):
            return
        loss = tensors if torch_module().is_tensor(tensors) else next(iter(tensors), None)
        if loss is not None and loss.numel() == 1:
            program.losses.append(loss.detach().clone())

    def _watch_optimizers(self) -> None:
        module: Any = importlib.import_module("torch.optim.optimizer")
        program, make = self._program, module.Optimizer.__init__
        module.register_optimizer_step_post_hook(
            lambda optimizer, args, kwargs: program.meet_optimizer(optimizer)
        )

        def __init__(optimizer: Any, *args: Any, **kwargs: Any) -> None:
            make(optimizer, *args, **kwargs)
            program.note_site("optimizer", type(optimizer).__name__)

        module.Optimizer.__init__ = __init__

    def _watch_parallel(self) -> None:
        parallel: Any = importlib.import_module("torch.nn.parallel").DistributedDataParallel
        program, make = self._program, parallel.__init__

        def __init__(model: Any, *args: Any, **kwargs: Any) -> None:
            make(model, *args, **kwargs)
            program.note_site("ddp", type(model).__name__)

        __init__.__wrapped__ = make  # type: ignore[attr-defined]
        parallel.__init__ = __init__

    def _watch_scaler(self) -> None:
        amp: Any = sys.modules.get("torch.amp.grad_scaler") or importlib.import_module(
            "torch.cuda.amp.grad_scaler"
        )
        original, program = amp.GradScaler.__init__, self._program

        def __init__(scaler: Any, *args: Any, **kwargs: Any) -> None:
            if not program.scaler_is_ours:
                program.seen.add("gradient scaler")
            original(scaler, *args, **kwargs)

        amp.GradScaler.__init__ = __init__


def _may_repeat(iterator: Any, program: Program) -> bool:
    """Whether one more batch can be given again: an epoch has as many as ever, and one without an end is bounded.

    Raises ``StopIteration`` at the end of an epoch.
    """
    given = getattr(iterator, "_num_yielded", 0)
    try:
        batches = len(iterator)
    except TypeError:
        program.repeats_in_step += 1
        return program.repeats_in_step <= MAX_REPEATS
    if given >= batches:
        raise StopIteration
    iterator._num_yielded = given + 1
    return True
