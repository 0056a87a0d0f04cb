// _core.kernels.recurrent: the Python side of LSTM, GRU and RNN.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "kernels/factories.hpp"

namespace py = pybind11;
using namespace py::literals;

namespace dgo {

void bind_recurrent_kernels(py::module_& m) {
    m.def(
        "recurrent", make_recurrent, "cell"_a, "steps"_a, "batch"_a, "width"_a, "size"_a, "backwards"_a, "row_step"_a,
        "packed"_a = false,
        "run(src, input_weights, input_bias, weights, bias, h, c, rows, last_h, last_c), all f32: one direction. src "
        "(steps, batch, width); input_weights (gates, size, width) and input_bias (gates, size), which holds all "
        "biases but `bias` (size), that gru_before_reset adds to the new state's product; weights (gates, size, size) "
        "of the state. The gates are i, o, f, c (lstm) or z, r and the new state (gru). h, c and the last ones (batch, "
        "size), of which c is read and written for lstm only; rows: h of step t at t * row_step. packed: both weights "
        "come so.");
    m.def("recurrent_pack", make_recurrent_pack, "cell"_a, "width"_a, "size"_a,
          "run(input_weights, weights, packed_input_weights, packed_weights), all f32.");
    m.def("recurrent_packed", recurrent_packed, "cell"_a, "width"_a, "size"_a,
          "The floats of packed_input_weights and of packed_weights.");
}

}  // namespace dgo
