// A row of 16 numbers, the first of which is NaN.
#include <cmath>
#include <cstdio>
#include <vector>

#include "oneapi/dnnl/dnnl_graph.hpp"

using namespace dnnl::graph;
using lt = logical_tensor;
using ints = std::vector<int64_t>;

int main() {
    dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    dnnl::stream stream(engine);
    auto run = [&](op& node, lt src, lt dst) {
        auto compiled = partition(node, engine.get_kind()).compile({src}, {dst}, engine);
        std::vector<float> x(16, 1), y(16);
        x[0] = NAN;
        compiled.execute(stream, {{src, engine, x.data()}}, {{dst, engine, y.data()}});
        stream.wait();
        return y;
    };
    lt row(0, lt::data_type::f32, {1, 1, 16}, lt::layout_type::strided);
    lt same(1, lt::data_type::f32, {1, 1, 16}, lt::layout_type::strided);
    lt one(1, lt::data_type::f32, {1, 1, 1}, lt::layout_type::strided);
    op softmax(0, op::kind::SoftMax, {row}, {same}, "softmax");
    op log_softmax(1, op::kind::LogSoftmax, {row}, {same}, "log_softmax");
    op pool(2, op::kind::MaxPool, {row}, {one}, "pool");
    softmax.set_attr<int64_t>(op::attr::axis, 2);
    log_softmax.set_attr<int64_t>(op::attr::axis, 2);
    pool.set_attr<ints>(op::attr::strides, {1}).set_attr<ints>(op::attr::kernel, {16});
    pool.set_attr<ints>(op::attr::pads_begin, {0}).set_attr<ints>(op::attr::pads_end, {0});
    pool.set_attr<std::string>(op::attr::data_format, "NCX");
    std::printf("SoftMax, element 4: %g\n", run(softmax, row, same)[4]);
    std::printf("LogSoftmax, element 4: %g\n", run(log_softmax, row, same)[4]);
    std::printf("MaxPool of all 16: %g\n", run(pool, row, one)[0]);
}
