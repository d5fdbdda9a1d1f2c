"""Short names for narrow boxes: what is left of a kernel's signature when templates, namespaces and arguments go."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from rules.base import Evidence

_LONGEST = 400
_RETURN = re.compile(r"^(?:void|static|inline|__global__)\s+")
_WRAPPER = re.compile(
    r"(?:unrolled_|vectorized_)?elementwise_kernel(?:_with_index|_unrolled)?|vectorized_layer_norm_kernel|reduce_kernel|"
    r"vectorized_elementwise_kernel|multi_tensor_apply_kernel|index_elementwise_kernel|Kernel2?|device_kernel|"
    r"distribution_elementwise_grid_stride_kernel"
)
_CARRIED = re.compile(
    r"(?P<cuda>[A-Za-z]\w*?)(?:_kernel_cuda|_cuda_kernel|_kernel_impl)\b|launch_(?P<launch>[A-Za-z]\w*)|"
    r"(?P<before>[A-Za-z]\w*?)(?:Functor(?:OnSelf)?_?|_functor|Ops\b)(?P<after>\w*)|(?P<kernel>[A-Za-z]\w*?)_kernel\b|"
    r"(?P<cutlass>cutlass\w*)"
)
_HOLLOW = frozenset(
    {"AUnary", "BUnary", "Binary", "CUDA", "Reduce", "func", "gpu", "legacy_kernel_impl", "gpu_kernel"}
)
_PLAIN = re.compile(r"\[?(?:CUDA )?mem(?:cpy|set)\b", re.IGNORECASE)
_CAST = re.compile(r"^\([\w: ]+\)")
_MOST_ARGUMENTS = 3
_PYTHON = re.compile(r"^(?P<file>[^()]+)\((?P<line>\d+)\): (?P<what>.+)$")


@lru_cache(maxsize=20_000)
def kernel_name(name: str) -> str:
    """A kernel's own name; for PyTorch's generic wrappers the operation they carry, too."""
    if _PLAIN.match(name):
        return plain_name(name)
    text = _RETURN.sub("", name[:_LONGEST].strip())
    bare = _without(_without(_without(text, "<", ">"), "(", ")"), "[", "]")
    words = (word.lstrip(":") for word in reversed(bare.split()))
    own = next((word for word in words if word[:1].isalpha() or word[:1] == "_"), text)
    own = "::".join(own.split("::")[-2:]) if own.endswith("::kernel") else own.rsplit("::", 1)[-1]
    if _WRAPPER.fullmatch(own):
        carried = _carried(text[text.find("<") :])
        if carried:
            return f"{carried} · {own}"
    return own


def distinct_names(names: Sequence[str]) -> list[str]:
    """``kernel_name`` of each; kernels that share one get the template arguments in which they differ."""
    shown = [kernel_name(name) for name in names]
    alike: dict[str, list[int]] = {}
    for place, short in enumerate(shown):
        alike.setdefault(short, []).append(place)
    for short, places in alike.items():
        arguments = [
            [_plain_argument(each) for each in _template_arguments(names[place][:_LONGEST])]
            for place in places
        ]
        if len(places) < 2 or len({len(each) for each in arguments}) > 1:
            continue
        differing = [at for at, values in enumerate(zip(*arguments, strict=True)) if len(set(values)) > 1]
        for place, values in zip(places, arguments, strict=True):
            if told := ", ".join(values[at] for at in differing[:_MOST_ARGUMENTS]):
                shown[place] = f"{short} <{told}>"
    return shown


def _template_arguments(name: str) -> list[str]:
    """The arguments of the first template of a name."""
    arguments: list[str] = []
    depth, begin = 0, 0
    for place, letter in enumerate(name):
        if letter in "<(":
            depth += 1
            begin = place + 1 if letter == "<" and depth == 1 else begin
        elif letter in ">)":
            depth -= 1
        if (depth == 0 and letter == ">") or (depth == 1 and letter == ","):
            arguments.append(name[begin:place].strip())
            begin = place + 1
        if depth == 0 and letter == ">":
            return arguments
    return arguments


def _plain_argument(text: str) -> str:
    """An argument without casts, namespaces and templates of its own; of a lambda, the function it stands in."""
    bare = _without(_CAST.sub("", text.replace("(anonymous namespace)::", "")), "<", ">")
    return re.split(r"[({]", bare)[0].strip(" :").rsplit("::", 1)[-1]


@lru_cache(maxsize=20_000)
def python_name(name: str) -> str:
    """ "train.py(12): forward" as "forward (train.py:12)"; anything else as it is."""
    found = _PYTHON.match(name)
    if not found:
        return name
    return f"{found['what']} ({found['file'].rsplit('/', 1)[-1]}:{found['line']})"


def plain_name(name: str) -> str:
    """A name on one line."""
    return name if name.isprintable() else " ".join(name.split())


def _carried(templates: str) -> str:
    for found in _CARRIED.finditer(templates):
        before, after = found["before"], found["after"]
        name = after if before in _HOLLOW and after else before
        name = name or found["cuda"] or found["launch"] or found["kernel"] or found["cutlass"]
        if name and name not in _HOLLOW:
            return name
    return ""


def _without(text: str, opening: str, closing: str) -> str:
    """``text`` without what stands in brackets; an operator such as ``operator()`` keeps its brackets."""
    kept: list[str] = []
    depth = 0
    for letter in text:
        if letter == opening:
            depth += 1
        elif letter == closing and depth:
            depth -= 1
        elif not depth:
            kept.append(letter)
    return "".join(kept)


def place_name(evidence: Evidence) -> str:
    """What a place on the timeline is called: a kernel by its own name, a gap by its culprit as it is."""
    return kernel_name(evidence.name) if evidence.event >= 0 else evidence.name
