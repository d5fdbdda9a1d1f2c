"""Functions that are compiled: once, as a whole, and not again for each size."""

from __future__ import annotations

from collections.abc import Iterable

from parsers.model.late import regex
from rules.remedies.remedy import Remedy, pytorch_remedy, remedy
from rules.wording.words import for_jax, for_python, for_pytorch

COMPILE_ONCE = remedy(
    "If this happens again in later steps, the model is being recompiled: TORCH_LOGS=recompiles says why.",
    for_python(
        "Mark sizes that change as dynamic (torch._dynamo.mark_dynamic, torch.compile(dynamic=True)), or pad inputs to "
        "a few sizes."
    ),
    code=for_pytorch("""torch._dynamo.mark_dynamic(batch, 0)          # this size differs from call to call
step = torch.compile(step, dynamic=True)      # all sizes may
# TORCH_LOGS=recompiles python train.py       # prints each reason as it happens"""),
)
COMPILED_SCRIPTS = pytorch_remedy(
    "Run the scripted module two or three times with each shape before timing or recording it, or before the first "
    "request.",
    "Freeze it (torch.jit.freeze), and use few different shapes: it compiles anew for others. Where compiling takes "
    "longer than it saves: torch.jit.set_fusion_strategy([]).",
    code="""model = torch.jit.freeze(torch.jit.script(model.eval()))
for _ in range(3):
    model(example)            # watched, then compiled
torch.cuda.synchronize()""",
)
PRECOMPILED_OPERATORS = remedy(
    "Use the operators that come compiled, and compile none for a shape: torch_npu.npu.set_compile_mode("
    "jit_compile=False).",
    "If few shapes occur, let the first steps compile them, and record later ones.",
    code=for_python("""torch_npu.npu.set_compile_mode(jit_compile=False)   # before the model is built"""),
)
JIT_THE_STEP = remedy(
    for_jax(
        "Put the whole step, with its gradient and the optimizer's update, into one jax.jit: every operation "
        "outside it is compiled and launched separately."
    ),
    for_jax(
        "Give each call more work: a larger batch, jax.vmap over small arrays, several steps in one jax.lax.scan."
    ),
    code=for_jax("""@jax.jit
def update(weights, batch):
    loss, gradients = jax.value_and_grad(loss_of)(weights, batch)
    return jax.tree.map(lambda w, g: w - rate * g, weights, gradients), loss"""),
)
_BY_REASON = (
    (
        regex(r"size mismatch|stride mismatch|\.size\(|\.shape|size\("),
        "Sizes differ from call to call: mark them as dynamic (torch._dynamo.mark_dynamic(x, 0), or "
        "torch.compile(dynamic=True)), or pad to a few sizes.",
    ),
    (
        regex(r"grad_mode|GradMode|requires_grad|inference_mode"),
        "Call it in one gradient mode only, or compile a copy for each: training and evaluation differ.",
    ),
    (regex(r"dtype|dispatch key|device"), "Call it with one type and device, or compile a copy for each."),
    (
        regex(r"check_(obj_)?id|check_type_id|object|___check"),
        "It gets a new object in every call: create it once, outside the compiled code.",
    ),
    (regex(r"=="), "A changing number is built into the code: pass it as a tensor, or keep it constant."),
)


def advice_on(reason: str) -> str:
    """What to change so that a function is not compiled again for such a reason."""
    return next(
        (advice for pattern, advice in _BY_REASON if pattern.search(reason)),
        "Keep what the reason names the same in every call.",
    )


def not_again(reasons: Iterable[str]) -> Remedy:
    """What to change so that a function is not compiled again for such reasons."""
    return Remedy(tuple(dict.fromkeys(map(advice_on, reasons))), COMPILE_ONCE.code)
