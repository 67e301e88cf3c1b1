// Arguments of the kernels about the scores of a few users with a few items, a tile (see
// kernels.h). No inline code.
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

}  // namespace robirank
