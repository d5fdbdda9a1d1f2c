"""Kernels of the libraries in use are recognised by name: family, tensor cores, data type."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from parsers.model import TraceError
from rules.analysis.names.families import Family, classify
from tests.opened import opened

NAMES = [
    (
        "void moe::dev::routing::routingIndicesCoopKernel<KernelParams<TopKExpertSelect<SoftmaxPostprocess> > >(P)",
        Family.SORT,
        None,
        None,
    ),
    ("softmax_warp_forward", Family.SOFTMAX, None, None),
    ("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT", Family.GEMM, True, "bf16"),
    ("nvjet_tst_192x192_64x4_2x1_v_bz_coopB_bias_TNN", Family.GEMM, True, "bf16"),
    ("nvjet_hsh_128x256_64x4_2x1_v_bz_TNT", Family.GEMM, True, "fp16"),
    (
        "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize256x128x8_stage3_warpsize4x2x1_ffma_aligna4",
        Family.GEMM,
        False,
        "fp32",
    ),
    (
        "sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32_stage3_warpsize2x2x1_tensor16x8x8",
        Family.GEMM,
        True,
        "tf32",
    ),
    (
        "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x256_8x4_nt_align1>(Params)",
        Family.GEMM,
        False,
        "fp32",
    ),
    (
        "void cutlass::Kernel2<cutlass_80_tensorop_f16_s16816gemm_f16_256x128_32x3_nn_align2>(Params)",
        Family.GEMM,
        True,
        "fp16",
    ),
    (
        "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x64_16x6_tn_align4>(Params)",
        Family.GEMM,
        True,
        "tf32",
    ),
    ("volta_sgemm_64x64_nt", Family.GEMM, False, "fp32"),
    ("_Z29ncclAllReduceRingKernel_sum_f8ncclColl", Family.COLLECTIVE, None, None),
    ("_Z9exchange18ncclDataOfExchange", Family.OTHER, None, None),
    ("ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_64x3_nn", Family.GEMM, True, "fp16"),
    (
        "void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16>(args)",
        Family.GEMM,
        None,
        "bf16",
    ),
    (
        "void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false>(args)",
        Family.GEMM,
        None,
        "fp32",
    ),
    (
        "void dot_kernel<double>(double const *, double const *, double*, unsigned int)",
        Family.REDUCTION,
        None,
        "fp64",
    ),
    (
        "void dot_kernel<float, 128, 0, cublasDotParams<cublasGemvTensor<float const>>>(args)",
        Family.GEMM,
        None,
        "fp32",
    ),
    (
        "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x192x64_MI16x16x1_SN_LDSB1",
        Family.GEMM,
        True,
        "bf16",
    ),
    (
        "sm90_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x128x64_warpgroupsize1x1x1_g1_execute",
        Family.CONVOLUTION,
        True,
        "fp16",
    ),
    ("cudnn_infer_volta_scudnn_128x64_relu_medium_nn_v1", Family.CONVOLUTION, False, "fp32"),
    (
        "void cudnn::detail::dgrad_engine<float, 512, 6, 5, 3, 3, 3, false>(int)",
        Family.CONVOLUTION,
        False,
        "fp32",
    ),
    (
        "void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>(params)",
        Family.CONVOLUTION,
        False,
        "fp32",
    ),
    ("miopenSp3AsmConv_v30_3_1_gfx9_fp32_f3x2_stride1", Family.CONVOLUTION, None, "fp32"),
    (
        "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, cutlass::bfloat16_t>>(params)",
        Family.ATTENTION,
        None,
        "bf16",
    ),
    (
        "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_4x1x1",
        Family.ATTENTION,
        None,
        "fp16",
    ),
    ("fmha_cutlassF_f32_aligned_32x128_gmem_sm80(Params)", Family.ATTENTION, None, "fp32"),
    ("attn_fwd", Family.ATTENTION, None, None),
    (
        "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float, false>(int)",
        Family.NORMALISATION,
        None,
        "bf16",
    ),
    ("_ZN5cudnn25bn_fw_tr_1C11_kernel_NCHWIffiLi128ELb1ELi1ELb1EEEvT_", Family.NORMALISATION, None, None),
    ("made_by_bn_fw_maker", Family.OTHER, None, None),
    (
        "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512, true, 1, true>(args)",
        Family.NORMALISATION,
        None,
        "fp32",
    ),
    ("void vllm::rms_norm_kernel<c10::BFloat16>(args)", Family.NORMALISATION, None, "bf16"),
    (
        "void (anonymous namespace)::softmax_warp_forward<float, float, float, 11, false, false>(args)",
        Family.SOFTMAX,
        None,
        "fp32",
    ),
    (
        "void at::native::vectorized_elementwise_kernel<8, at::native::GeluCUDAKernelImpl(Iterator&)>(int)",
        Family.ELEMENTWISE,
        None,
        None,
    ),
    (
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float> > >(args)",
        Family.REDUCTION,
        None,
        "fp32",
    ),
    (
        "void at::native::vectorized_elementwise_kernel<8, at::native::bfloat16_copy_kernel_cuda(Iterator&)>(int)",
        Family.COPY_CAST,
        None,
        None,
    ),
    (
        "void at::native::(anonymous namespace)::CatArrayBatchedCopy<OpaqueType<2u>, unsigned int, 4, 64, 64>(args)",
        Family.COPY_CAST,
        None,
        None,
    ),
    (
        "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true, (cudnnKernelDataType_t)2>(args)",
        Family.LAYOUT,
        None,
        "fp32",
    ),
    ("batched_transpose_32x32_half", Family.LAYOUT, None, "fp16"),
    (
        "void add_fusedQKV_bias_transpose_kernel<__half>(__half*, __half*, __half*)",
        Family.ELEMENTWISE,
        None,
        "fp16",
    ),
    ("SubTensorOpWithCastTensor1d", Family.COPY_CAST, None, None),
    (
        "void at::native::(anonymous namespace)::indexSelectLargeIndex<c10::BFloat16, long>(args)",
        Family.EMBEDDING,
        None,
        "bf16",
    ),
    ("void at::native::vectorized_gather_kernel<16, long>(char*)", Family.EMBEDDING, None, None),
    (
        "void at::native::radixSortKVInPlace<2, -1, 128, 32, float, long, unsigned int>(args)",
        Family.SORT,
        None,
        "fp32",
    ),
    (
        "void at::native::(anonymous namespace)::distribution_elementwise_grid_stride_kernel<float, 4, normal_>(args)",
        Family.RANDOM,
        None,
        "fp32",
    ),
    (
        "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedOptimizerTensorListMetadata<4>>(args)",
        Family.OPTIMIZER,
        None,
        None,
    ),
    (
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        Family.COLLECTIVE,
        None,
        "bf16",
    ),
    ("triton_poi_fused_gelu_view_2", Family.TRITON, None, None),
    ("triton_tem_fused_mm_3", Family.GEMM, None, None),
    ("Memcpy HtoD (Pageable -> Device)", Family.COPY, None, None),
    ("[CUDA memset]", Family.MEMSET, None, None),
    ("Memset (Device)", Family.MEMSET, None, None),
    ("saxpy(double *, double *, double *, double, int)", Family.OTHER, None, "fp64"),
]


@pytest.mark.parametrize(
    ("name", "family", "tensor_core", "dtype"), NAMES, ids=[name[:60] for name, *_ in NAMES]
)
def test_a_kernel_s_name_tells_what_it_is(
    name: str, family: Family, tensor_core: bool | None, dtype: str | None
) -> None:
    known = classify(name)
    assert known.family is family
    assert known.tensor_core is tensor_core
    if dtype is not None:
        assert known.dtype == dtype


OWN_NAMES = list(
    csv.DictReader((Path(__file__).parent.parent / "fixtures" / "kernel_names.csv").read_text().splitlines())
)


def test_each_kernel_of_our_own_recordings_is_known() -> None:
    def told(name: str) -> dict[str, str]:
        known = classify(name)
        tensor_core = {True: "yes", False: "no", None: ""}[known.tensor_core]
        return {"family": known.family.name.lower(), "tensor_core": tensor_core, "dtype": known.dtype or ""}

    assert len(OWN_NAMES) > 500
    assert [row for row in OWN_NAMES if not told(row["name"]).items() <= row.items()] == []


# Parts of names in other people's recordings, and the family of every kernel that has them.
IN_PUBLIC = [
    ("SubTensorOpWithCast", Family.COPY_CAST),
    ("SubTensorOpWithScalar", Family.ELEMENTWISE),
    ("transpose_NCHW2CNHW", Family.LAYOUT),
    ("batched_transpose_", Family.LAYOUT),
    ("fbgemm_gpu::permute", Family.EMBEDDING),
    ("permute_pooled_embs", Family.EMBEDDING),
    ("split_embedding_", Family.EMBEDDING),
    ("bucketize_sparse", Family.EMBEDDING),
    ("triton_poi_fused_addmm", Family.TRITON),
    ("rotary_embedding_kernel", Family.ELEMENTWISE),
    ("reshape_and_cache_flash", Family.COPY_CAST),
    ("store_kvcache", Family.COPY_CAST),
    ("quantize_with_block_size", Family.ELEMENTWISE),
    ("routingIndices", Family.SORT),
    ("moe::dev::finalize", Family.EMBEDDING),
    ("matmul_ogs", Family.GEMM),
    ("bmm_MxE4m3", Family.GEMM),
    ("Cijk_", Family.GEMM),
    ("fmhaSm100a", Family.ATTENTION),
    ("kernel_unified_attention", Family.ATTENTION),
    ("igemm_wrw", Family.CONVOLUTION),
    ("Im2d2Col", Family.CONVOLUTION),
    ("multimem_all_reduce", Family.COLLECTIVE),
    ("ncclKernel", Family.COLLECTIVE),
    ("ncclDevKernel", Family.COLLECTIVE),
    ("cupy_multiply", Family.ELEMENTWISE),
    ("cupy_copy", Family.COPY_CAST),
    ("groupnorm_kernel", Family.NORMALISATION),
    ("fused_add_rms_norm", Family.NORMALISATION),
    ("act_and_mul", Family.ELEMENTWISE),
]


@pytest.fixture(scope="session")
def public_names(shared_data: Path) -> set[str]:
    """The names of GPU operations in all recordings of other people."""
    names: set[str] = set()
    for path in sorted((shared_data / "public").glob("*/*")):
        if path.suffix not in (".gz", ".sqlite", ".rpd"):
            continue
        try:
            trace = opened(path)
        except TraceError:
            continue
        names |= {trace.strings[name] for name in set(trace.events.name[trace.gpu_operations].tolist())}
    return names


@pytest.mark.thorough
def test_kernels_of_other_people_s_recordings_belong_where_an_expert_puts_them(
    public_names: set[str],
) -> None:
    wrong = {
        (part, classify(name).family.name)
        for part, family in IN_PUBLIC
        for name in public_names
        if part in name and classify(name).family is not family
    }
    assert not wrong
    assert all(any(part in name for name in public_names) for part, _ in IN_PUBLIC)


@pytest.mark.parametrize(
    "name",
    [
        "void dpsk::ep::internode::combine<4, nv_bfloat16>(int4*, float*)",
        "void dpsk::ep::internode::dispatch<false, 4, false>(int4*)",
        "void deep_ep::intranode::cached_notify_combine<8>(void**)",
        "void dpsk::ep::internode::cached_notify<false>(int)",
        "nvshmemi_transfer_rma",
        "void vllm::cross_device_reduce_2stage<nv_bfloat16, 8>(vllm::RankData*)",
        "void aiter::allreduce_fusion_kernel_1stage<bf16, 8>(int)",
        "void quickreduce::allreduce_prototype_twoshot<bf16>(int)",
        "void tensorrt_llm::kernels::mnnvl::twoshot_allreduce_kernel<8, bf16>(int)",
        "void userbuffers_fp16_sum_inplace_gpu_rr_rs<4>(int)",
        "one_shot_all_reduce_kernel",
    ],
)
def test_libraries_of_experts_and_custom_all_reduces_communicate(name: str) -> None:
    assert classify(name).family is Family.COLLECTIVE


@pytest.mark.parametrize(
    ("name", "family"),
    [
        (
            "void cutlass::Kernel2<cutlass::gemm::kernel::Gemm<cutlass::layout::NoPermute, half>>(int)",
            Family.GEMM,
        ),
        ("void transformer_engine::transpose_optimized_kernel<fp8e4m3, 8>(int)", Family.COPY_CAST),
        ("void cast_transpose_fused_kernel<__nv_fp8_e4m3>(int)", Family.COPY_CAST),
        ("void moe_permute_kernel<bf16>(int)", Family.EMBEDDING),
        ("cupy_inclusive_batch_scan_kernel", Family.SORT),
        ("cupy_add_scan_blocked_sum_kernel", Family.SORT),
        ("void exclusive_scan<float, 256>(float*)", Family.SORT),
        ("scanline_fill", Family.OTHER),
        ("void permute_kernel<float>(int)", Family.LAYOUT),
        (
            "std::enable_if<(((8)>(0)))&&ok, void>::type vllm::fused_add_rms_norm_kernel<half>(int)",
            Family.NORMALISATION,
        ),
        ("void groupnorm_kernel_dispatch_down<__hip_bfloat16>(int)", Family.NORMALISATION),
        ("void my::deep_dispatch_epilogue<float>(int)", Family.OTHER),
        ("void sum(multi_tensor_apply_kernel_arguments)", Family.OTHER),
        ("_Z14perform_sweepsPdiP17curandStateXORWOW", Family.OTHER),
        ("_Z11curand_initPdi", Family.RANDOM),
        ("void at::native::random_from_to_kernel<long>(int)", Family.RANDOM),
        ("generateRandomPoints(float*, int)", Family.RANDOM),
        ("play_random_moves_kernel(Board*, int)", Family.OTHER),
        ("randomWalk(int*, int)", Family.OTHER),
        ("_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEEEEvT_", Family.ELEMENTWISE),
    ],
)
def test_words_of_arguments_and_of_other_libraries_do_not_mislead(name: str, family: Family) -> None:
    assert classify(name).family is family


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("void ck_tile::kentry<1, ck_tile::BatchedGemmKernel<Problem<_Float16, _Float16, float>>>", "fp16"),
        ("void ck_tile::kentry<1, ck_tile::BatchedGemmKernel<Problem<float, float, float>>>", "fp32"),
        ("void multi_tensor_apply_kernel<FusedAdamMathFunctor<float, 4>, double, double>(int)", "fp32"),
        ("void gemv2T_kernel_val<int, int, double, double, float>(int)", "fp64"),
        ("cupy_multiply__float64_float64_float64", "fp64"),
        ("transpose_NCHW2CNHW_V2_2D_WG_off64", None),
        ("_ZN7cutlass6KernelINS_9GemmShapeILi8ELi8EEE", None),
        ("sm80_xmma_gemm_i8i8_i8i32_f32_tn_n", "int8"),
    ],
)
def test_the_type_is_that_of_the_data(name: str, dtype: str | None) -> None:
    assert classify(name).dtype == dtype


def test_every_family_has_a_label_of_its_own() -> None:
    assert len({family.label for family in Family}) == len(Family)
