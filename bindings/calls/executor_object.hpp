// The Python object around an Executor, and running it on NumPy arrays.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <pybind11/pybind11.h>

#include "border/gil.hpp"
#include "plan/executor.hpp"

namespace dgo {

namespace py = pybind11;

// Arrays of one run: addresses for the plan and a reference to each array until it ends.
struct Arguments {
    Addresses addresses() const { return {in.data(), out.data(), on_device.data()}; }

    std::vector<char*> in, out;
    std::vector<std::uint8_t> on_device;  // per input, then per output
    std::vector<py::object> owners;
};

struct ExecutorObject {
    ExecutorObject(std::shared_ptr<const Engine> engine, std::string name) : core(std::move(engine), std::move(name)) {}
    ~ExecutorObject() { drop_owners(); }
    ExecutorObject(const ExecutorObject&) = delete;
    ExecutorObject& operator=(const ExecutorObject&) = delete;

    void drop_owners() {
        auto dropped = std::exchange(owners, {});
        for (py::object& owner : dropped) gil::drop(owner);
    }

    Executor core;
    std::vector<py::object> owners;  // of constants and callbacks; the core has only addresses
    bool cleared = false;            // by the garbage collector: owners are gone
    mutable std::atomic<bool> ran{false};  // by who keeps it at hand, not found in its store, since the store looked
};

// Full check against what the plan declares; throws an error that names the argument.
Arguments checked_arguments(const ExecutorObject& plan, py::handle inputs, py::handle outputs);

// Runs with addresses that are known to be right; throws. The caller keeps plan and arrays alive.
void run_plan(const ExecutorObject& plan, const Addresses& arrays);

}  // namespace dgo
