#include "kernels/isa/table.hpp"
#include "kernels/isa/window/code.hpp"

namespace dgo::DGO_ISA {
namespace {

void fold(const FoldRun& run) {
    if (run.fold == Fold::sum) return fold_sum(run);
    run.fold == Fold::max ? fold_max(run) : fold_min(run);
}

float fold_row(Fold fold, Cell from, const char* src, int64_t count) {
    if (fold == Fold::sum) return fold_row_sum(from, src, count);
    return fold == Fold::max ? fold_row_max(from, src, count) : fold_row_min(from, src, count);
}

}  // namespace

const WindowCode kWindowCode = {fold, fold_row, mix, linear, move};

}  // namespace dgo::DGO_ISA
