"""Other precision: the models called under autocast, and single-precision products on the tensor cores."""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Tuple

from ..catalogue import Change, change
from ..program import Program, has_parameters_of, mapped, torch_module
from ..sites import Edit


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


@change
class AutocastBf16(Change):
    """``torch.autocast(device, torch.bfloat16)`` around the model."""

    name = "autocast-bf16"
    title = "bfloat16 autocast"
    group = "precision"

    def can(self, program: Program) -> Optional[str]:
        torch = torch_module()
        if program.device == "cuda" and not torch.cuda.is_bf16_supported():
            return "this GPU doesn't support bfloat16"
        return reason_against_autocast(program)

    def edits(self, program: Program) -> Tuple[Edit, ...]:
        return (Edit("model", around='torch.autocast("{}", dtype=torch.bfloat16)'.format(program.device)),)

    def on(self, program: Program) -> None:
        put_under_autocast(self, program, torch_module().bfloat16)


@change
class AutocastFp16(Change):
    """``torch.autocast(device, torch.float16)`` with a GradScaler, whose scale is kept from block to block."""

    name = "autocast-fp16"
    title = "float16 autocast with a gradient scaler"
    group = "precision"
    usual = False

    def __init__(self) -> None:
        super().__init__()
        self._scaler: Any = None

    def can(self, program: Program) -> Optional[str]:
        if "gradient scaler" in program.seen:
            return "the program scales its gradients already"
        return reason_against_autocast(program)

    def on(self, program: Program) -> None:
        torch = torch_module()
        put_under_autocast(self, program, torch.float16)
        if not program.trains:
            return
        if self._scaler is None:
            self._scaler = _scaler_of_ours(program)
        scaler = self._scaler
        self.put(program, "scaler", scaler)
        for optimizer in program.optimizers:
            self._step_through(scaler, optimizer, program.optimizer_stepped)

    def _step_through(self, scaler: Any, optimizer: Any, stepped: Callable[[Any], None]) -> None:
        """Let the scaler make the steps; one that it leaves out, of gradients that overflowed, is a step as well."""
        inner = optimizer.step
        inside: List[bool] = []
        made_steps: List[bool] = []

        def step(*args: Any, **kwargs: Any) -> Any:
            if inside:
                made_steps.append(True)
                return inner(*args, **kwargs)
            inside.append(True)
            try:
                made = scaler.step(optimizer, *args, **kwargs)
                scaler.update()
                if not made_steps:
                    stepped(optimizer)
                return made
            finally:
                inside.clear()
                made_steps.clear()

        self.put(optimizer, "step", step)


def _scaler_of_ours(program: Program) -> Any:
    program.scaler_is_ours = True
    try:
        return torch_module().amp.GradScaler(program.device)
    finally:
        program.scaler_is_ours = False


@change
class Tf32(Change):
    """``torch.set_float32_matmul_precision("high")`` and the same for convolutions."""

    name = "tf32"
    title = "Use TF32 tensor cores"
    group = "precision"
    needs_gpu = True

    def can(self, program: Program) -> Optional[str]:
        torch = torch_module()
        if torch.cuda.get_device_capability()[0] < 8:
            return "this GPU doesn't support TF32"
        if torch.get_float32_matmul_precision() != "highest" and torch.backends.cudnn.allow_tf32:
            return "TF32 is on already"
        if program.models and not has_parameters_of(program, (torch.float32,)):
            return "no parameter is in single precision"
        return None

    def edits(self, program: Program) -> Tuple[Edit, ...]:
        return (Edit("", once='torch.set_float32_matmul_precision("high")'),)

    def on(self, program: Program) -> None:
        torch = torch_module()
        products, convolutions = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
        self.undo_by(lambda: torch.set_float32_matmul_precision(products))
        torch.set_float32_matmul_precision("high")
        self.undo_by(lambda: setattr(torch.backends.cudnn, "allow_tf32", convolutions))
        torch.backends.cudnn.allow_tf32 = True

    def is_made(self, program: Program) -> bool:
        return bool(torch_module().get_float32_matmul_precision() == "high")
