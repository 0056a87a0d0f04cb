// Sums of many numbers, whose error grows with the logarithm of their count.
#pragma once

#include "kernels/isa/vector/lanes.hpp"

namespace dgo::DGO_ISA {

// Adds up V vectors at a time: kWays sums of one level become one sum of the next. The number of vectors, written with
// base kWays, has as digits how many sums each level holds.
template <int L, int V>
class Cascade {
public:
    static constexpr int64_t kWays = 16;

    DGO_INLINE void add(const Floats<L> (&part)[V]) {
        int64_t digits = count++;
        put(levels[0], part, digits % kWays == 0);
        for (int i = 0; i + 1 < kLevels && digits % kWays == kWays - 1; ++i) {
            digits /= kWays;
            put(levels[i + 1], levels[i], i + 2 < kLevels ? digits % kWays == 0 : digits == 0);
        }
    }

    DGO_INLINE void add_to(Floats<L> (&sum)[V]) const {
        int64_t digits = count;
        for (int i = 0; digits != 0 && i < kLevels; ++i, digits /= kWays) {
            if (i + 1 == kLevels || digits % kWays != 0) put(sum, levels[i], false);
        }
    }

private:
    static constexpr int kLevels = 5;

    static DGO_INLINE void put(Floats<L> (&sum)[V], const Floats<L> (&part)[V], bool first) {
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) sum[v] = first ? part[v] : sum[v] + part[v];
    }

    Floats<L> levels[kLevels][V];
    int64_t count = 0;
};

}  // namespace dgo::DGO_ISA
