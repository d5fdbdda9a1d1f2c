"""What is known of the script while it runs: its models, optimizers, loaders, losses, and what it does in a step."""

from __future__ import annotations

import importlib
import os
from typing import Any, Callable, Dict, List, Set, Tuple

from ..machine import cores
from .sites import MAX_SITES, Site, site_of

MAX_LOSSES = 1000


def torch_module() -> Any:
    """The script's own torch."""
    return importlib.import_module("torch")


def cores_of_rank() -> int:
    """This rank's share of the cores."""
    return max(1, cores() // max(1, int(os.environ.get("LOCAL_WORLD_SIZE") or 1)))


class Program:
    """Filled by the observation; read and steered by the changes."""

    def __init__(self) -> None:
        self.models: List[Any] = []
        self.optimizers: List[Any] = []
        self.loaders: List[Any] = []
        self.backwards = 0
        self.backwards_in_step = 0
        self.backwards_per_step = 0
        self.elements = 0
        self.seen: Set[str] = set()
        self.sites: Dict[Site, None] = {}
        self.fetches = 0
        self.keeps_batches = True
        self.batches: Dict[int, Any] = {}
        self.repeats_batch = False
        self.repeats_in_step = 0
        self.scaler: Any = None
        self.scaler_is_ours = False
        self.losses: List[Any] = []
        self.wanted_losses = 0
        self.optimizer_stepped: Callable[[Any], None] = lambda optimizer: None

    @property
    def ranks(self) -> int:
        """How many processes train together."""
        distributed = torch_module().distributed
        if distributed.is_available() and distributed.is_initialized():
            return int(distributed.get_world_size())
        return 1

    @property
    def uses_gpu(self) -> bool:
        """Whether the script has touched a GPU; asking for one itself would start CUDA in a program of the CPU."""
        return bool(torch_module().cuda.is_initialized())

    @property
    def device(self) -> str:
        """Where the models are: ``cuda`` or ``cpu``."""
        for model in self.models:
            for parameter in model.parameters():
                return str(parameter.device.type)
        return "cuda" if self.uses_gpu else "cpu"

    @property
    def trains(self) -> bool:
        return bool(self.optimizers) or self.backwards > 0

    def note_site(self, what: str, called: str = "") -> None:
        """Remember which line of the user's code is behind the call that goes on."""
        if len(self.sites) < MAX_SITES:
            site = site_of(what, called)
            if site is not None:
                self.sites[site] = None

    def meet_model(self, module: Any) -> None:
        for known in self.models:
            if known is module:
                return
        if any(True for _ in module.parameters()):
            self.models.append(module)

    def meet_optimizer(self, optimizer: Any) -> None:
        if optimizer not in self.optimizers:
            self.optimizers.append(optimizer)

    def step_begins(self) -> None:
        """A step has ended, and the next begins."""
        if self.backwards_in_step:
            self.backwards_per_step = self.backwards_in_step
        self.backwards_in_step = 0
        self.repeats_in_step = 0

    def parallel_models(self) -> List[Any]:
        kind = torch_module().nn.parallel.DistributedDataParallel
        return [each for model in self.models for each in model.modules() if isinstance(each, kind)]

    def modules(self) -> List[Any]:
        return [each for model in self.models for each in model.modules()]

    @property
    def layers(self) -> int:
        """How many modules without others inside the models have."""
        return sum(1 for each in self.modules() if not any(True for _ in each.children()))

    def parameters(self) -> List[Any]:
        return [each for model in self.models for each in model.parameters()]


def workers_of(loader: Any) -> int:
    """How many processes make the batches of a loader."""
    return int(getattr(loader, "num_workers", 0) or 0)


def batches_in_store(loader: Any) -> int:
    """How many batches the workers of a loader make ahead."""
    return workers_of(loader) * int(getattr(loader, "prefetch_factor", 0) or 0)


def elements_of(value: Any) -> int:
    """How many numbers the tensors in a batch hold."""
    count = getattr(value, "numel", None)
    if count is not None:
        try:
            return int(count())
        except Exception:
            return 0
    if isinstance(value, (list, tuple)):
        return sum(map(elements_of, value))
    return sum(map(elements_of, value.values())) if isinstance(value, dict) else 0


def has_parameters_of(program: Program, dtypes: Tuple[Any, ...]) -> bool:
    """Whether any parameter of the models is of one of these types."""
    return any(each.dtype in dtypes for each in program.parameters())


def mapped(value: Any, convert: Callable[[Any], Any]) -> Any:
    """The same structure of tuples, lists and dictionaries with every tensor converted."""
    if torch_module().is_tensor(value):
        return convert(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(mapped(each, convert) for each in value))
    if isinstance(value, (list, tuple)):
        return type(value)(mapped(each, convert) for each in value)
    if isinstance(value, dict):
        made = {key: mapped(each, convert) for key, each in value.items()}
        return made if type(value) is dict else _like(value, made)
    return value


def _like(value: Any, made: Any) -> Any:
    """A copy of a dictionary of another class (the outputs of many model libraries) with other values."""
    import copy

    new = copy.copy(value)
    for key, each in made.items():
        new[key] = each
    return new


LARGE_COPY = 1 << 20
"""Bytes from the GPU in one copy, from which page-locked memory is worth its allocation."""
