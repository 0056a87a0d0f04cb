#include "kernels/isa/integer/vtable.hpp"

#include "kernels/isa.hpp"
#include "kernels/isa/tail/apply.hpp"

#define DGO_TEXT_(x) #x
#define DGO_TEXT(x) DGO_TEXT_(x)

namespace dgo::DGO_ISA {

// Post-ops are f32: the other vector code has them.
void apply_tail(const TailParams& params, const char* const* operands, const TailTile& tile) {
    vector_code().tail.apply(params, operands, tile);
}

extern const IntegerCode kIntegerCode;
const IntegerCode kIntegerCode = {DGO_TEXT(DGO_ISA),   kNarrowItem,      kNarrowUnit,     narrow_products_scratch,
                                  run_narrow_products, run_integer_pack, run_integer_rows};

}  // namespace dgo::DGO_ISA
