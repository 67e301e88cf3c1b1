// Steps of the exact solver's optimiser.
// A part of list_kernels.cpp, which includes it inside the namespace of an instruction set.
#pragma once

template <bool kCentred>
void adam_rows(float* __restrict rows, float* __restrict first, float* __restrict second,
               const float* __restrict gradient, const float* penalty,
               const float* __restrict centre, int64_t n, int64_t d, const AdamStep& step) {
  const float b1 = step.b1, b2 = step.b2, rate = step.rate, correction = step.correction;
  for (int64_t i = 0; i < n; ++i) {
    const float pull = penalty[i];
#pragma omp simd
    for (int64_t j = i * d; j < (i + 1) * d; ++j) {
      const float g = gradient[j] + pull * (kCentred ? rows[j] - centre[j] : rows[j]);
      const float f = b1 * first[j] + (1.0f - b1) * g;
      const float s = b2 * second[j] + (1.0f - b2) * g * g;
      first[j] = f;
      second[j] = s;
      rows[j] -= rate * f / (__builtin_sqrtf(s * correction) + 1e-8f);
    }
  }
}

// One step of Adam on n rows of d numbers: the gradient gets penalty[i] · (row − centre), where a
// centre of nullptr is zero; then
//   first ← b1 first + (1 − b1) g,  second ← b2 second + (1 − b2) g²,
//   row ← row − rate · first / (√(second · correction) + ε).
// Everything is read and written once.
void adam(float* rows, float* first, float* second, const float* gradient, const float* penalty,
          const float* centre, int64_t n, int64_t d, const AdamStep& step) {
  const auto run = centre ? adam_rows<true> : adam_rows<false>;
  run(rows, first, second, gradient, penalty, centre, n, d, step);
}
