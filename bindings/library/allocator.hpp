// Memory functions that an engine uses for its scratch space instead of the library's own.
#pragma once

#include <memory>

#include "library/library.hpp"

namespace dgo {

class Allocator {
public:
    enum class Kind { host, sycl };

    // C functions (addresses) of the types that dnnl_graph_allocator_create or its SYCL sibling take; null stands for
    // 64-byte aligned host memory. They are called without the GIL. The SYCL default suits CPU engines only.
    Allocator(std::shared_ptr<const Library> lib, Kind kind, void* allocate, void* deallocate);
    ~Allocator();
    Allocator(const Allocator&) = delete;
    Allocator& operator=(const Allocator&) = delete;

    void check_library(const Library& of_engine) const;  // throws unless it is the allocator's own

    const std::shared_ptr<const Library> lib;
    dnnl_graph_allocator_t handle = nullptr;
};

// The host allocator of a library, whose large blocks are kept between calls.
std::shared_ptr<const Allocator> default_allocator(const std::shared_ptr<const Library>& lib);

}  // namespace dgo
