// How many numbers become one.
#pragma once

namespace dgo {

// The largest and the smallest of numbers with a NaN among them is NaN. magnitudes and squares: sums of these.
enum class Fold { sum, max, min, product, magnitudes, squares };

// How results for parts of the numbers become one.
constexpr Fold joining(Fold fold) { return fold == Fold::magnitudes || fold == Fold::squares ? Fold::sum : fold; }

}  // namespace dgo
