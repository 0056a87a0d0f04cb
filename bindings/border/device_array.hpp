// An array in memory of an engine.
#pragma once

#include <memory>
#include <string>

#include <pybind11/pybind11.h>

#include "library/engine.hpp"
#include "memory/device_memory.hpp"
#include "memory/layout.hpp"

namespace dgo {

class DeviceArray {
public:
    // Allocates, row-major.
    DeviceArray(std::shared_ptr<const Engine> engine, int dtype, const std::vector<std::int64_t>& shape);
    // Refers to memory of another owner; throws if the engine cannot access it.
    DeviceArray(std::shared_ptr<const Engine> engine, Layout layout, char* data, bool writable, pybind11::object owner);

    char* data() const { return memory_.data(); }
    const DeviceMemory& memory() const { return memory_; }
    std::string str() const { return layout.str() + " on " + engine->str(); }

    const std::shared_ptr<const Engine> engine;
    const Layout layout;
    const bool writable;

private:
    pybind11::object owner_;
    DeviceMemory memory_;
};

// The address, after all checks that a plan of `engine` needs; `who` begins messages.
char* require_match(const Layout& layout, const Engine& engine, const DeviceArray& array, const std::string& who,
                    bool written);

}  // namespace dgo
