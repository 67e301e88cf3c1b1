// Scores of a few users with a few items, compared with a threshold before they leave the
// registers. topk_kernel.cpp is compiled once for each instruction set, so nothing here may carry
// inline code (see kernels.h).
#pragma once
#include <cstdint>

namespace robirank {

constexpr int kTileUsers = 8;   // the most users of a tile, in any instruction set
constexpr int kTileItems = 64;  // and the most items

// What is above the threshold in one tile.
struct TileHits {
  uint64_t mask[kTileUsers];  // bit j: item j is
  float scores[kTileUsers][kTileItems];
};

struct TopkKernel {
  int users, items;  // of a tile
  // Lays out n rows side by side, `width` a panel: out[panel][k][row]. Row i is X[rows[i]] (or
  // X[i]) times scale[rows[i]] (or 1). The last panel is filled up with the last
  // row times zero.
  void (*pack)(const float* X, const int32_t* rows, const float* scale, int64_t n, int64_t d,
               int width, float* out);
  // Whether any score is above its user's threshold; if so, `hits` is filled.
  bool (*tile)(const float* users, const float* items, int64_t d, const float* threshold,
               TileHits* hits);
  // The same for the first user alone.
  bool (*row)(const float* users, const float* items, int64_t d, const float* threshold,
              TileHits* hits);
};

// The one in use; topk.cpp chooses it.
const TopkKernel& chosen_topk();

namespace baseline {
extern const TopkKernel topk;
}
namespace avx2 {
extern const TopkKernel topk;
}
namespace avx512 {
extern const TopkKernel topk;
}

}  // namespace robirank
