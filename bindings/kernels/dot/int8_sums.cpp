// Sums of what each position of the result reads, of bytes less their zero point: of the channels first, then of the windows
// along the last axis, then of those along the others.
#include <algorithm>
#include <string>

#include "kernels/checked.hpp"
#include "kernels/declaration.hpp"
#include "kernels/dot/int8.hpp"
#include "kernels/dot/vtable.hpp"
#include "kernels/kernel.hpp"
#include "kernels/product/described.hpp"
#include "kernels/isa.hpp"
#include "kernels/parallel.hpp"
#include "kernels/scratch.hpp"

namespace dgo {
namespace {

constexpr const char* kName = "int8_sums";
constexpr double kLeastBytes = 1 << 16;  // bytes of rows from which more than one thread works

// An axis of windows: tap k joins positions j * src_step + shift(k) of src and j * dst_step of dst, or the other way round.
struct WindowAxis {
    int64_t src = 1, dst = 1, taps = 1, stride = 1, pad = 0, dilation = 1;
    bool scatters = false;  // src has the stride's steps

    bool plain() const { return taps == 1 && stride == 1 && pad == 0 && src == dst; }
    int64_t shift(int64_t tap) const { return tap * dilation - pad; }

    // Returns the position of src that a tap adds to a position of dst, or -1.
    int64_t source(int64_t position, int64_t tap) const {
        int64_t at = scatters ? position - shift(tap) : position * stride + shift(tap);
        if (scatters && at % stride != 0) return -1;
        at /= scatters ? stride : 1;
        return at >= 0 && at < src ? at : -1;
    }

    // to[position of dst] = the sum over the taps of from[position of src], whole lines.
    void add_line(const uint32_t* from, uint32_t* to) const {
        std::fill(to, to + dst, 0);
        for (int64_t tap = 0; tap < taps; ++tap) {
            const int64_t by = shift(tap), near = scatters ? src : dst, far = scatters ? dst : src;
            const int64_t low = by < 0 ? (-by + stride - 1) / stride : 0;
            const int64_t high = far > by ? std::min(near, (far - 1 - by) / stride + 1) : 0;
            const int64_t src_step = scatters ? 1 : stride, dst_step = scatters ? stride : 1;
            const uint32_t* of = from + (scatters ? 0 : by);
            uint32_t* at = to + (scatters ? by : 0);
            if (stride == 1) {
                for (int64_t j = low; j < high; ++j) at[j] += of[j];
            } else {
                for (int64_t j = low; j < high; ++j) at[j * dst_step] += of[j * src_step];
            }
        }
    }
};

class Int8Sums final : public Kernel {
public:
    Int8Sums(const FilterProblem& p, FilterDirection direction, const FilterTensor& rows, int64_t channels,
             ElementType type, int32_t zero, bool has_zero, int threads)
        : batch_(p.batch), groups_(p.groups), channels_(channels), batch_stride_(rows.batch_stride),
          strides_(rows.strides), type_(type), zero_(zero), has_zero_(has_zero) {
        name = kName;
        arity = has_zero ? 3 : 2;
        const bool scatters = direction == FilterDirection::dgrad;
        const Axes &src = scatters ? p.in : p.out, &dst = scatters ? p.out : p.in;
        for (int a = 0; a < kFilterAxes; ++a) {
            axes_[a] = {src[a], dst[a], p.kernel[a], p.stride[a], p.pad[a], p.dilation[a], scatters};
        }
        lines_ = checked_product(kName, {batch_, groups_, src[0], src[1]});
        lone_ = groups_ == 1 && axes_[0].plain() && axes_[1].plain();
        line_ = layout_.add<uint32_t>(src[2]);
        if (!lone_) sums_ = shared_.add<uint32_t>(checked_product(kName, {lines_, dst[2]}));
        checked_product(kName, {batch_, groups_, dst[0], dst[1], dst[2]});
        const double bytes = static_cast<double>(lines_) * static_cast<double>(src[2] * channels);
        threads_ = bytes < kLeastBytes ? 1 : threads > 0 ? threads : omp_get_max_threads();
    }

    void run(char* const* operands) const override {
        const int32_t zero = has_zero_ ? zero_at(operands[1], type_) + sign_shift(type_) : zero_;
        auto* dst = reinterpret_cast<uint32_t*>(operands[arity - 1]);
        const Scratch scratch(shared_, layout_, threads_);
        uint32_t* sums = lone_ ? dst : sums_.in(scratch.shared());
        const WindowAxis& last = axes_[2];
        parallel_parts(threads_, lines_, [&](int64_t begin, int64_t end, int rank) {
            for (int64_t i = begin; i < end; ++i) {
                const int64_t h = i % axes_[1].src, d = i / axes_[1].src % axes_[0].src,
                              g = i / (axes_[1].src * axes_[0].src) % groups_,
                              n = i / (axes_[1].src * axes_[0].src * groups_);
                const char* rows = operands[0] + n * batch_stride_ + d * strides_[0] + h * strides_[1] + g * channels_;
                uint32_t *to = sums + i * last.dst, *line = last.plain() ? to : line_.in(scratch.of(rank));
                vector_code().dot.int8_sums(rows, last.src, strides_[2], channels_,
                                            zero * static_cast<int32_t>(channels_), reinterpret_cast<int32_t*>(line));
                if (line != to) last.add_line(line, to);
            }
        });
        if (!lone_) join(sums, dst);
    }

private:
    // dst = lines of sums along the last axis, summed along the other axes.
    void join(const uint32_t* sums, uint32_t* dst) const {
        const WindowAxis &depth = axes_[0], &height = axes_[1];
        const int64_t width = axes_[2].dst;
        parallel_parts(threads_, batch_ * depth.dst * height.dst, [&](int64_t begin, int64_t end, int) {
            for (int64_t i = begin; i < end; ++i) {
                const int64_t h = i % height.dst, d = i / height.dst % depth.dst, n = i / (height.dst * depth.dst);
                uint32_t* to = dst + i * width * groups_;
                std::fill(to, to + width * groups_, 0);
                for (int64_t tap = 0; tap < depth.taps * height.taps; ++tap) {
                    const int64_t from_d = depth.source(d, tap / height.taps),
                                  from_h = height.source(h, tap % height.taps);
                    for (int64_t g = 0; g < groups_ && from_d >= 0 && from_h >= 0; ++g) {
                        add(sums + (((n * groups_ + g) * depth.src + from_d) * height.src + from_h) * width, to + g);
                    }
                }
            }
        });
    }

    void add(const uint32_t* from, uint32_t* to) const {
        if (groups_ == 1) {
            for (int64_t w = 0; w < axes_[2].dst; ++w) to[w] += from[w];
        } else {
            for (int64_t w = 0; w < axes_[2].dst; ++w) to[w * groups_] += from[w];
        }
    }

    const int64_t batch_, groups_, channels_, batch_stride_;
    const Axes strides_;
    const ElementType type_;
    const int32_t zero_;
    const bool has_zero_;
    WindowAxis axes_[kFilterAxes];
    bool lone_ = false;  // lines along the last axis are the result
    int64_t lines_ = 0;
    int threads_ = 1;
    ScratchLayout shared_, layout_;
    ScratchArray<uint32_t> sums_, line_;
};

std::unique_ptr<Kernel> make_sums(const FilterProblem& p, const std::string& direction, const Dims& rows_strides,
                                  int64_t channels, int src_dtype, int src_zero, int threads, bool has_zero) {
    const FilterDirection to = filter_direction(direction);
    const bool dgrad = to == FilterDirection::dgrad;
    const FilterTensor rows = filter_tensor(p, src_dtype, rows_strides, "rows_strides", dgrad ? p.in : p.out);
    const ElementType type = integer_type(kName, "src", src_dtype);
    // the largest sum, which must fit into s32
    check_number(kName, "channels", channels, 1, std::min<int64_t>(dgrad ? p.in_channels : p.out_channels, 1 << 20));
    const int zero = unsigned_zero(kName, src_dtype, src_zero);
    return std::make_unique<Int8Sums>(p, to, rows, channels, type, zero, has_zero, threads);
}

}  // namespace

const Declaration kInt8Sums[] = {
    {"int8_sums(problem, direction, rows_strides, channels, src_dtype, src_zero, threads=0, has_zero=False)", make_sums,
     "rows, [zero (1)], sums",
     "sums[n, position of dst, group] = the sum in s32 of the elements of rows that the position reads, less src's "
     "zero point, which may be an operand of src's type. rows are bytes. channels: how many channels of a group are "
     "summed, from the first of a position of rows on."},
};

}  // namespace dgo
