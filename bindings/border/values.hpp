// Python's values, as declarations read and write them.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <string>
#include <vector>

#include "kernels/declaration.hpp"

namespace dgo {

class PythonValues final : public Border {
public:
    explicit PythonValues(const Declaration& declared) : declared_(declared) {}

    int64_t integer(Handle value, int64_t least, int64_t most) override;
    double real(Handle value) override;
    bool truth(Handle value) override;
    std::string text(Handle value) override;
    bool absent(Handle value) override { return value == Py_None; }
    Items items(Handle value) override;
    Items items(Handle value, size_t count) override;
    std::shared_ptr<Kernel> kernel(Handle value) override;
    const void* object(Handle value, const char* type) override;

    Handle give(int64_t value) override;
    Handle give(double value) override;
    Handle give(bool value) override;
    Handle give(const std::string& value) override;
    Handle give(const Bytes& value) override;
    Handle give(const std::vector<int64_t>& value) override;
    Handle give_tuple(std::initializer_list<Handle> parts) override;
    Handle give(std::shared_ptr<Kernel> kernel) override;
    Handle give(std::shared_ptr<const void> object, const char* type) override;

private:
    // Throws a TypeError about the argument that is read.
    [[noreturn]] void refuse(PyObject* value) const;

    const Declaration& declared_;
    std::vector<pybind11::object> kept_;  // that items() point into
};

}  // namespace dgo
