"""Chains of kernels on as many elements, which their blocks tell, and the distances that some of them compute."""

from __future__ import annotations

import numpy as np
import pytest

from parsers.model import Trace
from parsers.model.late import dataclass
from rules.fixes.plan import Promise
from rules.kernels.launched_elements import reduced_chains, summed_differences
from rules.kernels.pair_distances import MIN_DIMENSIONS
from tests.rules.builder import TinyTrace, steps
from tests.rules.test_fixes import plan_of_body

SUBTRACTS = "void at::native::elementwise_kernel<(int)128, (int)2, gpu_kernel_impl_nocast<CUDAFunctor_add<float>>>(int)"
MULTIPLIES = "void at::native::elementwise_kernel<128, 2, gpu_kernel_impl_nocast<MulFunctor<float>>>(int)"
SQUARES = "void at::native::vectorized_elementwise_kernel<4, pow_tensor_scalar_kernel_impl<float>>(int)"
SUMS = "void at::native::reduce_kernel<(int)512, (int)1, ReduceOp<float, func_wrapper_t<sum_functor<float>>>>(T3)"
NORMS = "void at::native::reduce_kernel<512, 1, ReduceOp<float, NormTwoOps<float>>>(T3)"
MEANS = "void at::native::reduce_kernel<512, 1, ReduceOp<float, MeanOps<float>>>(T3)"
OTHER = "void some_other_kernel"


@dataclass(frozen=True)
class Chain:
    """64 x 65,536 differences of 32 dimensions: each kernel takes 100 us; what is beside them takes the rest."""

    elements: int = 64 * 65_536 * 32
    dimensions: float = 32
    squared: tuple[str, ...] = (SQUARES,)
    squared_elements: int = 0
    first: str = SUBTRACTS
    last: str = SUMS
    in_a_block: int = 1024
    beside_us: float = 200.0
    shapes: bool = False

    def body(self, trace: TinyTrace, _: int) -> None:
        at, number = 10.0, 0
        if self.shapes:
            trace.shapes(trace.op(0, 1, "aten::relu"), [[8, 8]], ["float"])
        else:
            trace.region(0, 1, "step")

        def run(name: str, us: float, blocks: int = 1, rows: int = 1) -> None:
            nonlocal at, number
            shape = {"grid_shape": f"{blocks},1,1", "block_shape": f"32,{rows},1"}
            trace.operation(at, at + us, name, 2 + 6 * number, grid=blocks, **shape)
            at, number = at + us, number + 1

        run(self.first, 100.0, -(-self.elements // 256))
        for name in self.squared:
            block = 256 if name == MULTIPLIES else self.in_a_block
            run(name, 100.0, -(-(self.squared_elements or self.elements) // block))
        run(self.last, 100.0, round(self.elements / self.dimensions / 16), 16)
        for _place in range(20):
            run(OTHER, self.beside_us / 20)
        trace.call(6 * number + 4, max(at, 6 * number + 10) + 5, "cudaDeviceSynchronize")

    @property
    def length_us(self) -> float:
        return 100 + 100 * (2 + len(self.squared)) + self.beside_us

    def trace(self) -> Trace:
        return steps(5, self.length_us, self.body).build()

    def promises(self) -> list[Promise]:
        made = plan_of_body(self.body, length=self.length_us, into=TinyTrace())
        assert made.crashed == ()
        return [each for each in made.promises if each.proposal.fix == "multiply-for-distances"]


@pytest.mark.parametrize(
    ("chain", "length"),
    [
        (Chain(), 3),
        (Chain(in_a_block=512), 3),
        (Chain(in_a_block=768), 0),
        (Chain(squared_elements=64 * 65_536 * 33), 0),
        (Chain(squared=()), 0),
        (Chain(squared=(MULTIPLIES,)), 3),
        (Chain(first=SQUARES), 0),
        (Chain(last=MEANS), 3),
        (Chain(last=OTHER), 0),
        (Chain(squared=(OTHER,)), 0),
        (Chain(squared=(SQUARES,) * 5), 7),
        (Chain(squared=(SQUARES,) * 6), 0),
        (Chain(elements=1_000_192, dimensions=8), 3),
        (Chain(elements=999_936, dimensions=8), 0),
    ],
    ids=[
        "1,024 in a block",
        "512 in a block",
        "no usual block",
        "of another tensor",
        "no kernel between",
        "another that reads along strides",
        "none that does",
        "a mean",
        "not reduced",
        "another kernel between",
        "five between",
        "six between",
        "a million elements",
        "fewer",
    ],
)
def test_chains_on_as_many_elements_that_are_reduced(chain: Chain, length: int) -> None:
    trace = chain.trace()
    found = reduced_chains(trace)
    assert len(found) == 5 * length
    assert not any(trace.name(each) == OTHER for each in found.tolist())
    assert (np.diff(found) > 0).all()


@pytest.mark.parametrize(
    ("chain", "dimensions"),
    [
        (Chain(), 32),
        (Chain(squared=(), last=NORMS), 32),
        (Chain(dimensions=8), 8),
        (Chain(dimensions=7), 0),
        (Chain(dimensions=8.3), 0),
        (Chain(last=MEANS), 0),
        (Chain(squared=(SQUARES, SQUARES)), 0),
        (Chain(first=MULTIPLIES), 0),
    ],
    ids=[
        "summed",
        "a norm",
        "8",
        "7",
        "no whole number",
        "a mean: of a variance",
        "more between",
        "products",
    ],
)
def test_differences_are_of_as_many_dimensions_as_each_sum_has(chain: Chain, dimensions: int) -> None:
    found = summed_differences(chain.trace(), MIN_DIMENSIONS)
    assert found.dimensions == dimensions
    assert len(found.kernels) == (5 * (2 + len(chain.squared)) if dimensions else 0)


@pytest.mark.parametrize(
    ("chain", "found"),
    [(Chain(beside_us=890), True), (Chain(beside_us=910), False), (Chain(shapes=True), False)],
    ids=["a quarter of the GPU's time", "less", "shapes say otherwise"],
)
def test_without_shapes_distances_are_told_where_they_take_a_quarter_of_the_gpus_time(
    chain: Chain, found: bool
) -> None:
    assert bool(chain.promises()) is found


def test_whether_all_pairs_are_meant_is_not_known_without_shapes() -> None:
    (made,) = Chain().promises()
    assert made.low == pytest.approx(1.0, abs=0.01)
    assert made.expected > 1.5
    assert "all pairs" in made.proposal.depends_on
