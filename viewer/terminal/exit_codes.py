"""The exit codes of every command."""

from __future__ import annotations

DONE = 0
GATE_FAILED = 1
BAD_INPUT = 2
GATE_INCONCLUSIVE = 3
BROKEN = 70  # EX_SOFTWARE of sysexits.h
INTERRUPTED = 130
