// Scratch memory of plans.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>

namespace dgo {

inline constexpr std::size_t kScratchAlignment = 64;

class Block {
public:
    Block() = default;
    explicit Block(std::size_t bytes);  // throws std::bad_alloc

    char* data() const { return data_.get(); }
    std::size_t size() const { return size_; }

private:
    struct Free {
        void operator()(char* p) const { std::free(p); }
    };
    std::unique_ptr<char, Free> data_;
    std::size_t size_ = 0;
};

// Large blocks are shared by all plans of the process: what one plan has just used is warm in the cache for the
// next, and a thousand cached plans hold no more scratch than the largest of them, once per concurrent run.
Block borrow_block(std::size_t bytes);
void return_block(Block block);
std::size_t idle_block_bytes();
void drop_idle_blocks();

}  // namespace dgo
