// The two steps of the exact solver that are not matrix products: the listwise kernel over a block
// of users, in place, and Adam over a range of items.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>
#include <tuple>

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
using Scores = nb::ndarray<nb::numpy, float, nb::ndim<2>, nb::device::cpu>;

// scores[b] becomes d loss / d scores[b]; returns the loss of every row and the inner sum of every
// relevant item.
std::tuple<Result<double>, Result<double>> listwise_block(Scores scores, Vector<int64_t> starts,
                                                          Vector<int32_t> relevant,
                                                          Vector<double> weight, Choice<Rho> rho,
                                                          int num_threads) {
  const int64_t rows = scores.shape(0), items = scores.shape(1), stride = scores.stride(0);
  if (items > 1 && rows > 0 && scores.stride(1) != 1)
    throw std::invalid_argument("each row of scores must be contiguous");
  check_length("starts", starts.shape(0), rows + 1);
  check_offsets("starts", starts, relevant.shape(0));
  check_indices("relevant", relevant, items);
  check_length("weight", weight.shape(0), relevant.shape(0));
  const Rho outer = rho.value();
  const int64_t* from = starts.data();
  int64_t most = 0;
  for (int64_t b = 0; b < rows; ++b) most = std::max(most, from[b + 1] - from[b]);
  auto losses = allocate<double>(rows), t = allocate<double>(relevant.shape(0));
  {
    nb::gil_scoped_release released;
    const int threads = thread_count(num_threads, rows, 2.0 * rows * items);
    const auto memory = [&] { return std::pair(ThreadScratch(most), allocate<float>(items)); };
    parallel_for(threads, rows, 4, memory, [&](int64_t b, const auto& own) {
      const auto& [scratch, gradient] = own;
      float* row = scores.data() + b * stride;
      const List<float> list{row, items, relevant.data() + from[b], weight.data() + from[b],
                             from[b + 1] - from[b]};
      losses[b] = kernels().lists.f32.loss(
          list, outer, Method::automatic, Hessian::none,
          Answer<float>{gradient.get(), nullptr, t.get() + from[b]}, scratch.view());
      std::copy(gradient.get(), gradient.get() + items, row);
    });
  }
  return {hand_over(std::move(losses), rows), hand_over(std::move(t), relevant.shape(0))};
}

template <class M>
void check_shape(const char* name, const M& matrix, size_t n, size_t d) {
  check_length(name, matrix.shape(0), n);
  check_columns(name, matrix.shape(1), d);
}

void adam(MutableMatrix<float> rows, MutableMatrix<float> first, MutableMatrix<float> second,
          Matrix<float> gradient, Vector<float> penalty, std::optional<Matrix<float>> centre,
          float rate, float b1, float b2, float correction) {
  const size_t n = rows.shape(0), d = rows.shape(1);
  check_shape("first", first, n, d);
  check_shape("second", second, n, d);
  check_shape("gradient", gradient, n, d);
  check_length("penalty", penalty.shape(0), n);
  if (centre) check_shape("centre", *centre, n, d);
  nb::gil_scoped_release released;
  kernels().lists.adam(rows.data(), first.data(), second.data(), gradient.data(), penalty.data(),
                       centre ? centre->data() : nullptr, n, d, AdamStep{b1, b2, rate, correction});
}

}  // namespace

void bind_exact(nb::module_& m) {
  m.def("listwise_block", &listwise_block, nb::arg("scores").noconvert(), nb::kw_only(),
        nb::arg("starts"), nb::arg("relevant"), nb::arg("weight"), nb::arg("rho"),
        nb::arg("num_threads"),
        "Turn rows of scores into the gradient by them, in place. Row b has the relevant items "
        "relevant[starts[b]:starts[b + 1]]. Returns the loss of every row and the inner sum of "
        "every relevant item.");
  m.def("adam", &adam, nb::arg("rows").noconvert(), nb::kw_only(), nb::arg("first").noconvert(),
        nb::arg("second").noconvert(), nb::arg("gradient"), nb::arg("penalty"),
        nb::arg("centre") = nb::none(), nb::arg("rate"), nb::arg("b1"), nb::arg("b2"),
        nb::arg("correction"),
        "One step of Adam on rows, in place; penalty[i] · (row i − its centre) is added to the "
        "gradient. Without centres they are zero.");
}
