// Convolution of a dequantized source with weights in f32, ReLU.
#include <cstdio>
#include <vector>

#include "oneapi/dnnl/dnnl_graph.hpp"

using namespace dnnl::graph;
using lt = logical_tensor;
using ints = std::vector<int64_t>;

int main() {
    lt bytes(0, lt::data_type::u8, {1, 16, 10}, lt::layout_type::strided);
    lt src(1, lt::data_type::f32, {1, 16, 10}, lt::layout_type::strided);
    lt weights(2, lt::data_type::f32, {16, 16, 3}, lt::layout_type::strided);
    lt product(3, lt::data_type::f32, {1, 16, 8}, lt::layout_type::strided);
    lt dst(4, lt::data_type::f32, {1, 16, 8}, lt::layout_type::strided);
    op dequantize(0, op::kind::Dequantize, {bytes}, {src}, "dequantize");
    dequantize.set_attr<std::vector<float>>(op::attr::scales, {0.5f}).set_attr<ints>(op::attr::zps, {0});
    op conv(1, op::kind::Convolution, {src, weights}, {product}, "conv");
    conv.set_attr<ints>(op::attr::strides, {1}).set_attr<ints>(op::attr::dilations, {1});
    conv.set_attr<ints>(op::attr::pads_begin, {0}).set_attr<ints>(op::attr::pads_end, {0});
    conv.set_attr<std::string>(op::attr::data_format, "NCX").set_attr<std::string>(op::attr::weights_format, "OIX");
    graph g(dnnl::engine::kind::cpu);
    g.add_op(dequantize);
    g.add_op(conv);
    g.add_op(op(2, op::kind::ReLU, {product}, {dst}, "relu"));
    g.finalize();
    std::printf("finalized\n");
    std::fflush(stdout);
    std::printf("partitions: %d\n", int(g.get_partitions().size()));
}
