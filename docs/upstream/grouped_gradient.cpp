// Gradient of a convolution of 4 channels by 3 taps, in one group and in two.
#include <cstdio>
#include <vector>

#include "oneapi/dnnl/dnnl_graph.hpp"

using namespace dnnl::graph;
using lt = logical_tensor;
using ints = std::vector<int64_t>;

int main() {
    dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    for (int64_t groups = 1; groups <= 2; ++groups) {
        lt diff_dst(0, lt::data_type::f32, {1, 4, 5}, lt::layout_type::strided);
        lt weights(1, lt::data_type::f32, {4, 4 / groups, 3}, lt::layout_type::strided);
        lt diff_src(2, lt::data_type::f32, {1, 4, 7}, lt::layout_type::strided);
        op gradient(0, op::kind::ConvolutionBackwardData, {diff_dst, weights}, {diff_src}, "gradient");
        gradient.set_attr<ints>(op::attr::strides, {1}).set_attr<ints>(op::attr::dilations, {1});
        gradient.set_attr<ints>(op::attr::pads_begin, {0}).set_attr<ints>(op::attr::pads_end, {0});
        gradient.set_attr<ints>(op::attr::dst_shape, {1, 4, 7}).set_attr<int64_t>(op::attr::groups, groups);
        gradient.set_attr<std::string>(op::attr::data_format, "NCX");
        gradient.set_attr<std::string>(op::attr::weights_format, "OIX");
        partition p(gradient, engine.get_kind());
        std::printf("groups %d: supported %d, ", int(groups), p.is_supported());
        try {
            p.compile({diff_dst, weights}, {diff_src}, engine);
            std::printf("compiled\n");
        } catch (const dnnl::error& error) {
            std::printf("compile: status %d\n", error.status);
        }
    }
}
