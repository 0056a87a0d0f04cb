#include "common/nearest.hpp"

#include <cmath>

namespace dgo {

std::vector<double> similar_sums(const std::int16_t* rows, std::size_t count, std::size_t width,
                                 const std::vector<double>& place) {
    constexpr double kFar = 40;  // beyond it a similarity is less than what a double keeps of a sum
    const std::size_t features = place.size();
    std::vector<double> hundredths(place), sums(width - features);
    for (double& feature : hundredths) feature *= 100;
    for (const std::int16_t* row = rows; row != rows + count * width; row += width) {
        double apart = 0;
        for (std::size_t i = 0; i < features; ++i) {
            const double difference = row[i] - hundredths[i];
            apart += difference * difference;
        }
        const double distance = std::sqrt(3 * apart) / 100;
        if (distance > kFar) continue;
        const double similarity = (1 + distance) * std::exp(-distance) / 100;
        for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += similarity * row[features + i];
    }
    return sums;
}

}  // namespace dgo
