"""How fast copies between host and GPU are, beside what the link between the two can carry."""

from __future__ import annotations

from parsers.model import Attribute, Trace
from parsers.model.late import dataclass
from parsers.model.units import percent, rate, size
from rules.analysis.arithmetic.intervals import durations
from rules.analysis.gpu.copies import Copies
from rules.kernels.gpu_peaks import peaks_of
from rules.losses.lost_time import Extent

LARGE_BYTES = 1_000_000  # a smaller copy takes about as long to start as to travel
SLOW_LINK_SHARE = 0.5  # large pinned copies reach 84 to 88 % of PCIe 5 on an H200: half of the link is odd


@dataclass(frozen=True, slots=True)
class LinkUse:
    """What the large copies of one direction reach, bytes/s, and the link's own rate."""

    link: str
    bandwidth: float
    peak: float

    @property
    def share(self) -> float:
        return self.bandwidth / self.peak

    @property
    def slow(self) -> bool:
        """Slower than the link and the copying itself explain."""
        return self.share < SLOW_LINK_SHARE


def link_use(trace: Trace, copies: Copies) -> LinkUse | None:
    """None without large copies of known size, or where the link is not known: copies that exceed it took another."""
    peaks = peaks_of(trace.devices[copies.device].name)
    sizes = trace.attribute(Attribute.BYTES, copies.events)
    large = sizes >= LARGE_BYTES
    time = int(durations(trace, copies.events[large]).sum())
    if peaks is None or not peaks.link_bandwidth or not time:
        return None
    use = LinkUse(peaks.link, int(sizes[large].sum()) / time * 1e9, peaks.link_bandwidth)
    return use if use.share <= 1.0 else None


def is_slow(use: LinkUse | None, pageable: bool) -> bool:
    """Whether copies are slow although their memory is pinned."""
    return use is not None and not pageable and use.slow


def copies_sentence(copies: Copies, found_in: Extent, way: str) -> str:
    """How many copies go a ``way`` such as "from host to GPU", how fast, what they cost, and who asks for them."""
    text = found_in.counted(len(copies.events), f"copy {way}", f"copies {way}")
    if copies.bytes:
        text += f", {size(found_in.each(copies.bytes))} in all at {rate(copies.bandwidth)}"
    text += f": nothing else runs on the GPU for {found_in.part(copies.exposed_ns)}."
    return text + (f" Requested by: {copies.regions[0]}." if copies.regions else "")


def link_sentence(use: LinkUse | None, pageable: bool) -> str:
    """What the large copies reach of the link, where that is told, as a sentence."""
    if use is None:
        return ""
    part = f"{percent(use.share)} of the {rate(use.peak)} that the GPU's link ({use.link}) can carry"
    slow = ": slow for pinned memory" if use.slow and not pageable else ""
    return f" Copies above 1 MB reach {part}{slow}."


PAGES_TO_GPU = "Pages of unified memory move to the GPU one by one"
PAGES_FROM_GPU = "Pages of unified memory move from the GPU one by one"
