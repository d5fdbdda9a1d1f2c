"""The forward pass of each model recorded once and launched as one CUDA graph, with its backward pass in training."""

from __future__ import annotations

import contextlib
import importlib
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

from ..catalogue import Change, change
from ..program import Program, torch_module

WARM_CALLS = 3
"""Before recording, so that libraries have chosen their algorithms and taken their memory."""
MAX_GRAPHS = 8
"""Of one model, each with its own memory; a model whose shapes keep changing is not suited to graphs."""


@change
class CudaGraph(Change):
    """``torch.cuda.CUDAGraph`` for inference, ``torch.cuda.make_graphed_callables`` for training."""

    name = "cuda-graph"
    title = "Replay the model as a CUDA graph"
    group = "compile"
    usual = False
    needs_gpu = True
    settle = 3
    first_settle = 6

    def __init__(self) -> None:
        super().__init__()
        self._graphs: Dict[int, Dict[Any, Callable[..., Any]]] = {}

    def can(self, program: Program) -> Optional[str]:
        if not program.models:
            return "no model with parameters was called"
        return "DistributedDataParallel needs a graph of its own" if program.parallel_models() else None

    def on(self, program: Program) -> None:
        for model in program.models:
            graphs = self._graphs.setdefault(id(model), {})
            self.put(model, "forward", Graphed(program, model, graphs))


class Graphed:
    """A model's ``forward`` with a graph for each kind of call.

    What it does at each call is time that a graph written by hand doesn't take, so it is as little as is safe.
    """

    def __init__(self, program: Program, model: Any, graphs: Dict[Any, Callable[..., Any]]) -> None:
        self._program = program
        self._model = model
        self._forward = model.forward
        self._graphs = graphs
        self._tree: Any = importlib.import_module("torch.utils._pytree")
        self._backwards = -1
        self._watched = _whose_address_may_change(model)
        self._torch = torch_module()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        torch = self._torch
        if torch.cuda.is_current_stream_capturing():
            return self._forward(*args, **kwargs)
        trains = self._program.trains and torch.is_grad_enabled()
        if trains:
            if self._backwards == self._program.backwards:
                raise RuntimeError("the model is called more than once before backward")
            self._backwards = self._program.backwards
        if kwargs or not all(map(torch.is_tensor, args)):
            leaves, structure = self._tree.tree_flatten((args, kwargs))
            form = str(structure)
        else:
            leaves, structure, form = args, None, ""
        casts = torch.is_autocast_enabled() and torch.get_autocast_gpu_dtype()
        addresses = [parameter.data_ptr() for parameter in self._watched]
        kinds = [_kind(torch, leaf) for leaf in leaves]
        key = (trains, form, self._model.training, *self._settings(), casts, *addresses, *kinds)
        graph = self._graphs.get(key)
        if graph is None:
            if len(self._graphs) >= MAX_GRAPHS:
                raise RuntimeError("the model is called with too many different shapes")
            record = self._record_training if trains else self._record
            with _without_cached_casts():
                graph = self._graphs[key] = record(leaves, structure)
        return graph(*[leaf for leaf in leaves if torch.is_tensor(leaf)])

    def _settings(self) -> Tuple[Any, ...]:
        """What a graph is only good for as long as it stays."""
        torch = self._torch
        cuda = torch.backends.cuda
        return (
            torch.get_float32_matmul_precision(),
            torch.backends.cudnn.allow_tf32,
            torch.backends.cudnn.benchmark,
            cuda.flash_sdp_enabled(),
            cuda.mem_efficient_sdp_enabled(),
        )

    def _called(self, leaves: Sequence[Any], structure: Any) -> Callable[..., Any]:
        """The forward pass as a function of the tensors alone; without a ``structure`` they are its arguments."""
        torch = self._torch
        if structure is None:
            return self._forward  # type: ignore[no-any-return]

        def call(*tensors: Any) -> Any:
            given = iter(tensors)
            full = [next(given) if torch.is_tensor(leaf) else leaf for leaf in leaves]
            args, kwargs = self._tree.tree_unflatten(full, structure)
            return self._forward(*args, **kwargs)

        return call

    def _record(self, leaves: Sequence[Any], structure: Any) -> Callable[..., Any]:
        torch = self._torch
        call = self._called(leaves, structure)
        static = [leaf.detach().clone() for leaf in leaves if torch.is_tensor(leaf)]
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.no_grad():
            with torch.cuda.stream(side):
                for _ in range(WARM_CALLS):
                    call(*static)
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                answer = call(*static)
        if torch.is_tensor(answer):
            outputs, shape = [answer], None
        else:
            outputs, shape = self._tree.tree_flatten(answer)

        def replay(*tensors: Any) -> Any:
            for number, given in enumerate(tensors):
                static[number].copy_(given, non_blocking=True)
            graph.replay()
            if shape is None:
                return answer.clone()
            made = [each.clone() if torch.is_tensor(each) else each for each in outputs]
            return self._tree.tree_unflatten(made, shape)

        return replay

    def _record_training(self, leaves: Sequence[Any], structure: Any) -> Callable[..., Any]:
        torch = self._torch
        tensors = [leaf for leaf in leaves if torch.is_tensor(leaf)]
        if self._model._forward_hooks or self._model._forward_pre_hooks or self._model._backward_hooks:
            raise RuntimeError("the model has hooks")
        whole = _module_of(self._model, self._called(leaves, structure))
        samples = tuple(each.detach().clone().requires_grad_(each.requires_grad) for each in tensors)
        return torch.cuda.make_graphed_callables(whole, samples)  # type: ignore[no-any-return]


@contextlib.contextmanager
def _without_cached_casts() -> Iterator[None]:
    """Autocast converts weights inside the graph: what it keeps of them is gone when the next call begins."""
    torch = torch_module()
    before = torch.is_autocast_cache_enabled()
    torch.clear_autocast_cache()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(before)


def _module_of(model: Any, call: Callable[..., Any]) -> Any:
    """A module with the parameters of the model that calls it as a function of tensors."""
    torch = torch_module()

    class Whole(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.model = model
            self.training = model.training

        def forward(self, *tensors: Any) -> Any:
            return call(*tensors)

    return Whole()


def _kind(torch: Any, leaf: Any) -> Any:
    """What must be the same for a graph to be good for a call; fails where a tensor isn't on the GPU."""
    if not torch.is_tensor(leaf):
        hash(leaf)
        return leaf
    if not _on_gpu(leaf):
        raise RuntimeError("the model is given tensors that aren't on the GPU")
    return leaf.shape, leaf.stride(), leaf.dtype, leaf.requires_grad


def _on_gpu(tensor: Any) -> bool:
    return bool(tensor.is_cuda)


def _whose_address_may_change(model: Any) -> List[Any]:
    """A parameter, and one of those that a change of their layout moves in memory."""
    every = list(model.parameters())
    return [*every[:1], *[each for each in every if each.dim() == 4][:1]]
