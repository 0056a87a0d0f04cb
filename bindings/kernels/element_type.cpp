#include "kernels/element_type.hpp"

#include <string>

#include "common/error.hpp"

namespace dgo {
namespace {

constexpr int kNotANumber = -1;  // only copied, never converted

struct TypeRow {
    int dtype;  // dnnl_data_type_t, written out because the build headers lack the newer ones
    int64_t size;
    int type;
};

constexpr TypeRow number(int dtype, int64_t size, ElementType type) { return {dtype, size, static_cast<int>(type)}; }

constexpr TypeRow kTypes[] = {
    number(1, 2, ElementType::f16),
    number(2, 2, ElementType::bf16),
    number(3, 4, ElementType::f32),
    number(4, 4, ElementType::s32),
    number(5, 1, ElementType::s8),
    number(6, 1, ElementType::u8),
    {7, 8, kNotANumber},  // f64
    {8, 1, kNotANumber},                                                     // boolean
    {9, 1, kNotANumber},                                                     // f8_e5m2
    {10, 1, kNotANumber},                                                    // f8_e4m3
    {13, 1, kNotANumber},                                                    // e8m0
    {16, 8, kNotANumber},                                                    // s64
};

const TypeRow& type_row(int dtype) {
    for (const TypeRow& row : kTypes) {
        if (row.dtype == dtype) return row;
    }
    fail(ErrorKind::invalid_argument,
         "kernels: data type " + std::to_string(dtype) + " has no elements of whole bytes");
}

}  // namespace

int64_t item_size(int dtype) { return type_row(dtype).size; }

ElementType number_type(int dtype) {
    const TypeRow& row = type_row(dtype);
    if (row.type == kNotANumber) {
        fail(ErrorKind::invalid_argument,
             "kernels: data type " + std::to_string(dtype) + " cannot be converted; use the same type on both sides");
    }
    return static_cast<ElementType>(row.type);
}

ElementType float_type(int dtype) {
    const ElementType type = number_type(dtype);
    if (type != ElementType::f32 && type != ElementType::bf16 && type != ElementType::f16) {
        fail(ErrorKind::invalid_argument, "kernels: data type " + std::to_string(dtype) + " is not f32, bf16 or f16");
    }
    return type;
}

ElementType raw_type(int64_t bytes) {
    switch (bytes) {
        case 1: return ElementType::raw1;
        case 2: return ElementType::raw2;
        case 4: return ElementType::raw4;
        case 8: return ElementType::raw8;
        case 16: return ElementType::raw16;
        case 32: return ElementType::raw32;
        default: fail(ErrorKind::error, "kernels: no raw element of " + std::to_string(bytes) + " bytes");
    }
}

}  // namespace dgo
