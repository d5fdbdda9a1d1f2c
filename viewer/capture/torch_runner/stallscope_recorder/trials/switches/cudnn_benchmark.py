"""The fastest algorithm of each convolution, found by trying them."""

from __future__ import annotations

from typing import Optional, Tuple

from ..catalogue import Change, change
from ..program import NO_GPU, Program, torch_module
from ..sites import Edit


@change
class CudnnBenchmark(Change):
    """``torch.backends.cudnn.benchmark = True``."""

    name = "cudnn-benchmark"
    title = "Let cuDNN pick the fastest algorithms (cudnn.benchmark)"
    first_settle = 4

    def can(self, program: Program) -> Optional[str]:
        torch = torch_module()
        if program.device != "cuda":
            return NO_GPU
        if torch.backends.cudnn.benchmark:
            return "cudnn.benchmark is on already"
        convolution = torch.nn.modules.conv._ConvNd
        if not any(isinstance(each, convolution) for each in program.modules()):
            return "no model has a convolution"
        return None

    def edits(self, program: Program) -> Tuple[Edit, ...]:
        return (Edit("", once="torch.backends.cudnn.benchmark = True"),)

    def on(self, program: Program) -> None:
        backend = torch_module().backends.cudnn
        before = backend.benchmark
        self.undo_by(lambda: setattr(backend, "benchmark", before))
        backend.benchmark = True

    def is_made(self, program: Program) -> bool:
        return bool(torch_module().backends.cudnn.benchmark)
