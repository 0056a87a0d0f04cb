#include "kernels/window/axis.hpp"

#include <cmath>

#include "kernels/checked.hpp"
#include "kernels/division.hpp"

namespace dgo {

WindowSide window_side(const std::string& what, const char* name, int64_t n, int64_t c, const Dims& spatial,
                       const Dims& strides) {
    check_number(what, "the number of spatial axes", static_cast<int64_t>(spatial.size()), 1, kWindowAxes);
    Dims sizes = {n, c};
    sizes.insert(sizes.end(), spatial.begin(), spatial.end());
    int64_t all = 1;
    for (const int64_t size : sizes) {
        check_number(what, name, size, 0, kMostSize);
        all = checked_product(what, {all, size});
    }
    check_tensor(what, name, sizes, strides);
    if (c > 1 && strides[1] != 1) {
        fail(ErrorKind::invalid_argument, what + ": the channels of " + name + " are " + std::to_string(strides[1]) +
                                              " elements apart, they must lie side by side");
    }
    WindowSide side;
    side.batch = strides[0];
    three_axes({strides.begin() + 2, strides.end()}, int64_t{0}, side.axis);
    return side;
}

WindowPieces::WindowPieces(int64_t channels, int64_t positions, double columns, int64_t more) {
    if (channels < 1 || positions < 1) return;
    const auto floats = [&](double results) {
        return (columns * results + static_cast<double>(more)) * static_cast<double>(channels);
    };
    strips = columns == 0 ? 1 : static_cast<int64_t>(std::clamp(std::ceil(floats(kLeastPiece) / kRowFloats), 1.0, 1e9));
    strip = strips > 1 ? std::min(std::max(ceil_div(ceil_div(channels, strips), 16) * 16, kLeastStrip), channels)
                       : channels;
    strips = ceil_div(channels, strip);
    const double fit = (static_cast<double>(kRowFloats) / static_cast<double>(strip) - static_cast<double>(more)) /
                       std::max(columns, 1e-9);
    piece = std::clamp<int64_t>(static_cast<int64_t>(std::clamp(fit, 1.0, 1e12)), 1, positions);
    pieces = ceil_div(positions, piece);
    piece = ceil_div(positions, pieces);
    pieces = ceil_div(positions, piece);
}

}  // namespace dgo
