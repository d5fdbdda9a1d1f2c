"""Nothing exchanged between the ranks; they drift apart, so only the time counts."""

from __future__ import annotations

from typing import Any, Optional

from ..catalogue import CEILING, Change, change
from ..known_calls import COLLECTIVES, found
from ..program import Program


class Done:
    """What an exchange that never began hands back to those who wait for it."""

    def wait(self, *args: Any, **kwargs: Any) -> bool:
        return True

    def is_completed(self) -> bool:
        return True


@change
class NoCollectives(Change):
    """DistributedDataParallel exchanges no gradients, and the calls of torch.distributed do nothing."""

    name = "no-collectives"
    title = "Communication takes no time"
    level = CEILING

    def can(self, program: Program) -> Optional[str]:
        if program.parallel_models() or "collective" in program.seen:
            return None
        return "the ranks don't communicate" if program.ranks > 1 else "there is only one rank"

    def on(self, program: Program) -> None:
        for model in program.parallel_models():
            self.put(model, "require_backward_grad_sync", False)

        def nothing(*args: Any, **kwargs: Any) -> Any:
            return Done() if kwargs.get("async_op") else None

        for owner, name in found(COLLECTIVES):
            self.put(owner, name, nothing)
