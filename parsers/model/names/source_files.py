"""Whose code a source file, a binary or a frame is: the user's own, or that of Python, a library or the system."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable

from parsers.model.late import regex

NO_FOLDERS = "no-folders"  # kind of the quality note of a recording that states files without their folders
KERNEL = "the kernel"  # of the operating system, where its symbols are not known
KERNEL_FRAME = f"{KERNEL} ([kernel])"
IMPORTER = "<frozen importlib"  # how files of Python's own importer begin
_NOT_OWN = regex(
    r"[/\\](site|dist)-packages[/\\]|[/\\]lib(64)?[/\\]python\d|[/\\]torch[/\\]|^<|^$|\.(cpp|cc|c|h|cu|cuh|pyx)$"
    r"|\\(?i:python[\d.]+|(?:ana|mini)(?:conda|forge)\w*(?:\\envs\\[^\\]+)?)\\(?i:lib)\\"  # on Windows
)
_NOT_OWN_BINARY = regex(r"\.so(\.|$)|^\[|^/(usr|lib|lib64|opt)/|python[\d.]*$|\.(dll|dylib)$|^dyld$")
# of compilers and of C's library, where no binary is stated, and the templates of C++'s wherever they were compiled
_OF_C = regex(
    r"__\w|_start$|(?:malloc|calloc|realloc|free|cfree|_int_\w+)$|[^()]*@@?GLIBC_|operator (?:new|delete)\b"
)
_OF_LIBRARY = ("std::", "__gnu_cxx::")
# Rust's crates, whose names others may have too, and what types of its own do: "<f32 as core::ops::arith::Div>::div"
_OF_RUST = regex(
    r"<?(?:core::(?:iter|ptr|ops|slice|option|result|mem|num|fmt|str|cmp|cell|intrinsics)"
    r"|alloc::(?:vec|boxed|string|alloc|raw_vec|slice|rc|sync|collections))::"
    r"|<(?:[fiu](?:8|16|32|64|128|size)|bool|char|str|std::[^<>]{1,200}) as "
)
_ARGUMENTS = regex(r"<[^<>]*>|\([^()]*\)")
# as a path begins that a profiler shortened by the folder of packages
_PACKAGE = regex(
    r"(?:torch(?:vision|audio)?|tensorflow|keras|jax(?:lib)?|flax|numpy|scipy|pandas|polars|sklearn|numba|cupy|h5py"
    r"|matplotlib|PIL|cv2|skimage|transformers|tokenizers|datasets|accelerate|diffusers|peft|deepspeed|megatron"
    r"|(?:pytorch_)?lightning|timm|vllm|sglang|triton|xformers|requests|urllib3|aiohttp|httpx|tqdm|wandb)$"
)
_ADDRESS = regex(r"0x[0-9a-f]+", re.IGNORECASE)
_FRAME = regex(r"(?P<file>[^()]+)\((?P<line>\d+)\): (?P<function>.+)", re.DOTALL)
# as VizTracer writes it
_PLACE_LAST = regex(r"(?P<function>.+) \((?P<file>[^()]+):(?P<line>\d+)\)", re.DOTALL)
_IN_BINARY = regex(r"(?P<function>.+) \((?P<binary>[^()]+)\)", re.DOTALL)
_CONSOLE_SCRIPT = regex(r"[/\\](?:bin|Scripts)[/\\](?P<name>(?!python)[\w-]+)(?:\.exe|-script\.py)?$")
_OF_A_GROUP = regex(r"(thread|process) \(?[\w:]|<(?!.+>::\w)")


def is_address(function: str) -> bool:
    """Whether a function is told by an address alone, as where its binary holds no symbols."""
    return _ADDRESS.fullmatch(function) is not None


def is_own_file(file: str) -> bool:
    """Whether a file, by its path, is neither of Python nor of a library."""
    return _NOT_OWN.search(file) is None


def frame_parts(name: str) -> tuple[str, str, int]:
    """Function, file or binary, and line of "train.py(12): load", "load (train.py:12)" or "load (train)".

    "" and 0 where not stated.
    """
    if (found := _python_frame(name)) is not None:
        return found["function"], found["file"], int(found["line"])
    if (found := _IN_BINARY.fullmatch(name)) is not None:
        return found["function"], found["binary"], 0
    return name, "", 0


def is_own_frame(name: str) -> bool:
    """Whether a sampled frame is of the user's own code; a file without a folder may be one of Python's own modules."""
    if _OF_A_GROUP.match(name) is not None:
        return False
    if (found := _python_frame(name)) is not None:
        file = found["file"]
        return is_own_file(file) and not _is_of_python(file)
    if (found := _IN_BINARY.fullmatch(name)) is not None:
        return _NOT_OWN_BINARY.search(found["binary"]) is None and not _is_of_library(found["function"])
    return not is_address(name) and _OF_C.match(name) is None and not _is_of_library(name)


def _python_frame(name: str) -> re.Match[str] | None:
    return _FRAME.fullmatch(name) or _PLACE_LAST.fullmatch(name)


def programs_packages(names: Iterable[str]) -> re.Pattern[str] | None:
    """What files of the packages match that a program installed by pip, as bin/NAME, runs by its own name.

    None where no such program is among the frames.
    """
    packages = {
        found["name"].replace("-", "_")
        for name in names
        if (found := _CONSOLE_SCRIPT.search(frame_parts(name)[1])) is not None
        and frame_parts(name)[0] == "<module>"
    }
    if not packages:
        return None
    listed = "|".join(map(re.escape, sorted(packages)))
    return re.compile(rf"[/\\](?:site|dist)-packages[/\\](?:{listed})[/\\.]", re.IGNORECASE)


def _is_of_library(function: str) -> bool:
    """Whether a function is of Rust's library or of C++'s: "Item* std::copy<Item const*, Item*>(Item*, Item*)"."""
    if "::" not in function:
        return False
    if _OF_RUST.match(function):
        return True
    bare, changed = function, 1
    while changed:
        bare, changed = _ARGUMENTS.subn("", bare)
    return bare.rpartition(" ")[2].startswith(_OF_LIBRARY)


def _is_of_python(file: str) -> bool:
    """Whether a path that was shortened begins with a module of Python's library, or with a well-known package."""
    if file.startswith(("/", "\\")) or file[1:2] == ":":
        return False
    first = re.split(r"[/\\]", file, maxsplit=1)[0].removesuffix(".py")
    return first in sys.stdlib_module_names or _PACKAGE.match(first) is not None
