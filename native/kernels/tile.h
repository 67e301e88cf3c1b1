// A few users times a few items in registers: the core of products U·Vᵀ that keep no scores in
// memory.
// Included inside the namespace of an instruction set (see kernels.h).
#pragma once

namespace tile {

// As many accumulators as the registers hold, beside a row of items and one user's factor.
#if defined(__AVX512F__)
constexpr int kLanes = 16, kUsers = 8, kVectors = 3;
#elif defined(__AVX__)
constexpr int kLanes = 8, kUsers = 4, kVectors = 3;
#elif defined(__aarch64__)
constexpr int kLanes = 4, kUsers = 8, kVectors = 3;
#else
constexpr int kLanes = 4, kUsers = 4, kVectors = 2;
#endif
constexpr int kItems = kLanes * kVectors;

typedef float Floats __attribute__((vector_size(kLanes * sizeof(float))));
typedef float Unaligned __attribute__((vector_size(kLanes * sizeof(float)), aligned(4), may_alias));

inline Floats load(const float* from) { return *reinterpret_cast<const Unaligned*>(from); }
inline void store(float* to, Floats value) { *reinterpret_cast<Unaligned*>(to) = value; }

// The scores of the first kRows users of a tile. A score is the sum over the factors in order,
// whatever tile it falls into: its bits do not depend on the other users of a call.
template <int kRows>
struct Scores {
  Floats sum[kRows][kVectors] = {};

  // Adds what factor k contributes; users and items are packed (see TileKernels::pack).
  inline __attribute__((always_inline)) void add(const float* users, const float* items,
                                                 int64_t k) {
    Floats v[kVectors];
    for (int j = 0; j < kVectors; ++j) v[j] = load(items + k * kItems + j * kLanes);
    for (int i = 0; i < kRows; ++i)
      for (int j = 0; j < kVectors; ++j) sum[i][j] += users[k * kUsers + i] * v[j];
  }
};

}  // namespace tile
