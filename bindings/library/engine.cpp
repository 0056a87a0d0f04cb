#include "library/engine.hpp"

#include "common/gil.hpp"
#include "library/allocator.hpp"
#include "library/fork_guard.hpp"

namespace dgo {

const char* engine_kind_name(dnnl_engine_kind_t kind) {
    switch (kind) {
        case dnnl_cpu: return "cpu";
        case dnnl_gpu: return "gpu";
        default: return "any";
    }
}

dnnl_engine_kind_t engine_kind_from(int kind) {
    if (kind != dnnl_cpu && kind != dnnl_gpu)
        fail(ErrorKind::invalid_argument,
             "engine kind " + std::to_string(kind) + " is unknown: use EngineKind.cpu (1) or EngineKind.gpu (2)");
    return dnnl_engine_kind_t(kind);
}

namespace {
// OpenMP's threads start when a computation needs them, other runtimes' threads at the beginning.
void note_threads(const Engine& engine) {
    const unsigned runtime = engine.lib->cpu_runtime();
    if (engine.on_device || (runtime != kRuntimeSequential && runtime != kRuntimeOmp)) fork_guard::has_threads = true;
}
}  // namespace

Engine::Engine(std::shared_ptr<const Library> lib, dnnl_engine_kind_t kind, std::size_t index,
               std::shared_ptr<const Allocator> allocator, bool device_memory)
    : lib(std::move(lib)), kind(kind), index(index), on_device(device_memory || kind == dnnl_gpu),
      allocator_(std::move(allocator)) {
    const fork_guard::Busy busy;
    note_threads(*this);
    if (allocator_) allocator_->check_library(*this->lib);
    const std::size_t count = this->lib->engine_count(kind);
    if (index >= count) {
        const bool gpu = kind == dnnl_gpu;
        const unsigned runtime = gpu ? this->lib->gpu_runtime() : this->lib->cpu_runtime();
        fail(ErrorKind::runtime_unavailable,
             std::string("engine ") + engine_kind_name(kind) + ":" + std::to_string(index) + " does not exist: '" +
                 this->lib->path() + "' (" + engine_kind_name(kind) + " runtime " + runtime_name(runtime) + ") sees " +
                 std::to_string(count) + " of this kind" +
                 (gpu ? "; install the extra 'sycl' and the GPU's driver"
                      : "; a SYCL build needs an OpenCL CPU runtime (OCL_ICD_FILENAMES)"));
    }
    const bool host = kind == dnnl_cpu && !on_device && this->lib->cpu_runtime() != kRuntimeSycl;
    if (!allocator_ && host) allocator_ = default_allocator(this->lib);
    if (allocator_)
        DGO_CALL(api(), graph_make_engine_with_allocator, &handle, kind, index, allocator_->handle);
    else
        DGO_CALL(api(), engine_create, &handle, kind, index);
    if (on_device) blocks_ = std::make_unique<BlockPool>(this);
}

Engine::Engine(std::shared_ptr<const Library> lib, dnnl_engine_t handle, dnnl_engine_kind_t kind, std::size_t index,
               std::shared_ptr<const Allocator> allocator, bool device_memory)
    : lib(std::move(lib)), kind(kind), index(index), on_device(device_memory || kind == dnnl_gpu), handle(handle),
      allocator_(std::move(allocator)) {
    note_threads(*this);
    if (on_device) blocks_ = std::make_unique<BlockPool>(this);
}

Engine::~Engine() {
    const ReleaseGilIfHeld release;
    blocks_.reset();
    fork_guard::destroy(lib->api().engine_destroy, handle);
}

std::string Engine::str() const {
    return std::string("engine ") + engine_kind_name(kind) + ":" + std::to_string(index) + " of '" + lib->path() + "'";
}

Stream::Stream(std::shared_ptr<const Engine> engine, unsigned flags) : engine(std::move(engine)) {
    DGO_CALL(this->engine->api(), stream_create, &handle, this->engine->handle, flags);
}

Stream::Stream(std::shared_ptr<const Engine> engine, dnnl_stream_t handle)
    : engine(std::move(engine)), handle(handle) {}

Stream::~Stream() {
    const ReleaseGilIfHeld release;
    fork_guard::destroy(engine->api().stream_destroy, handle);
}

void Stream::wait() const { DGO_CALL(engine->api(), stream_wait, handle); }

}  // namespace dgo
