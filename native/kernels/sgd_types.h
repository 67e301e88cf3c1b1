// Arguments of the kernels that update factors from sampled items (see kernels.h). No inline code.
#pragma once
#include <cstdint>

namespace robirank {

// Rows of factors are padded with zeros to a multiple of kRowUnit floats.
constexpr int kRowUnit = 16;
constexpr int kMaxWidth = 4096;
constexpr int kMaxNegatives = 1024;
constexpr int kMaxTrials = 1 << 20;
constexpr int kMaxCell = 65536;  // items of a cell: their places are 16 bits wide

// A cell: the interactions of some users with a few items, whose rows stay in the cache.
struct Cell {
  float *U, *acc_u;                    // rows of the users of the part, and Adagrad's sums
  float *V, *acc_v;                    // rows of the items of the cell
  const float *penalty_u, *penalty_v;  // of each row: the penalty that one of its interactions pays
  const float *centre_u, *centre_v;    // rows that the penalty pulls to; both or neither
  int64_t width;                       // floats per row
  int32_t items;
  const int32_t* user;   // of each interaction, never decreasing
  const uint16_t* item;  // of each interaction: its place in the cell
  const float* weight;   // of each interaction: the ρ-weight w ρ'(t), or w for WARP
  int64_t interactions;
  const uint16_t* table;  // `items` entries; an item occurs in proportion to its popularity
  const float* inverse;   // of each item: 1 / expected number of its draws
  uint64_t key;           // of the random numbers
};

struct RobirankRule {
  float rate_u, rate_v;
  float per_factor;        // 1 / d: Adagrad sums the mean square of a row's gradient
  float scale;             // (|Y| − 1) / (|cell| − 1): from a cell's sum to that over all items
  int negatives, uniform;  // draws per interaction, and how many of them are uniform
};

struct WarpRule {
  float rate_u, rate_v, per_factor, margin;
  int max_trials;
  const float* weight_after;  // Φ(rank) by the number of trials that found a violator
};

struct CellReport {
  int64_t draws;
  int64_t not_finite;  // interactions whose step was left out, because it was not finite
  double loss;
};

}  // namespace robirank
