// An OpenMP of T threads on one core, to be preloaded: what T cores would take, by the time of each part.
//
// A region of static parts runs them one after the other, each a fiber with a clock of its own; at a barrier all clocks
// become the latest. A region with a dynamic loop, once it is known by its first run, is run by one fiber, as a thread's
// scratch is in its core's cache; cores.py gives each chunk to the thread that would have asked for it. Nothing runs at
// the same time: what cores do to each other, by memory's bandwidth and shared caches, is not in these times. Only the
// package's teams (bindings/kernels/team.hpp) and the entry points that GCC emits for oneDNN are here. Seconds are the
// thread's alone, so other processes do not count.
#define _GNU_SOURCE
#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum { MOST_THREADS = 256, STACK = 1 << 20, LOOPS = 4, MOST_REGIONS = 1 << 16, MOST_SPANS = 1 << 20, KNOWN = 64 };

typedef struct {
    double serial;    // seconds of the caller since the region before
    double time;      // the answer to someone who asked for the time
    double threads;   // 0: someone asked for the time
    double first, end;  // its spans
    double own;  // whether a team of the package runs it
} Region;

// Seconds of a thread, or of one of these; at a barrier, none.
enum { CHUNK = -1, EACH = -2, BARRIER = -3 };
typedef struct {
    double of, seconds;
} Span;

typedef struct {
    int64_t next, end, step, chunk, sequence;
} Loop;

enum State { READY, WAITING, DONE };

typedef struct {
    ucontext_t context;
    void* stack;
    double clock;
    enum State state;
    int64_t loops;  // that it began
    Loop *loop, fixed;
    int level;  // regions within the region
    _Alignas(64) unsigned char tiles[64];
} Fiber;

static Fiber fibers[MOST_THREADS];
static Loop loops[LOOPS];
static void (*function)(void*);
static void* argument;
static const void* name;  // of what the region runs
static int threads = 1, team = 1, current = 0;
static bool active = false, ending = false;  // ending: the first thread has
static double began, left;  // when the current fiber went on; when the last region ended
static double asking, asked;
static Region region, *regions;
static Span* spans;
static int64_t count = 0, span_count = 0;
static bool amx = false, recording = false;

// Seconds of this process alone, so that others do not count, less what asking takes.
static double now(void) {
    struct timespec t;
    syscall(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, &t);
    asked += asking;
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec - asked;
}

#ifdef __x86_64__
__attribute__((target("amx-tile"))) static void keep_tiles(Fiber* fiber) { _tile_storeconfig(fiber->tiles); }
__attribute__((target("amx-tile"))) static void load_tiles(const Fiber* fiber) {
    if (fiber->tiles[0])
        _tile_loadconfig(fiber->tiles);
    else
        _tile_release();
}
#endif

static void add_span(int of, double seconds) {
    if (recording && span_count < MOST_SPANS) spans[span_count++] = (Span){of, seconds};
}

static void pause_clock(void) {
    const double spent = now() - began;
    fibers[current].clock += spent;
    add_span(current, spent);
}

// Of a region that one fiber runs for all threads.
static struct {
    bool on, in_chunk, looped;
} replay;
static const void* known[KNOWN];  // names of regions with dynamic loops
static int known_count = 0;

static bool is_known(const void* of) {
    for (int i = 0; i < known_count; ++i)
        if (known[i] == of) return true;
    return false;
}

static void learn(void) {
    if (!is_known(name) && known_count < KNOWN) known[known_count++] = name;
}

// Tells whose the seconds since the last call are: a chunk's, before the first loop each thread's, as every thread prepares
// its scratch, and else, of static loops, a share of each.
static void replay_clock(void) {
    const double spent = now() - began;
    if (replay.in_chunk)
        add_span(CHUNK, spent);
    else
        add_span(EACH, replay.looped ? spent / region.threads : spent);
    began = now();
}

// Goes on with the fiber whose clock is least.
static void switch_fiber(void) {
    int next = -1;
    for (int i = 0; i < team; ++i)
        if (fibers[i].state == READY && (next < 0 || fibers[i].clock < fibers[next].clock)) next = i;
    if (next < 0) {
        fprintf(stderr, "cores: all threads wait\n");
        abort();
    }
    if (next != current) {
        Fiber* const before = &fibers[current];
        if (amx) keep_tiles(before);
        current = next;
        swapcontext(&before->context, &fibers[next].context);
        if (amx) load_tiles(&fibers[current]);
    }
}

static void yield_to_others(void) {
    pause_clock();
    switch_fiber();
    began = now();
}

// The threads that have not ended all wait: they go on at the latest clock.
static void release_if_all_wait(void) {
    double latest = 0;
    for (int i = 0; i < team; ++i) {
        if (fibers[i].state == READY) return;
        if (fibers[i].clock > latest) latest = fibers[i].clock;
    }
    if (!ending) add_span(BARRIER, 0);
    for (int i = 0; i < team; ++i)
        if (fibers[i].state == WAITING) {
            fibers[i].clock = latest;
            fibers[i].state = READY;
        }
}

static void body(void) {
    if (amx) load_tiles(&fibers[current]);
    began = now();
    function(argument);
    pause_clock();
    fibers[current].state = DONE;
    release_if_all_wait();
    switch_fiber();
}

static void record(void) {
    region.end = (double)span_count;
    if (recording && count < MOST_REGIONS) regions[count++] = region;
    left = now();
}

int omp_get_num_threads(void);
int omp_get_thread_num(void);

void GOMP_barrier(void) {
    if (!active || fibers[current].level > 0) return;
    if (replay.on) {
        replay_clock();
        add_span(BARRIER, 0);
        return;
    }
    pause_clock();
    fibers[current].state = WAITING;
    release_if_all_wait();
    switch_fiber();
    began = now();
}

// A body of the package's teams.
typedef struct {
    void (*body)(void*, int, int);
    void* data;
} Job;

static void run_job(void* data) {
    const Job* const job = data;
    job->body(job->data, omp_get_thread_num(), omp_get_num_threads());
}

void GOMP_parallel_start(void (*fn)(void*), void* data, unsigned wanted) {
    if (active) {
        ++fibers[current].level;
        return;
    }
    team = wanted ? (int)wanted : threads;
    if (team > MOST_THREADS) abort();
    function = fn;
    argument = data;
    name = fn == run_job ? (const void*)((const Job*)data)->body : (const void*)fn;
    region = (Region){.serial = now() - left, .threads = team, .first = (double)span_count, .own = fn == run_job};
    replay.looped = replay.in_chunk = false;
    replay.on = team > 1 && is_known(name);
    if (replay.on) team = 1;
    for (int i = 0; i < LOOPS; ++i) loops[i].sequence = -1;
    for (int i = 0; i < team; ++i) {
        Fiber* const fiber = &fibers[i];
        fiber->clock = 0;
        fiber->state = READY;
        fiber->loops = 0;
        fiber->level = 0;
        if (i == 0) continue;
        __builtin_memset(fiber->tiles, 0, sizeof fiber->tiles);
        if (!fiber->stack)
            fiber->stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        getcontext(&fiber->context);
        fiber->context.uc_stack.ss_sp = fiber->stack;
        fiber->context.uc_stack.ss_size = STACK;
        fiber->context.uc_link = NULL;
        makecontext(&fiber->context, body, 0);
    }
    active = true;
    ending = false;
    current = 0;
    began = now();
}

void GOMP_parallel_end(void) {
    if (fibers[current].level > 0) {
        --fibers[current].level;
        return;
    }
    if (replay.on) {
        replay_clock();
        active = false;
        record();
        return;
    }
    // the caller is the first thread, and waits for the others
    ending = true;
    pause_clock();
    fibers[0].state = WAITING;
    release_if_all_wait();
    while (true) {
        bool all = true;
        for (int i = 1; i < team; ++i) all = all && fibers[i].state == DONE;
        if (all) break;
        if (fibers[0].state == READY) fibers[0].state = WAITING;
        release_if_all_wait();
        switch_fiber();
    }
    active = false;
    record();
}

void GOMP_parallel(void (*fn)(void*), void* data, unsigned wanted, unsigned flags) {
    (void)flags;
    GOMP_parallel_start(fn, data, wanted);
    fn(data);
    GOMP_parallel_end();
}

void dgo_team_run(int wanted, void (*body)(void*, int, int), void* data) {
    Job job = {body, data};
    GOMP_parallel(run_job, &job, (unsigned)wanted, 0);
}
void dgo_team_barrier(void) { GOMP_barrier(); }
void dgo_team_stand(int wanted, void (*steps)(void*), void* data) {
    (void)wanted;
    steps(data);
}

int64_t dgo_team_next(int64_t* next, int64_t end) {
    const bool shared = active && fibers[current].level == 0 && region.threads > 1;
    if (shared) learn();
    if (shared && replay.on) {
        replay_clock();
        replay.looped = true;
        replay.in_chunk = *next < end;
    } else if (shared) {
        yield_to_others();
    }
    return (*next)++;
}

static bool next_chunk(long* first, long* last) {
    Fiber* const fiber = &fibers[current];
    Loop* const loop = fiber->loop;
    if (active && fiber->level == 0 && replay.on) {
        replay_clock();
        replay.looped = true;
        replay.in_chunk = loop->next < loop->end;
    } else if (active && fiber->level == 0) {
        yield_to_others();
    }
    if (loop->next >= loop->end) return false;
    *first = loop->next;
    loop->next += loop->chunk * loop->step;
    *last = loop->next < loop->end ? loop->next : loop->end;
    return true;
}

// Loops count up in this package.
bool GOMP_loop_nonmonotonic_dynamic_start(long first, long end, long step, long chunk, long* begin, long* last) {
    Fiber* const fiber = &fibers[current];
    static Loop nested;
    if (!active || fiber->level > 0) {
        nested = (Loop){first, end, step, chunk, 0};
        fiber->loop = &nested;
    } else {
        learn();
        const int64_t sequence = fiber->loops++;
        fiber->loop = &loops[sequence % LOOPS];
        if (fiber->loop->sequence != sequence) *fiber->loop = (Loop){first, end, step, chunk, sequence};
    }
    return next_chunk(begin, last);
}
bool GOMP_loop_nonmonotonic_dynamic_next(long* begin, long* last) { return next_chunk(begin, last); }
bool GOMP_loop_dynamic_start(long first, long end, long step, long chunk, long* begin, long* last) {
    return GOMP_loop_nonmonotonic_dynamic_start(first, end, step, chunk, begin, last);
}
bool GOMP_loop_dynamic_next(long* begin, long* last) { return next_chunk(begin, last); }

// Static loops of which the compiler leaves the division to the library: `chunk` 0 is one part each.
bool GOMP_loop_static_next(long* begin, long* last) {
    Fiber* const fiber = &fibers[current];
    Loop* const loop = &fiber->fixed;
    if (loop->next >= loop->end) return false;
    *begin = loop->next;
    *last = loop->next + loop->chunk;
    if (*last > loop->end) *last = loop->end;
    loop->next += loop->sequence;
    return true;
}
bool GOMP_loop_static_start(long first, long end, long step, long chunk, long* begin, long* last) {
    const int64_t size = omp_get_num_threads(), rank = omp_get_thread_num();
    if (chunk == 0) chunk = ((end - first) / step + size - 1) / size;
    fibers[current].fixed = (Loop){first + rank * chunk * step, end, step, chunk * step, size * chunk * step};
    return GOMP_loop_static_next(begin, last);
}
void GOMP_loop_end(void) { GOMP_barrier(); }
void GOMP_loop_end_nowait(void) {}
void GOMP_critical_name_start(void** name) { (void)name; }
void GOMP_critical_name_end(void** name) { (void)name; }

int omp_get_max_threads(void) { return threads; }
int omp_get_thread_limit(void) { return MOST_THREADS; }
int omp_get_num_threads(void) { return active && fibers[current].level == 0 ? team : 1; }
int omp_get_thread_num(void) { return active && fibers[current].level == 0 ? current : 0; }
int omp_in_parallel(void) { return active && region.threads > 1; }
void omp_set_num_threads(int n) {
    if (n > 0) threads = n < MOST_THREADS ? n : MOST_THREADS;
}


// The executor asks for the time before and after each step that it profiles: a region of no threads marks that.
int clock_gettime(clockid_t clock, struct timespec* time) {
    const int error = (int)syscall(SYS_clock_gettime, clock, time);
    if (clock == CLOCK_MONOTONIC && recording && !active) {
        region = (Region){.serial = now() - left, .first = (double)span_count};
        region.time = (double)time->tv_sec + 1e-9 * (double)time->tv_nsec;
        record();
    }
    return error;
}

// For cores.py.

// Returns the seconds of some multiplications, which take longer while another thread works on this core.
__attribute__((target_clones("avx512f", "avx2", "default"))) double cores_probe(void) {
    enum { SUMS = 1024, ROUNDS = 1000 };
    static volatile float result;
    float sums[SUMS] = {0};
    const double before = now();
    for (int round = 0; round < ROUNDS; ++round)
        for (int i = 0; i < SUMS; ++i) sums[i] = sums[i] * 0.5f + 1.0f;
    const double after = now();
    result = sums[0];
    return after - before;
}
void cores_begin(int tiles) {
    enum { TIMES = 1000 };
    amx = tiles;
    if (!regions) {
        regions = calloc(MOST_REGIONS, sizeof *regions);
        spans = calloc(MOST_SPANS, sizeof *spans);
        const double before = now();
        for (int i = 1; i < TIMES; ++i) now();
        asking = (now() - before) / TIMES;
    }
    count = span_count = 0;
    asked = 0;
    recording = true;
    left = now();
}
int64_t cores_end(const Region** all, const Span** of_all) {
    recording = false;
    *all = regions;
    *of_all = spans;
    return count;
}
