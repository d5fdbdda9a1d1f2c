"""The script's DistributedDataParallel and DataLoaders made with other arguments."""

from __future__ import annotations

import importlib
import inspect
from typing import Any, Callable, Dict, List, Optional, Tuple

from ..catalogue import START, Change, change
from ..program import Program, cores_of_rank
from ..sites import Edit


class Construction(Change):
    """A start that changes keyword arguments of a class of torch."""

    level = START
    usual = False
    #: where the class is found, what its calls are called where the script is edited, and what is said without any
    module = ""
    class_name = ""
    site = ""
    missing = ""
    #: the argument that is set, and what is then not
    flag = ""
    instead_of: Tuple[str, ...] = ()

    def objects(self, program: Program) -> List[Any]:
        raise NotImplementedError

    def can(self, program: Program) -> Optional[str]:
        objects = self.objects(program)
        if not objects:
            return self.missing
        reasons = [self.reason_against(each) for each in objects]
        return next((reason for reason in reasons if reason), None) if all(reasons) else None

    def reason_against(self, made: Any) -> Optional[str]:
        """Why it makes no sense for one object."""
        return (
            "{} is already set".format(self.flag) if self.flag and getattr(made, self.flag, False) else None
        )

    def edits(self, program: Program) -> Tuple[Edit, ...]:
        return (Edit(self.site, ((self.flag, "True"),), self.instead_of),) if self.flag else ()

    def changed(self, arguments: Dict[str, Any]) -> None:
        """Change the arguments, which are named as the constructor names them."""
        arguments.update({self.flag: True, **dict.fromkeys(self.instead_of, False)})

    def on(self, program: Program) -> None:
        owner = getattr(importlib.import_module(self.module), self.class_name)
        self.put(owner, "__init__", with_arguments(owner.__init__, self.changed))


def with_arguments(original: Callable[..., Any], change: Callable[[Dict[str, Any]], None]) -> Any:
    """The same constructor, called with what ``change`` makes of its arguments."""
    signature = inspect.signature(original)

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            bound = signature.bind(self, *args, **kwargs)
        except TypeError:
            original(self, *args, **kwargs)
            return
        named = dict(bound.arguments)
        named.pop(next(iter(signature.parameters)), None)
        for name, parameter in signature.parameters.items():
            if parameter.kind is parameter.VAR_KEYWORD:
                named.update(named.pop(name, {}))
        change(named)
        original(self, **named)

    __init__.__signature__ = signature  # type: ignore[attr-defined]
    return __init__


class DdpStart(Construction):
    """A start that changes arguments of every ``torch.nn.parallel.DistributedDataParallel``."""

    module = "torch.nn.parallel"
    class_name = "DistributedDataParallel"
    site = "ddp"
    missing = "no model is in DistributedDataParallel"
    ceiling = "no-collectives"

    def objects(self, program: Program) -> List[Any]:
        return program.parallel_models()


BUCKET_TIMES = 4
USUAL_MB = 25.0


@change
class DdpBucketSize(DdpStart):
    """``DistributedDataParallel(bucket_cap_mb=...)``, four times what it is, and at least as large as usual."""

    name = "ddp-bucket-size"
    title = "Use larger gradient buckets (bucket_cap_mb)"

    def changed(self, arguments: Dict[str, Any]) -> None:
        arguments["bucket_cap_mb"] = max(
            BUCKET_TIMES * float(arguments.get("bucket_cap_mb") or USUAL_MB), USUAL_MB
        )


@change
class DdpBucketView(DdpStart):
    """``DistributedDataParallel(gradient_as_bucket_view=True)``."""

    name = "gradient-as-bucket-view"
    title = "Let gradients share memory with their buckets (gradient_as_bucket_view)"
    flag = "gradient_as_bucket_view"


@change
class DdpStaticGraph(DdpStart):
    """``DistributedDataParallel(static_graph=True)``."""

    name = "static-graph"
    title = "Declare the graph static (static_graph)"
    flag = "static_graph"
    instead_of = ("find_unused_parameters",)


MAX_WORKERS = 8


class LoaderStart(Construction):
    """A start that changes arguments of every ``torch.utils.data.DataLoader``."""

    module = "torch.utils.data"
    class_name = "DataLoader"
    site = "loader"
    missing = "it uses no DataLoader"
    ceiling = "same-batch"

    def objects(self, program: Program) -> List[Any]:
        return program.loaders


def workers_wanted() -> int:
    """This rank's share of the cores, at most ``MAX_WORKERS``."""
    return min(MAX_WORKERS, cores_of_rank())


def has_workers(arguments: Dict[str, Any]) -> bool:
    """Whether a loader with these arguments makes its batches in other processes."""
    return int(arguments.get("num_workers") or 0) > 0


@change
class NumWorkers(LoaderStart):
    """``DataLoader(num_workers=...)``: a worker for each core, or twice as many as there are."""

    name = "num-workers"
    title = "Use more DataLoader workers"

    def reason_against(self, made: Any) -> Optional[str]:
        if isinstance(made.dataset, importlib.import_module(self.module).IterableDataset):
            return "every worker of an IterableDataset would yield all of its samples"
        return None

    def edits(self, program: Program) -> Tuple[Edit, ...]:
        more = [_more(loader.num_workers) for loader in program.loaders]
        return (Edit("loader", (("num_workers", str(max(more))),)),) if more else ()

    def changed(self, arguments: Dict[str, Any]) -> None:
        dataset = arguments.get("dataset")
        if hasattr(type(dataset), "__getitem__"):
            arguments["num_workers"] = _more(int(arguments.get("num_workers") or 0))


def _more(now: int) -> int:
    return workers_wanted() if now < workers_wanted() else 2 * now


@change
class PersistentWorkers(LoaderStart):
    """``DataLoader(persistent_workers=True)``."""

    name = "persistent-workers"
    title = "Keep DataLoader workers alive between epochs (persistent_workers)"
    flag = "persistent_workers"

    def reason_against(self, made: Any) -> Optional[str]:
        return super().reason_against(made) if made.num_workers else "the DataLoader has no workers"

    def changed(self, arguments: Dict[str, Any]) -> None:
        if has_workers(arguments):
            super().changed(arguments)


@change
class PinMemory(LoaderStart):
    """``DataLoader(pin_memory=True)``."""

    name = "pin-memory"
    title = "Load batches into pinned memory (pin_memory)"
    flag = "pin_memory"
    needs_gpu = True


PREFETCH_TIMES = 4


@change
class PrefetchFactor(LoaderStart):
    """``DataLoader(prefetch_factor=...)``, four times what it is."""

    name = "prefetch-factor"
    title = "Prefetch more batches per worker (prefetch_factor)"

    def reason_against(self, made: Any) -> Optional[str]:
        return None if made.num_workers else "the DataLoader has no workers"

    def edits(self, program: Program) -> Tuple[Edit, ...]:
        more = [
            PREFETCH_TIMES * int(loader.prefetch_factor or 2)
            for loader in program.loaders
            if loader.num_workers
        ]
        return (Edit("loader", (("prefetch_factor", str(max(more))),)),) if more else ()

    def changed(self, arguments: Dict[str, Any]) -> None:
        if has_workers(arguments):
            arguments["prefetch_factor"] = PREFETCH_TIMES * int(arguments.get("prefetch_factor") or 2)
