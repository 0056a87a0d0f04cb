// The order in which transforms of Winograd store their results, the same in every instruction set.
#pragma once

#include <cstdint>

namespace dgo {

// The places of the transform of one tile: channel c of plane p at p * plane + c / width * strip + c % width.
struct Spread {
    int64_t plane, width, strip;
};
template <class From, class To = From>
using SpreadFn = void (*)(const From* const* from, int64_t channels, To* to, const Spread& spread);

using ShapeIndex = int;  // an index into kShapeSizes

}  // namespace dgo
