// How transforms of Winograd store what they make of a tile, in whatever set they are compiled.
#pragma once

#include <cstdint>

namespace dgo {

// Where the transform of one tile goes: channel c of plane p at p * plane + c / width * strip + c % width.
struct Spread {
    int64_t plane, width, strip;
};
template <class From, class To = From>
using SpreadFn = void (*)(const From* const* from, int64_t channels, To* to, const Spread& spread);

using ShapeIndex = int;  // of kShapeSizes

}  // namespace dgo
