// The factors of a step of bf16 wgrad: pairs of positions of 16 channels each.
#pragma once

#include "kernels/isa/dot/gradient_scratch.hpp"
#include "kernels/isa/vector/transpose.hpp"

namespace dgo::DGO_ISA {
namespace {

struct Sixteen {
    static constexpr int kVectors = 16 / kLanes;
    Vec<kLanes>::u32 part[kVectors];
};

// Loads the first channels of 16 at one position; the other lanes are zero, and their memory is not read.
struct Channels {
    int64_t count;

    template <bool kAll>
    DGO_INLINE Sixteen load(const char* at) const {
        Sixteen all;
        if constexpr (!kAll && kWide) {
            const auto some = static_cast<__mmask16>((1u << count) - 1);
            all.part[0] = bits<Vec<kLanes>::u32>(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(some, at)));
            return all;
        } else if constexpr (!kAll) {
            uint16_t some[16] = {};
            __builtin_memcpy(some, at, static_cast<size_t>(count) * 2);
            return load<true>(reinterpret_cast<const char*>(some));
        }
        for (int v = 0; v < Sixteen::kVectors; ++v) all.part[v] = load_words<2, kLanes>(at + v * kLanes * 2);
        return all;
    }
};

// Visits positions 0, 1, ... of a line, `step` bytes apart, of which [begin, end) exist; the others are zero.
struct Line {
    const char* at;
    int64_t step, begin, end;
};

template <bool kAll>
DGO_INLINE void put_line(const Line& line, const Channels& channels, int64_t pairs, char* to) {
    const auto store = [&](int64_t pair, const Sixteen& all) {
        for (int v = 0; v < Sixteen::kVectors; ++v) store_bytes(to + pair * kPairBytes + v * kLanes * 4, all.part[v]);
    };
    const auto at_edge = [&](int64_t pair) {
        Sixteen all = {};
        for (int64_t i = 2 * pair; i < 2 * pair + 2; ++i) {
            if (i < line.begin || i >= line.end) continue;
            const Sixteen one = channels.load<kAll>(line.at + i * line.step);
            for (int v = 0; v < Sixteen::kVectors; ++v) all.part[v] |= i % 2 == 0 ? one.part[v] : one.part[v] << 16;
        }
        store(pair, all);
    };
    const int64_t whole = smaller(pairs, ceil_div(line.begin, 2)), cut = larger(whole, smaller(pairs, line.end / 2));
    for (int64_t pair = 0; pair < whole; ++pair) at_edge(pair);
    const char* at = line.at + 2 * whole * line.step;
    for (int64_t pair = whole; pair < cut; ++pair, at += 2 * line.step) {
        Sixteen all = channels.load<kAll>(at);
        const Sixteen second = channels.load<kAll>(at + line.step);
        for (int v = 0; v < Sixteen::kVectors; ++v) all.part[v] |= second.part[v] << 16;
        store(pair, all);
    }
    for (int64_t pair = cut; pair < pairs; ++pair) at_edge(pair);
}

void put_pairs(const Line& line, int64_t channels, int64_t pairs, char* to) {
    const Channels some{channels};
    if (channels == kHalf) {
        put_line<true>(line, some, pairs, to);
    } else {
        put_line<false>(line, some, pairs, to);
    }
}

// Lines [first, first + lines) of one plane, or where steps go across planes, of all; positions [x, x + width) of each.
struct Step {
    const Bf16GradientParams& params;
    int64_t plane;  // tap of the first axis
    int64_t first, lines, x, width, pairs;  // pairs: of a line

    void find(SrcLine* places) const {
        const FilterTensor& t = params.src;
        const GradientRange& range = params.planes[plane];
        const int64_t height = params.in[1], depth = range.end - range.first;
        for (int64_t i = 0; i < lines; ++i) {
            const int64_t of_plane = (first + i) / height;
            SrcLine line{x * t.strides[2], of_plane / depth, range.first + of_plane % depth, (first + i) % height};
            line.offset += line.image * t.batch_stride + line.z * t.strides[0] + line.y * t.strides[1];
            places[i] = line;
        }
    }
};

int64_t steps_of(const Bf16GradientParams& params, int64_t plane) {
    const int64_t planes = params.batch * (params.planes[plane].end - params.planes[plane].first);
    if (params.across) return ceil_div(planes * params.in[1], params.lines);
    return planes * params.line_steps * params.width_steps;
}

Step step_of(const Bf16GradientParams& params, int64_t plane, int64_t number) {
    const int64_t height = params.in[1];
    Step step{params, plane, 0, 0, 0, params.in[2], 0};
    if (params.across) {
        const GradientRange& range = params.planes[plane];
        const int64_t all = params.batch * (range.end - range.first) * height;
        step.first = number * params.lines;
        step.lines = smaller(params.lines, all - step.first);
    } else {
        step.x = number % params.width_steps * params.width;
        step.width = smaller(params.width, params.in[2] - step.x);
        const int64_t rest = number / params.width_steps, y = rest % params.line_steps * params.lines;
        step.first = rest / params.line_steps * height + y;
        step.lines = smaller(params.lines, height - y);
    }
    step.pairs = ceil_div(step.width, 2);
    return step;
}

// Packs rows of the left factor: in channels [first, end), the positions of each side by side.
void pack_left(const Step& step, int64_t first, int64_t end, const GradientSizes& s, const char* src,
               const GradientMemory& memory) {
    const Bf16GradientParams& params = step.params;
    const FilterTensor& t = params.src;
    const int64_t pairs = step.lines * step.pairs, units = ceil_div(pairs, kUnitPairs);
    __builtin_memset(memory.lines + pairs * kPairBytes, 0,
                     static_cast<size_t>((units * kUnitPairs - pairs) * kPairBytes));
    for (int64_t channel = first; channel < end; channel += kHalf) {
        const int64_t count = smaller(kHalf, end - channel);
        for (int64_t i = 0; i < step.lines; ++i) {
            const Line line{src + (memory.places[i].offset + channel) * 2, t.strides[2] * 2, 0, step.width};
            put_pairs(line, count, step.pairs, memory.lines + i * step.pairs * kPairBytes);
        }
        const auto* from = reinterpret_cast<const F32::T*>(memory.lines);
        auto* to = reinterpret_cast<F32::T*>(memory.left + (channel - first) * s.pitch);
        for (int64_t pair = 0; pair < units * kUnitPairs; pair += 8) {
            for (int64_t c = 0; c < kHalf; c += 8) {
                transpose_tile<F32, F32>(from + pair * kHalf + c, kHalf, to + c * (s.pitch / 4) + pair, s.pitch / 4);
            }
        }
    }
}

// Packs panels of the right factor: out channels of diff_dst, a copy of the lines for each tap of the last axis.
void pack_right(const Step& step, const GradientTask& task, const GradientSizes& s, const char* diff,
                const GradientMemory& memory) {
    const Bf16GradientParams& params = step.params;
    const FilterTensor& t = params.diff;
    const int64_t stride = params.stride[2], halves = ceil_div(task.out_end - task.out, kHalf);
    const auto pack = [&](const GradientLines& run, int64_t i) {
        // beyond the lines of src, those of a plane go on
        const SrcLine& at = memory.places[smaller(i, step.lines - 1)];
        const int64_t y = params.stride[1] * (at.y + larger(i - step.lines + 1, 0)) + run.shift;
        const int64_t z = params.stride[0] * at.z + params.dilation[0] * task.plane - params.pad[0];
        const bool exists = y >= 0 && y < params.out[1];
        for (int64_t channel = 0; channel < halves; ++channel) {
            const int64_t count = smaller(kHalf, task.out_end - task.out - channel * kHalf);
            for (int64_t tap = task.columns.first; tap < task.columns.end; ++tap) {
                char* to = memory.right + ((tap - task.columns.first) * halves + channel) * s.panel +
                           (run.slot + i) * step.pairs * kPairBytes;
                const GradientRange& columns = params.columns[tap];
                const int64_t begin = larger(columns.first - step.x, 0),
                              end = smaller(columns.end - step.x, step.width);
                if (!exists || begin >= end) {
                    __builtin_memset(to, 0, static_cast<size_t>(step.pairs * kPairBytes));
                    continue;
                }
                const int64_t x = stride * step.x + params.dilation[2] * tap - params.pad[2];
                const int64_t offset = at.image * t.batch_stride + z * t.strides[0] + y * t.strides[1] +
                                       x * t.strides[2] + task.out + channel * kHalf;
                put_pairs({diff + offset * 2, stride * t.strides[2] * 2, begin, end}, count, step.pairs, to);
            }
        }
    };
    for (int64_t run = task.taps.runs.first; run < task.taps.runs.end; ++run) {
        for (int64_t i = 0; i < step.lines + params.runs[run].more; ++i) pack(params.runs[run], i);
    }
}

// Where whole units are read, the last unit of a tap, filled up with zeros, lies apart: after the lines, in bytes.
int64_t last_unit(const Step& step, int64_t number) {
    return (step.params.slot_count * step.pairs + number * kUnitPairs) * kPairBytes;
}

void pack_last_units(const Step& step, const GradientTask& task, const GradientSizes& s, const GradientMemory& memory) {
    const int64_t pairs = step.lines * step.pairs, left = pairs % kUnitPairs;
    if (!reads_units(step.params) || left == 0) return;
    const int64_t* slots = step.params.slots + task.taps.rows.first;
    const int64_t panels = task.columns.count() * ceil_div(task.out_end - task.out, kHalf);
    for (int64_t panel = 0; panel < panels; ++panel) {
        char* at = memory.right + panel * s.panel;
        for (int64_t tap = 0; tap < task.taps.rows.count(); ++tap) {
            const char* from = at + (slots[tap] * step.pairs + pairs - left) * kPairBytes;
            char* to = at + last_unit(step, tap);
            __builtin_memcpy(to, from, static_cast<size_t>(left * kPairBytes));
            __builtin_memset(to + left * kPairBytes, 0, static_cast<size_t>((kUnitPairs - left) * kPairBytes));
        }
    }
}

}  // namespace
}  // namespace dgo::DGO_ISA
