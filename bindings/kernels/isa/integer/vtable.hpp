// The parts of integer products' vector code.
#pragma once

#include "kernels/integer/vtable.hpp"
#include "kernels/isa/narrow/vtable.hpp"

namespace dgo::DGO_ISA {

void run_integer_pack(const PackParams& params, const char* weights, const int32_t* points, char* packed,
                      int32_t* totals);
void run_integer_rows(const IntegerRows& params, const char* src, char* rows);

}  // namespace dgo::DGO_ISA
