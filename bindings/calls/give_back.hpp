// Memory that is free goes back to the system: the allocator keeps it, and so do the library and the pools of scratch.
#pragma once

#include <cstddef>

#include <pybind11/pybind11.h>

namespace dgo {

// So many bytes have become free, or are about to. Once that is many, they go back soon: not at once, as what goes with
// them may still be on its way. Needs the GIL.
void freed(std::size_t bytes) noexcept;

void bind_give_back(pybind11::module_& m);

}  // namespace dgo
