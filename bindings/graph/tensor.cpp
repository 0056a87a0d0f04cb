#include "graph/tensor.hpp"

#include "library/fork_guard.hpp"

namespace dgo {

Tensor::Tensor(const LogicalTensor& lt, std::shared_ptr<const Engine> engine, void* data)
    : lt(lt), engine(std::move(engine)) {
    DGO_CALL(this->engine->api(), graph_tensor_create, &handle, &lt.raw, this->engine->handle, usable(data));
}

Tensor::Tensor(const LogicalTensor& lt, std::shared_ptr<const Engine> engine, dnnl_graph_tensor_t handle)
    : lt(lt), engine(std::move(engine)), handle(handle) {}

Tensor::~Tensor() { fork_guard::destroy(engine->api().graph_tensor_destroy, handle); }

void* Tensor::data() const { return DGO_READ(void*, engine->api(), graph_tensor_get_data_handle, handle); }

void Tensor::set_data(void* data) { DGO_CALL(engine->api(), graph_tensor_set_data_handle, handle, usable(data)); }

// The library crashes on null even where it reads nothing.
void* Tensor::usable(void* data) const {
    alignas(64) static char nothing[64];
    if (data) return data;
    if (lt.mem_size(*engine->lib) != 0)
        fail(ErrorKind::invalid_argument, "tensor " + lt.str() + " needs memory, got a null address");
    return nothing;
}

}  // namespace dgo
