"""What a block of a kernel is called where its warps are shown one by one."""

from __future__ import annotations

_OF_BLOCK = ", block "


def block_name(kernel: str, block: int) -> str:
    """ "matmul, block 3"."""
    return f"{kernel}{_OF_BLOCK}{block}"


def kernel_of_block(name: str) -> str:
    """ "matmul" of "matmul, block 3"."""
    return name.rpartition(_OF_BLOCK)[0] or name
