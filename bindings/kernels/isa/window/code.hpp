// The parts of WindowCode, by the files that have them.
#pragma once

#include "kernels/window/vtable.hpp"

#ifndef DGO_ISA
#error "compile with -DDGO_ISA=<namespace of the instruction set>"
#endif

namespace dgo::DGO_ISA {

void fold_integers(const FoldRun& run);
int32_t fold_row_of_integers(Fold fold, ElementType from, const char* const* rows, int64_t row_count, int64_t count);
void fold_rows_of_integers(const RowFold& rows);
void mix(const MixRun& run);
void peak(const PeakRun& run);
void linear(const LinearRun& run);
void move(const MoveRun& run);
void round(const RoundRun& run);

}  // namespace dgo::DGO_ISA
