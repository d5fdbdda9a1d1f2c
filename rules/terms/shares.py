"""What "most of it" and "nearly all of it" mean, wherever a rule decides by them."""

from __future__ import annotations

MAJORITY = 0.5
NEARLY_ALL = 0.9
MIN_NAMED = 0.05  # of a time: what takes less is not named in its account
