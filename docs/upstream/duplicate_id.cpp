// Two ops with one id, by a mistake of the caller.
#include <cstdio>

#include "oneapi/dnnl/dnnl_graph.hpp"

using namespace dnnl::graph;
using lt = logical_tensor;

int main() {
    lt a(0, lt::data_type::f32, {4}, lt::layout_type::strided);
    lt b(1, lt::data_type::f32, {4}, lt::layout_type::strided);
    lt c(2, lt::data_type::f32, {4}, lt::layout_type::strided);
    graph g(dnnl::engine::kind::cpu);
    std::printf("add_op: status %d\n", int(g.add_op(op(7, op::kind::Exp, {a}, {b}, "exp"), true)));
    std::printf("add_op: status %d\n", int(g.add_op(op(7, op::kind::Square, {b}, {c}, "square"), true)));
    g.finalize();
    size_t ops = 0;
    for (const auto& p : g.get_partitions()) {
        ops += p.get_ops_num();
    }
    std::printf("ops in all partitions: %d\n", int(ops));
}
