// Columns of a panel that lie side by side, so that products of few sequences read weights one after the other.
#pragma once

#include <cstdint>

namespace dgo {

constexpr int64_t kPart = 32;

}  // namespace dgo
