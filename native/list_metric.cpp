// NDCG and average precision of lists whose scores move along a line: what a line search over one
// weight of a linear ranker asks for, many steps at a time.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <vector>

#include "arrays.h"
#include "bindings.h"
#include "checks.h"
#include "parallel.h"

namespace nb = nanobind;
using namespace robirank;

namespace {

// Up to so many ranks, inserting into a sorted list is faster than sorting.
constexpr int64_t kInsertionMost = 64;

// One list in rank order; each thread has its own.
class Ranking {
 public:
  explicit Ranking(int64_t longest)
      : entries_(longest), scores_(longest), places_(longest), top_(longest) {}

  void score(const double* base, const double* direction, double step, int64_t n) {
    n_ = n;
    for (int64_t i = 0; i < n; ++i) {
      const double s = base[i] + step * direction[i];
      scores_[i] = s == s ? s : -std::numeric_limits<double>::infinity();  // ∞ − ∞ must not sort
    }
  }

  // Finds the places of the k largest scores, in descending order; of equal scores the first.
  void rank(int64_t k) {
    k_ = std::min(k, n_);
    if (k_ <= kInsertionMost && k_ < n_)
      insert();
    else
      sort();
  }

  int64_t ranked() const { return k_; }

  // The end of the run of equal scores, among the ranked, that starts at the given rank.
  int64_t run_end(int64_t begin) const {
    int64_t end = begin + 1;
    while (end < k_ && top_[end] == top_[begin]) ++end;
    return end;
  }

  struct Tied {
    double sum;
    int64_t count;
  };
  // Sum and number of the values of a run.
  Tied run(int64_t begin, int64_t end, const double* values) const {
    double sum = 0.0;
    for (int64_t r = begin; r < end; ++r) sum += values[places_[r]];
    return {sum, end - begin};
  }
  // The same of all that tie with a rank, also of those that are not ranked.
  Tied tied(int64_t rank, const double* values) const {
    Tied tied{0.0, 0};
    for (int64_t i = 0; i < n_; ++i)
      if (scores_[i] == top_[rank]) {
        tied.sum += values[i];
        ++tied.count;
      }
    return tied;
  }

 private:
  void insert() {
    int64_t kept = 0;
    for (int64_t i = 0; i < n_; ++i) {
      const double s = scores_[i];
      if (kept == k_ && !(s > top_[k_ - 1])) continue;
      int64_t at = kept < k_ ? kept++ : k_ - 1;
      for (; at > 0 && top_[at - 1] < s; --at) {
        top_[at] = top_[at - 1];
        places_[at] = places_[at - 1];
      }
      top_[at] = s;
      places_[at] = static_cast<int32_t>(i);
    }
  }

  void sort() {
    for (int64_t i = 0; i < n_; ++i) entries_[i] = {scores_[i], static_cast<int32_t>(i)};
    const auto before = [](const Entry& a, const Entry& b) {
      return a.score != b.score ? a.score > b.score : a.place < b.place;
    };
    const auto cut = entries_.begin() + k_;
    if (k_ < n_) std::nth_element(entries_.begin(), cut, entries_.begin() + n_, before);
    std::sort(entries_.begin(), cut, before);
    for (int64_t r = 0; r < k_; ++r) {
      top_[r] = entries_[r].score;
      places_[r] = entries_[r].place;
    }
  }

  struct Entry {  // score and place together: sorting through an index takes twice as long
    double score;
    int32_t place;
  };
  std::vector<Entry> entries_;
  std::vector<double> scores_;
  std::vector<int32_t> places_;
  std::vector<double> top_;
  int64_t n_ = 0, k_ = 0;
};

// Σ over the ranked of gain · discount; tied documents share the mean of their gains.
double dcg(const Ranking& list, const double* gain, const double* discount, bool average) {
  double sum = 0.0;
  for (int64_t begin = 0; begin < list.ranked();) {
    const int64_t end = average ? list.run_end(begin) : begin + 1;
    const bool cut = average && end == list.ranked();  // the run may go on beyond the cut-off
    const Ranking::Tied tied = cut ? list.tied(begin, gain) : list.run(begin, end, gain);
    const double mean = tied.sum / static_cast<double>(tied.count);
    for (int64_t r = begin; r < end; ++r) sum += mean * discount[r];
    begin = end;
  }
  return sum;
}

// Σ over relevant documents of the precision at their rank. In a run of m ties, c of them
// relevant, behind s documents of which b are relevant, the j-th place is expected to add
// c/m · (b + 1 + (j−1)(c−1)/(m−1)) / (s + j).
double precision_sum(const Ranking& list, const double* relevant, bool average) {
  double sum = 0.0, before = 0.0;
  for (int64_t begin = 0; begin < list.ranked();) {
    const int64_t end = average ? list.run_end(begin) : begin + 1;
    const double m = static_cast<double>(end - begin);
    const double c = list.run(begin, end, relevant).sum;
    const double spread = m > 1.0 ? (c - 1.0) / (m - 1.0) : 0.0;
    for (int64_t r = begin; c > 0.0 && r < end; ++r)
      sum += c / m * (before + 1.0 + static_cast<double>(r - begin) * spread) /
             static_cast<double>(r + 1);
    before += c;
    begin = end;
  }
  return sum;
}

// For each list and each step, the metric of base + step · direction, times the list's scale:
// DCG with discounts (its length is the cut-off), or the sum of precisions without. Average ties,
// or else let the first place win.
Result<double> metric_along(Vector<double> base, Vector<double> direction, Vector<double> steps,
                            Vector<double> value, Vector<int64_t> offsets, Vector<double> scale,
                            Vector<double> discount, bool average, int num_threads) {
  const int64_t n_rows = base.shape(0), n_lists = static_cast<int64_t>(offsets.shape(0)) - 1;
  const int64_t n_steps = steps.shape(0), cut = discount.shape(0);
  check_length("direction", direction.shape(0), n_rows);
  check_length("value", value.shape(0), n_rows);
  check_offsets("offsets", offsets, n_rows);
  check_length("scale", scale.shape(0), n_lists);
  int64_t longest = 0;
  for (int64_t q = 0; q < n_lists; ++q)
    longest = std::max(longest, offsets.data()[q + 1] - offsets.data()[q]);
  if (longest > std::numeric_limits<int32_t>::max())
    throw std::invalid_argument("offsets must rise by less than 2^31");
  auto metrics = allocate<double>(n_lists * n_steps);
  {
    nb::gil_scoped_release released;
    const bool selects = cut > 0 && cut <= kInsertionMost;
    const int64_t tasks = n_lists * n_steps;
    const int threads = thread_count(num_threads, tasks, (selects ? 2.0 : 16.0) * n_rows * n_steps);
    const auto make = [&] { return Ranking(longest); };
    parallel_for(threads, tasks, 16, make, [&](int64_t task, Ranking& list) {
      const int64_t q = task / n_steps, begin = offsets.data()[q];
      const int64_t n = offsets.data()[q + 1] - begin;
      list.score(base.data() + begin, direction.data() + begin, steps.data()[task % n_steps], n);
      list.rank(cut ? cut : n);
      const double sum = cut ? dcg(list, value.data() + begin, discount.data(), average)
                             : precision_sum(list, value.data() + begin, average);
      metrics[task] = sum * scale.data()[q];
    });
  }
  return hand_over(std::move(metrics), n_lists * n_steps);
}

}  // namespace

void bind_list_metric(nb::module_& m) {
  m.def("metric_along", &metric_along, nb::arg("base"), nb::arg("direction"), nb::arg("steps"),
        nb::kw_only(), nb::arg("value"), nb::arg("offsets"), nb::arg("scale"), nb::arg("discount"),
        nb::arg("average"), nb::arg("num_threads"),
        "The metric of each list under base + step * direction, list by list.");
}
