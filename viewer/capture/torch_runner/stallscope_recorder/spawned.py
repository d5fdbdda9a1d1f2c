"""Training processes that the script starts through ``torch.multiprocessing.spawn``: each records as its own rank."""

from __future__ import annotations

import sys
from typing import Any

from .options import Options
from .session import Session, rank_of_this_process
from .status import Status


class Recorded:
    """A picklable stand-in for the function that a spawned process runs."""

    def __init__(self, function: Any, options: Options) -> None:
        self.function = function
        self.options = options

    def __call__(self, index: int, *arguments: Any) -> Any:
        from . import command

        earlier = command.current
        if earlier is not None and earlier.hooks is not None:
            earlier.hooks.remove()
        if earlier is not None and earlier.switched_off:
            sys.modules["torch"]._C._autograd._enable_record_function(True)
        rank = rank_of_this_process()
        rank = index if rank < 0 else rank
        session = command.begin(self.options, Status(self.options.status, rank), rank)
        session.torch_is_there()
        try:
            return self.function(index, *arguments)
        except SystemExit:
            if not session.stopping_script:
                raise
        finally:
            session.script_ended()


def hand_over_to_children(session: Session) -> None:
    """From now on processes started by ``torch.multiprocessing.spawn`` or ``start_processes`` record themselves."""
    package = sys.modules["torch.multiprocessing"]
    module = sys.modules["torch.multiprocessing.spawn"]
    original = module.start_processes

    def start_processes(fn: Any, *args: Any, **kwargs: Any) -> Any:
        if session.switched_off:
            return original(fn, *args, **kwargs)
        session.handed_over = True
        return original(Recorded(fn, session.options), *args, **kwargs)

    module.start_processes = start_processes  # type: ignore[attr-defined]
    package.start_processes = start_processes  # type: ignore[attr-defined]
