// Queries of SYCL objects, by functions of the SYCL runtime. It has no C interface: its functions are called by their
// C++ names, if the loaded version has them.
#pragma once

#include <cstdint>

#include "library/engine.hpp"

namespace dgo {

// Whether the address is USM of the engine's SYCL context. Also false where the SYCL runtime cannot be asked.
bool reaches(const Engine& engine, const void* address);

// An engine on the device and in the context of a sycl::queue.
std::shared_ptr<Engine> engine_of_queue(std::shared_ptr<const Library> lib, std::uintptr_t queue, std::size_t index,
                                        bool device_memory);

// An engine on a sycl::device, in a sycl::context; with an allocator, or the library's own.
std::shared_ptr<Engine> engine_from_sycl(std::shared_ptr<const Library> lib, std::uintptr_t device,
                                         std::uintptr_t context, std::size_t index, bool device_memory,
                                         std::shared_ptr<const Allocator> allocator = nullptr);

// The stream of a sycl::queue.
std::shared_ptr<Stream> stream_from_sycl(std::shared_ptr<const Engine> engine, std::uintptr_t queue);

}  // namespace dgo
