// The sampled updates of WARP.
// A part of sgd_kernels.cpp, which includes it inside the namespace of an instruction set.
#pragma once

// Whether the item is one of the user's own: interactions begin:end of the cell are the user's.
inline bool is_positive(const Cell& cell, int64_t begin, int64_t end, uint32_t item) {
  for (int64_t r = begin; r < end; ++r)
    if (cell.item[r] == item) return true;
  return false;
}

template <int D, bool kCentred>
CellReport warp_cell(const Cell& cell, const WarpRule& rule) {
  const Rows<D> rows(cell.width);
  constexpr int kAhead = 16;  // trials are drawn a few at a time: often the first one is enough
  uint32_t drawn[kAhead];
  CellReport report = {0, 0, 0.0};
  int64_t begin = 0, end = 0;  // the interactions of the current user
  for (int64_t i = 0; i < cell.interactions; ++i) {
    if (i + 2 < cell.interactions) prefetch_row(cell.U + cell.user[i + 2] * cell.width, cell.width);
    const int64_t x = cell.user[i];
    if (i == end) {
      begin = i;
      while (end < cell.interactions && cell.user[end] == x) ++end;
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
      const float c = cell.weight[i] * rule.weight_after[trials];
      report.loss += static_cast<double>(c) * violation;
      rows.start(u, y_row, cell.penalty_u[x], -c, g);
      if constexpr (kCentred) rows.pull_to(cell.centre_u, x, cell.penalty_u[x], g);
      rows.exchange(row, c, 0.0f, u, g);
      rows.descend(row, u, 0.0f, c, rule.rate_v, rule.per_factor, cell.acc_v + other);
      if constexpr (kCentred)
        rows.descend_to(cell.centre_v, y, y_row, u, cell.penalty_v[y], -c, rule.rate_v,
                        rule.per_factor, cell.acc_v + y);
      else
        rows.descend(y_row, u, cell.penalty_v[y], -c, rule.rate_v, rule.per_factor, cell.acc_v + y);
      rows.descend(u_row, g, 0.0f, 1.0f, rule.rate_u, rule.per_factor, cell.acc_u + x);
      break;
    }
    report.draws += trials;
  }
  return report;
}
