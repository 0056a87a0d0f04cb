#include "kernels/isa/depthwise/gather.hpp"

namespace dgo::DGO_ISA {

void gather_u8(const GatherRun& run) {
    if (kLanes == 8 || run.channels >= kLanes) return gather_with<U8, kLanes, Lay::own>(run);
    gather_with<U8, 8, Lay::own>(run);
}

}  // namespace dgo::DGO_ISA
