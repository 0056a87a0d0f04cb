// Division that rounds down or up, for positive divisors.
#pragma once

#include <cstdint>

namespace dgo {

inline int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }
inline int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b > 0); }

}  // namespace dgo
