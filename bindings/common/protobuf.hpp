// Protobuf's wire format: the fields of a message, one after another.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace dgo::protobuf {

enum class Kind { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

// Thrown where bytes are no message.
struct Malformed : std::invalid_argument {
    using std::invalid_argument::invalid_argument;
};

// Takes a number of up to ten bytes from the front.
inline uint64_t take_varint(std::string_view& data) {
    constexpr size_t kMostDigits = 10;
    uint64_t value = 0;
    for (size_t i = 0; i < data.size() && i < kMostDigits; ++i) {
        const auto byte = static_cast<unsigned char>(data[i]);
        value |= uint64_t{byte & 127u} << (7 * i);
        if (byte < 128) {
            data.remove_prefix(i + 1);
            return value;
        }
    }
    throw Malformed("a number without end");
}

inline void append_varint(std::string& data, uint64_t value) {
    for (; value > 127; value >>= 7) data.push_back(static_cast<char>((value & 127) | 128));
    data.push_back(static_cast<char>(value));
}

// The head of a field: its number, its kind, and how many bytes of data follow. A varint is part of the head.
struct Head {
    uint64_t number;
    Kind kind;
    uint64_t value;  // of a varint
    uint64_t nbytes;
};

inline Head take_head(std::string_view& data) {
    const uint64_t key = take_varint(data);
    const Kind kind{static_cast<int>(key & 7)};
    switch (kind) {
        case Kind::varint: return {key >> 3, kind, take_varint(data), 0};
        case Kind::bytes: return {key >> 3, kind, 0, take_varint(data)};
        case Kind::fixed64: return {key >> 3, kind, 0, 8};
        case Kind::fixed32: return {key >> 3, kind, 0, 4};
    }
    throw Malformed("a field of kind " + std::to_string(key & 7));
}

// Takes the data of a field from the front, after its head.
inline std::string_view take_data(std::string_view& message, const Head& head) {
    if (head.nbytes > message.size()) throw Malformed("a field beyond the end");
    const std::string_view data = message.substr(0, head.nbytes);
    message.remove_prefix(head.nbytes);
    return data;
}

}  // namespace dgo::protobuf
