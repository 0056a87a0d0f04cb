// Dgrad and fprop: windows -> transform -> one small product per plane -> inverse transform. On direct
// axes the taps are segments of the windows, and nothing is transformed.
#include "kernels/team.hpp"
#include "kernels/isa/product/thread.hpp"
#include "kernels/isa/product/planes.hpp"
#include "kernels/isa/filtering/product_strips.hpp"
#include "kernels/isa/filtering/vtable.hpp"

namespace dgo::DGO_ISA {
namespace {

void transform_block(const ProductParams& params, const TargetGroup& group, int64_t first, int64_t count, Part part,
                     const char* src, const ProductScratch& scratch) {
    const auto run = [&](auto transform) {
        transform_windows(params, group, first, count, part, src, transform, scratch);
    };
    if (params.dot == nullptr)
        run(window_transform(params.filter_shape));
    else if (params.src.type == ElementType::bf16)
        run(params.dot->windows->bf16(params.filter_shape));
    else
        run(params.dot->windows->f32(params.filter_shape));
}

// Multiplies some rows of the left factor by a panel of one plane.
struct PanelProduct {
    const float *left, *panel, *start;
    const Span* spans;
    int64_t span_count;
    float* result;
    Strip strip;
    Ahead ahead;
    int64_t ahead_size;  // bytes a register tile

    template <int kVectors, int kRows>
    DGO_INLINE void some(int64_t tiles) {
        if (tiles == 0) return;
        strip.count = tiles * kRows;
        strip_product<kVectors, false, kRows>(left, strip, spans, span_count, panel, start, result, ahead);
        left += strip.count * strip.row_step;
        result += strip.count * strip.to_step;
        ahead.at += tiles * ahead_size;
    }
    template <int kVectors>
    void run(const TileCounts& rows) {
        some<kVectors, 3 * kFewRows>(rows.whole);
        some<kVectors, 2 * kFewRows>(rows.two_thirds);
        some<kVectors, kFewRows>(rows.third);
    }
};

// Computes columns [column, column + columns) of some planes into scratch.result, in f32.
void multiply_floats(const ProductParams& params, const TargetGroup& group, PlaneRange planes, int64_t column,
                     int64_t columns, int64_t count, const float* packed, const ProductScratch& scratch) {
    const Depth depth = depth_of(params);
    const FetchSplit split(depth.all / depth.parts, count);
    const int64_t runs = row_runs(params), length = row_run(params);
    const auto weights = [&](int64_t p, int64_t part, int64_t n) {
        const int64_t pitch = panel_pitch(group_columns(params, group) - column - n);
        return panel_at(params, group, p, column + n, packed) + depth.begin(part) * pitch;
    };
    const Strip strip{0, left_stride(params), kFilterChunk};
    const TileCounts row_tiles(count);
    for (int64_t p = planes.begin; p < planes.end; ++p) {
        const float* left = scratch.left + p * left_plane(params);
        for (int64_t part = 0; part < depth.parts; ++part) {
            int64_t span_count = spans_between(params, depth.begin(part), depth.begin(part + 1), scratch.spans);
            for (int64_t n = 0; n < columns; n += kPanel) {
                if (params.zero != nullptr) span_count = spans_of(params, group, p, column + n, scratch.spans);
                const float* next = n + kPanel < columns     ? weights(p, part, n + kPanel)
                                    : part + 1 < depth.parts ? weights(p, part + 1, 0)
                                    : p + 1 < planes.end     ? weights(p + 1, 0, 0)
                                                             : weights(planes.begin, 0, columns);
                const float *panel = weights(p, 0, n), *start = part == 0 ? scratch.zeros : nullptr;
                float* result = scratch.result + p * result_stride(params) + n;
                if (!in_place(params)) {
                    PanelProduct product{
                        left, panel, start, scratch.spans, span_count, result, strip, split.of(next, 0), split.size};
                    if (columns - n > kLanes)
                        product.run<kTileVectors>(row_tiles);
                    else
                        product.run<1>(row_tiles);
                    continue;
                }
                for (int64_t t = 0; t < count; t += kTileRows) {
                    float* to[kTileRows];
                    for (float*& row : to) {
                        row = result;
                        result += kFilterChunk;
                    }
                    tile_of(count - t, columns - n)(scratch.rows + t * runs, runs, scratch.spans, span_count, length,
                                                    panel, start, to, split.of(next, t), {});
                }
            }
        }
    }
}

void multiply(const ProductParams& params, const TargetGroup& group, PlaneRange planes, int64_t column, int64_t columns,
              int64_t count, const char* packed, const ProductScratch& scratch) {
    if (params.dot != nullptr)
        multiply_by_set(params, group, planes, column, columns, count, packed, scratch);
    else
        multiply_floats(params, group, planes, column, columns, count, reinterpret_cast<const float*>(packed), scratch);
}

constexpr int64_t kReachedBytes = 512 * 1024;  // an operand of post-ops with fewer bytes stays near

void write_slice(const ProductParams& params, const FilterImage& image, const TargetGroup& group, int64_t first,
                 int64_t count, const RunSlice& slice, char* dst, const ProductScratch& scratch) {
    const GatherFn transform = output_transform(params.output_shape);
    const int64_t outputs = params.outputs[0] * params.outputs[1] * params.outputs[2];
    const int64_t end = slice.begin + slice.count;
    const int64_t tile = params.outputs[kFilterAxes - 1], step = line_step(image, tile);
    const auto write = [&](int64_t t, int64_t m, const RunOffsets& runs) {
        float* to[kFilterPlanes];
        bool later = false;
        for (int64_t i = 0; i < outputs; ++i) {
            if (runs.at[i] == kAbsent) {
                to[i] = scratch.trash;
            } else if (image.type == ElementType::f32 && runs.has(i, params.outputs, slice.begin, end)) {
                to[i] = reinterpret_cast<float*>(dst + runs.at[i]) + slice.begin;
            } else {
                to[i] = scratch.wide + i * kFilterChunk;
                later = true;
            }
        }
        char* moved = dst;
        for (const int64_t stop = t + m; t < stop; ++t, moved += step) {
            // Fetches the lines of the results, for which stores would wait one after the other.
            for (int64_t i = 0; t + 1 < stop && !later && i < outputs; ++i) {
                const char* next = reinterpret_cast<const char*>(to[i]) + step;
                for (int64_t c = 0; c < slice.count * image.item; c += 64) __builtin_prefetch(next + c, 1);
            }
            transform(scratch.result + t * kFilterChunk + slice.column, result_stride(params), slice.count, slice.bias,
                      to);
            for (int64_t i = 0; scratch.epilogue != nullptr && i < outputs; ++i) {
                if (runs.at[i] == kAbsent) continue;
                const int64_t k = runs.inside ? 0 : i % params.outputs[2];
                const int64_t from = larger(slice.begin, runs.low[k]), until = smaller(end, runs.high[k]);
                scratch.epilogue->add(to[i] + from - slice.begin, moved + runs.at[i] + from * image.item, from,
                                      until - from);
            }
            // the results of the next tile take the same scratch memory
            if (scratch.epilogue != nullptr && later) scratch.epilogue->flush();
            for (int64_t i = 0; i < outputs; ++i) {
                if (!later) {
                    to[i] += step / static_cast<int64_t>(sizeof(float));
                } else if (to[i] == scratch.wide + i * kFilterChunk) {
                    const int64_t k = i % params.outputs[2];
                    const int64_t from = larger(slice.begin, runs.low[k]), until = smaller(end, runs.high[k]);
                    char* at = moved + runs.at[i] + from * image.item;
                    narrow(image.type, to[i] + from - slice.begin, until - from, at);
                }
            }
        }
    };
    for_each_line(group.tiles, group.base, params.outputs, first, count, [&](int64_t t, int64_t n, const TilePlace& p) {
        for_each_runs(image, p, slice.run, params.outputs, tile, t, n, write);
    });
    if (scratch.epilogue != nullptr) scratch.epilogue->flush();
}

// Writes whole runs that follow each other in memory from tile to tile, a line of them at once.
void write_lines(const ProductParams& params, const TargetGroup& group, int64_t first, int64_t count,
                 const RunSlice& slice, char* dst, const ProductScratch& scratch) {
    constexpr int last = kFilterAxes - 1;
    const FilterImage& image = params.dst;
    const GatherFn transform = output_transform(params.output_shape);
    const int64_t lines = params.outputs[0] * params.outputs[1], per_line = params.outputs[2];
    const int64_t width = round_up(image.run, kLanes);
    const bool vast = is_vast(params);
    // Whole vectors are stored in rising order: the next one overwrites the lanes beyond a run.
    const bool straight = width == image.run || lines * per_line == 1;
    for_each_line(group.tiles, group.base, params.outputs, first, count, [&](int64_t t, int64_t n, const TilePlace& p) {
        const int64_t stride = n * per_line * image.run + kLanes, step = per_line * image.run * image.item;
        const Axes& begin = image.first[slice.run * image.fold];
        const int64_t start = image.step[last] * p.at[last] + begin[last];
        const int64_t low = larger(0, -start), high = smaller(n * per_line * image.fold, image.size[last] - start);
        char* there[kFilterPlanes];
        for (int64_t l = 0; l < lines; ++l) {
            const int64_t at0 = image.step[0] * (p.at[0] + l / params.outputs[1]) + begin[0];
            const int64_t at1 = image.step[1] * (p.at[1] + l % params.outputs[1]) + begin[1];
            const bool absent = at0 < 0 || at0 >= image.size[0] || at1 < 0 || at1 >= image.size[1];
            const int64_t offset = p.image * image.batch_stride + at0 * image.strides[0] + at1 * image.strides[1];
            there[l] = absent ? nullptr : dst + (offset + start * image.channels) * image.item;
        }
        float* to[kFilterPlanes];
        for (int64_t i = 0; i < n; ++i) {
            for (int64_t l = 0; l < lines; ++l) {
                for (int64_t k = 0; k < per_line; ++k) {
                    to[l * per_line + k] = straight ? scratch.lines + l * stride + (i * per_line + k) * image.run
                                                    : scratch.wide + (l * per_line + k) * kFilterChunk;
                }
                for (int64_t c = 0; !vast && there[l] != nullptr && c < step; c += 64) {
                    __builtin_prefetch(there[l] + i * step + c, 1);
                }
            }
            transform(scratch.result + (t + i) * kFilterChunk + slice.column, result_stride(params), width, slice.bias,
                      to);
            for (int64_t l = 0; !straight && l < lines; ++l) {
                float* line = scratch.lines + l * stride + i * per_line * image.run;
                for (int64_t k = 0; k < per_line; ++k, line += image.run) {
                    const float* from = to[l * per_line + k];
                    for (int64_t c = 0; c < width; c += kLanes) {
                        *reinterpret_cast<LanesAt*>(line + c) = *reinterpret_cast<const LanesAt*>(from + c);
                    }
                }
            }
        }
        for (int64_t l = 0; l < lines && low < high; ++l) {
            if (there[l] == nullptr) continue;
            float* from = scratch.lines + l * stride + low * image.channels;
            const int64_t length = (high - low) * image.channels;
            char* at = there[l] + low * image.channels * image.item;
            if (scratch.epilogue != nullptr) {
                scratch.epilogue->add(from, at, 0, length);
                scratch.epilogue->flush();
            }
            if (vast)
                stream(from, length, reinterpret_cast<float*>(at));
            else
                narrow(image.type, from, length, at);
        }
    });
    if (vast) _mm_sfence();
}

// Transforms a chunk of columns back and writes it, from column `column` on.
void write_chunk(const ProductParams& params, const FilterImage& image, const TargetGroup& group, int64_t first,
                 int64_t count, int64_t column, const float* bias, char* dst, const ProductScratch& scratch) {
    const int64_t end = smaller(column + kFilterChunk, group_columns(params, group));
    for_each_slice(image, group, column, end, bias, [&](const RunSlice& slice) {
        if (image.gapless && slice.count == image.run && slice.count < kLineRun) {
            write_lines(params, group, first, count, slice, dst, scratch);
        } else {
            write_slice(params, image, group, first, count, slice, dst, scratch);
        }
    });
}

void run_task(const ProductParams& params, int64_t task, const char* src, const char* packed, const float* bias,
              char* dst, const ProductScratch& scratch) {
    const TaskBlock at(params, task, params.unit);
    const TargetGroup* group = at.group;
    const int64_t first = at.first, count = at.count, part = at.part;
    packed += group->packed * packed_item(params);
    const auto* panels = reinterpret_cast<const float*>(packed);
    const int64_t all = group_columns(params, *group);
    const int64_t chunks = ceil_div(all, kFilterChunk);
    const FilterImage image = group->folded ? params.dst : unfolded(params.dst);
    if (params.strips) {
        StripWriter writer{params, image, *group, src, dst, panels, bias, scratch};
        writer.write(first, count);
        return;
    }
    if (in_place(params))
        find_block(params, *group, first, count, src, scratch);
    else
        transform_block(params, *group, first, count, Part{0, 1}, src, scratch);
    const bool staged = is_staged(params, image, *group);
    if (staged || direct(params, image, *group)) {
        const int64_t all_panels = ceil_div(all, kPanel), stop = all_panels * (part + 1) / group->parts * kPanel;
        const auto write = staged ? &write_staged : &write_products;
        write(params, image, *group, first, count, all_panels * part / group->parts * kPanel, smaller(stop, all),
              panels, bias, dst, scratch);
        return;
    }
    for (int64_t chunk = chunks * part / group->parts; chunk < chunks * (part + 1) / group->parts; ++chunk) {
        const int64_t column = chunk * kFilterChunk, end = smaller(column + kFilterChunk, all);
        multiply(params, *group, {0, params.planes}, column, end - column, count, packed, scratch);
        write_chunk(params, image, *group, first, count, column, bias, dst, scratch);
    }
}

// The transformed windows of all tiles of a group, and its products by chunk of columns, in memory that threads share.
struct SharedTiles {
    float *left, *result;
    int64_t bytes;

    SharedTiles(const ProductParams& params, char* memory) {
        int64_t chunks = 0;
        for (int64_t g = 0; g < params.group_count; ++g) {
            chunks = larger(chunks, ceil_div(group_columns(params, params.groups[g]), kFilterChunk));
        }
        ScratchCarver carver(memory);
        left = carver.take(params.shared > 0 ? left_floats(params) : 0);
        result = carver.take(params.shared > 0 ? chunks * chunk_floats(params) + kLanes : 0);
        bytes = carver.bytes;
    }

    static int64_t chunk_floats(const ProductParams& params) { return params.planes * result_stride(params); }

    // Returns a thread's scratch with tiles from `first` on and the chunk of a column in place of its own.
    ProductScratch at(const ProductParams& params, int64_t first, int64_t column, ProductScratch scratch) const {
        const int64_t row_bytes = left_stride(params) * packed_item(params);
        scratch.left = reinterpret_cast<float*>(reinterpret_cast<char*>(left) + first * row_bytes);
        scratch.result = result + column / kFilterChunk * chunk_floats(params) + first * kFilterChunk;
        return scratch;
    }
};

// The loops of a thread of run_products: those of a group's first two stages, those of its last.
struct StageLoops {
    Loops first, last;
};

// Computes a group in three stages, each shared out by tasks of its kind: all threads of a team call it.
void run_stages(const ProductParams& params, const TargetGroup& group, const char* src, const char* packed,
                const float* bias, char* dst, const SharedTiles& shared, const ProductScratch& scratch,
                StageLoops& loops) {
    const int64_t tiles = params.batch * group.tiles[0] * group.tiles[1] * group.tiles[2];
    const int64_t columns = group_columns(params, group), chunks = ceil_div(columns, kFilterChunk);
    const int64_t rows = params.unit, units = ceil_div(tiles, rows);
    const int64_t panel = params.dot == nullptr ? kPanel : kDotColumns, panels = ceil_div(columns, panel);
    const FilterImage image = group.folded ? params.dst : unfolded(params.dst);
    packed += group.packed * packed_item(params);
    loops.first.run(group.window_blocks * group.window_parts, [&](int64_t task) {
        const Part block{task / group.window_parts, group.window_blocks};
        const Part part{task % group.window_parts, group.window_parts};
        const int64_t first = block.begin(tiles), count = block.end(tiles) - first;
        transform_block(params, group, first, count, part, src, shared.at(params, first, 0, scratch));
    });
    dgo_team_barrier();
    loops.first.run(params.planes * group.blocks * group.parts, [&](int64_t task) {
        const Part part{task % group.parts, group.parts}, block{task / group.parts % group.blocks, group.blocks};
        const int64_t plane = task / group.parts / group.blocks, first = block.begin(units) * rows;
        const int64_t count = smaller(block.end(units) * rows, tiles) - first;
        const int64_t end = smaller(part.end(panels) * panel, columns);
        for (int64_t column = part.begin(panels) * panel, stop; column < end; column = stop) {
            stop = smaller((column / kFilterChunk + 1) * kFilterChunk, end);
            ProductScratch of = shared.at(params, first, column, scratch);
            of.result += column % kFilterChunk;
            multiply(params, group, {plane, plane + 1}, column, stop - column, count, packed, of);
        }
    });
    dgo_team_barrier();
    loops.last.run(group.result_blocks * chunks, [&](int64_t task) {
        const Part block{task / chunks, group.result_blocks};
        const int64_t first = block.begin(tiles), count = block.end(tiles) - first;
        const int64_t column = task % chunks * kFilterChunk;
        write_chunk(params, image, group, first, count, column, bias, dst, shared.at(params, first, column, scratch));
    });
}

int64_t products_scratch(const ProductParams& params) { return divide(params, nullptr).bytes; }

int64_t products_shared(const ProductParams& params) { return SharedTiles(params, nullptr).bytes; }

void run_products(const ProductParams& params, const ProductCall& call, char* memory, char* dst) {
    const char *src = call.src, *packed = call.packed;
    const SharedTiles shared(params, memory);
    memory += shared.bytes;
    Turns first_stages, last_stage, whole_tasks;
    run_team(params.threads, [&](int rank, int size) {
        const DotThread thread(params.dot);
        ProductScratch scratch = divide(params, memory + rank * params.scratch_per_thread);
        EpilogueRows rows(call.epilogue, dst, params.dst.item, params.dst.channels);
        if (call.epilogue.params != nullptr) scratch.epilogue = &rows;
        const int64_t nbytes = params.batch * params.dst.batch_stride * params.dst.item;
        const Beside beside(call.epilogue, dst, params.dst.type == ElementType::f32 && nbytes > kReachedBytes);
        scratch.beside = &beside;
        const int64_t zeros = larger(params.src.run, kFilterChunk) + kLanes;
        const int64_t outputs = params.channel_groups * params.dst.run + kLanes;
        __builtin_memset(scratch.zeros, 0, static_cast<size_t>(zeros) * sizeof(float));
        // Transforms store whole vectors; the other elements of a step are read as well, and must be finite.
        constexpr int64_t kFewestLanes = 8;
        const int64_t channels = params.src.channels;
        if (params.dot != nullptr && round_up(channels, params.dot->step) > round_up(channels, kFewestLanes)) {
            __builtin_memset(scratch.left, 0, static_cast<size_t>(left_floats(params)) * sizeof(float));
        }
        __builtin_memset(scratch.bias, 0, static_cast<size_t>(outputs) * sizeof(float));
        widen_bias(params, call.bias, scratch.bias);
        StageLoops loops{{first_stages, size}, {last_stage, size}};
        for (int64_t g = 0; params.shared > 0 && g < params.group_count; ++g) {
            run_stages(params, params.groups[g], src, packed, scratch.bias, dst, shared, scratch, loops);
        }
        Loops(whole_tasks, size).run(params.tasks * params.channel_groups, [&](int64_t task) {
            const int64_t g = task / params.tasks;
            rows.first_channel = g * params.dst.channels;
            run_task(params, task % params.tasks, src + g * params.src.channels * params.src.item,
                     packed + g * params.packed * packed_item(params), scratch.bias + g * params.dst.run,
                     dst + g * params.dst.channels * params.dst.item, scratch);
        });
    });
}

}  // namespace

const ProductCode kFloatProducts = {products_scratch, products_shared, run_products};

}  // namespace dgo::DGO_ISA
