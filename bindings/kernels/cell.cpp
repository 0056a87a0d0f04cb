#include "kernels/cell.hpp"

#include <string>

#include "common/error.hpp"

namespace dgo {
namespace {

constexpr int kNotANumber = -1;  // only copied, never converted

struct TypeRow {
    int dtype;  // dnnl_data_type_t, written out because the build headers lack the newer ones
    int64_t size;
    int cell;
};

constexpr TypeRow number(int dtype, int64_t size, Cell cell) { return {dtype, size, static_cast<int>(cell)}; }

constexpr TypeRow kTypes[] = {
    number(1, 2, Cell::f16), number(2, 2, Cell::bf16), number(3, 4, Cell::f32), number(4, 4, Cell::s32),
    number(5, 1, Cell::s8),  number(6, 1, Cell::u8),   {7, 8, kNotANumber},  // f64
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

Cell number_cell(int dtype) {
    const TypeRow& row = type_row(dtype);
    if (row.cell == kNotANumber) {
        fail(ErrorKind::invalid_argument,
             "kernels: data type " + std::to_string(dtype) + " cannot be converted; use the same type on both sides");
    }
    return static_cast<Cell>(row.cell);
}

Cell float_cell(int dtype) {
    const Cell cell = number_cell(dtype);
    if (cell != Cell::f32 && cell != Cell::bf16 && cell != Cell::f16) {
        fail(ErrorKind::invalid_argument, "kernels: data type " + std::to_string(dtype) + " is not f32, bf16 or f16");
    }
    return cell;
}

Cell raw_cell(int64_t bytes) {
    switch (bytes) {
        case 1: return Cell::raw1;
        case 2: return Cell::raw2;
        case 4: return Cell::raw4;
        case 8: return Cell::raw8;
        case 16: return Cell::raw16;
        case 32: return Cell::raw32;
        default: fail(ErrorKind::error, "kernels: no raw element of " + std::to_string(bytes) + " bytes");
    }
}

}  // namespace dgo
