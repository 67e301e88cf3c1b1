// Lists of distinct items drawn from mixtures of a few tables, one mixture per user.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "arrays.h"
#include "bindings.h"
#include "checks.h"
#include "parallel.h"
#include "streams.h"

namespace nb = nanobind;
using namespace robirank;

namespace {

// A draw from a fixed distribution in constant time (the alias method; Walker 1977, Vose 1991).
class Alias {
 public:
  Alias(const float* weight, int64_t n) : cells_(n) {
    double sum = 0.0;
    for (int64_t i = 0; i < n; ++i) sum += weight[i];
    std::vector<double> share(n);
    std::vector<int32_t> small, large;
    for (int64_t i = 0; i < n; ++i) {
      share[i] = weight[i] * static_cast<double>(n) / sum;
      (share[i] < 1.0 ? small : large).push_back(static_cast<int32_t>(i));
    }
    while (!small.empty() && !large.empty()) {
      const int32_t low = small.back(), high = large.back();
      small.pop_back();
      cells_[low] = {static_cast<float>(share[low]), high};
      share[high] -= 1.0 - share[low];
      if (share[high] < 1.0) {
        large.pop_back();
        small.push_back(high);
      }
    }
    for (const int32_t i : small) cells_[i] = {1.0f, i};  // 1 up to rounding
    for (const int32_t i : large) cells_[i] = {1.0f, i};
  }

  int32_t draw(Stream& random) const {
    const int64_t i = random.below(static_cast<int64_t>(cells_.size()));
    return random.uniform() < cells_[i].keep ? static_cast<int32_t>(i) : cells_[i].other;
  }

 private:
  struct Cell {
    float keep;
    int32_t other;
  };
  std::vector<Cell> cells_;
};

struct Mixture {
  const float* table;  // n_tables × n_items
  int64_t n_tables, n_items;
  std::vector<Alias> aliases;
  std::vector<double> sums;

  Mixture(const Matrix<float>& tables)
      : table(tables.data()), n_tables(tables.shape(0)), n_items(tables.shape(1)) {
    for (int64_t k = 0; k < n_tables; ++k) {
      double sum = 0.0;
      for (int64_t i = 0; i < n_items; ++i) sum += table[k * n_items + i];
      if (!(sum > 0.0) || !std::isfinite(sum))
        throw std::invalid_argument("every table needs a finite sum above 0");
      sums.push_back(sum);
      aliases.emplace_back(table + k * n_items, n_items);
    }
  }

  int32_t draw(const float* share, Stream& random) const {
    double rest = random.uniform();
    int64_t k = 0;
    while (k + 1 < n_tables && rest >= share[k]) rest -= share[k++];
    return aliases[k].draw(random);
  }

  double weight(const float* share, int64_t item) const {
    double sum = 1e-30;  // no item is impossible: a user may want all of them
    for (int64_t k = 0; k < n_tables; ++k) sum += share[k] * table[k * n_items + item] / sums[k];
    return sum;
  }
};

// Draws lists without repetition; each thread has its own.
class Lists {
 public:
  explicit Lists(const Mixture& mixture) : mixture_(mixture), holder_(mixture.n_items, -1) {}

  void draw(const float* share, int64_t user, uint64_t seed, int32_t* out, int64_t wanted) {
    Stream random(seed, user);
    int64_t n = 0;
    // Repeated items are drawn again, a limited number of times: a user who takes most of the
    // likely items would take forever.
    for (int64_t tries = 8 * wanted + 1000; n < wanted && tries > 0; --tries) {
      const int32_t item = mixture_.draw(share, random);
      if (holder_[item] == user) continue;
      holder_[item] = user;
      out[n++] = item;
    }
    if (n < wanted) draw_rest(share, user, random, out + n, wanted - n);
    std::sort(out, out + wanted);
  }

 private:
  // What remains, in one go: the items with the smallest Exp(1)/weight come in the same order as
  // draws without repetition would (Efraimidis and Spirakis, 2006).
  void draw_rest(const float* share, int64_t user, Stream& random, int32_t* out, int64_t wanted) {
    keys_.clear();
    for (int64_t i = 0; i < mixture_.n_items; ++i)
      if (holder_[i] != user)
        keys_.emplace_back(-std::log1p(-random.uniform()) / mixture_.weight(share, i), i);
    std::nth_element(keys_.begin(), keys_.begin() + (wanted - 1), keys_.end());
    for (int64_t i = 0; i < wanted; ++i) out[i] = keys_[i].second;
  }

  const Mixture& mixture_;
  std::vector<int64_t> holder_;  // the last user who drew the item
  std::vector<std::pair<double, int32_t>> keys_;
};

// For each user, as many distinct items as indptr says, drawn one after the other with
// probability Σ_k share[user, k] · table[k, item] / Σ table[k], sorted.
Result<int32_t> draw_lists(Vector<int64_t> indptr, Matrix<float> share, Matrix<float> tables,
                           uint64_t seed, int num_threads) {
  const int64_t n_users = static_cast<int64_t>(indptr.shape(0)) - 1;
  const int64_t n_items = tables.shape(1);
  check_offsets("indptr", indptr);
  check_length("share", share.shape(0), n_users);
  check_columns("share", share.shape(1), tables.shape(0));
  if (tables.shape(0) == 0) throw std::invalid_argument("tables must have at least one row");
  for (int64_t u = 0; u < n_users; ++u)
    check_between("the number of a user's items", indptr.data()[u + 1] - indptr.data()[u], 0,
                  n_items);
  const int64_t n = indptr.data()[n_users];
  auto items = allocate<int32_t>(n);
  {
    nb::gil_scoped_release released;
    const Mixture mixture(tables);
    const int threads = thread_count(num_threads, n_users, 100.0 * n);
    const auto make = [&] { return Lists(mixture); };
    parallel_for(threads, n_users, 64, make, [&](int64_t u, Lists& lists) {
      lists.draw(share.data() + u * share.shape(1), u, seed, items.get() + indptr.data()[u],
                 indptr.data()[u + 1] - indptr.data()[u]);
    });
  }
  return hand_over(std::move(items), n);
}

}  // namespace

void bind_draw_lists(nb::module_& m) {
  m.def("draw_lists", &draw_lists, nb::arg("indptr"), nb::arg("share"), nb::arg("tables"),
        nb::kw_only(), nb::arg("seed"), nb::arg("num_threads"),
        "Distinct items of each user, as many as indptr says, from a mixture of the tables.");
}
