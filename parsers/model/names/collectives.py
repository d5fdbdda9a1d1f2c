"""Which kernel names are collectives, and which collective: NCCL, RCCL, NVSHMEM, DeepEP, XLA's, custom all-reduces."""

from __future__ import annotations

import re
from functools import lru_cache

from parsers.model.late import regex

UNFINISHED = " (unfinished)"  # after the name of a collective that a flight recorder did not see ending
_LIBRARY = regex(
    r"nccl(dev)?kernel|ncclsymk|^(_Z\d+)?nccl|rccl|nvshmem|deep_?ep|(^|::)ep::|inter_?node(_ll)?::|intra_?node::|::dispatch<|"
    r"cached_notify|notify_dispatch|cross_device_reduce|(one|two)_?shot_?\w*(all_?)?reduce|multimem_\w*(reduce|gather)|"
    r"hcom_|symm_mem|trtllm_allreduce|all_?reduce_fusion|oneccl|quick_?(all_?)?reduce|userbuffers|mscclpp|"
    r"(^|[:_ ])all_?(reduce|gather|to_?all)_?(kernel|v_?kernel|one|two)|moe_?all_?to_?all|"
    r"^(all-(reduce|gather|to-all)|reduce-scatter|collective-(permute|broadcast))(-start|-done)?(\.\d+)?$|"
    r"^hccl |/(all(reduce|gather|toallv?)|reducescatter|broadcast)-op\d+(_\d+)?$|"  # the latter of MindSpore
    # XLA names an instruction after JAX's primitive, and numbers it
    r"^(p(sum|max|min)(_invariant|_scatter)?|ppermute|all_(gather|to_all)(_invariant)?|reduce_scatter)\.\d+$",
    re.IGNORECASE,
)
# Each alternative holds one of these, and looking for them in lower case is ten times faster.
_IN_LIBRARY = regex(
    "ccl|reduce|nvshmem|deep_?ep|ep::|node(?:_ll)?::|dispatch|cached_notify|symm_mem|hcom_|multimem_|userbuffers|gather|"
    "all_?to_?all|all-to-all|collective-|psum|pmax|pmin|ppermute|/broadcast-op"
)
_RANGE = regex(r"(?:nccl|ncclx|rccl|c10d|gloo|nvshmem|mpi)[:_A-Z]|nccl\w+$|record_param_comms", re.IGNORECASE)
_NAMES = (
    ("reducescatter", regex(r"reduce[_-]?scatter|^psum_scatter\b", re.IGNORECASE)),
    (
        "allreduce",
        regex(r"all[_-]?reduce|cross_device_reduce|^p(sum|max|min)(_invariant)?\.\d", re.IGNORECASE),
    ),
    ("allgather", regex(r"all[_-]?gather", re.IGNORECASE)),
    (
        "alltoall",
        regex(r"all[_-]?to[_-]?all|deep_?ep|(^|::)ep::|dispatch|::combine<|cached_notify", re.IGNORECASE),
    ),
    ("sendrecv", regex(r"send_?recv|collective-permute|^ppermute\b|_send|_rec(v|eive)", re.IGNORECASE)),
    ("broadcast", regex(r"broadcast", re.IGNORECASE)),
    ("reduce", regex(r"reduce", re.IGNORECASE)),
    ("barrier", regex(r"barrier", re.IGNORECASE)),
)


@lru_cache(maxsize=65536)
def is_collective_kernel(name: str) -> bool:
    """Whether a GPU kernel's name belongs to a communication library."""
    if name.isascii() and not _IN_LIBRARY.search(name.lower()):
        return False
    return _LIBRARY.search(name) is not None


def is_communication_range(name: str) -> bool:
    """Whether a range's name says that a communication library made it, or the framework around its call."""
    return _RANGE.match(name) is not None


@lru_cache(maxsize=65536)
def collective_of(name: str) -> str:
    """The collective a kernel or range name speaks of, such as "allreduce"; empty when it names none."""
    return next((collective for collective, pattern in _NAMES if pattern.search(name)), "")
