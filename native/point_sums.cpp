// The inner sums of given scores for Python: inner_sums.cpp without the product. Tests and
// benchmarks compare with it.
#include <algorithm>
#include <stdexcept>
#include <vector>

#include "arrays.h"
#include "bindings.h"
#include "checks.h"
#include "choices.h"
#include "kernels/kernels.h"
#include "parallel.h"
#include "scratch.h"

namespace nb = nanobind;
using namespace robirank;

namespace {

// Rows of scores, which may be a part of longer rows.
using Scores = nb::ndarray<nb::numpy, const float, nb::ndim<2>, nb::device::cpu>;

void check(const Scores& scores, const Vector<int64_t>& offsets, const Vector<float>& points,
           const MutableVector<double>& t) {
  check_length("t", t.shape(0), points.shape(0));
  check_length("offsets", offsets.shape(0), scores.shape(0) + 1);
  check_offsets("offsets", offsets, points.shape(0));
  if (scores.shape(1) > 1 && scores.shape(0) > 0 && scores.stride(1) != 1)
    throw std::invalid_argument("each row of scores must be contiguous");
}

// t[p] += Σ_j log2(1 + 2^(s_bj − points[p])) for the points offsets[b]:offsets[b + 1] of every row
// b. Rows are independent, so the result does not depend on the number of threads.
void point_sums(Scores scores, Vector<int64_t> offsets, Vector<float> points,
                MutableVector<double> t, Choice<Method> method, int num_threads) {
  check(scores, offsets, points, t);
  const Method sum = method.value();
  const int64_t rows = scores.shape(0), n = scores.shape(1), stride = scores.stride(0);
  const int64_t* start = offsets.data();
  const ListKernels& lists = kernels().lists;
  nb::gil_scoped_release released;
  struct Memory {
    ThreadScratch scratch;
    std::vector<double> moments, sums;
  };
  const int threads = thread_count(num_threads, rows, 0.5 * rows * n);
  const auto make = [] { return Memory{ThreadScratch(0), {}, {}}; };
  parallel_for(threads, rows, 4, make, [&](int64_t b, Memory& memory) {
    auto& [scratch, moments, sums] = memory;
    const int64_t k = start[b + 1] - start[b];
    PointRow row = lists.open_row(points.data() + start[b], k);
    moments.assign(4 * row.cells, 0.0);
    sums.assign(2 * k, 0.0);
    row.moments = moments.data(), row.t = sums.data();
    std::fill_n(scratch.view().counts, row.cells * kFinePerCell, 0);
    lists.add_to_row(scores.data() + b * stride, n, sum, &row, scratch.view());
    lists.close_row(row, sums.data() + k, scratch.view());
    for (int64_t i = 0; i < k; ++i) t.data()[start[b] + i] += sums[k + i];
  });
}

}  // namespace

void bind_point_sums(nb::module_& m) {
  m.def("point_sums", &point_sums, nb::arg("scores").noconvert(), nb::arg("offsets"),
        nb::arg("points").noconvert(), nb::arg("t").noconvert(), nb::kw_only(),
        nb::arg("method") = "auto", nb::arg("num_threads") = 1,
        "Add to t the sum over each row of scores for each of its points.");
}
