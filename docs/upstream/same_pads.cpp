// Gradient of the weights of a ConvTranspose from 3 to 6 positions by 3 taps, stride 2: SAME_UPPER means one pad, at the
// end, since max(0, 3 - 2) = 1.
#include <cstdio>
#include <vector>

#include "oneapi/dnnl/dnnl_graph.hpp"

using namespace dnnl::graph;
using lt = logical_tensor;
using ints = std::vector<int64_t>;

int main() {
    dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    dnnl::stream stream(engine);
    lt src(0, lt::data_type::f32, {1, 1, 3}, lt::layout_type::strided);
    lt diff_dst(1, lt::data_type::f32, {1, 1, 6}, lt::layout_type::strided);
    lt diff_weights(2, lt::data_type::f32, {1, 1, 3}, lt::layout_type::strided);
    for (const char* auto_pad : {"None", "SAME_UPPER"}) {
        op gradient(0, op::kind::ConvTransposeBackwardWeights, {src, diff_dst}, {diff_weights}, "gradient");
        gradient.set_attr<ints>(op::attr::strides, {2}).set_attr<ints>(op::attr::dilations, {1});
        gradient.set_attr<ints>(op::attr::pads_begin, {0}).set_attr<ints>(op::attr::pads_end, {1});
        gradient.set_attr<std::string>(op::attr::auto_pad, auto_pad);
        gradient.set_attr<std::string>(op::attr::data_format, "NCX");
        gradient.set_attr<std::string>(op::attr::weights_format, "IOX");
        std::vector<float> x = {1, 2, 3}, y = {1, 2, 3, 4, 5, 6}, w(3);
        auto compiled = partition(gradient, engine.get_kind()).compile({src, diff_dst}, {diff_weights}, engine);
        compiled.execute(stream, {{src, engine, x.data()}, {diff_dst, engine, y.data()}},
                         {{diff_weights, engine, w.data()}});
        stream.wait();
        std::printf("pads 0 and 1, auto_pad %s: %g %g %g\n", auto_pad, w[0], w[1], w[2]);
    }
}
