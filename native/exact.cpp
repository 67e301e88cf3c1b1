// The two steps of the exact solver that are not matrix products: the listwise kernel over a block
// of users, in place, and Adam over a range of items.
#include <algorithm>
#include <memory>
#include <stdexcept>

#include "arrays.h"
#include "bindings.h"
#include "kernels/kernels.h"
#include "scratch.h"

namespace nb = nanobind;
using namespace robirank;

namespace {

template <class T>
using MutableMatrix = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T>
using MutableVector = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void check_relevant(const Vector<int64_t>& starts, const Vector<int32_t>& relevant, int64_t rows,
                    int64_t items) {
  if (static_cast<int64_t>(starts.shape(0)) != rows + 1 || starts.data()[0] != 0 ||
      starts.data()[rows] != static_cast<int64_t>(relevant.shape(0)))
    throw std::invalid_argument("starts must run from 0 to the number of relevant items");
  for (int64_t b = 0; b < rows; ++b)
    if (starts.data()[b + 1] < starts.data()[b])
      throw std::invalid_argument("starts must not decrease");
  for (size_t i = 0; i < relevant.shape(0); ++i)
    if (relevant.data()[i] < 0 || relevant.data()[i] >= items)
      throw std::invalid_argument("relevant must hold places within a row");
}

// scores[b] becomes d loss / d scores[b]; losses and t are written.
void listwise_block(nb::ndarray<float, nb::ndim<2>, nb::device::cpu> scores, Vector<int64_t> starts,
                    Vector<int32_t> relevant, Vector<double> weight, int rho,
                    MutableVector<double> losses, MutableVector<double> t, int n_threads) {
  const int64_t rows = scores.shape(0), items = scores.shape(1), stride = scores.stride(0);
  if (items > 1 && rows > 0 && scores.stride(1) != 1)
    throw std::invalid_argument("the scores of a row must lie side by side");
  check_relevant(starts, relevant, rows, items);
  if (weight.shape(0) != relevant.shape(0) || t.shape(0) != relevant.shape(0) ||
      static_cast<int64_t>(losses.shape(0)) != rows)
    throw std::invalid_argument("weight and t need an entry a relevant item, losses one a row");
  const int64_t* from = starts.data();
  int64_t most = 0;
  for (int64_t b = 0; b < rows; ++b) most = std::max(most, from[b + 1] - from[b]);
  nb::gil_scoped_release released;
  const int threads = thread_count(n_threads, rows, 2.0 * rows * items);
#pragma omp parallel num_threads(threads)
  {
    const ThreadScratch scratch(most);
    const auto gradient = allocate<float>(items);
#pragma omp for schedule(dynamic, 4)
    for (int64_t b = 0; b < rows; ++b) {
      float* row = scores.data() + b * stride;
      const List<float> list{row, items, relevant.data() + from[b], weight.data() + from[b],
                             from[b + 1] - from[b]};
      losses.data()[b] = kernels().lists.f32.loss(
          list, static_cast<Rho>(rho), Method::automatic, Hessian::none,
          Answer<float>{gradient.get(), nullptr, t.data() + from[b]}, scratch.view());
      std::copy(gradient.get(), gradient.get() + items, row);
    }
  }
}

void adam(MutableMatrix<float> rows, MutableMatrix<float> first, MutableMatrix<float> second,
          Matrix<float> gradient, Vector<float> decay, float rate, float b1, float b2,
          float correction) {
  const size_t n = rows.shape(0), d = rows.shape(1);
  if (first.shape(0) != n || second.shape(0) != n || gradient.shape(0) != n ||
      decay.shape(0) != n || first.shape(1) != d || second.shape(1) != d || gradient.shape(1) != d)
    throw std::invalid_argument("rows, averages, gradient and decay must have the same shape");
  nb::gil_scoped_release released;
  kernels().lists.adam(rows.data(), first.data(), second.data(), gradient.data(), decay.data(), n,
                       d, AdamStep{b1, b2, rate, correction});
}

}  // namespace

void bind_exact(nb::module_& m) {
  m.def("listwise_block", &listwise_block, nb::arg("scores").noconvert(), nb::arg("starts"),
        nb::arg("relevant"), nb::arg("weight"), nb::arg("rho"), nb::arg("losses").noconvert(),
        nb::arg("t").noconvert(), nb::arg("n_threads"));
  m.def("adam", &adam, nb::arg("rows").noconvert(), nb::arg("first").noconvert(),
        nb::arg("second").noconvert(), nb::arg("gradient"), nb::arg("decay"), nb::arg("rate"),
        nb::arg("b1"), nb::arg("b2"), nb::arg("correction"));
}
