// The parts of WindowCode, by the files that have them.
#pragma once

#include "kernels/window/vtable.hpp"

#ifndef DGO_ISA
#error "compile with -DDGO_ISA=<namespace of the instruction set>"
#endif

namespace dgo::DGO_ISA {

void fold_sum(const FoldRun& run);
void fold_max(const FoldRun& run);
void fold_min(const FoldRun& run);
float fold_row_sum(Cell from, const char* src, int64_t count);
float fold_row_max(Cell from, const char* src, int64_t count);
float fold_row_min(Cell from, const char* src, int64_t count);

void mix(const MixRun& run);
void linear(const LinearRun& run);
void move(const MoveRun& run);

}  // namespace dgo::DGO_ISA
