// Images read between their pixels.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "kernels/kernel.hpp"

namespace dgo {

// Places from -1 to 1 for each of the images: at the middles of the outermost pixels with align_corners, else at their
// outer edges. What is outside is 0 ("zeros"), the nearest pixel ("border"), or mirrored ("reflection").
struct SampleProblem {
    int64_t images, channels, height, width, places;
    bool linear;  // else the nearest pixel
    std::string padding;
    bool align_corners;
};

// src (images, channels, height, width), grid (images, places, x and y), dst (images, channels, places), f32 in a row
std::shared_ptr<Kernel> make_sample(const SampleProblem& problem);

}  // namespace dgo
