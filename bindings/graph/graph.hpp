// A graph of ops, which the library divides into partitions.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/op.hpp"
#include "graph/partition.hpp"
#include "library/engine.hpp"

namespace dgo {

class Graph {
public:
    Graph(std::shared_ptr<const Library> lib, dnnl_engine_kind_t kind, int fpmath_mode);
    ~Graph();
    Graph(const Graph&) = delete;
    Graph& operator=(const Graph&) = delete;

    // The methods lock; all but the constructor may run without the GIL.
    void add_op(const Op& op);
    void finalize();
    bool is_finalized() const;
    void filter(int policy);
    std::size_t partition_count() const;
    std::vector<std::shared_ptr<Partition>> partitions() const;
    void set_fpmath_mode(int mode, bool apply_to_int);
    std::pair<int, bool> fpmath_mode() const;
    void set_deterministic(bool on);
    bool deterministic() const;

    const std::shared_ptr<const Library> lib;
    const dnnl_engine_kind_t kind;
    dnnl_graph_graph_t handle = nullptr;

private:
    void need_filtered(const char* what) const;

    mutable std::mutex mutex_;
    std::unordered_map<std::size_t, std::string> ops_;  // by id
    bool finalized_ = false, filtered_ = false;
};

}  // namespace dgo
