"""What the name of a region tells: a step, a data loader, the framework's own range, or the user's code."""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache

import numpy as np

from parsers.model import U8, EventKind, Trace
from parsers.model.late import regex
from parsers.model.names.collectives import is_communication_range
from parsers.model.names.steps import engine_step, numbered, says_step


class RegionRole(IntEnum):
    """What a record_function or NVTX range stands for."""

    USER = 0
    STEP = 1
    INPUT = 2
    FRAMEWORK = 3
    COMMUNICATION = 4


_LOADER = regex(
    r"enumerate\(DataLoader\)|_?DataLoaderIter|dataloader.*__next__|IterDataPipe|_MapDataset|"
    r"^(Iterator(FromStringHandle)?GetNext|Reader(Read|ReadUpTo)|Queue(Dequeue|DequeueMany|DequeueUpTo))(V\d|Sync)?$",
    re.IGNORECASE,
)
# Whole words of a region's name that speak of feeding data; "load_state", "download" or "database" do not match.
_INPUT_WORDS = regex(
    r"(?<![a-z])(data|dataset|dataload(er|ing)?|loader|(get|next|fetch|load|read|prepare|"
    r"make|build|assemble|collect|create|wait)[_ ]?((for|next|the)[_ ]?)?"
    r"(data|batch|batches|input|inputs|sample|samples|image|images|example|examples)|"
    r"load|loading|input|inputs|fetch|fetching|prefetch|preprocess|preprocessing|pre_process\w*|preproc|"
    r"augment|augmentation|augmentations|collate|decode_(image|images|jpeg|video|audio)|read_(file|files|images)|"
    r"next_?batch|batch_?load\w*|batch_prep\w*|dataprep|data_?wait|ingest)(?![a-z])",
    re.IGNORECASE,
)
_NOT_INPUT = regex(
    r"((?<![a-z])(layers?|layer_?norm|experts?|kv)|to[_( ]?(device|gpu|cuda)|transfer|copy|h2d|d2h|upload|state|"
    r"checkpoint|weights?|model|params?|module|kernel|parallel|gradients?|ckpt)(?![a-z])",
    re.IGNORECASE,
)
_FRAMEWORK = regex(
    r"^(Optimizer\.(step|zero_grad)#|DistributedDataParallel\.|FSDP::|FullyShardedDataParallel|DDP|"
    r"torch/|torch\.|Torch-Compiled|##? ?Call |PyTorch|autograd::|aten::|async_compile|compile_fx|inductor|dynamo|"
    r"triton|pass\.|_?Torch|nn\.Module|## |cub::|thrust::|rocprim::|cublas[A-Z]|cudnn[A-Z]|TensorRT:)|"
    r"\.<locals>|_data: compile_id|compile_id="
)


# A range or frame while Python collects its garbage: torch's profiler and this program's recorder write "Python GC".
_COLLECTION = regex(
    r"^(Python GC|gc\.collect|<built-in (function|method) (gc\.)?collect\b.*|garbage[ _]collect\w*)$",
    re.IGNORECASE,
)


def is_optimizer_step(name: str) -> bool:
    """Whether PyTorch marks a step of an optimizer so."""
    return name.startswith("Optimizer.step")


MIN_COUNTED = 2
_PARTS = regex(
    r"layer|block|module|stage|head|bucket|expert|conv|attn|attention|mlp|level|rank|worker", re.IGNORECASE
)


@lru_cache(maxsize=65536)
def is_loader(name: str) -> bool:
    """Whether a range is a data loader's own."""
    return _LOADER.search(name) is not None


def is_collection(name: str) -> bool:
    """Whether a range or frame is a collection of Python's garbage."""
    return _COLLECTION.match(name) is not None


def is_input(name: str) -> bool:
    """Whether a range's name says that data is being fetched or prepared."""
    if _LOADER.search(name):
        return True
    return bool(_INPUT_WORDS.search(name)) and not _NOT_INPUT.search(name)


@lru_cache(maxsize=65536)
def role_of(name: str) -> RegionRole:
    """The role of a region by its name."""
    if _LOADER.search(name):
        return RegionRole.INPUT
    if is_communication_range(name):
        return RegionRole.COMMUNICATION
    if _FRAMEWORK.search(name):
        return RegionRole.FRAMEWORK
    if says_step(name) or engine_step(name):
        return RegionRole.STEP
    if is_input(name):
        return RegionRole.INPUT
    return RegionRole.USER


def roles_of(trace: Trace) -> U8:
    """``RegionRole`` for each string of the trace; USER for strings that name no region.

    Numbered names of one stem that occur once each, such as "decode_5" and "decode_6", count steps.
    """
    table = np.zeros(len(trace.strings), np.uint8)
    regions = trace.events.of_kind(EventKind.REGION, EventKind.STEP)
    lane_and_name = trace.events.lane[regions].astype(np.int64) << 32 | trace.events.name[regions]
    found, counts = np.unique(lane_and_name, return_counts=True)
    most: dict[int, int] = {}
    for key, count in zip(found.tolist(), counts.tolist(), strict=True):
        name = key & 0xFFFFFFFF
        most[name] = max(most.get(name, 0), count)
    stems: dict[str, list[int]] = {}
    for name, count in most.items():
        table[name] = role_of(trace.strings[name])
        parts = numbered(trace.strings[name])
        if (
            count == 1
            and parts is not None
            and table[name] == RegionRole.USER
            and not _PARTS.search(parts[0])
        ):
            stems.setdefault(parts[0], []).append(name)
    for names in stems.values():
        if len(names) >= MIN_COUNTED:
            table[names] = RegionRole.STEP
    return table
