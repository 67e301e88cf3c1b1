// The listwise kernel for Python: the loss of a batch of lists, on several threads.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <tuple>

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

// (loss of each list, gradient, hessian, inner sum of each relevant item).
template <class T>
using ListwiseResult =
    std::tuple<Result<double>, std::optional<Result<T>>, std::optional<Result<T>>, Result<double>>;

template <class T>
ListwiseResult<T> listwise(Vector<T> scores, const ListBatch& lists, Choice<Rho> rho,
                           Choice<Method> method, Choice<Hessian> hessian, bool gradient,
                           int num_threads) {
  const Rho outer = rho.value();
  const Method sum = method.value();
  const Hessian want = hessian.value();
  const size_t n = scores.shape(0);
  check_length("scores", n, lists.n_items());
  const bool wants_hessian = want != Hessian::none, wants_gradient = gradient || wants_hessian;
  auto loss = allocate<double>(lists.n_lists()), t = allocate<double>(lists.n_relevant());
  auto gradient_out = allocate<T>(wants_gradient ? n : 0);
  auto hessian_out = allocate<T>(wants_hessian ? n : 0);
  {
    nb::gil_scoped_release released;
    const int threads = thread_count(num_threads, lists.n_lists(), lists.work());
    const auto memory = [&] { return ThreadScratch(lists.most_relevant()); };
    parallel_for(threads, lists.n_lists(), 8, memory, [&](int64_t q, const ThreadScratch& scratch) {
      const int64_t begin = lists.begin(q);
      const Answer<T> answer{wants_gradient ? gradient_out.get() + begin : nullptr,
                             wants_hessian ? hessian_out.get() + begin : nullptr,
                             t.get() + lists.relevant_begin(q)};
      loss[q] = loss_kernels<T>().loss(lists.list(q, scores.data() + begin), outer, sum, want,
                                       answer, scratch.view());
    });
  }
  const auto wanted = [n](bool is_wanted, std::unique_ptr<T[]> memory) {
    return is_wanted ? std::optional(hand_over(std::move(memory), n)) : std::nullopt;
  };
  return {
      hand_over(std::move(loss), lists.n_lists()), wanted(wants_gradient, std::move(gradient_out)),
      wanted(wants_hessian, std::move(hessian_out)), hand_over(std::move(t), lists.n_relevant())};
}

// Gradient and curvature of float64 scores, written as float32 into the buffers of a booster.
// Returns the loss of each list.
Result<double> listwise_into(Vector<double> scores, const ListBatch& lists,
                             MutableVector<float> gradient, MutableVector<float> hessian,
                             Choice<Rho> rho, Choice<Hessian> curvature, int num_threads) {
  const Rho outer = rho.value();
  const Hessian want = curvature.value();
  check_length("scores", scores.shape(0), lists.n_items());
  check_length("gradient_out", gradient.shape(0), lists.n_items());
  check_length("hessian_out", hessian.shape(0), lists.n_items());
  auto loss = allocate<double>(lists.n_lists());
  {
    nb::gil_scoped_release released;
    const int threads = thread_count(num_threads, lists.n_lists(), lists.work());
    const auto memory = [&] {
      return std::pair(ThreadScratch(lists.most_relevant()), allocate<float>(lists.longest()));
    };
    parallel_for(threads, lists.n_lists(), 8, memory, [&](int64_t q, const auto& own) {
      const auto& [scratch, rounded] = own;
      const int64_t begin = lists.begin(q);
      std::copy_n(scores.data() + begin, lists.size(q), rounded.get());
      const Answer<float> answer{gradient.data() + begin, hessian.data() + begin, nullptr};
      loss[q] = loss_kernels<float>().loss(lists.list(q, rounded.get()), outer, Method::automatic,
                                           want, answer, scratch.view());
    });
  }
  return hand_over(std::move(loss), lists.n_lists());
}

template <class T>
void bind(nb::module_& m) {
  m.def("listwise", &listwise<T>, nb::arg("scores").noconvert(), nb::arg("lists"), nb::kw_only(),
        nb::arg("rho"), nb::arg("method"), nb::arg("hessian").none(), nb::arg("gradient"),
        nb::arg("num_threads"),
        "Loss of every list, gradient and diagonal Hessian by the scores where wanted, and the "
        "inner sum of every relevant item.");
}

}  // namespace

void bind_listwise(nb::module_& m) {
  bind<float>(m);
  bind<double>(m);
  m.def("listwise_into", &listwise_into, nb::arg("scores").noconvert(), nb::arg("lists"),
        nb::kw_only(), nb::arg("gradient_out").noconvert(), nb::arg("hessian_out").noconvert(),
        nb::arg("rho"), nb::arg("hessian"), nb::arg("num_threads"),
        "Write gradient and diagonal Hessian by the scores into two arrays; return the loss of "
        "every list.");
}
