// Post-ops as a step of their own.
#include <algorithm>

#include "kernels/checked.hpp"
#include "kernels/declaration.hpp"
#include "kernels/division.hpp"
#include "kernels/isa.hpp"
#include "kernels/parallel.hpp"
#include "kernels/row_taps.hpp"
#include "kernels/epilogue/epilogue.hpp"

namespace dgo {
namespace {

constexpr const char* kName = "epilogue";
constexpr int64_t kRows = 32;  // rows in a call of the vector code
constexpr int64_t kFewChannels = 64;  // with fewer channels, many pixels are a row

struct EpilogueKernel : Kernel {
    Epilogue epilogue;
    Dims positions, strides;
    int64_t channels, pixels;
    EpilogueParams params;

    EpilogueKernel(const Epilogue& given, const Dims& sizes, int64_t channels_, const Dims& steps)
        : epilogue(given), positions(sizes), strides(steps), channels(channels_),
          pixels(checked_product(kName, {product(sizes)})), params(epilogue.params(channels, positions, strides)) {
        name = kName;
        arity = epilogue.operands() + 1;
    }

    void run(char* const* operands) const override {
        if (pixels == 0 || channels == 0) return;
        float* const dst = reinterpret_cast<float*>(operands[arity - 1]);
        const int64_t width = positions.back();
        parallel_for(pixels / width, static_cast<double>(pixels * channels * 4), [&](int64_t begin, int64_t end) {
            for (int64_t row = begin; row < end; ++row) {
                const int64_t first = offset(row * width);
                apply_epilogue(params, operands,
                               EpilogueRun{dst + first, strides.back(), first, strides.back(), width, channels, 0});
            }
        });
    }

    int64_t offset(int64_t pixel) const {
        int64_t at = 0;
        for (size_t axis = positions.size(); axis-- > 0; pixel /= positions[axis]) {
            at += pixel % positions[axis] * strides[axis];
        }
        return at;
    }
};

std::shared_ptr<Kernel> make_epilogue(const Epilogue& epilogue, const Dims& positions, int64_t channels,
                                      const Dims& strides) {
    for (const int64_t size : positions) check_number(kName, "positions", size, 0, kMostSize);
    for (const int64_t stride : strides) check_number(kName, "strides", stride, 0, kMostElements);
    return std::make_shared<EpilogueKernel>(epilogue, positions, channels, strides);
}

}  // namespace

void apply_epilogue(const EpilogueParams& params, const char* const* operands, const EpilogueRun& run) {
    if (run.channels < kFewChannels && run.step == run.channels && run.pitch == run.channels &&
        run.channels == params.channels) {
        // many pixels as a row, which stays within an image
        for (int64_t first = 0, some; first < run.count; first += some) {
            float* const row = run.values + first * run.step;
            const int64_t offset = run.offset + first * run.pitch;
            some = std::min(run.count - first, ceil_div(params.image_pitch - offset % params.image_pitch, run.pitch));
            vector_code().epilogue.apply(params, operands, {&row, &offset, 1, some * run.channels, 0});
        }
        return;
    }
    for (int64_t first = 0; first < run.count; first += kRows) {
        const int64_t count = std::min(kRows, run.count - first);
        float* rows[kRows];
        int64_t offsets[kRows];
        for (int64_t r = 0; r < count; ++r) {
            rows[r] = run.values + (first + r) * run.step;
            offsets[r] = run.offset + (first + r) * run.pitch;
        }
        vector_code().epilogue.apply(params, operands, {rows, offsets, count, run.channels, run.channel});
    }
}

const Declaration kEpilogue{"epilogue(epilogue, positions, channels, strides)", make_epilogue,
                            "epilogue's..., dst (positions, channels)",
                            "dst = the post-ops of dst, in place, f32, channels last. positions and strides are those "
                            "of its axes without the channels, images first."};

}  // namespace dgo
