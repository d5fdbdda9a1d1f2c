"""Spectra are left in the order in which a Fourier transform gives them."""

from __future__ import annotations

from collections.abc import Iterable

from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix, remedy
from rules.fixes.changes import durations_times, without_calls
from rules.fixes.forms.shifted_spectra import shifted_spectra
from rules.fixes.forms.written import costly_calls
from rules.replay.replay import Replay
from rules.wording.words import for_pytorch

LEFT_AT_MOST = 0.5  # of the shifts

_CODE = """mask = torch.fft.ifftshift(mask)          # once, before the loop: everything that meets a spectrum
spectrum = torch.fft.fft2(x, norm="ortho") * mask
# not in each call: fftshift(fft2(ifftshift(x)))"""


@fix
class FoldShifts:
    """Shifts before and after Fourier transforms."""

    id = "fold-shifts"
    explanation = """
When it applies
    Right before or after Fourier transforms, fftshift, ifftshift or roll move their data, which takes at least 5 % of
    the GPU's time, with the gradients.

What is changed in the replay
    These shifts are gone; at least, half of their time.

What makes it more or less
    What meets a spectrum, such as a mask, has to be shifted once instead. Shifts by other distances than half of the
    size become a factor in the spectrum, and are not free.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        nodes, share = costly_calls(analysis, replay, shifted_spectra(analysis))
        if not share:
            return
        yield Proposal(
            title=f"Leave spectra unshifted: {percent(share)} of the GPU's time shifts them by copies (fftshift, roll)",
            categories=(Category.MEMORY_BOUND_KERNELS, Category.SLOW_OPERATOR, Category.LAUNCH_BOUND),
            culprit="fftshift and ifftshift",
            problem="Spectra are shifted for each transform",
            remedy=remedy(
                for_pytorch(
                    "A transform needs no shift: shift once what a spectrum is multiplied with, such as a mask, and "
                    "measured spectra when they are loaded."
                ),
                for_pytorch(
                    "An fftshift behind an ifftshift, or the other way round, undoes it: leave out both."
                ),
                code=for_pytorch(_CODE),
            ),
            expected=without_calls(replay, nodes),
            low=durations_times(nodes[replay.device.launch], LEFT_AT_MOST),
        )
