#include "library/library.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <string_view>

#include "library/fork_guard.hpp"
#include "library/pages.hpp"

namespace dgo {
namespace {

constexpr const char* kRemedy =
    "; reinstall dnnl-graph-ops (it bundles a CPU library), install its extra 'sycl', or set "
    "DNNL_GRAPH_OPS_LIBRARY to a libdnnl.so.3 of version 3.2 or later";

[[noreturn]] void unavailable(const std::string& message) { fail(ErrorKind::runtime_unavailable, message + kRemedy); }

void* open_library(const std::string& path) {
    void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        const char* reason = dlerror();
        unavailable("cannot load the library '" + path + "': " + (reason ? reason : "unknown reason"));
    }
    return handle;
}

std::string absolute(const std::string& path) {
    if (path.find('\0') != std::string::npos)
        fail(ErrorKind::invalid_argument, "Library: the path holds a NUL character");
    char resolved[PATH_MAX];
    if (!realpath(path.c_str(), resolved) || access(resolved, R_OK) != 0)
        unavailable("the library '" + path + "' does not exist or cannot be read");
    return resolved;
}

template <typename F>
bool look_up(void* handle, const char* symbol, F& out) {
    out = reinterpret_cast<F>(dlsym(handle, symbol));
    return out != nullptr;
}

struct RuntimeRow {
    unsigned bit;
    const char* name;
};
constexpr RuntimeRow kRuntimes[] = {{0, "none"},       {1, "sequential"}, {2, "omp"},    {4, "tbb"},
                                    {8, "threadpool"}, {256, "ocl"},      {512, "sycl"}, {1024, "ze"}};

// The user's setting of the log; null if none.
const char* asked_verbosity() {
    for (const char* const name : {"ONEDNN_VERBOSE", "DNNL_VERBOSE"})
        if (const char* const value = std::getenv(name); value && *value) return value;
    return nullptr;
}

// The highest level whose lines a list of words like "dispatch,profile_exec" asks for.
int verbosity_level(std::string_view words) {
    bool executions = false, creations = false;
    while (!words.empty()) {
        const std::string_view word = words.substr(0, words.find(','));
        words.remove_prefix(std::min(words.size(), word.size() + 1));
        const auto is = [&](auto... names) { return ((word == names) || ...); };
        executions |= is("1", "2", "-1", "all", "profile", "profile_exec");
        creations |= is("2", "-1", "all", "profile", "profile_create");
    }
    return executions + (executions && creations);
}

}  // namespace

std::string runtime_name(unsigned runtime) {
    for (const auto& row : kRuntimes)
        if (row.bit == runtime) return row.name;
    return "runtime " + std::to_string(runtime);
}

Library::Library(const std::string& path, const std::vector<std::string>& preload) {
    path_ = absolute(path);
    for (const auto& dependency : preload) open_library(absolute(dependency));
    handle_ = open_library(path_);
    if (!look_up(handle_, "dnnl_version", api_.version))
        unavailable("'" + path_ + "' is not a libdnnl: it has no function dnnl_version");
    const dnnl_version_t& v = *api_.version();
    version_ = {v.major, v.minor, v.patch};
    const auto text = version_.str();
    if (v.major != kMinMajor || v.minor < kMinMinor)
        unavailable("'" + path_ + "' is oneDNN " + text + ", needed is 3.2 or a later 3.x");
    hash_ = v.hash ? v.hash : "";
    cpu_runtime_ = v.cpu_runtime;
    gpu_runtime_ = v.gpu_runtime;

#define DGO_LOAD(name)                                                                                \
    if (!look_up(handle_, "dnnl_" #name, api_.name))                                                  \
        unavailable("'" + path_ + "' (oneDNN " + text + ") lacks the function dnnl_" #name             \
            ": it was built without the Graph API");
    DGO_REQUIRED_FUNCTIONS(DGO_LOAD)
#undef DGO_LOAD
#define DGO_LOAD(name, ...) look_up(handle_, "dnnl_" #name, api_.name);
    DGO_BUILD_FUNCTIONS(DGO_LOAD)
    DGO_NEWER_FUNCTIONS(DGO_LOAD)
#undef DGO_LOAD

    // Messages of the library go to stdout by default, and its cache of compiled partitions grows without a bound.
    // In a forked child too: a library that is new has no locks that anybody could hold.
    if (const char* const asked = asked_verbosity())
        verbose_ = verbosity_level(asked);
    else
        guarded("dnnl_set_verbose", [&] { return api_.set_verbose(0); });
    guarded("dnnl_graph_set_compiled_partition_cache_capacity",
            [&] { return api_.graph_set_compiled_partition_cache_capacity(0); });
    keep_recent_primitives();
    drop_clean_pages(reinterpret_cast<const void*>(api_.version));
}

void Library::set_verbose(int level) const {
    DGO_CALL(api_, set_verbose, level);
    verbose_ = level;
}

std::vector<std::pair<std::string, bool>> Library::functions() const {
    return {
#define DGO_ENTRY(name, ...) {"dnnl_" #name, api_.name != nullptr},
        DGO_REQUIRED_FUNCTIONS(DGO_ENTRY) DGO_BUILD_FUNCTIONS(DGO_ENTRY) DGO_NEWER_FUNCTIONS(DGO_ENTRY)
#undef DGO_ENTRY
    };
}

void* Library::find(const char* symbol) const { return dlsym(handle_, symbol); }

std::size_t Library::engine_count(dnnl_engine_kind_t kind) const {
    return guarded("dnnl_engine_get_count", [&] { return api_.engine_get_count(kind); });
}

int Library::effective_cpu_isa() const {
    return int(guarded("dnnl_get_effective_cpu_isa", api_.get_effective_cpu_isa));
}

void Library::constants_dropped(dnnl_engine_kind_t kind, std::size_t bytes) const noexcept {
    constexpr std::size_t kTooMuch = std::size_t{16} << 20;
    if (!bytes || fork_guard::is_broken()) return;
    if (dropped_constants_.fetch_add(bytes, std::memory_order_relaxed) + bytes >= kTooMuch) drop_constants(kind);
}

void Library::drop_constants(dnnl_engine_kind_t kind) const noexcept {
    const auto get = api_.graph_get_constant_tensor_cache_capacity;
    const auto set = api_.graph_set_constant_tensor_cache_capacity;
    dropped_constants_.store(0, std::memory_order_relaxed);
    std::size_t capacity = 0;
    // setting a capacity empties the cache, also where it does not change
    if (get && set && get(kind, &capacity) == dnnl_success && capacity) set(kind, capacity);
}

std::shared_lock<std::shared_mutex> Library::compiling() const {
    const std::lock_guard turn(turn_);
    return std::shared_lock(compiling_);
}

// A smaller cache than usual (ONEDNN_PRIMITIVE_CACHE_CAPACITY) evicts while it is in use; see compiling().
void Library::keep_recent_primitives() const {
    constexpr int kUsual = 1024;
    if (version_.at_least(3, 4)) return;
    int capacity = 0;
    guarded("dnnl_get_primitive_cache_capacity", [&] { return api_.get_primitive_cache_capacity(&capacity); });
    if (capacity > 0 && capacity < kUsual)
        guarded("dnnl_set_primitive_cache_capacity", [&] { return api_.set_primitive_cache_capacity(kUsual); });
}

void Library::drop_caches() const noexcept {
    if (fork_guard::is_broken()) return;
    const fork_guard::Busy busy;
    const std::lock_guard turn(turn_);
    const std::lock_guard none_compiles(compiling_);
    // only a capacity of 0 empties these caches
    const auto empty = [](auto get, auto set) {
        int capacity = 0;
        if (get(&capacity) == dnnl_success && capacity && set(0) == dnnl_success) set(capacity);
    };
    empty(api_.get_primitive_cache_capacity, api_.set_primitive_cache_capacity);
    empty(api_.graph_get_compiled_partition_cache_capacity, api_.graph_set_compiled_partition_cache_capacity);
    for (const dnnl_engine_kind_t kind : {dnnl_cpu, dnnl_gpu}) drop_constants(kind);
}

void Library::missing(const char* symbol, const char* since) const {
    fail(ErrorKind::unsupported,
         std::string(symbol) + " needs oneDNN " + since + "; '" + path_ + "' is " + version_.str());
}

}  // namespace dgo
