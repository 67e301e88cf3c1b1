// The inner sums of points that need not be items themselves: no derivatives, no self term.
// A part of list_kernels.cpp, which includes it inside the namespace of an instruction set.
#pragma once

// The items of a row may come in any number of chunks. The points are known before, so the grid is
// laid around them; each chunk is counted into it, and the points are summed up once at the end.
// A chunk of a few items is summed directly.

constexpr int kGroup = 8;  // cells that are folded together, or skipped if they are empty

// The doubles of one register.
#if defined(__AVX512F__)
constexpr int kDoubles = 8;
#elif defined(__AVX__)
constexpr int kDoubles = 4;
#else
constexpr int kDoubles = 2;
#endif
typedef double Lanes __attribute__((vector_size(kDoubles * sizeof(double))));
typedef uint64_t LaneBits __attribute__((vector_size(kDoubles * sizeof(uint64_t))));

// Σ_j log2(1 + e_j r) of `kTogether` points: the logarithm of a product. A product of `run` factors
// cannot overflow; then its exponent is added up apart. e is padded with zeros to whole Lanes.
constexpr int kTogether = 4;

inline void product_sums(const double* e, int64_t lanes, int64_t run, const double* r, double* t) {
  Lanes product[kTogether];
  LaneBits exponents[kTogether];
  for (int a = 0; a < kTogether; ++a) product[a] = Lanes{} + 1.0, exponents[a] = LaneBits{};
  int64_t runs = 0;
  for (int64_t begin = 0; begin < lanes; begin += run, ++runs) {
    const int64_t end = lanes - begin < run ? lanes : begin + run;
    for (int64_t v = begin; v < end; ++v) {
      Lanes x;
      memcpy(&x, e + v * kDoubles, sizeof x);
      for (int a = 0; a < kTogether; ++a) product[a] *= 1.0 + x * r[a];
    }
    for (int a = 0; a < kTogether; ++a) {
      const LaneBits bits = (LaneBits)product[a];
      exponents[a] += bits >> 52;
      product[a] = (Lanes)((bits & kMantissa) | kOne);
    }
  }
  for (int a = 0; a < kTogether; ++a)
    for (int l = 0; l < kDoubles; ++l)
      t[a] += (static_cast<double>(exponents[a][l]) - 1023.0 * runs) + log2_fast(product[a][l]);
}

// Scores and points are near `centre`, and no score is more than `top` above a point.
inline void direct_points(const float* s, int64_t n, double centre, double top, const float* points,
                          int64_t k, double* t, const Scratch& scratch) {
  const int64_t run = static_cast<int64_t>(1000.0 / (top + 1.0));
  for (int64_t begin = 0; begin < n; begin += kShortList) {
    const int64_t chunk = n - begin < kShortList ? n - begin : kShortList;
    const int64_t lanes = (chunk + kDoubles - 1) / kDoubles;
    exponentials(s + begin, chunk, centre, scratch.items);
    for (int64_t j = chunk; j < lanes * kDoubles; ++j) scratch.items[j] = 0.0;
    for (int64_t i = 0; i < k; i += kTogether) {
      const int64_t group = k - i < kTogether ? k - i : kTogether;
      double r[kTogether] = {}, sums[kTogether] = {};
      for (int64_t a = 0; a < group; ++a) r[a] = exp2_fast(centre - points[i + a]);
      product_sums(scratch.items, lanes, run, r, sums);
      for (int64_t a = 0; a < group; ++a) t[i + a] += sums[a];
    }
  }
}

// Scores so far apart that 2^(s_j − p) overflows: rare, so plain and safe rather than fast.
inline void wide_points(const float* s, int64_t n, const float* points, int64_t k, double* t) {
  for (int64_t i = 0; i < k; ++i)
    for (int64_t j = 0; j < n; ++j) {
      const double d = static_cast<double>(s[j]) - points[i];
      t[i] += (d > 0 ? d : 0.0) + log1p(exp2(-fabs(d))) * kInvLn2;
    }
}

inline void sum_directly(const float* s, int64_t n, const float* points, int64_t k, double* t,
                         const Scratch& scratch) {
  const Range<float> scores = score_range(s, n), range = score_range(points, k);
  if (!scores.finite() || !range.finite()) {
    for (int64_t i = 0; i < k; ++i) t[i] = bits_to_double(~uint64_t{0});  // NaN
    return;
  }
  const double low = scores.low < range.low ? scores.low : range.low;
  const double high = scores.high > range.high ? scores.high : range.high;
  if (high - low > kFactorRange) return wide_points(s, n, points, k, t);
  const double top = scores.high > range.low ? static_cast<double>(scores.high) - range.low : 0.0;
  direct_points(s, n, 0.5 * (low + high), top, points, k, t, scratch);
}

inline CellMoments moments_of(const PointRow& row) {
  double* m = row.moments;
  return {m, m + row.cells, m + 2 * row.cells, m + 3 * row.cells};
}

inline bool any_counts(const uint64_t* counts, int bins) {
  uint64_t any = 0;
#pragma omp simd reduction(| : any)
  for (int b = 0; b < bins; ++b) any |= counts[b];
  return any != 0;
}

inline Grid<float> grid_of(const PointRow& row) { return {row.begin, row.end, row.cells}; }

// The first bin and the last are guards: what is outside the grid, or NaN, is counted there.
inline bool any_outside(const PointRow& row, const uint64_t* counts) {
  return counts[0] || counts[row.cells * kFinePerCell - 1];
}

// Some scores are outside the grid: counts again without them, and adds their closed forms.
inline void recount(const float* s, int64_t n, PointRow* row, uint64_t* counts) {
  memset(counts, 0, row->cells * kFinePerCell * sizeof(uint64_t));
  const Grid<float> grid = grid_of(*row);
  const Range<float> range = score_range(s, n);
  if (!range.finite()) {
    row->below = range.low - range.low;  // NaN, and so will be all sums
    return;
  }
  count_items(s, n, grid, true, counts);
  const Outside outside = outside_items(s, n, grid);
  row->below += outside.below;
  row->above += outside.above;
  row->excess += outside.above_excess;
}

// Moves what was counted into the moments.
void fold_row(PointRow* row, uint64_t* counts) {
  const CellMoments moments = moments_of(*row);
  for (int first = 0; first < row->cells; first += kGroup) {
    const int last = first + kGroup < row->cells ? first + kGroup : row->cells;
    uint64_t* bins = counts + first * kFinePerCell;
    const int n_bins = (last - first) * kFinePerCell;
    if (!any_counts(bins, n_bins)) continue;
    fold_counts(counts, first, last, moments);
    memset(bins, 0, n_bins * sizeof(uint64_t));
    row->first = first < row->first ? first : row->first;
    row->last = last > row->last ? last : row->last;
  }
}

// Adds up to kMaxCount items to the row.
void count_chunk(const float* s, int64_t n, PointRow* row, uint64_t* counts) {
  count_items(s, n, grid_of(*row), false, counts);
  if (any_outside(*row, counts)) recount(s, n, row, counts);
  fold_row(row, counts);
}

// Σ_j log2(1 + 2^(s_j − p)) over cells first … last − 1, with r = 2^(middle − p).
inline double cell_sum(const CellMoments& g, const double* e, int first, int last, double r) {
  double t = 0.0;
#pragma omp simd reduction(+ : t)
  for (int c = first; c < last; ++c) {
    const double p = e[c] * r, u = 1.0 + p, h = p / u, d1 = kLn2 * h * (1.0 - h);
    t += g.m0[c] * log2_fast(u) + g.m1[c] * h + d1 * (g.m2[c] + g.m3[c] * (kLn2 * (1.0 - 2.0 * h)));
  }
  return t;
}

// The grid of a row covers all scores but those too far from every point, and two guard bins.
PointRow open_row(const float* points, int64_t k) {
  const Range<float> range = k > 0 ? score_range(points, k) : Range<float>{0.0f, 0.0f};
  const float begin = range.low - static_cast<float>(kFar + kFine);
  const float end = range.high + static_cast<float>(kFar);
  const double width = static_cast<double>(end) - begin + kFine;
  const int cells = width <= kMaxRange ? static_cast<int>(width / kCell) + 1 : 0;
  return {points, k, begin, end, cells, cells, 0, 0.0, 0.0, 0.0, nullptr, nullptr};
}

// Whether n items are to be counted rather than summed directly.
inline bool worth_counting(int64_t n, Method method, const PointRow& row) {
  return method != Method::direct && row.cells > 0 && (n > kFewItems || method == Method::grid);
}

void add_to_row(const float* s, int64_t n, Method method, PointRow* row, const Scratch& scratch) {
  if (n == 0 || row->k == 0) return;
  if (!worth_counting(n, method, *row))
    return sum_directly(s, n, row->points, row->k, row->t, scratch);
  for (int64_t begin = 0; begin < n; begin += kMaxCount)
    count_chunk(s + begin, n - begin < kMaxCount ? n - begin : kMaxCount, row, scratch.counts);
}

void close_row(const PointRow& row, double* t, const Scratch& scratch) {
  const Grid<float> grid = grid_of(row);
  const Outside outside{row.below, row.above, row.excess};
  const CellMoments moments = moments_of(row);
  const double middle = grid.centre((row.first + row.last) / 2);
  double* e = scratch.grid;
  for (int c = row.first; c < row.last; ++c) e[c] = exp2_fast(grid.centre(c) - middle);
  for (int64_t i = 0; i < row.k; ++i) {
    const double p = row.points[i];
    t[i] = row.t[i];
    if (row.cells > 0)
      t[i] += cell_sum(moments, e, row.first, row.last, exp2_fast(middle - p)) +
              outside.sum(exp2_fast(grid.begin - p), grid.end - p);
  }
}
