// Vectors as wide as the instruction set, in the compiler's own notation.
// A part of sgd_kernels.cpp, which includes it inside the namespace of an instruction set.
#pragma once

#if defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif

typedef float vec __attribute__((vector_size(4 * kLanes)));
typedef float vec_anywhere __attribute__((vector_size(4 * kLanes), aligned(4), may_alias));

inline vec load(const float* p) { return *reinterpret_cast<const vec_anywhere*>(p); }
inline void store(float* p, vec v) { *reinterpret_cast<vec_anywhere*>(p) = v; }

// The sums of neighbours: first those of a, then those of b.
inline vec add_neighbours(vec a, vec b) {
#if defined(__AVX512F__)
  return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30) +
         __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
#elif defined(__AVX__)
  return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14) +
         __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15);
#else
  return __builtin_shufflevector(a, b, 0, 2, 4, 6) + __builtin_shufflevector(a, b, 1, 3, 5, 7);
#endif
}

inline float add_lanes(vec v) {
  for (int left = kLanes; left > 1; left /= 2) v = add_neighbours(v, v);
  return v[0];
}

inline void prefetch_row(const float* row, int64_t width) {
  for (int64_t j = 0; j < width; j += 16) __builtin_prefetch(row + j, 1);
}
