// Memory of new arrays that begins at a cache line: vectors of 64 bytes then lie in one line each, where NumPy's own
// allocations begin 16 bytes after one. NumPy frees it by the handler that each array keeps (NEP 49).
#pragma once

#include <cstddef>

#include <pybind11/numpy.h>

namespace dgo {

// From here on results are aligned: 32 KB take longer to write than a handler takes to set.
inline constexpr std::size_t kAlignedBytes = 1 << 15;

// Reads NumPy's table, which may raise; before the first LineMemory.
void prepare_line_memory();

// While it lives, arrays that this thread makes lie at cache lines, unless the user has a handler of their own.
class LineMemory {
public:
    explicit LineMemory(bool wanted);
    ~LineMemory();
    LineMemory(const LineMemory&) = delete;
    LineMemory& operator=(const LineMemory&) = delete;

private:
    PyObject* before_ = nullptr;
};

}  // namespace dgo
