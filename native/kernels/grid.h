// The grid sum: a list is a one-dimensional problem.
// A part of list_kernels.cpp, which includes it inside the namespace of an instruction set.
#pragma once

// Items are counted into fine bins; each bin keeps the number of its items and the sum of their
// places (fixed-point numbers, so the sum is exact in any order). The bins of a cell are folded
// into the moments Σ x^n / n! about the cell's centre, n ≤ 3, and t_y becomes a Taylor sum over
// cells: O(items + relevant · cells). The way back is the same in reverse: Σ_y w_y h(s − s_y) and
// its derivatives at the cells' centres, a straight line in every fine bin, one look-up per item.
// Items too far below or above all relevant ones have closed forms and stay outside the grid.

constexpr int kFractionBits = 14;
constexpr int kFractionMask = (1 << kFractionBits) - 1;
constexpr double kFine = kCell / kFinePerCell;
constexpr double kQuantum = kFine / (1 << kFractionBits);
constexpr int kPlaceBits = 46;  // of a bin's counter; the bits above count items
constexpr uint64_t kOneItem = uint64_t{1} << kPlaceBits;
constexpr int kPlaceChunk = 256;  // places computed together; more would evict the counts
constexpr double kFar = 32.0;     // 2^−32 is negligible beside 1

template <class T>
struct Grid {
  T begin, end;  // what the cells cover
  int cells;
  double centre(int c) const { return static_cast<double>(begin) + (c + 0.5) * kCell; }
  double middle() const { return centre(cells / 2); }
};

// Covers all scores but those too far from every point (the relevant scores). No cells: too wide.
template <class T>
Grid<T> plan_grid(const Range<T>& points, const Range<T>& scores) {
  const T first = points.low - static_cast<T>(kFar), last = points.high + static_cast<T>(kFar);
  const auto within = [&](T s) { return s < first ? first : s > last ? last : s; };
  const T begin = within(scores.low), end = within(scores.high);
  const double width = static_cast<double>(end) - begin;
  return {begin, end, width <= kMaxRange ? static_cast<int>(width / kCell) + 1 : 0};
}

// Σ x^n / n! of the items of each cell.
struct CellMoments {
  double *m0, *m1, *m2, *m3;
};

// Rows of scratch.grid, kMaxCells each.
struct Cells : CellMoments {
  double *e, *h;                   // 2^(centre − middle), h
  double *a0, *a1, *a2, *a3, *a4;  // Σ_y rho_weight · h and its derivatives
  double *b0, *b1, *b2, *b3;       // Σ_y rho_curvature · h² and its derivatives
  explicit Cells(double* g)
      : CellMoments{g, g + kMaxCells, g + 2 * kMaxCells, g + 3 * kMaxCells},
        e(m3 + kMaxCells),
        h(e + kMaxCells),
        a0(h + kMaxCells),
        a1(a0 + kMaxCells),
        a2(a1 + kMaxCells),
        a3(a2 + kMaxCells),
        a4(a3 + kMaxCells),
        b0(a4 + kMaxCells),
        b1(b0 + kMaxCells),
        b2(b1 + kMaxCells),
        b3(b2 + kMaxCells) {}
};

// The fixed-point place of a score; scores outside are clamped to the ends.
template <class T>
inline int32_t place_of(T s, T begin, T limit) {
  const T x = (s - begin) * static_cast<T>(1.0 / kQuantum);
  const T low = x > 0 ? x : 0;
  return static_cast<int32_t>(low < limit ? low : limit);
}

template <class T>
T last_place(const Grid<T>& grid) {
  // The largest T below the end of the last bin, exact in float too.
  const int32_t places = grid.cells * kFinePerCell << kFractionBits;
  return static_cast<T>(places) * static_cast<T>(1.0 - 1.2e-7);
}

template <class T>
void count_items(const T* s, int64_t n, const Grid<T>& grid, bool clip,
                 uint64_t* __restrict counts) {
  const T limit = last_place(grid);
  uint32_t place[kPlaceChunk];
  uint64_t unit[kPlaceChunk];
  for (int64_t begin = 0; begin < n; begin += kPlaceChunk) {
    const int chunk = n - begin < kPlaceChunk ? n - begin : kPlaceChunk;
    const T* from = s + begin;
#pragma omp simd
    for (int j = 0; j < chunk; ++j) place[j] = place_of(from[j], grid.begin, limit);
    if (!clip) {
#pragma GCC unroll 4
      for (int j = 0; j < chunk; ++j) counts[place[j] >> kFractionBits] += kOneItem + place[j];
      continue;
    }
#pragma omp simd
    for (int j = 0; j < chunk; ++j)
      unit[j] = from[j] >= grid.begin && from[j] <= grid.end ? kOneItem + place[j] : 0;
    for (int j = 0; j < chunk; ++j) counts[place[j] >> kFractionBits] += unit[j];
  }
}

// The offset from the cell's centre of fine bin f of the cell.
inline double fine_centre(int f) { return (f + 0.5 - kFinePerCell / 2) * kFine; }

// Moments of `count` items in one fine bin whose offsets from the bin's centre add up to `sum`.
// Half the sum of their squares is not known and is taken as if they were spread evenly.
struct Moments {
  double m0, m1, m2, m3;
  Moments(double centre, double count, double sum)
      : m0(count),
        m1(count * centre + sum),
        m2(centre * (0.5 * count * centre + sum) + count * kSquare),
        m3(centre * (centre * (count * centre / 6.0 + 0.5 * sum) + count * kSquare)) {}
  static constexpr double kSquare = kFine * kFine / 24.0;
};

// Folds the counts of the cells first … last − 1 into their moments; several cells at a time, so
// that no sum runs across a register.
void fold_counts(const uint64_t* counts, int first, int last, const CellMoments& g) {
#pragma omp simd
  for (int c = first; c < last; ++c) {
    double m0 = g.m0[c], m1 = g.m1[c], m2 = g.m2[c], m3 = g.m3[c];
#pragma GCC unroll 16
    for (int f = 0; f < kFinePerCell; ++f) {
      const uint64_t bin = counts[c * kFinePerCell + f];
      const double count = small_to_double(bin >> kPlaceBits);
      const double places = small_to_double(bin & (kOneItem - 1));
      const double middle = (c * kFinePerCell + f + 0.5) * (1 << kFractionBits);  // as a place
      const Moments m(fine_centre(f), count, (places - count * middle) * kQuantum);
      m0 += m.m0, m1 += m.m1, m2 += m.m2, m3 += m.m3;
    }
    g.m0[c] = m0, g.m1[c] = m1, g.m2[c] = m2, g.m3[c] = m3;
  }
}

// Items outside the grid: below, h = 2^(s − s_y); above, t gets s − s_y and h = 1.
struct Outside {
  double below = 0.0;         // Σ 2^(s_j − begin)
  double above = 0.0;         // how many
  double above_excess = 0.0;  // Σ (s_j − end)
  // What they add to t_y, with down = 2^(begin − s_y) and up = end − s_y.
  double sum(double down, double up) const {
    return down * below * kInvLn2 + above_excess + above * up;
  }
};

template <class T>
Outside outside_items(const T* s, int64_t n, const Grid<T>& grid) {
  double below = 0.0, above = 0.0, excess = 0.0;
#pragma omp simd reduction(+ : below, above, excess)
  for (int64_t j = 0; j < n; ++j) {
    const double under = static_cast<double>(s[j]) - grid.begin;
    const double over = static_cast<double>(s[j]) - grid.end;
    below += under < 0 ? exp2_fast(under > -kFactorRange ? under : -kFactorRange) : 0.0;
    above += over > 0 ? 1.0 : 0.0;
    excess += over > 0 ? over : 0.0;
  }
  return {below, above, excess};
}

// Folds all items into the moments of the cells, and sets e; returns what stays outside.
template <class T>
Outside fill_cells(const T* s, int64_t n, const Grid<T>& grid, const Range<T>& range,
                   const Cells& g, uint64_t* counts) {
  const int cells = grid.cells;
  const bool clip = range.low < grid.begin || range.high > grid.end;
  const double middle = grid.middle();
  for (int c = 0; c < cells; ++c) {
    g.e[c] = exp2_fast(grid.centre(c) - middle);
    g.m0[c] = g.m1[c] = g.m2[c] = g.m3[c] = 0.0;
  }
  for (int64_t begin = 0; begin < n; begin += kMaxCount) {
    const int64_t chunk = n - begin < kMaxCount ? n - begin : kMaxCount;
    memset(counts, 0, cells * kFinePerCell * sizeof(uint64_t));
    count_items(s + begin, chunk, grid, clip, counts);
    fold_counts(counts, 0, cells, g);
  }
  return clip ? outside_items(s, n, grid) : Outside{};
}

// h and its derivatives by s, from h alone.
struct Derivatives {
  double d1, d2, d3, d4;
  explicit Derivatives(double h) {
    const double tilt = kLn2 * (1.0 - 2.0 * h);
    d1 = kLn2 * h * (1.0 - h);
    d2 = d1 * tilt;
    d3 = d2 * tilt - 2.0 * kLn2 * d1 * d1;
    d4 = d3 * tilt - 6.0 * kLn2 * d1 * d2;
  }
};

// The sums of one relevant item over all cells; keeps h of each cell in g.h.
PairSums grid_sums(const Cells& g, int cells, double r) {
  double t = 0.0, h_sum = 0.0, d1_sum = 0.0;
#pragma omp simd reduction(+ : t, h_sum, d1_sum)
  for (int c = 0; c < cells; ++c) {
    const double p = g.e[c] * r, u = 1.0 + p, h = p / u;
    const Derivatives d(h);
    g.h[c] = h;
    t += g.m0[c] * log2_fast(u) + g.m1[c] * h + g.m2[c] * d.d1 + g.m3[c] * d.d2;
    h_sum += g.m0[c] * h + g.m1[c] * d.d1 + g.m2[c] * d.d2 + g.m3[c] * d.d3;
    d1_sum += g.m0[c] * d.d1 + g.m1[c] * d.d2 + g.m2[c] * d.d3 + g.m3[c] * d.d4;
  }
  return {t, h_sum, d1_sum * kInvLn2};
}

// The relevant item's own term as the grid computes it, so that subtracting it is exact.
template <class T>
PairSums self_sums(const Grid<T>& grid, const Cells& g, T s, double r) {
  const int32_t place = place_of(s, grid.begin, last_place(grid));
  const int fine = place >> kFractionBits, c = fine / kFinePerCell;
  const double offset = (place & kFractionMask) * kQuantum - 0.5 * kFine;
  const Moments m(fine_centre(fine % kFinePerCell), 1.0, offset);
  const double p = g.e[c] * r, u = 1.0 + p, h = p / u;
  const Derivatives d(h);
  return {log2_fast(u) + m.m1 * h + m.m2 * d.d1 + m.m3 * d.d2,
          h + m.m1 * d.d1 + m.m2 * d.d2 + m.m3 * d.d3,
          (d.d1 + m.m1 * d.d2 + m.m2 * d.d3 + m.m3 * d.d4) * kInvLn2};
}

inline PairSums minus(const PairSums& a, const PairSums& b) {
  const double t = a.log2_product - b.log2_product;
  return {t > 0.0 ? t : 0.0, a.h_sum - b.h_sum, a.h_spread - b.h_spread};
}

// Adds rho_weight · h and its derivatives at the cells' centres, for one relevant item.
void add_gradients(const Cells& g, int cells, double rho_weight) {
#pragma omp simd
  for (int c = 0; c < cells; ++c) {
    const Derivatives d(g.h[c]);
    g.a0[c] += rho_weight * g.h[c];
    g.a1[c] += rho_weight * d.d1;
    g.a2[c] += rho_weight * d.d2;
    g.a3[c] += rho_weight * d.d3;
    g.a4[c] += rho_weight * d.d4;
  }
}

// Adds rho_curvature · h² and its derivatives.
void add_squares(const Cells& g, int cells, double rho_curvature) {
#pragma omp simd
  for (int c = 0; c < cells; ++c) {
    const double h = g.h[c];
    const Derivatives d(h);
    g.b0[c] += rho_curvature * h * h;
    g.b1[c] += rho_curvature * 2.0 * h * d.d1;
    g.b2[c] += rho_curvature * 2.0 * (d.d1 * d.d1 + h * d.d2);
    g.b3[c] += rho_curvature * (6.0 * d.d1 * d.d2 + 2.0 * h * d.d3);
  }
}

// A cubic about the centre of a cell.
struct Cubic {
  double c0, c1, c2, c3;
  double value(double x) const { return c0 + x * (c1 + x * (c2 / 2.0 + x * (c3 / 6.0))); }
  double derivative(double x) const { return c1 + x * (c2 + x * (c3 / 2.0)); }
};

inline Cubic gradient_cubic(const Cells& g, int c) { return {g.a0[c], g.a1[c], g.a2[c], g.a3[c]}; }

inline Cubic hessian_cubic(const Cells& g, int c) {
  return {g.a1[c] + g.b0[c], g.a2[c] + g.b1[c], g.a3[c] + g.b2[c], g.a4[c] + g.b3[c]};
}

// A straight line in every fine bin: value where the bin begins, and rise per quantum.
void tabulate(Cubic (*cubic)(const Cells&, int), const Cells& g, int cells, float* table) {
  for (int c = 0; c < cells; ++c) {
    const Cubic curve = cubic(g, c);
#pragma omp simd
    for (int f = 0; f < kFinePerCell; ++f) {
      const double x = fine_centre(f), rise = curve.derivative(x);
      float* line = table + 2 * (c * kFinePerCell + f);
      line[0] = static_cast<float>(curve.value(x) - 0.5 * kFine * rise);
      line[1] = static_cast<float>(rise * kQuantum);
    }
  }
}

// Two loops on purpose: places vectorise well, while plain loads from a table that sits in the
// cache beat gather instructions.
template <class T>
void look_up(const T* s, int64_t n, const Grid<T>& grid, const float* table, T* out) {
  const T limit = last_place(grid);
  int32_t place[kPlaceChunk];
  for (int64_t begin = 0; begin < n; begin += kPlaceChunk) {
    const int chunk = n - begin < kPlaceChunk ? n - begin : kPlaceChunk;
    const T* from = s + begin;
    T* to = out + begin;
#pragma omp simd
    for (int j = 0; j < chunk; ++j) place[j] = place_of(from[j], grid.begin, limit);
    for (int j = 0; j < chunk; ++j) {
      const float* line = table + 2 * (place[j] >> kFractionBits);
      to[j] = line[0] + line[1] * static_cast<float>(place[j] & kFractionMask);
    }
  }
}

// Items outside the grid get their closed forms: below, gradient and Hessian are both 2^(s − begin)
// times a constant; above, the gradient is the sum of all rho_weights and h does not change.
template <class T>
void write_outside(const List<T>& list, const Grid<T>& grid, double below, double above,
                   double above_square, const Answer<T>& answer) {
  for (int64_t j = 0; j < list.items; ++j) {
    const double s = list.scores[j];
    if (s < grid.begin) {
      const double value = below * exp2(s - grid.begin);
      answer.gradient[j] = static_cast<T>(value);
      if (answer.hessian) answer.hessian[j] = static_cast<T>(kLn2 * value);
    } else if (s > grid.end) {
      answer.gradient[j] = static_cast<T>(above);
      if (answer.hessian) answer.hessian[j] = static_cast<T>(above_square);
    }
  }
}

template <class T>
double grid_list(const List<T>& list, const Grid<T>& grid, const Range<T>& range, Rho rho,
                 Hessian want, const Answer<T>& answer, const Scratch& scratch) {
  const Cells g(scratch.grid);
  const int cells = grid.cells;
  const bool clip = range.low < grid.begin || range.high > grid.end;
  const double middle = grid.middle();
  for (int row = 0; row < kGridRows; ++row)
    memset(scratch.grid + row * kMaxCells, 0, cells * sizeof(double));
  const Outside outside = fill_cells(list.scores, list.items, grid, range, g, scratch.counts);

  // One relevant item after the other: its sums, then what it adds to the cells.
  const Relevant y(scratch.relevant, list.n_relevant);
  double loss = 0.0, below = 0.0, above = 0.0, above_square = 0.0;
  for (int64_t i = 0; i < list.n_relevant; ++i) {
    const T s = list.scores[list.relevant[i]];
    const double r = exp2_fast(middle - static_cast<double>(s));
    PairSums sums = minus(grid_sums(g, cells, r), self_sums(grid, g, s, r));
    const double down = exp2_fast(static_cast<double>(grid.begin) - s);
    sums.log2_product += outside.sum(down, static_cast<double>(grid.end) - s);
    sums.h_sum += down * outside.below + outside.above;
    sums.h_spread += down * outside.below;
    const Outer outer = outer_term(rho, want, list.weight[i], sums.log2_product);
    loss += outer.loss;
    if (answer.t) answer.t[i] = sums.log2_product;
    if (!answer.gradient) continue;
    add_gradients(g, cells, outer.rho_weight);
    if (want == Hessian::exact) add_squares(g, cells, outer.rho_curvature);
    below += outer.rho_weight * down;
    above += outer.rho_weight;
    above_square += outer.rho_curvature;
    y.r[i] = r, y.h_sum[i] = sums.h_sum, y.h_spread[i] = sums.h_spread;
    y.rho_weight[i] = outer.rho_weight, y.rho_curvature[i] = outer.rho_curvature;
  }
  if (!answer.gradient) return loss;

  tabulate(gradient_cubic, g, cells, scratch.table);
  look_up(list.scores, list.items, grid, scratch.table, answer.gradient);
  if (answer.hessian) {
    tabulate(hessian_cubic, g, cells, scratch.table);
    look_up(list.scores, list.items, grid, scratch.table, answer.hessian);
  }
  if (clip) write_outside(list, grid, below, above, above_square, answer);

  // Relevant items in full precision, without what each adds to itself.
  for (int64_t i = 0; i < list.n_relevant; ++i) {
    const int32_t place = list.relevant[i];
    const double s = list.scores[place];
    int c = static_cast<int>((s - grid.begin) / kCell);
    c = c < cells ? c : cells - 1;
    const double x = s - grid.centre(c), p = g.e[c] * y.r[i], h = p / (1.0 + p);
    const Derivatives d(h);
    const Cubic own{h, d.d1, d.d2, d.d3};
    double gradient = gradient_cubic(g, c).value(x) - y.rho_weight[i] * own.value(x);
    double hessian = 0.0;
    if (answer.hessian) {
      const Cubic own_derivative{d.d1, d.d2, d.d3, d.d4};
      const Cubic square{h * h, 2.0 * h * d.d1, 2.0 * (d.d1 * d.d1 + h * d.d2),
                         6.0 * d.d1 * d.d2 + 2.0 * h * d.d3};
      hessian = hessian_cubic(g, c).value(x) - y.rho_weight[i] * own_derivative.value(x) -
                y.rho_curvature[i] * square.value(x);
    }
    add_to_self({0.0, y.h_sum[i], y.h_spread[i]}, {0.0, y.rho_weight[i], y.rho_curvature[i]},
                &gradient, &hessian);
    answer.gradient[place] = static_cast<T>(gradient);
    if (answer.hessian) answer.hessian[place] = static_cast<T>(hessian);
  }
  return loss;
}
