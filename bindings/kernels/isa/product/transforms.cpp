// The transforms of Winograd in f32, in three tables: this is the only unit that compiles them.
#include "kernels/isa/product/transform_tables.hpp"

namespace dgo::DGO_ISA {
namespace {

constexpr Table<Transform::window, SpreadFn<float>> kWindows;
constexpr Table<Transform::filter, SpreadFn<float>> kFilters;
constexpr Table<Transform::output, GatherFn> kOutputs;

}  // namespace

SpreadFn<float> window_transform(const ShapeIndex* shape) {
    return kWindows.find(window_shape(shape[0]), window_shape(shape[1]), window_shape(shape[2]));
}

SpreadFn<float> filter_transform(const ShapeIndex* shape) { return kFilters.find(shape[0], shape[1], shape[2]); }

GatherFn output_transform(const ShapeIndex* shape) { return kOutputs.find(shape[0], shape[1], shape[2]); }

}  // namespace dgo::DGO_ISA
