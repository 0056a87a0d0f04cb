// Dgrad and fprop in the direct form: rows of src by the packed weights of all taps that share them. Rows that
// lie a step apart are read where they are; others are copied. Rows of integers that do not fill whole units are read on
// into what follows them in src, by weights of zero; rows of floats are not, as Inf or NaN may follow.
#pragma once

#include "kernels/coming_weights.hpp"
#include "kernels/team.hpp"
#include "kernels/isa/dot/code.hpp"
#include "kernels/isa/product/planes.hpp"

namespace dgo::DGO_ISA {
namespace {

// kChunk, kPartBytes: columns, and the most bytes of a panel, in one pass. The rows of a block stay in the first cache
// level; the weights, and the rows and sums of a task, in the second, which has 2 MB on CPUs with tiles.
constexpr int64_t kChunk = 256, kPartBytes = 32 * 1024, kPartBytesOfTiles = 96 * 1024;
// The most bytes of a panel whose sums are rounded while the next panel's are multiplied: they stay in the first cache level
// beside the weights, which a chunk of sums does not. Larger panels take longer than a chunk's rounding. Not more than
// kPartBytes, so that such a panel is one part.
constexpr int64_t kRoundedPanelBytes = 24 * 1024;
// Weights of so many bytes are not in the second cache level when the first rows of a net's layer read them.
constexpr int64_t kFarBytes = 96 * 1024;
// Cache lines of the next layer's weights that a product fetches with a unit, and the most bytes.
constexpr int64_t kComingLines = 4, kComingBytes = 512 * 1024;
// Elements from one row of sums to the next: rows 1 KB apart would share four sets of the first cache level.
constexpr int64_t kSumsPitch = kChunk + 16;

constexpr int64_t kNotCopied = -1;  // the offset of a line that is not copied

// A range of the depth whose weights are not all zero: elements of a run, and where their units begin in a panel.
struct DotSpan {
    int64_t run, begin, depth, panel;
};

// Tiles that follow each other on a line.
struct Piece {
    int64_t t, count;
    TilePlace place;
};

// The products of one thread. Finish gives the values that sums begin with, and makes results of sums; kIntegers: of
// integers, which have no Inf or NaN.
template <class Finish>
class Products {
public:
    using Sum = typename Finish::Sum;

    Products(const ProductParams& params, const ProductCall& call, char* memory, char* dst)
        : finish_(params, call, dst), dot_(*params.dot), params_(params), tile_rows_(params.tile_rows),
          of_tiles_(dot_.unit * dot_.item == 64), part_bytes_(part_bytes()),
          epilogue_(call.epilogue, dst, params.dst.item, params.dst.channels),
          has_epilogue_(call.epilogue.params != nullptr && !finish_.activates()) {
        ScratchCarver carver(memory);
        const int64_t groups = ceil_div(params.block, tile_rows_), runs = params.src.runs;
        zeros_ = carver.take<char>(run_bytes());
        left_ = carver.take<char>(groups * runs * kDotRows * copy_pitch());
        finish_.carve(carver);
        columns_start_ = carver.take<Sum>(kChunk);
        // finishing a row may read a panel beyond its end
        result_ = carver.take<Sum>((parts() > 1 ? params.block : 2 * tile_rows_) * kSumsPitch + kDotColumns);
        panel_sums_ = carver.take<Sum>(2 * kDotBlockRows * kDotColumns + kDotColumns);
        rows_ = carver.take<DotRows>((groups + 1) * runs);
        read_ = carver.take<int32_t>(params.block);
        copied_offsets_ = carver.take<int64_t>(groups * runs);
        copied_positions_ = carver.take<int64_t>(groups * runs);
        targets_ =
            carver.take<DotTarget>(smaller(params.dst.segments, kChunk / params.dst.channels + 2) * params.block);
        spans_ = carver.take<DotSpan>(kChunk / kDotColumns * most_spans());
        span_counts_ = carver.take<int64_t>(kChunk / kDotColumns);
        terms_ = carver.take<DotTerm>(most_spans());
        scratch_bytes = carver.bytes;
    }

    void prepare() {
        finish_.prepare();
        if (params_.threads == 1) coming_ = coming_weights();
        coming_.bytes = smaller(coming_.bytes, kComingBytes);
        __builtin_memset(zeros_, finish_.filling, static_cast<size_t>(run_bytes()));
    }

    void run(int64_t task, const char* src, const char* packed, char* dst) {
        const int64_t g = task / params_.tasks;
        epilogue_.first_channel = g * params_.dst.channels;
        finish_.group = g;
        src += g * params_.src.channels * dot_.item;
        packed += g * params_.packed * dot_.item;
        dst += g * params_.dst.channels * params_.dst.item;
        const TaskBlock at(params_, task % params_.tasks, params_.unit);
        const TargetGroup& group = *at.group;
        const int64_t all = group_columns(params_, group), panels = ceil_div(all, kDotColumns);
        const int64_t begin = panels * at.part / group.parts * kDotColumns;
        const int64_t end = smaller(panels * (at.part + 1) / group.parts * kDotColumns, all);
        find_rows(group, at.first, at.count, src);
        write_columns(group.folded ? params_.dst : unfolded(params_.dst), group, at.first, at.count, begin, end,
                      packed + group.packed * dot_.item, dst);
    }

    int64_t scratch_bytes;

private:
    int64_t unit_count() const { return ceil_div(params_.src.channels, dot_.unit); }
    int64_t panel_bytes() const { return params_.src.segments * unit_count() * unit_bytes(dot_); }
    // Returns the elements of a column in `bytes` bytes of a panel.
    int64_t elements(int64_t bytes) const { return bytes / kDotColumns >> (dot_.item == 2 ? 1 : 0); }
    int64_t parts() const { return ceil_div(panel_bytes(), part_bytes_); }
    // Returns the bytes of a part, of a few whole units: parts are equal but for the last one.
    int64_t part_bytes() const {
        const int64_t all = larger(panel_bytes(), 1), most = of_tiles_ ? kPartBytesOfTiles : kPartBytes;
        return round_up(ceil_div(all, ceil_div(all, most)), unit_bytes(dot_));
    }
    int64_t most_spans() const { return params_.src.segments + parts(); }
    int64_t run_bytes() const { return round_up(params_.src.run, dot_.unit) * dot_.item; }
    // Returns the bytes from one copied row to the next: not a multiple of 4 KB, at which rows would share one set of
    // the cache.
    int64_t copy_pitch() const { return run_bytes() % 1024 == 0 ? run_bytes() + 64 : run_bytes(); }

    // Copies one run of 16 tiles; absent elements, and elements that fill up a step, become the filling.
    void copy_rows(const char* src, const Piece* pieces, int64_t piece_count, int64_t run, char* to,
                   int64_t pitch) const {
        constexpr int last = kFilterAxes - 1;
        const FilterImage& image = params_.src;
        const int64_t item = dot_.item;
        const auto width = static_cast<size_t>(round_up(image.run, dot_.step) * item);
        int64_t done = 0;
        for (const Piece* piece = pieces; piece != pieces + piece_count; ++piece) {
            const LineRun line = line_run(image, piece->place, run);
            int64_t position = line.position;
            const char* data = src + line.offset * item;
            for (int64_t i = 0; i < piece->count; ++i, ++done, position += image.step[last]) {
                char* row = to + done * pitch;
                const int64_t low = larger(0, -position) * image.channels;
                const int64_t high =
                    line.absent ? 0 : smaller(image.fold, image.size[last] - position) * image.channels;
                if (low > 0 || high * item < static_cast<int64_t>(width)) {
                    __builtin_memset(row, finish_.filling, width);
                }
                if (low >= high) continue;
                const char* from = data + (position * image.strides[last] + low) * item;
                __builtin_memcpy(row + low * item, from, static_cast<size_t>((high - low) * item));
            }
        }
        for (; done < tile_rows_; ++done) __builtin_memset(to + done * pitch, finish_.filling, width);
    }

    // Copies one run of 16 tiles of a line as one row of `length` elements, in which they overlap; absent elements, and
    // elements beyond the last run, become the filling.
    void copy_line(const char* src, const LineRun& line, int64_t length, int64_t end, char* to) const {
        const FilterImage& image = params_.src;
        const int64_t item = dot_.item, room = (image.size[kFilterAxes - 1] - line.position) * image.channels;
        const int64_t low = smaller(larger(0, -line.position) * image.channels, end),
                      high = larger(low, smaller(end, room));
        __builtin_memset(to, finish_.filling, static_cast<size_t>(low * item));
        const char* from = src + (line.offset + line.position * image.channels + low) * item;
        __builtin_memcpy(to + low * item, from, static_cast<size_t>((high - low) * item));
        __builtin_memset(to + high * item, finish_.filling, static_cast<size_t>((length - high) * item));
    }

    // Returns the elements of src from those of the first position of a group of channels to the end of the last one's.
    int64_t src_extent() const {
        const FilterImage& image = params_.src;
        int64_t last = (params_.batch - 1) * image.batch_stride;
        for (int a = 0; a < kFilterAxes; ++a) last += (image.size[a] - 1) * image.strides[a];
        return last + image.channels;
    }

    // Returns the rows of a run of the tiles above, one line of results or `back` rows before `rows`, that are the line;
    // null: none.
    const DotRows* copied_line(const LineRun& line, int64_t run, const DotRows* rows, int64_t back) const {
        const int64_t runs = params_.src.runs;
        if (rows - rows_ < back) return nullptr;
        for (int64_t i = rows - rows_ - back + 1, end = i + runs - run - 1; i < end; ++i) {
            if (copied_offsets_[i] == line.offset && copied_positions_[i] == line.position) return rows_ + i;
        }
        return nullptr;
    }

    // Finds the rows of the left factor, those of a tile at a time.
    void find_rows(const TargetGroup& group, int64_t first, int64_t count, const char* src) {
        constexpr int last = kFilterAxes - 1;
        const FilterImage& image = params_.src;
        const int64_t pitch = copy_pitch(), item = dot_.item;
        const int64_t apart = image.step[last] * image.strides[last], read = round_up(image.run, dot_.step);
        const int64_t furthest = Finish::kIntegers ? src_extent() - read - (tile_rows_ - 1) * apart : -1;
        const bool whole = image.run == read;
        // rows a multiple of 1 KB apart share few sets of the cache
        const bool in_lines = image.strides[last] == image.channels && apart <= image.run &&
                              (whole || Finish::kIntegers) && apart * item % 1024 != 0;
        const int64_t back = group.tiles[last] / tile_rows_ * image.runs;
        DotRows* rows = rows_;
        char* left = left_;
        for (int64_t t = 0; t < count; t += tile_rows_) {
            Piece pieces[kDotRows];
            int64_t piece_count = 0;
            for_each_line(group.tiles, group.base, params_.outputs, first + t, smaller(tile_rows_, count - t),
                          [&](int64_t at, int64_t n, const TilePlace& p) { pieces[piece_count++] = {at, n, p}; });
            for (int64_t run = 0; run < image.runs; ++run, ++rows) {
                const LineRun line = line_run(image, pieces[0].place, run);
                const int64_t end = line.position + (tile_rows_ - 1) * image.step[last] + image.fold;
                const bool alone = pieces[0].count == tile_rows_;
                copied_offsets_[rows - rows_] = kNotCopied;
                const int64_t from = line.offset + line.position * image.strides[last];
                if (alone && line.absent) {
                    *rows = {zeros_, 0};
                } else if (alone && line.position >= 0 && end <= image.size[last] && (whole || from <= furthest)) {
                    *rows = {src + from * item, apart * item};
                } else if (const DotRows* copied = alone && in_lines ? copied_line(line, run, rows, back) : nullptr) {
                    *rows = *copied;
                } else if (alone && in_lines) {
                    copied_offsets_[rows - rows_] = line.offset;
                    copied_positions_[rows - rows_] = line.position;
                    const int64_t before = (tile_rows_ - 1) * apart;
                    copy_line(src, line, before + read, before + image.run, left);
                    *rows = {left, apart * item};
                    left += tile_rows_ * pitch;
                } else {
                    copy_rows(src, pieces, piece_count, run, left, pitch);
                    *rows = {left, pitch};
                    left += tile_rows_ * pitch;
                }
            }
        }
    }

    // Lists the spans of the panel at a column of a group, each within one part of the depth; neighbouring spans of a
    // run become one where no unit is filled up.
    int64_t find_spans(const TargetGroup& group, int64_t column, DotSpan* spans) const {
        const int64_t channels = params_.src.channels, fold = params_.src.fold, element = kDotColumns * dot_.item,
                      of_segment = unit_count() * unit_bytes(dot_);
        const int64_t first = column / params_.dst.channels;
        const int64_t last = smaller((column + kDotColumns - 1) / params_.dst.channels, group.target_count - 1);
        int64_t count = 0;
        for (int64_t s = 0; s < params_.src.segments; ++s) {
            bool all = params_.zero != nullptr;
            for (int64_t t = first; all && t <= last; ++t) {
                all = params_.zero[s * params_.dst.segments + group.targets[t]] != 0;
            }
            int64_t panel = s * of_segment;
            for (int64_t done = 0, depth; !all && done < channels; done += depth, panel += depth * element) {
                const int64_t begin = s % fold * channels + done, room = elements(part_bytes_ - panel % part_bytes_);
                depth = smaller(channels - done, room);
                DotSpan* before = spans + count - 1;
                if (count > 0 && before->run == s / fold && before->begin + before->depth == begin &&
                    before->panel + before->depth * element == panel && panel % part_bytes_ != 0) {
                    before->depth += depth;
                } else {
                    spans[count++] = {s / fold, begin, depth, panel};
                }
            }
        }
        return count;
    }

    // Lists the terms of up to 32 rows for the spans of one part of the depth, or of all. below: rows from the first 16
    // to the second 16, or 0 where there are none.
    int64_t find_terms(const DotRows* rows, int64_t below, const DotSpan* spans, int64_t count, int64_t part) {
        int64_t found = 0;
        for (const DotSpan* span = spans; span != spans + count; ++span) {
            if (part >= 0 && span->panel / part_bytes_ != part) continue;
            const DotRows &first = rows[span->run], &second = rows[below + span->run];
            const int64_t begin = span->begin * dot_.item;
            terms_[found++] = {
                {{first.at + begin, first.pitch}, {second.at + begin, second.pitch}}, span->panel, span->depth};
        }
        return found;
    }

    // Returns a panel with what its product fetches: weights ahead of their use if they are far, or else some of the next
    // layer's.
    DotPanel panel_at(const char* at, int64_t terms, bool far) {
        DotPanel panel{at, unit_bytes(dot_) / 2, unit_bytes(dot_)};
        if (!of_tiles_ || terms == 0) return panel;
        const DotTerm& last = terms_[terms - 1];
        if (far) {
            panel.lines = kDotColumns;
            panel.fetched = further(at + terms_[0].panel, kFetchedAhead);
            panel.fetched_unit = panel.unit;
        } else if (coming_.bytes > 0) {
            panel.lines = kComingLines;
            panel.fetched = coming_.at;
            panel.fetched_unit = kComingLines * 64;
            const int64_t units = (last.panel - terms_[0].panel) / panel.unit + ceil_div(last.depth, dot_.unit);
            coming_.at = further(coming_.at, units * panel.fetched_unit);
            coming_.bytes -= units * panel.fetched_unit;
        }
        return panel;
    }

    // Subtracts from the sums of rows [t, end), columns [begin, stop), what zero points of weights add.
    void correct(const TargetGroup& group, int64_t begin, int64_t stop, int64_t t, int64_t end, Sum* result) {
        const int64_t channels = params_.dst.channels;
        for (int64_t column = begin, next; column < stop; column = next) {
            next = smaller((column / channels + 1) * channels, stop);
            if (params_.zero != nullptr) find_read(params_.zero + group.targets[column / channels], t, end);
            finish_.correct(read_ + t, end - t, column % channels, next - column, result + column - begin);
        }
    }

    // read_[i] = the sum of the bytes, less their zero point, that row i has for the segments s whose zero[s * targets] is
    // 0, or for all.
    void find_read(const uint8_t* zero, int64_t t, int64_t end) {
        const FilterImage& image = params_.src;
        // runs without gaps are one segment
        const bool whole = zero == nullptr && finish_.channels() == image.channels;
        const int64_t fold = whole ? 1 : image.fold, count = whole ? image.run : finish_.channels();
        const DotRows* runs = rows_ + t / tile_rows_ * image.runs;
        for (int64_t rows; t < end; t += rows, runs += image.runs) {
            rows = smaller(tile_rows_, end - t);
            typename Finish::Read read;
            int64_t segments = 0;
            for (int64_t s = 0; s < image.runs * fold; ++s) {
                if (zero != nullptr && zero[s * params_.dst.segments] != 0) continue;
                const DotRows& run = runs[s / fold];
                read.add(run.at + s % fold * image.channels, run.pitch, rows, count);
                ++segments;
            }
            read.put(rows, finish_.filling * segments * count, read_ + t);
        }
    }

    // Writes rows [t, end) of columns [begin, stop) from `result` to dst.
    void write_rows(const FilterImage& image, int64_t begin, int64_t stop, int64_t t, int64_t end, Sum* result) {
        const DotTarget* targets = targets_;
        const Finish finish = finish_;  // a copy, which no store changes
        for (int64_t column = begin, next; column < stop; column = next, targets += params_.block) {
            next = smaller((column / image.run + 1) * image.run, stop);
            const int64_t n = column % image.run, until = n + next - column;
            const auto for_each_row = [&](auto visit) __attribute__((always_inline)) {
                visit_targets(targets + t, end - t, n, until, image.item, result + column - begin, kSumsPitch, visit);
            };
            if (has_epilogue_) {
                for_each_row([&](Sum* row, char*, int64_t low, int64_t n) { finish.scale(row, low, n); });
                for_each_row([&](Sum* row, char* to, int64_t low, int64_t n) {
                    epilogue_.add(reinterpret_cast<float*>(row), to, low, n);
                });
                epilogue_.flush();
            }
            if (!finish.round_rows(image.type, result + column - begin, targets + t, end - t, n, until)) continue;
            if (has_epilogue_) {
                for_each_row(
                    [&](const Sum* row, char* to, int64_t, int64_t n) { finish.round(image.type, row, n, to); });
            } else {
                for_each_row([&](Sum* row, char* to, int64_t low, int64_t n) {
                    finish.scale_and_round(image.type, row, to, low, n);
                });
            }
        }
    }

    // Computes columns [begin, end) of a block of tiles.
    void write_columns(const FilterImage& image, const TargetGroup& group, int64_t first, int64_t count, int64_t begin,
                       int64_t end, const char* packed, char* dst) {
        const int64_t bytes = panel_bytes(), runs = params_.src.runs, most = most_spans();
        // the rows of one block read each weight once: in order
        const int64_t part_count = count > 2 * tile_rows_ ? parts() : 1;
        const bool far = first == 0 && ceil_div(end - begin, kDotColumns) * bytes >= kFarBytes;
        // without zeros all panels have the same spans
        const bool alike = params_.zero == nullptr;
        const bool by_panels = bytes <= kRoundedPanelBytes && finish_.rounds_panels(image.type) && !has_epilogue_ &&
                               (image.run % kDotColumns == 0 || end <= image.run);
        if constexpr (Finish::kIntegers) {
            if (alike && finish_.corrects()) find_read(nullptr, 0, count);
        }
        for (int64_t column = begin, stop; column < end; column = stop) {
            stop = smaller(column + kChunk, end);
            const int64_t base = column / image.run;
            for (int64_t run = base; run * image.run < stop; ++run) {
                find_targets(params_, image, group, first, count, group.targets[run * image.fold] / image.fold, dst,
                             targets_ + (run - base) * params_.block);
            }
            finish_.start(group, image, column, round_up(stop - column, kDotColumns), columns_start_);
            for (int64_t c = column; c < (alike ? column + 1 : stop); c += kDotColumns) {
                const int64_t panel = (c - column) / kDotColumns;
                span_counts_[panel] = find_spans(group, c, spans_ + panel * most);
            }
            for (int64_t part = 0; part < part_count; ++part) {
                for (int64_t t = 0; t < count; t += 2 * tile_rows_) {
                    const DotRows* rows = rows_ + t / tile_rows_ * runs;
                    const int64_t rows_end = smaller(t + 2 * tile_rows_, count);
                    Sum* result = result_ + (part_count > 1 ? t * kSumsPitch : 0);
                    int64_t terms = 0, written = column, n = column % image.run;
                    const DotTarget* targets = targets_;
                    const auto panel_sums = [&](int64_t c) {
                        return panel_sums_ + c / kDotColumns % 2 * kDotBlockRows * kDotColumns;
                    };
                    const auto write_panel = [&]() __attribute__((always_inline)) {
                        const int64_t until = n + smaller(kDotColumns, stop - written);
                        finish_.round_panel(panel_sums(written), targets + t, rows_end - t, n, until);
                        written += kDotColumns;
                        n = until;
                        if (n == image.run) n = 0, targets += params_.block;
                    };
                    for (int64_t c = column; c < stop; c += kDotColumns) {
                        const int64_t panel = alike ? 0 : (c - column) / kDotColumns;
                        if (c == column || !alike) {
                            const int64_t below = rows_end - t > tile_rows_ ? runs : 0;
                            terms = find_terms(rows, below, spans_ + panel * most, span_counts_[panel],
                                               part_count > 1 ? part : -1);
                        }
                        if (part > 0 && terms == 0) continue;
                        Sum* to = by_panels ? panel_sums(c) : result + c - column;
                        const Sum* start = part == 0 ? columns_start_ + c - column : to;
                        const int64_t pitch = by_panels ? kDotColumns : kSumsPitch;
                        dot_.product(terms_, terms, panel_at(packed + c / kDotColumns * bytes, terms, far && t == 0),
                                     {start, part == 0 ? 0 : kSumsPitch, to, pitch, tile_rows_}, rows_end - t,
                                     stop - c);
                        // the panel before: these sums may not be complete yet
                        if (by_panels && c > column) write_panel();
                    }
                    if (by_panels) write_panel();
                    if (by_panels || part < part_count - 1) continue;
                    if constexpr (Finish::kIntegers) {
                        if (finish_.corrects()) correct(group, column, stop, t, rows_end, result);
                    }
                    write_rows(image, column, stop, t, rows_end, result);
                }
            }
        }
    }

    Finish finish_;
    const Dot& dot_;
    const ProductParams& params_;
    const int64_t tile_rows_;
    const bool of_tiles_;
    const int64_t part_bytes_;
    ComingWeights coming_;
    EpilogueRows epilogue_;
    const bool has_epilogue_;
    char *zeros_, *left_;
    Sum *columns_start_, *result_;
    Sum* panel_sums_;  // [row][column of a panel]
    DotRows* rows_;  // [tile_rows_ tiles][run]
    int32_t* read_;  // [row]
    // [tile_rows_ tiles][run]: where lines begin that copy_line has copied. Apart, as both fields at once would be loaded
    // only when all of the line's bytes are stored.
    int64_t *copied_offsets_, *copied_positions_;
    DotTarget* targets_;  // [run of a chunk][tile]
    DotSpan* spans_;  // [panel of a chunk][span]
    int64_t* span_counts_;
    DotTerm* terms_;
};

template <class Worker>
int64_t products_scratch_of(const ProductParams& params) {
    return Worker(params, {}, nullptr, nullptr).scratch_bytes;
}

template <class Worker>
void run_products_of(const ProductParams& params, const ProductCall& call, char* memory, char* dst) {
    Turns turns;
    run_team(params.threads, [&](int rank, int size) {
        Worker products(params, call, memory + rank * params.scratch_per_thread, dst);
        products.prepare();
        const DotThread thread(params.dot, params.tile_rows);
        Loops(turns, size).run(params.tasks * params.channel_groups, [&](int64_t task) {
            products.run(task, call.src, call.packed, dst);
        });
    });
}

// Worker: the products of one thread, an instance of `Products`.
template <class Worker>
constexpr ProductCode kProductsOf = {products_scratch_of<Worker>, nullptr, run_products_of<Worker>};

}  // namespace
}  // namespace dgo::DGO_ISA
