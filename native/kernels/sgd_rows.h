// Operations on rows of factors; u and g are rows held in registers.
// A part of sgd_kernels.cpp, which includes it inside the namespace of an instruction set.
#pragma once

// Rows of D floats, known at compile time; D = 0: known only at run time.
template <int D>
struct Rows {
  static constexpr int kVectors = D > 0 ? D / kLanes : kMaxWidth / kLanes;
  const int n;

  explicit Rows(int64_t width) : n(D > 0 ? kVectors : static_cast<int>(width / kLanes)) {}
  int count() const { return D > 0 ? kVectors : n; }
  float* at(float* rows, int64_t i) const { return rows + i * (count() * kLanes); }
  const float* at(const float* rows, int64_t i) const { return rows + i * (count() * kLanes); }

  void load(const float* row, vec* u) const {
    u[0] = ROBIRANK_ISA::load(row);
    for (int j = 1; j < count(); ++j) u[j] = ROBIRANK_ISA::load(row + j * kLanes);
  }

  vec products(const vec* u, const float* row) const {
    vec sum = u[0] * ROBIRANK_ISA::load(row);
    for (int j = 1; j < count(); ++j) sum += u[j] * ROBIRANK_ISA::load(row + j * kLanes);
    return sum;
  }

  float dot(const vec* u, const float* row) const { return add_lanes(products(u, row)); }

  // The products of rows item[0 : C], each added up to kLanes / C numbers.
  template <int C>
  vec tree(const vec* u, const float* V, const uint32_t* item) const {
    if constexpr (C == 1)
      return products(u, at(V, *item));
    else
      return add_neighbours(tree<C / 2>(u, V, item), tree<C / 2>(u, V, item + C / 2));
  }

  // score[k] = <u, V[item[k]]> for kLanes items at once.
  void dots(const vec* u, const float* V, const uint32_t* item, float* score) const {
    store(score, tree<kLanes>(u, V, item));
  }

  // g = reg u + c row
  void start(const vec* u, const float* row, float reg, float c, vec* g) const {
    for (int j = 0; j < count(); ++j) g[j] = reg * u[j] + c * ROBIRANK_ISA::load(row + j * kLanes);
  }

  // g −= reg centre, the row of a user or an item among all centres
  void pull_to(const float* centres, int64_t of, float reg, vec* g) const {
    const float* centre = at(centres, of);
    for (int j = 0; j < count(); ++j) g[j] -= reg * ROBIRANK_ISA::load(centre + j * kLanes);
  }

  // g += c row, then row −= step u
  void exchange(float* row, float c, float step, const vec* u, vec* g) const {
    for (int j = 0; j < count(); ++j) {
      const vec v = ROBIRANK_ISA::load(row + j * kLanes);
      g[j] += c * v;
      store(row + j * kLanes, v - step * u[j]);
    }
  }

  // One step of row-wise Adagrad along the gradient c g + reg row.
  void descend(float* row, const vec* g, float reg, float c, float rate, float per_factor,
               float* acc) const {
    vec sum = {};
    for (int j = 0; j < count(); ++j) {
      const vec along = c * g[j] + reg * ROBIRANK_ISA::load(row + j * kLanes);
      sum += along * along;
    }
    *acc += add_lanes(sum) * per_factor;
    const float step = rate / sqrtf(*acc + 1e-10f);
    for (int j = 0; j < count(); ++j) {
      const vec v = ROBIRANK_ISA::load(row + j * kLanes);
      store(row + j * kLanes, v - step * (c * g[j] + reg * v));
    }
  }

  // The same where the penalty pulls the row to its centre.
  void descend_to(const float* centres, int64_t of, float* row, const vec* g, float reg, float c,
                  float rate, float per_factor, float* acc) const {
    vec along[kVectors];
    for (int j = 0; j < count(); ++j) along[j] = c * g[j];
    pull_to(centres, of, reg, along);
    descend(row, along, reg, 1.0f, rate, per_factor, acc);
  }
};
