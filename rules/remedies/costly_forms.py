"""Operators that compute, copy or read more than a program needs, and what to call instead."""

from __future__ import annotations

from rules.remedies.remedy import Remedy, pytorch_remedy, remedy
from rules.wording.words import for_pytorch

_OF_INTEGERS = pytorch_remedy(
    "Convert to float32 before the product, and back after it: counts up to 16.7 million stay exact, in float64 up "
    "to 9e15.",
    "Counting how often pairs occur needs no product: torch.bincount or index_add_ of the pairs.",
    code="""counts = (m.T.float() @ m.float()).long()      # instead of m.T @ m with integers""",
)
_OF_HALVES = pytorch_remedy(
    "Compute in float32 on this CPU, or in bfloat16 where it has instructions for it (lscpu shows amx_bf16 or "
    "avx512_bf16). float16 is a type for GPUs.",
    code="""model = model.float() if device == "cpu" else model.half()""",
)


def in_a_fast_type(*, integers: bool) -> Remedy:
    """Products in a type that the CPU has fast code for."""
    return _OF_INTEGERS if integers else _OF_HALVES


SOLVE_INSTEAD = pytorch_remedy(
    "Solve for the vectors that the inverse is multiplied by: torch.linalg.solve, and for a symmetric positive "
    "definite matrix, such as a covariance, torch.linalg.cholesky and torch.cholesky_solve.",
    "The same Cholesky factor gives the logarithm of the determinant: twice the sum of its diagonal's logarithms.",
    code="""factor = torch.linalg.cholesky(k)
x = torch.cholesky_solve(y[:, None], factor)   # instead of torch.inverse(k) @ y
logdet = 2 * factor.diagonal().log().sum()     # instead of torch.logdet(k)""",
)
NO_FULL_MATRICES = pytorch_remedy(
    "Pass full_matrices=False: the vectors left out belong to no singular value. torch.linalg.svd computes them "
    "unless it is told not to.",
    "For a few components of a tall matrix, torch.svd_lowrank, or torch.linalg.eigh of x.T @ x.",
    code="""u, s, vh = torch.linalg.svd(x, full_matrices=False)""",
)
ROUND_LENGTHS = remedy(
    "Transforms are fast for lengths that are products of 2, 3, 5 and 7; others, above all prime ones, go a long way "
    "round.",
    "Where zeros are added anyway, as for a convolution, add them up to the next such length; else choose a grid of "
    "such a size.",
    code=for_pytorch("""length = scipy.fft.next_fast_len(n + k - 1, real=True)        # 1080 instead of 1051
spectrum = torch.fft.rfft2(picture, s=(length, length))        # zeros are added; cut the result as before"""),
)
REAL_TRANSFORMS = pytorch_remedy(
    "Call rfft2 instead of fft2 for real numbers, and irfft2 instead of the real part of ifft2 (also rfft, rfftn): "
    "they compute and keep one half of the spectrum, which determines the other.",
    "What multiplies the spectrum then takes half as much, too. Cut filters and weights to n // 2 + 1 along the last "
    "dimension.",
    code="""spectrum = torch.fft.rfft2(x)                            # not fft2(x)
y = torch.fft.irfft2(spectrum * filter[..., : n // 2 + 1], s=x.shape[-2:])     # not ifft2(...).real""",
)
JOIN_ONCE = remedy(
    "Collect the parts in a list and join them once behind the loop, or write them into a tensor that is made before "
    "it.",
    code=for_pytorch("""parts = []
for step in range(steps):
    parts.append(advance())
path = torch.cat(parts, 1)                        # instead of path = torch.cat((path, part), 1) in the loop"""),
)
NORMALISE_ONCE = pytorch_remedy(
    "Compute the weights once for all calls of a step: torch.nn.utils.parametrize.cached() around the loop.",
    "Outside training, torch.nn.utils.parametrize.remove_parametrizations keeps the result.",
    code="""with torch.nn.utils.parametrize.cached():
    for x in inputs:
        h = cell(x, h)""",
)
ONE_MODEL = remedy(
    for_pytorch(
        "Use one model for all calls: a module in eval mode changes nothing when it is called, so that threads can "
        "share it."
    ),
    "If each user needs weights of its own, copy them when the user comes, not with every call.",
    code=for_pytorch("""model.eval()
with torch.inference_mode():
    answers = model(batch)                        # instead of copy.deepcopy(model)(batch)"""),
)
ROWS_IN_ORDER = pytorch_remedy(
    "Keep what is picked together side by side, a sample in a row: turn the table once, and pick rows.",
    "If it has to stay as it is, torch.index_select is quicker than an index in brackets.",
    code="""rows = table.T.contiguous()                       # once
x = rows[picked]                                  # instead of table[:, picked].T""",
)


DISTANCES_BY_PRODUCT = pytorch_remedy(
    "The square of a difference is the sum of both squares less twice the product: one matrix product "
    "and two short sums, and no tensor of all differences.",
    "torch.cdist does it in one call, for the 1-norm as well. Products are x @ y.T; angles are that of rows of length "
    "1: F.normalize(x) @ F.normalize(y).T.",
    code="""squares = x.square().sum(1, keepdim=True) + y.square().sum(1) - 2 * x @ y.T
# or torch.cdist(x, y), instead of ((x[:, None] - y[None]) ** 2).sum(-1)""",
)


ROWS_BY_INDEX = pytorch_remedy(
    "Index the matrix: weight[ids], F.embedding(ids, weight) or nn.Embedding. A product with one-hot vectors "
    "multiplies all of it by zeros, and its gradient does so again.",
    "A mean or a sum over several ids is nn.EmbeddingBag, and a loss takes ids themselves: F.cross_entropy(scores, "
    "ids).",
    code="""rows = F.embedding(ids, weight)   # instead of F.one_hot(ids, len(weight)).float() @ weight""",
)


BUILT_ONCE = remedy(
    "Build what follows from sizes alone once, where the model is made, and keep it; a new size makes a new one.",
    for_pytorch(
        "Keep it in a buffer of the module, so that it moves to the GPU with the model: "
        "self.register_buffer('positions', table, persistent=False)."
    ),
    for_pytorch(
        "If the sizes change, keep one for each size: functools.cache on a function of sizes and device."
    ),
    code=for_pytorch("""class Block(nn.Module):
    def __init__(self, length):
        super().__init__()
        mask = torch.full((length, length), float("-inf")).triu(1)    # once, not in forward
        self.register_buffer("mask", mask, persistent=False)"""),
)


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

SPARSE_PRODUCT = remedy(
    "Adding up the rows of neighbours is a product with a sparse matrix: it reads their rows, and writes none for each "
    "edge.",
    "Keep the matrix by rows (CSR). The gradient is a product with its transpose: keep that as well, which for a graph "
    "whose edges go both ways is the same.",
    for_pytorch(
        "In PyTorch Geometric, layers take a SparseTensor in place of edge_index, and fuse both steps."
    ),
    code=for_pytorch("""graph = torch.sparse_csr_tensor(first_edge, source, weight, (n, n))    # once
out = graph @ x                # instead of out.index_add_(0, target, x[source] * weight[:, None])"""),
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
