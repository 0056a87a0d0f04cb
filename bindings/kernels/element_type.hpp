// The element types that kernels tell apart.
#pragma once

#include <cstdint>

namespace dgo {

// Raw elements are moved bit by bit; the others are numbers that can be converted into each other.
enum class ElementType { raw1, raw2, raw4, raw8, raw16, raw32, f32, bf16, f16, s32, s8, u8 };

constexpr int kF32 = 3;  // the oneDNN data type of what kernels sum in

constexpr bool is_byte(ElementType type) { return type == ElementType::u8 || type == ElementType::s8; }

// Bytes of one element of a oneDNN data type; an error for a type without whole bytes.
int64_t item_size(int dtype);

// The number type of a oneDNN data type; an error if kernels cannot convert it.
ElementType number_type(int dtype);

// Returns the number type of f32, bf16 or f16; an error for others.
ElementType float_type(int dtype);

// The raw type of 1, 2, 4, 8, 16 or 32 bytes.
ElementType raw_type(int64_t bytes);

}  // namespace dgo
