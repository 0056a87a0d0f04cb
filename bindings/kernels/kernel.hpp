// The interface of every native kernel that a plan can run as a step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace dgo {

using Dims = std::vector<int64_t>;  // sizes or strides, one for each axis

struct Kernel {
    virtual ~Kernel() = default;

    // `operands` holds `arity` addresses, the sources first and the destination last. Safe to call from
    // several threads at once: a kernel keeps no state between runs.
    virtual void run(char* const* operands) const = 0;

    // Bytes that the kernel takes between runs, roughly: measured, of those for matrix products; kernels that hold
    // others add these.
    virtual std::size_t held_bytes() const { return 1536; }

    int arity = 0;
    std::string name;
    // The code that computes: operation, type, instruction set, rows and columns of its registers; empty: the set's
    // vector code.
    std::string by;
};

}  // namespace dgo
