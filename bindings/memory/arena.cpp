#include "memory/arena.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>
#include <thread>
#include <utility>

#include "library/engine.hpp"
#include "library/fork_guard.hpp"
#include "memory/device_memory.hpp"

namespace dgo {
namespace {

struct Pools {
    std::mutex mutex;
    std::vector<BlockPool*> all;
};

Pools& pools() {
    static Pools* const pools = new Pools;  // never destroyed: threads may run past the end of main
    return *pools;
}

// Idle blocks of a pool.
std::size_t most_idle() {
    static const std::size_t most = std::max(1u, std::thread::hardware_concurrency());
    return most;
}

// Thread-local variables of trivial types, which need no check of their initialisation.
thread_local char* small_block = nullptr;
thread_local bool small_taken = false;
std::atomic<std::size_t> small_bytes{0};  // of all threads

void drop_small() {
    if (!small_block || small_taken) return;
    std::free(std::exchange(small_block, nullptr));
    small_bytes -= kSmallScratch;
}

std::size_t bits(std::size_t bytes) {
    std::size_t count = 0;
    for (; bytes; bytes /= 2) ++count;
    return count;
}

const auto by_size = [](const Block& block, std::size_t bytes) { return block.size() < bytes; };

}  // namespace

Block::Block(const Engine* engine, std::size_t bytes)
    : size_((bytes + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment) {
    if (size_ < bytes) throw std::bad_alloc();
    if (size_ == 0) return;
    if (engine && engine->on_device) {
        const auto memory = std::make_shared<DeviceMemory>(*engine, size_);
        data_ = memory->data();
        owner_ = memory;
    } else {
        data_ = static_cast<char*>(std::aligned_alloc(kScratchAlignment, size_));
        if (!data_) throw std::bad_alloc();
        owner_.reset(data_, &std::free);
    }
}

char* small_scratch::take() {
    if (small_taken) return nullptr;
    if (!small_block) {
        struct Last {
            ~Last() { drop_small(); }
        };
        thread_local Last last;
        (void)last;
        small_block = static_cast<char*>(std::aligned_alloc(kScratchAlignment, kSmallScratch));
        if (!small_block) throw std::bad_alloc();
        small_bytes += kSmallScratch;
    }
    small_taken = true;
    return small_block;
}

void small_scratch::give_back() { small_taken = false; }

BlockPool::BlockPool(const Engine* engine) : engine_(engine) {
    idle_.reserve(most_idle() + 1);  // giving back must not throw
    const std::lock_guard lock(pools().mutex);
    pools().all.push_back(this);
}

BlockPool::~BlockPool() {
    if (fork_guard::is_broken()) return;
    const std::lock_guard lock(pools().mutex);
    auto& all = pools().all;
    all.erase(std::find(all.begin(), all.end(), this));
}

Block BlockPool::borrow(std::size_t bytes) {
    Block outgrown;  // one block grows with its largest user instead of staying next to it
    {
        const std::lock_guard lock(mutex_);
        const auto fit = std::lower_bound(idle_.begin(), idle_.end(), bytes, by_size);
        const auto take = fit == idle_.end() && !idle_.empty() ? idle_.end() - 1 : fit;
        if (take != idle_.end()) {
            outgrown = std::move(*take);
            idle_.erase(take);
        }
    }
    if (outgrown.size() >= bytes) return outgrown;
    outgrown = Block();
    return Block(engine_, bytes);
}

Block BlockPool::reuse(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto fit = std::lower_bound(idle_.begin(), idle_.end(), bytes, by_size);
    if (fit == idle_.end() || fit->size() / 2 > bytes) return {};
    Block block = std::move(*fit);
    idle_.erase(fit);
    return block;
}

void BlockPool::give_back(Block block) {
    Block surplus;
    const std::lock_guard lock(mutex_);
    idle_.insert(std::lower_bound(idle_.begin(), idle_.end(), block.size(), by_size), std::move(block));
    if (idle_.size() > most_idle()) {
        surplus = std::move(idle_.front());
        idle_.erase(idle_.begin());
    }
}

void BlockPool::join(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    ++users_[bits(bytes)];
}

void BlockPool::leave(std::size_t bytes) noexcept {
    if (fork_guard::is_broken()) return;
    const std::lock_guard lock(mutex_);
    if (--users_[bits(bytes)]) return;
    std::size_t classes = users_.size();
    while (classes && !users_[classes - 1]) --classes;
    while (!idle_.empty() && bits(idle_.back().size()) >= classes) idle_.pop_back();
}

std::size_t BlockPool::idle_bytes() {
    const std::lock_guard lock(mutex_);
    std::size_t total = 0;
    for (const Block& block : idle_) total += block.size();
    return total;
}

void BlockPool::drop_idle() {
    std::vector<Block> dropped;
    dropped.reserve(most_idle() + 1);
    const std::lock_guard lock(mutex_);
    dropped.swap(idle_);
}

BlockPool& host_blocks() {
    static BlockPool* const pool = new BlockPool(nullptr);  // never destroyed, like the list of pools
    return *pool;
}

BlockPool& library_blocks() {
    static BlockPool* const pool = new BlockPool(nullptr);  // never destroyed, like the list of pools
    return *pool;
}

std::size_t idle_block_bytes() {
    if (fork_guard::is_broken()) return 0;  // no plan of a forked child can use them
    const std::lock_guard lock(pools().mutex);
    std::size_t total = small_bytes;
    for (BlockPool* pool : pools().all) total += pool->idle_bytes();
    return total;
}

void drop_idle_blocks() {
    if (fork_guard::is_broken()) return;
    const std::lock_guard lock(pools().mutex);
    for (BlockPool* pool : pools().all) pool->drop_idle();
    drop_small();
}

}  // namespace dgo
