#include "kernels/team.hpp"
#include "kernels/isa/vector/convert.hpp"
#include "kernels/isa/product/gemm_tile.hpp"
#include "kernels/isa/vector/scratch_carver.hpp"
#include "kernels/isa/table.hpp"
#include "kernels/isa/epilogue/rows.hpp"

namespace dgo::DGO_ISA {
namespace {

constexpr int64_t kRowsNear = 8 * kTileRows;
constexpr int64_t kStripFloats = 2048;
constexpr int kRunsAtOnce = 4;
constexpr int64_t kEpilogueFloats = 2048;  // results of a step, which stay in the first cache level for the epilogue

// One term of the runs of a line: the address of the first run's term, of which `count` lanes exist.
struct Term {
    const float* at;
    int64_t count;
};

struct Col2imScratch {
    int64_t bytes;
    float *bias, *few, *trash, *line, *wide, *columns;
    const float** bases;
    Term* terms;
    EpilogueRows* epilogue;  // the post-ops of results; null: none
};

Col2imScratch divide(const Col2imParams& params, char* memory) {
    const int64_t lines = params.planes * params.live;
    ScratchCarver carver(memory);
    Col2imScratch scratch;
    scratch.bias = carver.take(params.run + kLanes);
    scratch.few = carver.take(kTileRows * params.src.channels);
    scratch.trash = carver.take(kTileRows * params.width);
    scratch.line = carver.take((params.runs + kRunsAtOnce) * params.run + kLanes);
    scratch.wide = carver.take(
        params.src.type == ElementType::f32 ? 0 : params.together * params.positions() * params.src.channels);
    scratch.columns = carver.take(params.planes * params.kept() * params.positions() * params.width + kLanes);
    scratch.bases = carver.take<const float*>(lines);
    scratch.terms = carver.take<Term>(lines * params.shifts);
    scratch.epilogue = nullptr;
    scratch.bytes = carver.bytes;
    return scratch;
}

// Calls visit(tap, position) for the taps of an axis that meet output `o`, and the positions of src that they meet.
template <class Visit>
void for_each_tap(const Col2imParams& params, int axis, int64_t o, Visit&& visit) {
    const int64_t stride = params.stride[axis];
    for (int64_t k = 0, at = o + params.pad[axis]; k < params.kernel[axis] && at >= 0;
         ++k, at -= params.dilation[axis]) {
        if (at % stride == 0 && at / stride < params.src.size[axis]) visit(k, at / stride);
    }
}

// The runs of a line that a task writes, and the positions of src that they need.
struct LineSection {
    int64_t image, plane;  // plane: position of dst on axis 0
    int64_t first_run, runs, first, positions;
};

// ---- products ---------------------------------------------------------------------------------------------

// The panels with the columns of one tap of axis 0, which begin `offset` columns after the first panel does.
struct Panels {
    int64_t begin, end, last, offset;  // last: columns up to the end of the last panel that are wanted

    Panels(const Col2imParams& params, int64_t tap) {
        const int64_t first = tap * params.columns(), stop = first + params.columns();
        begin = first / kPanel;
        end = ceil_div(stop, kPanel);
        last = stop - (end - 1) * kPanel;
        offset = first - begin * kPanel;
    }
};

// Returns the columns of a line of src for the plane's `index`-th tap of axis 0, in the ring of lines.
float* columns_of(const Col2imParams& params, const Col2imScratch& scratch, int64_t index, int64_t line) {
    return scratch.columns + (index * params.kept() + line % params.kept()) * params.positions() * params.width;
}

// Returns the rows of src that one panel after the other multiplies: few, so that they and their columns stay near, or
// enough for weights that do not.
int64_t strip_rows(const Col2imParams& params) {
    if (params.columns() * params.src.channels * 4 > kNearBytes) return kRowsNear;
    const int64_t widest = larger(params.src.channels, params.width / 4);
    return larger(kStripFloats / widest / kTileRows, 1) * kTileRows;
}

// Computes the columns of `count` rows of src, f32 and `step` apart.
void multiply_rows(const Col2imParams& params, const Panels& panels, const float* rows, int64_t step, int64_t count,
                   const float* packed, float* to, const Col2imScratch& scratch) {
    const int64_t depth = params.src.channels, all_columns = params.kernel[0] * params.columns();
    const Span all{0, 0, depth};
    const auto multiply = [&](const float* from, int64_t from_step, int64_t some, float* columns) {
        // fetches the next rows
        Ahead ahead{reinterpret_cast<const char*>(from + some * from_step), 4 * kTileRows};
        for (int64_t p = panels.begin; p < panels.end; ++p, columns += kPanel, ahead.step = 0) {
            const bool half = p + 1 == panels.end && panels.last <= kLanes, dense = all_columns - p * kPanel <= kLanes;
            const auto product = !half   ? &strip_product<kTileVectors, true>
                                 : dense ? &strip_product<1, true>
                                         : &strip_product<1, true, kTileRows, kPanel>;
            product(from, Strip{some, from_step, params.width}, &all, 1, packed + p * depth * kPanel, nullptr, columns,
                    ahead);
        }
    };
    const int64_t whole = count / kTileRows * kTileRows, chunk = strip_rows(params);
    for (int64_t first = 0; first < whole; first += chunk) {
        multiply(rows + first * step, step, smaller(chunk, whole - first), to + first * params.width);
    }
    if (whole == count) return;
    // the last tile repeats rows: earlier ones, or one of them
    const int64_t last = count - kTileRows;
    if (last > 0) return multiply(rows + last * step, step, kTileRows, to + last * params.width);
    for (int64_t i = 0; i < kTileRows; ++i) {
        const auto bytes = static_cast<size_t>(depth) * sizeof(float);
        __builtin_memcpy(scratch.few + i * depth, rows + smaller(i, count - 1) * step, bytes);
    }
    multiply(scratch.few, depth, kTileRows, scratch.trash);
    __builtin_memcpy(to, scratch.trash, static_cast<size_t>(count * params.width) * sizeof(float));
}

// Computes the columns of lines [begin, end) of src for each tap of axis 0 that the section meets.
void multiply_lines(const Col2imParams& params, const LineSection& section, int64_t begin, int64_t end, const char* src,
                    const float* packed, const Col2imScratch& scratch) {
    const Col2imImage& image = params.src;
    // lines that follow each other on both sides are one
    const int64_t together =
        image.strides[1] == section.positions * image.strides[2] && section.positions == params.positions()
            ? end - begin
            : 1;
    int64_t index = 0;
    for_each_tap(params, 0, section.plane, [&](int64_t tap, int64_t plane) {
        const Panels panels(params, tap);
        for (int64_t line = begin; line < end; line += together) {
            const int64_t offset = section.image * image.batch_stride + plane * image.strides[0] +
                                   line * image.strides[1] + section.first * image.strides[2];
            const char* at = src + offset * image.item;
            const float* rows = reinterpret_cast<const float*>(at);
            int64_t step = image.strides[2];
            if (image.type != ElementType::f32) {
                for (int64_t i = 0; i < together * section.positions; ++i) {
                    widen(image.type, at + i * step * image.item, image.channels, scratch.wide + i * image.channels);
                }
                rows = scratch.wide;
                step = image.channels;
            }
            multiply_rows(params, panels, rows, step, together * section.positions, packed,
                          columns_of(params, scratch, index, line), scratch);
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

// Adds up runs [begin, end). The next run overwrites the lanes beyond a run.
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

// Adds up runs [begin, end) of a section from `lines` lines of columns: run i at `to` + i * params.run.
void add_line(const Col2imParams& params, const LineSection& section, int64_t begin, int64_t end, int64_t lines,
              float* to, const Col2imScratch& scratch) {
    const int64_t channels = params.dst.channels, size = params.src.size[2];
    // the last lanes first, so that the next run's first ones are written after them
    for (int64_t c = (params.run - 1) / kLanes * kLanes; c >= 0; c -= kLanes) {
        int64_t shifts = 0;
        bool cut = false;
        for (Term* term = scratch.terms; shifts < params.shifts; ++shifts) {
            const int64_t tap = params.stride[2] * shifts;
            const int64_t wide = smaller(params.stride[2], params.kernel[2] - tap) * channels;
            if (wide <= c) break;
            cut = cut || (wide < params.run && wide < c + kLanes);
            const int64_t offset = (section.first_run - shifts - section.first) * params.width + tap * channels + c;
            for (int64_t l = 0; l < lines; ++l) *term++ = {scratch.bases[l] + offset, smaller(wide - c, kLanes)};
        }
        const auto add = cut ? &add_terms<true> : &add_terms<false>;
        // runs [i, stop) have the same terms
        for (int64_t i = begin, stop; i < end; i = stop) {
            const int64_t run = section.first_run + i;
            const int64_t low = smaller(larger(run - size + 1, 0), shifts);
            const int64_t high = larger(smaller(run + 1, shifts), low);
            stop = run + 1 < shifts || run + 1 >= size ? i + 1 : smaller(end, size - section.first_run);
            add(scratch.terms + low * lines, (high - low) * lines, i, stop, params.width, scratch.bias + c, to + c,
                params.run);
        }
    }
}

// Writes positions [begin, end) of a line of dst, without the padding, from `from` on.
void write_line(const Col2imParams& params, float* from, int64_t begin, int64_t end, char* line,
                EpilogueRows* epilogue) {
    const int64_t channels = params.dst.channels, step = params.dst.strides[2] * params.dst.item;
    char* to = line + begin * step;
    if (begin >= end) return;
    if (epilogue != nullptr) {
        const bool follow = params.dst.strides[2] == channels;
        const int64_t together = follow ? larger(kEpilogueFloats / channels, 1) : 1;
        for (int64_t i = begin; i < end; i += together) {
            epilogue->add(from + (i - begin) * channels, line + i * step, 0, smaller(together, end - i) * channels);
        }
        epilogue->flush();
    }
    if (params.dst.strides[2] != channels) {
        for (int64_t i = begin; i < end; ++i, from += channels, to += step) narrow(params.dst.type, from, channels, to);
    } else if (params.vast) {
        stream(from, (end - begin) * channels, reinterpret_cast<float*>(to));
    } else {
        narrow(params.dst.type, from, (end - begin) * channels, to);
    }
}

// Computes a section of a line of dst. Whole runs, and the lanes beyond them, are written to dst; cut runs by way of
// scratch memory.
void finish_line(const Col2imParams& params, const LineSection& section, int64_t lines, char* line,
                 const Col2imScratch& scratch) {
    const int64_t stride = params.stride[2], origin = section.first_run * stride - params.pad[2];
    const int64_t first = larger(origin, 0), stop = smaller(origin + section.runs * stride, params.dst.size[2]);
    int64_t begin = 0, end = 0;
    if (params.dst.type == ElementType::f32 && params.dst.strides[2] == params.dst.channels && !params.vast) {
        const int64_t spill = round_up(params.run, kLanes) - params.run;
        begin = origin < 0 ? 1 : 0;
        end = larger(((stop - origin) * params.dst.channels - spill) / params.run, begin);
    }
    float* const to = reinterpret_cast<float*>(line) + origin * params.dst.channels;
    const auto indirect = [&](int64_t i, int64_t until) {
        if (i >= until) return;
        add_line(params, section, i, until, lines, scratch.line, scratch);
        const int64_t from = larger(origin + i * stride, first);
        write_line(params, scratch.line + (from - origin) * params.dst.channels, from,
                   smaller(origin + until * stride, stop), line, scratch.epilogue);
    };
    indirect(0, begin);
    const int64_t together =
        scratch.epilogue == nullptr ? end - begin : larger(kEpilogueFloats / params.run, kRunsAtOnce);
    for (int64_t i = begin; i < end; i += together) {
        const int64_t until = smaller(i + together, end);
        add_line(params, section, i, until, lines, to, scratch);
        if (scratch.epilogue == nullptr) continue;
        scratch.epilogue->add(to + i * params.run, to + i * params.run, 0, (until - i) * params.run);
        scratch.epilogue->flush();
    }
    indirect(end, section.runs);
}

void run_task(const Col2imParams& params, int64_t task, const char* src, const float* packed, char* dst,
              const Col2imScratch& scratch) {
    const int64_t number = task % params.sections, block = task / params.sections % params.blocks;
    const int64_t plane = task / params.sections / params.blocks % params.dst.size[0];
    LineSection section{task / params.sections / params.blocks / params.dst.size[0], plane, 0, 0, 0, 0};
    const int64_t first = params.all_runs * number / params.sections,
                  end = params.all_runs * (number + 1) / params.sections;
    section.first_run = params.first_run + first;
    section.runs = end - first;
    section.first = larger(section.first_run - params.shifts + 1, 0);
    section.positions = larger(smaller(section.first_run + section.runs, params.src.size[2]) - section.first, 0);
    const int64_t lines_end = params.dst.size[1] * (block + 1) / params.blocks;
    int64_t next = 0;  // line of src without columns
    const auto last_line = [&](int64_t o) {
        const int64_t at = o + params.pad[1];
        return at < 0 ? -1 : smaller(at / params.stride[1], params.src.size[1] - 1);
    };
    const int64_t until = last_line(lines_end - 1) + 1, reach = params.dilation[1] * (params.kernel[1] - 1);
    for (int64_t o = params.dst.size[1] * block / params.blocks; o < lines_end; ++o) {
        next = larger(next, ceil_div(larger(o + params.pad[1] - reach, 0), params.stride[1]));
        for (; next <= last_line(o) && section.positions > 0;) {
            // lines of columns that follow each other
            const int64_t stop =
                smaller(smaller(next + params.together, until), (next / params.kept() + 1) * params.kept());
            multiply_lines(params, section, next, stop, src, packed, scratch);
            next = stop;
        }
        int64_t lines = 0, index = 0;
        for_each_tap(params, 0, plane, [&](int64_t plane_tap, int64_t) {
            const int64_t offset = Panels(params, plane_tap).offset;
            for_each_tap(params, 1, o, [&](int64_t tap, int64_t line) {
                const int64_t column = offset + tap * params.kernel[2] * params.dst.channels;
                scratch.bases[lines++] = columns_of(params, scratch, index, line) + column;
            });
            ++index;
        });
        const Axes& strides = params.dst.strides;
        const int64_t line = section.image * params.dst.batch_stride + plane * strides[0] + o * strides[1];
        finish_line(params, section, lines, dst + line * params.dst.item, scratch);
    }
}

int64_t scratch_of(const Col2imParams& params) { return divide(params, nullptr).bytes; }

void run(const Col2imParams& params, const char* src, const float* packed, const char* bias, EpilogueCall epilogue,
         char* memory, char* dst) {
    Turns turns;
    run_team(params.threads, [&](int rank, int size) {
        Col2imScratch scratch = divide(params, memory + rank * params.scratch_per_thread);
        EpilogueRows rows(epilogue, dst, params.dst.item, params.dst.channels);
        if (epilogue.params != nullptr) scratch.epilogue = &rows;
        __builtin_memset(scratch.bias, 0, static_cast<size_t>(params.run + kLanes) * sizeof(float));
        for (int64_t i = 0; params.has_bias && i < params.stride[2]; ++i) {
            widen(params.bias_type, bias, params.dst.channels, scratch.bias + i * params.dst.channels);
        }
        Loops(turns, size).run(params.batch * params.dst.size[0] * params.blocks * params.sections, [&](int64_t task) {
            run_task(params, task, src, packed, dst, scratch);
        });
        if (params.vast) _mm_sfence();
    });
}

}  // namespace

const Col2imCode kCol2imCode = {kPanel, scratch_of, run};

}  // namespace dgo::DGO_ISA
