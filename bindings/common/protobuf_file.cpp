#include "common/protobuf_file.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <system_error>

#include "common/protobuf.hpp"

namespace dgo::protobuf {
namespace {

class Thinning {
public:
    Thinning(int descriptor, std::vector<uint64_t> route, uint64_t large)
        : descriptor_(descriptor), route_(std::move(route)), large_(large) {}

    // Appends a message to `copy`; `first`: where the fields begin that were not copied yet.
    void append(std::string& copy, uint64_t first, uint64_t end, size_t depth) {
        unsigned parts = 0;
        for (uint64_t start = first; start < end;) {
            std::string_view rest = block(start);
            const size_t before = rest.size();
            const Head head = take_head(rest);
            const uint64_t begin = start + (before - rest.size());
            if (begin > end || head.nbytes > end - begin) throw Malformed("a field beyond the end");
            const uint64_t stop = begin + head.nbytes;
            if (head.kind == Kind::bytes && head.number == route_[depth]) {
                if (depth + 1 == route_.size()) {
                    ++parts;
                    if (head.nbytes >= large_) {
                        ranges.emplace_back(items_, begin, head.nbytes);
                        append(copy, first, start);
                        first = stop;
                    }
                } else if (depth + 2 < route_.size() || head.nbytes >= large_) {
                    std::string inner;
                    append(inner, begin, stop, depth + 1);
                    append(copy, first, start);
                    append_varint(copy, head.number << 3 | static_cast<unsigned>(head.kind));
                    append_varint(copy, inner.size());
                    copy += inner;
                    first = stop;
                }
                items_ += depth + 2 == route_.size();
            }
            start = stop;
        }
        append(copy, first, end);
        if (parts > 1) throw Malformed("data more than once");
    }

    // Appends a range of the file; less if the file ends before.
    void append(std::string& copy, uint64_t start, uint64_t stop) {
        while (start < stop) {
            const size_t size = copy.size();
            copy.resize(size + std::min<uint64_t>(stop - start, 1 << 20));
            const size_t count = read(copy.data() + size, copy.size() - size, start);
            copy.resize(size + count);
            if (!count) return;
            start += count;
        }
    }

    std::vector<Range> ranges;

private:
    size_t read(char* room, size_t nbytes, uint64_t offset) const {
        for (;;) {
            const ssize_t count = pread(descriptor_, room, nbytes, static_cast<off_t>(offset));
            if (count >= 0) return static_cast<size_t>(count);
            if (errno != EINTR) throw std::system_error(errno, std::generic_category());
        }
    }

    // Returns the bytes from a position on: a field's head as a whole, unless the file ends before.
    std::string_view block(uint64_t start) {
        constexpr size_t kMostHead = 20;
        if (start < offset_ || start + kMostHead > offset_ + block_.size()) {
            block_.resize(1 << 12);
            block_.resize(read(block_.data(), block_.size(), start));
            offset_ = start;
        }
        return std::string_view(block_).substr(start - offset_);
    }

    const int descriptor_;
    const std::vector<uint64_t> route_;
    const uint64_t large_;
    uint64_t items_ = 0;
    std::string block_;  // part of the file
    uint64_t offset_ = 0;
};

}  // namespace

Thinned thinned(int descriptor, uint64_t size, uint64_t whole, const std::vector<uint64_t>& route, uint64_t large) {
    std::string copy;
    Thinning thinning(descriptor, route, large);
    if (size < whole) {
        thinning.append(copy, 0, size);
    } else {
        thinning.append(copy, 0, size, 0);
    }
    return {std::move(copy), std::move(thinning.ranges)};
}

}  // namespace dgo::protobuf
