#include "graph/tensor.hpp"

#include "library/fork_guard.hpp"

namespace dgo {

Tensor::Tensor(const LogicalTensor& lt, std::shared_ptr<const Engine> engine, void* data)
    : lt(lt), engine(std::move(engine)), bytes_(lt.mem_size(*this->engine->lib)), dense_(lt.is_dense()),
      data_(usable(data)) {
    DGO_CALL(this->engine->api(), graph_tensor_create, &handle, &lt.raw, this->engine->handle, data_);
}

Tensor::Tensor(const LogicalTensor& lt, std::shared_ptr<const Engine> engine, dnnl_graph_tensor_t handle)
    : lt(lt), engine(std::move(engine)), handle(handle) {
    data_ = DGO_READ(void*, this->engine->api(), graph_tensor_get_data_handle, handle);
}

Tensor::~Tensor() { fork_guard::destroy(engine->api().graph_tensor_destroy, handle); }

void Tensor::set_data(void* data) {
    data = usable(data);
    DGO_CALL(engine->api(), graph_tensor_set_data_handle, handle, data);
    data_ = data;
}

// The library crashes on a null pointer even of an empty tensor.
void* Tensor::usable(void* data) const {
    alignas(64) static char nothing[64];
    if (data) return data;
    if (bytes_ != 0) fail(ErrorKind::invalid_argument, "tensor " + lt.str() + " needs memory, got a null address");
    return nothing;
}

}  // namespace dgo
