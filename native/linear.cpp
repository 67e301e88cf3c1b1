// Loss and gradient of a linear model s = X w, in one pass over X.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "arrays.h"
#include "bindings.h"
#include "checks.h"
#include "choices.h"
#include "list_batch.h"
#include "parallel.h"
#include "scratch.h"

namespace nb = nanobind;
using namespace robirank;

namespace {

// Lists are taken in chunks of about this many rows. The chunks do not depend on the number of
// threads and their sums are added in order, so neither does the answer, to the last bit.
constexpr int64_t kChunkRows = 2048;

// Where the chunks of lists begin, and the end.
std::vector<int64_t> chunk_lists(const ListBatch& lists) {
  std::vector<int64_t> chunks = {0};
  int64_t rows = 0;
  for (int64_t q = 0; q < lists.n_lists(); ++q) {
    rows += lists.size(q);
    if (rows >= kChunkRows || q + 1 == lists.n_lists()) {
      chunks.push_back(q + 1);
      rows = 0;
    }
  }
  return chunks;
}

// List by list: its rows are still in the cache when the gradient goes back through them, so X
// comes from memory once. Place i of the lists is row rows[i] of X, or row i.
template <class T>
class LinearPass {
 public:
  LinearPass(const T* X, const int64_t* rows, int64_t d, const double* w, const ListBatch& lists,
             Rho rho, Method method)
      : X_(X), rows_(rows), d_(d), w_(w), lists_(lists), rho_(rho), method_(method) {}

  // One thread's memory.
  struct Memory {
    explicit Memory(const ListBatch& lists)
        : scratch(lists.most_relevant()),
          scores(allocate<double>(lists.longest())),
          by_score(allocate<double>(lists.longest())) {}
    ThreadScratch scratch;
    std::unique_ptr<double[]> scores, by_score;  // and the gradient by the scores
  };

  // Returns the loss of list q and adds its gradient by w to `sum`.
  double add_list(int64_t q, const Memory& memory, double* sum) const {
    if (lists_.relevant_size(q) == 0) return 0.0;
    const int64_t begin = lists_.begin(q), n = lists_.size(q);
    const T* first_row = rows_ ? X_ : X_ + begin * d_;
    const int64_t* its_rows = rows_ ? rows_ + begin : nullptr;
    const LossKernels<T>& features = loss_kernels<T>();
    features.dot(first_row, its_rows, n, d_, w_, memory.scores.get());
    const double loss = loss_kernels<double>().loss(
        lists_.list(q, memory.scores.get()), rho_, method_, Hessian::none,
        Answer<double>{memory.by_score.get(), nullptr, nullptr}, memory.scratch.view());
    features.add(first_row, its_rows, n, d_, memory.by_score.get(), sum);
    return loss;
  }

 private:
  const T* X_;
  const int64_t* rows_;
  int64_t d_;
  const double* w_;
  const ListBatch& lists_;
  Rho rho_;
  Method method_;
};

template <class T>
std::tuple<double, Result<double>> linear(Matrix<T> X, Vector<double> w, const ListBatch& lists,
                                          std::optional<Vector<int64_t>> rows, Choice<Rho> rho,
                                          Choice<Method> method, int num_threads) {
  const int64_t d = X.shape(1), n = lists.n_items();
  check_length("w", w.shape(0), d);
  check_length(rows ? "rows" : "X", rows ? rows->shape(0) : X.shape(0), n);
  if (rows) check_indices("rows", *rows, X.shape(0));
  const LinearPass<T> pass(X.data(), rows ? rows->data() : nullptr, d, w.data(), lists, rho.value(),
                           method.value());
  double total = 0.0;
  auto gradient = allocate<double>(d);
  {
    nb::gil_scoped_release released;
    const std::vector<int64_t> chunks = chunk_lists(lists);
    const int64_t n_chunks = static_cast<int64_t>(chunks.size()) - 1;
    std::vector<double> losses(n_chunks, 0.0);
    auto sums = allocate<double>(n_chunks * d);
    using Memory = typename LinearPass<T>::Memory;
    const int threads = thread_count(num_threads, n_chunks, lists.work() + 0.25 * n * d);
    const auto make = [&] { return Memory(lists); };
    parallel_for(threads, n_chunks, 1, make, [&](int64_t c, const Memory& memory) {
      double* sum = sums.get() + c * d;
      std::fill_n(sum, d, 0.0);
      for (int64_t q = chunks[c]; q < chunks[c + 1]; ++q)
        losses[c] += pass.add_list(q, memory, sum);
    });
    std::fill_n(gradient.get(), d, 0.0);
    for (int64_t c = 0; c < n_chunks; ++c) {
      total += losses[c];
      for (int64_t j = 0; j < d; ++j) gradient[j] += sums[c * d + j];
    }
  }
  return {total, hand_over(std::move(gradient), d)};
}

template <class T>
void bind(nb::module_& m) {
  m.def("linear", &linear<T>, nb::arg("X").noconvert(), nb::arg("w"), nb::arg("lists"),
        nb::kw_only(), nb::arg("rows").none(), nb::arg("rho"), nb::arg("method"),
        nb::arg("num_threads"),
        "Loss of the scores X w (of the rows given), and its gradient by w.");
}

}  // namespace

void bind_linear(nb::module_& m) {
  bind<float>(m);
  bind<double>(m);
}
