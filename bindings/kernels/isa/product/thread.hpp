// Calls a set's begin() and end() around the products of a thread.
#pragma once

#include "kernels/product/dot.hpp"
#include "kernels/isa/vector/integer.hpp"

namespace dgo::DGO_ISA {

// Lives during a thread's part of a parallel region. dot null: the set needs neither call.
struct DotThread {
    const Dot* dot;

    explicit DotThread(const Dot* with, int64_t tile_rows = kDotRows) : dot(with) {
        if (dot != nullptr) dot->begin(tile_rows);
    }
    ~DotThread() {
        if (dot != nullptr) dot->end();
    }
    DotThread(const DotThread&) = delete;
    DotThread& operator=(const DotThread&) = delete;
};

}  // namespace dgo::DGO_ISA
