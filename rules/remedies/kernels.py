"""Kernels that calculate faster or move less: types, shapes, layouts, fusing, other ways to the same result."""

from __future__ import annotations

import re

from parsers.model import Trace
from parsers.model.late import regex
from rules.analysis.gpu.gpu_vendor import is_amd
from rules.analysis.names.host_language import Audience, program_of
from rules.analysis.names.software import is_compiled
from rules.remedies.engines import fusing_advice
from rules.remedies.remedy import Remedy, pytorch_remedy, remedy
from rules.wording.words import Words, for_python, for_pytorch, ours

TF32_CAPABILITY = 8

PAD_SHAPES = remedy(
    "Pad the dimensions (vocabulary, hidden size, batch) to multiples of 8, or better 64.",
    code=for_pytorch("""vocabulary = 50_257
padded = (vocabulary + 63) // 64 * 64                 # 50304: a multiple of 64
head = torch.nn.Linear(hidden, padded, bias=False)
logits = head(x)[..., :vocabulary]                    # drop the padding afterwards"""),
)
CHANNELS_LAST = remedy(
    "Keep images channels-last (NHWC, channels_last) from the input to the last layer.",
    for_pytorch(
        "Call model.to(memory_format=torch.channels_last) and convert the input the same way; avoid "
        ".contiguous(), permute and view between layers."
    ),
    code=for_pytorch("""model = model.to(memory_format=torch.channels_last)
for images, labels in loader:
    images = images.to("cuda", memory_format=torch.channels_last, non_blocking=True)
    loss = criterion(model(images), labels)"""),
)
FIXED_ALGORITHMS = remedy(
    for_pytorch(
        "Turn torch.backends.cudnn.benchmark off while shapes change: then the library chooses by a rule."
    ),
    "Or pad the shapes to a few, and run each of these once before it matters.",
    code=for_pytorch("""torch.backends.cudnn.benchmark = False           # True pays where each batch has the same shape
width = (images.shape[-1] + 63) // 64 * 64       # or: a few widths, each of which is tried once
images = torch.nn.functional.pad(images, (0, width - images.shape[-1]))"""),
)
FUSED_ATTENTION = remedy(
    for_python(
        "Use torch.nn.functional.scaled_dot_product_attention: one fused kernel, no scores in memory."
    ),
    for_python("Pass masks as is_causal=True or attn_mask instead of calling masked_fill."),
    native=("Use one fused kernel for attention, which never writes the scores to memory.",),
    jax=("Use jax.nn.dot_product_attention: one fused kernel, no scores in memory.",),
    code=for_pytorch("""# instead of softmax(q @ k.transpose(-2, -1) / scale + mask) @ v
out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)"""),
)
_FUSED = (
    for_python("Compile the model: torch.compile fuses neighbouring elementwise kernels into one."),
    for_python(
        "Avoid casts and copies between operators: keep one data type and memory layout, use in-place or fused "
        "operators."
    ),
)
_FUSED_CODE = for_pytorch(
    """model = torch.compile(model)          # joins neighbouring elementwise operators into one kernel

@torch.compile
def activation(x, bias, residual):    # or only the part that matters
    return torch.nn.functional.gelu(x + bias) * 0.5 + residual"""
)

_TF32_CODE = """torch.set_float32_matmul_precision("high")           # TF32: one line, about 3 decimal digits
torch.backends.cudnn.allow_tf32 = True

with torch.autocast("cuda", dtype=torch.bfloat16):   # or 16 bits, faster still
    loss = model(batch).mean()
loss.backward()"""
_FP16_CODE = """scaler = torch.amp.GradScaler("cuda")             # keeps small gradients from becoming 0 in fp16
with torch.autocast("cuda", dtype=torch.float16):
    loss = model(batch).mean()
scaler.scale(loss).backward()
scaler.step(optimizer)
scaler.update()"""


_ONLY_FP16 = "Use fp16 (CUDA_R_16F in cuBLAS): this GPU's tensor cores take neither TF32 nor bf16."


def fused_kernels(trace: Trace) -> Remedy:
    """Neighbouring kernels that only move memory become one, in terms of the engine that was recorded."""
    by_engine = fusing_advice(trace)
    first = tuple(map(for_python, by_engine)) or (() if is_compiled(trace) else _FUSED[:1])
    return remedy(
        *first,
        *_FUSED[1:],
        native=("Fuse neighbouring kernels, so that data stays in registers between them.",),
        jax=("Put neighbouring operations into one jax.jit: XLA fuses them.",),
        code=_FUSED_CODE,
    )


def has_tf32(trace: Trace, device: int) -> bool:
    """Whether a device's tensor cores take products in single precision, as far as it is known."""
    capability = trace.devices[device].compute_capability
    return not is_amd(trace) and (capability is None or capability[0] >= TF32_CAPABILITY)


_BF16_CODE = """with torch.inference_mode(), torch.autocast("cuda", dtype=torch.bfloat16):
    output = model(batch)"""
_IN_BF16 = 'Use mixed precision: torch.autocast("cuda", dtype=torch.bfloat16) around the forward pass.'


LIBRARY_PRODUCT = remedy(
    for_pytorch(
        "Multiply with torch.matmul: cuBLAS is hard to beat, and uses the tensor cores in TF32 or 16 bits."
    ),
    ours(
        "If the kernel has to stay: tiles in shared memory, and the $tensor cores (wmma, CUTLASS, Triton's tl.dot)."
    ),
    code=for_pytorch("""torch.set_float32_matmul_precision("high")   # TF32
product = torch.matmul(a, b)                 # or a.half() @ b.half(), where 16 bits are precise enough"""),
)


def tensor_cores(
    trace: Trace, device: int, *, products: bool, convolutions: bool, tf32: bool, halves: bool = False
) -> Remedy:
    """What moves matrix products, convolutions or both to the tensor cores of a device.

    ``tf32``: it is faster than FP32 there. ``halves``: what counts is that tensors get half the size, which TF32 does
    not give.
    """
    known = has_tf32(trace, device)
    advice: tuple[str, ...]
    if is_amd(trace):
        advice = (
            'Use mixed precision: torch.autocast("cuda", dtype=torch.bfloat16) around the forward pass (ROCm calls its '
            "GPUs cuda as well).",
        )
    elif not known:
        advice = (
            'Use mixed precision: torch.autocast("cuda", dtype=torch.float16) around the forward pass, with a '
            "GradScaler when training. This GPU supports neither TF32 nor bf16.",
        )
    elif halves or not tf32:
        advice = (
            _IN_BF16,
            "Or keep the model itself in 16 bits, where nothing is trained: model.bfloat16().",
        )
    else:
        advice = (
            *(
                ['Allow TF32 for matrix products: torch.set_float32_matmul_precision("high").']
                if products
                else []
            ),
            *(
                ["Allow TF32 for convolutions: torch.backends.cudnn.allow_tf32 = True."]
                if convolutions
                else []
            ),
            f"Or {_IN_BF16[0].lower()}{_IN_BF16[1:]}",
        )
    return remedy(
        *map(for_python, advice),
        native=(ours("$AllowTf32 16-bit types.") if known or is_amd(trace) else _ONLY_FP16,),
        jax=(
            'Allow TF32: jax.config.update("jax_default_matmul_precision", "tensorfloat32"). Or compute in '
            "bfloat16.",
        ),
        code=for_pytorch(
            _BF16_CODE if (halves or not tf32) and known else _TF32_CODE if known else _FP16_CODE
        ),
    )


def single_precision(trace: Trace, *, then_tf32: bool, begins: int = -1, factorises: bool = False) -> Remedy:
    """Python programs that calculate with 64-bit numbers do so with 32 bits; then TF32 may be allowed.

    ``begins``: the operator that first takes 64-bit numbers beside narrower ones, -1 where it is not known.
    ``factorises``: matrices are factorised, for which 64 bits are usually meant.
    """
    tensors = (
        "Find where the first float64 tensor comes from (often a numpy array), and convert it: .float() or "
        "dtype=torch.float32."
        if program_of(trace) is Audience.PYTORCH
        else "Find where the first 64-bit array comes from (numpy's default), and convert it: "
        "array.astype(numpy.float32)."
    )
    return remedy(
        *(
            [
                "Keep 64 bits if the matrices are nearly singular: their factors, and what is solved with them, may "
                "be useless in 32. Else compare both results first."
            ]
            if factorises
            else []
        ),
        *([_begins(trace.name(begins))] if begins >= 0 else []),
        tensors,
        *(
            [
                for_pytorch(
                    'Then allow TF32, torch.set_float32_matmul_precision("high"), or use mixed precision '
                    "(torch.autocast)."
                )
            ]
            if then_tf32
            else []
        ),
        code="""array = numpy.load("features.npy").astype(numpy.float32)   # numpy makes float64 unless told otherwise
batch = torch.from_numpy(array)
model = model.float()                                      # parameters, too
torch.get_default_dtype()                                  # should say torch.float32""",
    )


def _begins(operator: str) -> Words:
    if operator in ("aten::to", "aten::_to_copy", "aten::type_as", "aten::double"):
        return f"In each step, {operator} first makes 64-bit numbers of 32-bit ones: leave that out."
    return f"In each step, {operator} is the first to take 64-bit numbers beside narrower ones: convert the former."


_IMAGES = for_pytorch(
    "Keep images in channels_last (model.to(memory_format=torch.channels_last), the same for the input): then "
    "neighbouring channels are read together."
)
_BY_NAME: tuple[tuple[re.Pattern[str], tuple[Words, ...]], ...] = (
    (
        regex(r"(upsample|grid_sampler)\w*_backward"),
        (
            _IMAGES,
            for_pytorch(
                "To enlarge one value to a whole image, use x.expand(...): otherwise all gradients are added at "
                "one address."
            ),
            for_pytorch(
                "Enlarge with mode='nearest' where that is good enough, or in float32: 16-bit additions to the "
                "same address take several times longer."
            ),
        ),
    ),
    (regex(r"upsample|grid_sampler|batch_norm|pool"), (_IMAGES,)),
    (
        regex(r"convolution"),
        (
            _IMAGES,
            "Use multiples of 8 channels: pad the three of an image. With one channel per group there is little "
            "arithmetic for the data read: choose larger groups.",
        ),
    ),
    (
        regex(r"index_add|scatter|index_put|embedding_dense_backward"),
        (
            "Additions to the same address wait for one another: sort by index and reduce in segments, or multiply "
            "by a matrix of ones and zeros.",
            for_python("Add in float32: in 16 bits each addition may have to be retried many times."),
        ),
    ),
    (
        regex(r"cdist"),
        (
            "Compare only what can be near: the rows of one group or cell, in batches of their own.",
            for_pytorch(
                "Many columns: compute_mode='use_mm_for_euclid_dist' multiplies matrices. Few columns: "
                "(a[:, None] - b).square().sum(-1), compiled."
            ),
        ),
    ),
    (
        regex(r"cumsum|cumprod|sum|mean|max|min|norm|softmax"),
        ("Work along the last dimension, whose elements are contiguous: transpose before and after.",),
    ),
)
_ANY: tuple[Words, ...] = (
    "Give it more work at once: a larger batch, or several small tensors in one call.",
    for_python("Let a compiler generate it (torch.compile), or write it as one kernel in Triton."),
)


_FASTER_CODE = for_pytorch(
    """model = model.to(memory_format=torch.channels_last)      # images: neighbouring channels are read together
batch = batch.to("cuda", memory_format=torch.channels_last)

spread = pooled.expand(-1, -1, height, width)            # instead of enlarging one value with interpolate
sums = torch.zeros(rows, width, device="cuda").index_add_(0, index, values.float())   # not added in 16 bits"""
)


SAME_ORDER = pytorch_remedy(
    "Keep all tensors in one memory order: call .contiguous() once where a tensor is made, or use "
    "memory_format=torch.channels_last for all of them, instead of permute() or transpose() before each use.",
    "tensor.stride() shows the order: the last dimension of contiguous tensors has stride 1.",
    code="""bias = bias.permute(0, 3, 1, 2).contiguous()   # once, where it is made
for x in batches:
    y = x + bias                               # both are read in the order in which they lie in memory""",
)

LONG_SIDES = pytorch_remedy(
    "Let the short side come first, and work along it: scores of shape (3, n) with softmax(0) instead of (n, 3) "
    "with softmax(-1). Lay the tensor out that way where it is made.",
    "Or let a compiler write the loop: torch.compile.",
    code="""scores = weight @ features.T        # (3, n) instead of (n, 3)
shares = scores.softmax(0)""",
)


def faster_operator(name: str) -> Remedy:
    """What to do about an operator that is slow by itself, the most likely change first."""
    by_name = next((advice for pattern, advice in _BY_NAME if pattern.search(name)), ())
    return Remedy((*by_name, *_ANY)[:4], _FASTER_CODE)
