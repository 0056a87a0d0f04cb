// The weights that the next steps of a plan read. All weights of a net do not stay in the caches: kernels that wait for
// their arithmetic fetch some of them meanwhile.
#pragma once

#include <cstdint>

namespace dgo {

struct ComingWeights {
    const char* at = nullptr;
    int64_t bytes = 0;
};

// Returns those after the step that the calling thread runs; a plan sets them before each step, and clears them.
ComingWeights& coming_weights();

}  // namespace dgo
