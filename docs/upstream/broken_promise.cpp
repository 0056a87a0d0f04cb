// The same faulty ConvTranspose, compiled twice: weights for 3 channels, and a source of 2.
#include <cstdio>
#include <future>
#include <vector>

#include "oneapi/dnnl/dnnl_graph.hpp"

using namespace dnnl::graph;
using lt = logical_tensor;
using ints = std::vector<int64_t>;

int main() {
    dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    lt src(0, lt::data_type::f32, {1, 2, 5}, lt::layout_type::strided);
    lt weights(1, lt::data_type::f32, {3, 1, 3}, lt::layout_type::strided);
    lt dst(2, lt::data_type::f32, {1, 1, 7}, lt::layout_type::strided);
    op conv(0, op::kind::ConvTranspose, {src, weights}, {dst}, "conv");
    conv.set_attr<ints>(op::attr::strides, {1}).set_attr<ints>(op::attr::dilations, {1});
    conv.set_attr<ints>(op::attr::pads_begin, {0}).set_attr<ints>(op::attr::pads_end, {0});
    conv.set_attr<std::string>(op::attr::data_format, "NCX").set_attr<std::string>(op::attr::weights_format, "IOX");
    partition p(conv, engine.get_kind());
    for (int call = 1; call <= 2; ++call) {
        try {
            p.compile({src, weights}, {dst}, engine);
        } catch (const dnnl::error& error) {
            std::printf("call %d: dnnl::error, status %d\n", call, error.status);
        } catch (const std::future_error& error) {
            std::printf("call %d: std::future_error, %s\n", call, error.code().message().c_str());
        }
    }
}
