"""What recording costs the CPU, as measured: docs/predictions.md says on which programs."""

from __future__ import annotations

# Of a program that drives a GPU: around each operator, range and call that the recorder writes down, ...
WRITING_NS = 6_000.0
INSIDE_CALL_NS = 4_000.0  # ... and inside each call that drives the GPU
MAX_OF_GAP, MAX_OF_CALL = 0.55, 0.5  # can be the recorder's
MAX_FRAME_SHARE = 0.8  # of what is left of the time before a call: it went into writing down Python's frames
# Writing down a frame takes what passes between nested frames, and as much again for Python's short cuts, which it
# does not take while it is profiled.
FRAME_FACTOR = 2.0
USUAL_FRAME_NS = 1_000.0  # where too few frames are nested to tell

# Of a program on the CPU alone, for each operator or range, and for each frame
WRITING_ALONE_NS, FRAME_ALONE_NS = 3_000, 500
MAX_SHARE_ALONE = 0.5  # of a time can be the recorder's
