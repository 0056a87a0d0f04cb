// The taps of a (transposed) convolution that each output meets on one axis, without a division per output.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/division.hpp"

namespace dgo {

struct Tap {
    int64_t k;     // index in the kernel
    int64_t base;  // source index of the phase's output 0
};

// Outputs q * phases + phase for q in [begin, end), all of which meet the taps [first, last) of the phase.
struct Stretch {
    int64_t phase, begin, end;
    int64_t first, last;
};

// Gathers an axis of outputs from an axis of sources: output q * phases + r meets source q * advance + base
// for every tap of phase r whose source exists.
class TapAxis {
public:
    // dst of a transposed convolution from src: as many phases as the stride, or as dst has elements if it has fewer.
    static TapAxis dgrad(int64_t src, int64_t dst, int64_t kernel, int64_t stride, int64_t pad, int64_t dilation);
    // diff_src from diff_dst: one phase, the source advances by the stride.
    static TapAxis fprop(int64_t src, int64_t dst, int64_t kernel, int64_t stride, int64_t pad, int64_t dilation);

    int64_t phases = 1, advance = 1;
    int64_t outputs = 0, sources = 0, kernel = 1;
    std::vector<std::vector<Tap>> taps;  // [phase]: its taps

    // Outputs of a phase.
    int64_t count(int64_t phase) const { return ceil_div(outputs - phase, phases); }
    // The stretches of all phases, each from its first output to its last, outputs without taps included.
    std::vector<Stretch> stretches() const;
    // An output: the taps of its phase, and the source of a tap with base 0.
    struct Output {
        const std::vector<Tap>& taps;
        int64_t source;
    };
    Output output(int64_t index) const { return {taps[static_cast<size_t>(index % phases)], index / phases * advance}; }
    // Calls use(k, source) for every tap of one output.
    template <class Use>
    void for_output(const Output& output, Use&& use) const {
        for (const Tap& tap : output.taps) {
            const int64_t source = output.source + tap.base;
            if (source >= 0 && source < sources) use(tap.k, source);
        }
    }
    // The largest number of sources, first to last, that one output may span.
    int64_t span() const;
};

}  // namespace dgo
