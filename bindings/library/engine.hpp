// A device of one library, and an execution queue on it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "library/library.hpp"
#include "memory/arena.hpp"

namespace dgo {

class Allocator;

// One object per device and process: the library refuses to run a partition on another engine than it was compiled
// for, even on an equal one. The runtime package keeps them.
class Engine {
public:
    // device_memory: a CPU engine is treated like a GPU's, whose partitions never see memory of the host.
    Engine(std::shared_ptr<const Library> lib, dnnl_engine_kind_t kind, std::size_t index,
           std::shared_ptr<const Allocator> allocator = nullptr, bool device_memory = false);
    // Takes over a handle (SYCL interop), made with this allocator; index says which device of its kind it stands for.
    Engine(std::shared_ptr<const Library> lib, dnnl_engine_t handle, dnnl_engine_kind_t kind, std::size_t index,
           std::shared_ptr<const Allocator> allocator, bool device_memory);
    ~Engine();
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    const Api& api() const { return lib->api(); }
    std::string str() const;
    BlockPool& blocks() const { return blocks_ ? *blocks_ : host_blocks(); }

    const std::shared_ptr<const Library> lib;
    const dnnl_engine_kind_t kind;
    const std::size_t index;
    const bool on_device;  // operands of partitions are memory of the device
    dnnl_engine_t handle = nullptr;

private:
    std::shared_ptr<const Allocator> allocator_;  // the library keeps only a raw pointer to it
    std::unique_ptr<BlockPool> blocks_;           // null: those of the host
};

class Stream {
public:
    explicit Stream(std::shared_ptr<const Engine> engine, unsigned flags = dnnl_stream_default_flags);
    // Takes over a handle (SYCL interop).
    Stream(std::shared_ptr<const Engine> engine, dnnl_stream_t handle);
    ~Stream();
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    void wait() const;  // may be called without the GIL

    const std::shared_ptr<const Engine> engine;
    dnnl_stream_t handle = nullptr;
};

const char* engine_kind_name(dnnl_engine_kind_t kind);
dnnl_engine_kind_t engine_kind_from(int kind);  // throws unless cpu or gpu

}  // namespace dgo
