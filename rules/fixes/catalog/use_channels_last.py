"""Images keep the layout that convolutions want, so that nothing is converted back and forth."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model.names.per_name import named
from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.analysis.names.families import Family
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix
from rules.fixes.changes import durations_times, together, without_calls
from rules.remedies.kernels import CHANNELS_LAST
from rules.replay.replay import Replay

MIN_SHARE = 0.01  # of the GPU's time converts layouts
CHANNELS_LAST_NORM = 0.7  # of a batch normalisation's time: docs/predictions.md
_SPATIAL = ("upsample", "interpolate", "pool", "grid_sample")
SPATIAL_TIME = 0.7  # of interpolation and pooling: neighbouring channels are read together


@fix
class UseChannelsLast:
    """Conversions between NCHW and NHWC."""

    id = "use-channels-last"
    switches = ("channels-last",)
    explanation = """
When it applies
    Kernels convert tensors between the two layouts of images.

What is changed in the replay
    The conversions are gone. Batch normalisation, interpolation and pooling take 0.7 of their time, except in kernels
    that are for this layout already.

What makes it more or less
    Layers without a version for this layout convert back and forth. Interpolation may gain much more.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        trace, device = analysis.trace, replay.device
        family = analysis.family_of_string[trace.events.name[device.event]]
        layout = family == Family.LAYOUT
        share = float(device.duration[layout].sum() / max(device.duration[device.meeting < 0].sum(), 1.0))
        compiled = bool((family == Family.TRITON).any())
        if share < MIN_SHARE or compiled:
            return
        norms = named(trace, device.event, lambda name: "batch_norm" in name) & (
            family == Family.NORMALISATION
        )
        spatial = named(trace, device.event, lambda name: any(word in name for word in _SPATIAL)) & ~norms
        slower = ~named(trace, device.event, lambda name: "nhwc" in name or "channels_last" in name)
        nodes = np.zeros(len(replay.host), bool)
        nodes[device.launch[layout]] = True
        only_layout = nodes.copy()
        only_layout[device.launch[~layout]] = False
        yield Proposal(
            title=f"Keep images in channels_last: {percent(share)} of the GPU's time only converts their layout",
            categories=(Category.LAYOUT_CONVERSION,),
            culprit=trace.name(int(device.event[np.flatnonzero(layout)[0]])),
            remedy=CHANNELS_LAST,
            expected=together(
                without_calls(replay, only_layout, 0.0),
                durations_times(layout, 0.0),
                durations_times(norms & slower, CHANNELS_LAST_NORM),
                durations_times(spatial & slower, SPATIAL_TIME),
            ),
        )
