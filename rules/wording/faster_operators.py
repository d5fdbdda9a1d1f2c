"""What to do about an operator that is slow by itself, by what it does."""

from __future__ import annotations

import re

from rules.wording.words import Words, for_python, for_pytorch

_CHANNELS_LAST = for_pytorch(
    "Keep images in channels_last (model.to(memory_format=torch.channels_last), the same for the input): then "
    "neighbouring channels are read together."
)
_BY_NAME: tuple[tuple[re.Pattern[str], tuple[Words, ...]], ...] = (
    (
        re.compile(r"(upsample|grid_sampler)\w*_backward"),
        (
            _CHANNELS_LAST,
            for_pytorch(
                "Where one value is enlarged to a whole picture, spread it with x.expand(...): else all gradients are "
                "added at one place."
            ),
            for_pytorch(
                "Enlarge with mode='nearest' where that is good enough, or in float32: additions in 16 bits that meet "
                "at one place take several times longer."
            ),
        ),
    ),
    (re.compile(r"upsample|grid_sampler|batch_norm|pool"), (_CHANNELS_LAST,)),
    (
        re.compile(r"convolution"),
        (
            _CHANNELS_LAST,
            "Give it channels in multiples of 8: pad the three of a picture. With one channel for each group there is "
            "little arithmetic for what is read: choose larger groups.",
        ),
    ),
    (
        re.compile(r"index_add|scatter|index_put|embedding_dense_backward"),
        (
            "Additions at the same place wait for one another: sort by index and reduce in segments, or multiply with "
            "a matrix of ones and zeros.",
            for_python("Add in float32: in 16 bits each addition may have to be tried again and again."),
        ),
    ),
    (
        re.compile(r"cumsum|cumprod|sum|mean|max|min|norm|softmax"),
        ("Work along the last dimension, whose elements lie beside each other: transpose before and after.",),
    ),
)
_ANY: tuple[Words, ...] = (
    "Give it more to do at once: a larger batch, or several small tensors in one call.",
    for_python("Let a compiler write it (torch.compile), or write it as one kernel in Triton."),
)


def faster(operator: str) -> tuple[Words, ...]:
    """The most likely change first."""
    return (*next((advice for pattern, advice in _BY_NAME if pattern.search(operator)), ()), *_ANY)[:4]
