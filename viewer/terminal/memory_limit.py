"""How much memory the shell lets this process map, and what running out of it looks like."""

from __future__ import annotations

import sys

# bytes; below, libraries that load late (DuckDB, Qt) end the process themselves
MIN_ADDRESS_SPACE = 768 << 20


def address_space() -> int:
    """Bytes: the least of ``ulimit -v`` and ``ulimit -d``; ``sys.maxsize`` where there is no limit."""
    if sys.platform == "win32":
        return sys.maxsize
    import resource

    limits = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
    return min((limit for limit in limits if limit != resource.RLIM_INFINITY), default=sys.maxsize)


def is_shortage(error: BaseException) -> bool:
    """Whether a failure is one of memory or of threads: under a limit, libraries and modules fail to load as well."""
    if isinstance(error, RuntimeError) and "can't start new thread" in str(error):
        return True
    of_memory = (
        (MemoryError, ImportError, SystemError, SyntaxError) if address_space() < sys.maxsize else MemoryError
    )
    cause = error.__cause__ or error.__context__
    return isinstance(error, of_memory) or (cause is not None and is_shortage(cause))
