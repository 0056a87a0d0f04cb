// The enumerations of the C API as IntEnums, with the C names less their prefix.
#include <pybind11/native_enum.h>
#include <pybind11/pybind11.h>

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

void bind_enums(py::module_& m) {
    constexpr const char* kBase = "enum.IntEnum";

    py::native_enum<dnnl_graph_op_kind_t> kinds(m, "OpKind", kBase);
#define DGO_VALUE(name) kinds.value(#name, dnnl_graph_op_##name);
    DGO_OP_KINDS(DGO_VALUE)
#undef DGO_VALUE
    kinds.value("group_norm", dnnl_graph_op_kind_t(abi::op_group_norm))
        .value("gen_index", dnnl_graph_op_kind_t(abi::op_gen_index))
        .value("greater_equal", dnnl_graph_op_kind_t(abi::op_greater_equal))
        .value("rms_norm", dnnl_graph_op_kind_t(abi::op_rms_norm))
        .value("dropout", dnnl_graph_op_kind_t(abi::op_dropout))
        .finalize();

    py::native_enum<dnnl_graph_op_attr_t> attrs(m, "OpAttr", kBase);
#define DGO_VALUE(name) attrs.value(#name, dnnl_graph_op_attr_##name);
    DGO_OP_ATTRS(DGO_VALUE)
#undef DGO_VALUE
    attrs.value("group_shape", dnnl_graph_op_attr_t(abi::attr_group_shape))
        .value("accumulation_mode", dnnl_graph_op_attr_t(abi::attr_accumulation_mode))
        .finalize();

    py::native_enum<dnnl_data_type_t>(m, "DataType", kBase)
        .value("undef", dnnl_data_type_undef)
        .value("f16", dnnl_f16)
        .value("bf16", dnnl_bf16)
        .value("f32", dnnl_f32)
        .value("s32", dnnl_s32)
        .value("s8", dnnl_s8)
        .value("u8", dnnl_u8)
        .value("f64", dnnl_f64)
        .value("boolean", dnnl_boolean)
        .value("f8_e5m2", dnnl_data_type_t(abi::f8_e5m2))
        .value("f8_e4m3", dnnl_data_type_t(abi::f8_e4m3))
        .value("s4", dnnl_data_type_t(abi::s4))
        .value("u4", dnnl_data_type_t(abi::u4))
        .value("e8m0", dnnl_data_type_t(abi::e8m0))
        .value("f4_e2m1", dnnl_data_type_t(abi::f4_e2m1))
        .value("f4_e3m0", dnnl_data_type_t(abi::f4_e3m0))
        .value("s64", dnnl_data_type_t(abi::s64))
        .finalize();

    py::native_enum<dnnl_graph_layout_type_t>(m, "LayoutType", kBase)
        .value("undef", dnnl_graph_layout_type_undef)
        .value("any", dnnl_graph_layout_type_any)
        .value("strided", dnnl_graph_layout_type_strided)
        .value("opaque", dnnl_graph_layout_type_opaque)
        .finalize();

    py::native_enum<dnnl_graph_tensor_property_t>(m, "TensorProperty", kBase)
        .value("undef", dnnl_graph_tensor_property_undef)
        .value("variable", dnnl_graph_tensor_property_variable)
        .value("constant", dnnl_graph_tensor_property_constant)
        .value("host_scalar", dnnl_graph_tensor_property_t(abi::property_host_scalar))
        .finalize();

    py::native_enum<dnnl_graph_partition_policy_t>(m, "PartitionPolicy", kBase)
        .value("fusion", dnnl_graph_partition_policy_fusion)
        .value("debug", dnnl_graph_partition_policy_debug)
        .finalize();

    py::native_enum<dnnl_engine_kind_t>(m, "EngineKind", kBase)
        .value("any", dnnl_any_engine)
        .value("cpu", dnnl_cpu)
        .value("gpu", dnnl_gpu)
        .finalize();

    py::native_enum<dnnl_fpmath_mode_t>(m, "FpmathMode", kBase)
        .value("strict", dnnl_fpmath_mode_strict)
        .value("bf16", dnnl_fpmath_mode_bf16)
        .value("f16", dnnl_fpmath_mode_f16)
        .value("any", dnnl_fpmath_mode_any)
        .value("tf32", dnnl_fpmath_mode_tf32)
        .finalize();

    py::native_enum<dnnl_status_t>(m, "Status", kBase)
        .value("success", dnnl_success)
        .value("out_of_memory", dnnl_out_of_memory)
        .value("invalid_arguments", dnnl_invalid_arguments)
        .value("unimplemented", dnnl_unimplemented)
        .value("last_impl_reached", dnnl_last_impl_reached)
        .value("runtime_error", dnnl_runtime_error)
        .value("not_required", dnnl_not_required)
        .value("invalid_graph", dnnl_invalid_graph)
        .value("invalid_graph_op", dnnl_invalid_graph_op)
        .value("invalid_shape", dnnl_invalid_shape)
        .value("invalid_data_type", dnnl_invalid_data_type)
        .finalize();

    py::native_enum<dnnl_stream_flags_t>(m, "StreamFlags", kBase)
        .value("in_order", dnnl_stream_in_order)
        .value("out_of_order", dnnl_stream_out_of_order)
        .finalize();

    py::native_enum<abi::DumpMode>(m, "DumpMode", kBase)
        .value("none", abi::DumpMode::none)
        .value("subgraph", abi::DumpMode::subgraph)
        .value("graph", abi::DumpMode::graph)
        .finalize();
}

}  // namespace dgo
