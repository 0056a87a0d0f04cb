// Recorded layers correct the estimates of a layer by the similarity of their features.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dgo {

// Returns, for each weight of the rows, the sum over all rows of the weight times the row's similarity to `place`, the
// Matern kernel of order 3/2: 1 for equal features, 0 far away. Rows are hundredths: features, as many as `place` has,
// then weights.
std::vector<double> similar_sums(const std::int16_t* rows, std::size_t count, std::size_t width,
                                 const std::vector<double>& place);

}  // namespace dgo
