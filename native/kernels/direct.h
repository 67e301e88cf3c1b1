// The direct sum: every pair of a relevant item and another item.
// A part of list_kernels.cpp, which includes it inside the namespace of an instruction set.
#pragma once

// Scores this close together have 2^(s_j − s_y) = 2^(s_j − c) · 2^(c − s_y) without overflow.
constexpr double kFactorRange = 900.0;

// Sums over the other items of one relevant item: log2 Π(1 + p_j), Σ h_j and Σ h_j (1 − h_j).
struct PairSums {
  double log2_product = 0.0, h_sum = 0.0, h_spread = 0.0;
};

// Pairs of two relevant items with up to kProduct items, p_j = e_j r. Two at a time, because one
// alone leaves the processor waiting for its own sums. The product of the mantissas of 1 + p_j is
// below 2^512, so one logarithm is enough. Writes h_j where it is to be kept.
constexpr int kProduct = 512;
constexpr uint64_t kMantissa = 0x000fffffffffffffull, kOne = 0x3ff0000000000000ull;

template <bool kStore>
inline void pair_chunk(const double* __restrict e, int n, const double* r, double* __restrict h0,
                       double* __restrict h1, PairSums* sums) {
  const double r0 = r[0], r1 = r[1];
  double product0 = 1.0, h_sum0 = 0.0, h_spread0 = 0.0, product1 = 1.0, h_sum1 = 0.0,
         h_spread1 = 0.0;
  uint64_t exponents0 = 0, exponents1 = 0;
#pragma omp simd reduction(* : product0, product1) \
    reduction(+ : h_sum0, h_spread0, exponents0, h_sum1, h_spread1, exponents1)
  for (int j = 0; j < n; ++j) {
    const double p0 = e[j] * r0, p1 = e[j] * r1;
    const double u0 = 1.0 + p0, u1 = 1.0 + p1;
    const double x0 = p0 / u0, x1 = p1 / u1;
    const uint64_t bits0 = double_to_bits(u0), bits1 = double_to_bits(u1);
    exponents0 += bits0 >> 52;
    exponents1 += bits1 >> 52;
    product0 *= bits_to_double((bits0 & kMantissa) | kOne);
    product1 *= bits_to_double((bits1 & kMantissa) | kOne);
    h_sum0 += x0;
    h_sum1 += x1;
    h_spread0 += x0 - x0 * x0;
    h_spread1 += x1 - x1 * x1;
    if (kStore) h0[j] = x0, h1[j] = x1;
  }
  sums[0].log2_product += static_cast<double>(exponents0) - 1023.0 * n + log2_fast(product0);
  sums[1].log2_product += static_cast<double>(exponents1) - 1023.0 * n + log2_fast(product1);
  sums[0].h_sum += h_sum0, sums[1].h_sum += h_sum1;
  sums[0].h_spread += h_spread0, sums[1].h_spread += h_spread1;
}

// What a relevant item adds to its own derivatives.
inline void add_to_self(const PairSums& sums, const Outer& y, double* gradient, double* hessian) {
  *gradient -= y.rho_weight * sums.h_sum;
  if (hessian)
    *hessian += y.rho_weight * kLn2 * sums.h_spread + y.rho_curvature * sums.h_sum * sums.h_sum;
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

// What is kept of each relevant item, one array after the other: r = 2^(c − s_y), the sums, and
// the derivatives of ρ times the weight.
struct Relevant {
  double *r, *t, *h_sum, *h_spread, *rho_weight, *rho_curvature;
  Relevant(double* base, int64_t k)
      : r(base),
        t(r + k),
        h_sum(t + k),
        h_spread(h_sum + k),
        rho_weight(h_spread + k),
        rho_curvature(rho_weight + k) {}
  Relevant from(int64_t i) const {
    Relevant rest = *this;
    rest.r += i, rest.t += i, rest.h_sum += i, rest.h_spread += i;
    rest.rho_weight += i, rest.rho_curvature += i;
    return rest;
  }
};

// 2^(c − s_y) of every relevant item; its sums begin at 0.
template <class T>
void open_sums(const List<T>& list, double centre, const Relevant& y) {
  for (int64_t i = 0; i < list.n_relevant; ++i) y.r[i] = list.scores[list.relevant[i]];
#pragma omp simd
  for (int64_t i = 0; i < list.n_relevant; ++i) {
    y.r[i] = exp2_fast(centre - y.r[i]);
    y.t[i] = y.h_sum[i] = y.h_spread[i] = 0.0;
  }
}

// Adds the pairs of k relevant items with n items to their sums; keeps h, one row of
// `stride` per relevant item, where asked.
template <bool kStore>
void add_pairs(const double* e, int64_t n, const Relevant& y, int64_t k, double* h,
               int64_t stride) {
  for (int64_t i = 0; i < k; i += 2) {
    const bool two = i + 1 < k;  // a last single one is paired with itself, and the copy dropped
    const double r[2] = {y.r[i], y.r[two ? i + 1 : i]};
    PairSums sums[2];
    double *h0 = kStore ? h + i * stride : nullptr, *h1 = kStore ? h0 + stride : nullptr;
    for (int64_t begin = 0; begin < n; begin += kProduct) {
      const int chunk = n - begin < kProduct ? n - begin : kProduct;
      pair_chunk<kStore>(e + begin, chunk, r, kStore ? h0 + begin : h0, kStore ? h1 + begin : h1,
                         sums);
    }
    for (int a = 0; a < (two ? 2 : 1); ++a) {
      y.t[i + a] += sums[a].log2_product;
      y.h_sum[i + a] += sums[a].h_sum;
      y.h_spread[i + a] += sums[a].h_spread;
    }
  }
}

// The term of an item with itself, p = 1 up to the last bit, is not part of t_y; then ρ. Returns
// the loss.
inline double close_sums(const double* weight, int64_t k, Rho rho, Hessian want, const Relevant& y,
                         double* t) {
  double loss = 0.0;
#pragma omp simd reduction(+ : loss)
  for (int64_t i = 0; i < k; ++i) {
    const double sum = y.t[i] - 1.0, inner = sum > 0.0 ? sum : 0.0;
    const RhoAt at = rho_fast(rho, inner);
    y.t[i] = inner;
    y.h_sum[i] -= 0.5;
    y.h_spread[i] -= 0.25;
    y.rho_weight[i] = weight[i] * at.first;
    y.rho_curvature[i] = want == Hessian::exact ? weight[i] * at.second : 0.0;
    loss += weight[i] * at.value;
  }
  if (t) memcpy(t, y.t, k * sizeof(double));
  return loss;
}

// Adds Σ_y rho_weight_y h_yj to the gradient, four relevant items at a time.
void add_gradients(const double* h, int64_t stride, int64_t n, const Relevant& y, int64_t k,
                   double* __restrict gradient) {
  int64_t i = 0;
  for (; i + 4 <= k; i += 4) {
    const double *h0 = h + i * stride, *h1 = h0 + stride, *h2 = h1 + stride, *h3 = h2 + stride;
    const double f0 = y.rho_weight[i], f1 = y.rho_weight[i + 1], f2 = y.rho_weight[i + 2],
                 f3 = y.rho_weight[i + 3];
#pragma omp simd
    for (int64_t j = 0; j < n; ++j)
      gradient[j] += (f0 * h0[j] + f1 * h1[j]) + (f2 * h2[j] + f3 * h3[j]);
  }
  for (; i < k; ++i) {
    const double *h0 = h + i * stride, f0 = y.rho_weight[i];
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) gradient[j] += f0 * h0[j];
  }
}

// Adds Σ_y h_yj (rho_weight_y ln2 (1 − h_yj) + rho_curvature_y h_yj) to the Hessian.
void add_hessians(const double* h, int64_t stride, int64_t n, const Relevant& y, int64_t k,
                  double* __restrict hessian) {
  for (int64_t i = 0; i < k; ++i) {
    const double *row = h + i * stride, rho_weight = kLn2 * y.rho_weight[i],
                 rho_curvature = y.rho_curvature[i];
#pragma omp simd
    for (int64_t j = 0; j < n; ++j)
      hessian[j] += row[j] * (rho_weight * (1.0 - row[j]) + rho_curvature * row[j]);
  }
}

// A list whose items fit into the cache. `kKept` values of h are kept between the sums and the
// derivatives, for as many relevant items at a time as that allows.
template <class T>
double direct_short(const List<T>& list, double centre, Rho rho, Hessian want,
                    const Answer<T>& answer, const Scratch& scratch) {
  const int64_t m = list.items, k = list.n_relevant;
  const Relevant all(scratch.relevant, k);
  double *e = scratch.items, *gradient = e + m, *hessian = gradient + m, *h = hessian + m;
  exponentials(list.scores, m, centre, e);
  open_sums(list, centre, all);
  if (!answer.gradient) {
    add_pairs<false>(e, m, all, k, nullptr, 0);
    return close_sums(list.weight, k, rho, want, all, answer.t);
  }
  memset(gradient, 0, 2 * m * sizeof(double));
  const int64_t group = (kKept / m) & ~int64_t{3};
  double loss = 0.0;
  for (int64_t begin = 0; begin < k; begin += group) {
    const int64_t n = k - begin < group ? k - begin : group;
    const Relevant y = all.from(begin);
    const int32_t* places = list.relevant + begin;
    add_pairs<true>(e, m, y, n, h, m);
    loss += close_sums(list.weight + begin, n, rho, want, y, answer.t ? answer.t + begin : nullptr);
    for (int64_t i = 0; i < n; ++i) {
      h[i * m + places[i]] = 0.0;
      add_to_self({0.0, y.h_sum[i], y.h_spread[i]}, {0.0, y.rho_weight[i], y.rho_curvature[i]},
                  gradient + places[i], hessian + places[i]);
    }
    add_gradients(h, m, m, y, n, gradient);
    if (answer.hessian) add_hessians(h, m, m, y, n, hessian);
  }
  write_out(gradient, m, answer.gradient);
  if (answer.hessian) write_out(hessian, m, answer.hessian);
  return loss;
}

// A list that does not fit the cache: one pass over chunks of items for the sums, and one more
// for the derivatives.
template <class T>
double direct_long(const List<T>& list, double centre, Rho rho, Hessian want,
                   const Answer<T>& answer, const Scratch& scratch) {
  const int64_t m = list.items, k = list.n_relevant;
  const Relevant y(scratch.relevant, k);
  double *e = scratch.items, *gradient = e + kShortList, *hessian = gradient + kShortList;
  double* h = hessian + kShortList;
  open_sums(list, centre, y);
  for (int64_t begin = 0; begin < m; begin += kShortList) {
    const int64_t n = m - begin < kShortList ? m - begin : kShortList;
    exponentials(list.scores + begin, n, centre, e);
    add_pairs<false>(e, n, y, k, nullptr, 0);
  }
  const double loss = close_sums(list.weight, k, rho, want, y, answer.t);
  if (!answer.gradient) return loss;
  for (int64_t begin = 0; begin < m; begin += kShortList) {
    const int64_t n = m - begin < kShortList ? m - begin : kShortList;
    exponentials(list.scores + begin, n, centre, e);
    memset(gradient, 0, 2 * kShortList * sizeof(double));
    for (int64_t i = 0; i < k; ++i) {
      const double r = y.r[i];
#pragma omp simd
      for (int64_t j = 0; j < n; ++j) h[j] = e[j] * r / (1.0 + e[j] * r);
      const int64_t own = list.relevant[i] - begin;
      if (own >= 0 && own < n) {
        h[own] = 0.0;
        add_to_self({0.0, y.h_sum[i], y.h_spread[i]}, {0.0, y.rho_weight[i], y.rho_curvature[i]},
                    gradient + own, hessian + own);
      }
      add_gradients(h, 0, n, y.from(i), 1, gradient);
      if (answer.hessian) add_hessians(h, 0, n, y.from(i), 1, hessian);
    }
    write_out(gradient, n, answer.gradient + begin);
    if (answer.hessian) write_out(hessian, n, answer.hessian + begin);
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
      sums.h_sum += h;
      sums.h_spread += h * (1.0 - h);
    }
    const Outer outer = outer_term(rho, want, list.weight[i], sums.log2_product);
    loss += outer.loss;
    if (answer.t) answer.t[i] = sums.log2_product;
    if (!answer.gradient) continue;
    for (int64_t j = 0; j < m; ++j) {
      if (j == y) continue;
      const double d = s[j] - own, p = exp2(-fabs(d)), h = (d > 0 ? 1.0 : p) / (1.0 + p);
      answer.gradient[j] += static_cast<T>(outer.rho_weight * h);
      if (answer.hessian)
        answer.hessian[j] +=
            static_cast<T>(h * (outer.rho_weight * kLn2 * (1.0 - h) + outer.rho_curvature * h));
    }
    double gradient = 0.0, hessian = 0.0;
    add_to_self(sums, outer, &gradient, &hessian);
    answer.gradient[y] += static_cast<T>(gradient);
    if (answer.hessian) answer.hessian[y] += static_cast<T>(hessian);
  }
  return loss;
}
