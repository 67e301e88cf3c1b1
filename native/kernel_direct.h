// The direct sum: every pair of a relevant item and another item.
// A part of kernels.cpp, which includes it inside the namespace of an instruction set.
#pragma once

// Scores this close together have 2^(s_j − s_y) = 2^(s_j − c) · 2^(c − s_y) without overflow.
constexpr double kFactorRange = 900.0;

// Sums over one relevant item: log2 Π(1 + p_j), Σ h_j and Σ h_j (1 − h_j).
struct PairSums {
  double log2_product = 0.0, slope = 0.0, bend = 0.0;
};

// Pairs of one relevant item with up to kProduct items, p_j = e_j r. The product of the mantissas
// of 1 + p_j is below 2^512, so one logarithm serves them all. Writes h_j where h is not null.
constexpr int kProduct = 512;

template <bool kStore>
inline PairSums pair_block(const double* __restrict e, int n, double r, double* __restrict h) {
  double product = 1.0, slope = 0.0, bend = 0.0;
  uint64_t exponents = 0;
#pragma omp simd reduction(* : product) reduction(+ : slope, bend, exponents)
  for (int j = 0; j < n; ++j) {
    const double p = e[j] * r, u = 1.0 + p, hj = p / u;
    const uint64_t bits = double_to_bits(u);
    exponents += bits >> 52;
    product *= bits_to_double((bits & 0x000fffffffffffffull) | 0x3ff0000000000000ull);
    slope += hj;
    bend += hj - hj * hj;
    if (kStore) h[j] = hj;
  }
  const double whole = static_cast<double>(exponents) - 1023.0 * n;
  return {whole + log2_fast(product), slope, bend};
}

template <bool kStore>
PairSums pair_sums(const double* e, int64_t n, double r, double* h) {
  PairSums sums;
  for (int64_t begin = 0; begin < n; begin += kProduct) {
    const int64_t left = n - begin;
    const PairSums block = pair_block<kStore>(e + begin, left < kProduct ? left : kProduct, r,
                                              kStore ? h + begin : nullptr);
    sums.log2_product += block.log2_product;
    sums.slope += block.slope;
    sums.bend += block.bend;
  }
  return sums;
}

// The term of the item with itself is not part of t_y: there p = 1, up to the last bit.
inline PairSums without_self(const PairSums& sums) {
  const double t = sums.log2_product - 1.0;
  return {t > 0.0 ? t : 0.0, sums.slope - 0.5, sums.bend - 0.25};
}

// What one relevant item adds to every other item's derivatives.
void add_to_items(const double* __restrict h, int64_t n, const Outer& y,
                  double* __restrict gradient, double* __restrict hessian) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) gradient[j] += y.first * h[j];
  if (!hessian) return;
  const double bend = kLn2 * y.first;
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) hessian[j] += h[j] * (bend * (1.0 - h[j]) + y.second * h[j]);
}

// … and to its own.
inline void add_to_self(const PairSums& sums, const Outer& y, double* gradient, double* hessian) {
  *gradient -= y.first * sums.slope;
  if (hessian) *hessian += y.first * kLn2 * sums.bend + y.second * sums.slope * sums.slope;
}

template <class T>
void write_out(const double* from, int64_t n, T* to) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) to[j] = static_cast<T>(from[j]);
}

template <class T>
void exponentials(const T* s, int64_t n, double centre, double* e) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) e[j] = exp2_fast(static_cast<double>(s[j]) - centre);
}

// A list that fits the cache: every pair is visited once.
template <class T>
double direct_short(const List<T>& list, double centre, Rho rho, Hessian want,
                    const Answer<T>& answer, const Scratch& scratch) {
  const int64_t m = list.items;
  double *e = scratch.items, *h = e + m, *gradient = h + m;
  double* hessian = answer.hessian ? gradient + m : nullptr;
  exponentials(list.scores, m, centre, e);
  memset(gradient, 0, (hessian ? 2 : 1) * m * sizeof(double));
  double loss = 0.0;
  for (int64_t i = 0; i < list.n_relevant; ++i) {
    const int32_t y = list.relevant[i];
    const double r = exp2_fast(centre - static_cast<double>(list.scores[y]));
    const PairSums all =
        answer.gradient ? pair_sums<true>(e, m, r, h) : pair_sums<false>(e, m, r, h);
    const PairSums sums = without_self(all);
    const Outer outer = outer_term(rho, want, list.weight[i], sums.log2_product);
    loss += outer.loss;
    if (answer.t) answer.t[i] = sums.log2_product;
    if (!answer.gradient) continue;
    h[y] = 0.0;
    add_to_items(h, m, outer, gradient, hessian);
    add_to_self(sums, outer, gradient + y, hessian ? hessian + y : nullptr);
  }
  if (answer.gradient) write_out(gradient, m, answer.gradient);
  if (hessian) write_out(hessian, m, answer.hessian);
  return loss;
}

// Per relevant item of a long list: r, t, slope, bend, first, second, one array after the other.
struct Relevant {
  double *r, *t, *slope, *bend, *first, *second;
  Relevant(double* base, int64_t k)
      : r(base), t(r + k), slope(t + k), bend(slope + k), first(bend + k), second(first + k) {}
};

// ρ of every inner sum: fills t, first and second, returns the loss.
template <class T>
double close_sums(const List<T>& list, Rho rho, Hessian want, const Relevant& y, double* t) {
  double loss = 0.0;
  for (int64_t i = 0; i < list.n_relevant; ++i) {
    const Outer outer = outer_term(rho, want, list.weight[i], y.t[i]);
    loss += outer.loss;
    y.first[i] = outer.first;
    y.second[i] = outer.second;
    if (t) t[i] = y.t[i];
  }
  return loss;
}

// A list that does not fit the cache: one sweep over blocks of items for the sums, and one more
// for the derivatives.
template <class T>
double direct_long(const List<T>& list, double centre, Rho rho, Hessian want,
                   const Answer<T>& answer, const Scratch& scratch) {
  const int64_t m = list.items, k = list.n_relevant;
  const Relevant y(scratch.relevant, k);
  double *e = scratch.items, *h = e + kShortList, *gradient = h + kShortList;
  double* hessian = answer.hessian ? gradient + kShortList : nullptr;
  for (int64_t i = 0; i < k; ++i) {
    y.r[i] = exp2_fast(centre - static_cast<double>(list.scores[list.relevant[i]]));
    y.t[i] = y.slope[i] = y.bend[i] = 0.0;
  }
  for (int64_t begin = 0; begin < m; begin += kShortList) {
    const int64_t n = m - begin < kShortList ? m - begin : kShortList;
    exponentials(list.scores + begin, n, centre, e);
    for (int64_t i = 0; i < k; ++i) {
      const PairSums sums = pair_sums<false>(e, n, y.r[i], nullptr);
      y.t[i] += sums.log2_product;
      y.slope[i] += sums.slope;
      y.bend[i] += sums.bend;
    }
  }
  for (int64_t i = 0; i < k; ++i) {
    const PairSums sums = without_self({y.t[i], y.slope[i], y.bend[i]});
    y.t[i] = sums.log2_product;
    y.slope[i] = sums.slope;
    y.bend[i] = sums.bend;
  }
  const double loss = close_sums(list, rho, want, y, answer.t);
  if (!answer.gradient) return loss;
  for (int64_t begin = 0; begin < m; begin += kShortList) {
    const int64_t n = m - begin < kShortList ? m - begin : kShortList;
    exponentials(list.scores + begin, n, centre, e);
    memset(gradient, 0, n * sizeof(double));
    if (hessian) memset(hessian, 0, n * sizeof(double));
    for (int64_t i = 0; i < k; ++i) {
      const double r = y.r[i];
#pragma omp simd
      for (int64_t j = 0; j < n; ++j) h[j] = e[j] * r / (1.0 + e[j] * r);
      const int64_t own = list.relevant[i] - begin;
      const Outer outer{0.0, y.first[i], y.second[i]};
      if (own >= 0 && own < n) {
        h[own] = 0.0;
        add_to_self({0.0, y.slope[i], y.bend[i]}, outer, gradient + own,
                    hessian ? hessian + own : nullptr);
      }
      add_to_items(h, n, outer, gradient, hessian);
    }
    write_out(gradient, n, answer.gradient + begin);
    if (hessian) write_out(hessian, n, answer.hessian + begin);
  }
  return loss;
}

// Scores so far apart that 2^(s_j − s_y) overflows: rare, so plain and safe rather than fast.
template <class T>
double direct_wide(const List<T>& list, Rho rho, Hessian want, const Answer<T>& answer) {
  const int64_t m = list.items;
  const T* s = list.scores;
  double loss = 0.0;
  for (int64_t i = 0; i < list.n_relevant; ++i) {
    const int32_t y = list.relevant[i];
    const double own = s[y];
    PairSums sums;
    for (int64_t j = 0; j < m; ++j) {
      if (j == y) continue;
      const double d = s[j] - own, p = exp2(-fabs(d)), h = (d > 0 ? 1.0 : p) / (1.0 + p);
      sums.log2_product += (d > 0 ? d : 0.0) + log1p(p) * kInvLn2;
      sums.slope += h;
      sums.bend += h * (1.0 - h);
    }
    const Outer outer = outer_term(rho, want, list.weight[i], sums.log2_product);
    loss += outer.loss;
    if (answer.t) answer.t[i] = sums.log2_product;
    if (!answer.gradient) continue;
    for (int64_t j = 0; j < m; ++j) {
      if (j == y) continue;
      const double d = s[j] - own, p = exp2(-fabs(d)), h = (d > 0 ? 1.0 : p) / (1.0 + p);
      answer.gradient[j] += static_cast<T>(outer.first * h);
      if (answer.hessian)
        answer.hessian[j] +=
            static_cast<T>(h * (outer.first * kLn2 * (1.0 - h) + outer.second * h));
    }
    double gradient = 0.0, hessian = 0.0;
    add_to_self(sums, outer, &gradient, &hessian);
    answer.gradient[y] += static_cast<T>(gradient);
    if (answer.hessian) answer.hessian[y] += static_cast<T>(hessian);
  }
  return loss;
}
