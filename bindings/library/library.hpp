// One loaded libdnnl: the table of its functions, its version and its runtimes.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include "library/abi.hpp"
#include "library/status.hpp"

// Functions every library from 3.2 on has; their types come from the build headers.
#define DGO_REQUIRED_FUNCTIONS(X)                \
    X(version)                                   \
    X(set_verbose)                               \
    X(get_effective_cpu_isa)                     \
    X(set_max_cpu_isa)                           \
    X(get_cpu_isa_hints)                         \
    X(set_cpu_isa_hints)                         \
    X(get_default_fpmath_mode)                   \
    X(set_default_fpmath_mode)                   \
    X(set_jit_dump)                              \
    X(set_jit_profiling_flags)                   \
    X(set_jit_profiling_jitdumpdir)              \
    X(get_primitive_cache_capacity)              \
    X(set_primitive_cache_capacity)              \
    X(engine_get_count)                          \
    X(engine_create)                             \
    X(engine_get_kind)                           \
    X(engine_destroy)                            \
    X(stream_create)                             \
    X(stream_wait)                               \
    X(stream_destroy)                            \
    X(memory_desc_create_with_tag)               \
    X(memory_desc_create_with_strides)           \
    X(memory_desc_get_size)                      \
    X(memory_desc_destroy)                       \
    X(memory_create)                             \
    X(memory_get_data_handle)                    \
    X(memory_set_data_handle)                    \
    X(memory_map_data)                           \
    X(memory_unmap_data)                         \
    X(memory_destroy)                            \
    X(sgemm)                                     \
    X(graph_allocator_create)                    \
    X(graph_allocator_destroy)                   \
    X(graph_make_engine_with_allocator)          \
    X(graph_logical_tensor_init)                 \
    X(graph_logical_tensor_init_with_dims)       \
    X(graph_logical_tensor_init_with_strides)    \
    X(graph_logical_tensor_get_mem_size)         \
    X(graph_logical_tensor_is_equal)             \
    X(graph_tensor_create)                       \
    X(graph_tensor_destroy)                      \
    X(graph_tensor_get_data_handle)              \
    X(graph_tensor_set_data_handle)              \
    X(graph_tensor_get_engine)                   \
    X(graph_op_create)                           \
    X(graph_op_destroy)                          \
    X(graph_op_add_input)                        \
    X(graph_op_add_output)                       \
    X(graph_op_set_attr_f32)                     \
    X(graph_op_set_attr_bool)                    \
    X(graph_op_set_attr_s64)                     \
    X(graph_op_set_attr_str)                     \
    X(graph_op_get_id)                           \
    X(graph_op_get_kind)                         \
    X(graph_partition_create_with_op)            \
    X(graph_partition_destroy)                   \
    X(graph_partition_get_op_num)                \
    X(graph_partition_get_ops)                   \
    X(graph_partition_get_id)                    \
    X(graph_partition_compile)                   \
    X(graph_partition_get_input_ports_num)       \
    X(graph_partition_get_input_ports)           \
    X(graph_partition_get_output_ports_num)      \
    X(graph_partition_get_output_ports)          \
    X(graph_partition_is_supported)              \
    X(graph_partition_get_engine_kind)           \
    X(graph_compiled_partition_create)           \
    X(graph_compiled_partition_execute)          \
    X(graph_compiled_partition_destroy)          \
    X(graph_compiled_partition_query_logical_tensor) \
    X(graph_compiled_partition_get_inplace_ports) \
    X(graph_graph_create)                        \
    X(graph_graph_create_with_fpmath_mode)       \
    X(graph_graph_destroy)                       \
    X(graph_add_op)                              \
    X(graph_graph_finalize)                      \
    X(graph_graph_is_finalized)                  \
    X(graph_graph_filter)                        \
    X(graph_graph_get_partition_num)             \
    X(graph_graph_get_partitions)                \
    X(graph_get_compiled_partition_cache_capacity) \
    X(graph_set_compiled_partition_cache_capacity) \
    X(graph_set_constant_tensor_cache)           \
    X(graph_get_constant_tensor_cache)

// Functions of some builds only, declared in the build headers.
#define DGO_BUILD_FUNCTIONS(X)                        \
    X(gemm_u8s8s32)                                   \
    X(graph_sycl_interop_allocator_create)            \
    X(graph_sycl_interop_make_engine_with_allocator)  \
    X(graph_sycl_interop_compiled_partition_execute)  \
    X(sycl_interop_engine_create)                     \
    X(sycl_interop_engine_get_context)                \
    X(sycl_interop_engine_get_device)                 \
    X(sycl_interop_memory_create)                     \
    X(sycl_interop_memory_get_memory_kind)            \
    X(sycl_interop_memory_set_buffer)                 \
    X(sycl_interop_primitive_execute)                 \
    X(sycl_interop_stream_create)                     \
    X(sycl_interop_stream_get_queue)

// Functions that came after 3.2, with types of our own; OpenCL interop is only looked up.
#define DGO_NEWER_FUNCTIONS(X)                                                             \
    X(graph_set_constant_tensor_cache_capacity, abi::capacity_set)                         \
    X(graph_get_constant_tensor_cache_capacity, abi::capacity_get)                         \
    X(graph_tensor_get_logical_tensor, abi::tensor_logical)                                \
    X(graph_tensor_create_scalar, abi::tensor_scalar)                                      \
    X(graph_graph_set_fpmath_mode, abi::fpmath_set)                                        \
    X(graph_graph_get_fpmath_mode, abi::fpmath_get)                                        \
    X(graph_graph_set_deterministic, abi::deterministic_set)                               \
    X(graph_graph_get_deterministic, abi::deterministic_get)                               \
    X(graph_set_dump_mode, abi::dump_mode)                                                 \
    X(graph_compiled_partition_execute_v2, abi::execute_v2)                                \
    X(graph_compiled_partition_get_scratchpad_logical_tensor, abi::scratchpad_get)         \
    X(graph_sycl_interop_compiled_partition_execute_v2, abi::sycl_execute_v2)              \
    X(graph_ocl_interop_allocator_create, void*)                                           \
    X(graph_ocl_interop_make_engine_with_allocator, void*)                                 \
    X(graph_ocl_interop_make_engine_from_cache_blob_with_allocator, void*)                 \
    X(graph_ocl_interop_compiled_partition_execute, void*)                                 \
    X(graph_ocl_interop_compiled_partition_execute_v2, void*)

namespace dgo {

inline constexpr unsigned kRuntimeSequential = 1, kRuntimeOmp = 2, kRuntimeSycl = 512;  // of the dnnl_runtime bits

// Members are the C names without their "dnnl_" prefix; those of the last two lists may be null.
struct Api {
#define DGO_MEMBER(name) decltype(&::dnnl_##name) name = nullptr;
    DGO_REQUIRED_FUNCTIONS(DGO_MEMBER)
    DGO_BUILD_FUNCTIONS(DGO_MEMBER)
#undef DGO_MEMBER
#define DGO_MEMBER(name, type) type name = nullptr;
    DGO_NEWER_FUNCTIONS(DGO_MEMBER)
#undef DGO_MEMBER
};

struct Version {
    int major = 0, minor = 0, patch = 0;
    bool at_least(int want_major, int want_minor) const {
        return std::pair(major, minor) >= std::pair(want_major, want_minor);
    }
    std::string str() const {
        return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
    }
};

class Library {
public:
    // Opens `path` after the libraries in `preload` (dependencies that its own search path does not cover).
    // Stays loaded for the life of the process: its worker threads may outlive every object.
    Library(const std::string& path, const std::vector<std::string>& preload);
    Library(const Library&) = delete;
    Library& operator=(const Library&) = delete;

    const Api& api() const { return api_; }
    const std::string& path() const { return path_; }
    const Version& version() const { return version_; }
    const std::string& hash() const { return hash_; }
    unsigned cpu_runtime() const { return cpu_runtime_; }  // dnnl_runtime bits: 1 sequential, 2 OpenMP, 512 SYCL, ...
    unsigned gpu_runtime() const { return gpu_runtime_; }
    bool has(const char* symbol) const { return find(symbol) != nullptr; }
    // The address of any symbol of the library or of those that it depends on; null if there is none.
    void* find(const char* symbol) const;
    // Every C function of the table, and whether this library has it.
    std::vector<std::pair<std::string, bool>> functions() const;
    std::size_t engine_count(dnnl_engine_kind_t kind) const;
    int effective_cpu_isa() const;  // the number of a dnnl_cpu_isa_t
    // 0: silent, 1: executions, 2: creations as well. What ONEDNN_VERBOSE or DNNL_VERBOSE ask for, until it is set.
    int verbose() const { return verbose_.load(std::memory_order_relaxed); }
    void set_verbose(int level) const;
    // So many bytes of constants were in use by plans that are gone. The library keeps what it has packed of them, so
    // its cache is emptied now and then; plans that live on have their constants packed again.
    void constants_dropped(dnnl_engine_kind_t kind, std::size_t bytes) const noexcept;
    // Empties its caches: primitives with their code, compiled partitions, constants. What plans hold lives on.
    // Waits for the compilations under way.
    void drop_caches() const noexcept;
    // Held while a partition is compiled: its primitives stay in the cache from look-up to creation. Before 3.4, what
    // the look-up gives for a brgemm kernel points to post-ops that are gone. If the primitive is evicted before it is
    // created, its code is made from those: a ReLU is lost, for all who find that code in the cache later.
    std::shared_lock<std::shared_mutex> compiling() const;
    // Throws UnsupportedError naming the first release that has the function.
    template <typename F>
    F need(F function, const char* symbol, const char* since) const {
        if (!function) missing(symbol, since);
        return function;
    }

private:
    void keep_recent_primitives() const;
    void drop_constants(dnnl_engine_kind_t kind) const noexcept;
    [[noreturn]] void missing(const char* symbol, const char* since) const;

    std::string path_, hash_;
    void* handle_ = nullptr;
    Api api_;
    Version version_;
    unsigned cpu_runtime_ = 0, gpu_runtime_ = 0;
    mutable std::atomic<std::size_t> dropped_constants_{0};
    mutable std::atomic<int> verbose_{0};
    mutable std::mutex turn_;  // who waits to drop goes before compilations that come later
    mutable std::shared_mutex compiling_;
};

std::string runtime_name(unsigned runtime);

}  // namespace dgo
