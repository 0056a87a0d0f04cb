#include "kernels/isa/depthwise/gather.hpp"
#include "kernels/isa/depthwise/gradient.hpp"

namespace dgo::DGO_ISA {

void gather_f16(const GatherRun& run) { gather<F16>(run); }
void gradient_f16(const ChannelsGradient& run) { gradient<F16>(run); }

}  // namespace dgo::DGO_ISA
