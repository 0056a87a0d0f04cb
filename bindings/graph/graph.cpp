#include "graph/graph.hpp"

#include <cstdint>

#include "library/fork_guard.hpp"

namespace dgo {
namespace {

dnnl_fpmath_mode_t checked_fpmath(int mode) {
    if (mode < dnnl_fpmath_mode_strict || mode > dnnl_fpmath_mode_tf32)
        fail(ErrorKind::invalid_argument, "fpmath mode " + std::to_string(mode) + " is unknown; see FpmathMode");
    return dnnl_fpmath_mode_t(mode);
}

}  // namespace

Graph::Graph(std::shared_ptr<const Library> lib, dnnl_engine_kind_t kind, int fpmath_mode)
    : lib(std::move(lib)), kind(kind) {
    DGO_CALL(this->lib->api(), graph_graph_create_with_fpmath_mode, &handle, kind, checked_fpmath(fpmath_mode));
}

Graph::~Graph() { fork_guard::destroy(lib->api().graph_graph_destroy, handle); }

void Graph::add_op(const Op& op) {
    std::lock_guard lock(mutex_);
    if (op.lib != lib)
        fail(ErrorKind::invalid_argument,
             op.str() + " belongs to '" + op.lib->path() + "', the graph to '" + lib->path() + "'");
    if (finalized_) fail(ErrorKind::invalid_argument, op.str() + " cannot be added: the graph is finalized");
    // The library would drop the second op and report success.
    if (const auto it = ops_.find(op.id); it != ops_.end())
        fail(ErrorKind::invalid_argument,
             op.str() + " has the id of op '" + it->second + "', which is in the graph already");
    try {
        DGO_CALL(lib->api(), graph_add_op, handle, op.handle);
    } catch (const NativeError& e) {
        throw NativeError(e.kind,
                          op.str() + " (kind " + std::to_string(int(op.kind)) +
                              "): its inputs, outputs, data types or attributes do not fit its schema: " + e.what(),
                          e.status);
    }
    ops_.emplace(op.id, op.name);
}

void Graph::finalize() {
    std::lock_guard lock(mutex_);
    DGO_CALL(lib->api(), graph_graph_finalize, handle);
    finalized_ = true;
}

bool Graph::is_finalized() const {
    std::lock_guard lock(mutex_);
    return DGO_READ(std::uint8_t, lib->api(), graph_graph_is_finalized, handle) != 0;
}

void Graph::filter(int policy) {
    std::lock_guard lock(mutex_);
    if (policy != dnnl_graph_partition_policy_fusion && policy != dnnl_graph_partition_policy_debug)
        fail(ErrorKind::invalid_argument,
             "partition policy " + std::to_string(policy) + " is unknown; see PartitionPolicy");
    if (!finalized_) fail(ErrorKind::invalid_argument, "filter: the graph is not finalized; call finalize first");
    DGO_CALL(lib->api(), graph_graph_filter, handle, dnnl_graph_partition_policy_t(policy));
    filtered_ = true;
}

void Graph::need_filtered(const char* what) const {
    if (!filtered_)
        fail(ErrorKind::invalid_argument, std::string(what) + ": the graph is not filtered; call filter first");
}

std::size_t Graph::partition_count() const {
    std::lock_guard lock(mutex_);
    need_filtered("partition_count");
    return DGO_READ(std::size_t, lib->api(), graph_graph_get_partition_num, handle);
}

std::vector<std::shared_ptr<Partition>> Graph::partitions() const {
    std::lock_guard lock(mutex_);
    need_filtered("partitions");
    // The library writes all its handles, whatever number is passed.
    const auto number = DGO_READ(std::size_t, lib->api(), graph_graph_get_partition_num, handle);
    std::vector<dnnl_graph_partition_t> handles(number);
    if (number) DGO_CALL(lib->api(), graph_graph_get_partitions, handle, number, handles.data());
    std::vector<std::shared_ptr<Partition>> out;
    for (const auto partition : handles) out.push_back(std::make_shared<Partition>(lib, partition));
    return out;
}

void Graph::set_fpmath_mode(int mode, bool apply_to_int) {
    std::lock_guard lock(mutex_);
    DGO_NEED(*lib, graph_graph_set_fpmath_mode, "3.7");
    DGO_CALL(lib->api(), graph_graph_set_fpmath_mode, handle, checked_fpmath(mode), int(apply_to_int));
}

void Graph::set_deterministic(bool on) {
    std::lock_guard lock(mutex_);
    DGO_NEED(*lib, graph_graph_set_deterministic, "3.14");
    DGO_CALL(lib->api(), graph_graph_set_deterministic, handle, int(on));
}

bool Graph::deterministic() const {
    std::lock_guard lock(mutex_);
    DGO_NEED(*lib, graph_graph_get_deterministic, "3.14");
    return DGO_READ(int, lib->api(), graph_graph_get_deterministic, handle) != 0;
}

std::pair<int, bool> Graph::fpmath_mode() const {
    std::lock_guard lock(mutex_);
    DGO_NEED(*lib, graph_graph_get_fpmath_mode, "3.7");
    dnnl_fpmath_mode_t mode = dnnl_fpmath_mode_strict;
    const auto apply_to_int = DGO_READ(int, lib->api(), graph_graph_get_fpmath_mode, handle, &mode);
    return {int(mode), apply_to_int != 0};
}

}  // namespace dgo
