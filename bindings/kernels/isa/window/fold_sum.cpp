#include "kernels/isa/window/fold.hpp"

namespace dgo::DGO_ISA {

void fold_sum(const FoldRun& run) { fold_by_cells<Fold::sum>(run); }
float fold_row_sum(Cell from, const char* src, int64_t count) { return fold_row_by_cell<Fold::sum>(from, src, count); }

}  // namespace dgo::DGO_ISA
