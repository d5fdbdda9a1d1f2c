"""Which family a GPU kernel belongs to, whether it uses tensor cores, and on which data type, by its name."""

from __future__ import annotations

import re
from enum import IntEnum
from functools import cache, lru_cache

from parsers.model.late import dataclass, regex
from parsers.model.names.collectives import is_collective_kernel
from parsers.model.names.mangled import without_parameters
from rules.analysis.names.patterns import Found, NamePatterns


class Family(IntEnum):
    """Families of GPU work; ``label`` is what the window says."""

    OTHER = 0
    GEMM = 1
    CONVOLUTION = 2
    ATTENTION = 3
    NORMALISATION = 4
    SOFTMAX = 5
    ELEMENTWISE = 6
    REDUCTION = 7
    COPY_CAST = 8
    LAYOUT = 9
    EMBEDDING = 10
    SORT = 11
    RANDOM = 12
    OPTIMIZER = 13
    COLLECTIVE = 14
    MEMSET = 15
    COPY = 16
    TRITON = 17

    @property
    def label(self) -> str:
        return _LABELS[self]


_LABELS = {
    Family.OTHER: "other",
    Family.GEMM: "matrix product",
    Family.CONVOLUTION: "convolution",
    Family.ATTENTION: "attention",
    Family.NORMALISATION: "normalisation",
    Family.SOFTMAX: "softmax",
    Family.ELEMENTWISE: "elementwise",
    Family.REDUCTION: "reduction",
    Family.COPY_CAST: "copy or cast",
    Family.LAYOUT: "layout conversion",
    Family.EMBEDDING: "embedding, gather, scatter",
    Family.SORT: "sort and select",
    Family.RANDOM: "random numbers",
    Family.OPTIMIZER: "optimizer",
    Family.COLLECTIVE: "communication",
    Family.MEMSET: "memset",
    Family.COPY: "memory copy",
    Family.TRITON: "compiled (Triton)",
}


@dataclass(frozen=True, slots=True)
class KernelClass:
    """``tensor_core``: True or False where the name tells, else None. ``dtype``: "fp32", "bf16", ... or None."""

    family: Family
    tensor_core: bool | None = None
    dtype: str | None = None


_FAMILIES = (
    (Family.MEMSET, r"^(gpu )?memset|^\[cuda memset\]|fillbuffer|^hipMemset"),
    (Family.COPY, r"^(gpu )?memcpy|^\[cuda memcpy|^copy(host|device)to|__amd_rocclr_copybuffer|^hipMemcpy"),
    (
        Family.TRITON,
        r"^triton_(poi|red|per|for|spl)_|^triton__|^triton_(?!.*(mm|gemm|matmul|attention|attn))",
    ),
    (Family.CONVOLUTION, r"implicitgemmconv|im2col|im2d2col|col2im|col2im2d"),
    (Family.RANDOM, r"philox"),
    (
        Family.EMBEDDING,
        r"fbgemm|split_embedding|permute_(1d|2d|pooled|tokens|multi)|(moe|expert|token)\w*permute|permute\w*(moe|expert|token)|"
        r"bucketize|linearize_|jagged|krn_partial|compute_grad_weight|num_of_partial_segments|moe::dev::finalize",
    ),
    (
        Family.COPY_CAST,
        r"subtensorop\w*cast|reshape_and_cache|store_?kv_?cache|concat_and_cache|(copy|swap)_blocks|"
        r"cast_transpose|(fp8|float8|e4m3)\w*transpose|transpose\w*(fp8|float8|e4m3)|transformer_engine::\w*transpose|"
        r"addpaddingkernel",
    ),
    (Family.ELEMENTWISE, r"subtensorop|rotary|quantize_with"),
    (
        Family.LAYOUT,
        r"nchw_?(to|2)_?\w*nhwc|nhwc_?(to|2)_?\w*nchw|cnhw2nchw|nchw2cnhw|batched_transpose|tensortransform|converttensor|"
        r"(?<!bias_)transpose_(kernel|readwrite)|(?<!no)permute|nhwc2nchw|nchw2nhwc|cudnn.*transpose|miopen.*transpose|"
        r"transpose_packed",
    ),
    (
        Family.ATTENTION,
        r"flash|fmha|attention|sdpa|attn|mha_(fwd|bwd)|paged_kv|mla_(decode|prefill)|splitkv|compute_dot_do_o|convert_dq",
    ),
    (
        Family.OPTIMIZER,
        r"multi_tensor_apply|fused_?(adam|sgd|lamb|optimizer|adagrad)|multi_tensor_(l2norm|scale|axpby)|adamw?_kernel|"
        r"lamb_stage|distributed_fused_adam|amp_(foreach|update)|\bsgd_",
    ),
    (
        Family.NORMALISATION,
        r"(layer|batch|group|instance|rms)_?norm|gammabeta|(?<![a-z_])bn_(fw|bw)|rowwisemoments|welford(?!ops)|"
        r"norm_(fwd|bwd)|ln_(fwd|bwd)|t5layernorm|miopenbatchnorm|add_rmsnorm|fused_add_norm",
    ),
    (Family.SORT, r"moe::dev::routing|routingindices"),  # the softmax of its scores is a parameter
    (Family.SOFTMAX, r"soft_?max"),
    (
        Family.CONVOLUTION,
        r"conv(?!ert)|fprop|dgrad|wgrad|winograd|scudnn|hcudnn|implicit_?gemm|_cudnn(_|$)|igemm_(fwd|bwd|wrw)|miopen_?sp3|"
        r"cudnn_(infer|train)|gemm_fwd_fft|fft2d_|cask_",
    ),
    (
        Family.SORT,
        r"sort|radix|top_?k|bitonic|deviceselect|devicescan|sampling|unique_|histogram|find_seg|scan_by_key|"
        r"devicecompact|lookback_scan|(in|ex)clusive_\w*scan|_scan_blocked|partition_kernel|::partition|routing",
    ),
    (
        Family.EMBEDDING,
        r"embedding|index_?(select|put|add|copy|fill|elementwise|kernel)|indexing_backward|gather|scatter|take_along|"
        r"lookup|masked_scatter",
    ),
    (
        Family.GEMM,
        r"gemm|gemv|nvjet|cutlass.*kernel|cutlass_|matmul|(^|_)b?mm(_|\d|$)|^bmm|cijk_|splitk_?reduce|cublas|"
        r"^triton_.*(mm|gemm|matmul)|tinygemm|marlin|machete|ampere_\w*gemm|deep_?gemm|trsm|syrk|grouped_mm|moe_kernel|"
        r"fused_moe|matmul_ogs",
    ),
    (
        Family.RANDOM,  # "random" alone is also what walks, forests and simulations are called
        r"distribution_|curand|hiprand|rocrand|bernoulli|multinomial|randperm|(fill|gen|generate|init|make)_?random|"
        r"random_?(from|full|kernel|uniform|normal|int|number|bits|value|fill|gen|init|state|vector|matrix|array)",
    ),
    (
        Family.COPY_CAST,
        r"direct_copy|(bfloat16|float8|float16|half)\w*_copy|copy_kernel|catarray|concat|split_with_sizes_copy|"
        r"chunk_cat|cast_kernel|convert_kernel|copyplanar|fusedcopy|stack_kernel|devicememcpy|cupy_copy|"
        r"^(loop|wrapped)_(copy|convert|transpose|concatenate)",
    ),
    (
        Family.REDUCTION,
        r"reduce|reduction|dot_kernel|argm(ax|in)|nll_loss|cross_entropy|cumsum|cumprod|norm_kernel|sum_kernel|logsumexp",
    ),
    (
        Family.ELEMENTWISE,
        r"element_?wise|pointwise|dropout|functor|unaryop|binaryop|scale|gelu|silu|relu|sigmoid|tanh|act_and_mul|swiglu|"
        r"rope|masked_fill|threshold|tril|triu|roll_cuda|arange|add_kernel|mul_kernel|fill_kernel|where_kernel|pool|"
        r"upsample|optensor|cudnn::ops|quantize|add_\w*bias|^cupy_|^(loop|wrapped)_\w*fusion",
    ),
)
_TENSOR_CORE = (
    r"tensorop|wgmma|gmma|hmma|imma|nvjet|_mma(_|\d|16)|tensor\d+x\d+x\d+|[sdhi](884|1688|16816|16832|16864)|warpgroup|"
    r"_tf32|_MI\d+x\d+|xmma_(?!.*ffma).*(f16|bf16|tf32|i8|e4m3|e5m2)|utcmma|tcgen05|sm100f|bmm_(bfloat16|mxe|e4m3)|"
    r"mfma|xdlops|wmma|turing_fp16|volta_fp16_s?884|_h?884"
)
_NO_TENSOR_CORE = (
    r"ffma|simt|volta_s?gemm|maxwell|sgemm(?!.*(tensorop|1688|884))|dgemm(?!.*884)|scudnn(?!.*(1688|884))|dfma|hfma|"
    r"(dgrad|fprop|wgrad)\w*_engine<float|implicit_convolve_sgemm|winograd|fft2d|gemm_fwd_fft|gcn\w*conv|naive_conv"
)
_DTYPES = (
    ("fp4", r"e2m1|fp4|FP4|mxf4"),  # float4 is four numbers of CUDA's float
    ("fp8", r"e4m3|e5m2|float8|fp8|FP8|Float8|nvjet_(?:sm\d+_)?q[a-z]{2}_"),
    (
        "tf32",
        r"tf32|tensorop_s1688(?!gemm_(bf16|f16|fp16))\w*gemm(?!_(bf16|f16|fp16))|nvjet_(?:sm\d+_)?s[a-z]{2}_",
    ),
    ("bf16", r"bf16|[bB][fF]loat16|nvjet_(?:sm\d+_)?t[a-z]{2}_|Cijk_\w+_BBS|_BB_|bfloat"),
    (
        "fp16",
        r"f16|fp16|\b_Float16\b|[hH]alf|nvjet_(?:sm\d+_)?h[a-z]{2}_|hgemm|h884|h1688|s16816gemm_f16|hcudnn|Cijk_\w+_HHS",
    ),
    ("int8", r"(?<![A-Za-z])i8(?!\d)|i8i8|int8|imma|(?<![A-Za-z])s8(?!\d)"),
    ("fp64", r"double|float64|dgemm|d884|(?<![a-z])f64|nvjet_(?:sm\d+_)?d[a-z]{2}_|Cijk_\w+_DB"),
    ("fp32", r"f32|float|sgemm|scudnn|fp32|Cijk_\w+_SB|s_nn|s_nt|s_tn"),
)
_SINGLE = regex(r"\bfloat\b")
_DOUBLE = regex(r"double|f64", re.IGNORECASE)
_BARE_TF32 = r"tensorop_(?!\w*(bf16|f16|i8|s8))s1688"
_VECTOR_PRODUCT = r"gemv|dot_kernel|splitk_?reduce|gemmSN|gemmk1"
_BRACKET = regex(r"[<>()]")
_NO_ARGUMENTS = ("(anonymous", "(int)", "(bool)")
_MATRIX = (Family.GEMM, Family.CONVOLUTION)
_OF_FAMILIES = range(len(_FAMILIES))
_OF_DTYPES = range(len(_FAMILIES), len(_FAMILIES) + 1 + len(_DTYPES))
_DTYPE_NAMES = ("tf32", *(dtype for dtype, _ in _DTYPES))
_IS_VECTOR_PRODUCT, _HAS_NO_TENSOR_CORE, _HAS_TENSOR_CORE = range(_OF_DTYPES.stop, _OF_DTYPES.stop + 3)


@cache
def _by_number() -> NamePatterns:
    """Compiled with the first name: a window without a recording needs none."""
    return NamePatterns(
        [
            *((pattern, re.IGNORECASE) for _, pattern in _FAMILIES),
            *((pattern, 0) for pattern in (_BARE_TF32, *(pattern for _, pattern in _DTYPES))),
            *((pattern, re.IGNORECASE) for pattern in (_VECTOR_PRODUCT, _NO_TENSOR_CORE, _TENSOR_CORE)),
        ]
    )


@lru_cache(maxsize=65536)
def classify(name: str) -> KernelClass:
    """Family, tensor-core use and data type of a GPU operation's name."""
    if not name.isascii():
        return _classified(name, name)
    alike = _by_number().alike
    return _classified(alike(name), alike(without_parameters(name)))


@lru_cache(maxsize=65536)
def _classified(name: str, plain: str) -> KernelClass:
    """``plain`` is the name without the parameters that a compiler mangled into it."""
    patterns = _by_number()
    found = patterns.read(name)
    if is_collective_kernel(name):
        return KernelClass(Family.COLLECTIVE, None, _dtype(found))
    essence = _essence(plain)
    family = _family(found if essence == name else patterns.read(essence))
    return KernelClass(family, _tensor_core(found) if family in _MATRIX else None, _dtype(found))


def _family(found: Found) -> Family:
    number = found.first(_OF_FAMILIES)
    return _FAMILIES[number][0] if number >= 0 else Family.OTHER


def _essence(name: str) -> str:
    """The name without its argument list, whose types would mislead; templates stay, they say what it computes."""
    if name.startswith(("Memcpy", "Memset", "[CUDA")):
        return name
    templates = parentheses = 0
    for bracket in _BRACKET.finditer(name):
        place, letter = bracket.start(), bracket[0]
        if letter == "(":
            if not templates + parentheses and place and not name.startswith(_NO_ARGUMENTS, place):
                return name[:place]
            parentheses += 1
        elif letter == ")":
            parentheses -= 1
        elif not parentheses:  # else it compares two numbers
            templates += 1 if letter == "<" else -1
    return name


def _tensor_core(found: Found) -> bool | None:
    if _IS_VECTOR_PRODUCT in found:
        return None
    if _HAS_NO_TENSOR_CORE in found:
        return False
    return True if _HAS_TENSOR_CORE in found else None


def _dtype(found: Found) -> str | None:
    number = found.first(_OF_DTYPES)
    if number < 0:
        return None
    dtype = _DTYPE_NAMES[number - _OF_DTYPES.start]
    if dtype == "fp64":  # a step size or a scale may be double; what a kernel works on is named first
        single, double = _SINGLE.search(found.name), _DOUBLE.search(found.name)
        if single and double and single.start() < double.start():
            return "fp32"
    return dtype


_VECTOR = regex(r"gemv|dot_kernel|gemmSN|reduce_1Block", re.IGNORECASE)


def is_product_with_a_vector(name: str) -> bool:
    """Whether a kernel multiplies a matrix, or a vector, by a vector: memory limits it, not the arithmetic units."""
    return _VECTOR.search(name) is not None


def is_depthwise(name: str) -> bool:
    """Whether a kernel convolves each channel with a filter of its own: no matrix product can do that."""
    return "depthwise" in name
