"""The models called under autocast, with results in single precision as a loss outside of it expects them."""

from __future__ import annotations

from typing import Any, Optional

from .catalogue import Change
from .program import Program, has_parameters_of, mapped, torch_module


def reason_against_autocast(program: Program) -> Optional[str]:
    """Why autocast makes no sense in this program."""
    torch = torch_module()
    if not program.models:
        return "no model with parameters was called"
    if "autocast" in program.seen:
        return "the program uses autocast already"
    if has_parameters_of(program, (torch.bfloat16, torch.float16)):
        return "the parameters are in half precision already"
    if not has_parameters_of(program, (torch.float32,)):
        return "no parameter is in single precision"
    return None


def put_under_autocast(change: Change, program: Program, dtype: Any) -> None:
    """Have every model compute under autocast until the change is taken back."""
    torch, device = torch_module(), program.device

    def single(tensor: Any) -> Any:
        return tensor.float() if tensor.dtype is dtype else tensor

    for model in program.models:
        inner = model.forward

        def forward(*args: Any, _inner: Any = inner, **kwargs: Any) -> Any:
            with torch.autocast(device, dtype):
                made = _inner(*args, **kwargs)
            return mapped(made, single)

        change.put(model, "forward", forward)
