#include "arena.hpp"

#include <algorithm>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>

namespace dgo {
namespace {

struct Pool {
    std::mutex mutex;
    std::vector<Block> idle;  // by size, ascending
};

Pool& pool() {
    static Pool* const pool = new Pool;  // never destroyed: threads may run past the end of main
    return *pool;
}

const auto by_size = [](const Block& block, std::size_t bytes) { return block.size() < bytes; };

}  // namespace

Block::Block(std::size_t bytes) : size_((bytes + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment) {
    if (size_ < bytes) throw std::bad_alloc();
    if (size_ == 0) return;
    data_.reset(static_cast<char*>(std::aligned_alloc(kScratchAlignment, size_)));
    if (!data_) throw std::bad_alloc();
}

Block borrow_block(std::size_t bytes) {
    Block outgrown;  // one block grows with its largest user instead of staying beside it
    {
        const std::lock_guard lock(pool().mutex);
        auto& idle = pool().idle;
        const auto fit = std::lower_bound(idle.begin(), idle.end(), bytes, by_size);
        const auto take = fit == idle.end() && !idle.empty() ? idle.end() - 1 : fit;
        if (take != idle.end()) {
            outgrown = std::move(*take);
            idle.erase(take);
        }
    }
    if (outgrown.size() >= bytes) return outgrown;
    outgrown = Block();
    return Block(bytes);
}

void return_block(Block block) {
    static const std::size_t limit = std::max(1u, std::thread::hardware_concurrency());
    Block surplus;
    const std::lock_guard lock(pool().mutex);
    auto& idle = pool().idle;
    idle.insert(std::lower_bound(idle.begin(), idle.end(), block.size(), by_size), std::move(block));
    if (idle.size() > limit) {
        surplus = std::move(idle.front());
        idle.erase(idle.begin());
    }
}

std::size_t idle_block_bytes() {
    const std::lock_guard lock(pool().mutex);
    std::size_t total = 0;
    for (const Block& block : pool().idle) total += block.size();
    return total;
}

void drop_idle_blocks() {
    std::vector<Block> dropped;
    const std::lock_guard lock(pool().mutex);
    dropped.swap(pool().idle);
}

}  // namespace dgo
