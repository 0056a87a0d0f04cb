#include "kernels/isa/window/fold.hpp"

namespace dgo::DGO_ISA {

void fold_min(const FoldRun& run) { fold_by_cells<Fold::min>(run); }
float fold_row_min(Cell from, const char* src, int64_t count) { return fold_row_by_cell<Fold::min>(from, src, count); }

}  // namespace dgo::DGO_ISA
