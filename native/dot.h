// Inner products in double precision, summed in the same order everywhere.
#pragma once
#include <cstdint>

namespace robirank {

template <class A, class B>
double dot(const A* a, const B* b, int64_t n) {
  constexpr int kLanes = 8;
  double sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int l = 0; l < kLanes; ++l)
      sums[l] += static_cast<double>(a[i + l]) * static_cast<double>(b[i + l]);
  for (int l = 0; i < n; ++i, ++l) sums[l] += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  double total = 0.0;
  for (const double sum : sums) total += sum;
  return total;
}

}  // namespace robirank
