"""Rows that are gathered, drawn, picked or added up by an index."""

from __future__ import annotations

from rules.remedies.remedy import pytorch_remedy, remedy
from rules.wording.words import for_pytorch

MULTIPLY_FIRST = remedy(
    "Multiply the rows first, and gather the products: there are fewer rows than places where they are used.",
    "A layer on rows that stand beside one another is a sum of layers: cut its weights by columns, one part for each.",
    for_pytorch("The parameters stay as they are, so that checkpoints still load."),
    code=for_pytorch("""a, b = layer.weight.chunk(2, dim=1)           # of nn.Linear(2 * width, out)
message = F.linear(x, a, layer.bias)[source] + F.linear(x, b)[target]
# instead of layer(torch.cat([x[source], x[target]], dim=1)); for x[target] - x[source], a - b is the first part"""),
)

RUN_FIRST = remedy(
    "Run the network once for each row, such as a frame, and gather what it returns: overlapping clips, windows or "
    "pairs then share it.",
    for_pytorch("In a stream, keep the features of the last frames, and compute only those of new ones."),
    code=for_pytorch(
        """features = backbone(frames)[index]            # instead of backbone(frames[index])"""
    ),
)

DRAW_FEW = remedy(
    for_pytorch(
        "torch.randint draws as many as are needed; among so many that one comes twice hardly ever matters."
    ),
    "Where each has to come once in a pass over the data, shuffle once a pass, and take the next ones in each step.",
    code=for_pytorch("""picked = torch.randint(count, (batch,), device=device)  # for torch.randperm(count)[:batch]

# or, each once:
if at + batch > count:
    order, at = torch.randperm(count, device=device), 0
picked, at = order[at : at + batch], at + batch"""),
)

PICK_WITHOUT_SORTING = pytorch_remedy(
    "torch.topk finds the first values in one pass, torch.kthvalue a single one.",
    code="""best = scores.topk(50).indices        # instead of scores.argsort(descending=True)[:, :50]
middle = values.kthvalue(n // 2).values  # instead of values.sort().values[:, n // 2]""",
)

ADD_BY_INDEX = remedy(
    for_pytorch(
        "index_add_ adds rows at their places without sorting; scatter_add_ and scatter_reduce_ do so for single "
        "numbers."
    ),
    for_pytorch(
        "In a backward pass this is the gradient of x[index]: x.index_select(0, index) has the cheaper one, and so has "
        "torch.gather."
    ),
    "The order of the sum is then no longer fixed: results differ in their last digits from run to run.",
    code=for_pytorch("""out.index_add_(0, index, values)     # for out.index_put_((index,), values, accumulate=True)
rows = x.index_select(0, index)      # for x[index], where gradients flow back into x"""),
)
