"""The plain function name inside a demangled kernel name, which is what ``ncu --kernel-name`` compares by default."""

from __future__ import annotations

_OPEN, _CLOSE = "<([{", ">)]}"


def function_name(kernel: str) -> str:
    """``gemm`` of ``void lib::gemm<float, 4>(int)``; a name without C++ decoration is returned as it is."""
    head = _without_groups(kernel).strip()
    for qualifier in ("const", "[clone .kd]"):
        head = head.removesuffix(qualifier).strip()
    return head.split(" ")[-1].rpartition("::")[2] or kernel.strip()


def _without_groups(kernel: str) -> str:
    """The text outside all brackets."""
    depth, kept = 0, []
    for position, letter in enumerate(kernel):
        if letter == ">" and kernel[position - 1 : position] == "-":
            continue
        if letter in _OPEN:
            depth += 1
        elif letter in _CLOSE:
            depth = max(0, depth - 1)
        elif depth == 0:
            kept.append(letter)
    return "".join(kept)
