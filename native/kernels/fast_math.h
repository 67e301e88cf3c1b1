// Fast elementary functions and ρ.
// A part of list_kernels.cpp, which includes it inside the namespace of an instruction set.
#pragma once

constexpr double kLn2 = 0.69314718055994530942;
constexpr double kInvLn2 = 1.44269504088896340736;

inline double bits_to_double(uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

inline uint64_t double_to_bits(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

// An integer below 2^52 as a double, by its bits: all instruction sets have that for vectors.
inline double small_to_double(uint64_t n) {
  return bits_to_double(n | 0x4330000000000000ull) - 4503599627370496.0;
}

// 2^x for |x| < 1000, without branches so that loops over it vectorise. Relative error < 1e-14.
inline double exp2_fast(double x) {
  constexpr double kRound = 6755399441055744.0;  // 1.5 · 2^52: adding it rounds to an integer
  const double shifted = x + kRound;
  const double f = (x - (shifted - kRound)) * kLn2;  // |f| ≤ ln2 / 2
  double p = 1.0 / 6227020800.0;
  p = p * f + 1.0 / 479001600.0;
  p = p * f + 1.0 / 39916800.0;
  p = p * f + 1.0 / 3628800.0;
  p = p * f + 1.0 / 362880.0;
  p = p * f + 1.0 / 40320.0;
  p = p * f + 1.0 / 5040.0;
  p = p * f + 1.0 / 720.0;
  p = p * f + 1.0 / 120.0;
  p = p * f + 1.0 / 24.0;
  p = p * f + 1.0 / 6.0;
  p = p * f + 0.5;
  p = p * f + 1.0;
  p = p * f + 1.0;
  return bits_to_double(double_to_bits(p) + (double_to_bits(shifted) << 52));
}

// log2(u) for a normal u ≥ 1, without branches. Absolute error < 1e-12.
inline double log2_fast(double u) {
  const uint64_t bits = double_to_bits(u);
  const double exponent = small_to_double(bits >> 52) - 1023.0;
  const double m = bits_to_double((bits & 0x000fffffffffffffull) | 0x3ff0000000000000ull);
  // Centre the mantissa on 1: with c = √2, log2(m) = 1/2 + log2(m / c).
  const double z = (m - 1.41421356237309504880) / (m + 1.41421356237309504880);
  const double z2 = z * z;
  double p = 1.0 / 15.0;
  p = p * z2 + 1.0 / 13.0;
  p = p * z2 + 1.0 / 11.0;
  p = p * z2 + 1.0 / 9.0;
  p = p * z2 + 1.0 / 7.0;
  p = p * z2 + 1.0 / 5.0;
  p = p * z2 + 1.0 / 3.0;
  p = p * z2 + 1.0;
  return exponent + 0.5 + 2.0 * kInvLn2 * z * p;
}

// ρ with its first two derivatives at t ≥ 0.
struct RhoAt {
  double value, first, second;
};

RhoAt rho_at(Rho rho, double t) {
  if (rho == Rho::identity) return {t, 1.0, 0.0};
  if (rho == Rho::log) {
    const double inv = 1.0 / (1.0 + t);
    return {log1p(t) * kInvLn2, kInvLn2 * inv, -kInvLn2 * inv * inv};
  }
  if (!(t < 1e300)) return {1.0, 0.0, 0.0};
  const double above_one = log1p(0.5 * t) * kInvLn2;  // log2(t + 2) − 1
  const double log = 1.0 + above_one, inv = 1.0 / ((t + 2.0) * log);
  return {above_one / log, kInvLn2 * inv / log, -kInvLn2 * inv * inv * (1.0 + 2.0 * kInvLn2 / log)};
}

// The outer term of a relevant item and its derivatives by t_y.
struct Outer {
  double loss = 0.0;
  double rho_weight = 0.0;     // w_y ρ'(t_y)
  double rho_curvature = 0.0;  // w_y ρ''(t_y), only where the exact Hessian is wanted
};

inline Outer outer_term(Rho rho, Hessian hessian, double weight, double t) {
  const RhoAt at = rho_at(rho, t);
  return {weight * at.value, weight * at.first,
          hessian == Hessian::exact ? weight * at.second : 0.0};
}

template <class T>
struct Range {
  T low, high;
  bool finite() const { return low - low == 0 && high - high == 0; }
};

template <class T>
Range<T> score_range(const T* s, int64_t n) {
  T low = s[0], high = s[0], poison = 0;  // poison becomes NaN if any score is NaN or infinite
#pragma omp simd reduction(min : low) reduction(max : high) reduction(+ : poison)
  for (int64_t j = 0; j < n; ++j) {
    low = s[j] < low ? s[j] : low;
    high = s[j] > high ? s[j] : high;
    poison += s[j] - s[j];
  }
  return {low + poison, high + poison};
}

// The same without branches on t, so that loops over it vectorise; absolute error < 1e-13.
inline RhoAt rho_fast(Rho rho, double t) {
  if (rho == Rho::identity) return {t, 1.0, 0.0};
  if (rho == Rho::log) {
    const double inv = 1.0 / (1.0 + t);
    return {log2_fast(1.0 + t), kInvLn2 * inv, -kInvLn2 * inv * inv};
  }
  const double log = log2_fast(2.0 + t), inv = 1.0 / ((t + 2.0) * log);
  return {1.0 - 1.0 / log, kInvLn2 * inv / log, -kInvLn2 * inv * inv * (1.0 + 2.0 * kInvLn2 / log)};
}
