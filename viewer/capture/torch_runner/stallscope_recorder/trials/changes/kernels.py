"""Other kernels for the same work: another layout of pictures, the fastest convolutions, another attention."""

from __future__ import annotations

from functools import partial
from typing import Any, List, Optional, Tuple

from ..catalogue import Change, change
from ..program import Program, mapped, torch_module
from ..sites import Edit


@change
class ChannelsLast(Change):
    """``model.to(memory_format=torch.channels_last)``, and the same for what the model is given."""

    name = "channels-last"
    title = "Use the channels_last memory format"
    settle = 3
    first_settle = 4

    def can(self, program: Program) -> Optional[str]:
        torch = torch_module()
        weights = [each.weight for each in program.modules() if isinstance(each, torch.nn.Conv2d)]
        if not weights:
            return "no model has a two-dimensional convolution"
        if program.parallel_models():
            return "DistributedDataParallel fixes the layout when it is built"
        wide = [each for each in weights if each.shape[1] > 1 and each.shape[2:].numel() > 1]
        if wide and all(each.is_contiguous(memory_format=torch.channels_last) for each in wide):
            return "the model is channels_last already"
        return None

    def edits(self, program: Program) -> Tuple[Edit, ...]:
        return (Edit("model", after="{}.to(memory_format=torch.channels_last)"),)

    def on(self, program: Program) -> None:
        torch = torch_module()
        self.undo_by(lambda: _lay_out(program, torch.contiguous_format))
        _lay_out(program, torch.channels_last)
        for model in program.models:
            inner = model.forward

            def forward(*args: Any, _inner: Any = inner, **kwargs: Any) -> Any:
                return _inner(*mapped(args, _last), **mapped(kwargs, _last))

            self.put(model, "forward", forward)


def _last(tensor: Any) -> Any:
    if tensor.dim() != 4 or not tensor.is_floating_point():
        return tensor
    return tensor.to(memory_format=torch_module().channels_last)


def _lay_out(program: Program, layout: Any) -> None:
    """Parameters, their gradients and what optimizers keep beside them; each stays the same object."""
    torch = torch_module()
    with torch.no_grad():
        for model in program.models:
            model.to(memory_format=layout)
        for parameter in program.parameters():
            if parameter.dim() != 4:
                continue
            if parameter.grad is not None:
                parameter.grad = parameter.grad.to(memory_format=layout)
            for optimizer in program.optimizers:
                kept = optimizer.state.get(parameter, {})
                for key, value in list(kept.items()):
                    if torch.is_tensor(value) and value.shape == parameter.shape:
                        kept[key] = value.to(memory_format=layout)


@change
class CudnnBenchmark(Change):
    """``torch.backends.cudnn.benchmark = True``."""

    name = "cudnn-benchmark"
    title = "Let cuDNN pick the fastest algorithms (cudnn.benchmark)"
    needs_gpu = True
    first_settle = 4

    def can(self, program: Program) -> Optional[str]:
        torch = torch_module()
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
