// Sampled updates of the factors, compiled once for each instruction set.
//
// One record (x, y) of RoBiRank, with its slope w ρ'(t_xy), looks at K items y' drawn from the
// cell. With s = <U_x, V_y>, s' = <U_x, V_y'> and
//
//   c = slope · scale / E(draws of y') · 1 / (1 + 2^(s − s')),
//
// which makes the sum over the draws an unbiased estimate of the sum over all items, the gradient
// of V_y' is c U_x, that of V_y is b V_y − Σ c U_x, and that of U_x is a U_x + Σ c (V_y' − V_y); a
// and b are what one record of the row pays of its penalty.
//
// Every row has one Adagrad sum (of mean squares), so the step of V_y' needs no pass of its own.
// Nothing here may emit a symbol that other files share (see kernels.h).

#include <math.h>
#include <string.h>

#include "kernels.h"

namespace robirank {
namespace ROBIRANK_ISA {
namespace {

#include "sgd_vector.h"
//
#include "sgd_rows.h"

constexpr float kTiny = 1e-10f;  // keeps 0 / 0 out of the first step

// 2^x, relative error < 3e-7; far out it stays finite.
inline float exp2_fast(float x) {
  constexpr float kRound = 12582912.0f;  // 1.5 · 2^23: adding it rounds to an integer
  x = x > 126.0f ? 126.0f : x;
  x = x < -126.0f ? -126.0f : x;
  const float shifted = x + kRound;
  const float f = x - (shifted - kRound);
  float p = 1.5403530e-4f;
  p = p * f + 1.3333558e-3f;
  p = p * f + 9.6181291e-3f;
  p = p * f + 5.5504109e-2f;
  p = p * f + 2.4022651e-1f;
  p = p * f + 6.9314718e-1f;
  p = p * f + 1.0f;
  uint32_t bits, exponent;
  memcpy(&bits, &p, sizeof bits);
  memcpy(&exponent, &shifted, sizeof exponent);
  bits += exponent << 23;
  memcpy(&p, &bits, sizeof p);
  return p;
}

inline uint32_t mix(uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  return x ^ (x >> 16);
}

// Draw i of a record is a pure function of the key, the record and i: a number below `bound`.
void draw(uint64_t key, int64_t record, int from, int n, uint32_t bound, uint32_t* out) {
  const uint32_t high = static_cast<uint32_t>(key >> 32);
  const uint32_t first = mix(static_cast<uint32_t>(key) + static_cast<uint32_t>(record)) + high +
                         0x9e3779b9u * static_cast<uint32_t>(from);
#pragma omp simd
  for (int i = 0; i < n; ++i) {
    const uint32_t bits = mix(first + 0x9e3779b9u * static_cast<uint32_t>(i));
    out[i] = static_cast<uint32_t>((static_cast<uint64_t>(bits) * bound) >> 32);
  }
}

inline bool finite(float x) { return x - x == 0.0f; }

// Where the draws of one record lie, and what they say.
struct Draws {
  alignas(64) uint32_t item[kMaxNegatives + kLanes];
  alignas(64) float score[kMaxNegatives + kLanes];
  alignas(64) float weight[kMaxNegatives + kLanes];  // 1 / expected number of draws; 0 for y itself
  alignas(64) float acc[kMaxNegatives + kLanes];     // Adagrad's sum, then what it gains
  alignas(64) float pull[kMaxNegatives + kLanes];    // c
  alignas(64) float step[kMaxNegatives + kLanes];
};

// Fills up to a whole number of vectors with y itself, which weighs nothing.
inline int draw_items(const Cell& cell, const RobirankRule& rule, int64_t record, uint32_t y,
                      Draws& d) {
  draw(cell.key, record, 0, rule.negatives, static_cast<uint32_t>(cell.items), d.item);
  for (int k = rule.uniform; k < rule.negatives; ++k) d.item[k] = cell.table[d.item[k]];
  const int padded = (rule.negatives + kLanes - 1) / kLanes * kLanes;
  for (int k = rule.negatives; k < padded; ++k) d.item[k] = y;
  for (int k = 0; k < padded; ++k) {
    const uint32_t j = d.item[k];
    d.weight[k] = j == y ? 0.0f : cell.inverse[j];
    d.acc[k] = cell.acc_v[j];
  }
  return padded;
}

// The pulls and steps of all draws; returns the sum of the pulls.
inline float weigh(float weight, float s, float norm, float rate, int n, Draws& d) {
  float total = 0.0f;
#pragma omp simd reduction(+ : total)
  for (int k = 0; k < n; ++k) {
    const float h = 1.0f / (1.0f + exp2_fast(s - d.score[k]));
    const float c = weight * d.weight[k] * h;
    const float gain = c * c * norm;
    d.pull[k] = c;
    d.step[k] = rate * c / sqrtf(d.acc[k] + gain + kTiny);
    d.acc[k] = gain;
    total += c;
  }
  return total;
}

template <int D>
CellReport robirank_cell(const Cell& cell, const RobirankRule& rule) {
  const Rows<D> rows(cell.width);
  Draws d;
  CellReport report = {0, 0, 0.0};
  for (int64_t i = 0; i < cell.records; ++i) {
    if (i + 2 < cell.records) prefetch_row(cell.U + cell.user[i + 2] * cell.width, cell.width);
    const uint32_t y = cell.item[i];
    const int64_t x = cell.user[i];
    float* u_row = rows.at(cell.U, x);
    float* y_row = rows.at(cell.V, y);
    const int n = draw_items(cell, rule, i, y, d);

    vec u[Rows<D>::kVectors], g[Rows<D>::kVectors];
    rows.load(u_row, u);
    const float s = rows.dot(u, y_row);
    const float norm = rows.dot(u, u_row) * rule.per_factor;
    for (int k = 0; k < n; k += kLanes) rows.dots(u, cell.V, d.item + k, d.score + k);
    const float total = weigh(cell.slope[i] * rule.scale, s, norm, rule.rate_v, n, d);
    if (!finite(total + s + norm)) {
      ++report.not_finite;
      continue;
    }
    if (d.item[0] != y)
      report.loss += static_cast<double>(cell.slope[i] * rule.scale) * cell.items *
                     log2f(1.0f + exp2_fast(d.score[0] - s));

    rows.start(u, y_row, cell.decay_u[x], -total, g);
    for (int k = 0; k < n; ++k)
      rows.exchange(rows.at(cell.V, d.item[k]), d.pull[k], d.step[k], u, g);
    for (int k = 0; k < n; ++k) cell.acc_v[d.item[k]] += d.acc[k];
    rows.descend(y_row, u, cell.decay_v[y], -total, rule.rate_v, rule.per_factor, cell.acc_v + y);
    rows.descend(u_row, g, 0.0f, 1.0f, rule.rate_u, rule.per_factor, cell.acc_u + x);
    report.draws += rule.negatives;
  }
  return report;
}

// --------------------------------------------------------------------------------- WARP

// Is the item another one of the same user's? His records of the cell stand together.
inline bool is_positive(const Cell& cell, int64_t begin, int64_t end, uint32_t item) {
  for (int64_t r = begin; r < end; ++r)
    if (cell.item[r] == item) return true;
  return false;
}

template <int D>
CellReport warp_cell(const Cell& cell, const WarpRule& rule) {
  const Rows<D> rows(cell.width);
  constexpr int kAhead = 16;  // trials are drawn a few at a time: often the first one is enough
  uint32_t drawn[kAhead];
  CellReport report = {0, 0, 0.0};
  int64_t begin = 0, end = 0;  // the records of the present user
  for (int64_t i = 0; i < cell.records; ++i) {
    if (i + 2 < cell.records) prefetch_row(cell.U + cell.user[i + 2] * cell.width, cell.width);
    const int64_t x = cell.user[i];
    if (i == end) {
      begin = i;
      while (end < cell.records && cell.user[end] == x) ++end;
    }
    const uint32_t y = cell.item[i];
    float* u_row = rows.at(cell.U, x);
    float* y_row = rows.at(cell.V, y);

    vec u[Rows<D>::kVectors], g[Rows<D>::kVectors];
    rows.load(u_row, u);
    const float s = rows.dot(u, y_row);
    if (!finite(s)) {
      ++report.not_finite;
      continue;
    }
    int trials = 0;
    for (int k = 0; k < rule.max_trials; ++k) {
      if (k % kAhead == 0) draw(cell.key, i, k, kAhead, static_cast<uint32_t>(cell.items), drawn);
      const uint32_t other = drawn[k % kAhead];
      if (is_positive(cell, begin, end, other)) continue;
      float* row = rows.at(cell.V, other);
      const float violation = rule.margin + rows.dot(u, row) - s;
      ++trials;
      if (!(violation > 0.0f)) continue;
      const float c = cell.slope[i] * rule.weight_after[trials];
      report.loss += static_cast<double>(c) * violation;
      rows.start(u, y_row, cell.decay_u[x], -c, g);
      rows.exchange(row, c, 0.0f, u, g);
      rows.descend(row, u, 0.0f, c, rule.rate_v, rule.per_factor, cell.acc_v + other);
      rows.descend(y_row, u, cell.decay_v[y], -c, rule.rate_v, rule.per_factor, cell.acc_v + y);
      rows.descend(u_row, g, 0.0f, 1.0f, rule.rate_u, rule.per_factor, cell.acc_u + x);
      break;
    }
    report.draws += trials;
  }
  return report;
}

// The widths people use get code of their own, with U_x in registers.
CellReport robirank(const Cell& cell, const RobirankRule& rule) {
  switch (cell.width) {
    case 16:
      return robirank_cell<16>(cell, rule);
    case 32:
      return robirank_cell<32>(cell, rule);
    case 64:
      return robirank_cell<64>(cell, rule);
    case 128:
      return robirank_cell<128>(cell, rule);
    case 256:
      return robirank_cell<256>(cell, rule);
    default:
      return robirank_cell<0>(cell, rule);
  }
}

CellReport warp(const Cell& cell, const WarpRule& rule) {
  switch (cell.width) {
    case 32:
      return warp_cell<32>(cell, rule);
    case 64:
      return warp_cell<64>(cell, rule);
    case 128:
      return warp_cell<128>(cell, rule);
    default:
      return warp_cell<0>(cell, rule);
  }
}

float dot(const float* a, const float* b, int64_t width) {
  vec sum = {};
  for (int64_t j = 0; j < width; j += kLanes) sum += load(a + j) * load(b + j);
  return add_lanes(sum);
}

}  // namespace

const SgdKernels sgd_kernels = {robirank, warp, draw, dot};

}  // namespace ROBIRANK_ISA
}  // namespace robirank
