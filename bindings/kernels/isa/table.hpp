// The tables of one instruction set, one for each kernel; table.cpp joins them.
#pragma once

#include "kernels/isa.hpp"

namespace dgo::DGO_ISA {

extern const AttentionCode kAttentionCode;
extern const ElementwiseCode kElementwiseCode;
extern const CopyCode kCopyCode;
extern const DepthwiseCode kDepthwiseCode;
extern const DotCode kDotCode;
extern const FilterCode kFilterCode;
extern const NormCode kNormCode;
extern const Col2imCode kCol2imCode;
extern const RecurrentCode kRecurrentCode;
extern const RowCode kRowCode;
extern const FewChannelsCode kFewChannelsCode;
extern const EpilogueCode kEpilogueCode;
extern const WindowCode kWindowCode;

}  // namespace dgo::DGO_ISA
