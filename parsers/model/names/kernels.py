"""Kernel names as different tools print them: a kernel's own name, the short one to show, and one to compare."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from parsers.model.late import regex
from parsers.model.names.mangled import spelled_out

_OF_BLOCK = ", block "


def block_name(kernel: str, block: int) -> str:
    """ "matmul, block 3"."""
    return f"{kernel}{_OF_BLOCK}{block}"


def kernel_of_block(name: str) -> str:
    """ "matmul" of "matmul, block 3"."""
    return name.rpartition(_OF_BLOCK)[0] or name


_ANONYMOUS = regex(r"\(anonymous namespace\)::|<unnamed>::|\(unnamed namespace\)::|_GLOBAL__N__\w{1,200}::")
ONE_IS_SHORT = 0.8  # one spelling is the function name alone
_SPELLING = frozenset({"void", "at", "native", "const", "std", "array", "char", "instance", "lambda"})
_SAME = {"false": "0", "true": "1"}
_TYPE_OF_NUMBER = regex(r"(?<=\d)(?:ull|ul|u|ll|l)\b", re.IGNORECASE)
_NO_MATTER = regex(r"\b(?:const|void)\b")
_LAMBDA = regex(r"[\[{]lambda\([^\[\]{}]*\)\s*(?:#|\(instance\s*)(\d+)\)?[\]}]")
_PARENTHESES = regex(r"\([^()]*\)")
_TRUTH = regex(r"\b(?:true|false)\b")
_WORD = regex(r"[A-Za-z_]\w*|\d+")
_MAX_LENGTH = 400
_WRAPPER = regex(
    r"(?:unrolled_|vectorized_)?elementwise_kernel(?:_with_index|_unrolled)?|vectorized_layer_norm_kernel|reduce_kernel|"
    r"vectorized_elementwise_kernel|multi_tensor_apply_kernel|index_elementwise_kernel|Kernel2?|device_kernel|"
    r"distribution_elementwise_grid_stride_kernel"
)
_ONLY_WRAPPERS = frozenset({"Kernel", "Kernel2", "device_kernel"})
_CARRIED = regex(
    r"(?P<cuda>[A-Za-z]\w*?)(?:_kernel_cuda|_cuda_kernel|_kernel_impl|_cuda_out|(?:CUDA)?KernelImpl)\b|"
    r"launch_(?P<launch>[A-Za-z]\w*)|"
    r"(?P<before>[A-Za-z]\w*?)(?:Functor(?:OnSelf)?_?|_functor|Ops\b)(?P<after>\w*)|(?P<kernel>[A-Za-z]\w*?)_kernel\b|"
    r"(?P<cutlass>cutlass\w*+)(?!::|$)"
)
_OF_PARAMETERS = regex(r"\b([A-Za-z]\w*?[a-z])(?:Kernel)?Param(?:eter)?s\w*")
# whose entry point is the same for all kernels
_OF_CK_TILE = regex(r"(?>.*?\bkentry\w*+<).*?\bck_tile::([A-Za-z]\w*)")
_HOLLOW = frozenset(
    {"AUnary", "BUnary", "Binary", "CUDA", "Reduce", "func", "gpu", "legacy_kernel_impl", "gpu_kernel"}
)
_LEFTOVER = regex(r"[^A-Za-z_]*|[^>]*>[^>]*")  # of a template whose beginning is not in the name
_PLAIN = regex(r"\[?(?:CUDA )?mem(?:cpy|set)\b", re.IGNORECASE)
_CAST = regex(r"^\([\w: ]+\)")
_MAX_ARGUMENTS = 3


@lru_cache(maxsize=65536)
def base_name(name: str) -> str:
    """The function's own name, without return type, namespaces, template arguments and parameters.

    "void at::native::vectorized_elementwise_kernel<4, ...>(int, ...)" becomes "vectorized_elementwise_kernel".
    """
    if name.isidentifier():
        return name
    last = _qualified(name).rpartition("::")[2].strip()
    own = last.rpartition(" ")[2] or last
    return name.strip() if _LEFTOVER.fullmatch(own) else own


def _qualified(name: str) -> str:
    """The name with its namespaces and return type, without template arguments and parameters."""
    plain = "".join(letter for letter, depth in _outside_of_parameters(name) if depth == 0)
    return plain.split("[")[0].strip().removesuffix("::")


@lru_cache(maxsize=20_000)
def kernel_name(name: str) -> str:
    """The name to show: a kernel's own; for PyTorch's generic wrappers the operation they carry, too."""
    if _PLAIN.match(name):
        return " ".join(name.split())
    text = spelled_out(name.strip())[:_MAX_LENGTH]
    own = base_name(text)
    if own in ("kernel", "operator"):
        own = "::".join(_qualified(text).split("::")[-2:]).rpartition(" ")[2]
        own += "()" if own.endswith("operator") else ""
    if own.startswith("kentry") and (told := _OF_CK_TILE.match(text)):
        return told[1]
    if own == "kernel" and (told := _OF_PARAMETERS.search(text)):
        return f"{told[1]} · {own}"
    if _WRAPPER.fullmatch(own):
        templates = text[text.find("<") :]
        carried = _carried(templates, own)
        if own in _ONLY_WRAPPERS:
            return carried or re.split(r"[<>(,]", templates[1:])[0].rpartition("::")[2].strip() or own
        if carried:
            return f"{carried} · {own}"
    return own


def is_migration(name: str) -> bool:
    """Whether a copy is one that the driver makes because a page of unified memory was touched."""
    return "unified memory" in name.lower()


PAGE_FAULTS = "GPU page faults"
BARRIER_PACKET = (
    "<barrier packet>"  # in a queue of AMD's, as rocprof lists it among kernels: it waits for others
)


def is_page_fault(name: str) -> bool:
    """Whether an event is the time in which the driver handles page faults of a GPU."""
    return name == PAGE_FAULTS


def distinct_names(names: Sequence[str]) -> list[str]:
    """``kernel_name`` of each; kernels that share one get the template arguments in which they differ."""
    shown = [kernel_name(name) for name in names]
    alike: dict[str, list[int]] = {}
    for place, short in enumerate(shown):
        alike.setdefault(short, []).append(place)
    for short, places in alike.items():
        if len(places) < 2:
            continue
        arguments = [
            [_plain_argument(each) for each in _template_arguments(names[place][:_MAX_LENGTH])]
            for place in places
        ]
        if len({len(each) for each in arguments}) > 1:
            continue
        differing = [at for at, values in enumerate(zip(*arguments, strict=True)) if len(set(values)) > 1]
        for place, values in zip(places, arguments, strict=True):
            if told := ", ".join(values[at] for at in differing[:_MAX_ARGUMENTS]):
                shown[place] = f"{short} <{told}>"
    return shown


def _template_arguments(name: str) -> list[str]:
    arguments: list[str] = []
    depth, begin = 0, 0
    for index, letter in enumerate(name):
        if letter in "<(":
            depth += 1
            begin = index + 1 if letter == "<" and depth == 1 else begin
        elif letter in ">)":
            depth -= 1
        if (depth == 0 and letter == ">") or (depth == 1 and letter == ","):
            arguments.append(name[begin:index].strip())
            begin = index + 1
        if depth == 0 and letter == ">":
            return arguments
    return arguments


def _plain_argument(text: str) -> str:
    """An argument without casts, namespaces and templates of its own; of a lambda, the function it stands in."""
    bare = _without(_CAST.sub("", text.replace("(anonymous namespace)::", "")), "<", ">")
    return re.split(r"[({]", bare)[0].strip(" :").rsplit("::", 1)[-1]


def _carried(templates: str, own: str) -> str:
    for found in _CARRIED.finditer(templates):
        before, after = found["before"], found["after"]
        name = after if before in _HOLLOW and after else before
        name = name or found["cuda"] or found["launch"] or found["kernel"] or found["cutlass"]
        if name and name not in _HOLLOW and not own.startswith(name):
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


def _outside_of_parameters(name: str) -> list[tuple[str, int]]:
    """(letter, depth of template brackets) of what stands before the parameter list; brackets become spaces."""
    depth = within = 0  # template brackets, and parentheses inside of those: "(a > b)" closes no template
    kept: list[tuple[str, int]] = []
    started = False
    plain = _ANONYMOUS.sub("", name.strip())
    for at, letter in enumerate(plain):
        if letter == "(" and depth == 0 and started:
            break
        started = started or not letter.isspace()
        within += (letter == "(") - (letter == ")") if depth else 0
        if letter == "<" and not within:
            depth += 1
        elif letter == ">" and depth and not within and plain[at - 1] != "-":
            depth -= 1
        else:
            kept.append((letter, depth))
            continue
        kept.append((" ", max(depth, 1)))
    return kept


@lru_cache(maxsize=65536)
def comparable_name(name: str) -> str:
    """One spelling for all tools: without what stands in parentheses, which some abbreviate, const, and spaces.

    "void f<(int)4, (bool)1>(T1, T2)" and "void f<4u, true>(float const*, int)" both become "f<4,1>".
    """
    text = _LAMBDA.sub(r"lambda#\1", _ANONYMOUS.sub("", name.strip()))
    removed = 1
    while removed:
        text, removed = _PARENTHESES.subn("", text)
    text = _NO_MATTER.sub("", _TYPE_OF_NUMBER.sub("", text))
    return "".join(_TRUTH.sub(lambda word: _SAME[word[0]], text).split()) or name


@lru_cache(maxsize=65536)
def _words(name: str) -> Counter[str]:
    """The words before the parameters; one tool writes those as placeholders, so they tell nothing."""
    text = "".join(letter for letter, _ in _outside_of_parameters(name))
    words = (_SAME.get(each, each) for each in _WORD.findall(text))
    return Counter(each for each in words if each not in _SPELLING)


def similarity(one: str, other: str) -> float:
    """0 to 1: how much two spellings of kernels with the same base name have in common."""
    if one == other:
        return 1.0
    if one == base_name(other) or other == base_name(one):
        return ONE_IS_SHORT
    first, second = _words(one), _words(other)
    union = (first | second).total()
    return 0.99 * (first & second).total() / union if union else 0.0
