"""Texts that are padded."""

from __future__ import annotations

from rules.remedies.remedy import remedy
from rules.wording.words import for_pytorch

PAD_TO_LONGEST = remedy(
    "Pad each batch to its own longest text, rounded up to a multiple of 8, and sort texts by length, so that those of "
    "a batch are about as long.",
    for_pytorch(
        'In transformers: padding="longest" (or padding=True) and pad_to_multiple_of=8, in place of '
        'padding="max_length".'
    ),
    "Where a compiled model or a CUDA graph needs fixed lengths, a few of them, such as 64, 128 and 256, will do.",
    code=for_pytorch("""longest = max(len(each) for each in batch)
length = -(-longest // 8) * 8                 # instead of the most that the model takes"""),
)
