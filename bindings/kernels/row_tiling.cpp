// Rows of consecutive layers in bands: a few rows of the last layer, and those of each earlier layer that they depend on.
// Results between layers stay in a thread's scratch, in near caches.
#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "common/error.hpp"
#include "kernels/checked.hpp"
#include "kernels/declaration.hpp"
#include "kernels/parallel.hpp"

namespace dgo {
namespace {

constexpr int64_t kMostRows = int64_t{1} << 24;
constexpr int64_t kScratchAlignment = 64;

// How the rows of a layer's target depend on those of its source; nbytes: of a row of the target.
struct LayerRows {
    int64_t target, source, stride, reach, padding, nbytes;

    // The rows of the source that neighbouring rows of the target depend on, padding included.
    int64_t inner(int64_t count) const { return (count - 1) * stride + reach; }
};

// Rows of a layer's target: how many, of how many rows of the source, and rows of padding before the source.
struct Part {
    size_t layer;
    int64_t rows, seen, padding;

    Dims numbers() const { return {static_cast<int64_t>(layer), rows, seen, padding}; }
};

// A part with its first row of the target and of the source, and the first rows that the band holds of both.
// moved: a part is no computation, but moves `rows` rows of the target in scratch, from row `first` to row `source`.
struct BandStep {
    Part part;
    int64_t first, source, held_target, held_source;
    bool moved = false;
};

class RowBands {
public:
    static constexpr const char* kClass = "RowBands";
    using Numbers = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, int64_t>;

    RowBands(const std::vector<Numbers>& rows, int64_t images, int threads, int64_t near)
        : images_(images), threads_(threads) {
        for (const auto& [target, source, stride, reach, padding, nbytes] : rows) {
            for (const int64_t number : {target, source, stride, reach}) {
                check_number(kClass, "rows", number, 0, kMostRows);
            }
            check_number(kClass, "padding", padding, -kMostRows, kMostRows);
            check_number(kClass, "the bytes of a row", nbytes, 0, kMostElements);
            chain_.push_back({target, source, std::max<int64_t>(stride, 1), reach, padding, nbytes});
        }
        check_number(kClass, "layers", static_cast<int64_t>(chain_.size()), 1, INT16_MAX);
        check_number(kClass, "images", images, 0, kMostRows);
        check_number(kClass, "threads", threads, 1, INT16_MAX);
        check_number(kClass, "bytes of the near caches", near, 0, kMostElements);
        count_ = rows_of_a_band(near);
        starts_.push_back(0);
        for (const int64_t bytes : bytes_between(std::max<int64_t>(count_, 1))) {
            starts_.push_back(starts_.back() + (bytes + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment);
        }
        if (count_) tasks_ = std::min(threads / std::gcd(images, int64_t{threads}), bands());
    }

    int64_t count() const { return count_; }
    int64_t tasks() const { return tasks_; }
    int64_t images() const { return images_; }
    int threads() const { return threads_; }
    const Dims& starts() const { return starts_; }
    const LayerRows& layer(size_t number) const { return chain_[number]; }

    // The steps of a task on an image, band by band. Rows that the band before has computed are not computed again.
    std::vector<BandStep> steps(int64_t task) const {
        const int64_t rows = chain_.back().target;
        const int64_t stop = rows * (task + 1) / tasks_;
        std::vector<BandStep> all, band, moves;
        // of each target, the first row that the band has, and where its rows end
        Dims begins(chain_.size()), ends(chain_.size());
        for (int64_t row = rows * task / tasks_; row < stop; row += count_) {
            int64_t begin = row, end = std::min(row + count_, stop);
            begins.back() = begin;
            band.clear();  // the last step first
            moves.clear();
            for (size_t i = chain_.size(); i-- > 0 && begin < end;) {
                const LayerRows& layer = chain_[i];
                const int64_t first = begin * layer.stride - layer.padding, source = std::max<int64_t>(first, 0);
                const int64_t after = std::min((end - 1) * layer.stride - layer.padding + layer.reach, layer.source);
                const Part part{i, end - begin, std::max<int64_t>(after - source, 0), std::max<int64_t>(-first, 0)};
                band.push_back({part, begin, source, 0, 0});
                band.insert(band.end(), moves.rbegin(), moves.rend());
                moves.clear();
                if (i == 0) break;
                const int64_t before = std::exchange(begins[i - 1], source);
                const int64_t known = std::exchange(ends[i - 1], after);
                const int64_t shift = source - before;
                for (int64_t kept = source; shift > 0 && kept < known; kept += shift) {
                    const Part moved{i - 1, std::min(shift, known - kept), 0, 0};
                    moves.push_back({moved, kept - before, kept - before - shift, 0, 0, true});
                }
                begin = std::max(source, known);
                end = after;
            }
            band.insert(band.end(), moves.rbegin(), moves.rend());
            for (auto step = band.rbegin(); step != band.rend(); ++step) {
                step->held_target = begins[step->part.layer];
                step->held_source = step->part.layer ? begins[step->part.layer - 1] : 0;
                all.push_back(*step);
            }
        }
        return all;
    }

    // The parts that differ, in the order of their first use.
    std::vector<Dims> parts() const {
        std::vector<Dims> all;
        std::set<Dims> known;
        for (int64_t task = 0; task < tasks_; ++task) {
            for (const BandStep& step : steps(task)) {
                Dims numbers = step.part.numbers();
                if (!step.moved && known.insert(numbers).second) all.push_back(std::move(numbers));
            }
        }
        return all;
    }

private:
    int64_t bands() const { return (chain_.back().target + count_ - 1) / count_; }

    // Of each result between layers, the bytes that `count` rows of the last result depend on.
    Dims bytes_between(int64_t count) const {
        Dims bytes(chain_.size() - 1);
        for (size_t i = bytes.size(); i-- > 0;) {
            count = chain_[i + 1].inner(count);
            check_number(kClass, "rows of a band", count, -kMostRows, int64_t{1} << 31);
            bytes[i] = checked_distance(kClass, count, chain_[i].nbytes);
        }
        return bytes;
    }

    // The most rows of the last result whose band fits `near` bytes, evenly divided; 0 where not even one fits.
    int64_t rows_of_a_band(int64_t near) const {
        const auto total = [&](int64_t count) {
            const Dims bytes = bytes_between(count);
            return std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
        };
        const int64_t rows = chain_.back().target, first = total(1);
        if (first > near || !rows) return 0;
        // each further row adds as many bytes
        const int64_t further = std::max<int64_t>(total(2) - first, 1);
        const int64_t most = std::min(rows, 1 + (near - first) / further), bands = (rows + most - 1) / most;
        return (rows + bands - 1) / bands;
    }

    std::vector<LayerRows> chain_;
    int64_t images_, count_ = 0, tasks_ = 0;
    int threads_;
    Dims starts_;
};

// A run of a kernel, or a move of so many bytes in scratch where there is no kernel: for each operand the number of one
// of the bands' own, and an offset there in bytes.
struct BandCall {
    const Kernel* kernel;
    std::vector<std::pair<int, int64_t>> operands;
    size_t moved = 0;
};

// Calls that one thread runs in order; tasks may run concurrently.
using BandTask = std::vector<BandCall>;

constexpr int kMostOperands = 64;  // operands of a kernel in a list

// An operand of a kernel for a part: its number, from the end if negative, and its offset in bytes, to which each image
// and each row add. Rows are the target's or `of_source`; they count from the first one that the band holds of the
// result between layers of number `held`, or if that is negative from the first one of the image.
using PartOperand = std::tuple<int, int64_t, int64_t, int64_t, bool, int64_t>;
using PartCall = std::pair<std::shared_ptr<Kernel>, std::vector<PartOperand>>;

class RowTilingKernel final : public Kernel {
public:
    RowTilingKernel(const RowBands& bands, const std::vector<std::vector<PartCall>>& calls, int operands,
                    int64_t scratch_bytes)
        : scratch_bytes_(scratch_bytes) {
        name = "row_tiling";
        check_number(name, "operands", operands, 2, INT16_MAX);
        check_number(name, "scratch_bytes", scratch_bytes, bands.starts().back(), INT64_MAX / bands.threads());
        arity = operands;
        const std::vector<Dims> parts = bands.parts();
        if (calls.size() != parts.size()) {
            fail(ErrorKind::invalid_argument,
                 name + ": " + std::to_string(parts.size()) + " parts need calls, got " + std::to_string(calls.size()));
        }
        std::map<Dims, const std::vector<PartCall>*> of_parts;
        for (size_t part = 0; part < parts.size(); ++part) {
            of_parts[parts[part]] = &calls[part];
            for (const auto& [kernel, places] : calls[part]) {
                check(*kernel, places.size());
                kernels_.push_back(kernel);
            }
        }
        for (int64_t image = 0; image < bands.images(); ++image) {
            for (int64_t number = 0; number < bands.tasks(); ++number) {
                BandTask& task = tasks_.emplace_back();
                for (const BandStep& step : bands.steps(number)) {
                    if (step.moved) {
                        task.push_back(move_of(bands, step));
                        continue;
                    }
                    for (const auto& [kernel, places] : *of_parts.at(step.part.numbers())) {
                        task.push_back({kernel.get(), placed(places, image, step)});
                    }
                }
            }
        }
        threads_ = static_cast<int>(std::clamp<int64_t>(static_cast<int64_t>(tasks_.size()), 1, bands.threads()));
    }

    void run(char* const* operands) const override {
        parallel_parts(threads_, static_cast<int64_t>(tasks_.size()), [&](int64_t begin, int64_t end, int rank) {
            char* given[kMostOperands];
            for (; begin < end; ++begin) {
                for (const BandCall& call : tasks_[static_cast<size_t>(begin)]) {
                    for (size_t i = 0; i < call.operands.size(); ++i) {
                        const auto& [number, offset] = call.operands[i];
                        given[i] = operands[number] + offset + (number == scratch() ? scratch_bytes_ * rank : 0);
                    }
                    if (call.kernel) {
                        call.kernel->run(given);
                    } else {
                        std::memcpy(given[0], given[1], call.moved);
                    }
                }
            }
        });
    }

    std::size_t held_bytes() const override {
        std::size_t total = Kernel::held_bytes();
        for (const auto& kernel : kernels_) total += kernel->held_bytes();
        for (const BandTask& task : tasks_) {
            total += sizeof task + task.capacity() * sizeof(BandCall);
            for (const BandCall& call : task) total += call.operands.capacity() * sizeof call.operands[0];
        }
        return total;
    }

private:
    int scratch() const { return arity - 2; }

    void check(const Kernel& kernel, size_t operands) const {
        check_number(name, "operands of a kernel", kernel.arity, 1, kMostOperands);
        if (operands != static_cast<size_t>(kernel.arity)) {
            fail(ErrorKind::invalid_argument, name + ": kernel '" + kernel.name + "' takes " +
                                                  std::to_string(kernel.arity) + " operands, got " +
                                                  std::to_string(operands));
        }
    }

    std::vector<std::pair<int, int64_t>> placed(const std::vector<PartOperand>& operands, int64_t image,
                                                const BandStep& step) const {
        std::vector<std::pair<int, int64_t>> places;
        places.reserve(operands.size());
        for (const auto& [number, start, by_image, by_row, of_source, held] : operands) {
            const int from_begin = number < 0 ? arity + number : number;
            check_number(name, "the number of an operand", from_begin, 0, arity - 1);
            for (const int64_t bytes : {by_image, by_row}) {
                check_number(name, "the bytes of an image or a row", bytes, -kMostElements, kMostElements);
            }
            const int64_t begin = held < 0                                        ? 0
                                  : held == static_cast<int64_t>(step.part.layer) ? step.held_target
                                                                                  : step.held_source;
            const int64_t row = (of_source ? step.source : step.first) - begin;
            check_number(name, "the offset of an operand", start, 0, kMostElements);
            const int64_t offset =
                start + checked_distance(name, row, by_row) + checked_distance(name, image, by_image);
            check_number(name, "the offset of an operand", offset, 0, kMostElements);
            places.emplace_back(from_begin, offset);
        }
        return places;
    }

    BandCall move_of(const RowBands& bands, const BandStep& step) const {
        const int64_t start = bands.starts()[step.part.layer];
        const auto distance = [&](int64_t rows) {
            return checked_distance(name, rows, bands.layer(step.part.layer).nbytes);
        };
        const int64_t from = start + distance(step.first), to = start + distance(step.source);
        return {nullptr, {{scratch(), to}, {scratch(), from}}, static_cast<size_t>(distance(step.part.rows))};
    }

    std::vector<std::shared_ptr<Kernel>> kernels_;
    std::vector<BandTask> tasks_;
    int64_t scratch_bytes_;
    int threads_;
};

Dims flat(const std::vector<Dims>& rows) {
    Dims all;
    for (const Dims& row : rows) all.insert(all.end(), row.begin(), row.end());
    return all;
}

}  // namespace

const Declaration kRowTiling[] = {
    {"RowBands(rows, images, threads, near)",
     object_of<RowBands, std::vector<RowBands::Numbers>, int64_t, int, int64_t>,
     "Divides the rows of a chain of layers into bands, whose results between layers fit `near` bytes. Each layer is "
     "(rows of the target, rows of the source, stride, rows of the source that a row depends on, padding before the "
     "source, bytes of a row of the target)."},
    {"RowBands.count", +[](const RowBands& bands) { return bands.count(); },
     "Rows of a band of the last result; 0 where not even one fits."},
    {"RowBands.tasks", +[](const RowBands& bands) { return bands.tasks(); },
     "Into how many ranges of rows an image is divided, so that all threads have work."},
    {"RowBands.starts", +[](const RowBands& bands) { return bands.starts(); },
     "The byte offsets at which results between layers begin in a thread's scratch, and where they end."},
    {"RowBands.parts", +[](const RowBands& bands) { return flat(bands.parts()); },
     "The parts of layers that differ, in the order of their use, four numbers each: the layer, rows of its target, of "
     "how many rows of the source, rows of padding before the source."},
    {"row_tiling(bands, calls, operands, scratch_bytes)",
     kernel_by<RowTilingKernel, RowBands, std::vector<std::vector<PartCall>>, int, int64_t>, "sources..., scratch, dst",
     "For each of the bands' parts a list of (kernel, its operands), which a thread runs in order, with scratch_bytes "
     "of scratch memory. An operand is (number of one of the `operands` here, from the end if negative; offset in "
     "bytes; "
     "bytes from image to image; from row to row; whether rows are the source's; the layer whose result in scratch it "
     "is, -1 for none)."},
};

}  // namespace dgo
