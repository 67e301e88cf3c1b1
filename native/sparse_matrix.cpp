// Products of a sparse matrix, the features of users or items, with dense matrices.
#include <algorithm>
#include <cstdint>

#include "arrays.h"
#include "bindings.h"
#include "checks.h"
#include "parallel.h"

namespace nb = nanobind;
using namespace robirank;

namespace {

constexpr int64_t kLine = 16;  // floats of a cache line

// A matrix in compressed rows: row i has data[p] in column indices[p] for p from indptr[i] up to
// indptr[i + 1]. Each sum below is added up in the order of the rows, by one thread, so that the
// number of threads changes no bit.
class SparseMatrix {
 public:
  SparseMatrix(Vector<int64_t> indptr, Vector<int32_t> indices, Vector<float> data, int64_t columns)
      : indptr_(indptr), indices_(indices), data_(data), columns_(columns) {
    check_offsets("indptr", indptr, indices.shape(0));
    check_indices("indices", indices, columns);
    check_length("data", data.shape(0), indices.shape(0));
  }

  int64_t rows() const { return static_cast<int64_t>(indptr_.shape(0)) - 1; }

  // This matrix times a dense one.
  Table<float> times(Matrix<float> dense, int num_threads) const {
    check_length("dense", dense.shape(0), columns_);
    const int64_t d = dense.shape(1), n = rows();
    auto out = allocate<float>(n * d);
    {
      nb::gil_scoped_release released;
      const int threads = thread_count(num_threads, n, work(d));
      parallel_for(
          threads, n, 256, [] { return 0; },
          [&](int64_t i, int) {
            float* row = out.get() + i * d;
            std::fill(row, row + d, 0.0f);
            for (int64_t p = indptr_.data()[i]; p < indptr_.data()[i + 1]; ++p)
              add(row, data_.data()[p], dense.data() + indices_.data()[p] * d, d);
          });
    }
    return hand_over(std::move(out), n, d);
  }

  // The transpose of this matrix times a dense one. A thread adds up some columns of the result, in
  // a memory of its own: no cache line is shared, and no transpose is needed.
  Table<float> transposed_times(Matrix<float> dense, int num_threads) const {
    check_length("dense", dense.shape(0), rows());
    const int64_t d = dense.shape(1), lines = round_up(d, kLine) / kLine;
    auto out = allocate<float>(columns_ * d);
    {
      nb::gil_scoped_release released;
      const int threads = thread_count(num_threads, lines, work(d));
      const int64_t most = round_up(lines, threads) / threads * kLine;
      parallel_for(
          threads, round_up(d, most) / most, 1, [&] { return allocate_lines(columns_ * most); },
          [&](int64_t slice, const Lines& sums) {
            const int64_t first = slice * most, width = std::min(most, d - first);
            std::fill_n(sums.get(), columns_ * width, 0.0f);
            for (int64_t i = 0; i < rows(); ++i)
              for (int64_t p = indptr_.data()[i]; p < indptr_.data()[i + 1]; ++p)
                add(sums.get() + indices_.data()[p] * width, data_.data()[p],
                    dense.data() + i * d + first, width);
            for (int64_t c = 0; c < columns_; ++c)
              std::copy_n(sums.get() + c * width, width, out.get() + c * d + first);
          });
    }
    return hand_over(std::move(out), columns_, d);
  }

 private:
  double work(int64_t d) const { return 0.25 * static_cast<double>(indices_.shape(0)) * d; }

  // to += factor · from
  static void add(float* __restrict to, float factor, const float* __restrict from, int64_t n) {
    for (int64_t j = 0; j < n; ++j) to[j] += factor * from[j];
  }

  Vector<int64_t> indptr_;
  Vector<int32_t> indices_;
  Vector<float> data_;
  int64_t columns_;
};

}  // namespace

void bind_sparse_matrix(nb::module_& m) {
  nb::class_<SparseMatrix>(m, "SparseMatrix",
                           "A matrix in compressed rows, with so many columns, for products with "
                           "dense matrices of float32 numbers.")
      .def(nb::init<Vector<int64_t>, Vector<int32_t>, Vector<float>, int64_t>(), nb::arg("indptr"),
           nb::arg("indices"), nb::arg("data"), nb::arg("columns"))
      .def("times", &SparseMatrix::times, nb::arg("dense"), nb::kw_only(), nb::arg("num_threads"),
           "The matrix times a dense one.")
      .def("transposed_times", &SparseMatrix::transposed_times, nb::arg("dense"), nb::kw_only(),
           nb::arg("num_threads"), "The transpose of the matrix times a dense one.");
}
