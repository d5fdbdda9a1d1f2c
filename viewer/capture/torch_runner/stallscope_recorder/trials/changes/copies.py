"""Copies that the CPU does not wait for, or that go through page-locked memory."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from ..catalogue import Change, change
from ..program import LARGE_COPY, Program, torch_module
from ..sites import Edit

MIN_BYTES = 1 << 12
"""What is smaller is copied as before: it waits for no page."""
MAX_SHAPES = 32


@change
class NonBlocking(Change):
    """``tensor.to(device, non_blocking=True)`` from two staging buffers for each shape, filled in turn."""

    name = "non-blocking"
    title = "Copy to the GPU asynchronously (non_blocking)"
    needs_gpu = True

    def __init__(self) -> None:
        super().__init__()
        self._staging: Dict[Any, List[Tuple[Any, Any]]] = {}

    def can(self, program: Program) -> Optional[str]:
        return None if "copy to the GPU" in program.seen else "the steps copy nothing to the GPU"

    def edits(self, program: Program) -> Tuple[Edit, ...]:
        return Edit("copy", (("non_blocking", "True"),)), Edit("loader", (("pin_memory", "True"),))

    def on(self, program: Program) -> None:
        tensor = torch_module().Tensor
        to, cuda = tensor.to, tensor.cuda

        def to_without_waiting(self_: Any, *args: Any, **kwargs: Any) -> Any:
            if self_.device.type == "cpu" and _names_gpu(args, kwargs) and self_.nbytes >= MIN_BYTES:
                kwargs["non_blocking"] = True
                return self._copied(self_, lambda staged: to(staged, *args, **kwargs))
            return to(self_, *args, **kwargs)

        def cuda_without_waiting(self_: Any, *args: Any, **kwargs: Any) -> Any:
            if self_.device.type == "cpu" and self_.nbytes >= MIN_BYTES and len(args) < 2:
                kwargs["non_blocking"] = True
                return self._copied(self_, lambda staged: cuda(staged, *args, **kwargs))
            return cuda(self_, *args, **kwargs)

        self.put(tensor, "to", to_without_waiting)
        self.put(tensor, "cuda", cuda_without_waiting)

    def _copied(self, source: Any, copy: Any) -> Any:
        torch = torch_module()
        if source.requires_grad or source.is_pinned() or source.layout is not torch.strided:
            return copy(source)
        key = (tuple(source.shape), source.dtype)
        if key not in self._staging and len(self._staging) >= MAX_SHAPES:
            return copy(source)
        buffers = self._staging.setdefault(key, [])
        if len(buffers) < 2:
            staged, done = torch.empty(source.shape, dtype=source.dtype, pin_memory=True), torch.cuda.Event()
        else:
            staged, done = buffers.pop(0)
            done.synchronize()
        staged.copy_(source)
        made = copy(staged)
        done.record()
        buffers.append((staged, done))
        return made


def _names_gpu(args: Any, kwargs: Any) -> bool:
    """A device alone: with a type beside it, the CPU would convert first."""
    if len(args) > 1 or kwargs.get("dtype") is not None or kwargs.get("memory_format") is not None:
        return False
    wanted = args[0] if args else kwargs.get("device")
    return wanted is not None and str(wanted).startswith("cuda")


@change
class PinnedReadBacks(Change):
    """``cpu()`` and ``to("cpu")`` fill a page-locked tensor, and wait for it as before."""

    name = "pinned-read-backs"
    title = "Copy results into page-locked memory"
    needs_gpu = True

    def can(self, program: Program) -> Optional[str]:
        return (
            None if "large copy from the GPU" in program.seen else "the steps copy nothing large from the GPU"
        )

    def on(self, program: Program) -> None:
        tensor = torch_module().Tensor
        to, cpu = tensor.to, tensor.cpu

        def to_page_locked(self_: Any, *args: Any, **kwargs: Any) -> Any:
            if not kwargs and len(args) == 1 and str(args[0]) == "cpu" and _is_large(self_):
                return _page_locked(self_)
            return to(self_, *args, **kwargs)

        def cpu_page_locked(self_: Any, *args: Any, **kwargs: Any) -> Any:
            return (
                _page_locked(self_)
                if not args and not kwargs and _is_large(self_)
                else cpu(self_, *args, **kwargs)
            )

        self.put(tensor, "to", to_page_locked)
        self.put(tensor, "cpu", cpu_page_locked)


def _is_large(source: Any) -> bool:
    return (
        source.is_cuda
        and source.nbytes >= LARGE_COPY
        and source.layout is torch_module().strided
        and not (source.requires_grad and torch_module().is_grad_enabled())
    )


def _page_locked(source: Any) -> Any:
    return torch_module().empty_like(source, device="cpu", pin_memory=True).copy_(source)
