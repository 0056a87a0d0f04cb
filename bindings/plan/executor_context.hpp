// The state of a running execution.
#pragma once

#include <memory>
#include <vector>

#include "library/fork_guard.hpp"
#include "plan/executor.hpp"

namespace dgo {

// The address of empty operands: some entry points refuse null.
alignas(kScratchAlignment) inline char nothing_on_host[kScratchAlignment];

struct Executor::Context {
    explicit Context(const Api* api) : api(api) {}
    ~Context() {
        for (dnnl_graph_tensor_t tensor : tensors)
            if (tensor) fork_guard::destroy(api->graph_tensor_destroy, tensor);
    }
    Context(const Context&) = delete;
    Context& operator=(const Context&) = delete;

    // After an error: started work may still use memory that is about to be freed.
    void settle() noexcept {
        if (stream) api->stream_wait(stream->handle);
    }

    const Api* api;
    std::unique_ptr<Stream> stream;
    char* arena = nullptr;
    std::vector<char*> bases;                  // per slot
    std::vector<char*> operands;               // per operand
    std::vector<dnnl_graph_tensor_t> tensors;  // per operand; null unless of a partition

    // Per slot, on a device only.
    std::vector<char*> host;             // where the host has the data, or wants it; null: on the device alone
    std::vector<DeviceMemory> staging;  // what stands there for an array of the host
};

}  // namespace dgo
