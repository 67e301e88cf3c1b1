// The sampled updates of RoBiRank.
// A part of sgd_kernels.cpp, which includes it inside the namespace of an instruction set.
#pragma once

// One interaction (x, y) of RoBiRank, with its ρ-weight w ρ'(t_xy), looks at K items y' drawn from
// the cell. With s = <U_x, V_y>, s' = <U_x, V_y'> and
//
//   c = ρ-weight · scale / E(draws of y') · 1 / (1 + 2^(s − s')),
//
// which makes the sum over the draws an unbiased estimate of the sum over all items, the gradient
// of V_y' is c U_x, that of V_y is b V_y − Σ c U_x, and that of U_x is a U_x + Σ c (V_y' − V_y); a
// and b are the share of the row's penalty that one of its interactions pays. Where rows have
// centres, b V_y and a U_x are b and a times the way from the centre to the row.
//
// Every row has one Adagrad sum (of mean squares), so the step of V_y' needs no pass of its own.

constexpr float kTiny = 1e-10f;  // keeps 0 / 0 out of the first step

// The items drawn for one interaction, with what their updates need.
struct Draws {
  alignas(64) uint32_t item[kMaxNegatives + kLanes];
  alignas(64) float score[kMaxNegatives + kLanes];
  alignas(64) float weight[kMaxNegatives + kLanes];  // 1 / expected number of draws; 0 for y itself
  alignas(64) float acc[kMaxNegatives + kLanes];     // Adagrad's sum, then its increase
  alignas(64) float pull[kMaxNegatives + kLanes];    // c
  alignas(64) float step[kMaxNegatives + kLanes];
};

// Draws the items of an interaction; padded to whole vectors with y itself, whose weight is 0.
inline int draw_items(const Cell& cell, const RobirankRule& rule, int64_t interaction, uint32_t y,
                      Draws& d) {
  draw(cell.key, interaction, 0, rule.negatives, static_cast<uint32_t>(cell.items), d.item);
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

template <int D, bool kCentred>
CellReport robirank_cell(const Cell& cell, const RobirankRule& rule) {
  const Rows<D> rows(cell.width);
  Draws d;
  CellReport report = {0, 0, 0.0};
  for (int64_t i = 0; i < cell.interactions; ++i) {
    if (i + 2 < cell.interactions) prefetch_row(cell.U + cell.user[i + 2] * cell.width, cell.width);
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
    const float total = weigh(cell.weight[i] * rule.scale, s, norm, rule.rate_v, n, d);
    if (!finite(total + s + norm)) {
      ++report.not_finite;
      continue;
    }
    if (d.item[0] != y)
      report.loss += static_cast<double>(cell.weight[i] * rule.scale) * cell.items *
                     log2f(1.0f + exp2_fast(d.score[0] - s));

    rows.start(u, y_row, cell.penalty_u[x], -total, g);
    if constexpr (kCentred) rows.pull_to(cell.centre_u, x, cell.penalty_u[x], g);
    for (int k = 0; k < n; ++k)
      rows.exchange(rows.at(cell.V, d.item[k]), d.pull[k], d.step[k], u, g);
    for (int k = 0; k < n; ++k) cell.acc_v[d.item[k]] += d.acc[k];
    if constexpr (kCentred)
      rows.descend_to(cell.centre_v, y, y_row, u, cell.penalty_v[y], -total, rule.rate_v,
                      rule.per_factor, cell.acc_v + y);
    else
      rows.descend(y_row, u, cell.penalty_v[y], -total, rule.rate_v, rule.per_factor,
                   cell.acc_v + y);
    rows.descend(u_row, g, 0.0f, 1.0f, rule.rate_u, rule.per_factor, cell.acc_u + x);
    report.draws += rule.negatives;
  }
  return report;
}
