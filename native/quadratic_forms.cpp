// qᵀ C q for rows q of a matrix.
#include <cstdint>

#include "arrays.h"
#include "bindings.h"
#include "checks.h"
#include "dot.h"
#include "parallel.h"

namespace nb = nanobind;
using namespace robirank;

namespace {

Result<double> quadratic_forms(Matrix<float> rows, Vector<int32_t> asked, Matrix<double> matrix,
                               int num_threads) {
  const int64_t n = asked.shape(0), d = rows.shape(1);
  check_indices("asked", asked, rows.shape(0));
  check_length("matrix", matrix.shape(0), d);
  check_columns("matrix", matrix.shape(1), d);
  auto forms = allocate<double>(n);
  {
    nb::gil_scoped_release released;
    const int threads = thread_count(num_threads, n, 0.5 * n * d * d);
    const auto no_memory = [] { return 0; };
    parallel_for(threads, n, 16, no_memory, [&](int64_t i, int) {
      const float* q = rows.data() + asked.data()[i] * d;
      double sum = 0.0;
      for (int64_t j = 0; j < d; ++j) sum += q[j] * dot(matrix.data() + j * d, q, d);
      forms[i] = sum;
    });
  }
  return hand_over(std::move(forms), n);
}

}  // namespace

void bind_quadratic_forms(nb::module_& m) {
  m.def("quadratic_forms", &quadratic_forms, nb::kw_only(), nb::arg("rows"), nb::arg("asked"),
        nb::arg("matrix"), nb::arg("num_threads"),
        "q C q for each row q of those asked for, in double precision.");
}
