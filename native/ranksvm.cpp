// RankSVM's pair sum in O(n log n) per list: scores are sorted, a window slides over them, and an
// order-statistic (Fenwick) tree over the labels' ranks keeps counts and sums of what is inside.
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <tuple>
#include <vector>

#include "arrays.h"
#include "bindings.h"
#include "checks.h"
#include "parallel.h"

namespace nb = nanobind;
using namespace robirank;

namespace {

// Counts and sums of scores by label rank, with sums over all ranks below a given one.
class LabelTree {
 public:
  explicit LabelTree(int ranks) : count_(ranks + 1), sum_(ranks + 1) {}

  void clear() {
    std::fill(count_.begin(), count_.end(), 0.0);
    std::fill(sum_.begin(), sum_.end(), 0.0);
    total_count_ = total_sum_ = 0.0;
  }

  void add(int rank, double score) {
    total_count_ += 1.0;
    total_sum_ += score;
    for (size_t i = rank + 1; i < count_.size(); i += i & (~i + 1)) {
      count_[i] += 1.0;
      sum_[i] += score;
    }
  }

  struct Sums {
    double count, score;
  };

  Sums below(int rank) const {
    Sums sums{0.0, 0.0};
    for (size_t i = rank; i > 0; i -= i & (~i + 1)) {
      sums.count += count_[i];
      sums.score += sum_[i];
    }
    return sums;
  }

  Sums above(int rank) const {
    const Sums rest = below(rank + 1);
    return {total_count_ - rest.count, total_sum_ - rest.score};
  }

 private:
  std::vector<double> count_, sum_;
  double total_count_ = 0.0, total_sum_ = 0.0;
};

// With d_ij = 1 − s_i + s_j over pairs of a better i and a worse j that violate the margin
// (d_ij > 0), and p_i = Σ_j d_ij, q_j = Σ_i d_ij:
//   Σ d² = Σ_i p_i (1 − s_i) + Σ_j q_j s_j,   gradient_i = −2 p_i,   gradient_j = +2 q_j.
double one_list(const double* s, const int32_t* rank, int64_t n, double* gradient,
                std::vector<int64_t>& order, LabelTree& tree) {
  order.resize(n);
  std::iota(order.begin(), order.end(), int64_t{0});
  std::sort(order.begin(), order.end(), [s](int64_t a, int64_t b) { return s[a] < s[b]; });
  double loss = 0.0;

  tree.clear();
  for (int64_t place = n, next = n; place-- > 0;) {  // from the best score down
    const int64_t i = order[place];
    while (next > 0 && s[order[next - 1]] > s[i] - 1.0) {
      --next;
      tree.add(rank[order[next]], s[order[next]]);
    }
    const LabelTree::Sums worse = tree.below(rank[i]);
    const double p = worse.count * (1.0 - s[i]) + worse.score;
    gradient[i] = -2.0 * p;
    loss += p * (1.0 - s[i]);
  }

  tree.clear();
  for (int64_t place = 0, next = 0; place < n; ++place) {  // from the worst score up
    const int64_t j = order[place];
    while (next < n && s[order[next]] < s[j] + 1.0) {
      tree.add(rank[order[next]], s[order[next]]);
      ++next;
    }
    const LabelTree::Sums better = tree.above(rank[j]);
    const double q = better.count * (1.0 + s[j]) - better.score;
    gradient[j] += 2.0 * q;
    loss += q * s[j];
  }
  return loss;
}

// Σ over lists of weight · Σ_{better i, worse j} max(0, 1 − s_i + s_j)², and its gradient by s.
std::tuple<double, Result<double>> ranksvm(Vector<double> scores, Vector<int32_t> rank,
                                           Vector<int64_t> offsets, Vector<double> weight,
                                           int ranks, int num_threads) {
  const int64_t n_rows = scores.shape(0), n_lists = static_cast<int64_t>(offsets.shape(0)) - 1;
  check_between("ranks", ranks, 0, std::numeric_limits<int>::max() - 1);
  check_length("rank", rank.shape(0), n_rows);
  check_indices("rank", rank, ranks);
  check_offsets("offsets", offsets, n_rows);
  check_length("weight", weight.shape(0), n_lists);
  auto gradient = allocate<double>(n_rows), losses = allocate<double>(n_lists);
  double loss = 0.0;
  {
    nb::gil_scoped_release released;
    struct Memory {
      LabelTree tree;
      std::vector<int64_t> order;
      std::vector<double> centred;
    };
    const int threads = thread_count(num_threads, n_lists, 200.0 * n_rows);
    const auto make = [&] { return Memory{LabelTree(ranks), {}, {}}; };
    parallel_for(threads, n_lists, 8, make, [&](int64_t q, Memory& memory) {
      const int64_t begin = offsets.data()[q], n = offsets.data()[q + 1] - begin;
      auto& [tree, order, centred] = memory;
      if (n == 0) {
        losses[q] = 0.0;
        return;
      }
      // Only differences count; small numbers keep the sums' digits.
      const double* s = scores.data() + begin;
      const double mean = std::accumulate(s, s + n, 0.0) / n;
      if (!(mean - mean == 0.0)) {  // not finite, and not to be sorted
        std::fill(gradient.get() + begin, gradient.get() + begin + n, 0.0);
        losses[q] = mean - mean;
        return;
      }
      centred.resize(n);
      for (int64_t i = 0; i < n; ++i) centred[i] = s[i] - mean;
      double* out = gradient.get() + begin;
      losses[q] =
          weight.data()[q] * one_list(centred.data(), rank.data() + begin, n, out, order, tree);
      for (int64_t i = 0; i < n; ++i) out[i] *= weight.data()[q];
    });
    for (int64_t q = 0; q < n_lists; ++q) loss += losses[q];
  }
  return {loss, hand_over(std::move(gradient), n_rows)};
}

}  // namespace

void bind_ranksvm(nb::module_& m) {
  m.def("ranksvm", &ranksvm, nb::arg("scores"), nb::kw_only(), nb::arg("rank"), nb::arg("offsets"),
        nb::arg("weight"), nb::arg("ranks"), nb::arg("num_threads"),
        "Sum over lists of weight times the squared hinge of all pairs, and its gradient.");
}
