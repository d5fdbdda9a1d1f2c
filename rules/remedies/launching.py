"""Fewer launches: fused optimizers, graphs, loops joined into one call."""

from __future__ import annotations

from parsers.model import Trace
from rules.remedies.engines import graph_advice
from rules.remedies.remedy import Remedy, remedy
from rules.wording.words import Words, for_python, for_pytorch, ours, with_native

FUSED_OPTIMIZER = remedy(
    for_python("Let the optimizer update all parameters in a few kernels: fused=True (or foreach=True)."),
    code=for_pytorch(
        "optimizer = torch.optim.AdamW(model.parameters(), lr=lr, fused=True)   # or foreach=True"
    ),
)
DENSE_GRADIENTS = remedy(
    "A sparse gradient takes a dozen kernels per table to sort, merge and mask, and no sparse optimizer is fused.",
    for_pytorch(
        "For tables of up to a few million rows: nn.Embedding(..., sparse=False) and one fused optimizer for all."
    ),
    "For larger ones: one table with offsets instead of many, or an optimizer made for embeddings (torchrec, "
    "fbgemm).",
    code=for_pytorch("""table = torch.nn.Embedding(rows, width, sparse=False)
optimizer = torch.optim.Adam(model.parameters(), lr=lr, fused=True)     # instead of SparseAdam"""),
)
_STEP_CODE = for_pytorch(
    """step = torch.compile(step, mode="reduce-overhead")   # graphs of forward and backward pass

graph = torch.cuda.CUDAGraph()                       # or the whole step, with capturable=True in the optimizer
with torch.cuda.graph(graph):
    loss = criterion(model(static_input), static_target)
    loss.backward()
    optimizer.step()"""
)
_FORWARD_CODE = for_pytorch("""static_input = torch.zeros_like(example_input)
stream = torch.cuda.Stream()
stream.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(stream):                       # warm up before capturing
    for _ in range(3):
        model(static_input)
torch.cuda.current_stream().wait_stream(stream)

graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    static_output = model(static_input)

static_input.copy_(next_input)                        # then, for each request or step:
graph.replay()                                        # one launch instead of thousands""")
CAPTURE = ours(
    "Capture the launches of a step once ($cudaStreamBeginCapture, $cudaGraphInstantiate) and repeat them with one "
    "$cudaGraphLaunch."
)

FUSED_IN_GRAPH = remedy(
    "Fuse neighbouring kernels: a graph takes the launches from the CPU, and the GPU still starts each kernel.",
    "Give each kernel more work: a larger batch, or several small tensors in one operation.",
    "Capture kernels that do not depend on each other on several streams: they run side by side.",
    code="""model = torch.compile(model, mode="max-autotune")   # fuses first, then records the graph

fork.record(); side.wait_event(fork)                 # or while capturing: a branch on another stream
with torch.cuda.stream(side):
    left = branch(x)
join.record(side); torch.cuda.current_stream().wait_event(join)""",
)
CAPTURE_ONCE = remedy(
    "Capture before the loop, and copy each step's inputs into the tensors that the graph reads.",
    "If sizes differ, pad inputs to a few of them, and keep one graph for each.",
    code=for_pytorch("""graphs = {size: capture(size) for size in sizes}      # once, before the loop

def step(batch):
    graph, inputs, outputs = graphs[len(batch)]
    inputs.copy_(batch)
    graph.replay()
    return outputs"""),
)
REPLAYED_AHEAD = remedy(
    "Launch the next graph before the results of this one are read: the GPU then goes from one to the other.",
    "Put more into one graph: several steps, and whatever is launched between the graphs.",
    code="""graph.replay()
host.copy_(output, non_blocking=True)      # pinned memory: does not wait
copied.record()
graph.replay()                             # queued behind it, before anything is read
copied.synchronize()
use(host)""",
)


def captured(*, training: bool) -> Words:
    """How PyTorch captures the launches of a step as a graph."""
    return for_python(
        ours(
            'Fuse operators and cut launches with torch.compile(model); mode="reduce-overhead" adds $CUDA graphs.'
        )
        if training
        else ours(
            'Capture the forward pass as a $CUDA graph, or use torch.compile(model, mode="reduce-overhead").'
        )
    )


def replayed_graph(trace: Trace, *, training: bool) -> Remedy:
    """Launches are captured once and replayed, in terms of the engine that was recorded."""
    shapes = "A graph needs static shapes: pad the input to a few sizes and capture one graph for each."
    advice = graph_advice(trace) or with_native((CAPTURE,), (captured(training=training), shapes))
    return Remedy(advice, _STEP_CODE if training else _FORWARD_CODE)


def joined_loop(*, tensors: bool, inside: str = "") -> Remedy:
    """The rounds of a loop over tensors or items become one call."""
    if tensors:
        return remedy(
            f"Look for loops over small tensors{inside}, and replace them with one batched operation.",
            for_pytorch("torch._foreach_* functions take lists of tensors; optimizers have fused=True."),
            code=for_pytorch("""torch._foreach_lerp_(averages, weights, 0.001)     # all tensors in a few kernels
optimizer = torch.optim.AdamW(parameters, fused=True)
# instead of: for average, weight in zip(averages, weights): average.lerp_(weight, 0.001)"""),
        )
    return remedy(
        "Stack the items into one tensor and process all of them at once.",
        "If an iteration needs the result of the previous one, capture all iterations as one graph instead.",
        "Give every item the same shape: keep the best 100 of each instead of those above a threshold, and mask "
        "the rest.",
        for_pytorch(
            "torch.vmap, batched operators (topk, gather, bmm), cumsum or cumprod for a running sum or product, and "
            "one big table replace such loops."
        ),
        code=for_pytorch("""best, index = scores.topk(100, dim=1)               # every item at once, one shape
boxes = boxes.gather(1, index[..., None].expand(-1, -1, 4))
# instead of: for score, box in zip(scores, boxes): ... box[score > 0.5] ..."""),
    )


LAYERS_FOR_ALL_STEPS = remedy(
    "Only the recurrent cell needs the time step before. Run the layers that do not once, for all time steps: those on "
    "its inputs before the loop, those on its results behind it.",
    code=for_pytorch("""encoded = encoder(frames.flatten(0, 1)).unflatten(0, frames.shape[:2])
for time in range(frames.shape[1]):
    state = cell(encoded[:, time], state)
    states.append(state)
decoded = decoder(torch.stack(states, 1).flatten(0, 1))"""),
)

LARGER_BATCHES = remedy(
    "Use the largest batch that fits into memory, and accumulate gradients over fewer of them, or not at all.",
    "Scale the loss and its logging accordingly; layers that normalise over a batch then see more samples.",
    for_pytorch(
        "If memory does not suffice, bfloat16 and checkpointing a few layers make room for a larger batch."
    ),
    code=for_pytorch("""loader = DataLoader(dataset, batch_size=128)  # instead of 8 batches of 16
loss = criterion(model(batch), target)
loss.backward()
optimizer.step()"""),
)

PIECES_TOGETHER = remedy(
    "Stack as many pieces as fit into memory, and run the model once for all of them; the last batch may be smaller.",
    for_pytorch("Libraries that work in tiles have an option for it, such as sw_batch_size in MONAI."),
    code=for_pytorch("""for some in corners.split(16):                      # instead of one corner at a time
    tiles = torch.stack([picture[:, y:y + size, x:x + size] for y, x in some.tolist()])
    scores = model(tiles)"""),
)
INPUTS_PADDED = remedy(
    "Pad the inputs to the longest of them, run the model once for all, and cut the results to their lengths.",
    "If lengths differ much, sort the inputs first and pad groups of similar length, as many as fit into memory.",
    for_pytorch(
        "Layers that look at more than one position need a mask, such as attention_mask; convolutions see zeros there, "
        "as at an edge."
    ),
    code=for_pytorch("""lengths = [len(x) for x in inputs]
batch = torch.nn.utils.rnn.pad_sequence(inputs, batch_first=True).to("cuda")
outputs = model(batch).cpu()                          # one call and one copy, instead of one for each input
results = [y[:n] for y, n in zip(outputs, lengths)]"""),
)
