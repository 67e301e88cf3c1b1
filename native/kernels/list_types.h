// Arguments of the kernels about lists of scores (see kernels.h). No inline code.
#pragma once
#include <cstdint>

namespace robirank {

enum class Rho : int { log, identity, type2 };
enum class Method : int { automatic, direct, grid };
enum class Hessian : int { none, exact, majorant };

// One context: the scores of its items, and which of them are outer terms of the loss.
template <class T>
struct List {
  const T* scores;
  int64_t items;
  const int32_t* relevant;  // places of the relevant items within the list
  const double* weight;     // c_x v(W_xy) of each relevant item
  int64_t n_relevant;
};

// Where the results go; a null pointer means "not wanted".
template <class T>
struct Answer {
  T* gradient;  // of each item
  T* hessian;   // of each item
  double* t;    // the inner sum of each relevant item
};

// Memory for one thread, sized by the caller.
struct Scratch {
  double* items;     // 3 · kShortList + kKept
  double* relevant;  // 6 per relevant item of the list with the most
  double* grid;      // kGridRows · kMaxCells
  uint64_t* counts;  // kMaxFine
  float* table;      // 2 · kMaxFine
};

// The grid (see grid.h): cells of kCell, each cut into kFinePerCell bins. Scores that spread
// over more than kMaxRange are summed directly.
constexpr double kCell = 0.25;
constexpr int kFinePerCell = 16;
constexpr double kMaxRange = 512.0;
constexpr int kMaxCells = static_cast<int>(kMaxRange / kCell) + 2;
constexpr int kMaxFine = kMaxCells * kFinePerCell;
constexpr int kGridRows = 15;
constexpr int64_t kFewItems = 512;      // up to so many are summed directly rather than counted
constexpr int64_t kMaxCount = 1 << 16;  // items between two folds: no counter overflows
constexpr int kShortList = 4096;        // items whose working arrays stay in the cache
constexpr int kKept = 8 * kShortList;   // values of h that a short list keeps

// One step of Adam: decays of the two averages, the rate divided by the first average's bias, and
// one over the second average's bias.
struct AdamStep {
  float b1, b2, rate, correction;
};

// What is kept of the items of a row whose points are known (see points.h).
struct PointRow {
  const float* points;
  int64_t k;         // how many
  float begin, end;  // what the cells cover; without cells, every chunk is summed directly
  int cells;
  int first, last;              // the cells that hold items
  double below, above, excess;  // closed forms of the items outside
  double* moments;              // 4 · cells
  double* t;                    // what was summed directly, k
};

}  // namespace robirank
