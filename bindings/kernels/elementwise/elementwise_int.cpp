// Element-wise ops on numbers and truth values as they are, one at a time: what groups of floats are not for.
//  add, subtract, multiply, maximum, minimum: s32 or s64, which overflow as they do in NumPy
//  equal, greater, greater_equal, less, less_equal: f32, s32, s64, s8, u8 or boolean to boolean
//  and, or, xor, not: boolean; is_nan: f32 to boolean
//  cast: any two of these types but f32 to s8 or u8; what no integer holds is the least one
#include <algorithm>
#include <functional>
#include <limits>
#include <type_traits>

#include "common/error.hpp"
#include "kernels/element_type.hpp"
#include "kernels/elementwise/axes.hpp"
#include "kernels/checked.hpp"
#include "kernels/declaration.hpp"
#include "kernels/parallel.hpp"

namespace dgo {
namespace {

constexpr const char* kName = "elementwise_int";

// A truth value in a byte: 0 is false.
struct Truth {
    uint8_t byte;
    operator bool() const { return byte != 0; }
};

// The functions are told apart by their types, so that each loop is compiled for one.
struct Maximum {
    template <class T>
    T operator()(T a, T b) const {
        return a > b ? a : b;
    }
};
struct Minimum {
    template <class T>
    T operator()(T a, T b) const {
        return a < b ? a : b;
    }
};
struct IsNan {
    bool operator()(float a) const { return a != a; }
};

template <class R>
struct Cast {
    template <class T>
    R operator()(T a) const {
        if constexpr (std::is_same_v<R, bool>) {
            return a != 0;
        } else if constexpr (std::is_floating_point_v<T> && std::is_integral_v<R>) {
            // the first power of two that is too large
            constexpr float kBeyond = -static_cast<float>(std::numeric_limits<R>::min());
            return a >= -kBeyond && a < kBeyond ? static_cast<R>(a) : std::numeric_limits<R>::min();
        } else {
            return static_cast<R>(a);
        }
    }
    R operator()(Truth a) const { return static_cast<R>(bool(a)); }
};

// Computes `count` contiguous elements; an operand has `count` elements, or one for all (step 0). at[0] is dst.
using Row = void (*)(char* const* at, const int64_t* steps, int64_t count);

template <class F, class T, class R>
void one(char* const* at, const int64_t* steps, int64_t count) {
    R* const to = reinterpret_cast<R*>(at[0]);
    const T* const a = reinterpret_cast<const T*>(at[1]);
    const F function{};
    if (steps[0] == 1 && steps[1] == 1) {
        for (int64_t i = 0; i < count; ++i) to[i] = function(a[i]);
        return;
    }
    for (int64_t i = 0; i < count; ++i) to[i * steps[0]] = function(a[i * steps[1]]);
}

template <class F, class T, class R>
void two(char* const* at, const int64_t* steps, int64_t count) {
    R* const to = reinterpret_cast<R*>(at[0]);
    const T *const a = reinterpret_cast<const T*>(at[1]), *const b = reinterpret_cast<const T*>(at[2]);
    const auto function = [](T x, T y) { return static_cast<R>(F{}(x, y)); };
    if (steps[0] == 1 && steps[1] == 1 && steps[2] == 1) {
        for (int64_t i = 0; i < count; ++i) to[i] = function(a[i], b[i]);
    } else if (steps[0] == 1 && steps[1] == 1 && steps[2] == 0) {
        const T y = *b;
        for (int64_t i = 0; i < count; ++i) to[i] = function(a[i], y);
    } else {
        for (int64_t i = 0; i < count; ++i) to[i * steps[0]] = function(a[i * steps[1]], b[i * steps[2]]);
    }
}

struct Entry {
    std::string op;
    int src, dst;
    int sources;
    Row row;
};

constexpr int kS32Code = 4, kS8Code = 5, kU8Code = 6, kBooleanCode = 8, kS64Code = 16;

template <class T>
constexpr int code_of() {
    if constexpr (std::is_same_v<T, float>) return kF32;
    if constexpr (std::is_same_v<T, int32_t>) return kS32Code;
    if constexpr (std::is_same_v<T, int8_t>) return kS8Code;
    if constexpr (std::is_same_v<T, uint8_t>) return kU8Code;
    if constexpr (std::is_same_v<T, int64_t>) return kS64Code;
    return kBooleanCode;
}

template <class T>
void add_arithmetic(std::vector<Entry>& table) {
    constexpr int code = code_of<T>();
    using Wrapping = std::make_unsigned_t<T>;
    table.push_back({"add", code, code, 2, two<std::plus<Wrapping>, T, T>});
    table.push_back({"subtract", code, code, 2, two<std::minus<Wrapping>, T, T>});
    table.push_back({"multiply", code, code, 2, two<std::multiplies<Wrapping>, T, T>});
    table.push_back({"maximum", code, code, 2, two<Maximum, T, T>});
    table.push_back({"minimum", code, code, 2, two<Minimum, T, T>});
}

template <class T>
void add_comparisons(std::vector<Entry>& table) {
    constexpr int code = code_of<T>();
    using V = std::conditional_t<std::is_same_v<T, Truth>, bool, T>;
    table.push_back({"equal", code, kBooleanCode, 2, two<std::equal_to<V>, T, bool>});
    table.push_back({"greater", code, kBooleanCode, 2, two<std::greater<V>, T, bool>});
    table.push_back({"greater_equal", code, kBooleanCode, 2, two<std::greater_equal<V>, T, bool>});
    table.push_back({"less", code, kBooleanCode, 2, two<std::less<V>, T, bool>});
    table.push_back({"less_equal", code, kBooleanCode, 2, two<std::less_equal<V>, T, bool>});
}

template <class T, class R>
void add_cast(std::vector<Entry>& table) {
    table.push_back({"cast", code_of<T>(), code_of<R>(), 1, one<Cast<R>, T, R>});
}

template <class T>
void add_casts(std::vector<Entry>& table) {
    add_cast<T, float>(table);
    add_cast<T, int32_t>(table);
    add_cast<T, int64_t>(table);
    add_cast<T, bool>(table);
    if constexpr (!std::is_same_v<T, float>) {
        add_cast<T, int8_t>(table);
        add_cast<T, uint8_t>(table);
    }
}

std::vector<Entry> entries() {
    std::vector<Entry> table;
    add_arithmetic<int32_t>(table);
    add_arithmetic<int64_t>(table);
    add_comparisons<float>(table);
    add_comparisons<int32_t>(table);
    add_comparisons<int64_t>(table);
    add_comparisons<int8_t>(table);
    add_comparisons<uint8_t>(table);
    add_comparisons<Truth>(table);
    add_casts<float>(table);
    add_casts<int32_t>(table);
    add_casts<int64_t>(table);
    add_casts<int8_t>(table);
    add_casts<uint8_t>(table);
    add_casts<Truth>(table);
    table.push_back({"and", kBooleanCode, kBooleanCode, 2, two<std::bit_and<bool>, Truth, bool>});
    table.push_back({"or", kBooleanCode, kBooleanCode, 2, two<std::bit_or<bool>, Truth, bool>});
    table.push_back({"xor", kBooleanCode, kBooleanCode, 2, two<std::not_equal_to<bool>, Truth, bool>});
    table.push_back({"not", kBooleanCode, kBooleanCode, 1, one<std::logical_not<bool>, Truth, bool>});
    table.push_back({"is_nan", kF32, kBooleanCode, 1, one<IsNan, float, bool>});
    return table;
}

const Entry& entry_of(const std::string& op, int src, int dst) {
    static const std::vector<Entry> table = entries();
    for (const Entry& entry : table) {
        if (entry.op == op && entry.src == src && entry.dst == dst) return entry;
    }
    fail(ErrorKind::invalid_argument,
         "elementwise_int: no '" + op + "' of data type " + std::to_string(src) + " to " + std::to_string(dst));
}

struct Plain : Kernel {
    const Entry& entry;
    ElementwiseRows rows;
    int64_t to, from;  // bytes of an element

    Plain(const Entry& known, const ElementwiseRows& rows)
        : entry(known), rows(rows), to(item_size(known.dst)), from(item_size(known.src)) {
        name = kName;
        arity = entry.sources + 1;
    }

    void run(char* const* operands) const override {
        const size_t count = static_cast<size_t>(arity);
        parallel_for(rows.tasks(), 8.0 * static_cast<double>(rows.elements), [&](int64_t begin, int64_t end) {
            for (int64_t number = begin; number < end; ++number) {
                int64_t offsets[3] = {0, 0, 0};
                rows.add_offsets(number, offsets);
                char* at[3] = {operands[count - 1] + offsets[0] * to, operands[0] + offsets[1] * from,
                               operands[count - 2] + offsets[count - 1] * from};
                entry.row(at, rows.row.strides.data(), rows.row.size);
            }
        });
    }
};

std::shared_ptr<Kernel> make_elementwise_int(const std::string& op, const Dims& shape, const std::vector<Dims>& strides,
                                             int src_dtype, int dst_dtype) {
    const Entry& entry = entry_of(op, src_dtype, dst_dtype);
    const size_t operands = static_cast<size_t>(entry.sources) + 1;
    if (strides.size() != operands) {
        fail(ErrorKind::invalid_argument,
             "elementwise_int: strides of " + std::to_string(operands) + " operands are needed for '" + entry.op + "'");
    }
    if (shape.empty()) fail(ErrorKind::invalid_argument, "elementwise_int: shape must have an axis");
    for (const int64_t size : shape) check_number(kName, "shape", size, 0, kMostElements);
    for (const std::vector<int64_t>& one : strides) {
        if (one.size() != shape.size()) {
            fail(ErrorKind::invalid_argument,
                 "elementwise_int: the strides need " + std::to_string(shape.size()) + " entries each");
        }
        check_extent(kName, "an operand", shape, one);
    }
    std::vector<std::vector<int64_t>> dst_first = strides;
    std::rotate(dst_first.begin(), dst_first.end() - 1, dst_first.end());
    return std::make_shared<Plain>(entry, ElementwiseRows(kName, shape, dst_first));
}

}  // namespace

const Declaration kElementwiseInt{
    "elementwise_int(op, shape, strides, src_dtype, dst_dtype)", make_elementwise_int,
    "src_0 (shape), [src_1 (shape)], dst (shape)",
    "dst = op(src_0, src_1) on integers, floats or truth values as they are, without conversion. strides of each "
    "operand count elements and are 0 where it is stretched."};

}  // namespace dgo
