// Checks that both directions between an image and its columns share.
#pragma once

#include <string>

#include "kernels/layer.hpp"

namespace dgo {

// The columns of a transposed convolution: col[n, source position, kernel position, c], with strides in the
// order n, source axes, kernel axes, c. Strides of dst: n, c, spatial.
struct Im2colProblem : LayerSizes {
    int col_dtype;
    Dims col_strides;
    int dst_dtype;
    Dims dst_strides;
};

void check_columns(const std::string& what, const Im2colProblem& problem);

}  // namespace dgo
