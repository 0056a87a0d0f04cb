// ConvTranspose of 4 to 6 channels in 2 groups by 3 taps, weights_format IOX.
#include <cstdio>
#include <vector>

#include "oneapi/dnnl/dnnl_graph.hpp"

using namespace dnnl::graph;
using lt = logical_tensor;
using ints = std::vector<int64_t>;

void check(const char* what, const ints& shape, const char* auto_pad) {
    dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    lt src(0, lt::data_type::f32, {1, 4, 5}, lt::layout_type::strided);
    lt weights(1, lt::data_type::f32, shape, lt::layout_type::strided);
    lt dst(2, lt::data_type::f32, {1, 6, 7}, lt::layout_type::strided);
    op conv(0, op::kind::ConvTranspose, {src, weights}, {dst}, "conv");
    conv.set_attr<ints>(op::attr::strides, {1}).set_attr<ints>(op::attr::dilations, {1});
    conv.set_attr<ints>(op::attr::pads_begin, {0}).set_attr<ints>(op::attr::pads_end, {0});
    conv.set_attr<int64_t>(op::attr::groups, 2).set_attr<std::string>(op::attr::auto_pad, auto_pad);
    conv.set_attr<std::string>(op::attr::data_format, "NCX").set_attr<std::string>(op::attr::weights_format, "IOX");
    try {
        partition(conv, engine.get_kind()).compile({src, weights}, {dst}, engine);
        std::printf("%s: compiled\n", what);
    } catch (const dnnl::error& error) {
        std::printf("%s: status %d\n", what, error.status);
    }
}

int main() {
    check("weights (IC / groups, OC, 3)", {2, 6, 3}, "None");
    check("weights (IC, OC / groups, 3)", {4, 3, 3}, "None");
    check("auto_pad valid", {4, 3, 3}, "valid");
    check("auto_pad VALID", {4, 3, 3}, "VALID");
}
