#include "kernels/narrow/vtable.hpp"

#include "kernels/isa/narrow/block.hpp"

#define DGO_TEXT_(x) #x
#define DGO_TEXT(x) DGO_TEXT_(x)

namespace dgo::DGO_ISA {

extern const NarrowCode kNarrowCode;
const NarrowCode kNarrowCode = {DGO_TEXT(DGO_ISA), kNarrowStep};

}  // namespace dgo::DGO_ISA
