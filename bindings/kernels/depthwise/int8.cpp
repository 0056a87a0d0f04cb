// Depthwise layers in 8 bits, ordinary or transposed, channels last: exact sums in s32, then as products of 8 bits.
//
// Rows of the kernel are mixed, so that an instruction sums up several of them for each channel; what they lack at the
// edges is src's zero point. All taps of the row read the same mixed positions.
#include <algorithm>
#include <array>

#include "kernels/checked.hpp"
#include "kernels/declaration.hpp"
#include "kernels/dot/depthwise.hpp"
#include "kernels/dot/int8.hpp"
#include "kernels/epilogue/epilogue.hpp"
#include "kernels/isa.hpp"
#include "kernels/parallel.hpp"
#include "kernels/row_taps.hpp"
#include "kernels/scratch.hpp"
#include "kernels/sets.hpp"

namespace dgo {
namespace {

constexpr const char* kName = "int8_depthwise";
constexpr int64_t kMixedBytes = 16 * 1024;  // mixed bytes of a section, if it is not short
constexpr int64_t kShortest = 16;           // outputs
constexpr int64_t kStrip = 32;              // outputs that are summed before they are rounded
constexpr int64_t kBeyond = 32;             // elements after the last channel that may be read
constexpr double kBytesOfTap = 0.1;  // bytes that cost as much as a product, see threads_for

const Dot& set_of(const std::string& isa) {
    const Dot& dot = int8_sets().of(isa);
    if (dot.depthwise == nullptr) {
        fail(ErrorKind::invalid_argument, std::string(kName) + ": " + dot.isa + " has no depthwise kernel");
    }
    return dot;
}

// A phase of both outer axes: its taps, row by row; by the inner phase, where weights and starts are packed, and the mixed
// position of each tap. `steps` have room for the sources of all rows of dst that are computed together.
struct OuterPhase {
    struct Place {
        int64_t weights, starts;     // bytes
        std::vector<int64_t> mixed;  // bytes from the first position
    };
    std::vector<std::array<Tap, 2>> rows;
    int64_t steps;
    std::vector<Place> places;
};

const LayerSizes& checked(const LayerSizes& sizes) {
    check_layer(kName, sizes);
    return sizes;
}

struct Int8DepthwiseLayout {
    LayerSizes layer;
    const Dot& dot;
    const DotDepthwise& code;
    TapAxes axes;
    int64_t block, blocks;  // channels of a block
    int64_t step_bytes;  // bytes of a mixed position, and of a tap
    std::vector<OuterPhase> phases;
    int64_t bytes = 0;  // bytes of the packed weights
    // together: rows of dst that share mixed rows of src. further: weights of each lie this many rows further.
    int64_t together = 1, further = 1;
    // Kernels of one row mix neighbouring taps in place of rows: copies of the row of src, `apart` positions apart.
    int64_t apart = 0;
    std::vector<std::vector<Tap>> inner;  // [phase of the last axis]: the first tap of each mixed group
    int64_t base = INT64_MAX, reach = 0;  // sources that an output meets: the first, and how many positions they span

    Int8DepthwiseLayout(const LayerSizes& sizes, bool dgrad, const std::string& isa)
        : layer(checked(sizes)), dot(set_of(isa)), code(*dot.depthwise), axes(sizes, dgrad),
          block(kDepthwiseVectors * code.lanes), blocks(ceil_div(sizes.c, block)), step_bytes(block * kDepthwiseRows) {
        const TapAxis &first = axes.outer[0], &second = axes.outer[1];
        inner = axes.inner.taps;
        const bool one_row = first.kernel == 1 && second.kernel == 1 && first.phases == 1 && second.phases == 1;
        const bool rising = inner[0].size() > 1 && inner[0][1].base > inner[0][0].base;
        if (one_row && axes.inner.phases == 1 && rising) {
            apart = inner[0][1].base - inner[0][0].base;
            inner[0].clear();
            for (size_t t = 0; t < axes.inner.taps[0].size(); t += kDepthwiseRows) {
                inner[0].push_back(axes.inner.taps[0][t]);
            }
        }
        for (const auto& taps : inner) {
            for (const Tap& tap : taps) base = std::min(base, tap.base);
        }
        for (const auto& taps : inner) {
            for (const Tap& tap : taps) reach = std::max(reach, tap.base - base + 1);
        }
        for (int64_t p = 0; p < first.phases * second.phases; ++p) {
            OuterPhase phase{};
            for (const Tap& a : first.taps[static_cast<size_t>(p / second.phases)]) {
                for (const Tap& b : second.taps[static_cast<size_t>(p % second.phases)]) phase.rows.push_back({a, b});
            }
            const auto rows = static_cast<int64_t>(phase.rows.size());
            phase.steps = ceil_div(rows, kDepthwiseRows);
            const bool alone = first.outputs == 1 && first.taps[0].size() == 1 && second.phases == 1;
            if (alone && rows > 1 && second.taps[0][1].base == second.taps[0][0].base + 1) {
                further = second.advance;
                together = (phase.steps * kDepthwiseRows - rows) / further + 1;
            }
            for (const auto& taps : inner) {
                const int64_t number = static_cast<int64_t>(taps.size()) * phase.steps;
                const int64_t weights = bytes, size = checked_product(kName, {number, together, blocks, step_bytes});
                bytes += size + checked_product(kName, {blocks, block, 4});
                phase.places.push_back({weights, weights + size, {}});
                for (const Tap& tap : taps) {
                    phase.places.back().mixed.push_back((tap.base - base) * phase.steps * step_bytes);
                }
            }
            phases.push_back(std::move(phase));
        }
    }

    const OuterPhase& phase_of(int64_t row) const {
        const TapAxis& second = axes.outer[1];
        const int64_t a = row / second.outputs % axes.outer[0].phases, b = row % second.outputs % second.phases;
        return phases[static_cast<size_t>(a * second.phases + b)];
    }
};

class Int8DepthwisePack final : public Kernel {
public:
    Int8DepthwisePack(const LayerSizes& sizes, bool dgrad, int dtype, const Dims& strides, int src_dtype, int src_zero,
                      const std::string& isa)
        : layout_(sizes, dgrad, isa), strides_(strides) {
        name = "int8_depthwise_pack";
        arity = 2;
        check_list(name, "strides", strides, sizes.kernel.size() + 1, 0, INT64_MAX);
        Dims shape = {sizes.c};
        shape.insert(shape.end(), sizes.kernel.begin(), sizes.kernel.end());
        check_extent(name, "strides", shape, strides);
        unsigned_ = integer_type(name, "weights", dtype) == ElementType::u8;
        zero_ = unsigned_zero(name, src_dtype, src_zero);
    }

    void run(char* const* operands) const override {
        char* packed = operands[1];
        std::fill_n(packed, layout_.bytes, char{0});
        for (const OuterPhase& phase : layout_.phases) {
            for (size_t r = 0; r < phase.places.size(); ++r) {
                pack(phase, layout_.inner[r], phase.places[r], operands[0], packed);
            }
        }
    }

private:
    void pack(const OuterPhase& phase, const std::vector<Tap>& taps, const OuterPhase::Place& place,
              const char* weights, char* packed) const {
        const auto axes = static_cast<int64_t>(strides_.size());
        const int64_t outer[2] = {axes > 3 ? strides_[1] : 0, axes > 2 ? strides_[static_cast<size_t>(axes - 2)] : 0};
        auto* starts = reinterpret_cast<int32_t*>(packed + place.starts);
        const int64_t rows = kDepthwiseRows, block = layout_.block;
        const auto number = static_cast<int64_t>(taps.size());
        for (int64_t c = 0; c < layout_.layer.c; ++c) {
            int32_t total = 0;
            for (int64_t t = 0; t < number; ++t) {
                const int64_t tap = taps[static_cast<size_t>(t)].k;
                const int64_t mixed = layout_.apart == 0 ? static_cast<int64_t>(phase.rows.size())
                                                         : std::min(rows, layout_.axes.inner.kernel - tap);
                for (int64_t i = 0; i < mixed; ++i) {
                    const auto& row = phase.rows[layout_.apart == 0 ? static_cast<size_t>(i) : 0];
                    const int64_t k = layout_.apart == 0 ? tap : tap + i;
                    const char at =
                        weights[c * strides_[0] + row[0].k * outer[0] + row[1].k * outer[1] + k * strides_.back()];
                    // the zero point of u8 is 128
                    const int weight = unsigned_ ? static_cast<uint8_t>(at) - 128 : static_cast<int8_t>(at);
                    total += weight;
                    for (int64_t v = 0; v < layout_.together; ++v) {
                        const int64_t slot = i + v * layout_.further;
                        const int64_t step = (v * layout_.blocks + c / block) * number + t;
                        char* to = packed + place.weights + (step * phase.steps + slot / rows) * layout_.step_bytes +
                                   c % block * rows;
                        to[slot % rows] = static_cast<char>(weight);
                    }
                }
            }
            starts[c] = static_cast<int32_t>(0u - static_cast<uint32_t>(zero_) * static_cast<uint32_t>(total));
        }
    }

    const Int8DepthwiseLayout layout_;
    const Dims strides_;
    bool unsigned_;
    int zero_;
};

class Int8Depthwise final : public Kernel {
public:
    Int8Depthwise(const LayerSizes& sizes, bool dgrad, int src_dtype, const Dims& src_strides, int src_zero,
                  int dst_dtype, const Dims& dst_strides, const IntegerResult& result, int bias_dtype,
                  const Epilogue& post_ops, const std::string& isa)
        : layout_(sizes, dgrad, isa), from_(dgrad ? sizes.src_spatial : sizes.dst_spatial, src_strides),
          to_(dgrad ? sizes.dst_spatial : sizes.src_spatial, dst_strides), epilogue_(post_ops),
          after_(epilogue_.params(sizes.c, {sizes.n, to_.extent(0), to_.extent(1), to_.width()},
                                  {to_.batch, to_.outer[0], to_.outer[1], to_.inner})),
          rows_(to_.rows()), columns_(to_.extent(1)), has_bias_(bias_dtype != 0), type_(number_type(dst_dtype)),
          item_(item_size(dst_dtype)) {
        name = kName;
        by = code_name(kName, layout_.dot.isa, kDepthwiseOutputs, layout_.block);
        arity = (has_bias_ ? 5 : 4) + epilogue_.operands();
        check_strides(name, "src_strides", sizes, from_.spatial, src_strides);
        check_strides(name, "dst_strides", sizes, to_.spatial, dst_strides);
        if (sizes.c > 1 && (from_.channel != 1 || to_.channel != 1)) {
            fail(ErrorKind::invalid_argument, name + ": channels must be contiguous");
        }
        if (!is_byte(type_)) float_type(dst_dtype);
        set_results(name, result, dst_dtype, bias_dtype, params_);
        filling_ = static_cast<uint8_t>(unsigned_zero(name, src_dtype, src_zero));
        flip_ = integer_type(name, "src", src_dtype) == ElementType::s8 ? 0x80 : 0;
        lay_out();
    }

    void run(char* const* operands) const override {
        const TapAxis& inner = layout_.axes.inner;
        const int64_t sections = ceil_div(inner.count(0), section_), groups = ceil_div(rows_, layout_.together);
        const int64_t tasks = layout_.layer.n * groups * sections * layout_.blocks;
        const int threads = threads_for(tasks, work_);
        const Scratch scratch(shared_, each_, threads);
        float *scales = scales_.in(scratch.shared()), *bias = bias_.in(scratch.shared());
        // zeros after the last channel: uninitialised memory may hold denormal numbers, which take long
        const int64_t channels = layout_.layer.c, padded = channels + kBeyond;
        const auto copy = [&](const char* from, float* to) {
            const int64_t count = from == nullptr ? 0 : channels;
            std::copy_n(reinterpret_cast<const float*>(from), count, to);
            std::fill_n(to + count, padded - count, 0.0f);
        };
        copy(operands[2], scales);
        copy(has_bias_ ? operands[3] : nullptr, bias);
        parallel_parts(threads, tasks, [&](int64_t begin, int64_t end, int rank) {
            std::vector<const char*> lines;
            for (int64_t task = begin; task < end; ++task) {
                const int64_t group = task / layout_.blocks / sections, section = task / layout_.blocks % sections;
                run_section(operands, group / groups, group % groups * layout_.together, section * section_,
                            task % layout_.blocks, scales, bias, lines, scratch.of(rank));
            }
        });
    }

private:
    // Cuts a phase into sections of outputs, whose mixed positions stay near.
    void lay_out() {
        const TapAxis& inner = layout_.axes.inner;
        int64_t most_steps = 1;
        for (const OuterPhase& phase : layout_.phases) most_steps = std::max(most_steps, phase.steps);
        const int64_t each = std::max(kMixedBytes / (most_steps * layout_.step_bytes * inner.advance), kShortest);
        const int64_t outputs = std::max<int64_t>(inner.count(0), 1), number = ceil_div(outputs, each);
        section_ = ceil_div(ceil_div(outputs, number), kDepthwiseOutputs) * kDepthwiseOutputs;
        const int64_t positions = (section_ - 1) * inner.advance + layout_.reach;
        mixed_ = each_.add<char>(checked_product(name, {positions, most_steps, layout_.step_bytes}));
        if (layout_.apart > 0) copied_ = each_.add<char>(checked_product(name, {beside(positions), layout_.block}));
        sums_ = each_.add<int32_t>(std::min(section_, kStrip) * layout_.block + kBeyond);
        scales_ = shared_.add<float>(layout_.layer.c + kBeyond);
        bias_ = shared_.add<float>(layout_.layer.c + kBeyond);
        const double results = static_cast<double>(layout_.layer.n * rows_) * static_cast<double>(to_.width()) *
                               static_cast<double>(layout_.layer.c);
        work_ = results * (2 + kBytesOfTap * static_cast<double>(product(layout_.layer.kernel)));
    }

    void run_section(char* const* operands, int64_t n, int64_t row, int64_t begin, int64_t block, float* scales,
                     float* bias, std::vector<const char*>& lines, char* memory) const {
        const TapAxis &inner = layout_.axes.inner, *outer = layout_.axes.outer.data();
        const int64_t first = block * layout_.block;
        const int64_t channels = std::min(layout_.layer.c - first, layout_.block);
        const int64_t at[2] = {row / columns_, row % columns_};
        const OuterPhase& phase = layout_.phase_of(row);
        const int64_t start = begin * inner.advance + layout_.base;  // the source that is position 0
        lines.clear();
        const auto add_line = [&](int64_t i, int64_t j) {
            const bool exists = i >= 0 && i < outer[0].sources && j >= 0 && j < outer[1].sources;
            const int64_t offset = exists ? from_.offset(n, 0, i, j) + start * from_.inner + first : 0;
            lines.push_back(exists ? operands[0] + offset : nullptr);
        };
        const auto source = [&](const Tap& tap, int axis) {
            return at[axis] / outer[axis].phases * outer[axis].advance + tap.base;
        };
        for (const auto& taps : phase.rows) add_line(source(taps[0], 0), source(taps[1], 1));
        const int64_t together = std::min(layout_.together, rows_ - row);
        for (int64_t j = 1; j <= (together - 1) * layout_.further; ++j) {
            add_line(source(phase.rows.back()[0], 0), source(phase.rows.back()[1], 1) + j);
        }
        const int64_t outputs = std::min(section_, inner.count(0) - begin);
        const int64_t positions = (outputs - 1) * inner.advance + layout_.reach;
        const int64_t read = layout_.apart == 0 ? positions : beside(positions);
        const int64_t low = std::clamp<int64_t>(-start, 0, read);
        // fetches the further rows that the next rows of dst need; a single block reads them in order anyway
        const int64_t fetched = together * outer[1].advance;
        DepthwiseMix mix{lines.data(),
                         static_cast<int64_t>(lines.size()),
                         from_.inner,
                         positions,
                         low,
                         std::clamp<int64_t>(inner.sources - start, low, read),
                         layout_.layer.c - first,
                         flip_,
                         filling_,
                         fetched,
                         fetched * from_.outer[1],
                         mixed_.in(memory)};
        if (layout_.apart > 0) copy_row(mix, lines, copied_.in(memory));
        layout_.code.mix(mix);
        for (int64_t v = 0; v < together; ++v) {
            for (int64_t p = 0; p < inner.phases; ++p) {
                const int64_t end = std::min(begin + section_, inner.count(p));
                for (int64_t q = begin; q < end; q += kStrip) {
                    run_strip(operands, phase, p, n, row, v, q, begin, std::min(q + kStrip, end), first, channels,
                              scales, bias, memory);
                }
            }
        }
    }

    // Returns the positions of a row that are copied for `positions` mixed ones.
    int64_t beside(int64_t positions) const { return positions + (kDepthwiseRows - 1) * layout_.apart; }

    // Copies a row as often as rows are mixed; all of its positions exist.
    void copy_row(DepthwiseMix& mix, std::vector<const char*>& lines, char* memory) const {
        const int64_t block = layout_.block, count = beside(mix.positions);
        const int64_t end = std::clamp<int64_t>(mix.end, mix.begin, count);
        const auto channels = static_cast<size_t>(std::min(mix.readable, block));
        std::fill_n(memory, mix.begin * block, static_cast<char>(mix.filling ^ mix.flip));
        for (int64_t p = mix.begin; p < end; ++p) std::copy_n(lines[0] + p * mix.pitch, channels, memory + p * block);
        std::fill_n(memory + end * block, (count - end) * block, static_cast<char>(mix.filling ^ mix.flip));
        lines.clear();
        for (int64_t i = 0; i < kDepthwiseRows; ++i) lines.push_back(memory + i * layout_.apart * block);
        mix.rows = lines.data();
        mix.row_count = kDepthwiseRows;
        mix.pitch = mix.readable = block;
        mix.begin = 0;
        mix.end = mix.positions;
    }

    // Computes outputs [q, end) of row v of the rows that are computed together.
    void run_strip(char* const* operands, const OuterPhase& phase, int64_t p, int64_t n, int64_t row, int64_t v,
                   int64_t q, int64_t begin, int64_t end, int64_t first, int64_t channels, float* scales, float* bias,
                   char* memory) const {
        const TapAxis& inner = layout_.axes.inner;
        const OuterPhase::Place& place = phase.places[static_cast<size_t>(p)];
        const int64_t position = phase.steps * layout_.step_bytes, advance = inner.advance * position;
        const auto taps = static_cast<int64_t>(place.mixed.size());
        const char* const weights = operands[1] + place.weights;
        const auto* const starts = reinterpret_cast<const int32_t*>(operands[1] + place.starts);
        int32_t* const sums = sums_.in(memory);
        layout_.code.sum({mixed_.in(memory) + (q - begin) * advance,
                          weights + (v * layout_.blocks + first / layout_.block) * taps * position, place.mixed.data(),
                          taps, phase.steps, advance, end - q, channels, starts + first, sums});
        const int64_t pitch = inner.phases * to_.inner;
        const int64_t i = row / columns_, j = row % columns_ + v;
        const int64_t offset = to_.offset(n, 0, i, j) + (q * inner.phases + p) * to_.inner + first;
        const Int8Positions results{
            &params_, scales + first, bias + first,  type_,         end - q,
            channels, sums,           layout_.block, pitch * item_, operands[arity - 1] + offset * item_};
        const auto finish = vector_code().dot.int8_positions;
        if (epilogue_.empty()) return finish(results, true, true);
        finish(results, true, false);
        apply_epilogue(after_, operands + (has_bias_ ? 4 : 3),
                       {reinterpret_cast<float*>(sums), layout_.block, offset, pitch, end - q, channels, first});
        finish(results, false, true);
    }

    const Int8DepthwiseLayout layout_;
    const RowLayout from_, to_;
    const Epilogue epilogue_;
    const EpilogueParams after_;
    const int64_t rows_, columns_;  // positions of dst on both outer axes; on the second
    const bool has_bias_;
    const ElementType type_;
    const int64_t item_;  // bytes of a result
    Int8Params params_;
    uint8_t flip_, filling_;
    int64_t section_ = 0;
    double work_ = 0;
    // scratch of a run: arrays that all threads read, and the memory of each thread
    ScratchLayout shared_, each_;
    ScratchArray<float> scales_, bias_;
    ScratchArray<char> mixed_, copied_;
    ScratchArray<int32_t> sums_;
};

int64_t packed_size(const LayerSizes& sizes, bool dgrad, const std::string& isa) {
    return Int8DepthwiseLayout(sizes, dgrad, isa).bytes;
}

}  // namespace

const Declaration kInt8Depthwise[] = {
    {"int8_depthwise_size(layer, dgrad, isa='')", packed_size,
     "Returns the bytes of the packed weights of int8_depthwise."},
    {"int8_depthwise_pack(layer, dgrad, weights_dtype, weights_strides, src_dtype, src_zero, isa='')",
     kernel_by<Int8DepthwisePack, LayerSizes, bool, int, Dims, int, int, std::string>, "weights (c, kernel), packed",
     "packed = weights for int8_depthwise. dgrad: for a transposed convolution. The zero point of weights in u8 is "
     "128."},
    {"int8_depthwise(layer, dgrad, src_dtype, src_strides, src_zero, dst_dtype, dst_strides, "
     "result=None, bias_dtype=0, epilogue=..., isa='')",
     kernel_by<Int8Depthwise, LayerSizes, bool, int, Dims, int, int, Dims, IntegerResult, int, Epilogue, std::string>,
     "src (n, c, spatial), packed, scales (c), [bias (c)], epilogue's..., dst (n, c, spatial)",
     "dst = results of the exact sums of (src - src_zero) * weights, as int8_product makes them. Strides: n, c, "
     "spatial; channels are contiguous."},
};

}  // namespace dgo
