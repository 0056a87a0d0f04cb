// The table of kernels of one instruction set.
#include "kernels/isa/vector/lanes.hpp"
#include "kernels/isa/table.hpp"

namespace dgo::DGO_ISA {

extern const bool kEmulated;
const bool kEmulated = kEmulates;

extern const VectorCode kVectorCode;
const VectorCode kVectorCode = {DGO_TEXT(DGO_ISA), kLanes,   kAttentionCode,   kElementwiseCode, kCopyCode,
                                kDepthwiseCode,    kDotCode, kFilterCode,      kNormCode,        kCol2imCode,
                                kRecurrentCode,    kRowCode, kFewChannelsCode, kEpilogueCode,    kWindowCode};

}  // namespace dgo::DGO_ISA
