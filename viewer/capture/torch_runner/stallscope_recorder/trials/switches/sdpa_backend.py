"""Attention by any of torch's kernels, cuDNN's first."""

from __future__ import annotations

from functools import partial
from typing import Any, List, Optional, Tuple

from ..catalogue import Change, change
from ..program import Program, torch_module

_KINDS = ("flash", "mem_efficient", "math", "cudnn")


@change
class SdpaBackend(Change):
    """Every backend of ``scaled_dot_product_attention`` enabled, and cuDNN's asked first where torch can order them."""

    name = "sdpa-backend"
    title = "Allow every attention kernel, cuDNN first"

    def can(self, program: Program) -> Optional[str]:
        if program.models and "attention" not in program.seen:
            return "scaled_dot_product_attention is not called"
        if program.device != "cuda" and all(enabled() for enabled, _ in _backends()):
            return "every kernel for attention is allowed already"
        return None

    def on(self, program: Program) -> None:
        for enabled, enable in _backends():
            before = enabled()
            self.undo_by(partial(enable, before))
            enable(True)
        core = torch_module()._C
        if program.device == "cuda" and hasattr(core, "_set_sdp_priority_order"):
            order = list(core._get_sdp_priority_order())
            cudnn = int(core._SDPBackend.CUDNN_ATTENTION)
            self.undo_by(lambda: core._set_sdp_priority_order(order))
            core._set_sdp_priority_order([cudnn, *(each for each in order if each != cudnn)])


def _backends() -> List[Tuple[Any, Any]]:
    backend = torch_module().backends.cuda
    return [
        (getattr(backend, kind + "_sdp_enabled"), getattr(backend, "enable_" + kind + "_sdp"))
        for kind in _KINDS
        if hasattr(backend, kind + "_sdp_enabled")
    ]
