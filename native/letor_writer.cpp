// The features of a LETOR / SVMlight file as text.
#include <cstdint>
#include <string>

#include "arrays.h"
#include "bindings.h"
#include "checks.h"
#include "letor_number.h"

namespace nb = nanobind;
using namespace robirank;

namespace {

// The features of some rows as text, " 1:0.5 3:2" and a line end for each row.
template <typename T>
nb::bytes feature_text(Vector<T> values, Vector<std::int32_t> columns,
                       Vector<std::int64_t> offsets) {
  check_length("columns", columns.shape(0), values.shape(0));
  check_offsets("offsets", offsets, values.shape(0));
  const std::int64_t n_rows = static_cast<std::int64_t>(offsets.shape(0)) - 1;
  std::string text;
  {
    const nb::gil_scoped_release release;
    std::int64_t k = 0;
    for (std::int64_t row = 0; row < n_rows; ++row) {
      for (; k < offsets.data()[row + 1]; ++k) {
        text += ' ';
        text += std::to_string(std::int64_t{columns.data()[k]} + 1);
        text += ':';
        letor::append_number(&text, values.data()[k]);
      }
      text += '\n';
    }
  }
  return nb::bytes(text.data(), text.size());
}

template <typename T>
void bind(nb::module_& m) {
  m.def("letor_features", &feature_text<T>, nb::arg("values").noconvert(),
        nb::arg("columns").noconvert(), nb::arg("offsets").noconvert(),
        "The stored values of CSR rows as text, a line for each row.");
}

}  // namespace

void bind_letor_writer(nb::module_& m) {
  bind<float>(m);
  bind<double>(m);
}
