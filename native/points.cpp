// The inner sums of the ξ-step for Python: rows of scores, the points of each, threads.
#include <algorithm>
#include <memory>
#include <stdexcept>
#include <vector>

#include "arrays.h"
#include "bindings.h"
#include "kernels.h"
#include "scratch.h"

namespace nb = nanobind;
using namespace robirank;

namespace {

using Rows = nb::ndarray<const float, nb::ndim<2>, nb::device::cpu>;

// t[p] = Σ_j log2(1 + 2^(s_bj − points[p])) for the points offsets[b]:offsets[b + 1] of every row
// b, while the scores come in blocks of columns.
class PointSums {
 public:
  PointSums(Vector<int64_t> offsets, Vector<float> points)
      : offsets_(offsets.data(), offsets.data() + offsets.shape(0)),
        points_(points.data(), points.data() + points.shape(0)),
        t_(points.shape(0), 0.0) {
    const int64_t n = rows();
    if (n < 0 || offsets_[0] != 0 || offsets_[n] != static_cast<int64_t>(points_.size()) ||
        !std::is_sorted(offsets_.begin(), offsets_.end()))
      throw std::invalid_argument("offsets must rise from 0 to the number of points");
    int64_t cells = 0;
    for (int64_t b = 0; b < n; ++b) {
      rows_.push_back(chosen_kernels().open_row(points_.data() + offsets_[b], size(b)));
      cells += rows_[b].cells;
      most_cells_ = std::max(most_cells_, rows_[b].cells);
    }
    moments_.assign(4 * cells, 0.0);
    double* next = moments_.data();
    for (PointRow& row : rows_) row.moments = next, next += 4 * row.cells;
  }

  void add(Rows scores, int n_threads, int method) {
    if (static_cast<int64_t>(scores.shape(0)) != rows())
      throw std::invalid_argument("scores must have one row for each row of points");
    const int64_t n = scores.shape(1), stride = scores.stride(0);
    if (n > 1 && rows() > 0 && scores.stride(1) != 1)
      throw std::invalid_argument("the rows of scores must be contiguous");
    const Kernels& kernels = chosen_kernels();
    nb::gil_scoped_release released;
    for_rows(n_threads, 0.5 * n, [&](int64_t b, const Scratch& scratch) {
      kernels.add_to_row(scores.data() + b * stride, n, points(b), size(b),
                         static_cast<Method>(method), &rows_[b], t_.data() + offsets_[b], scratch);
    });
  }

  Result<double> sums(int n_threads) const {
    auto t = allocate<double>(t_.size());
    std::copy(t_.begin(), t_.end(), t.get());
    const Kernels& kernels = chosen_kernels();
    {
      nb::gil_scoped_release released;
      for_rows(n_threads, 1e4, [&](int64_t b, const Scratch& scratch) {
        kernels.close_row(rows_[b], points(b), size(b), t.get() + offsets_[b], scratch);
      });
    }
    return hand_over(std::move(t), t_.size());
  }

 private:
  int64_t rows() const { return static_cast<int64_t>(offsets_.size()) - 1; }
  int64_t size(int64_t b) const { return offsets_[b + 1] - offsets_[b]; }
  const float* points(int64_t b) const { return points_.data() + offsets_[b]; }

  // Rows are independent, so the result does not depend on the number of threads.
  template <class Visit>
  void for_rows(int n_threads, double work, const Visit& visit) const {
    const int64_t n = rows();
#pragma omp parallel num_threads(thread_count(n_threads, n, n* work))
    {
      const ThreadScratch scratch(0);
      std::fill_n(scratch.view().counts, most_cells_ * kFinePerCell, 0);
#pragma omp for schedule(dynamic, 4)
      for (int64_t b = 0; b < n; ++b)
        if (size(b) > 0) visit(b, scratch.view());
    }
  }

  std::vector<int64_t> offsets_;
  std::vector<float> points_;
  std::vector<double> t_, moments_;
  std::vector<PointRow> rows_;
  int most_cells_ = 0;
};

// All columns at once; adds to t.
void point_sums(Rows scores, Vector<int64_t> offsets, Vector<float> points,
                nb::ndarray<double, nb::ndim<1>, nb::c_contig, nb::device::cpu> t, int n_threads,
                int method) {
  if (t.shape(0) != points.shape(0))
    throw std::invalid_argument("t must have one entry for each point");
  PointSums sums(offsets, points);
  sums.add(scores, n_threads, method);
  const Result<double> found = sums.sums(n_threads);
  for (size_t i = 0; i < t.shape(0); ++i) t.data()[i] += found.data()[i];
}

}  // namespace

void bind_points(nb::module_& m) {
  const auto automatic = static_cast<int>(Method::automatic);
  nb::class_<PointSums>(m, "PointSums")
      .def(nb::init<Vector<int64_t>, Vector<float>>(), nb::arg("offsets"),
           nb::arg("points").noconvert())
      .def("add", &PointSums::add, nb::arg("scores").noconvert(), nb::arg("n_threads"),
           nb::arg("method") = automatic)
      .def("sums", &PointSums::sums, nb::arg("n_threads"));
  m.def("point_sums", &point_sums, nb::arg("scores").noconvert(), nb::arg("offsets"),
        nb::arg("points").noconvert(), nb::arg("t").noconvert(), nb::arg("n_threads"),
        nb::arg("method") = automatic);
}
