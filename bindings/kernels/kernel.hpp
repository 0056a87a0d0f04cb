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

// A kernel that needs scratch memory: `scratch_bytes`, 64-byte aligned, is the operand before the destination.
struct ScratchKernel : Kernel {
    int64_t scratch_bytes = 0;
    bool over_operands = false;  // an operand of post-ops that lies as dst does, in f32, may be where dst is
    int64_t products = 0;  // multiplications of one run, with the padding of narrow channels
};

// Larger f32 results than caches hold are written past them: nothing is read in to be overwritten.
constexpr int64_t kVastBytes = 24 * 1024 * 1024;

}  // namespace dgo
