// Partitions of the library, and compiled partitions.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "graph/logical_tensor.hpp"
#include "library/engine.hpp"

namespace dgo {

class Op;

// Any number of threads may execute one compiled partition at once, each with its own stream, tensors, scratchpad.
class CompiledPartition {
public:
    // Makes a handle in the calling thread.
    using Make = std::function<dnnl_graph_compiled_partition_t()>;

    // Takes over the handle. With `again`, which makes a handle in another thread, it belongs to the calling thread.
    CompiledPartition(std::shared_ptr<const Engine> engine, dnnl_graph_compiled_partition_t handle,
                      std::vector<LogicalTensor> inputs, std::vector<LogicalTensor> outputs, Make again);
    ~CompiledPartition();
    CompiledPartition(const CompiledPartition&) = delete;
    CompiledPartition& operator=(const CompiledPartition&) = delete;

    LogicalTensor query(std::size_t id) const;
    // (input id, output id)
    const std::vector<std::pair<std::size_t, std::size_t>>& inplace_ports() const { return inplace_ports_; }
    // Bytes of the scratchpad for execute; 0 when the library allocates it (before 3.13).
    std::size_t scratchpad_size() const { return scratchpad_size_; }
    const LogicalTensor& scratchpad() const { return scratchpad_; }
    // in, out: one tensor for each of `inputs` and `outputs`, in their order; unchecked. scratchpad: a tensor of
    // scratchpad_size() bytes that no other running execute uses, or null. Needs no GIL.
    void execute(dnnl_stream_t stream, const const_dnnl_graph_tensor_t* in, const const_dnnl_graph_tensor_t* out,
                 const_dnnl_graph_tensor_t scratchpad = nullptr) const;

    const std::shared_ptr<const Engine> engine;
    const dnnl_graph_compiled_partition_t handle;
    const std::vector<LogicalTensor> inputs, outputs;  // in the order given to compile; outputs with the final layout

private:
    // Handles that must run, and be destroyed, in the thread that made them: one for each of the two threads.
    struct Tied {
        Make make;
        std::mutex making;
        std::array<std::atomic<dnnl_graph_compiled_partition_t>, 2> handles;
    };

    // Calls the job in a thread that may use the handle, with this handle.
    template <typename Job>
    void there(const Job& job) const;

    std::vector<std::pair<std::size_t, std::size_t>> inplace_ports_;
    LogicalTensor scratchpad_;
    std::size_t scratchpad_size_ = 0;
    const std::unique_ptr<Tied> tied_;  // null: any thread may have it
};

class Partition : public std::enable_shared_from_this<Partition> {
public:
    Partition(std::shared_ptr<const Library> lib, dnnl_graph_partition_t handle);  // takes over the handle
    static std::shared_ptr<Partition> create_with_op(const Op& op, dnnl_engine_kind_t kind);
    ~Partition();
    Partition(const Partition&) = delete;
    Partition& operator=(const Partition&) = delete;

    std::size_t id() const;
    std::vector<std::size_t> op_ids() const;
    bool is_supported() const;
    dnnl_engine_kind_t engine_kind() const;
    std::vector<LogicalTensor> input_ports() const;
    std::vector<LogicalTensor> output_ports() const;
    // Needs no GIL. Inputs must be fully known and strided or opaque; outputs may be unknown (rank or all dims) or any.
    // one_thread: what an OpenMP library makes of it may be tied to a thread (library/home_thread.hpp).
    std::shared_ptr<CompiledPartition> compile(const std::vector<LogicalTensor>& inputs,
                                               const std::vector<LogicalTensor>& outputs,
                                               std::shared_ptr<const Engine> engine, bool one_thread) const;

    const std::shared_ptr<const Library> lib;
    const dnnl_graph_partition_t handle;
};

}  // namespace dgo
