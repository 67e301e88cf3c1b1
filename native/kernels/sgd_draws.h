// Random numbers and elementary functions of the sampled updates.
// A part of sgd_kernels.cpp, which includes it inside the namespace of an instruction set.
#pragma once

// 2^x, relative error < 3e-7; far out it stays finite.
inline float exp2_fast(float x) {
  constexpr float kRound = 12582912.0f;  // 1.5 · 2^23: adding it rounds to an integer
  x = x > 126.0f ? 126.0f : x;
  x = x < -126.0f ? -126.0f : x;
  const float shifted = x + kRound;
  const float f = x - (shifted - kRound);
  float p = 1.5403530e-4f;
  p = p * f + 1.3333558e-3f;
  p = p * f + 9.6181291e-3f;
  p = p * f + 5.5504109e-2f;
  p = p * f + 2.4022651e-1f;
  p = p * f + 6.9314718e-1f;
  p = p * f + 1.0f;
  uint32_t bits, exponent;
  memcpy(&bits, &p, sizeof bits);
  memcpy(&exponent, &shifted, sizeof exponent);
  bits += exponent << 23;
  memcpy(&p, &bits, sizeof p);
  return p;
}

inline uint32_t mix(uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  return x ^ (x >> 16);
}

// Draw i of an interaction is a pure function of the key, the interaction and i: a number below
// `bound`.
void draw(uint64_t key, int64_t interaction, int from, int n, uint32_t bound, uint32_t* out) {
  const uint32_t high = static_cast<uint32_t>(key >> 32);
  const uint32_t first = mix(static_cast<uint32_t>(key) + static_cast<uint32_t>(interaction)) +
                         high + 0x9e3779b9u * static_cast<uint32_t>(from);
#pragma omp simd
  for (int i = 0; i < n; ++i) {
    const uint32_t bits = mix(first + 0x9e3779b9u * static_cast<uint32_t>(i));
    out[i] = static_cast<uint32_t>((static_cast<uint64_t>(bits) * bound) >> 32);
  }
}

inline bool finite(float x) { return x - x == 0.0f; }
