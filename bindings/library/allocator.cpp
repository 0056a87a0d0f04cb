#include "library/allocator.hpp"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <new>
#include <unordered_map>
#include <utility>

#include "library/fork_guard.hpp"
#include "memory/arena.hpp"

namespace dgo {
namespace {

// From this size on an allocation comes from the system as new pages, which cost more to touch than many kernels run.
constexpr std::size_t kKept = 128 * 1024;

struct Lent {
    std::mutex mutex;
    std::unordered_map<void*, Block> blocks;
};

Lent& lent() {
    static Lent* const all = new Lent;  // never destroyed: the library may free later than that
    return *all;
}

void* lend(std::size_t size) {
    Block block = library_blocks().reuse(size);
    if (block.data() == nullptr) block = Block(nullptr, size);
    void* const data = block.data();
    const std::lock_guard lock(lent().mutex);
    lent().blocks.emplace(data, std::move(block));
    return data;
}

// The library asks for 0 bytes too, and takes null as an answer then. Where memory is short null would be written to:
// bad_alloc goes through its frames to the guard of the call instead.
void* host_allocate(std::size_t size, std::size_t alignment) {
    void* out = nullptr;
    if (size >= kKept && alignment <= kScratchAlignment) return lend(size);
    if (size == 0) return nullptr;
    if (posix_memalign(&out, std::max(alignment, kScratchAlignment), size) != 0) throw std::bad_alloc();
    return out;
}

void host_free(void* buffer) {
    Block block;
    {
        const std::lock_guard lock(lent().mutex);
        const auto found = lent().blocks.find(buffer);
        if (found != lent().blocks.end()) {
            block = std::move(found->second);
            lent().blocks.erase(found);
        }
    }
    if (block.data() != nullptr)
        library_blocks().give_back(std::move(block));
    else
        std::free(buffer);
}

// A CPU engine has waited for the event by the time it frees.
void* sycl_allocate(std::size_t size, std::size_t alignment, const void*, const void*) {
    return host_allocate(size, alignment);
}
void sycl_free(void* buffer, const void*, const void*, void*) { host_free(buffer); }

}  // namespace

Allocator::Allocator(std::shared_ptr<const Library> lib, Kind kind, void* allocate, void* deallocate)
    : lib(std::move(lib)) {
    if (!allocate != !deallocate)
        fail(ErrorKind::invalid_argument, "Allocator: give both allocate and deallocate, or neither");
    const Api& api = this->lib->api();
    if (kind == Kind::host) {
        DGO_CALL(api, graph_allocator_create, &handle,
                 allocate ? reinterpret_cast<dnnl_graph_host_allocate_f>(allocate) : host_allocate,
                 deallocate ? reinterpret_cast<dnnl_graph_host_deallocate_f>(deallocate) : host_free);
    } else {
        this->lib->need(api.graph_sycl_interop_allocator_create, "dnnl_graph_sycl_interop_allocator_create",
                        "with the SYCL runtime");
        DGO_CALL(api, graph_sycl_interop_allocator_create, &handle,
                 allocate ? reinterpret_cast<dnnl_graph_sycl_allocate_f>(allocate) : sycl_allocate,
                 deallocate ? reinterpret_cast<dnnl_graph_sycl_deallocate_f>(deallocate) : sycl_free);
    }
}

std::shared_ptr<const Allocator> default_allocator(const std::shared_ptr<const Library>& lib) {
    // Never destroyed: the library's caches free by it when the process ends.
    static auto* const all = new std::unordered_map<const Library*, std::shared_ptr<const Allocator>>;
    static auto* const mutex = new std::mutex;
    const std::lock_guard lock(*mutex);
    auto& found = (*all)[lib.get()];
    if (!found) found = std::make_shared<Allocator>(lib, Allocator::Kind::host, nullptr, nullptr);
    return found;
}

void Allocator::check_library(const Library& of_engine) const {
    if (lib.get() != &of_engine)
        fail(ErrorKind::invalid_argument, "Engine: the allocator belongs to '" + lib->path() + "', the engine to '" +
                                              of_engine.path() + "'; make the allocator with the engine's library");
}

Allocator::~Allocator() { fork_guard::destroy(lib->api().graph_allocator_destroy, handle); }

}  // namespace dgo
