"""Large copies from the GPU into page-locked memory, which the GPU writes without a detour."""

from __future__ import annotations

from typing import Any, Optional

from ..catalogue import Change, change
from ..program import LARGE_COPY, NO_GPU, Program, torch_module


@change
class PinnedReadBacks(Change):
    """``cpu()`` and ``to("cpu")`` fill a page-locked tensor, and wait for it as before."""

    name = "pinned-read-backs"
    title = "Copy results into page-locked memory"

    def can(self, program: Program) -> Optional[str]:
        if program.device != "cuda":
            return NO_GPU
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
