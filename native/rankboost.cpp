// RankBoost's two sums over pairs of documents, in time that is linear in the documents: the weight
// of a pair is exp(score of the worse − score of the better), which is a product.
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "arrays.h"
#include "bindings.h"
#include "checks.h"
#include "parallel.h"

namespace nb = nanobind;
using namespace robirank;

namespace {

// Of two weak rankers that are this close, the first is taken, so that rounding does not decide.
constexpr double kTie = 1e-12;

// The sums of one list; each thread has its own.
struct Pairs {
  std::vector<double> lift;           // exp(s) of each document
  std::vector<double> better, worse;  // Σ exp(−s) of the grades above, Σ exp(s) of those below

  // Σ over pairs of exp(s_j − s_i), and for each document the part of it where it is the better
  // one less the part where it is the worse one.
  double potential(const double* s, const int32_t* grade, int64_t n, double* out) {
    const auto [low, high] = std::minmax_element(s, s + n);
    const double middle = 0.5 * (*low + *high);  // differences stay, and exponents stay small
    const int32_t grades = *std::max_element(grade, grade + n) + 1;
    lift.resize(n);
    better.assign(grades, 0.0);
    worse.assign(grades, 0.0);
    for (int64_t i = 0; i < n; ++i) {
      lift[i] = std::exp(s[i] - middle);
      better[grade[i]] += 1.0 / lift[i];
      worse[grade[i]] += lift[i];
    }
    double below = 0.0, loss = 0.0;
    for (int32_t g = 0; g < grades; ++g) {
      const double of_grade = worse[g];
      worse[g] = below;
      loss += better[g] * below;
      below += of_grade;
    }
    double above = 0.0;
    for (int32_t g = grades; g-- > 0;) {
      const double of_grade = better[g];
      better[g] = above;
      above += of_grade;
    }
    for (int64_t i = 0; i < n; ++i) out[i] = worse[grade[i]] / lift[i] - lift[i] * better[grade[i]];
    return loss;
  }
};

// Σ over lists of weight · Σ_{better i, worse j} exp(s_j − s_i), and the potential of each
// document, which is the negative gradient. `grade` counts the labels of a list from 0.
std::tuple<double, Result<double>> rankboost_potential(Vector<double> scores, Vector<int32_t> grade,
                                                       Vector<int64_t> offsets,
                                                       Vector<double> weight, int num_threads) {
  const int64_t n_rows = scores.shape(0), n_lists = static_cast<int64_t>(offsets.shape(0)) - 1;
  check_length("grade", grade.shape(0), n_rows);
  check_indices("grade", grade, n_rows);
  check_offsets("offsets", offsets, n_rows);
  check_length("weight", weight.shape(0), n_lists);
  auto potential = allocate<double>(n_rows), losses = allocate<double>(n_lists);
  double loss = 0.0;
  {
    nb::gil_scoped_release released;
    const int threads = thread_count(num_threads, n_lists, 20.0 * n_rows);
    parallel_for(
        threads, n_lists, 8, [] { return Pairs(); },
        [&](int64_t q, Pairs& pairs) {
          const int64_t begin = offsets.data()[q], n = offsets.data()[q + 1] - begin;
          losses[q] = 0.0;
          if (n < 1) return;
          double* out = potential.get() + begin;
          losses[q] = weight.data()[q] *
                      pairs.potential(scores.data() + begin, grade.data() + begin, n, out);
          for (int64_t i = 0; i < n; ++i) out[i] *= weight.data()[q];
        });
    for (int64_t q = 0; q < n_lists; ++q) loss += losses[q];
  }
  return {loss, hand_over(std::move(potential), n_rows)};
}

struct Cut {
  int64_t cut;
  double r;
};

// The cut of one feature with the largest |Σ_{code > cut} potential|; `width` > any code and cut.
template <class Code>
Cut best_cut(const Code* codes, const double* potential, int64_t n, int64_t cuts, int64_t width,
             double tie, std::vector<double>& sums) {
  // Four tables in turn: neighbours often share a cell, and would wait for one another.
  sums.assign(4 * width, 0.0);
  double* table = sums.data();
  int64_t i = 0;
  for (; i + 4 <= n; i += 4)
    for (int64_t t = 0; t < 4; ++t) table[t * width + codes[i + t]] += potential[i + t];
  for (; i < n; ++i) table[codes[i]] += potential[i];

  Cut best{-1, 0.0};
  double r = 0.0;
  for (int64_t cut = cuts; cut-- > 0;) {
    const int64_t cell = cut + 1;
    r += table[cell] + table[width + cell] + table[2 * width + cell] + table[3 * width + cell];
    if (std::abs(r) > std::abs(best.r) + tie) best = {cut, r};
  }
  return best;
}

template <class Code>
int64_t largest(const Matrix<Code>& codes) {
  const Code* end = codes.data() + codes.size();
  return codes.size() ? static_cast<int64_t>(*std::max_element(codes.data(), end)) : 0;
}

// The weak ranker "code of a feature > cut" with the largest |r|, r = Σ potential over the
// documents that it lifts: (feature, cut, r); feature −1 if there is none with r ≠ 0.
template <class Code>
std::tuple<int64_t, int64_t, double> rankboost_weak_ranker(Matrix<Code> codes, Vector<int64_t> cuts,
                                                           Vector<double> potential, double loss,
                                                           int num_threads) {
  const int64_t n_features = codes.shape(0), n_rows = codes.shape(1);
  check_length("cuts", cuts.shape(0), n_features);
  check_length("potential", potential.shape(0), n_rows);
  // With a table for every value of a small code type, the codes need not be checked before use.
  constexpr int64_t kAllCodes = sizeof(Code) == 1 ? 256 : 0;
  int64_t most = 0;
  for (int64_t f = 0; f < n_features; ++f) most = std::max(most, cuts.data()[f]);
  if (kAllCodes ? most >= kAllCodes : largest(codes) > most)
    throw std::invalid_argument("codes must not exceed the number of cuts");
  const int64_t width = kAllCodes ? kAllCodes : most + 1;
  std::vector<Cut> best_cuts(n_features);
  int64_t feature = -1;
  {
    nb::gil_scoped_release released;
    const double tie = kTie * loss;
    const int threads = thread_count(num_threads, n_features, 1.0 * n_features * n_rows);
    const auto make = [] { return std::vector<double>(); };
    parallel_for(threads, n_features, 1, make, [&](int64_t f, std::vector<double>& sums) {
      best_cuts[f] = best_cut(codes.data() + f * n_rows, potential.data(), n_rows, cuts.data()[f],
                              width, tie, sums);
    });
    double best = 0.0;
    for (int64_t f = 0; f < n_features; ++f)
      if (std::abs(best_cuts[f].r) > best + tie) {
        best = std::abs(best_cuts[f].r);
        feature = f;
      }
  }
  if (feature < 0) return {-1, -1, 0.0};
  return {feature, best_cuts[feature].cut, best_cuts[feature].r};
}

template <class Code>
void bind_weak_ranker(nb::module_& m) {
  m.def("rankboost_weak_ranker", &rankboost_weak_ranker<Code>, nb::arg("codes"), nb::arg("cuts"),
        nb::arg("potential"), nb::arg("loss"), nb::arg("num_threads"),
        "The best weak ranker 'code of a feature > cut': (feature, cut, r), feature -1 for none.");
}

}  // namespace

void bind_rankboost(nb::module_& m) {
  m.def("rankboost_potential", &rankboost_potential, nb::arg("scores"), nb::arg("grade"),
        nb::arg("offsets"), nb::arg("weight"), nb::arg("num_threads"),
        "Sum over lists of weight times exp(worse - better) of all pairs, and the potential of "
        "each document.");
  bind_weak_ranker<uint8_t>(m);
  bind_weak_ranker<uint32_t>(m);
}
