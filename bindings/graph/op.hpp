// One operation before it is added to a graph.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "graph/logical_tensor.hpp"
#include "library/library.hpp"

namespace dgo {

class Op {
public:
    Op(std::shared_ptr<const Library> lib, std::size_t id, int kind, const std::string& name);
    ~Op();
    Op(const Op&) = delete;
    Op& operator=(const Op&) = delete;

    void add_input(const LogicalTensor& lt);
    void add_output(const LogicalTensor& lt);
    // Scalars are vectors of one value.
    void set_f32(int code, const std::vector<float>& values);
    void set_s64(int code, const std::vector<std::int64_t>& values);
    void set_bool(int code, bool value);
    void set_string(int code, const std::string& value);
    std::string str() const;  // for messages

    const std::shared_ptr<const Library> lib;
    const std::size_t id;
    const dnnl_graph_op_kind_t kind;
    const std::string name;
    dnnl_graph_op_t handle = nullptr;
};

// "f32", "f32[]", "s64", "s64[]", "bool" or "string"; null for a code that no attribute can have.
const char* attr_type(int code);

}  // namespace dgo
