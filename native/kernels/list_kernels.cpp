// The listwise kernel, its inner sums alone and with their product, and the two passes over X,
// compiled once for each instruction set.
//
// For the scores s of one list and its relevant items y with weights w_y,
//
//   loss = Σ_y w_y ρ(t_y),   t_y = Σ_{j≠y} log2(1 + 2^(s_j − s_y)).
//
// With h_yj = ∂t_y/∂s_j = 1 / (1 + 2^(s_y − s_j)) the derivatives are
//
//   gradient_j = Σ_y w_y ρ'(t_y) h_yj,        gradient_y −= w_y ρ'(t_y) Σ_j h_yj,
//   hessian_j  = Σ_y w_y (ρ'(t_y) ln2 h(1−h) + ρ''(t_y) h²)   (and likewise for j = y).
//
// Two ways to sum: `direct` visits every (relevant, item) pair; `grid` uses that with the scores
// fixed everything is a smooth function of one number. Nothing here may emit a symbol that other
// files share (see kernels.h), so there are no standard containers.

#include <math.h>
#include <string.h>

#include "kernels.h"

namespace robirank {
namespace ROBIRANK_ISA {
namespace {

// In this order: each builds on those before (empty comments keep clang-format from sorting them).
#include "fast_math.h"
//
#include "direct.h"
//
#include "grid.h"
//
#include "points.h"
#include "tile.h"
//
#include "adam.h"
#include "matrix_rows.h"
#include "point_product.h"

template <class T>
Range<T> relevant_range(const List<T>& list) {
  T low = list.scores[list.relevant[0]], high = low;
  for (int64_t i = 1; i < list.n_relevant; ++i) {
    const T s = list.scores[list.relevant[i]];
    low = s < low ? s : low;
    high = s > high ? s : high;
  }
  return {low, high};
}

// Nanoseconds of the two ways, fitted to measurements on AVX-512; only their ratio matters.
inline bool grid_is_cheaper(int64_t items, int64_t relevant, int cells) {
  const double n = static_cast<double>(items), k = static_cast<double>(relevant);
  const double direct = n * k * (items > kShortList ? 0.84 : 0.45) + 34.0 * k + 1.5 * n + 50.0;
  const double grid = 1.9 * n + 4.7 * k * cells + 51.0 * cells + 93.0 * k;
  return grid < direct;
}

template <class T>
void clear(const Answer<T>& answer, int64_t items, int64_t relevant) {
  if (answer.gradient) memset(answer.gradient, 0, items * sizeof(T));
  if (answer.hessian) memset(answer.hessian, 0, items * sizeof(T));
  if (answer.t) memset(answer.t, 0, relevant * sizeof(double));
}

template <class T>
double list_loss(const List<T>& list, Rho rho, Method method, Hessian want, const Answer<T>& answer,
                 const Scratch& scratch) {
  const Range<T> range =
      list.items > 0 ? score_range(list.scores, list.items) : Range<T>{T(0), T(0)};
  if (!range.finite()) {
    clear(answer, list.items, list.n_relevant);
    return static_cast<double>(range.low - range.low);  // NaN
  }
  if (list.items < 2 || list.n_relevant == 0) {
    clear(answer, list.items, list.n_relevant);
    return 0.0;
  }
  if (method != Method::direct) {
    const Grid<T> grid = plan_grid(relevant_range(list), range);
    if (grid.cells > 0 &&
        (method == Method::grid || grid_is_cheaper(list.items, list.n_relevant, grid.cells)))
      return grid_list(list, grid, range, rho, want, answer, scratch);
  }
  const double width = static_cast<double>(range.high) - static_cast<double>(range.low);
  if (width > kFactorRange) {
    clear(answer, list.items, list.n_relevant);
    return direct_wide(list, rho, want, answer);
  }
  const double centre = static_cast<double>(range.low) + 0.5 * width;
  return list.items <= kShortList ? direct_short(list, centre, rho, want, answer, scratch)
                                  : direct_long(list, centre, rho, want, answer, scratch);
}

}  // namespace

const ListKernels list_kernels = {{list_loss<float>, dot<float>, add<float>},
                                  {list_loss<double>, dot<double>, add<double>},
                                  adam,
                                  open_row,
                                  add_to_row,
                                  close_row,
                                  add_product};

}  // namespace ROBIRANK_ISA
}  // namespace robirank
