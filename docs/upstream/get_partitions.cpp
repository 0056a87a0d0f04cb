// A graph of two partitions, and a caller that asks for one.
#include <cstdio>

#include "oneapi/dnnl/dnnl_graph.hpp"

using namespace dnnl::graph;
using lt = logical_tensor;

int main() {
    lt a(0, lt::data_type::f32, {4}, lt::layout_type::strided);
    lt b(1, lt::data_type::f32, {4}, lt::layout_type::strided);
    lt c(2, lt::data_type::f32, {4}, lt::layout_type::strided);
    graph g(dnnl::engine::kind::cpu);
    g.add_op(op(0, op::kind::Exp, {a}, {b}, "exp"));
    g.add_op(op(1, op::kind::Square, {a}, {c}, "square"));
    g.finalize();
    dnnl_graph_graph_filter(g.get(), dnnl_graph_partition_policy_fusion);
    size_t number;
    dnnl_graph_graph_get_partition_num(g.get(), &number);
    std::printf("partitions: %d\n", int(number));
    std::fflush(stdout);
    dnnl_graph_partition_t first = nullptr;
    std::printf("status %d\n", dnnl_graph_graph_get_partitions(g.get(), 1, &first));
}
