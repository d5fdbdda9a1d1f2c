"""What "most of it" and "nearly all of it" mean, wherever a rule decides by them."""

from __future__ import annotations

MAJORITY = 0.5
NEARLY_ALL = 0.9
