// Weights for 3 channels, and a source of 2: a mistake of the caller.
#include <cstdio>
#include <exception>
#include <initializer_list>

#include "oneapi/dnnl/dnnl_graph.h"

int main() {
    auto tensor = [](size_t id, std::initializer_list<int64_t> shape) {
        dnnl_graph_logical_tensor_t made;
        dnnl_graph_logical_tensor_init_with_dims(&made, id, dnnl_f32, 3, shape.begin(), dnnl_graph_layout_type_strided,
                                                 dnnl_graph_tensor_property_variable);
        return made;
    };
    const auto src = tensor(0, {1, 2, 5}), weights = tensor(1, {3, 1, 3}), dst = tensor(2, {1, 1, 7});
    const dnnl_graph_logical_tensor_t *inputs[] = {&src, &weights}, *outputs[] = {&dst};
    const int64_t zero = 0, one = 1;
    dnnl_engine_t engine;
    dnnl_graph_op_t op;
    dnnl_graph_partition_t partition;
    dnnl_graph_compiled_partition_t compiled;
    dnnl_engine_create(&engine, dnnl_cpu, 0);
    dnnl_graph_op_create(&op, 0, dnnl_graph_op_conv_transpose, "conv");
    dnnl_graph_op_add_input(op, &src);
    dnnl_graph_op_add_input(op, &weights);
    dnnl_graph_op_add_output(op, &dst);
    dnnl_graph_op_set_attr_s64(op, dnnl_graph_op_attr_strides, &one, 1);
    dnnl_graph_op_set_attr_s64(op, dnnl_graph_op_attr_dilations, &one, 1);
    dnnl_graph_op_set_attr_s64(op, dnnl_graph_op_attr_pads_begin, &zero, 1);
    dnnl_graph_op_set_attr_s64(op, dnnl_graph_op_attr_pads_end, &zero, 1);
    dnnl_graph_op_set_attr_str(op, dnnl_graph_op_attr_data_format, "NCX", 3);
    dnnl_graph_op_set_attr_str(op, dnnl_graph_op_attr_weights_format, "IOX", 3);
    dnnl_graph_partition_create_with_op(&partition, op, dnnl_cpu);
    dnnl_graph_compiled_partition_create(&compiled, partition);
    try {
        std::printf("status %d\n", dnnl_graph_partition_compile(partition, compiled, 2, inputs, 1, outputs, engine));
    } catch (const std::exception& error) {
        std::printf("thrown: %.39s\n", error.what());
    }
}
