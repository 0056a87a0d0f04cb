// Scratch memory of plans.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace dgo {

class Engine;

inline constexpr std::size_t kScratchAlignment = 64;

class Block {
public:
    Block() = default;
    // Memory of the engine's device, or of the host if there is no engine or its partitions work there.
    Block(const Engine* engine, std::size_t bytes);  // throws std::bad_alloc, NativeError

    char* data() const { return data_; }
    std::size_t size() const { return size_; }

private:
    std::shared_ptr<void> owner_;
    char* data_ = nullptr;
    std::size_t size_ = 0;
};

// Scratch of small runs: a block per thread, which takes no time to acquire. Null while another run of this thread has
// the block, whose callback calls a plan.
inline constexpr std::size_t kSmallScratch = 64 * 1024;
namespace small_scratch {
char* take();  // throws std::bad_alloc
void give_back();
}  // namespace small_scratch

// Large blocks are shared by all plans of an engine: a block that one plan has just used is warm in the cache for the
// next, and a thousand cached plans hold no more scratch than the largest of them, once per concurrent run.
class BlockPool {
public:
    explicit BlockPool(const Engine* engine);  // as of a Block
    ~BlockPool();
    BlockPool(const BlockPool&) = delete;
    BlockPool& operator=(const BlockPool&) = delete;

    Block borrow(std::size_t bytes);
    // An idle block that fits without much waste, or an empty block.
    Block reuse(std::size_t bytes);
    void give_back(Block block);
    // A plan that needs `bytes` begins, or ends: idle blocks of more than twice the largest plan's need are dropped.
    void join(std::size_t bytes);
    void leave(std::size_t bytes) noexcept;
    std::size_t idle_bytes();
    void drop_idle();

private:
    const Engine* const engine_;
    std::mutex mutex_;
    std::vector<Block> idle_;  // by size, ascending
    std::array<std::size_t, 65> users_{};  // plans by the number of bits of what they need
};

BlockPool& host_blocks();
BlockPool& library_blocks();  // what the library asks for itself

// Drops idle blocks of all pools, and the calling thread's small block.
std::size_t idle_block_bytes();
void drop_idle_blocks();

}  // namespace dgo
