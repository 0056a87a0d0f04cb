#include <omp.h>

#include "kernels/isa/filtering/tiles.hpp"
#include "kernels/isa/gemm_tile.hpp"
#include "kernels/isa/parts.hpp"
#include "kernels/isa/table.hpp"

namespace dgo::DGO_ISA {
namespace {

constexpr int64_t kRowsNear = 8 * kTileRows;
constexpr int64_t kStripFloats = 2048;
constexpr int kRunsAtOnce = 4;

// One term of the runs of a line: where that of the first run lies, of which `count` lanes exist.
struct Term {
    const float* at;
    int64_t count;
};

struct Room {
    float *bias, *few, *trash, *line, *wide, *columns;
    const float** bases;
    Term* terms;
};

Room divide(const OverlapPlan& plan, char* scratch, int64_t* bytes) {
    const int64_t lines = plan.planes * plan.live;
    Parts parts(scratch);
    Room room;
    room.bias = parts.take(plan.run + kLanes);
    room.few = parts.take(kTileRows * plan.src.channels);
    room.trash = parts.take(kTileRows * plan.width);
    room.line = parts.take((plan.runs + kRunsAtOnce) * plan.run + kLanes);
    room.wide = parts.take(plan.src.cell == Cell::f32 ? 0 : plan.together * plan.positions() * plan.src.channels);
    room.columns = parts.take(plan.planes * plan.kept() * plan.positions() * plan.width + kLanes);
    room.bases = parts.take<const float*>(lines);
    room.terms = parts.take<Term>(lines * plan.shifts);
    *bytes = parts.bytes;
    return room;
}

// Calls visit(tap, position) for the taps of an axis that meet output `o`, and the positions of src that they meet.
template <class Visit>
void for_each_tap(const OverlapPlan& plan, int axis, int64_t o, Visit&& visit) {
    const int64_t stride = plan.stride[axis];
    for (int64_t k = 0, at = o + plan.pad[axis]; k < plan.kernel[axis] && at >= 0; ++k, at -= plan.dilation[axis]) {
        if (at % stride == 0 && at / stride < plan.src.size[axis]) visit(k, at / stride);
    }
}

// The runs that a task writes of a line, and the positions of src that they need.
struct Piece {
    int64_t image, plane;  // plane: position of dst on axis 0
    int64_t first_run, runs, first, positions;
};

// ---- products ---------------------------------------------------------------------------------------------

// The panels that hold the columns of one tap of axis 0, which begin `offset` after the first one does.
struct Panels {
    int64_t begin, end, last, offset;  // last: columns up to the end of the last panel that are wanted

    Panels(const OverlapPlan& plan, int64_t tap) {
        const int64_t first = tap * plan.columns(), stop = first + plan.columns();
        begin = first / kPanel;
        end = ceil_div(stop, kPanel);
        last = stop - (end - 1) * kPanel;
        offset = first - begin * kPanel;
    }
};

// Columns of a line of src of the plane's `index`-th tap of axis 0; lines take turns.
float* columns_of(const OverlapPlan& plan, const Room& room, int64_t index, int64_t line) {
    return room.columns + (index * plan.kept() + line % plan.kept()) * plan.positions() * plan.width;
}

// Rows of src that meet one panel after the other: few, so that they and their columns stay near, or enough for weights
// that do not.
int64_t strip_rows(const OverlapPlan& plan) {
    if (plan.columns() * plan.src.channels * 4 > kNearBytes) return kRowsNear;
    const int64_t widest = larger(plan.src.channels, plan.width / 4);
    return larger(kStripFloats / widest / kTileRows, 1) * kTileRows;
}

// The columns of `count` rows of src, in f32 and `step` apart.
void multiply_rows(const OverlapPlan& plan, const Panels& panels, const float* rows, int64_t step, int64_t count,
                   const float* packed, float* to, const Room& room) {
    const int64_t depth = plan.src.channels;
    const Span all{0, 0, depth};
    const auto multiply = [&](const float* from, int64_t from_step, int64_t some, float* columns) {
        // the rows that come next
        Ahead ahead{reinterpret_cast<const char*>(from + some * from_step), 4 * kTileRows};
        for (int64_t p = panels.begin; p < panels.end; ++p, columns += kPanel, ahead.step = 0) {
            const bool half = p + 1 == panels.end && panels.last <= kLanes;
            const auto product = half ? &strip_product<1, true> : &strip_product<kTileVectors, true>;
            product(from, Strip{some, from_step, plan.width}, &all, 1, packed + p * depth * kPanel, nullptr, columns,
                    ahead);
        }
    };
    const int64_t whole = count / kTileRows * kTileRows, chunk = strip_rows(plan);
    for (int64_t first = 0; first < whole; first += chunk) {
        multiply(rows + first * step, step, smaller(chunk, whole - first), to + first * plan.width);
    }
    if (whole == count) return;
    // the rest with rows that were multiplied before, or are there twice
    const int64_t last = count - kTileRows;
    if (last > 0) return multiply(rows + last * step, step, kTileRows, to + last * plan.width);
    for (int64_t i = 0; i < kTileRows; ++i) {
        const auto bytes = static_cast<size_t>(depth) * sizeof(float);
        __builtin_memcpy(room.few + i * depth, rows + smaller(i, count - 1) * step, bytes);
    }
    multiply(room.few, depth, kTileRows, room.trash);
    __builtin_memcpy(to, room.trash, static_cast<size_t>(count * plan.width) * sizeof(float));
}

// The columns of lines [begin, end) of src, for each tap of axis 0 that the piece meets.
void multiply_lines(const OverlapPlan& plan, const Piece& piece, int64_t begin, int64_t end, const char* src,
                    const float* packed, const Room& room) {
    const OverlapImage& image = plan.src;
    // lines that follow each other on both sides are one
    const int64_t together = image.strides[1] == piece.positions * image.strides[2] &&
                                     piece.positions == plan.positions()
                                 ? end - begin
                                 : 1;
    int64_t index = 0;
    for_each_tap(plan, 0, piece.plane, [&](int64_t tap, int64_t plane) {
        const Panels panels(plan, tap);
        for (int64_t line = begin; line < end; line += together) {
            const int64_t offset = piece.image * image.batch_stride + plane * image.strides[0] +
                                   line * image.strides[1] + piece.first * image.strides[2];
            const char* at = src + offset * image.item;
            const float* rows = reinterpret_cast<const float*>(at);
            int64_t step = image.strides[2];
            if (image.cell != Cell::f32) {
                for (int64_t i = 0; i < together * piece.positions; ++i) {
                    widen(image.cell, at + i * step * image.item, image.channels, room.wide + i * image.channels);
                }
                rows = room.wide;
                step = image.channels;
            }
            multiply_rows(plan, panels, rows, step, together * piece.positions, packed,
                          columns_of(plan, room, index, line), room);
        }
        ++index;
    });
}

// ---- sums -------------------------------------------------------------------------------------------------

// to[j * run][:] = start + the terms' lanes j * width further, for so many j.
template <int kRuns, bool kCut>
DGO_INLINE void add_runs(const Term* terms, int64_t count, int64_t offset, int64_t width, Lanes start, float* to,
                         int64_t run) {
    using Index = Vec<kLanes>::s32;
    Index lane;
    for (int l = 0; l < kLanes; ++l) lane[l] = l;
    Lanes sum[kRuns];
#pragma GCC unroll 4
    for (int j = 0; j < kRuns; ++j) sum[j] = start;
    for (const Term* term = terms; term != terms + count; ++term) {
        const float* at = term->at + offset;
#pragma GCC unroll 4
        for (int j = 0; j < kRuns; ++j, at += width) {
            Lanes value = *reinterpret_cast<const LanesAt*>(at);
            if (kCut) value = bits<Lanes>(bits<Index>(value) & (lane < static_cast<int32_t>(term->count)));
            sum[j] += value;
        }
    }
#pragma GCC unroll 4
    for (int j = 0; j < kRuns; ++j) *reinterpret_cast<LanesAt*>(to + j * run) = sum[j];
}

// Runs [begin, end). What is written beyond one is written again by the next.
template <bool kCut>
void add_terms(const Term* terms, int64_t count, int64_t begin, int64_t end, int64_t width, const float* start,
               float* to, int64_t run) {
    const Lanes first = *reinterpret_cast<const LanesAt*>(start);
    int64_t i = begin;
    for (; i + kRunsAtOnce <= end; i += kRunsAtOnce) {
        add_runs<kRunsAtOnce, kCut>(terms, count, i * width, width, first, to + i * run, run);
    }
    for (; i < end; ++i) add_runs<1, kCut>(terms, count, i * width, width, first, to + i * run, run);
}

// Runs [begin, end) of a piece, to which `lines` lines of columns contribute: run i to `to` + i * plan.run.
void add_line(const OverlapPlan& plan, const Piece& piece, int64_t begin, int64_t end, int64_t lines, float* to,
              const Room& room) {
    const int64_t channels = plan.dst.channels, size = plan.src.size[2];
    // the last lanes first, so that the next run's first ones are written after them
    for (int64_t c = (plan.run - 1) / kLanes * kLanes; c >= 0; c -= kLanes) {
        int64_t shifts = 0;
        bool cut = false;
        for (Term* term = room.terms; shifts < plan.shifts; ++shifts) {
            const int64_t tap = plan.stride[2] * shifts;
            const int64_t wide = smaller(plan.stride[2], plan.kernel[2] - tap) * channels;
            if (wide <= c) break;
            cut = cut || (wide < plan.run && wide < c + kLanes);
            const int64_t offset = (piece.first_run - shifts - piece.first) * plan.width + tap * channels + c;
            for (int64_t l = 0; l < lines; ++l) *term++ = {room.bases[l] + offset, smaller(wide - c, kLanes)};
        }
        const auto add = cut ? &add_terms<true> : &add_terms<false>;
        // runs [i, stop) have the same terms
        for (int64_t i = begin, stop; i < end; i = stop) {
            const int64_t run = piece.first_run + i;
            const int64_t low = smaller(larger(run - size + 1, 0), shifts);
            const int64_t high = larger(smaller(run + 1, shifts), low);
            stop = run + 1 < shifts || run + 1 >= size ? i + 1 : smaller(end, size - piece.first_run);
            add(room.terms + low * lines, (high - low) * lines, i, stop, plan.width, room.bias + c, to + c, plan.run);
        }
    }
}

// Positions [begin, end) of a line of dst, without the padding, from `from` on.
void write_line(const OverlapPlan& plan, const float* from, int64_t begin, int64_t end, char* line) {
    const int64_t channels = plan.dst.channels, step = plan.dst.strides[2] * plan.dst.item;
    char* to = line + begin * step;
    if (begin >= end) return;
    if (plan.dst.strides[2] != channels) {
        for (int64_t i = begin; i < end; ++i, from += channels, to += step) narrow(plan.dst.cell, from, channels, to);
    } else if (plan.vast) {
        stream(from, (end - begin) * channels, reinterpret_cast<float*>(to));
    } else {
        narrow(plan.dst.cell, from, (end - begin) * channels, to);
    }
}

// A piece of a line of dst. Runs that are whole, and the lanes beyond them, are written where they belong; the others
// by way of the room.
void finish_line(const OverlapPlan& plan, const Piece& piece, int64_t lines, char* line, const Room& room) {
    const int64_t stride = plan.stride[2], origin = piece.first_run * stride - plan.pad[2];
    const int64_t first = larger(origin, 0), stop = smaller(origin + piece.runs * stride, plan.dst.size[2]);
    int64_t begin = 0, end = 0;
    if (plan.dst.cell == Cell::f32 && plan.dst.strides[2] == plan.dst.channels && !plan.vast) {
        const int64_t spill = round_up(plan.run, kLanes) - plan.run;
        begin = origin < 0 ? 1 : 0;
        end = larger(((stop - origin) * plan.dst.channels - spill) / plan.run, begin);
    }
    float* const to = reinterpret_cast<float*>(line) + origin * plan.dst.channels;
    const auto indirect = [&](int64_t i, int64_t until) {
        if (i >= until) return;
        add_line(plan, piece, i, until, lines, room.line, room);
        const int64_t from = larger(origin + i * stride, first);
        write_line(plan, room.line + (from - origin) * plan.dst.channels, from,
                   smaller(origin + until * stride, stop), line);
    };
    indirect(0, begin);
    if (begin < end) add_line(plan, piece, begin, end, lines, to, room);
    indirect(end, piece.runs);
}

void run_task(const OverlapPlan& plan, int64_t task, const char* src, const float* packed, char* dst,
              const Room& room) {
    const int64_t number = task % plan.pieces, block = task / plan.pieces % plan.blocks;
    const int64_t plane = task / plan.pieces / plan.blocks % plan.dst.size[0];
    Piece piece{task / plan.pieces / plan.blocks / plan.dst.size[0], plane, 0, 0, 0, 0};
    const int64_t first = plan.all_runs * number / plan.pieces, end = plan.all_runs * (number + 1) / plan.pieces;
    piece.first_run = plan.first_run + first;
    piece.runs = end - first;
    piece.first = larger(piece.first_run - plan.shifts + 1, 0);
    piece.positions = larger(smaller(piece.first_run + piece.runs, plan.src.size[2]) - piece.first, 0);
    const int64_t lines_end = plan.dst.size[1] * (block + 1) / plan.blocks;
    int64_t next = 0;  // line of src without columns
    const auto last_line = [&](int64_t o) {
        const int64_t at = o + plan.pad[1];
        return at < 0 ? -1 : smaller(at / plan.stride[1], plan.src.size[1] - 1);
    };
    const int64_t until = last_line(lines_end - 1) + 1, reach = plan.dilation[1] * (plan.kernel[1] - 1);
    for (int64_t o = plan.dst.size[1] * block / plan.blocks; o < lines_end; ++o) {
        next = larger(next, ceil_div(larger(o + plan.pad[1] - reach, 0), plan.stride[1]));
        for (; next <= last_line(o) && piece.positions > 0;) {
            // lines of columns that follow each other
            const int64_t stop = smaller(smaller(next + plan.together, until), (next / plan.kept() + 1) * plan.kept());
            multiply_lines(plan, piece, next, stop, src, packed, room);
            next = stop;
        }
        int64_t lines = 0, index = 0;
        for_each_tap(plan, 0, plane, [&](int64_t plane_tap, int64_t) {
            const int64_t offset = Panels(plan, plane_tap).offset;
            for_each_tap(plan, 1, o, [&](int64_t tap, int64_t line) {
                const int64_t column = offset + tap * plan.kernel[2] * plan.dst.channels;
                room.bases[lines++] = columns_of(plan, room, index, line) + column;
            });
            ++index;
        });
        const Axes& strides = plan.dst.strides;
        const int64_t line = piece.image * plan.dst.batch_stride + plane * strides[0] + o * strides[1];
        finish_line(plan, piece, lines, dst + line * plan.dst.item, room);
    }
}

int64_t scratch_of(const OverlapPlan& plan) {
    int64_t bytes = 0;
    divide(plan, nullptr, &bytes);
    return bytes;
}

void run(const OverlapPlan& plan, const char* src, const float* packed, const char* bias, char* scratch, char* dst) {
#pragma omp parallel num_threads(plan.threads)
    {
        int64_t bytes = 0;
        const Room room = divide(plan, scratch + omp_get_thread_num() * plan.scratch_per_thread, &bytes);
        __builtin_memset(room.bias, 0, static_cast<size_t>(plan.run + kLanes) * sizeof(float));
        for (int64_t i = 0; plan.has_bias && i < plan.stride[2]; ++i) {
            widen(plan.bias_cell, bias, plan.dst.channels, room.bias + i * plan.dst.channels);
        }
#pragma omp for schedule(dynamic, 1)
        for (int64_t task = 0; task < plan.batch * plan.dst.size[0] * plan.blocks * plan.pieces; ++task) {
            run_task(plan, task, src, packed, dst, room);
        }
        if (plan.vast) _mm_sfence();
    }
}

}  // namespace

const OverlapCode kOverlapCode = {kPanel, scratch_of, run};

}  // namespace dgo::DGO_ISA
