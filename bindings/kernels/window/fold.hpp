// How many numbers become one.
#pragma once

namespace dgo {

// The largest and the smallest of numbers with a NaN among them is NaN.
enum class Fold { sum, max, min };

}  // namespace dgo
