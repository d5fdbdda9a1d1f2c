"""Kernel names as different tools print them, brought to a form in which they can be compared."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache

_ANONYMOUS = re.compile(r"\(anonymous namespace\)::|<unnamed>::|\(unnamed namespace\)::|_GLOBAL__N__\w+::")
ONE_IS_SHORT = 0.8  # one spelling is the function name alone
_SPELLING = frozenset({"void", "at", "native", "const", "std", "array", "char", "instance", "lambda"})
_SAME = {"false": "0", "true": "1"}
_TYPE_OF_NUMBER = re.compile(r"(?<=\d)(?:ull|ul|u|ll|l)\b", re.IGNORECASE)
_NO_MATTER = re.compile(r"\b(?:const|void)\b")
_LAMBDA = re.compile(r"[\[{]lambda\([^\[\]{}]*\)\s*(?:#|\(instance\s*)(\d+)\)?[\]}]")
_PARENTHESES = re.compile(r"\([^()]*\)")
_TRUTH = re.compile(r"\b(?:true|false)\b")
_GENERIC = re.compile(
    r"elementwise|reduce_kernel|multi_tensor_apply|index_|scan|DeviceReduce|for_each", re.IGNORECASE
)
_ONLY_WRAPPERS = frozenset({"Kernel", "Kernel2", "device_kernel"})
_PURPOSE = re.compile(r"\w(Functor|functor|Impl|Ops|_cuda|_kernel_cuda)|^(cutlass|nvjet|sm\d+)_\w|Functor_\w")
_WRAPPERS = re.compile(
    r"(A|B)UnaryFunctor|BinaryFunctor|ReduceOp|func_wrapper_t|std|array|TensorListMetadata\w*"
)
_WORD = re.compile(r"[A-Za-z_]\w*|\d+")


@lru_cache(maxsize=65536)
def base_name(name: str) -> str:
    """The function's own name, without return type, namespaces, template arguments and parameters.

    "void at::native::vectorized_elementwise_kernel<4, ...>(int, ...)" becomes "vectorized_elementwise_kernel".
    """
    plain = "".join(letter for letter, depth in _outside_of_parameters(name) if depth == 0)
    plain = plain.split("[")[0].strip().removesuffix("::")
    last = plain.rpartition("::")[2].strip()
    return last.rpartition(" ")[2] or last or name.strip()


def readable_name(name: str) -> str:
    """The function's own name, with what a generic kernel was made for: "reduce_kernel (sum_functor)"."""
    base = base_name(name)
    inside: list[str] = [
        each
        for each in _WORD.findall(name.partition("<")[2])
        if each != base and not _WRAPPERS.fullmatch(each)
    ]
    purpose = [each for each in inside if _PURPOSE.search(each)]
    if base in _ONLY_WRAPPERS and purpose:
        return purpose[0]
    return f"{base} ({purpose[0]})" if purpose and _GENERIC.search(base) else base


def _outside_of_parameters(name: str) -> list[tuple[str, int]]:
    """(letter, depth of template brackets) of what stands before the parameter list; brackets become spaces."""
    depth = 0
    kept: list[tuple[str, int]] = []
    started = False
    plain = _ANONYMOUS.sub("", name.strip())
    for at, letter in enumerate(plain):
        if letter == "(" and depth == 0 and started:
            break
        started = started or not letter.isspace()
        if letter == "<":
            depth += 1
        elif letter == ">" and depth and plain[at - 1] != "-":
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
