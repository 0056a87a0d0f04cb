#pragma once

#include "kernels/isa.hpp"

namespace dgo::DGO_ISA {

BlockFn copy_block(BlockKind kind, Cell src, Cell dst);

}  // namespace dgo::DGO_ISA
