"""What no setting can mend, taken away to see what that would give at most."""

from __future__ import annotations

import sys
from typing import Any, Dict, List, Optional

from ..catalogue import CEILING, Change, change
from ..known_calls import COLLECTIVES, LOGGING, READERS, found, is_read_by_script
from ..program import Program, batches_in_store, mapped, torch_module


class Done:
    """What an exchange that never began hands back to those who wait for it."""

    def wait(self, *args: Any, **kwargs: Any) -> bool:
        return True

    def is_completed(self) -> bool:
        return True


@change
class NoCollectives(Change):
    """DistributedDataParallel exchanges no gradients, and the calls of torch.distributed do nothing."""

    name = "no-collectives"
    title = "Communication takes no time"
    level = CEILING

    def can(self, program: Program) -> Optional[str]:
        if program.parallel_models() or "collective" in program.seen:
            return None
        return "the ranks don't communicate" if program.ranks > 1 else "there is only one rank"

    def on(self, program: Program) -> None:
        for model in program.parallel_models():
            self.put(model, "require_backward_grad_sync", False)

        def nothing(*args: Any, **kwargs: Any) -> Any:
            return Done() if kwargs.get("async_op") else None

        for owner, name in found(COLLECTIVES):
            self.put(owner, name, nothing)


@change
class NoEvaluation(Change):
    """A model that is called in ``eval()`` while the program trains computes once for each shape."""

    name = "no-evaluation"
    title = "Evaluation takes no time"
    level = CEILING

    def __init__(self) -> None:
        super().__init__()
        self._known: Dict[Any, Any] = {}

    def can(self, program: Program) -> Optional[str]:
        if not program.trains:
            return "the program does not train"
        return None if "evaluation" in program.seen else "no model is in evaluation mode"

    def on(self, program: Program) -> None:
        for model in program.models:
            inner = model.forward

            def forward(*args: Any, _inner: Any = inner, _model: Any = model, **kwargs: Any) -> Any:
                if _model.training:
                    return _inner(*args, **kwargs)
                shapes: List[Any] = []
                mapped([args, kwargs], lambda tensor: shapes.append(tuple(tensor.shape)))
                key = (id(_model), tuple(shapes))
                if key not in self._known:
                    self._known[key] = _inner(*args, **kwargs)
                return self._known[key]

            self.put(model, "forward", forward)

    def off(self, program: Program) -> None:
        self._known.clear()
        super().off(program)


@change
class NoLogging(Change):
    """``torch.save``, TensorBoard, Weights & Biases and MLflow do nothing."""

    name = "no-logging"
    title = "Logging and checkpoints take no time"
    level = CEILING

    def can(self, program: Program) -> Optional[str]:
        return None if "logging" in program.seen else "it logs and saves nothing in its steps"

    def on(self, program: Program) -> None:
        def nothing(*args: Any, **kwargs: Any) -> None:
            return None

        for owner, name in found(LOGGING):
            self.put(owner, name, nothing)


@change
class NoOptimizer(Change):
    """``optimizer.step()`` updates nothing."""

    name = "no-optimizer"
    title = "The optimizer takes no time"
    level = CEILING

    def can(self, program: Program) -> Optional[str]:
        return None if program.optimizers else "no optimizer stepped"

    def on(self, program: Program) -> None:
        for optimizer in program.optimizers:

            def step(closure: Any = None, *args: Any, _optimizer: Any = optimizer, **kwargs: Any) -> Any:
                made = closure() if callable(closure) else None
                program.optimizer_stepped(_optimizer)
                return made

            self.put(optimizer, "step", step)


MAX_ANSWERS = 1000
"""So often in one step a place is answered; then it is read in truth, so that a loop that waits for a value ends."""


@change
class NoReadBacks(Change):
    """``item()``, ``float()``, ``cpu()`` and their like do not wait for the GPU."""

    name = "no-read-backs"
    title = "Reading values back takes no time"
    level = CEILING

    def __init__(self) -> None:
        super().__init__()
        self._last: Dict[Any, Any] = {}
        self._answers: Dict[Any, int] = {}

    def can(self, program: Program) -> Optional[str]:
        return None if "read-back" in program.seen else "it reads no values from tensors"

    def on(self, program: Program) -> None:
        on_gpu = program.device == "cuda"
        tensor = torch_module().Tensor
        for name in READERS:
            if on_gpu or name != "cpu":
                self.put(tensor, name, self._answered(name, getattr(tensor, name), on_gpu))

    def at_step(self, program: Program) -> None:
        self._answers.clear()

    def _answered(self, name: str, read: Any, on_gpu: bool) -> Any:
        last, answers = self._last, self._answers

        def answer(self: Any, *args: Any, **kwargs: Any) -> Any:
            if (on_gpu and not self.is_cuda) or args or kwargs or (name == "cpu" and self.requires_grad):
                return read(self, *args, **kwargs)
            frame = sys._getframe(1)
            if not is_read_by_script(frame):
                return read(self)
            key = (frame.f_code, frame.f_lineno, name, self.shape if name in ("cpu", "tolist") else None)
            answers[key] = answers.get(key, 0) + 1
            if key not in last or answers[key] > MAX_ANSWERS:
                last[key] = read(self)
            return last[key]

        return answer


MAX_SETTLE = 128
"""Steps; more would take longer than they are worth."""


@change
class SameBatch(Change):
    """Every DataLoader gives its last batch again."""

    name = "same-batch"
    title = "Data loading takes no time"
    level = CEILING

    def can(self, program: Program) -> Optional[str]:
        return None if program.fetches else "it uses no DataLoader"

    def on(self, program: Program) -> None:
        self.put(program, "repeats_batch", True)

    def settle_after(self, program: Program) -> int:
        """The workers went on meanwhile: what they have in store is no sign of how fast they are."""
        stored = max(map(batches_in_store, program.loaders), default=0)
        return max(super().settle_after(program), min(stored + 1, MAX_SETTLE))
