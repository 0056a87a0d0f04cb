// Gradient of a ConvTranspose of 2 positions by 2 taps, stride 2.
#include <cstdio>
#include <vector>

#include "oneapi/dnnl/dnnl_graph.hpp"

using namespace dnnl::graph;
using lt = logical_tensor;
using ints = std::vector<int64_t>;

int main() {
    dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    dnnl::stream stream(engine);
    for (int64_t d = 1; d <= 3; ++d) {
        lt diff_dst(0, lt::data_type::f32, {1, 1, 3 + d}, lt::layout_type::strided);
        lt weights(1, lt::data_type::f32, {1, 1, 2}, lt::layout_type::strided);
        lt diff_src(2, lt::data_type::f32, {1, 1, 2}, lt::layout_type::strided);
        op gradient(0, op::kind::ConvTransposeBackwardData, {diff_dst, weights}, {diff_src}, "gradient");
        gradient.set_attr<ints>(op::attr::strides, {2}).set_attr<ints>(op::attr::dilations, {d});
        gradient.set_attr<ints>(op::attr::pads_begin, {0}).set_attr<ints>(op::attr::pads_end, {0});
        gradient.set_attr<std::string>(op::attr::data_format, "NCX");
        gradient.set_attr<std::string>(op::attr::weights_format, "IOX");
        std::vector<float> y = {1, 2, 3, 4, 5, 6}, w = {1, 10}, x(2);
        try {
            auto compiled = partition(gradient, engine.get_kind()).compile({diff_dst, weights}, {diff_src}, engine);
            compiled.execute(stream, {{diff_dst, engine, y.data()}, {weights, engine, w.data()}},
                             {{diff_src, engine, x.data()}});
            stream.wait();
            std::printf("dilation %d: %g %g, right are ", int(d), x[0], x[1]);
        } catch (const dnnl::error& error) {
            std::printf("dilation %d: status %d, right are ", int(d), error.status);
        }
        std::printf("%g %g\n", y[0] + 10 * y[d], y[2] + 10 * y[2 + d]);
    }
}
