"""Rows of a matrix that are looked up."""

from __future__ import annotations

from rules.remedies.remedy import pytorch_remedy

ROWS_BY_INDEX = pytorch_remedy(
    "Index the matrix: weight[ids], F.embedding(ids, weight) or nn.Embedding. A product with one-hot vectors "
    "multiplies all of it by zeros, and its gradient does so again.",
    "A mean or a sum over several ids is nn.EmbeddingBag, and a loss takes ids themselves: F.cross_entropy(scores, "
    "ids).",
    code="""rows = F.embedding(ids, weight)   # instead of F.one_hot(ids, len(weight)).float() @ weight""",
)
