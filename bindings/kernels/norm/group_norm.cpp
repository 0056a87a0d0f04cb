// Group norm: instance norm has a group for every channel, layer norm over (C, spatial) one for all.
//
// Statistics: blocks of rows are summed in f32, column by column, as distances from the mean of the first few rows, and
// the blocks put together in f64: first the mean of a group, then the squares of the distances from it. As the cut into
// blocks is the same for any number of threads, so are the bits; as distances are taken from a mean of values, no common
// part of them, however large, takes digits from the variance.
#include <algorithm>
#include <cmath>

#include "common/error.hpp"
#include "kernels/axes.hpp"
#include "kernels/checked.hpp"
#include "kernels/declaration.hpp"
#include "kernels/division.hpp"
#include "kernels/isa.hpp"
#include "kernels/parallel.hpp"
#include "kernels/scratch.hpp"
#include "kernels/dot/int8.hpp"
#include "kernels/epilogue/epilogue.hpp"

namespace dgo {
namespace {

// Strides: n, channel, spatial. Channels or the positions of a row are neighbours, and the same ones in src and dst.
struct GroupNormProblem {
    int64_t n, channels, groups;
    Dims spatial;
    int src_dtype;
    Dims src_strides;
    int dst_dtype;
    Dims dst_strides;
    double epsilon;
    bool affine;  // scale and shift by channel, f32
    Epilogue epilogue;  // channels last only
    IntegerResult result;  // of a dst of s8 or u8
};

constexpr const char* kName = "group_norm";
constexpr int64_t kRows = 128;  // rows of a block
constexpr int64_t kColumns = 64;  // a row of neighbours that belong together is cut into rows of so many
constexpr int64_t kSlice = 16;  // columns of sums that one thread adds up, at least: whole vectors
constexpr int64_t kMostFolded = 256;  // columns of neighbouring positions of few channels

const NormCode& code() { return vector_code().norm; }

int64_t common_divisor(int64_t a, int64_t b) { return b == 0 ? a : common_divisor(b, a % b); }

// Returns the type of floats or of integers of 8 bits; an error for others.
ElementType float_or_byte(int dtype) {
    const ElementType type = number_type(dtype);
    return is_byte(type) ? type : float_type(dtype);
}

// Channels last: an item is an image, whose columns are channels. Channels first: an item is a group of an image, whose
// planes are those of its channels, cut into rows.
struct GroupNormKernel : Kernel {
    GroupNormProblem p;
    ElementType src_type, dst_type;
    int64_t src_item, dst_item, share, positions;  // channels of a group; positions of a channel
    bool last;
    // A plane: `rows` rows of `width`, then one of `rest`, if that is not 0. Pitches count elements.
    AxesOf<2> outer;
    int64_t planes, rows, width, rest, src_pitch, dst_pitch, plane_blocks, blocks, items;
    double bytes;
    Dims column_groups;
    EpilogueParams epilogue{};
    Quotient quotient;

    explicit GroupNormKernel(const GroupNormProblem& problem) : p(problem) {
        name = kName;
        arity = (p.affine ? 4 : 2) + p.epilogue.operands();
        check();
        src_type = float_or_byte(p.src_dtype);
        dst_type = float_or_byte(p.dst_dtype);
        if (is_byte(dst_type)) {
            integer_type(kName, "src of a dst of integers", p.src_dtype);
            quotient = quotient_to(kName, p.result, p.dst_dtype);
            if (!p.epilogue.empty()) {
                fail(ErrorKind::invalid_argument, std::string(kName) + ": post-ops need a dst of floats");
            }
        }
        src_item = item_size(p.src_dtype);
        dst_item = item_size(p.dst_dtype);
        share = p.channels / p.groups;
        lay_out();
        if (p.epilogue.empty()) return;
        if (!last) fail(ErrorKind::invalid_argument, std::string(kName) + ": post-ops need channels last");
        Dims sizes = p.spatial, strides(p.dst_strides.begin() + 2, p.dst_strides.end());
        sizes.insert(sizes.begin(), p.n);
        strides.insert(strides.begin(), p.dst_strides[0]);
        epilogue = p.epilogue.params(p.channels, sizes, strides);
    }

    void check() const {
        check_number(kName, "n", p.n, 0, kMostSize);
        check_number(kName, "channels", p.channels, 1, kMostSize);
        check_number(kName, "groups", p.groups, 1, p.channels);
        if (p.channels % p.groups != 0) {
            fail(ErrorKind::shape, std::string(kName) + ": " + std::to_string(p.channels) + " channels in " +
                                       std::to_string(p.groups) + " groups");
        }
        Dims shape = {p.n, p.channels};
        for (const int64_t size : p.spatial) {
            check_number(kName, "spatial", size, 0, kMostSize);
            shape.push_back(size);
        }
        int64_t all = checked_product(kName, {p.n, p.channels});
        for (const int64_t size : p.spatial) all = checked_product(kName, {all, size});
        check_tensor(kName, "src", shape, p.src_strides);
        check_tensor(kName, "dst", shape, p.dst_strides);
    }

    // The spatial axes from the slowest to the fastest, joined where both sides allow it.
    AxesOf<2> axes() const {
        AxesOf<2> all;
        for (size_t a = 0; a < p.spatial.size(); ++a) {
            if (p.spatial[a] != 1) all.push_back({p.spatial[a], {p.src_strides[a + 2], p.dst_strides[a + 2]}});
        }
        // sums do not depend on the order of positions
        all = joined(std::move(all));
        if (all.empty()) all.push_back({1, {p.channels, p.channels}});
        return all;
    }

    void lay_out() {
        outer = axes();
        positions = 1;
        for (const auto& axis : outer) positions *= axis.size;
        const auto [length, steps] = outer.back();
        outer.pop_back();
        last = p.channels == 1 ? steps[0] != 1 || steps[1] != 1 : p.src_strides[1] == 1 && p.dst_strides[1] == 1;
        const bool first = steps[0] == 1 && steps[1] == 1;
        if (!last && !first && p.n > 0 && positions > 1) {
            fail(ErrorKind::invalid_argument,
                 std::string(kName) + ": src and dst must both be channels last or both channels first");
        }
        planes = last ? 1 : share;
        for (const auto& axis : outer) planes *= axis.size;
        rest = 0;
        if (!last) {
            width = std::clamp<int64_t>(length, 1, kColumns);
            rows = length / width;
            rest = length % width;
            src_pitch = dst_pitch = width;
        } else if (steps[0] == p.channels && steps[1] == p.channels && p.channels < kColumns) {
            // neighbouring positions side by side
            int64_t together = kColumns / common_divisor(kColumns, p.channels);
            if (together * p.channels > kMostFolded) together = ceil_div(2 * kColumns, p.channels);
            together = std::clamp<int64_t>(length, 1, together);
            width = together * p.channels;
            rows = length / together;
            rest = length % together * p.channels;
            src_pitch = dst_pitch = width;
        } else {
            width = p.channels;
            rows = length;
            src_pitch = steps[0];
            dst_pitch = steps[1];
        }
        plane_blocks = ceil_div(rows, kRows) + (rest > 0 ? 1 : 0);
        blocks = planes * plane_blocks;
        for (int64_t j = 0; j < width; ++j) column_groups.push_back(last ? j % p.channels / share : 0);
        items = positions == 0 ? 0 : last ? p.n : p.n * p.groups;
        bytes = static_cast<double>(p.n) * static_cast<double>(p.channels * positions) *
                static_cast<double>(src_item + dst_item);
    }

    struct Block {
        int64_t src, dst, rows, width, channel;  // channel: within the item
    };

    Block block_of(int64_t item, int64_t number) const {
        int64_t offsets[2] = {0, 0};
        const int64_t plane = add_offsets(outer, number / plane_blocks, offsets);
        const int64_t begin = number % plane_blocks * kRows;
        Block block{};
        block.channel = plane;
        const int64_t image = last ? item : item / p.groups, channel = last ? 0 : item % p.groups * share + plane;
        block.rows = std::min(kRows, rows - begin);
        block.width = width;
        int64_t at = begin;
        if (block.rows <= 0) {
            block.rows = 1;
            block.width = rest;
            at = rows;
        }
        block.src = offsets[0] + image * p.src_strides[0] + channel * p.src_strides[1] + at * src_pitch;
        block.dst = offsets[1] + image * p.dst_strides[0] + channel * p.dst_strides[1] + at * dst_pitch;
        return block;
    }

    // The scratch memory of an item: sums of all blocks, then sums by column.
    struct Parts {
        ScratchArray<float> sums, mean, scale, shift, work;
        ScratchArray<double> total, squares, center, group;
    };

    // of_blocks: the blocks whose sums are in the scratch memory
    Parts parts(ScratchLayout& scratch, int64_t of_blocks) const {
        Parts all;
        all.sums = scratch.add<float>(checked_product(kName, {of_blocks, 3, width}));
        all.total = scratch.add<double>(width);
        all.squares = scratch.add<double>(width);
        all.center = scratch.add<double>(width);
        all.group = scratch.add<double>(2 * groups_of_item());
        const int64_t columns = ceil_div(width, kNormColumns) * kNormColumns;
        all.mean = scratch.add<float>(columns);
        all.scale = scratch.add<float>(columns);
        all.shift = scratch.add<float>(columns);
        all.work = scratch.add<float>(work_floats());
        return all;
    }

    int64_t work_floats() const {
        return p.epilogue.empty() || dst_type == ElementType::f32 ? 0 : code().scratch(width);
    }
    int64_t groups_of_item() const { return last ? p.groups : 1; }
    int64_t group_of(int64_t column) const { return column_groups[static_cast<size_t>(column)]; }

    NormSums sums_of(float* sums, int64_t block) const { return {sums + block * 3 * width, width}; }

    void sum(const char* src, int64_t item, int64_t begin, int64_t end, float* sums) const {
        for (int64_t b = begin; b < end; ++b) {
            const Block block = block_of(item, b);
            code().sums({src_type, src + block.src * src_item, block.rows, block.width, src_pitch}, sums_of(sums, b));
        }
    }

    struct Columns {
        int64_t begin, end;
    };

    // total[j] = the sum over all blocks of what add(sums, rows, columns) adds for their columns, in the order of blocks
    template <class Add>
    void collect(float* sums, Columns of, double* total, Add&& add) const {
        std::fill(total + of.begin, total + of.end, 0.0);
        for (int64_t b = 0, begin = 0; b < blocks; ++b) {
            NormSums block = sums_of(sums, b);
            for (float** row : {&block.center, &block.sum, &block.squares}) *row += of.begin;
            // the columns of a narrower block are summed like the first ones of others
            const bool narrow = begin >= rows;
            const int64_t end = narrow ? std::min(rest, of.end) : of.end;
            if (of.begin < end) add(block, narrow ? 1 : std::min(kRows, rows - begin), end - of.begin);
            begin = (b + 1) % plane_blocks == 0 ? 0 : begin + kRows;
        }
    }

    void collect_totals(float* sums, Columns of, double* total) const {
        collect(sums, of, total,
                [&](const NormSums& block, int64_t n, int64_t w) { code().add_totals(block, n, w, total + of.begin); });
    }

    // group[g]: the means
    void collect_squares(float* sums, Columns of, const double* group, double* center, double* total) const {
        for (int64_t j = of.begin; j < of.end; ++j) center[j] = group[group_of(j)];
        collect(sums, of, total, [&](const NormSums& block, int64_t n, int64_t w) {
            code().add_squares(block, n, w, center + of.begin, total + of.begin);
        });
    }

    // to[g] = the average over the columns of a group
    void average(const double* total, double* to) const {
        const int64_t groups = groups_of_item();
        std::fill_n(to, groups, 0.0);
        for (int64_t j = 0; j < width; ++j) to[group_of(j)] += total[j];
        for (int64_t g = 0; g < groups; ++g) to[g] /= static_cast<double>(share) * static_cast<double>(positions);
    }

    // group[groups + g] = 1 / the deviation
    void deviations(const double* squares, double* group) const {
        double* const to = group + groups_of_item();
        average(squares, to);
        for (int64_t g = 0; g < groups_of_item(); ++g) to[g] = 1 / std::sqrt(to[g] + p.epsilon);
    }

    struct Affine {
        const float *scale, *shift;  // one for each channel, or null
        const char* const* operands;  // the operands of the epilogue
        float *mean, *scales, *shifts, *work;
    };

    // (x - near) * scale + shift: what the mean has beyond an f32 goes into the shift.
    void coefficients(const double* group, int64_t g, int64_t channel, const Affine& to, int64_t column) const {
        const double mean = group[g];
        const float near = static_cast<float>(mean);
        const double scale = group[groups_of_item() + g] * (to.scale == nullptr ? 1.0 : to.scale[channel]);
        to.mean[column] = near;
        to.scales[column] = static_cast<float>(scale);
        to.shifts[column] = static_cast<float>((to.shift == nullptr ? 0.0 : to.shift[channel]) -
                                               (mean - static_cast<double>(near)) * scale);
    }

    void all_coefficients(const double* group, const Affine& to) const {
        if (!last) return;
        for (int64_t j = 0; j < width; ++j) coefficients(group, group_of(j), j % p.channels, to, j);
    }

    // Normalises backwards: the last blocks are still near.
    void normalise(const char* src, char* dst, int64_t item, int64_t begin, int64_t end, const double* group,
                   const Affine& by) const {
        for (int64_t b = end; b-- > begin;) {
            const Block block = block_of(item, b);
            if (!last) {
                coefficients(group, 0, item % p.groups * share + block.channel, by, 0);
                std::fill_n(by.mean + 1, block.width - 1, by.mean[0]);
                std::fill_n(by.scales + 1, block.width - 1, by.scales[0]);
                std::fill_n(by.shifts + 1, block.width - 1, by.shifts[0]);
            }
            code().affine({{src_type, src + block.src * src_item, block.rows, block.width, src_pitch},
                           dst_type,
                           dst + block.dst * dst_item,
                           dst_pitch,
                           by.mean,
                           by.scales,
                           by.shifts,
                           p.epilogue.empty() ? nullptr : &epilogue,
                           by.operands,
                           block.dst,
                           by.work,
                           is_byte(dst_type) ? &quotient : nullptr});
        }
    }

    void run(char* const* operands) const override {
        const float* const scale = p.affine ? reinterpret_cast<const float*>(operands[1]) : nullptr;
        const float* const shift = p.affine ? reinterpret_cast<const float*>(operands[2]) : nullptr;
        const char* const src = operands[0];
        char* const dst = operands[arity - 1];
        const char* const* const more = operands + (p.affine ? 3 : 1);
        const int most = threads_for(items * blocks, bytes);
        if (items % most == 0 || items >= 4 * most) {
            ScratchLayout nothing, each;
            const Parts in = parts(each, blocks);
            const Scratch scratch(nothing, each, most);
            parallel_parts(most, items, [&](int64_t begin, int64_t end, int rank) {
                char* const own = scratch.of(rank);
                double* const group = in.group.in(own);
                const Affine by = {scale,          shift, more, in.mean.in(own), in.scale.in(own), in.shift.in(own),
                                   in.work.in(own)};
                for (int64_t item = begin; item < end; ++item) {
                    sum(src, item, 0, blocks, in.sums.in(own));
                    float* const sums = in.sums.in(own);
                    double *const total = in.total.in(own), *const squares = in.squares.in(own);
                    collect_totals(sums, {0, width}, total);
                    average(total, group);
                    collect_squares(sums, {0, width}, group, in.center.in(own), squares);
                    deviations(squares, group);
                    all_coefficients(group, by);
                    normalise(src, dst, item, 0, blocks, group, by);
                }
            });
            return;
        }
        // all threads work on one item after the other: by blocks, but on the sums of all blocks by columns
        ScratchLayout shared, each;
        const auto all_sums = shared.add<float>(checked_product(kName, {blocks, 3, width}));
        const auto all_totals = shared.add<double>(width), all_squares = shared.add<double>(width);
        const Parts in = parts(each, 0);
        const Scratch scratch(shared, each, most);
        float* const sums = all_sums.in(scratch.shared());
        double *const total = all_totals.in(scratch.shared()), *const squares = all_squares.in(scratch.shared());
        run_team(most, [&](int rank, int size) {
            char* const own = scratch.of(rank);
            double* const group = in.group.in(own);
            const Affine by = {scale,          shift, more, in.mean.in(own), in.scale.in(own), in.shift.in(own),
                               in.work.in(own)};
            const int64_t slices = ceil_div(width, kSlice);
            const Columns columns = {std::min(slices * rank / size * kSlice, width),
                                     std::min(slices * (rank + 1) / size * kSlice, width)};
            const int64_t begin = blocks * rank / size, end = blocks * (rank + 1) / size;
            for (int64_t item = 0; item < items; ++item) {
                sum(src, item, begin, end, sums);
                dgo_team_barrier();
                collect_totals(sums, columns, total);
                dgo_team_barrier();
                average(total, group);
                collect_squares(sums, columns, group, in.center.in(own), squares);
                dgo_team_barrier();
                deviations(squares, group);
                all_coefficients(group, by);
                normalise(src, dst, item, begin, end, group, by);
            }
        });
    }
};

}  // namespace

const Declaration kGroupNorm{
    "group_norm(n, channels, groups, spatial, src_dtype, src_strides, dst_dtype, dst_strides, epsilon, affine=False, "
    "epilogue=..., result=None)",
    kernel_of<GroupNormKernel, GroupNormProblem, int64_t, int64_t, int64_t, Dims, int, Dims, int, Dims, double, bool,
              Epilogue, IntegerResult>,
    "src (n, channels, spatial), [scale (channels), shift (channels)], epilogue's..., dst (n, channels, spatial)",
    "dst = (src - mean) / sqrt(variance + epsilon) * scale + shift, with the mean and variance of each group of "
    "channels of each image; scale and shift are f32 by channel. Strides: n, channel, spatial; src and dst are "
    "both channels last or both channels first, with an epilogue channels last. src may be s8 or u8, without a "
    "scale: a norm of scaled integers is that of the integers with epsilon / scale^2. From integers dst may be s8 "
    "or u8 as well, with result (scale, zero, low, high): quotients by scale, rounded, plus zero, from low to "
    "high. The bits are the same for any number of threads."};

}  // namespace dgo
