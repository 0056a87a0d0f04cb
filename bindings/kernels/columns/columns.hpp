// Checks that both directions between an image and its columns share.
#pragma once

#include <string>

#include "kernels/factories.hpp"

namespace dgo {

void check_columns(const std::string& what, const ColumnsProblem& problem);

}  // namespace dgo
