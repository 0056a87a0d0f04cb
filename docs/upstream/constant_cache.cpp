// The cache of constants is on when a partition is compiled, and off when it runs.
#include <cstdio>
#include <vector>

#include "oneapi/dnnl/dnnl_graph.hpp"

using namespace dnnl::graph;
using lt = logical_tensor;
using ints = std::vector<int64_t>;

int main() {
    dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    dnnl::stream stream(engine);
    lt src(0, lt::data_type::f32, {1, 16, 10}, lt::layout_type::strided);
    lt weights(1, lt::data_type::f32, {16, 16, 3}, lt::layout_type::strided, lt::property_type::constant);
    lt dst(2, lt::data_type::f32, {1, 16, 8}, lt::layout_type::strided);
    op conv(0, op::kind::Convolution, {src, weights}, {dst}, "conv");
    conv.set_attr<ints>(op::attr::strides, {1}).set_attr<ints>(op::attr::dilations, {1});
    conv.set_attr<ints>(op::attr::pads_begin, {0}).set_attr<ints>(op::attr::pads_end, {0});
    conv.set_attr<std::string>(op::attr::data_format, "NCX").set_attr<std::string>(op::attr::weights_format, "OIX");
    std::vector<float> x(16 * 10), w(16 * 16 * 3), y(16 * 8);
    set_constant_tensor_cache(1);
    auto compiled = partition(conv, engine.get_kind()).compile({src, weights}, {dst}, engine);
    std::printf("compiled\n");
    std::fflush(stdout);
    set_constant_tensor_cache(0);
    compiled.execute(stream, {{src, engine, x.data()}, {weights, engine, w.data()}}, {{dst, engine, y.data()}});
    stream.wait();
    std::printf("executed\n");
}
