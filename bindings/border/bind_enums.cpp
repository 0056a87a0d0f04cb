// The enumerations of the C API as IntEnums, with the C names less their prefix.
#include <pybind11/native_enum.h>
#include <pybind11/pybind11.h>

#include <initializer_list>
#include <utility>

#include "library/abi.hpp"

namespace py = pybind11;

#define DGO_OP_KINDS(X) \
    X(abs) X(abs_backward) X(add) X(avg_pool) X(avg_pool_backward) X(batch_norm_backward) \
    X(batch_norm_forward_training) X(batch_norm_inference) X(bias_add) X(bias_add_backward) X(clamp) \
    X(clamp_backward) X(concat) X(convolution) X(convolution_backward_data) \
    X(convolution_backward_weights) X(conv_transpose) X(conv_transpose_backward_data) \
    X(conv_transpose_backward_weights) X(dequantize) X(divide) X(dynamic_dequantize) X(dynamic_quantize) \
    X(elu) X(elu_backward) X(end) X(exp) X(gelu) X(gelu_backward) X(hard_swish) X(hard_swish_backward) \
    X(interpolate) X(interpolate_backward) X(layer_norm) X(layer_norm_backward) X(leaky_relu) X(log) \
    X(log_softmax) X(log_softmax_backward) X(matmul) X(maximum) X(max_pool) X(max_pool_backward) \
    X(minimum) X(mish) X(mish_backward) X(multiply) X(prelu) X(prelu_backward) X(quantize) X(reciprocal) \
    X(reduce_l1) X(reduce_l2) X(reduce_max) X(reduce_mean) X(reduce_min) X(reduce_prod) X(reduce_sum) \
    X(relu) X(relu_backward) X(reorder) X(round) X(sigmoid) X(sigmoid_backward) X(softmax) \
    X(softmax_backward) X(softplus) X(softplus_backward) X(sqrt) X(sqrt_backward) X(square) \
    X(squared_difference) X(static_reshape) X(static_transpose) X(subtract) X(tanh) X(tanh_backward) \
    X(type_cast) X(wildcard) X(hard_sigmoid) X(hard_sigmoid_backward) X(select) X(pow)

#define DGO_OP_ATTRS(X) \
    X(alpha) X(beta) X(epsilon) X(max) X(min) X(momentum) X(scales) X(axis) X(begin_norm_axis) X(groups) \
    X(axes) X(dilations) X(dst_shape) X(kernel) X(order) X(output_padding) X(pads_begin) X(pads_end) \
    X(shape) X(sizes) X(src_shape) X(strides) X(weights_shape) X(zps) X(exclude_pad) X(keep_dims) \
    X(keep_stats) X(per_channel_broadcast) X(special_zero) X(transpose_a) X(transpose_b) X(use_affine) \
    X(use_dst) X(auto_broadcast) X(auto_pad) X(coordinate_transformation_mode) X(data_format) X(mode) \
    X(qtype) X(rounding_type) X(weights_format)

namespace dgo {
namespace {

template <typename E>
void bind_enum(py::module_& m, const char* name, std::initializer_list<std::pair<const char*, int>> values) {
    py::native_enum<E> bound(m, name, "enum.IntEnum");
    for (const auto& [text, value] : values) bound.value(text, static_cast<E>(value));
    bound.finalize();
}

}  // namespace

void bind_enums(py::module_& m) {
#define DGO_VALUE(name) {#name, dnnl_graph_op_##name},
    bind_enum<dnnl_graph_op_kind_t>(m, "OpKind",
                                    {DGO_OP_KINDS(DGO_VALUE){"group_norm", abi::op_group_norm},
                                     {"gen_index", abi::op_gen_index},
                                     {"greater_equal", abi::op_greater_equal},
                                     {"rms_norm", abi::op_rms_norm},
                                     {"dropout", abi::op_dropout}});
#undef DGO_VALUE
#define DGO_VALUE(name) {#name, dnnl_graph_op_attr_##name},
    bind_enum<dnnl_graph_op_attr_t>(m, "OpAttr",
                                    {DGO_OP_ATTRS(DGO_VALUE){"group_shape", abi::attr_group_shape},
                                     {"accumulation_mode", abi::attr_accumulation_mode}});
#undef DGO_VALUE
    bind_enum<dnnl_data_type_t>(m, "DataType",
                                {{"undef", dnnl_data_type_undef},
                                 {"f16", dnnl_f16},
                                 {"bf16", dnnl_bf16},
                                 {"f32", dnnl_f32},
                                 {"s32", dnnl_s32},
                                 {"s8", dnnl_s8},
                                 {"u8", dnnl_u8},
                                 {"f64", dnnl_f64},
                                 {"boolean", dnnl_boolean},
                                 {"f8_e5m2", abi::f8_e5m2},
                                 {"f8_e4m3", abi::f8_e4m3},
                                 {"s4", abi::s4},
                                 {"u4", abi::u4},
                                 {"e8m0", abi::e8m0},
                                 {"f4_e2m1", abi::f4_e2m1},
                                 {"f4_e3m0", abi::f4_e3m0},
                                 {"s64", abi::s64}});
    bind_enum<dnnl_graph_layout_type_t>(m, "LayoutType",
                                        {{"undef", dnnl_graph_layout_type_undef},
                                         {"any", dnnl_graph_layout_type_any},
                                         {"strided", dnnl_graph_layout_type_strided},
                                         {"opaque", dnnl_graph_layout_type_opaque}});
    bind_enum<dnnl_graph_tensor_property_t>(m, "TensorProperty",
                                            {{"undef", dnnl_graph_tensor_property_undef},
                                             {"variable", dnnl_graph_tensor_property_variable},
                                             {"constant", dnnl_graph_tensor_property_constant},
                                             {"host_scalar", abi::property_host_scalar}});
    bind_enum<dnnl_graph_partition_policy_t>(
        m, "PartitionPolicy",
        {{"fusion", dnnl_graph_partition_policy_fusion}, {"debug", dnnl_graph_partition_policy_debug}});
    bind_enum<dnnl_engine_kind_t>(m, "EngineKind", {{"any", dnnl_any_engine}, {"cpu", dnnl_cpu}, {"gpu", dnnl_gpu}});
    bind_enum<dnnl_fpmath_mode_t>(m, "FpmathMode",
                                  {{"strict", dnnl_fpmath_mode_strict},
                                   {"bf16", dnnl_fpmath_mode_bf16},
                                   {"f16", dnnl_fpmath_mode_f16},
                                   {"any", dnnl_fpmath_mode_any},
                                   {"tf32", dnnl_fpmath_mode_tf32}});
    bind_enum<dnnl_status_t>(m, "Status",
                             {{"success", dnnl_success},
                              {"out_of_memory", dnnl_out_of_memory},
                              {"invalid_arguments", dnnl_invalid_arguments},
                              {"unimplemented", dnnl_unimplemented},
                              {"last_impl_reached", dnnl_last_impl_reached},
                              {"runtime_error", dnnl_runtime_error},
                              {"not_required", dnnl_not_required},
                              {"invalid_graph", dnnl_invalid_graph},
                              {"invalid_graph_op", dnnl_invalid_graph_op},
                              {"invalid_shape", dnnl_invalid_shape},
                              {"invalid_data_type", dnnl_invalid_data_type}});
    bind_enum<dnnl_stream_flags_t>(m, "StreamFlags",
                                   {{"in_order", dnnl_stream_in_order}, {"out_of_order", dnnl_stream_out_of_order}});
    // three have two names since 3.4
    bind_enum<dnnl_cpu_isa_t>(m, "CpuIsa",
                              {{"isa_default", dnnl_cpu_isa_default},
                               {"sse41", dnnl_cpu_isa_sse41},
                               {"avx", dnnl_cpu_isa_avx},
                               {"avx2", dnnl_cpu_isa_avx2},
                               {"avx2_vnni", dnnl_cpu_isa_avx2_vnni},
                               {"avx2_vnni_2", dnnl_cpu_isa_avx2_vnni_2},
                               {"avx512_core", dnnl_cpu_isa_avx512_core},
                               {"avx512_core_vnni", dnnl_cpu_isa_avx512_core_vnni},
                               {"avx512_core_bf16", dnnl_cpu_isa_avx512_core_bf16},
                               {"avx512_core_fp16", dnnl_cpu_isa_avx512_core_fp16},
                               {"avx512_core_amx", dnnl_cpu_isa_avx512_core_amx},
                               {"avx512_core_amx_fp16", dnnl_cpu_isa_avx512_core_amx_fp16},
                               {"avx10_1_512", dnnl_cpu_isa_avx512_core_fp16},
                               {"avx10_1_512_amx", dnnl_cpu_isa_avx512_core_amx},
                               {"avx10_1_512_amx_fp16", dnnl_cpu_isa_avx512_core_amx_fp16},
                               {"avx10_2", abi::isa_avx10_2},
                               {"avx10_2_512", abi::isa_avx10_2},
                               {"avx10_2_amx_2", abi::isa_avx10_2_amx_2},
                               {"avx10_2_512_amx_2", abi::isa_avx10_2_amx_2}});
    bind_enum<dnnl_cpu_isa_hints_t>(m, "CpuIsaHints",
                                    {{"no_hints", dnnl_cpu_isa_no_hints}, {"prefer_ymm", dnnl_cpu_isa_prefer_ymm}});
    bind_enum<abi::DumpMode>(m, "DumpMode",
                             {{"none", int(abi::DumpMode::none)},
                              {"subgraph", int(abi::DumpMode::subgraph)},
                              {"graph", int(abi::DumpMode::graph)}});
}

}  // namespace dgo
