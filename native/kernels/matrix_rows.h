// The two passes over X of a linear model.
// A part of list_kernels.cpp, which includes it inside the namespace of an instruction set.
#pragma once

template <class T>
inline const T* row(const T* X, const int64_t* rows, int64_t i, int64_t d) {
  return X + (rows ? rows[i] : i) * d;
}

// Four rows at a time: four independent sums hide the latency of one.
template <class T>
void dot(const T* X, const int64_t* rows, int64_t n, int64_t d, const double* __restrict w,
         double* out) {
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    const T *x0 = row(X, rows, i, d), *x1 = row(X, rows, i + 1, d);
    const T *x2 = row(X, rows, i + 2, d), *x3 = row(X, rows, i + 3, d);
    double s0 = 0.0, s1 = 0.0, s2 = 0.0, s3 = 0.0;
#pragma omp simd reduction(+ : s0, s1, s2, s3)
    for (int64_t j = 0; j < d; ++j) {
      s0 += x0[j] * w[j];
      s1 += x1[j] * w[j];
      s2 += x2[j] * w[j];
      s3 += x3[j] * w[j];
    }
    out[i] = s0, out[i + 1] = s1, out[i + 2] = s2, out[i + 3] = s3;
  }
  for (; i < n; ++i) {
    const T* x = row(X, rows, i, d);
    double s = 0.0;
#pragma omp simd reduction(+ : s)
    for (int64_t j = 0; j < d; ++j) s += x[j] * w[j];
    out[i] = s;
  }
}

template <class T>
void add(const T* X, const int64_t* rows, int64_t n, int64_t d, const double* g,
         double* __restrict sum) {
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    const T *x0 = row(X, rows, i, d), *x1 = row(X, rows, i + 1, d);
    const T *x2 = row(X, rows, i + 2, d), *x3 = row(X, rows, i + 3, d);
    const double g0 = g[i], g1 = g[i + 1], g2 = g[i + 2], g3 = g[i + 3];
#pragma omp simd
    for (int64_t j = 0; j < d; ++j) sum[j] += (g0 * x0[j] + g1 * x1[j]) + (g2 * x2[j] + g3 * x3[j]);
  }
  for (; i < n; ++i) {
    const T* x = row(X, rows, i, d);
#pragma omp simd
    for (int64_t j = 0; j < d; ++j) sum[j] += g[i] * x[j];
  }
}
