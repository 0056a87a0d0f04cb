// A graph of ONNX Runtime as plain Python objects. Needs the GIL.
#pragma once

#include <pybind11/pybind11.h>

#include "onnxruntime/abi.hpp"

namespace dgo::ort {

// Names of values; "" for an input or output that is left out.
pybind11::tuple names(const Api& api, const std::vector<const ValueInfo*>& values);

// {"nodes": (name, operator, domain, inputs, inputs of subgraphs, outputs, attributes) of each, in order,
//  "opsets": {domain: version}, "outputs": names, "is_body": whether it is the body of an If, Loop or Scan,
//  "values": {name: (ONNX's number of the element type, or 0, shape with None or None, elements as bytes or None)}}.
// Elements are those of constant initializers, and valid during the call of ONNX Runtime alone.
pybind11::dict described(const Api& api, const Graph* graph);

}  // namespace dgo::ort
