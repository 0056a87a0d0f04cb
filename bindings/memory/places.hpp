// Places of scratch buffers in an arena: buffers that are never alive at the same time may share memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace dgo {

struct Places {
    std::vector<std::int64_t> offsets;  // bytes
    std::int64_t total = 0;
    std::vector<bool> shared;  // whether a buffer lies in memory that others have used, as buffers are placed by size
};

class ScratchLives {
public:
    // The first and the last step that touch each buffer.
    explicit ScratchLives(const std::vector<std::pair<std::int64_t, std::int64_t>>& spans);

    // Places large buffers first, each at the lowest offset that is free while it lives. `nbytes`: of each buffer.
    Places by_size(const std::vector<std::int64_t>& nbytes) const;  // throws NativeError

private:
    std::vector<std::vector<std::size_t>> beside_;  // of each buffer those that are alive at the same time
};

}  // namespace dgo
