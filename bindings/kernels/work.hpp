// What a run of a kernel comes to: estimates of its time go by that.
#pragma once

#include <cstdint>

#include "kernels/filtering/filter_product.hpp"
#include "kernels/isa.hpp"

namespace dgo {

struct Work {
    double products = 0;  // multiplications, with those that only fill up vectors and register tiles
    double values = 0;    // elements that pass through a transform or a gather
    double runs = 0;      // rows of channels that are fetched or written one by one
    double weights = 0;   // packed weights that are read, or sums of a gradient that are written
};

enum class WorkOf { forward, backward_data, backward_weights };

// `of`: the vector code that runs. The activations, of these dtypes, are taken to be dense, channels last.
Work filter_work(const FilterProblem& problem, WorkOf direction, int src_dtype, int dst_dtype, int threads,
                 const VectorCode& of);
Work overlap_work(const FilterProblem& problem, const VectorCode& of);
// depth: of all images. weights: elements of the right factor that are put across on the way.
Work row_product_work(int64_t rows, int64_t columns, int64_t depth, const VectorCode& of);

}  // namespace dgo
