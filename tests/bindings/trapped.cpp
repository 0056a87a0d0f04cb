// Preloaded into a process, runs the instructions that this CPU lacks and that own kernels of bf16 and int8 are made of:
// AMX, AVX512-BF16, AVX512-VNNI and AVX-VNNI. The CPU refuses one, the handler of SIGILL does what it would do and goes
// on behind it. So encodings, configurations of tiles and what is read and written are those of the compiled code.
// What the CPU would refuse even if it had AMX ends the process and is told.
//
// Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, of each instruction.
#include <cpuid.h>
#include <fcntl.h>
#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace {

enum Prefix { kNone, k66, kF3, kF2 };

struct Registers {
    uint64_t general[16];  // in the order of their numbers
    alignas(64) uint8_t vector[32][64];
};

struct Instruction {
    bool evex, memory;
    int prefix, opcode, reg, rm, third;  // third: the register in the prefix
    int bytes;  // of a vector
    uint64_t address, step;  // of memory; step: what an index register adds
    const uint8_t* next;
};

[[noreturn]] void refuse(const char* why) {
    char text[200];
    const int length = snprintf(text, sizeof(text), "trapped: %s\n", why);
    if (write(2, text, static_cast<size_t>(length)) < 0) _exit(3);
    signal(SIGILL, SIG_DFL);
    raise(SIGILL);
    _exit(3);
}

void require(bool holds, const char* why) {
    if (!holds) refuse(why);
}

// ---- encodings ------------------------------------------------------------------------------------------------------

// False: no instruction of the second opcode map (0F38) in VEX or EVEX form, of a kind that compilers make of these sets.
bool decode(const uint8_t* at, const uint64_t (&general)[16], Instruction& found) {
    found = {};
    found.evex = at[0] == 0x62;
    if (!found.evex && at[0] != 0xc4) return false;
    const uint8_t first = at[1], second = at[2];
    const int map = first & (found.evex ? 7 : 31);
    if (map != 2 || second & 0x80) return false;  // W is 0 in all of them
    const int high_reg = first & 0x80 ? 0 : 8, high_index = first & 0x40 ? 0 : 8, high_base = first & 0x20 ? 0 : 8;
    found.third = ~second >> 3 & 15;
    found.prefix = second & 3;
    int higher_reg = 0;
    if (found.evex) {
        const uint8_t third = at[3];
        if (!(second & 4) || third & 0x97) return false;  // masks, zeroing, one element for all
        found.bytes = 16 << (third >> 5 & 3);
        found.third += third & 8 ? 0 : 16;
        higher_reg = first & 0x10 ? 0 : 16;
        at += 4;
    } else {
        found.bytes = second & 4 ? 32 : 16;
        at += 3;
    }
    found.opcode = *at++;
    const uint8_t modrm = *at++;
    const int mod = modrm >> 6, low = modrm & 7;
    found.reg = (modrm >> 3 & 7) + high_reg + higher_reg;
    found.memory = mod != 3;
    if (!found.memory) {
        found.rm = low + high_base + (found.evex ? 2 * high_index : 0);
        found.next = at;
        return true;
    }
    bool has_base = true;
    int base = low + high_base;
    if (low == 4) {
        const uint8_t sib = *at++;
        const int index = (sib >> 3 & 7) + high_index;
        if (index != 4) found.step = general[index] << (sib >> 6);
        base = (sib & 7) + high_base;
        has_base = mod != 0 || (sib & 7) != 5;
    } else if (mod == 0 && low == 5) {
        has_base = false;
    }
    int64_t displacement = 0;
    if (mod == 1) {
        displacement = static_cast<int8_t>(*at) * static_cast<int64_t>(found.evex ? found.bytes : 1);
        at += 1;
    } else if (mod == 2 || !has_base) {
        int32_t value;
        memcpy(&value, at, 4);
        displacement = value;
        at += 4;
    }
    const bool from_here = mod == 0 && low == 5;
    found.next = at;
    found.address = static_cast<uint64_t>(displacement) + (from_here  ? reinterpret_cast<uint64_t>(at)
                                                           : has_base ? general[base]
                                                                      : 0);
    return true;
}

// ---- tiles ----------------------------------------------------------------------------------------------------------

struct Tiles {
    bool configured;
    uint8_t shape[64];
    alignas(64) uint8_t data[8][16][64];

    int rows(int t) const { return shape[48 + t]; }
    int bytes(int t) const { return shape[16 + 2 * t]; }
};
thread_local Tiles tiles;
std::atomic<long> configured_threads{0};

void release() {
    if (tiles.configured) --configured_threads;
    memset(static_cast<void*>(&tiles), 0, sizeof(tiles));
}

void configure(const uint8_t* shape) {
    release();
    if (shape[0] == 0) return;
    require(shape[0] == 1, "ldtilecfg: the palette is not 1");
    require(shape[1] == 0, "ldtilecfg: the first row is not 0");
    for (int i = 2; i < 16; ++i) require(shape[i] == 0, "ldtilecfg: reserved bytes are not 0");
    for (int t = 0; t < 16; ++t) {
        const int bytes = shape[16 + 2 * t] + 256 * shape[17 + 2 * t], rows = shape[48 + t];
        require(t < 8 || (bytes == 0 && rows == 0), "ldtilecfg: there are no more than 8 tiles");
        require(bytes <= 64 && rows <= 16, "ldtilecfg: a tile is larger than 16 rows of 64 bytes");
        require((bytes == 0) == (rows == 0), "ldtilecfg: a tile has rows without bytes or bytes without rows");
    }
    memcpy(tiles.shape, shape, 64);
    tiles.configured = true;
    ++configured_threads;
}

void require_tile(int t) {
    require(tiles.configured, "a tile is used, but none is configured");
    require(t < 8 && tiles.rows(t) > 0, "a tile is used that has no configuration");
}

void load(int t, uint64_t address, uint64_t step) {
    require_tile(t);
    memset(tiles.data[t], 0, sizeof(tiles.data[t]));
    for (int r = 0; r < tiles.rows(t); ++r, address += step) {
        memcpy(tiles.data[t][r], reinterpret_cast<const void*>(address), static_cast<size_t>(tiles.bytes(t)));
    }
}

void store(int t, uint64_t address, uint64_t step) {
    require_tile(t);
    for (int r = 0; r < tiles.rows(t); ++r, address += step) {
        memcpy(reinterpret_cast<void*>(address), tiles.data[t][r], static_cast<size_t>(tiles.bytes(t)));
    }
}

// ---- arithmetic -----------------------------------------------------------------------------------------------------

template <class To, class From>
To bits(From from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    memcpy(&to, &from, sizeof(to));
    return to;
}

// Denormal numbers are zeros, in and out.
float flushed(float value) {
    const auto all = bits<uint32_t>(value);
    return (all & 0x7f800000u) == 0 ? bits<float>(all & 0x80000000u) : value;
}

float widened(const uint8_t* at) {
    uint16_t half;
    memcpy(&half, at, 2);
    return flushed(bits<float>(uint32_t{half} << 16));
}

uint16_t narrowed(float value) {
    const auto all = bits<uint32_t>(flushed(value));
    if (value != value) return static_cast<uint16_t>(all >> 16 | 0x40);
    return static_cast<uint16_t>((all + 0x7fff + (all >> 16 & 1)) >> 16);
}

float with_product(float sum, const uint8_t* a, const uint8_t* b) {
    return flushed(__builtin_fmaf(widened(a), widened(b), sum));
}

int32_t with_quad(int32_t sum, const uint8_t* a, bool a_signed, const uint8_t* b, bool b_signed) {
    auto total = static_cast<uint32_t>(sum);
    for (int k = 0; k < 4; ++k) {
        const int left = a_signed ? static_cast<int8_t>(a[k]) : a[k];
        const int right = b_signed ? static_cast<int8_t>(b[k]) : b[k];
        total += static_cast<uint32_t>(left * right);
    }
    return static_cast<int32_t>(total);
}

template <class T>
T get(const uint8_t* at) {
    T value;
    memcpy(&value, at, sizeof(value));
    return value;
}
template <class T>
void put(uint8_t* at, T value) {
    memcpy(at, &value, sizeof(value));
}

// c[m][n] = sum_of(c[m][n], row m of a, column n of b), both in parts of 4 bytes.
template <class T, class SumOf>
void multiply_tiles(int c, int a, int b, SumOf&& sum_of) {
    for (const int t : {c, a, b}) require_tile(t);
    require(c != a && c != b && a != b, "a product of tiles names one of them twice");
    require(tiles.bytes(c) % 4 == 0 && tiles.bytes(a) % 4 == 0, "rows of a tile are no whole 4 bytes");
    require(tiles.rows(c) == tiles.rows(a) && tiles.bytes(a) / 4 == tiles.rows(b) && tiles.bytes(c) == tiles.bytes(b),
            "shapes of a product of tiles do not fit each other");
    for (int m = 0; m < tiles.rows(c); ++m) {
        for (int n = 0; n < tiles.bytes(c); n += 4) {
            uint8_t* to = tiles.data[c][m] + n;
            put(to, sum_of(get<T>(to), tiles.data[a][m], &tiles.data[b][0][n], tiles.rows(b)));
        }
    }
}

// Sums of the first and the second of each pair apart.
void multiply_bf16(const Instruction& i) {
    multiply_tiles<float>(i.reg, i.rm, i.third, [](float sum, const uint8_t* a, const uint8_t* b, int depth) {
        float part[2] = {0, 0};
        for (int k = 0; k < depth; ++k) {
            for (int p = 0; p < 2; ++p) part[p] = with_product(part[p], a + 4 * k + 2 * p, b + 64 * k + 2 * p);
        }
        return flushed(sum + flushed(part[0] + part[1]));
    });
}

template <bool kSignedA, bool kSignedB>
void multiply_bytes(const Instruction& i) {
    multiply_tiles<int32_t>(i.reg, i.rm, i.third, [](int32_t sum, const uint8_t* a, const uint8_t* b, int depth) {
        for (int k = 0; k < depth; ++k) sum = with_quad(sum, a + 4 * k, kSignedA, b + 64 * k, kSignedB);
        return sum;
    });
}

// ---- the instructions -----------------------------------------------------------------------------------------------

// A tile instruction, or one of vectors: what it makes of its destination and two sources.
struct Row {
    const char* name;
    int prefix, opcode;
    bool evex, memory;  // memory: only with an operand there
    void (*tile)(const Instruction&);
    void (*vector)(int bytes, uint8_t* to, const uint8_t* second, const uint8_t* third);
    std::atomic<long> count{0};
};

void dot_quads(int bytes, uint8_t* to, const uint8_t* a, const uint8_t* b) {
    for (int i = 0; i < bytes; i += 4) put(to + i, with_quad(get<int32_t>(to + i), a + i, false, b + i, true));
}

// The second of each pair first.
void dot_pairs(int bytes, uint8_t* to, const uint8_t* a, const uint8_t* b) {
    for (int i = 0; i < bytes; i += 4) {
        const float second = with_product(flushed(get<float>(to + i)), a + i + 2, b + i + 2);
        put(to + i, with_product(second, a + i, b + i));
    }
}

void narrow_two(int bytes, uint8_t* to, const uint8_t* a, const uint8_t* b) {
    uint8_t made[64];
    for (int i = 0; i < bytes; i += 4) {
        put(made + i / 2, narrowed(get<float>(b + i)));
        put(made + bytes / 2 + i / 2, narrowed(get<float>(a + i)));
    }
    memcpy(to, made, static_cast<size_t>(bytes));
}

Row kRows[] = {
    {"ldtilecfg", kNone, 0x49, false, true,
     [](const Instruction& i) { configure(reinterpret_cast<const uint8_t*>(i.address + i.step)); }, nullptr},
    {"sttilecfg", k66, 0x49, false, true,
     [](const Instruction& i) { memcpy(reinterpret_cast<void*>(i.address + i.step), tiles.shape, 64); }, nullptr},
    {"tilerelease", kNone, 0x49, false, false, [](const Instruction&) { release(); }, nullptr},
    {"tilezero", kF2, 0x49, false, false,
     [](const Instruction& i) {
         require_tile(i.reg);
         memset(tiles.data[i.reg], 0, sizeof(tiles.data[0]));
     },
     nullptr},
    {"tileloadd", kF2, 0x4b, false, true, [](const Instruction& i) { load(i.reg, i.address, i.step); }, nullptr},
    {"tileloaddt1", k66, 0x4b, false, true, [](const Instruction& i) { load(i.reg, i.address, i.step); }, nullptr},
    {"tilestored", kF3, 0x4b, false, true, [](const Instruction& i) { store(i.reg, i.address, i.step); }, nullptr},
    {"tdpbf16ps", kF3, 0x5c, false, false, multiply_bf16, nullptr},
    {"tdpbssd", kF2, 0x5e, false, false, multiply_bytes<true, true>, nullptr},
    {"tdpbsud", kF3, 0x5e, false, false, multiply_bytes<true, false>, nullptr},
    {"tdpbusd", k66, 0x5e, false, false, multiply_bytes<false, true>, nullptr},
    {"tdpbuud", kNone, 0x5e, false, false, multiply_bytes<false, false>, nullptr},
    {"{vex} vpdpbusd", k66, 0x50, false, false, nullptr, dot_quads},
    {"vpdpbusd", k66, 0x50, true, false, nullptr, dot_quads},
    {"vdpbf16ps", kF3, 0x52, true, false, nullptr, dot_pairs},
    {"vcvtne2ps2bf16", kF2, 0x72, true, false, nullptr, narrow_two},
};

Row* row_of(const Instruction& i) {
    for (Row& row : kRows) {
        if (row.evex != i.evex || row.prefix != i.prefix || row.opcode != i.opcode) continue;
        if (row.vector != nullptr || row.memory == i.memory) return &row;
    }
    return nullptr;
}

// ---- registers in a signal's frame ----------------------------------------------------------------------------------

constexpr int kOrder[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                            REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};

// Where the parts of vector registers lie: 16 bytes of the first 16, the next 16, the next 32; the last 16 whole.
struct Part {
    int component, first, count, from, bytes;
};
constexpr Part kParts[] = {{1, 0, 16, 0, 16}, {2, 0, 16, 16, 16}, {6, 0, 16, 32, 32}, {7, 16, 16, 0, 64}};
int part_offsets[4] = {160, 0, 0, 0};

void find_parts() {
    for (int p = 1; p < 4; ++p) {
        unsigned a, b, c, d;
        __cpuid_count(0xd, kParts[p].component, a, b, c, d);
        part_offsets[p] = static_cast<int>(b);
    }
}

template <class F>
void parts_of(int number, F&& f) {
    for (int p = 0; p < 4; ++p) {
        const Part& part = kParts[p];
        if (number >= part.first && number < part.first + part.count) f(part, part_offsets[p]);
    }
}

// Components that are not there are zero.
void read_vector(uint8_t* frame, int number, uint8_t* to) {
    memset(to, 0, 64);
    const auto present = get<uint64_t>(frame + 512);
    parts_of(number, [&](const Part& part, int offset) {
        const uint8_t* from = frame + offset + (number - part.first) * part.bytes;
        if (present >> part.component & 1) memcpy(to + part.from, from, static_cast<size_t>(part.bytes));
    });
}

void write_vector(uint8_t* frame, int number, const uint8_t* from) {
    parts_of(number, [&](const Part& part, int offset) {
        const auto present = get<uint64_t>(frame + 512);
        if (!(present >> part.component & 1)) {
            memset(frame + offset, 0, static_cast<size_t>(part.count * part.bytes));
            put(frame + 512, present | uint64_t{1} << part.component);
        }
        memcpy(frame + offset + (number - part.first) * part.bytes, from + part.from, static_cast<size_t>(part.bytes));
    });
}

// `vectors` reads and writes a vector register by its number. False: no instruction of these.
template <class Read, class Write>
bool run(const uint8_t* code, const uint64_t (&general)[16], Read&& read, Write&& write, const uint8_t** next) {
    Instruction i;
    if (!decode(code, general, i)) return false;
    Row* row = row_of(i);
    if (row == nullptr) return false;
    ++row->count;
    *next = i.next;
    if (row->tile != nullptr) {
        row->tile(i);
        return true;
    }
    uint8_t to[64], second[64], third[64];
    read(i.reg, to);
    read(i.third, second);
    if (i.memory)
        memcpy(third, reinterpret_cast<const void*>(i.address + i.step), static_cast<size_t>(i.bytes));
    else
        read(i.rm, third);
    row->vector(i.bytes, to, second, third);
    memset(to + i.bytes, 0, static_cast<size_t>(64 - i.bytes));
    write(i.reg, to);
    return true;
}

void handle(int, siginfo_t*, void* context) {
    auto& machine = static_cast<ucontext_t*>(context)->uc_mcontext;
    auto* frame = reinterpret_cast<uint8_t*>(machine.fpregs);
    uint64_t general[16];
    for (int r = 0; r < 16; ++r) general[r] = static_cast<uint64_t>(machine.gregs[kOrder[r]]);
    const auto* code = reinterpret_cast<const uint8_t*>(machine.gregs[REG_RIP]);
    const uint8_t* next = nullptr;
    const bool ran = run(
        code, general, [&](int number, uint8_t* to) { read_vector(frame, number, to); },
        [&](int number, const uint8_t* from) { write_vector(frame, number, from); }, &next);
    require(ran, "an instruction that is not emulated");
    machine.gregs[REG_RIP] = static_cast<greg_t>(reinterpret_cast<uint64_t>(next));
}

__attribute__((constructor)) void install() {
    find_parts();
    struct sigaction action = {};
    action.sa_sigaction = handle;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGILL, &action, nullptr);
}

// One line of text for each instruction that ran, and how many threads still have tiles, to the file named.
__attribute__((destructor)) void report() {
    const char* path = getenv("DNNL_GRAPH_OPS_TRAPPED");
    const int file = path == nullptr ? -1 : open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (file < 0) return;
    for (const Row& row : kRows) {
        if (row.count > 0) dprintf(file, "%s: %ld\n", row.name, row.count.load());
    }
    dprintf(file, "configured: %ld\n", configured_threads.load());
    close(file);
}

}  // namespace

// One instruction on registers of the caller's, as if the CPU had refused it. Its bytes; 0: it is none of these.
extern "C" int64_t trapped_run(const uint8_t* code, Registers* registers) {
    const uint8_t* next = nullptr;
    const bool ran = run(
        code, registers->general, [&](int number, uint8_t* to) { memcpy(to, registers->vector[number], 64); },
        [&](int number, const uint8_t* from) { memcpy(registers->vector[number], from, 64); }, &next);
    return ran ? next - code : 0;
}
