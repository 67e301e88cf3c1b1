// The functions that are compiled once for each instruction set, in one table.
//
// The sources in this folder are compiled several times, each time inside the namespace of an
// instruction set; instruction_sets.cpp chooses one of the tables when the module is loaded. They
// must emit no symbol that other files share, and this header and the three that it includes must
// carry no inline code: the linker would keep one copy of it, perhaps one that the machine cannot
// run.
#pragma once
#include "list_types.h"
#include "sgd_types.h"
#include "tile_types.h"

namespace robirank {

// What depends on the type of the scores or features: float or double.
template <class T>
struct LossKernels {
  // Loss of one list; fills the answer.
  double (*loss)(const List<T>&, Rho, Method, Hessian, const Answer<T>&, const Scratch&);
  // out[i] = <X[rows[i]], w>; rows == nullptr: 0, 1, 2, …
  void (*dot)(const T* X, const int64_t* rows, int64_t n, int64_t d, const double* w, double* out);
  // sum[j] += Σ_i g[i] X[rows[i], j]
  void (*add)(const T* X, const int64_t* rows, int64_t n, int64_t d, const double* g, double* sum);
};

// list_kernels.cpp
struct ListKernels {
  LossKernels<float> f32;
  LossKernels<double> f64;
  void (*adam)(float* rows, float* first, float* second, const float* gradient,
               const float* penalty, const float* centre, int64_t n, int64_t d,
               const AdamStep& step);
  // Sums over a row of items for its points: t[i] = Σ_j log2(1 + 2^(s_j − points[i])). After
  // opening, the caller points moments and t to zeros. Adding leaves the counts zero, as they must
  // be before; closing writes the sums.
  PointRow (*open_row)(const float* points, int64_t k);
  void (*add_to_row)(const float* s, int64_t n, Method method, PointRow* row,
                     const Scratch& scratch);
  void (*close_row)(const PointRow& row, double* t, const Scratch& scratch);
  // Adds the scores of the users of one tile with n ≤ kMaxCount items; both are packed (see
  // TileKernels::pack), with d factors. `counts` has `stride` zeros for each user, `scores` room
  // for n.
  void (*add_product)(const float* users, const float* items, int64_t n, int64_t d, PointRow* rows,
                      uint64_t* counts, int64_t stride, float* scores, const Scratch& scratch);
};

// tile_kernels.cpp
struct TileKernels {
  int users, items;  // of a tile
  // Lays out n rows side by side, `width` to a panel: out[panel][k][row]. Row i is X[rows[i]] (or
  // X[i]) times scale[rows[i]] (or 1). The last panel is filled up with the last row times zero.
  void (*pack)(const float* X, const int32_t* rows, const float* scale, int64_t n, int64_t d,
               int width, float* out);
  // Whether any score is above its user's threshold; if so, `hits` is filled.
  bool (*find)(const float* users, const float* items, int64_t d, const float* threshold,
               TileHits* hits);
  // The same for the first user alone.
  bool (*find_one)(const float* users, const float* items, int64_t d, const float* threshold,
                   TileHits* hits);
};

// sgd_kernels.cpp
struct SgdKernels {
  // Visits the interactions of a cell once.
  CellReport (*robirank)(const Cell&, const RobirankRule&);
  CellReport (*warp)(const Cell&, const WarpRule&);
  // The random numbers from:from + n of an interaction, each below `bound`.
  void (*draw)(uint64_t key, int64_t interaction, int from, int n, uint32_t bound, uint32_t* out);
  float (*dot)(const float* a, const float* b, int64_t width);
};

struct Kernels {
  const char* name;  // of the instruction set
  const ListKernels& lists;
  const TileKernels& tiles;
  const SgdKernels& sgd;
};

// The table in use.
const Kernels& kernels();

#define ROBIRANK_DECLARE_KERNELS(instruction_set) \
  namespace instruction_set {                     \
  extern const ListKernels list_kernels;          \
  extern const TileKernels tile_kernels;          \
  extern const SgdKernels sgd_kernels;            \
  }
ROBIRANK_DECLARE_KERNELS(baseline)
ROBIRANK_DECLARE_KERNELS(avx2)
ROBIRANK_DECLARE_KERNELS(avx512)
#undef ROBIRANK_DECLARE_KERNELS

}  // namespace robirank
