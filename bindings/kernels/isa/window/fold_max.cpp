#include "kernels/isa/window/fold.hpp"

namespace dgo::DGO_ISA {

void fold_max(const FoldRun& run) { fold_by_cells<Fold::max>(run); }
float fold_row_max(Cell from, const char* src, int64_t count) { return fold_row_by_cell<Fold::max>(from, src, count); }

}  // namespace dgo::DGO_ISA
