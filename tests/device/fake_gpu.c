// A GPU made of the SYCL CPU engine: an oneDNN library that hands everything on to the real one (REAL, a path), but
// - has one GPU and takes its kind everywhere,
// - keeps memory of the device unreadable for the host, except while a partition runs and in mappings, which are copies,
// - starts partitions at once but runs them when their stream is waited for,
// - has 64 MB of memory,
// - refuses addresses that are not of the device, and touching what a started partition will still use.
// What it refuses is printed to stderr and fails with runtime_error.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { SUCCESS = 0, OUT_OF_MEMORY = 1, RUNTIME_ERROR = 5, CPU = 1, GPU = 2, PLACES = 4096, TENSORS = 64 };
static const size_t ROOM = (size_t)64 << 20;

typedef struct {
    char* data;
    size_t bytes;
} Range;

typedef struct {
    const void *partition, *stream, *scratchpad;
    size_t inputs, outputs;
    const void* tensors[TENSORS];
} Pending;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Range ranges[PLACES];
static Pending pending[PLACES];
static int started, running;
static size_t used;

static void* real(const char* name) {
    static void* library;
    if (!library) library = dlopen(REAL, RTLD_NOW | RTLD_LOCAL);
    void* function = library ? dlsym(library, name) : NULL;
    if (!function) {
        fprintf(stderr, "fake GPU: no %s in %s: %s\n", name, REAL, dlerror());
        abort();
    }
    return function;
}
#define CALL(name, types, ...) (((int(*) types)real(#name))(__VA_ARGS__))

static int refuse(const char* what, const void* address) {
    fprintf(stderr, "fake GPU: %s %p\n", what, address);
    return RUNTIME_ERROR;
}

static Range* range_of(const void* address) {
    for (int i = 0; i < PLACES; ++i)
        if (ranges[i].data && (const char*)address >= ranges[i].data &&
            (const char*)address < ranges[i].data + ranges[i].bytes)
            return &ranges[i];
    return NULL;
}

static void protect(int protection) {
    for (int i = 0; i < PLACES; ++i)
        if (ranges[i].data) mprotect(ranges[i].data, ranges[i].bytes, protection);
}

static void enter(void) {
    if (running++ == 0) protect(PROT_READ | PROT_WRITE);
}
static void leave(void) {
    if (--running == 0) protect(PROT_NONE);
}

static void* handle_of(const void* tensor) {
    void* data = NULL;
    CALL(dnnl_graph_tensor_get_data_handle, (const void*, void**), tensor, &data);
    return data;
}

static int in_use(const Range* range, const void* tensor) {
    for (int p = 0; p < started; ++p)
        for (size_t t = 0; t < pending[p].inputs + pending[p].outputs; ++t)
            if (pending[p].tensors[t] == tensor || (range && range_of(handle_of(pending[p].tensors[t])) == range))
                return 1;
    return 0;
}

// -- engines ---

size_t dnnl_engine_get_count(int kind) {
    return kind == GPU ? 1 : ((size_t(*)(int))real("dnnl_engine_get_count"))(kind);
}
int dnnl_engine_create(void** engine, int kind, size_t index) {
    (void)kind;
    return CALL(dnnl_engine_create, (void**, int, size_t), engine, CPU, index);
}
int dnnl_graph_graph_create(void** graph, int kind) {
    (void)kind;
    return CALL(dnnl_graph_graph_create, (void**, int), graph, CPU);
}
int dnnl_graph_graph_create_with_fpmath_mode(void** graph, int kind, int mode) {
    (void)kind;
    return CALL(dnnl_graph_graph_create_with_fpmath_mode, (void**, int, int), graph, CPU, mode);
}
int dnnl_graph_partition_create_with_op(void** partition, const void* op, int kind) {
    (void)kind;
    return CALL(dnnl_graph_partition_create_with_op, (void**, const void*, int), partition, op, CPU);
}
int dnnl_graph_partition_get_engine_kind(const void* partition, int* kind) {
    (void)partition;
    *kind = GPU;
    return SUCCESS;
}

// -- memory ---

typedef struct {
    void* memory;
    char* data;
    size_t bytes;
    int owned;
} Named;
static Named named[PLACES];

static Named* named_of(const void* memory) {
    for (int i = 0; i < PLACES; ++i)
        if (named[i].memory == memory) return &named[i];
    return NULL;
}

int dnnl_sycl_interop_memory_create(void** memory, const void* desc, void* engine, int kind, void* data) {
    const size_t bytes = ((size_t(*)(const void*))real("dnnl_memory_desc_get_size"))(desc);
    const int owned = data == (void*)-1;
    if (kind != 0) return refuse("memory of another kind than USM", data);
    pthread_mutex_lock(&lock);
    int status = SUCCESS;
    if (owned) {
        data = bytes > ROOM - used ? MAP_FAILED : mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (data == MAP_FAILED) status = OUT_OF_MEMORY;
        for (int i = 0; i < PLACES && status == SUCCESS; ++i)
            if (!ranges[i].data) {
                ranges[i] = (Range){data, (bytes + 4095) / 4096 * 4096};
                break;
            }
        if (status == SUCCESS) used += range_of(data)->bytes;
        if (running && status == SUCCESS) mprotect(data, bytes, PROT_READ | PROT_WRITE);
    } else if (!range_of(data)) {
        status = refuse("memory of the host given as memory of the device:", data);
    }
    if (status == SUCCESS)
        status = CALL(dnnl_sycl_interop_memory_create, (void**, const void*, void*, int, void*), memory, desc, engine,
            kind, data);
    if (status == SUCCESS) *named_of(NULL) = (Named){*memory, data, bytes, owned};
    pthread_mutex_unlock(&lock);
    return status;
}

int dnnl_memory_map_data(const void* memory, void** mapped) {
    pthread_mutex_lock(&lock);
    const Named* found = named_of(memory);
    int status = found ? SUCCESS : refuse("mapping of unknown memory", memory);
    if (found && in_use(range_of(found->data), NULL))
        status = refuse("the host reads what a partition is still to use:", found->data);
    if (status == SUCCESS) {
        *mapped = malloc(found->bytes + 1);
        enter();
        memcpy(*mapped, found->data, found->bytes);
        leave();
    }
    pthread_mutex_unlock(&lock);
    return status;
}

int dnnl_memory_unmap_data(const void* memory, void* mapped) {
    pthread_mutex_lock(&lock);
    const Named* found = named_of(memory);
    enter();
    memcpy(found->data, mapped, found->bytes);
    leave();
    free(mapped);
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}

int dnnl_memory_destroy(void* memory) {
    pthread_mutex_lock(&lock);
    Named* found = named_of(memory);
    int status = SUCCESS;
    if (memory && found) {
        Range* range = range_of(found->data);
        if (found->owned && in_use(range, NULL)) status = refuse("freed while a partition is to use it:", found->data);
        if (found->owned) {
            munmap(range->data, range->bytes);
            used -= range->bytes;
            range->data = NULL;
        }
        *found = (Named){0};
    }
    pthread_mutex_unlock(&lock);
    const int other = CALL(dnnl_memory_destroy, (void*), memory);
    return status ? status : other;
}

// -- tensors and execution ---

static int check(const void* data) {
    return range_of(data) ? SUCCESS : refuse("a tensor on memory of the host:", data);
}

int dnnl_graph_tensor_create(void** tensor, const void* logical, void* engine, void* data) {
    pthread_mutex_lock(&lock);
    const int status = check(data);
    pthread_mutex_unlock(&lock);
    if (status) return status;
    return CALL(dnnl_graph_tensor_create, (void**, const void*, void*, void*), tensor, logical, engine, data);
}

int dnnl_graph_tensor_set_data_handle(void* tensor, void* data) {
    pthread_mutex_lock(&lock);
    int status = check(data);
    if (in_use(NULL, tensor)) status = refuse("a tensor is bound anew before its partition ran:", tensor);
    pthread_mutex_unlock(&lock);
    return status ? status : CALL(dnnl_graph_tensor_set_data_handle, (void*, void*), tensor, data);
}

int dnnl_graph_compiled_partition_execute_v2(const void* partition, void* stream, size_t inputs, const void** in,
    size_t outputs, const void** out, const void* scratchpad) {
    pthread_mutex_lock(&lock);
    Pending* next = &pending[started++];
    *next = (Pending){partition, stream, scratchpad, inputs, outputs, {0}};
    memcpy(next->tensors, in, inputs * sizeof *in);
    memcpy(next->tensors + inputs, out, outputs * sizeof *out);
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}

int dnnl_graph_compiled_partition_execute(const void* partition, void* stream, size_t inputs, const void** in,
    size_t outputs, const void** out) {
    return dnnl_graph_compiled_partition_execute_v2(partition, stream, inputs, in, outputs, out, NULL);
}

static int run(Pending* p) {
    if (p->scratchpad)
        return CALL(dnnl_graph_compiled_partition_execute_v2,
            (const void*, const void*, size_t, const void**, size_t, const void**, const void*), p->partition,
            p->stream, p->inputs, p->tensors, p->outputs, p->tensors + p->inputs, p->scratchpad);
    return CALL(dnnl_graph_compiled_partition_execute,
        (const void*, const void*, size_t, const void**, size_t, const void**), p->partition, p->stream, p->inputs,
        p->tensors, p->outputs, p->tensors + p->inputs);
}

int dnnl_stream_wait(void* stream) {
    int status = SUCCESS;
    pthread_mutex_lock(&lock);
    enter();
    for (int p = 0; p < started;) {
        if (pending[p].stream != stream) {
            ++p;
            continue;
        }
        if (status == SUCCESS) status = run(&pending[p]);
        memmove(pending + p, pending + p + 1, (size_t)(--started - p) * sizeof *pending);
    }
    const int other = CALL(dnnl_stream_wait, (void*), stream);
    leave();
    pthread_mutex_unlock(&lock);
    return status ? status : other;
}
