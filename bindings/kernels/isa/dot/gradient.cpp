// diff_weights[tap] = the sum over positions of src * diff_dst, in bf16: packs src by channels and diff_dst by pairs of
// positions, multiplies both for each tap, and writes the sums as weights.
#include "kernels/team.hpp"
#include "kernels/isa/copy/across.hpp"
#include "kernels/isa/dot/gradient_pack.hpp"
#include "kernels/isa/vector/convert.hpp"

namespace dgo::DGO_ISA {
namespace {

// sums += src * diff_dst over the positions of a step, for in channels [from, end) of the task. first: sums begin at 0.
void multiply(const Step& step, const GradientTask& task, const GradientSizes& s, int64_t from, int64_t end, bool first,
              const GradientMemory& memory) {
    const Bf16GradientParams& params = step.params;
    const int64_t halves = ceil_div(task.out_end - task.out, kHalf);
    const int64_t rows = end - from, columns = halves * kHalf;
    const int64_t depth = 2 * step.lines * step.pairs;
    const int64_t whole = reads_units(params) ? depth / kBf16Unit * kBf16Unit : depth;
    const int64_t* slots = params.slots + task.taps.rows.first;
    for (int64_t x = 0; x < task.columns.count(); ++x) {
        for (int64_t out = 0; out < columns; out += kDotColumns) {
            const DotPanel panel{memory.right + (x * halves + out / kHalf) * s.panel, s.panel, kUnitPairs * kPairBytes};
            for (int64_t y = 0; y < task.taps.rows.count(); ++y) {
                DotTerm terms[2];
                int64_t count = 0;
                if (whole > 0) terms[count++] = {{}, slots[y] * step.pairs * kPairBytes, whole};
                if (whole < depth) terms[count++] = {{}, last_unit(step, y), depth - whole};
                float* sums =
                    task.sums + (y * task.columns.count() + x) * s.tap + out / kDotColumns * s.in_units * kBlock;
                for (int64_t in = 0; in < rows; in += kDotColumns, sums += kBlock) {
                    for (int64_t i = 0; i < count; ++i) {
                        const char* at = memory.left + in * s.pitch + (terms[i].depth == whole ? 0 : whole * 2);
                        terms[i].rows[0] = {at, s.pitch};
                        terms[i].rows[1] = {at + kHalf * s.pitch, s.pitch};
                    }
                    const DotSums where{first ? memory.zeros : sums, first ? 0 : kDotColumns, sums, kDotColumns};
                    params.dot->product(terms, count, panel, where, rows - in, columns - out);
                }
            }
        }
    }
}

// diff_weights = the sums of up to 32 in channels from `row` of the task on; the sums of `parts` parts, `part` floats
// apart, are added up in place.
void write_rows(const Bf16GradientParams& params, const GradientTask& task, int64_t row, int64_t parts, int64_t part,
                char* weights) {
    const GradientSizes s = sizes_of(params);
    const FilterWeights& w = params.weights;
    const TapOrder order = order_of(params);
    const bool in_taps = order == TapOrder::taps || order == TapOrder::lines;
    const NarrowAcross narrow_across(params.weights_type);
    const int64_t lines = task.taps.rows.count(), columns = task.columns.count();
    const int64_t together = order == TapOrder::taps ? lines * columns : in_taps ? columns : 1;
    const int64_t rows = smaller(kDotColumns, task.in_end - task.in - row), across = s.in_units * kBlock;
    float* block = task.sums + row / kDotColumns % s.in_units * kBlock;
    for (int64_t out = task.out; out < task.out_end; out += kDotColumns, block += across) {
        const int64_t count = smaller(kDotColumns, task.out_end - out);
        for (int64_t tap = 0; tap < lines * columns && parts > 1; ++tap) {
            float* to = block + tap * s.tap;
            for (int64_t other = 1; other < parts; ++other) {
                for (int64_t i = 0; i < rows * kDotColumns; ++i) to[i] += to[other * part + i];
            }
        }
        const int64_t first = task.group * w.group_stride + (task.in + row) * w.in_stride + out * w.out_stride +
                              task.plane * w.tap_strides[0];
        for (int64_t tap = 0; tap < lines * columns; tap += together) {
            const int64_t y = params.rows[task.taps.rows.first + tap / columns];
            const int64_t x = task.columns.first + tap % columns;
            const float* from = block + tap * s.tap;
            char* to = weights + (first + y * w.tap_strides[1] + x * w.tap_strides[2]) * params.weights_item;
            if (order == TapOrder::rows) {
                narrow_across(from, kDotColumns, count, rows, w.out_stride, to);
                continue;
            }
            for (int64_t r = 0; r < rows; ++r, from += kDotColumns, to += w.in_stride * params.weights_item) {
                if (in_taps) {
                    narrow_across(from, s.tap, count, together, w.out_stride, to);
                } else if (order == TapOrder::columns) {
                    narrow(params.weights_type, from, count, to);
                } else {
                    narrow_apart(params.weights_type, from, count, w.out_stride, to);
                }
            }
        }
    }
}

// Computes a task whose positions are one step: sums and writes 32 in channels at a time.
void finish_at_once(const Bf16GradientParams& params, const GradientTask& task, const char* src, const char* diff,
                    const GradientMemory& memory, char* weights) {
    const GradientSizes s = sizes_of(params);
    const bool any = task.step < task.step_end;
    const Step step = step_of(params, task.plane, task.step);
    if (any) {
        step.find(memory.places);
        pack_right(step, task, s, diff, memory);
        pack_last_units(step, task, s, memory);
    } else {
        __builtin_memset(task.sums, 0, static_cast<size_t>(s.task) * sizeof(float));
    }
    for (int64_t in = task.in; in < task.in_end; in += kDotColumns) {
        const int64_t end = smaller(in + kDotColumns, task.in_end);
        if (any) {
            pack_left(step, in, end, s, src, memory);
            multiply(step, task, s, in, end, true, memory);
        }
        write_rows(params, task, in - task.in, 1, 0, weights);
    }
}

void sum_task(const Bf16GradientParams& params, const GradientTask& task, const char* src, const char* diff,
              const GradientMemory& memory) {
    const GradientSizes s = sizes_of(params);
    if (task.step == task.step_end) __builtin_memset(task.sums, 0, static_cast<size_t>(s.task) * sizeof(float));
    for (int64_t number = task.step; number < task.step_end; ++number) {
        const Step step = step_of(params, task.plane, number);
        step.find(memory.places);
        pack_left(step, task.in, task.in_end, s, src, memory);
        pack_right(step, task, s, diff, memory);
        pack_last_units(step, task, s, memory);
        multiply(step, task, s, task.in, task.in_end, number == task.step, memory);
    }
}

GradientTask task_of(const Bf16GradientParams& params, int64_t rank, int64_t part, float* sums) {
    GradientTask task;
    const int64_t in = rank % params.in_parts, out = rank / params.in_parts % params.out_parts;
    int64_t outer = rank / params.in_parts / params.out_parts;
    const int64_t column = outer % params.row_parts * params.row_taps;
    task.columns = {column, smaller(column + params.row_taps, params.kernel[2])};
    outer /= params.row_parts;
    task.taps = params.taps[outer % params.tap_parts];
    outer /= params.tap_parts;
    task.plane = outer % params.kernel[0];
    task.group = outer / params.kernel[0];
    task.in = in * params.in_units * kDotColumns;
    task.in_end = smaller(task.in + params.in_units * kDotColumns, params.in_channels);
    task.out = out * params.out_units * kDotColumns;
    task.out_end = smaller(task.out + params.out_units * kDotColumns, params.out_channels);
    const int64_t steps = steps_of(params, task.plane);
    task.step = steps * part / params.step_parts;
    task.step_end = steps * (part + 1) / params.step_parts;
    task.sums = sums;
    return task;
}

int64_t tasks_of(const Bf16GradientParams& params) {
    return params.groups * params.kernel[0] * params.tap_parts * params.row_parts * params.in_parts * params.out_parts;
}

int64_t gradient_scratch(const Bf16GradientParams& params) { return divide(params, nullptr).bytes; }

int64_t gradient_sums(const Bf16GradientParams& params) {
    if (params.step_parts == 1) return 0;
    ScratchCarver carver(nullptr);
    int64_t sets;
    if (__builtin_mul_overflow(tasks_of(params), params.step_parts, &sets)) return ScratchCarver::kMost;
    int64_t floats;
    if (__builtin_mul_overflow(sizes_of(params).task, sets, &floats)) return ScratchCarver::kMost;
    carver.take(floats);
    return carver.bytes;
}

void run_gradient(const Bf16GradientParams& params, const char* src, const char* diff, char* memory, char* weights) {
    const GradientSizes s = sizes_of(params);
    const int64_t tasks = tasks_of(params), parts = params.step_parts;
    auto* shared = reinterpret_cast<float*>(memory + params.sums);
    Turns turns;
    run_team(params.threads, [&](int thread, int size) {
        const DotThread products(params.dot);
        const GradientMemory own = divide(params, memory + thread * params.scratch_per_thread);
        Loops loops(turns, size);
        __builtin_memset(own.zeros, 0, kDotColumns * sizeof(float));
        loops.run(tasks * parts, [&](int64_t item) {
            float* sums = parts == 1 ? own.sums : shared + item * s.task;
            const GradientTask task = task_of(params, item / parts, item % parts, sums);
            const char* x = src + task.group * params.in_channels * 2;
            const char* y = diff + task.group * params.out_channels * 2;
            if (params.at_once) {
                finish_at_once(params, task, x, y, own, weights);
                return;
            }
            sum_task(params, task, x, y, own);
            if (parts > 1) return;
            for (int64_t row = 0; row < task.in_end - task.in; row += kDotColumns) {
                write_rows(params, task, row, 1, 0, weights);
            }
        });
        if (parts == 1) return;
        dgo_team_barrier();
        loops.run(tasks * params.in_units, [&](int64_t item) {
            const int64_t rank = item / params.in_units, row = item % params.in_units * kDotColumns;
            const GradientTask task = task_of(params, rank, 0, shared + rank * parts * s.task);
            if (row < task.in_end - task.in) write_rows(params, task, row, parts, s.task, weights);
        });
    });
}

}  // namespace

const DotGradient kBf16Gradient = {gradient_scratch, gradient_sums, run_gradient};

}  // namespace dgo::DGO_ISA
