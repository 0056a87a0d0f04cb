// Additions to libdnnl since 3.2, whose headers this extension is built against. The library's enums and structs
// are append-only within major version 3, so newer values are only numbers the old types have room for.
#pragma once

#include <cstddef>
#include <cstdint>

#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_graph.h>
#include <oneapi/dnnl/dnnl_graph_sycl.h>
#include <oneapi/dnnl/dnnl_sycl.h>

namespace dgo {

inline constexpr int kMinMajor = 3, kMinMinor = 2;

namespace abi {

// op kinds: 3.6, 3.7, 3.11, 3.12
inline constexpr int op_group_norm = 83, op_gen_index = 84, op_greater_equal = 85, op_rms_norm = 86, op_dropout = 87;
// op attributes: 3.7, 3.10
inline constexpr int attr_group_shape = 0x4E, attr_accumulation_mode = 0x88;
// data types
inline constexpr int f8_e5m2 = 9, f8_e4m3 = 10, s4 = 11, u4 = 12, e8m0 = 13, f4_e2m1 = 14, f4_e3m0 = 15, s64 = 16;
inline constexpr int isa_avx10_2 = 0x201ff, isa_avx10_2_amx_2 = 0x22fff;
// a tensor property, 3.9: the value lives in host memory whatever the engine
inline constexpr int property_host_scalar = 3;
// dump modes, 3.11: a bit mask
enum class DumpMode : int { none = 0, subgraph = 1, graph = 2 };

using capacity_set = dnnl_status_t (*)(dnnl_engine_kind_t, std::size_t);
using capacity_get = dnnl_status_t (*)(dnnl_engine_kind_t, std::size_t*);
using tensor_logical = dnnl_status_t (*)(const_dnnl_graph_tensor_t, dnnl_graph_logical_tensor_t*);
using tensor_scalar = dnnl_status_t (*)(dnnl_graph_tensor_t*, const dnnl_graph_logical_tensor_t*, void*);
using fpmath_set = dnnl_status_t (*)(dnnl_graph_graph_t, dnnl_fpmath_mode_t, int);
using fpmath_get = dnnl_status_t (*)(dnnl_graph_graph_t, dnnl_fpmath_mode_t*, int*);
using deterministic_set = dnnl_status_t (*)(dnnl_graph_graph_t, int);
using deterministic_get = dnnl_status_t (*)(dnnl_graph_graph_t, int*);
using dump_mode = dnnl_status_t (*)(int);
using execute_v2 = dnnl_status_t (*)(const_dnnl_graph_compiled_partition_t, dnnl_stream_t, std::size_t,
                                     const_dnnl_graph_tensor_t*, std::size_t, const_dnnl_graph_tensor_t*,
                                     const_dnnl_graph_tensor_t);
using scratchpad_get = dnnl_status_t (*)(const_dnnl_graph_compiled_partition_t, dnnl_graph_logical_tensor_t*);
using sycl_execute_v2 = dnnl_status_t (*)(const_dnnl_graph_compiled_partition_t, dnnl_stream_t, std::size_t,
                                          const_dnnl_graph_tensor_t*, std::size_t, const_dnnl_graph_tensor_t*,
                                          const_dnnl_graph_tensor_t, const void*, void*);

}  // namespace abi
}  // namespace dgo
