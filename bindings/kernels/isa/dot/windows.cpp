// Windows of Winograd for products of bf16: transformed in f32 and rounded once.
#include "kernels/isa/dot/broadcast.hpp"
#include "kernels/isa/dot/tiles.hpp"
#include "kernels/isa/product/transform_tables.hpp"

namespace dgo::DGO_ISA {
namespace {

template <class From>
constexpr Table<Transform::window, SpreadFn<From, uint16_t>, DGO_DOT::Operands, false> kTable;

template <class From>
SpreadFn<From, uint16_t> find(const ShapeIndex* shape) {
    return kTable<From>.find(window_shape(shape[0]), window_shape(shape[1]), window_shape(shape[2]));
}

}  // namespace

const DotWindows kBf16Windows = {find<float>, find<uint16_t>};

}  // namespace dgo::DGO_ISA
