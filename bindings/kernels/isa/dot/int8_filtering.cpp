// Products of 8 bits by Winograd: words are transformed and multiplied, sums are transformed back in s32 and
// divided by what the weights' transform was multiplied with. Integers, so that each of these is exact.
#include "kernels/isa/dot/int8_finish.hpp"
#include "kernels/isa/product/planes.hpp"
#include "kernels/isa/product/transform_tables.hpp"

namespace dgo::DGO_ISA {
namespace {

struct PutWords {
    static DGO_INLINE void put(int16_t* at, WordLanes value) { store_bytes(at, value); }
};

// to[i][c] = the transform of from[p * plane + c], divided by 2^shift.
using SumsFn = void (*)(const int32_t* from, int64_t plane, int64_t channels, int shift, int32_t* const* to);

template <class T>
void gather_sums(const int32_t* from, int64_t plane, int64_t channels, int shift, int32_t* const* to) {
    for (int64_t c = 0; c < channels; c += kLanes) {
        T::run([plane, at = from + c](int p)
                   __attribute__((always_inline)) { return load_bytes<Integers>(at + p * plane); },
               [&](int i, Integers sum) __attribute__((always_inline)) { store_bytes(to[i] + c, sum >> shift); });
    }
}

struct PutSums;
template <>
struct Entry<SumsFn, PutSums> {
    template <class T>
    static constexpr SumsFn of = &gather_sums<T>;
};

constexpr Table<Transform::window, SpreadFn<int16_t>, PutWords, false> kWindows;
constexpr Table<Transform::output, SumsFn, PutSums, false> kOutputs;

// One thread's products.
class Int8Filtering {
public:
    Int8Filtering(const ProductParams& params, const ProductCall& call, char* memory, char* dst)
        : params_(params), call_(call), finish_(params, call, dst),
          epilogue_(call.epilogue, dst, params.dst.item, params.dst.channels) {
        scratch_ = divide(params, memory);
        scratch_bytes = scratch_.bytes;
        ScratchCarver carver(memory == nullptr ? nullptr : memory + scratch_bytes);
        finish_.carve(carver);
        scratch_bytes += carver.bytes;
    }

    void prepare() {
        finish_.prepare();
        const int64_t zeros = larger(params_.src.run, kFilterChunk) + kLanes;
        __builtin_memset(scratch_.zeros, 0, static_cast<size_t>(zeros) * sizeof(float));
    }

    void run(int64_t task, const char* src, const char* packed, char* dst) {
        const int64_t g = task / params_.tasks;
        epilogue_.first_channel = g * params_.dst.channels;
        finish_.group = g;
        const TaskBlock at(params_, task % params_.tasks, kDotBlockRows);
        src += g * params_.src.channels * params_.src.item;
        packed += (g * params_.packed + at.group->packed) * params_.dot->item;
        dst += g * params_.dst.channels * params_.dst.item;
        const ShapeIndex* shape = params_.filter_shape;
        const auto transform = kWindows.find(window_shape(shape[0]), window_shape(shape[1]), window_shape(shape[2]));
        transform_windows(params_, *at.group, at.first, at.count, Part{0, 1}, src, transform, scratch_);
        const FilterImage image = at.group->folded ? params_.dst : unfolded(params_.dst);
        const int64_t all = group_columns(params_, *at.group), chunks = ceil_div(all, kFilterChunk);
        const int64_t stop = chunks * (at.part + 1) / at.group->parts;
        for (int64_t chunk = chunks * at.part / at.group->parts; chunk < stop; ++chunk) {
            const int64_t column = chunk * kFilterChunk, end = smaller(column + kFilterChunk, all);
            multiply_by_set(params_, *at.group, {0, params_.planes}, column, end - column, at.count, packed, scratch_);
            for_each_slice(image, *at.group, column, end, nullptr,
                           [&](const RunSlice& slice) { write(image, at, slice, dst); });
        }
    }

    int64_t scratch_bytes = 0;

private:
    void write(const FilterImage& image, const TaskBlock& at, const RunSlice& slice, char* dst) {
        const SumsFn transform =
            kOutputs.find(params_.output_shape[0], params_.output_shape[1], params_.output_shape[2]);
        const int64_t outputs = params_.outputs[0] * params_.outputs[1] * params_.outputs[2];
        const int64_t end = slice.begin + slice.count, plane = result_stride(params_);
        const int64_t tile = params_.outputs[kFilterAxes - 1], step = line_step(image, tile);
        const auto* sums = reinterpret_cast<const int32_t*>(scratch_.result) + slice.column;
        int32_t* to[kFilterPlanes];
        for (int64_t i = 0; i < outputs; ++i) to[i] = reinterpret_cast<int32_t*>(scratch_.wide) + i * kFilterChunk;
        const auto write_tiles = [&](int64_t t, int64_t m, const RunOffsets& runs) {
            char* moved = dst;
            for (const int64_t stop = t + m; t < stop; ++t, moved += step) {
                transform(sums + t * kFilterChunk, plane, slice.count, call_.integer->shift, to);
                const auto for_each_run = [&](auto visit) __attribute__((always_inline)) {
                    for (int64_t i = 0; i < outputs; ++i) {
                        if (runs.at[i] == kAbsent) continue;
                        const int64_t k = runs.inside ? 0 : i % tile;
                        const int64_t from = larger(slice.begin, runs.low[k]), until = smaller(end, runs.high[k]);
                        if (from >= until) continue;
                        visit(to[i] + from - slice.begin, moved + runs.at[i] + from * image.item, from, until - from);
                    }
                };
                if (call_.epilogue.params != nullptr) {
                    for_each_run([&](int32_t* row, char* there, int64_t from, int64_t n) {
                        finish_.scale(row, from, n);
                        epilogue_.add(reinterpret_cast<float*>(row), there, from, n);
                    });
                    epilogue_.flush();
                    for_each_run([&](int32_t* row, char* there, int64_t, int64_t n) {
                        finish_.round(image.type, row, n, there);
                    });
                } else {
                    for_each_run([&](int32_t* row, char* there, int64_t from, int64_t n) {
                        finish_.scale_and_round(image.type, row, there, from, n);
                    });
                }
            }
        };
        for_each_line(at.group->tiles, at.group->base, params_.outputs, at.first, at.count,
                      [&](int64_t t, int64_t n, const TilePlace& p) {
                          for_each_runs(image, p, slice.run, params_.outputs, tile, t, n, write_tiles);
                      });
    }

    const ProductParams& params_;
    const ProductCall& call_;
    Int8Finish finish_;
    EpilogueRows epilogue_;
    ProductScratch scratch_;
};

}  // namespace

const ProductCode kInt8Filtering = kProductsOf<Int8Filtering>;

}  // namespace dgo::DGO_ISA
