#include "memory/places.hpp"

#include <algorithm>
#include <numeric>
#include <string>

#include "common/error.hpp"
#include "memory/arena.hpp"

namespace dgo {

ScratchLives::ScratchLives(const std::vector<std::pair<std::int64_t, std::int64_t>>& spans) : beside_(spans.size()) {
    std::vector<std::size_t> order(spans.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return spans[a].first < spans[b].first; });
    std::vector<std::size_t> alive;
    for (const std::size_t i : order) {
        const auto ended = [&](std::size_t j) { return spans[j].second < spans[i].first; };
        alive.erase(std::remove_if(alive.begin(), alive.end(), ended), alive.end());
        for (const std::size_t j : alive) {
            beside_[i].push_back(j);
            beside_[j].push_back(i);
        }
        alive.push_back(i);
    }
}

Places ScratchLives::by_size(const std::vector<std::int64_t>& nbytes) const {
    if (nbytes.size() != beside_.size()) {
        fail(ErrorKind::invalid_argument, "scratch: " + std::to_string(beside_.size()) + " buffers need sizes, got " +
                                              std::to_string(nbytes.size()));
    }
    constexpr std::int64_t kMost = std::int64_t{1} << 56;
    std::vector<std::int64_t> sizes;
    std::int64_t sum = 0;
    for (const std::int64_t bytes : nbytes) {
        if (bytes > kMost || sum > kMost) fail(ErrorKind::shape, "scratch: the buffers are larger than any memory");
        const auto unit = static_cast<std::int64_t>(kScratchAlignment);
        sizes.push_back((std::max<std::int64_t>(bytes, 1) + unit - 1) / unit * unit);
        sum += sizes.back();
    }
    std::vector<std::size_t> order(sizes.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return sizes[a] > sizes[b]; });
    Places places;
    places.offsets.assign(sizes.size(), -1);
    places.shared.resize(sizes.size());
    std::vector<std::pair<std::int64_t, std::int64_t>> taken;
    for (const std::size_t i : order) {
        taken.clear();
        for (const std::size_t j : beside_[i]) {
            if (places.offsets[j] >= 0) taken.emplace_back(places.offsets[j], places.offsets[j] + sizes[j]);
        }
        std::sort(taken.begin(), taken.end());
        std::int64_t offset = 0;
        for (const auto& [begin, end] : taken) {
            if (offset + sizes[i] <= begin) break;
            offset = std::max(offset, end);
        }
        places.shared[i] = offset < places.total;
        places.offsets[i] = offset;
        places.total = std::max(places.total, offset + sizes[i]);
    }
    return places;
}

}  // namespace dgo
