#include "kernels/elementwise/vtable.hpp"

#include "kernels/isa/vector/convert.hpp"
#include "kernels/isa/elementwise/affine.hpp"
#include "kernels/isa/elementwise/lookup.hpp"
#include "kernels/isa/elementwise/requantize.hpp"
#include "kernels/isa/vector/quotient.hpp"
#include "kernels/isa/table.hpp"
#include "kernels/isa/epilogue/execute.hpp"
#include "kernels/isa/vector/functions.hpp"

namespace dgo::DGO_ISA {
namespace {

constexpr int64_t kMostRows = 32, kMostFloats = 1024;  // rows and floats that are computed together

// Returns integers of 8 bits as floats.
template <class C>
struct Whole {
    using T = typename C::T;
    static constexpr bool kSigned = kSame<C, S8>;
    static constexpr float kLow = kSigned ? -128 : 0, kHigh = kSigned ? 127 : 255;
    static DGO_INLINE float get(const T* at) { return static_cast<float>(C::get(at)); }
    // A NaN becomes the lowest.
    static DGO_INLINE void put(T* at, float v) {
        const float bounded = v > kLow ? (v < kHigh ? v : kHigh) : kLow;
        C::put(at, _mm_cvtss_si32(_mm_set_ss(bounded)));
    }
};

// y = (x * alpha[0] + beta[0]) * alpha[1] + beta[1], rounded after each operation, as a Dequantize does it.
struct Affine {
    float alpha[2], beta[2];

    template <class V>
    DGO_INLINE V of(V x) const {
        return (x * alpha[0] + beta[0]) * alpha[1] + beta[1];
    }
};

template <class W>
void widen_whole(const char* from, int64_t count, const Affine& affine, float* to) {
    const auto* at = reinterpret_cast<const typename W::T*>(from);
    int64_t c = 0;
    for (; c + kLanes <= count; c += kLanes) {
        auto v = bits<Vec<kLanes>::s32>(load_words<1, kLanes>(at + c));
        if constexpr (W::kSigned) v = (v << 24) >> 24;
        store_bytes(to + c, affine.of(__builtin_convertvector(v, Lanes)));
    }
    for (; c < count; ++c) to[c] = affine.of(W::get(at + c));
}

// y = round(x / scale) + zero: a Quantize before its bounds.
float rounded_quotient(float x, const Quotient& by) { return __builtin_rintf(x / by.scale) + by.zero; }

// Nothing past the last float is read.
void narrow_whole(const float* from, int64_t count, const Quotient& quotient, bool signs, char* to) {
    store_quotients<false, false>(quotient, signs, count, to,
                                  [=](int64_t c, int64_t left)
                                      __attribute__((always_inline)) { return load_first(from + c, left); });
}

template <class Elements>
DGO_INLINE void by_type(ElementType type, Elements&& run) {
    if (type == ElementType::u8) return run(Whole<U8>{});
    if (type == ElementType::s8) return run(Whole<S8>{});
    with_type(type, run);
}

bool is_whole(const ElementwiseSide& side) { return is_byte(side.type); }

// An operand, and the affine function that its integers pass through as they become floats.
struct Side : ElementwiseSide {
    Affine affine;

    // Whether a row's integers follow each other, and become (x - zero) * scale.
    bool dequantizes() const {
        const bool once = affine.alpha[0] == 1 || (affine.alpha[1] == 1 && affine.beta[0] == 0);
        return is_whole(*this) && column == 1 && once && affine.beta[1] == 0;
    }

    Dequantized dequantized(int64_t offset) const {
        return {at + offset, type == ElementType::s8, -affine.beta[0], affine.alpha[0] * affine.alpha[1]};
    }

    Side alone() const {
        Side one = *this;
        one.row = 0;
        one.column = 1;
        return one;
    }
};

int64_t item_of(const ElementwiseSide& side) { return is_whole(side) ? 1 : side.type == ElementType::f32 ? 4 : 2; }

void fetch(const Side& side, int64_t offset, int64_t count, float* to) {
    const char* const at = side.at + offset * item_of(side);
    if (side.column == 1 && is_whole(side)) {
        return side.type == ElementType::u8 ? widen_whole<Whole<U8>>(at, count, side.affine, to)
                                            : widen_whole<Whole<S8>>(at, count, side.affine, to);
    }
    if (side.column == 1) return widen(side.type, at, count, to);
    by_type(side.type, [&](auto tag) {
        using C = decltype(tag);
        const auto* from = reinterpret_cast<const typename C::T*>(at);
        for (int64_t i = 0; i < count; ++i, from += side.column) to[i] = C::get(from);
    });
    if (!is_whole(side)) return;
    for (int64_t i = 0; i < count; ++i) to[i] = side.affine.of(to[i]);
}

void put(const ElementwiseSide& side, int64_t offset, int64_t count, bool vast, const Quotient& quotient,
         const float* from) {
    char* const at = side.at + offset * item_of(side);
    if (side.column == 1 && vast) return stream(from, count, reinterpret_cast<float*>(at));
    if (side.column == 1 && is_whole(side)) {
        return narrow_whole(from, count, quotient, side.type == ElementType::s8, at);
    }
    if (side.column == 1) return narrow(side.type, from, count, at);
    by_type(side.type, [&](auto tag) {
        using C = decltype(tag);
        auto* to = reinterpret_cast<typename C::T*>(at);
        const bool whole = is_whole(side);
        for (int64_t i = 0; i < count; ++i, to += side.column)
            C::put(to, whole ? rounded_quotient(from[i], quotient) : from[i]);
    });
}

float* whole_vector(const Side& side, int64_t offset, float* to) {
    float value;
    fetch(side.alone(), offset, 1, &value);
    store_bytes(to, value - Lanes{});
    return to;
}

// An operand of a block, and the values of a part of it: in the operand's memory or in scratch memory.
struct Operand {
    Side side;
    float* values;
    const float* rows[kMostRows];
    EpilogueSource source;
    bool settled;  // every part of the block has the same values

    bool direct() const { return side.column == 1 && side.type == ElementType::f32; }
};

// to = elements [begin, begin + count) of joined rows; `begin` is the begin of a row.
void fetch_joined(const Side& side, int64_t columns, int64_t begin, int64_t count, float* to) {
    int64_t offset = begin / columns * side.row;
    for (const float* const end = to + count; to < end; to += columns, offset += side.row) {
        const int64_t some = smaller(columns, end - to);
        if (side.column != 0) {
            fetch(side, offset, some, to);
        } else {
            float value;
            fetch(side.alone(), offset, 1, &value);
            for (int64_t i = 0; i < some; ++i) to[i] = value;
        }
    }
}

// A part of a block: `rows` by `columns`, or one row of joined rows.
struct Part {
    int64_t row, rows, column, columns;

    int64_t pitch() const { return round_up(columns, kLanes); }
};

void settle(const ElementwiseBlock& block, Operand& operand, int64_t most) {
    const Side& side = operand.side;
    operand.source = {operand.rows, 0, 1};
    if (side.row == 0 && side.column == 0) {
        operand.rows[0] = whole_vector(side, 0, operand.values);
        operand.source.lane_step = 0;
        operand.settled = true;
    } else if (block.joined && side.row == 0) {
        fetch_joined(side, block.columns, 0, smaller(most, block.rows * block.columns), operand.values);
        operand.rows[0] = operand.values;
        operand.settled = true;
    }
}

void load(const ElementwiseBlock& block, Operand& operand, const Part& part) {
    const Side& side = operand.side;
    if (operand.settled || (side.row == 0 && part.row > 0)) return;
    if (block.joined) {
        const bool whole = side.column == 1 && side.row == block.columns;
        operand.rows[0] = operand.values;
        if (whole && side.type == ElementType::f32) {
            operand.rows[0] = reinterpret_cast<const float*>(side.at) + part.column;
        } else if (whole) {
            fetch(side, part.column, part.columns, operand.values);
        } else {
            fetch_joined(side, block.columns, part.column, part.columns, operand.values);
        }
        return;
    }
    const int64_t rows = side.row == 0 ? 1 : part.rows;
    operand.source = {operand.rows, side.row == 0 ? 0 : 1, side.column == 0 ? 0 : 1};
    for (int64_t r = 0; r < rows; ++r) {
        const int64_t offset = (part.row + r) * side.row + part.column * side.column;
        if (operand.direct()) {
            operand.rows[r] = reinterpret_cast<const float*>(side.at) + offset;
        } else if (side.column == 0) {
            operand.rows[r] = whole_vector(side, offset, operand.values + r * kLanes);
        } else {
            float* const values = operand.values + r * part.pitch();
            fetch(side, offset, part.columns, values);
            operand.rows[r] = values;
        }
    }
}

bool written_directly(const ElementwiseBlock& block) {
    return block.dst.column == 1 && block.dst.type == ElementType::f32 && !block.vast;
}

// Whether a single step reads its operands and writes dst in place: no scratch memory bounds the size of a part.
bool in_place(const ElementwiseBlock& block) {
    bool all = !block.joined && block.count == 1 && written_directly(block);
    for (int64_t i = 0; i < block.operand_count; ++i) {
        const ElementwiseSide& side = block.operands[i];
        all = all && (side.column == 0 || (side.column == 1 && side.type == ElementType::f32));
    }
    return all;
}

constexpr int64_t kMostSteps = 64;
constexpr float kMostShift = 256;  // the largest zero point of quotients, see quotient_by

// The steps of a block without the Dequantize and Quantize steps that loads and stores of integers do.
struct Folded {
    EpilogueStep kept[kMostSteps];
    const EpilogueStep* steps;
    int64_t count;
    int64_t result;  // the number of what is written
    Quotient quotient;

    // Whether the remaining steps only requantize an operand, or the sum or product of two.
    bool requantizes(const ElementwiseBlock& block, const Operand* operands) const {
        if (block.joined || !is_whole(block.dst) || block.dst.column != 1) return false;
        const auto whole = [&](int64_t number) {
            return number >= kEpilogueOperands && operands[number - kEpilogueOperands].side.dequantizes();
        };
        if (count == 0) return whole(result);
        const EpilogueStep& step = steps[0];
        const bool known = step.op == EpilogueOp::add || step.op == EpilogueOp::multiply;
        return count == 1 && known && result == step.to && whole(step.left) && whole(step.right);
    }

    // Whether the remaining steps only requantize an operand after a PReLU.
    bool requantizes_prelu(const ElementwiseBlock& block, const Operand* operands) const {
        if (count != 1 || steps[0].op != EpilogueOp::prelu || result != steps[0].to) return false;
        if (!is_whole(block.dst) || block.dst.column != 1) return false;
        const int64_t left = steps[0].left - kEpilogueOperands, right = steps[0].right - kEpilogueOperands;
        if (left < 0 || right < 0 || is_whole(operands[right].side)) return false;
        const Side& x = operands[left].side;
        return x.dequantizes() && (!block.joined || x.row == block.columns);
    }
};

bool reads(const EpilogueStep& step, int64_t number) { return step.left == number || step.right == number; }

// Whether only step `at` reads the value that register `number` holds there.
bool read_once(const ElementwiseBlock& block, int64_t at, int64_t number) {
    for (int64_t i = at; i-- > 0;) {
        if (block.steps[i].to == number) break;
        if (reads(block.steps[i], number)) return false;
    }
    for (int64_t i = at + 1; i < block.count && block.steps[i - 1].to != number; ++i) {
        if (reads(block.steps[i], number)) return false;
    }
    return true;
}

// Returns the operand that is one f32 for all elements, or null.
const Side* lone(const Operand* operands, int64_t number) {
    if (number < kEpilogueOperands) return nullptr;
    const Side& side = operands[number - kEpilogueOperands].side;
    return side.row != 0 || side.column != 0 || is_whole(side) ? nullptr : &side;
}

// Folds a Quantize at the end of the steps into the stores; its zero point is a constant, an operand or absent.
void fold_quantize(const ElementwiseBlock& block, const Operand* operands, Folded& folded) {
    int64_t count = folded.count;
    if (!is_whole(block.dst) || count == 0) return;
    const EpilogueStep& last = folded.steps[count - 1];
    const Side* zero = last.op == EpilogueOp::add ? lone(operands, last.right) : nullptr;
    const bool shifted = count > 2 && (zero != nullptr || (last.op == EpilogueOp::linear && last.alpha == 1));
    const EpilogueStep& divide = folded.steps[count - (shifted ? 3 : 1)];
    const Side* by = divide.op == EpilogueOp::divide ? lone(operands, divide.right) : nullptr;
    if (by == nullptr) return;
    if (shifted) {
        const EpilogueStep& round = folded.steps[count - 2];
        if (round.op != EpilogueOp::round || round.to != last.left || round.left != divide.to) return;
    }
    if (divide.left >= kEpilogueOperands && operands[divide.left - kEpilogueOperands].side.column == 0) return;
    float scale, shift = shifted ? last.beta : 0;
    fetch(by->alone(), 0, 1, &scale);
    if (zero != nullptr) fetch(zero->alone(), 0, 1, &shift);
    if (!(shift >= -kMostShift && shift <= kMostShift)) return;
    const bool proven = block.proven != nullptr && block.proven->scale == scale;
    folded.quotient = proven ? *block.proven : quotient_by(scale, 0);
    folded.quotient.zero = static_cast<int>(shift);
    folded.count = count - (shifted ? 3 : 1);
    folded.result = divide.left;
}

// Folds every Dequantize of an operand and the Quantize of the result, where their scale and zero point are single
// numbers.
void fold(const ElementwiseBlock& block, Operand* operands, Folded& folded) {
    int64_t stands[kEpilogueRegisters], stages[kElementwiseOperands] = {};
    for (int64_t& one : stands) one = -1;
    folded.quotient = {};
    folded.steps = block.steps;
    folded.count = block.count;
    folded.result = 0;
    if (block.count > kMostSteps) return;
    folded.steps = folded.kept;
    folded.count = 0;
    for (int64_t at = 0; at < block.count; ++at) {
        EpilogueStep step = block.steps[at];
        const auto meant = [&](int64_t number) {
            return number < kEpilogueOperands && stands[number] >= 0 ? stands[number] : number;
        };
        const int64_t given = step.left, number = meant(given) - kEpilogueOperands;
        step.right = static_cast<int16_t>(meant(step.right));
        step.left = static_cast<int16_t>(meant(step.left));
        stands[step.to] = -1;
        if (step.op == EpilogueOp::linear && number >= 0 && stages[number] < 2 && is_whole(operands[number].side) &&
            (operands[number].side.column != 0 || at + 1 < block.count) && read_once(block, at, given)) {
            operands[number].side.affine.alpha[stages[number]] = step.alpha;
            operands[number].side.affine.beta[stages[number]++] = step.beta;
            stands[step.to] = number + kEpilogueOperands;
        } else {
            folded.kept[folded.count++] = step;
        }
    }
    folded.result = stands[0] >= 0 ? stands[0] : 0;
    fold_quantize(block, operands, folded);
}

void run_part(const ElementwiseBlock& block, const Folded& folded, Operand* operands, const Part& part, float* memory) {
    float* registers[kEpilogueRegisters][kMostRows];
    const bool direct = written_directly(block);
    const auto offset = [&](int64_t r) { return (part.row + r) * block.dst.row + part.column * block.dst.column; };
    int made = 0;
    for (const EpilogueStep *step = folded.steps, *end = step + folded.count; step != end; ++step) {
        for (; made <= step->to; ++made) {
            for (int64_t r = 0; r < part.rows; ++r) {
                registers[made][r] = made == 0 && direct ? reinterpret_cast<float*>(block.dst.at) + offset(r)
                                                         : memory + made * kMostFloats + r * part.pitch();
            }
        }
        const auto source = [&](int64_t number) {
            return number >= kEpilogueOperands ? operands[number - kEpilogueOperands].source
                                               : EpilogueSource{registers[number], 1, 1};
        };
        execute(*step, source(step->left), source(step->right), registers[step->to], part.rows, part.columns);
    }
    if (direct && folded.result == 0) return;
    const bool made_here = folded.result < kEpilogueOperands;
    const EpilogueSource from =
        made_here ? EpilogueSource{registers[folded.result], 1, 1} : operands[folded.result - kEpilogueOperands].source;
    for (int64_t r = 0; r < part.rows; ++r) {
        put(block.dst, offset(r), part.columns, block.vast, folded.quotient, from.rows[r * from.row_step]);
    }
}

// Whether no value is above 1, below -1 or NaN: then bits without the sign are at most those of 1.
bool within_one(const float* values, int64_t count) {
    uint32_t largest = 0;
    for (int64_t i = 0; i < count; ++i) {
        const uint32_t size = bits<uint32_t>(values[i]) & 0x7fffffffu;
        largest = size > largest ? size : largest;
    }
    return largest <= bits<uint32_t>(1.0f);
}

void run_prelu(const ElementwiseBlock& block, const Folded& folded, const Operand* operands, const Part& part) {
    const EpilogueStep& step = folded.steps[0];
    const Side& x = operands[step.left - kEpilogueOperands].side;
    const EpilogueSource& slopes = operands[step.right - kEpilogueOperands].source;
    // those of joined rows repeat
    const int64_t number = slopes.lane_step == 0 ? 1 : smaller(part.columns, block.columns);
    bool gentle = false;
    for (int64_t r = 0; r < part.rows; ++r) {
        const int64_t row = part.row + r;
        const float* of_row = slopes.rows[r * slopes.row_step];
        if (r == 0 || slopes.row_step != 0) gentle = within_one(of_row, number);
        requantize_prelu(x.dequantized(row * x.row + part.column), of_row, slopes.lane_step, gentle, folded.quotient,
                         block.dst.type == ElementType::s8, part.columns,
                         block.dst.at + row * block.dst.row + part.column);
    }
}

int64_t scratch_of(int64_t operands) { return (operands + kEpilogueRegisters) * kMostFloats; }

void run(const ElementwiseBlock& block) {
    if (block.affine != nullptr) return run_affine(block, *block.affine);
    Operand operands[kElementwiseOperands];
    for (int64_t i = 0; i < block.operand_count; ++i) operands[i].side = {block.operands[i], {{1, 1}, {0, 0}}};
    Folded folded;
    fold(block, operands, folded);
    if (folded.requantizes(block, operands)) {
        const bool alone = folded.count == 0;
        const EpilogueStep step = alone ? EpilogueStep{} : folded.steps[0];
        const Side& left = operands[(alone ? folded.result : step.left) - kEpilogueOperands].side;
        const Side& right = alone ? left : operands[step.right - kEpilogueOperands].side;
        for (int64_t r = 0; r < block.rows; ++r) {
            requantize(alone ? EpilogueOp::move : step.op, left.dequantized(r * left.row),
                       right.dequantized(r * right.row), folded.quotient, block.dst.type == ElementType::s8,
                       block.columns, block.dst.at + r * block.dst.row);
        }
        return;
    }
    const int64_t width = block.joined ? block.rows * block.columns : block.columns,
                  height = block.joined ? 1 : block.rows;
    const int64_t most = block.joined      ? kMostFloats / block.columns * block.columns
                         : in_place(block) ? larger(width, 1)
                                           : kMostFloats;
    for (int64_t i = 0; i < block.operand_count; ++i) {
        operands[i].values = block.scratch + i * kMostFloats;
        operands[i].settled = false;
        settle(block, operands[i], most);
    }
    const bool prelu = folded.requantizes_prelu(block, operands);
    Part part{};
    for (part.column = 0; part.column < width; part.column += part.columns) {
        part.columns = smaller(width - part.column, most);
        for (part.row = 0; part.row < height; part.row += part.rows) {
            part.rows = smaller(smaller(height - part.row, kMostRows), larger(kMostFloats / part.pitch(), 1));
            if (prelu) {
                load(block, operands[folded.steps[0].right - kEpilogueOperands], part);
                run_prelu(block, folded, operands, part);
                continue;
            }
            for (int64_t i = 0; i < block.operand_count; ++i) load(block, operands[i], part);
            run_part(block, folded, operands, part, block.scratch + block.operand_count * kMostFloats);
        }
    }
    if (block.vast) _mm_sfence();
}

}  // namespace

const ElementwiseCode kElementwiseCode = {kMostFloats / 16, scratch_of, run, look_up};

}  // namespace dgo::DGO_ISA
