// What happens beside the visits to all scores: interactions, rows in half precision, sums, and
// steps.

// The interactions of users (blockIdx.x: which) from all interactions: their item, their weight,
// and their row in blocks of `size` users.
extern "C" __global__ void take_interactions(const i64* users, const i64* starts, const i64* begins,
                                             const int* items, const float* weights, int size,
                                             int* rows, int* taken_items, float* taken_weights) {
  const i64 from = begins[users[blockIdx.x]], to = starts[blockIdx.x];
  const int n = starts[blockIdx.x + 1] - to;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    rows[to + i] = blockIdx.x % size;
    taken_items[to + i] = items[from + i];
    taken_weights[to + i] = weights ? weights[from + i] : 1.f;
  }
}

// Rows in half precision, their factors padded with zeros; `longest`, where it is given, becomes
// the largest of it and the rows' lengths. Those of items are laid out as products take them.
extern "C" __global__ void to_halves(const float* rows, int n, int factors, int of_items, u16* out,
                                     float* longest) {
  const int warps = gridDim.x * (blockDim.x / 32), lane = threadIdx.x % 32;
  const i64 all = of_items ? padded(n) : n;
  rows += static_cast<i64>(blockIdx.z) * n * factors;
  u32* to = reinterpret_cast<u32*>(out + blockIdx.z * all * kFactors);
  int most = 0;  // bits: numbers that are not negative rise as they do
  for (int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; row < all; row += warps) {
    const float* from = rows + static_cast<i64>(row) * factors;
    float square = 0.f;
    for (int f = lane * 2; f < kFactors; f += 64) {
      const float a = row < n && f < factors ? from[f] : 0.f;
      const float b = row < n && f + 1 < factors ? from[f + 1] : 0.f;
      const i64 chunk = of_items ? place_of_chunk(row, f / 8, kFactors)
                                 : static_cast<i64>(row) * (kFactors / 8) + f / 8;
      to[chunk * 4 + f / 2 % 4] = cvt_f16x2(a, b);
      square = fmaf(a, a, fmaf(b, b, square));
    }
    most = max(most, __float_as_int(sqrtf(sum_of_warp(square))));
  }
  if (longest && lane == 0) raise(longest + blockIdx.z, most);
}

// The gradient of users (blockIdx.x: which): the sum of their parts in their unit, less what the
// relevant items get beside it. Slices of threads share both sums out.
extern "C" __global__ __launch_bounds__(kSumThreads) void sum_users(
    const float* parts, int n_parts, const float* unit, const i64* starts, const int* items,
    const float* own, const float* V, int n_items, int factors, float* out) {
  constexpr int kSlices = kSumThreads / kFactors;
  __shared__ float sums[kSlices][kFactors];
  const int slice = threadIdx.x / kFactors, f = threadIdx.x % kFactors, users = gridDim.x;
  const i64 user = static_cast<i64>(blockIdx.z) * users + blockIdx.x;
  parts += static_cast<i64>(blockIdx.z) * n_parts * users * kFactors;
  own += static_cast<i64>(blockIdx.z) * starts[users];
  V += static_cast<i64>(blockIdx.z) * n_items * factors;
  if (slice < kSlices) {
    float sum = 0.f, less = 0.f;
    for (i64 p = slice; p < n_parts; p += kSlices)
      sum += parts[(p * users + blockIdx.x) * kFactors + f];
    if (f < factors)
#pragma unroll 8
      for (i64 y = starts[blockIdx.x] + slice; y < starts[blockIdx.x + 1]; y += kSlices)
        less = fmaf(own[y], V[static_cast<i64>(items[y]) * factors + f], less);
    sums[slice][f] = fmaf(sum, unit[user], -less);
  }
  __syncthreads();
  if (threadIdx.x >= factors) return;
  float sum = 0.f;
  for (int i = 0; i < kSlices; ++i) sum += sums[i][threadIdx.x];
  out[user * factors + threadIdx.x] = sum;
}

// to[item] −= Σ own · from[row] over the interactions of an item. `order` puts items in rising
// order; a block serves the item that begins at its place, and adds in that order.
extern "C" __global__ void add_interactions(const int* items, const int* rows, const i64* order,
                                            const float* own, const float* from, int interactions,
                                            int factors, int n_from, int n_to, float* to) {
  const int begin = blockIdx.x, item = items[order[begin]];
  if (begin > 0 && items[order[begin - 1]] == item) return;
  own += static_cast<i64>(blockIdx.z) * interactions;
  from += static_cast<i64>(blockIdx.z) * n_from * factors;
  to += static_cast<i64>(blockIdx.z) * n_to * factors;
  int end = begin + 1;
  while (end < interactions && items[order[end]] == item) ++end;
  for (int f = threadIdx.x; f < factors; f += blockDim.x) {
    float sum = 0.f;
#pragma unroll 4
    for (int i = begin; i < end; ++i) {
      const i64 r = order[i];
      sum = fmaf(own[r], from[static_cast<i64>(rows[r]) * factors + f], sum);
    }
    to[static_cast<i64>(item) * factors + f] -= sum;
  }
}

// One step of Newton's for each user (blockIdx.x: which eight), with a curvature whose eigenvectors
// all users of a model share, in the columns of `directions` and the rows of `transposed`; see
// solvers/user_steps.py. `places` says where a user is among all `n_all`, and `moved_places` where
// the new row goes; none: to the same place. `seen`: the share of the step in `seen_rows`.
extern "C" __global__ __launch_bounds__(kNewtonThreads) void step_users(
    const float* rows, const float* gradient, const float* losses, const i64* starts,
    const i64* places, const float* weights, const float* penalties, const float* centres,
    const float* values, const float* directions, const float* transposed, int rho, float damping,
    float seen, int users, int n_all, int factors, const i64* moved_places, int n_moved,
    float* moved, float* seen_rows) {
  constexpr int kUsers = kNewtonThreads / 32;  // a warp each, at first
  constexpr float kLn2 = 0.69314718f;
  __shared__ float along[kFactors][kUsers], step[kFactors][kUsers];
  __shared__ float kappas[kUsers], shares[kUsers];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, first = blockIdx.x * kUsers;
  const i64 before = static_cast<i64>(blockIdx.z) * users + first;
  rows += before * factors, gradient += before * factors;
  if (seen_rows) seen_rows += before * factors;
  losses += static_cast<i64>(blockIdx.z) * starts[users];
  penalties += static_cast<i64>(blockIdx.z) * n_all;
  moved += static_cast<i64>(blockIdx.z) * n_moved * factors;
  values += blockIdx.z * factors;
  directions += blockIdx.z * factors * factors, transposed += blockIdx.z * factors * factors;
  if (first + warp < users) {
    const i64 place = places[first + warp];
    float sum = 0.f;
    for (i64 y = starts[first + warp] + lane; y < starts[first + warp + 1]; y += 32)
      sum += losses[y];
    const float weight = weights[place], mean = sum_of_warp(sum) / weight, share = penalties[place];
    float kappa = kLn2 * mean;
    if (rho == kLog) kappa = 1.f - exp2f(-mean);
    if (rho == kType2)
      kappa = (1.f - exp2f(1.f - 1.f / (1.f - mean))) * (1.f - mean) * (1.f - mean);
    if (lane == 0) kappas[warp] = damping * weight * kappa, shares[warp] = share;
    for (int f = lane; f < factors; f += 32) {
      const float centre = centres ? centres[place * factors + f] : 0.f;
      along[f][warp] = fmaf(share, rows[warp * factors + f] - centre, gradient[warp * factors + f]);
    }
  } else {
    for (int f = lane; f < factors; f += 32) along[f][warp] = 0.f;
    if (lane == 0) kappas[warp] = 0.f, shares[warp] = 1.f;
  }
  // sum[u] = Σ_i from[i][u] · matrix[i][column]
  const auto product = [&](const float (&from)[kFactors][kUsers], const float* matrix, int column,
                           float (&sum)[kUsers]) {
#pragma unroll 8
    for (int i = 0; i < factors; ++i) {
      const float m = matrix[i * factors + column];
#pragma unroll
      for (int u = 0; u < kUsers; ++u) sum[u] = fmaf(from[i][u], m, sum[u]);
    }
  };
  __syncthreads();
  for (int f = threadIdx.x; f < factors; f += kNewtonThreads) {
    float sum[kUsers] = {};
    product(along, directions, f, sum);
#pragma unroll
    for (int u = 0; u < kUsers; ++u) step[f][u] = sum[u] / fmaf(kappas[u], values[f], shares[u]);
  }
  __syncthreads();
  for (int f = threadIdx.x; f < factors; f += kNewtonThreads) {
    float sum[kUsers] = {};
    product(step, transposed, f, sum);
#pragma unroll
    for (int u = 0; u < kUsers; ++u) {
      if (first + u >= users) continue;
      const float row = rows[u * factors + f];
      const i64 to = moved_places ? moved_places[first + u] : first + u;
      moved[to * factors + f] = row - sum[u];
      if (seen_rows) seen_rows[u * factors + f] = row - seen * sum[u];
    }
  }
}

// One step of Adam on the numbers of V, of all models; the penalty weight of its row is added.
extern "C" __global__ __launch_bounds__(kAdamThreads) void adam(
    float* __restrict__ V, float* __restrict__ first, float* __restrict__ second,
    const float* __restrict__ gradient, const float* __restrict__ penalty, int factors, int rows,
    float share, float b1, float b2, float rate, float correction) {
  const i64 block = static_cast<i64>(blockIdx.x) * kAdamThreads * kAdamNumbers;
  const i64 left = static_cast<i64>(rows) * factors - block, row = block / factors;
  const int column = block - row * factors;
  V += block, first += block, second += block, gradient += block, penalty += row;
  float v[kAdamNumbers], f[kAdamNumbers], s[kAdamNumbers], g[kAdamNumbers];
#pragma unroll
  for (int n = 0; n < kAdamNumbers; ++n) {
    const int i = threadIdx.x + n * kAdamThreads;
    if (i >= left) continue;
    v[n] = V[i], f[n] = first[i], s[n] = second[i], g[n] = gradient[i];
    g[n] = fmaf(share * penalty[static_cast<u32>(column + i) / factors], v[n], g[n]);
  }
#pragma unroll
  for (int n = 0; n < kAdamNumbers; ++n) {
    const int i = threadIdx.x + n * kAdamThreads;
    if (i >= left) continue;
    f[n] = first[i] = fmaf(b1, f[n], (1.f - b1) * g[n]);
    s[n] = second[i] = fmaf(b2, s[n], (1.f - b2) * g[n] * g[n]);
    V[i] = v[n] - rate * f[n] / (sqrtf(s[n] * correction) + 1e-8f);
  }
}

// A sparse matrix (blockIdx.x: which row) times a dense one with `width` columns (blockIdx.y: which
// of them). Slices of threads share the entries of a row out, and their sums are added in order.
extern "C" __global__ __launch_bounds__(kSparseSlices* kSparseColumns) void sparse_times(
    const i64* starts, const int* columns, const float* values, const float* dense, int width,
    float* out) {
  __shared__ float sums[kSparseSlices][kSparseColumns];
  const int slices = blockDim.x / kSparseColumns;
  const int slice = threadIdx.x / kSparseColumns, own = threadIdx.x % kSparseColumns;
  const int column = blockIdx.y * kSparseColumns + own;
  float sum = 0.f;
  if (column < width)
#pragma unroll 4
    for (i64 e = starts[blockIdx.x] + slice; e < starts[blockIdx.x + 1]; e += slices)
      sum = fmaf(values[e], dense[static_cast<i64>(columns[e]) * width + column], sum);
  sums[slice][own] = sum;
  __syncthreads();
  if (slice || column >= width) return;
  for (int i = 1; i < slices; ++i) sum += sums[i][own];
  out[static_cast<i64>(blockIdx.x) * width + column] = sum;
}

// The scores of pairs of a row of U and a row of V, in full precision; a warp a pair.
extern "C" __global__ void score_pairs(const float* U, const float* V, const i64* rows,
                                       const int* items, int pairs, int factors, float* out) {
  const int pair = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (pair >= pairs) return;
  const float *u = U + rows[pair] * factors, *v = V + static_cast<i64>(items[pair]) * factors;
  float sum = 0.f;
  for (int f = lane; f < factors; f += 32) sum = fmaf(u[f], v[f], sum);
  sum = sum_of_warp(sum);
  if (lane == 0) out[pair] = sum;
}
