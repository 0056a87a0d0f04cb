// A logical tensor bound to memory on an engine.
#pragma once

#include <memory>

#include "graph/logical_tensor.hpp"
#include "library/engine.hpp"

namespace dgo {

class Tensor {
public:
    // Neither owns nor checks the memory; data may be null only when the tensor has no bytes.
    Tensor(const LogicalTensor& lt, std::shared_ptr<const Engine> engine, void* data);
    // Takes over a handle.
    Tensor(const LogicalTensor& lt, std::shared_ptr<const Engine> engine, dnnl_graph_tensor_t handle);
    ~Tensor();
    Tensor(const Tensor&) = delete;
    Tensor& operator=(const Tensor&) = delete;

    void* data() const { return data_; }
    void set_data(void* data);

    const LogicalTensor lt;
    const std::shared_ptr<const Engine> engine;
    // Bytes of the memory; 0 for a scalar that the library keeps.
    std::size_t bytes() const { return bytes_; }
    bool dense() const { return dense_; }  // no bytes between the elements
    bool writable = true;
    dnnl_graph_tensor_t handle = nullptr;

private:
    void* usable(void* data) const;

    std::size_t bytes_ = 0;
    bool dense_ = true;
    void* data_ = nullptr;
};

}  // namespace dgo
