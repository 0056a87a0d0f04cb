// Files of one protobuf message, without their large tensors.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

namespace dgo::protobuf {

using Range = std::tuple<uint64_t, uint64_t, uint64_t>;  // the number of the item that has the data, offset, bytes

struct Thinned {
    std::string copy;
    std::vector<Range> ranges;
};

// Copies a file without the data of at least `large` bytes that a route of fields leads to: the last is an item's data,
// the one before the item. A file of fewer than `whole` bytes is copied as a whole. Throws Malformed, also for an item
// with its data more than once, and std::system_error.
Thinned thinned(int descriptor, uint64_t size, uint64_t whole, const std::vector<uint64_t>& route, uint64_t large);

}  // namespace dgo::protobuf
