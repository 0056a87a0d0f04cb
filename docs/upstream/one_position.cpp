// Interpolate of 2 channels, channels first, from one position to two.
#include <cstdio>
#include <vector>

#include "oneapi/dnnl/dnnl_graph.hpp"

using namespace dnnl::graph;
using lt = logical_tensor;

int main() {
    dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    dnnl::stream stream(engine);
    lt src(0, lt::data_type::f32, {1, 2, 1}, lt::layout_type::strided);
    lt dst(1, lt::data_type::f32, {1, 2, 2}, lt::layout_type::strided);
    op resize(0, op::kind::Interpolate, {src}, {dst}, "resize");
    resize.set_attr<std::string>(op::attr::mode, "nearest").set_attr<std::vector<int64_t>>(op::attr::sizes, {2});
    resize.set_attr<std::string>(op::attr::data_format, "NCX");
    std::vector<float> x = {1, 2}, y(4);
    auto compiled = partition(resize, engine.get_kind()).compile({src}, {dst}, engine);
    compiled.execute(stream, {{src, engine, x.data()}}, {{dst, engine, y.data()}});
    stream.wait();
    std::printf("first three of 1 1 2 2: %g %g %g\n", y[0], y[1], y[2]);
}
