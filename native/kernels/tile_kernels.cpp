// The product U·Vᵀ in tiles that never leave the registers unless a score is worth keeping,
// compiled once for each instruction set.

#include "kernels.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace robirank {
namespace ROBIRANK_ISA {
namespace {

#include "tile.h"

using tile::Floats, tile::kItems, tile::kLanes, tile::kUsers, tile::kVectors;
static_assert(kUsers <= kTileUsers && kItems <= kTileItems, "a tile must fit its hits");

// Bit i: lane i of a is greater than b.
inline uint32_t greater(Floats a, float b) {
#if defined(__AVX512F__)
  return _mm512_cmp_ps_mask(a, _mm512_set1_ps(b), _CMP_GT_OQ);
#elif defined(__AVX__)
  return _mm256_movemask_ps(_mm256_cmp_ps(a, _mm256_set1_ps(b), _CMP_GT_OQ));
#elif defined(__SSE2__)
  return _mm_movemask_ps(_mm_cmpgt_ps(a, _mm_set1_ps(b)));
#else
  uint32_t mask = 0;
  for (int i = 0; i < kLanes; ++i) mask |= static_cast<uint32_t>(a[i] > b) << i;
  return mask;
#endif
}

template <int kRows>
bool find(const float* users, const float* items, int64_t d, const float* threshold,
          TileHits* hits) {
  tile::Scores<kRows> scores;
  for (int64_t k = 0; k < d; ++k) scores.add(users, items, k);
  const auto& sum = scores.sum;
  uint32_t any = 0;
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < kVectors; ++j) any |= greater(sum[i][j], threshold[i]);
  if (!any) return false;
  for (int i = 0; i < kRows; ++i) {
    uint64_t mask = 0;
    for (int j = 0; j < kVectors; ++j) {
      mask |= static_cast<uint64_t>(greater(sum[i][j], threshold[i])) << (j * kLanes);
      tile::store(hits->scores[i] + j * kLanes, sum[i][j]);
    }
    hits->mask[i] = mask;
  }
  return true;
}

typedef float Quad __attribute__((vector_size(4 * sizeof(float)), aligned(4), may_alias));

// out[k * width + r] = x[r][k] * factor[r] for a square of four rows and four factors.
inline void pack_square(const float* const* x, const float* factor, int64_t k, int width,
                        float* out) {
  Quad row[4];
  for (int r = 0; r < 4; ++r) row[r] = *reinterpret_cast<const Quad*>(x[r] + k) * factor[r];
  for (int c = 0; c < 4; ++c)
    *reinterpret_cast<Quad*>(out + c * width) = Quad{row[0][c], row[1][c], row[2][c], row[3][c]};
}

// With few users, reading the items dominates. Prefetching them this many floats ahead, into the
// second-level cache only, was measured to be faster than the hardware's own prefetching.
constexpr int64_t kAhead = 6144;

// Every width is a multiple of four.
void pack(const float* X, const int32_t* rows, const float* scale, int64_t n, int64_t d, int width,
          float* out) {
  for (int64_t begin = 0; begin < n; begin += width, out += width * d)
    for (int i = 0; i < width; i += 4) {
      const float* x[4];
      float factor[4];
      for (int r = 0; r < 4; ++r) {
        const int64_t place = begin + i + r < n ? begin + i + r : n - 1;
        const int64_t row = rows ? rows[place] : place;
        x[r] = X + row * d;
        factor[r] = begin + i + r < n ? (scale ? scale[row] : 1.0f) : 0.0f;
      }
      int64_t k = 0;
      for (int64_t ahead = 0; !rows && ahead < 4 * d; ahead += 16)
        __builtin_prefetch(x[0] + kAhead + ahead, 0, 2);
      for (; k + 4 <= d; k += 4) pack_square(x, factor, k, width, out + k * width + i);
      for (; k < d; ++k)
        for (int r = 0; r < 4; ++r) out[k * width + i + r] = x[r][k] * factor[r];
    }
}

}  // namespace

const TileKernels tile_kernels = {kUsers, kItems, pack, find<kUsers>, find<1>};

}  // namespace ROBIRANK_ISA
}  // namespace robirank
