// The listwise kernel for Python: batches of lists, on several threads.
#include <nanobind/stl/optional.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

#include "arrays.h"
#include "bindings.h"
#include "kernels/kernels.h"
#include "scratch.h"

namespace nb = nanobind;
using namespace robirank;

namespace {

double one_list(const List<float>& list, Rho rho, Method method, Hessian hessian,
                const Answer<float>& answer, const Scratch& scratch) {
  return kernels().lists.f32.loss(list, rho, method, hessian, answer, scratch);
}
double one_list(const List<double>& list, Rho rho, Method method, Hessian hessian,
                const Answer<double>& answer, const Scratch& scratch) {
  return kernels().lists.f64.loss(list, rho, method, hessian, answer, scratch);
}

// ------------------------------------------------------------------------------ lists

// A batch of lists: list q owns the scores offsets[q]:offsets[q + 1] and the relevant items
// relevant[starts[q]:starts[q + 1]], which are places within the list.
struct Batch {
  const int64_t *offsets, *starts;
  const int32_t* relevant;
  const double* weight;
  int64_t n_lists;

  int64_t begin(int64_t q) const { return offsets[q]; }
  int64_t size(int64_t q) const { return offsets[q + 1] - offsets[q]; }

  template <class T>
  List<T> list(int64_t q, const T* its_scores) const {
    return {its_scores, size(q), relevant + starts[q], weight + starts[q],
            starts[q + 1] - starts[q]};
  }

  int64_t longest() const {
    int64_t most = 0;
    for (int64_t q = 0; q < n_lists; ++q) most = std::max(most, size(q));
    return most;
  }

  // Pairs of a relevant item and another one, plus a step for each item.
  double work() const {
    double steps = 0.0;
    for (int64_t q = 0; q < n_lists; ++q)
      steps += static_cast<double>(size(q)) * (1 + starts[q + 1] - starts[q]);
    return steps;
  }

  int64_t most_relevant() const {
    int64_t most = 0;
    for (int64_t q = 0; q < n_lists; ++q) most = std::max(most, starts[q + 1] - starts[q]);
    return most;
  }
};

Batch check_batch(const Vector<int64_t>& offsets, const Vector<int64_t>& starts,
                  const Vector<int32_t>& relevant, const Vector<double>& weight, int64_t n_rows) {
  const int64_t n = static_cast<int64_t>(offsets.shape(0)) - 1;
  if (n < 0 || static_cast<int64_t>(starts.shape(0)) != n + 1)
    throw std::invalid_argument("offsets and starts must both have n_lists + 1 entries");
  const Batch batch{offsets.data(), starts.data(), relevant.data(), weight.data(), n};
  if (batch.offsets[0] != 0 || batch.offsets[n] != n_rows)
    throw std::invalid_argument("offsets must run from 0 to the number of rows");
  if (batch.starts[0] != 0 || batch.starts[n] != static_cast<int64_t>(relevant.shape(0)) ||
      relevant.shape(0) != weight.shape(0))
    throw std::invalid_argument("starts must run from 0 to the number of relevant items");
  for (int64_t q = 0; q < n; ++q) {
    if (batch.size(q) < 0 || batch.starts[q + 1] < batch.starts[q])
      throw std::invalid_argument("offsets and starts must not decrease");
    for (int64_t i = batch.starts[q]; i < batch.starts[q + 1]; ++i)
      if (batch.relevant[i] < 0 || batch.relevant[i] >= batch.size(q))
        throw std::invalid_argument("relevant must hold places within the list");
  }
  return batch;
}

template <class T>
nb::tuple listwise(Vector<T> scores, Vector<int64_t> offsets, Vector<int64_t> starts,
                   Vector<int32_t> relevant, Vector<double> weight, int rho, int method,
                   int hessian, bool gradient, int n_threads) {
  const size_t n_rows = scores.shape(0), n_relevant = relevant.shape(0);
  const Batch batch = check_batch(offsets, starts, relevant, weight, n_rows);
  const bool bends = static_cast<Hessian>(hessian) != Hessian::none;
  auto loss = allocate<double>(batch.n_lists), t = allocate<double>(n_relevant);
  auto slope = allocate<T>(gradient || bends ? n_rows : 0), bend = allocate<T>(bends ? n_rows : 0);
  {
    nb::gil_scoped_release released;
    const int threads = thread_count(n_threads, batch.n_lists, batch.work());
    const int64_t most_relevant = batch.most_relevant();
#pragma omp parallel num_threads(threads)
    {
      const ThreadScratch scratch(most_relevant);
#pragma omp for schedule(dynamic, 8)
      for (int64_t q = 0; q < batch.n_lists; ++q) {
        const int64_t begin = batch.begin(q);
        const Answer<T> answer{gradient || bends ? slope.get() + begin : nullptr,
                               bends ? bend.get() + begin : nullptr, t.get() + batch.starts[q]};
        loss[q] = one_list(batch.list(q, scores.data() + begin), static_cast<Rho>(rho),
                           static_cast<Method>(method), static_cast<Hessian>(hessian), answer,
                           scratch.view());
      }
    }
  }
  return nb::make_tuple(
      hand_over(std::move(loss), batch.n_lists),
      gradient || bends ? nb::cast(hand_over(std::move(slope), n_rows)) : nb::none(),
      bends ? nb::cast(hand_over(std::move(bend), n_rows)) : nb::none(),
      hand_over(std::move(t), n_relevant));
}

// ------------------------------------------------------------------------------ linear model

void dot_rows(const float* X, const int64_t* rows, int64_t n, int64_t d, const double* w,
              double* out) {
  kernels().lists.f32.dot(X, rows, n, d, w, out);
}
void dot_rows(const double* X, const int64_t* rows, int64_t n, int64_t d, const double* w,
              double* out) {
  kernels().lists.f64.dot(X, rows, n, d, w, out);
}
void add_rows(const float* X, const int64_t* rows, int64_t n, int64_t d, const double* g,
              double* sum) {
  kernels().lists.f32.add(X, rows, n, d, g, sum);
}
void add_rows(const double* X, const int64_t* rows, int64_t n, int64_t d, const double* g,
              double* sum) {
  kernels().lists.f64.add(X, rows, n, d, g, sum);
}

// Lists are taken in chunks of about this many rows. The chunks do not depend on the number of
// threads and their sums are added in order, so neither does the answer, to the last bit.
constexpr int64_t kChunkRows = 2048;

std::vector<int64_t> chunk_lists(const Batch& batch) {
  std::vector<int64_t> chunks = {0};
  int64_t rows = 0;
  for (int64_t q = 0; q < batch.n_lists; ++q) {
    rows += batch.size(q);
    if (rows >= kChunkRows || q + 1 == batch.n_lists) {
      chunks.push_back(q + 1);
      rows = 0;
    }
  }
  return chunks;
}

// Loss and gradient of the linear model s = X w, list by list: the rows of a list are still in the
// cache when the gradient goes back through them, so X comes from memory once.
template <class T>
nb::tuple linear(Matrix<T> X, std::optional<Vector<int64_t>> rows, Vector<int64_t> offsets,
                 Vector<int64_t> starts, Vector<int32_t> relevant, Vector<double> weight,
                 Vector<double> w, int rho, int method, int n_threads) {
  const int64_t n_rows = X.shape(0), d = X.shape(1);
  const int64_t n_places = rows ? rows->shape(0) : n_rows;
  const Batch batch = check_batch(offsets, starts, relevant, weight, n_places);
  if (static_cast<int64_t>(w.shape(0)) != d)
    throw std::invalid_argument("w must have one entry a column of X");
  const int64_t* order = rows ? rows->data() : nullptr;
  for (int64_t i = 0; order && i < n_places; ++i)
    if (order[i] < 0 || order[i] >= n_rows) throw std::invalid_argument("rows is out of range");
  double total = 0.0;
  auto gradient = allocate<double>(d);
  {
    nb::gil_scoped_release released;
    const std::vector<int64_t> chunks = chunk_lists(batch);
    const int64_t n_chunks = static_cast<int64_t>(chunks.size()) - 1;
    const int64_t longest = batch.longest(), most_relevant = batch.most_relevant();
    const int threads = thread_count(n_threads, n_chunks, batch.work() + 0.25 * n_places * d);
    std::vector<double> losses(n_chunks, 0.0);
    auto sums = allocate<double>(n_chunks * d);
#pragma omp parallel num_threads(threads)
    {
      const ThreadScratch scratch(most_relevant);
      const auto scores = allocate<double>(longest), slope = allocate<double>(longest);
#pragma omp for schedule(dynamic, 1)
      for (int64_t c = 0; c < n_chunks; ++c) {
        double* sum = sums.get() + c * d;
        std::fill(sum, sum + d, 0.0);
        for (int64_t q = chunks[c]; q < chunks[c + 1]; ++q) {
          const int64_t begin = batch.begin(q), n = batch.size(q);
          if (batch.starts[q + 1] == batch.starts[q]) continue;  // nothing relevant, no loss
          const T* block = order ? X.data() : X.data() + begin * d;
          const int64_t* its_rows = order ? order + begin : nullptr;
          dot_rows(block, its_rows, n, d, w.data(), scores.get());
          losses[c] += one_list(batch.list(q, scores.get()), static_cast<Rho>(rho),
                                static_cast<Method>(method), Hessian::none,
                                Answer<double>{slope.get(), nullptr, nullptr}, scratch.view());
          add_rows(block, its_rows, n, d, slope.get(), sum);
        }
      }
    }
    std::fill(gradient.get(), gradient.get() + d, 0.0);
    for (int64_t c = 0; c < n_chunks; ++c) {
      total += losses[c];
      for (int64_t j = 0; j < d; ++j) gradient[j] += sums[c * d + j];
    }
  }
  return nb::make_tuple(total, hand_over(std::move(gradient), d));
}

}  // namespace

void bind_listwise(nb::module_& m) {
  m.def("listwise", &listwise<float>, nb::arg("scores").noconvert(), nb::arg("offsets"),
        nb::arg("starts"), nb::arg("relevant"), nb::arg("weight"), nb::arg("rho"),
        nb::arg("method"), nb::arg("hessian"), nb::arg("gradient"), nb::arg("n_threads"));
  m.def("listwise", &listwise<double>, nb::arg("scores").noconvert(), nb::arg("offsets"),
        nb::arg("starts"), nb::arg("relevant"), nb::arg("weight"), nb::arg("rho"),
        nb::arg("method"), nb::arg("hessian"), nb::arg("gradient"), nb::arg("n_threads"));
  m.def("linear", &linear<float>, nb::arg("X").noconvert(), nb::arg("rows").none(),
        nb::arg("offsets"), nb::arg("starts"), nb::arg("relevant"), nb::arg("weight"), nb::arg("w"),
        nb::arg("rho"), nb::arg("method"), nb::arg("n_threads"));
  m.def("linear", &linear<double>, nb::arg("X").noconvert(), nb::arg("rows").none(),
        nb::arg("offsets"), nb::arg("starts"), nb::arg("relevant"), nb::arg("weight"), nb::arg("w"),
        nb::arg("rho"), nb::arg("method"), nb::arg("n_threads"));
}
