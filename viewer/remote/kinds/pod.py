"""A pod of Kubernetes, through ``kubectl`` and whatever cluster it is set up for."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import ClassVar

from viewer.remote.names import PlaceProblem, Reach, place_kind


@place_kind
class Pod:
    """``NAME``, ``NAMESPACE/NAME`` or ``NAMESPACE/NAME/CONTAINER``, reached by ``kubectl exec``."""

    kind: ClassVar[str] = "pod"
    title: ClassVar[str] = "a pod of Kubernetes"
    example: ClassVar[str] = "pod:NAME"

    def __init__(self, name: str, below: Reach | None) -> None:
        parts = name.split("/")
        if not name or len(parts) > 3 or not all(parts):
            raise PlaceProblem(
                f"pod:{name}", "No pod is named.", "Write it like pod:NAME or pod:NAMESPACE/NAME/CONTAINER."
            )
        self._below = below
        self._name = name
        namespace, pod, container = ["", *parts, ""] if len(parts) == 1 else [*parts, ""][:3]
        self._prefix = ["kubectl", "exec", "-i", *(["-n", namespace] if namespace else []), pod]
        self._prefix += ["-c", container] if container else []
        self._prefix.append("--")

    def open(self) -> None:
        if self._below is not None:
            self._below.open()
        elif shutil.which("kubectl") is None:
            raise PlaceProblem(
                f"pod:{self._name}", "kubectl is not on this machine.", "Install it, and log in."
            )

    def words(self, words: Sequence[str]) -> list[str]:
        inside = [*self._prefix, *words]
        return inside if self._below is None else self._below.words(inside)

    def is_lost(self, exit_code: int) -> bool:
        return self._below is not None and self._below.is_lost(exit_code)

    def close(self) -> None:
        if self._below is not None:
            self._below.close()
