// What the hot loops take and return. kernels.cpp is compiled once for each instruction set, so
// nothing here may carry inline code: the linker would keep one copy of it, perhaps one that the
// machine cannot run.
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

// Where the answer goes; a null pointer means "not wanted".
template <class T>
struct Answer {
  T* gradient;  // one a item
  T* hessian;   // one a item
  double* t;    // the inner sum of each relevant item
};

// Memory for one thread, sized by the caller.
struct Scratch {
  double* items;     // 3 · kShortList + kKept
  double* relevant;  // 6 a relevant item of the list with the most
  double* grid;      // kGridRows · kMaxCells
  uint64_t* counts;  // kMaxFine
  float* table;      // 2 · kMaxFine
};

// The grid (see kernels.cpp): cells of kCell, each cut into kFinePerCell bins. Scores that spread
// over more than kMaxRange are summed directly.
constexpr double kCell = 0.25;
constexpr int kFinePerCell = 16;
constexpr double kMaxRange = 512.0;
constexpr int kMaxCells = static_cast<int>(kMaxRange / kCell) + 2;
constexpr int kMaxFine = kMaxCells * kFinePerCell;
constexpr int kGridRows = 15;
constexpr int64_t kFewItems = 512;      // so many are summed directly rather than counted
constexpr int64_t kMaxCount = 1 << 16;  // items between two folds: no counter overflows
constexpr int kShortList = 4096;        // items whose working arrays stay in the cache
constexpr int kKept = 8 * kShortList;   // values of h that a short list keeps

// The settings of one step of Adam: decays of the two averages, the rate with the first average's
// bias taken out, and the factor that takes out the second's.
struct AdamStep {
  float b1, b2, rate, correction;
};

// What is kept of the items of a row whose points are known (see kernel_points.h).
struct PointRow {
  const float* points;
  int64_t k;         // how many
  float begin, end;  // what the cells cover; without cells, every block is summed directly
  int cells;
  int first, last;              // the cells that hold items
  double below, above, excess;  // closed forms of the items outside
  double* moments;              // 4 · cells
  double* t;                    // what was summed directly, k
};

struct Kernels {
  const char* name;
  // Loss of one list; fills the answer.
  double (*list_f32)(const List<float>&, Rho, Method, Hessian, const Answer<float>&,
                     const Scratch&);
  double (*list_f64)(const List<double>&, Rho, Method, Hessian, const Answer<double>&,
                     const Scratch&);
  // out[i] = <X[rows[i]], w>, and sum[j] += Σ_i g[i] X[rows[i], j]; rows == nullptr: 0, 1, 2, …
  void (*dot_f32)(const float* X, const int64_t* rows, int64_t n, int64_t d, const double* w,
                  double* out);
  void (*dot_f64)(const double* X, const int64_t* rows, int64_t n, int64_t d, const double* w,
                  double* out);
  void (*add_f32)(const float* X, const int64_t* rows, int64_t n, int64_t d, const double* g,
                  double* sum);
  void (*add_f64)(const double* X, const int64_t* rows, int64_t n, int64_t d, const double* g,
                  double* sum);
  void (*adam)(float* rows, float* first, float* second, const float* gradient, const float* decay,
               int64_t n, int64_t d, const AdamStep& step);
  // Sums over a row of items for its points: t[i] = Σ_j log2(1 + 2^(s_j − points[i])). After
  // opening, the caller points moments and t to zeros. Adding leaves the counts zero, as they must
  // be before; closing writes the sums.
  PointRow (*open_row)(const float* points, int64_t k);
  void (*add_to_row)(const float* s, int64_t n, Method method, PointRow* row,
                     const Scratch& scratch);
  void (*close_row)(const PointRow& row, double* t, const Scratch& scratch);
  // Adds the scores of as many users as a tile has with n ≤ kMaxCount items; both are packed, with
  // d factors (see topk_kernel.h). `counts` has `stride` zeros a user, `scores` room for n.
  void (*add_product)(const float* users, const float* items, int64_t n, int64_t d, PointRow* rows,
                      uint64_t* counts, int64_t stride, float* scores, const Scratch& scratch);
};

// The ones in use; listwise.cpp chooses them.
const Kernels& chosen_kernels();

namespace baseline {
extern const Kernels kernels;
}
namespace avx2 {
extern const Kernels kernels;
}
namespace avx512 {
extern const Kernels kernels;
}

}  // namespace robirank
