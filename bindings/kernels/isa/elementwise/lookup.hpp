#pragma once

#include <cstdint>

namespace dgo::DGO_ISA {

// to[i] = table[from[i]] of bytes in rows, a table of 256; both may be the same place.
void look_up(const uint8_t* table, const char* from, int64_t from_row, int64_t rows, int64_t columns, char* to,
             int64_t to_row);

}  // namespace dgo::DGO_ISA
