// The exact solver's visits to all scores of a block of users, without writing a score to memory.
//
// Compiled at run time for a number of factors (kFactors, a multiple of 16, rows padded with zeros)
// and a number of users of a tile (kRows: 16, 32 or 64). Factors are half-precision numbers, sums
// are float. A score is a place on its user's grid of kBins bins; what is far outside is clamped.
//
// Fragments are those of mma.m16n8k16: lane l holds rows l / 4 and l / 4 + 8 of a 16 × 8 tile, at
// the columns 2 (l % 4) and 2 (l % 4) + 1.

typedef unsigned int u32;
typedef unsigned short u16;  // a half-precision number
typedef long long i64;

constexpr int kBins = 512;
constexpr bool kLarge = kFactors <= 64 && kRows > 16;         // more fits into a block
constexpr int kWarps = kLarge ? 16 : 8, kThreads = 32 * kWarps;
constexpr int kRowWarps = kRows / 16, kItemWarps = kWarps / kRowWarps;
constexpr int kItems = 128;                                  // of a tile
constexpr int kWarpItems = kItems / kItemWarps;              // of a warp in a tile
constexpr int kTiles = kWarpItems / 8;                       // of 8 items
constexpr int kStride = kFactors + 8;                        // halves between rows: no bank twice
constexpr int kBinStride = kBins + 4;                        // words between rows of bins
constexpr int kParts = 32;                                   // of a bin; offsets are counted in them
constexpr int kPartBits = 5, kSumBits = 18;                  // a counter: 13 bits items, 18 bits offsets
constexpr int kMostTiles = 8191 / kItems;                    // between two flushes
constexpr int kItemTiles = kLarge ? 2 : 1;           // of 16 items, of a warp in slopes_to_items
constexpr int kBlockItems = 16 * kItemTiles * kWarps;
constexpr int kStepRows = kRows > 16 ? kRows / 2 : 16;       // users of a step there

static_assert(kBins == kExpectedBins, "as in kernels.py");
static_assert(kRows * (4 * kBinStride + 2 * kStride) + 4 * kItems * kStride == kTileBytes,
              "as in kernels.py");

struct Scale {
  float shift, bins;  // a score s is at the place s · bins + shift
};

__device__ __forceinline__ u32 shared_address(const void* p) {
  return static_cast<u32>(__cvta_generic_to_shared(p));
}
__device__ __forceinline__ void copy16(void* to, const void* from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(there ? 16 : 0));
}
__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;"); }
template <int n>
__device__ __forceinline__ void wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(n));
}
__device__ __forceinline__ void load4(u32 (&r)[4], const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(p)));
}
__device__ __forceinline__ void load4_transposed(u32 (&r)[4], const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(p)));
}
__device__ __forceinline__ void multiply(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ u32 pack(float low, float high) {
  u32 both;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}
__device__ __forceinline__ float low_half(u32 both) {
  float x;
  asm("{.reg .f16 l, h; mov.b32 {l, h}, %1; cvt.f32.f16 %0, l;}" : "=f"(x) : "r"(both));
  return x;
}
__device__ __forceinline__ float high_half(u32 both) {
  float x;
  asm("{.reg .f16 l, h; mov.b32 {l, h}, %1; cvt.f32.f16 %0, h;}" : "=f"(x) : "r"(both));
  return x;
}
__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float log2_fast(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float inverse_fast(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Rows first … first + n − 1 of a matrix with kFactors columns; zeros from row `end` on.
template <int n>
__device__ __forceinline__ void load_rows(u16* to, const u16* from, int first, int end) {
  constexpr int kChunks = kFactors / 8;
  for (int i = threadIdx.x; i < n * kChunks; i += kThreads) {
    const int row = i / kChunks, chunk = i % kChunks;
    const bool there = first + row < end;
    copy16(to + row * kStride + chunk * 8,
           from + (there ? static_cast<i64>(first + row) : 0) * kFactors + chunk * 8, there);
  }
}

// Scores of 16 rows of a with 16 · pairs rows of b.
template <int pairs>
__device__ __forceinline__ void scores(float (&s)[2 * pairs][4], const u16* a, const u16* b) {
  const int lane = threadIdx.x % 32;
  const u16* from_a = a + (lane & 15) * kStride + (lane >> 4) * 8;
  const u16* from_b = b + ((lane & 7) + ((lane >> 4) << 3)) * kStride + ((lane >> 3) & 1) * 8;
#pragma unroll
  for (int t = 0; t < 2 * pairs; ++t) s[t][0] = s[t][1] = s[t][2] = s[t][3] = 0.f;
#pragma unroll
  for (int k = 0; k < kFactors; k += 16) {
    u32 left[4];
    load4(left, from_a + k);
#pragma unroll
    for (int p = 0; p < pairs; ++p) {
      u32 right[4];
      load4(right, from_b + p * 16 * kStride + k);
      multiply(s[2 * p], left, right[0], right[1]);
      multiply(s[2 * p + 1], left, right[2], right[3]);
    }
  }
}

// sum += (16 × 16 slopes) · (16 rows of b); the slopes are two neighbouring tiles of scores.
__device__ __forceinline__ void add_product(float (&sum)[kFactors / 8][4], const u32 (&slopes)[4],
                                            const u16* b) {
  const int lane = threadIdx.x % 32;
  const u16* from = b + (lane & 15) * kStride + (lane >> 4) * 8;
#pragma unroll
  for (int f = 0; f < kFactors / 16; ++f) {
    u32 right[4];
    load4_transposed(right, from + f * 16);
    multiply(sum[2 * f], slopes, right[0], right[1]);
    multiply(sum[2 * f + 1], slopes, right[2], right[3]);
  }
}

__device__ __forceinline__ float place_of(float s, Scale scale) {
  return fmaf(s, scale.bins, scale.shift);
}

// The slope at a place: a straight line in every bin, (value, rise) as two halves.
__device__ __forceinline__ float slope_at(float place, const u32* table) {
  const float x = fminf(fmaxf(place, 0.f), kBins - 1.f / 1024);
  const float shifted = __fadd_rz(x, 8388608.f);  // 2^23: the fraction is cut off
  const u32 line = table[__float_as_int(shifted) & (kBins - 1)];
  return fmaf(x - (shifted - 8388608.f), high_half(line), low_half(line));
}

// A loop over the tiles of a range of items, the next one loaded while `work(tile, first)` runs.
template <class Work>
__device__ __forceinline__ void for_each_tile(u16* tiles, const u16* V, int first, int last,
                                              const Work& work) {
  load_rows<kItems>(tiles, V, first, last);
  commit();
  int at = 0;
  for (int item = first; item < last; item += kItems, at ^= 1) {
    if (item + kItems < last)
      load_rows<kItems>(tiles + (at ^ 1) * kItems * kStride, V, item + kItems, last);
    commit();
    wait<1>();
    __syncthreads();
    work(tiles + at * kItems * kStride, item);
    __syncthreads();
  }
}

// Where a warp works in a tile, and the two rows of users that its lane holds.
struct Place {
  int row, item, low;  // first row and item of the warp; row + low and row + low + 8 of the lane
  __device__ Place() {
    const int warp = threadIdx.x / 32;
    row = warp / kItemWarps * 16;
    item = warp % kItemWarps * kWarpItems;
    low = threadIdx.x % 32 / 4;
  }
};

// The records of users (blockIdx.x: which) from all records: their row, item and weight.
extern "C" __global__ void take_records(const i64* users, const i64* starts, const i64* begins,
                                        const int* items, const float* weights, int* rows,
                                        int* taken_items, float* taken_weights) {
  const i64 from = begins[users[blockIdx.x]], to = starts[blockIdx.x];
  const int n = starts[blockIdx.x + 1] - to;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    rows[to + i] = blockIdx.x;
    taken_items[to + i] = items[from + i];
    taken_weights[to + i] = weights ? weights[from + i] : 1.f;
  }
}

__device__ __forceinline__ float sum_of_warp(float x) {
  for (int step = 16; step; step >>= 1) x += __shfl_xor_sync(~0u, x, step);
  return x;
}

// The inner product of two rows, by a warp; every lane gets it.
__device__ __forceinline__ float inner_product(const u16* a, const u16* b) {
  const u32 *x = reinterpret_cast<const u32*>(a), *y = reinterpret_cast<const u32*>(b);
  float sum = 0.f;
  for (int f = threadIdx.x % 32; f < kFactors / 2; f += 32) {
    sum = fmaf(low_half(x[f]), low_half(y[f]), sum);
    sum = fmaf(high_half(x[f]), high_half(y[f]), sum);
  }
  return sum_of_warp(sum);
}

// The scores of a user's relevant items (blockIdx.x: which user), and the grid that covers them
// and `margin` beyond, as far as |u| · longest reaches. No bins: the grid would be too coarse.
extern "C" __global__ void user_grids(const u16* U, const u16* V, const i64* starts,
                                      const int* items, const float* longest, float margin,
                                      float most_width, float* points, Scale* scales) {
  constexpr int kGroup = 4;
  __shared__ float lows[kGroup], highs[kGroup];
  const int user = blockIdx.x, warp = threadIdx.x / 32;
  const u16* u = U + static_cast<i64>(user) * kFactors;
  float low = 3e38f, high = -3e38f;
  bool finite = true;
  for (i64 y = starts[user] + warp; y < starts[user + 1]; y += kGroup) {
    const float s = inner_product(u, V + static_cast<i64>(items[y]) * kFactors);
    if (threadIdx.x % 32 == 0) points[y] = s;
    finite &= s - s == 0.f;
    low = fminf(low, s), high = fmaxf(high, s);
  }
  if (threadIdx.x % 32 == 0) lows[warp] = low, highs[warp] = finite ? high : 1.f / 0.f;
  __syncthreads();
  const float reach = 1.002f * *longest * sqrtf(inner_product(u, u));
  if (threadIdx.x) return;
  for (int w = 1; w < kGroup; ++w) low = fminf(low, lows[w]);
  high = highs[0];
  for (int w = 1; w < kGroup; ++w) high = fmaxf(high, highs[w]);
  const float begin = fmaxf(low - margin, -reach), end = fminf(high + margin, reach);
  const float width = fmaxf(end - begin, 1.f / 1024);
  const bool fits = width <= most_width && high - low <= most_width && *longest <= 65504.f;
  const float bins = fits ? kBins / width : 0.f;
  scales[user] = {-begin * bins, bins};
}

__device__ __forceinline__ void flush(u32* bins, int* counts, int* sums, int users) {
  __syncthreads();
  for (int i = threadIdx.x; i < kRows * kBins; i += kThreads) {
    const int row = i / kBins, bin = i % kBins;
    u32* counter = bins + row * kBinStride + bin;
    const u32 found = *counter;
    if (!found) continue;
    *counter = 0;
    if (row >= users) continue;
    atomicAdd(counts + row * kBins + bin, static_cast<int>(found >> kSumBits));
    atomicAdd(sums + row * kBins + bin, static_cast<int>(found & ((1u << kSumBits) - 1)));
  }
  __syncthreads();
}

// Counts the scores of users (blockIdx.x: which tile) with items (blockIdx.y: which range) into
// bins: how many, and the sum of their offsets in parts of a bin. `excess` gets the sum of what
// lies above the last bin, in bins, for each range.
extern "C" __global__ __launch_bounds__(kThreads, 1) void count_scores(
    const u16* U, const u16* V, const Scale* scales, int users, int items, int range, int* counts,
    int* sums, float* excess) {
  extern __shared__ __align__(16) unsigned char memory[];
  u32* bins = reinterpret_cast<u32*>(memory);
  u16* us = reinterpret_cast<u16*>(bins + kRows * kBinStride);
  u16* tiles = us + kRows * kStride;
  __shared__ float above[kItemWarps][kRows];
  const int first_user = blockIdx.x * kRows;
  const int first = blockIdx.y * range, last = min(items, first + range);
  counts += static_cast<i64>(first_user) * kBins, sums += static_cast<i64>(first_user) * kBins;
  for (int i = threadIdx.x; i < kRows * kBinStride; i += kThreads) bins[i] = 0;
  load_rows<kRows>(us, U, first_user, users);
  const Place at;
  Scale scale[2];
  for (int h = 0; h < 2; ++h) {
    const int user = first_user + at.row + at.low + 8 * h;
    scale[h] = user < users ? scales[user] : Scale{0.f, 0.f};
    scale[h].bins *= kParts, scale[h].shift *= kParts;
  }
  u32* row_bins[2] = {bins + (at.row + at.low) * kBinStride,
                      bins + (at.row + at.low + 8) * kBinStride};
  float over[2] = {0.f, 0.f};
  int since = 0;
  for_each_tile(tiles, V, first, last, [&](const u16* tile, int item) {
    if (since == kMostTiles) flush(bins, counts, sums, users - first_user), since = 0;
    ++since;
    float s[kTiles][4];
    scores<kTiles / 2>(s, us + at.row * kStride, tile + at.item * kStride);
    const int left = last - item - at.item - threadIdx.x % 4 * 2;  // items from the lane's first on
#pragma unroll
    for (int t = 0; t < kTiles; ++t)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if (t * 8 + (e & 1) >= left) continue;
        const float x = place_of(s[t][e], scale[e >> 1]);
        over[e >> 1] += fmaxf(x - kBins * kParts, 0.f);
        const int place = __float2int_rz(fminf(fmaxf(x, 0.f), kBins * kParts - 1.f));
        atomicAdd(row_bins[e >> 1] + (place >> kPartBits),
                  (1u << kSumBits) + (place & (kParts - 1)));
      }
  });
  flush(bins, counts, sums, users - first_user);
  for (int h = 0; h < 2; ++h) {
    over[h] += __shfl_xor_sync(~0u, over[h], 1);
    over[h] += __shfl_xor_sync(~0u, over[h], 2);
    if (threadIdx.x % 4 == 0)
      above[threadIdx.x / 32 % kItemWarps][at.row + at.low + 8 * h] = over[h] / kParts;
  }
  __syncthreads();
  for (int row = threadIdx.x; row < kRows && first_user + row < users; row += kThreads) {
    float sum = 0.f;
    for (int w = 0; w < kItemWarps; ++w) sum += above[w][row];
    excess[static_cast<i64>(blockIdx.y) * users + first_user + row] = sum;
  }
}

// log2(1 + 2^z) and its slope 1 / (1 + 2^−z).
struct Pair {
  float value, slope;
};
__device__ __forceinline__ Pair pair_at(float z) {
  const float p = exp2_fast(-fabsf(z)), inverse = inverse_fast(1.f + p);
  const float small = p * fmaf(p, fmaf(p, 0.48089835f, -0.72134752f), 1.44269504f);
  const float log = p < 0.015625f ? small : log2_fast(1.f + p);
  return {fmaxf(z, 0.f) + log, z >= 0.f ? inverse : p * inverse};
}

enum Rho { kIdentity = 0, kLog = 1, kType2 = 2 };

// From the counts of one user (blockIdx.x) to losses, the user's table of slopes, and what each
// relevant item gets beside it.
extern "C" __global__ void user_tables(const int* counts, const int* sums, const float* excess,
                                       int ranges, const Scale* scales, const i64* starts,
                                       const float* points, const float* weights, int rho,
                                       int users, float* losses, float* own, float* firsts,
                                       u32* tables, float* unit) {
  const int user = blockIdx.x, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  constexpr int kBlock = 128;
  __shared__ float amount[kBins], middle[kBins], point[kBlock], first[kBlock];
  const Scale scale = scales[user];
  const float width = scale.bins > 0.f ? 1.f / scale.bins : 0.f, begin = -scale.shift * width;
  for (int b = threadIdx.x; b < kBins; b += kBlock) {
    const int n = counts[static_cast<i64>(user) * kBins + b];
    const float sum = sums[static_cast<i64>(user) * kBins + b];
    amount[b] = n;
    middle[b] = begin + width * (b + (n ? (sum / n + 0.5f) * (1.f / kParts) : 0.5f));
  }
  float over = 0.f;
  for (int r = 0; r < ranges; ++r) over += excess[static_cast<i64>(r) * users + user];
  over *= width;
  __syncthreads();
  const i64 from = starts[user], to = starts[user + 1];
  for (i64 y = from + warp; y < to; y += kBlock / 32) {
    const float s = points[y];
    float t = 0.f, h = 0.f;
    for (int b = lane; b < kBins; b += 32)
      if (amount[b] > 0.f) {
        const Pair at = pair_at(middle[b] - s);
        t = fmaf(amount[b], at.value, t);
        h = fmaf(amount[b], at.slope, h);
      }
    t = sum_of_warp(t), h = sum_of_warp(h);
    if (lane == 0) {
      t = fmaxf(t - 1.f, 0.f) + over;
      const float w = weights[y];
      float value = t, slope = 1.f;
      if (rho == kLog) {
        value = log2f(1.f + t);
        slope = 1.44269504f / (1.f + t);
      } else if (rho == kType2) {
        const float log = log2f(2.f + t);
        value = 1.f - 1.f / log;
        slope = 1.44269504f / ((t + 2.f) * log * log);
      }
      losses[y] = w * value;
      firsts[y] = w * slope;
      own[y] = w * slope * h;
    }
  }
  __syncthreads();
  constexpr int kNodes = kBins / kBlock;  // of a thread, and the one after them
  float node[kNodes + 1] = {}, all = 0.f;
  for (i64 y = from; y < to; y += kBlock) {
    const int n = min(static_cast<i64>(kBlock), to - y);
    __syncthreads();
    if (threadIdx.x < n) {
      point[threadIdx.x] = points[y + threadIdx.x];
      first[threadIdx.x] = firsts[y + threadIdx.x];
    }
    __syncthreads();
    for (int i = 0; i < n; ++i) {
      all += first[i];
#pragma unroll
      for (int k = 0; k <= kNodes; ++k) {
        const float z = begin + width * (threadIdx.x * kNodes + k) - point[i];
        const float p = exp2_fast(-fabsf(z)), inverse = inverse_fast(1.f + p);
        node[k] = fmaf(first[i], z >= 0.f ? inverse : p * inverse, node[k]);
      }
    }
  }
  // All slopes are at most `all`; in units of it over 2^14 they keep their digits as halves.
  const float one = all > 0.f ? exp2f(ceilf(log2f(all)) - 14.f) : 1.f;
  for (int k = 0; k < kNodes; ++k)
    tables[static_cast<i64>(user) * kBins + threadIdx.x * kNodes + k] =
        pack(node[k] / one, (node[k + 1] - node[k]) / one);
  if (threadIdx.x == 0) unit[user] = one;
}

// The rows of n tables, from global to shared memory.
template <int n>
__device__ __forceinline__ void load_tables(u32* to, const u32* tables, int first, int users) {
  for (int i = threadIdx.x; i < n * (kBins / 4); i += kThreads) {
    const int row = i / (kBins / 4), chunk = i % (kBins / 4);
    const bool there = first + row < users;
    copy16(to + row * kBinStride + chunk * 4,
           tables + (there ? static_cast<i64>(first + row) : 0) * kBins + chunk * 4, there);
  }
}

// Σ slope · V of users (blockIdx.x: which tile) over items (blockIdx.y: which range), in each
// user's unit. Warps that share rows and ranges leave parts[part][user][factor].
extern "C" __global__ __launch_bounds__(kThreads, 1) void slopes_to_users(
    const u16* U, const u16* V, const Scale* scales, const u32* tables, int users, int items,
    int range, float* parts) {
  extern __shared__ __align__(16) unsigned char memory[];
  u32* table = reinterpret_cast<u32*>(memory);
  u16* us = reinterpret_cast<u16*>(table + kRows * kBinStride);
  u16* tiles = us + kRows * kStride;
  const int first_user = blockIdx.x * kRows;
  const int first = blockIdx.y * range, last = min(items, first + range);
  load_rows<kRows>(us, U, first_user, users);
  load_tables<kRows>(table, tables, first_user, users);
  const Place at;
  Scale scale[2];
  for (int h = 0; h < 2; ++h) {
    const int user = first_user + at.row + at.low + 8 * h;
    scale[h] = user < users ? scales[user] : Scale{0.f, 0.f};
  }
  const u32* lines[2] = {table + (at.row + at.low) * kBinStride,
                         table + (at.row + at.low + 8) * kBinStride};
  float sum[kFactors / 8][4] = {};
  for_each_tile(tiles, V, first, last, [&](const u16* tile, int) {
    const u16* own = tile + at.item * kStride;
#pragma unroll
    for (int pair = 0; pair < kTiles / 2; ++pair) {
      float s[2][4];
      scores<1>(s, us + at.row * kStride, own + pair * 16 * kStride);
      u32 slopes[4];
#pragma unroll
      for (int t = 0; t < 2; ++t)
#pragma unroll
        for (int h = 0; h < 2; ++h)
          slopes[2 * t + h] = pack(slope_at(place_of(s[t][2 * h], scale[h]), lines[h]),
                                   slope_at(place_of(s[t][2 * h + 1], scale[h]), lines[h]));
      add_product(sum, slopes, own + pair * 16 * kStride);
    }
  });
  const int part = blockIdx.y * kItemWarps + threadIdx.x / 32 % kItemWarps;
#pragma unroll
  for (int f = 0; f < kFactors / 8; ++f)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int user = first_user + at.row + at.low + 8 * h;
      if (user >= users) continue;
      float* to = parts + (static_cast<i64>(part) * users + user) * kFactors + f * 8 +
                  threadIdx.x % 4 * 2;
      to[0] = sum[f][2 * h], to[1] = sum[f][2 * h + 1];
    }
}

// What slopes_to_items needs of some users, in shared memory.
struct __align__(16) Users {
  u32 table[kStepRows * kBinStride];
  u16 us[kStepRows * kStride], ws[kStepRows * kStride];
  Scale scale[kStepRows];
};

static_assert(2 * sizeof(Users) + 2 * kBlockItems * kStride == kStepBytes, "as in kernels.py");

__device__ __forceinline__ void load_users(Users& to, const u16* U, const u16* W,
                                           const Scale* scales, const u32* tables, int first,
                                           int users) {
  load_tables<kStepRows>(to.table, tables, first, users);
  load_rows<kStepRows>(to.us, U, first, users);
  load_rows<kStepRows>(to.ws, W, first, users);
  if (threadIdx.x < kStepRows)
    to.scale[threadIdx.x] =
        first + threadIdx.x < users ? scales[first + threadIdx.x] : Scale{0.f, 0.f};
}

// Σ slope · W of items (blockIdx.x: which tile) over all users; the rows of W are those of U in
// the users' units. Times `unit`, it goes to `out`.
extern "C" __global__ __launch_bounds__(kThreads, 1) void slopes_to_items(
    const u16* U, const u16* W, const u16* V, const Scale* scales, const u32* tables, int users,
    int items, const float* unit, float* out) {
  extern __shared__ __align__(16) unsigned char memory[];
  Users* steps = reinterpret_cast<Users*>(memory);
  u16* vs = reinterpret_cast<u16*>(steps + 2);
  const int first = blockIdx.x * kBlockItems, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  load_rows<kBlockItems>(vs, V, first, items);
  load_users(steps[0], U, W, scales, tables, 0, users);
  commit();
  const u16* own = vs + warp * 16 * kItemTiles * kStride;
  float sum[kItemTiles][kFactors / 8][4] = {};
  int at = 0;
  for (int user = 0; user < users; user += kStepRows, at ^= 1) {
    if (user + kStepRows < users)
      load_users(steps[at ^ 1], U, W, scales, tables, user + kStepRows, users);
    commit();
    wait<1>();
    __syncthreads();
    const Users& now = steps[at];
#pragma unroll 1
    for (int row = 0; row < kStepRows; row += 16)
#pragma unroll
      for (int i = 0; i < kItemTiles; ++i) {
        float s[2][4];
        scores<1>(s, own + i * 16 * kStride, now.us + row * kStride);
        u32 slopes[4];
#pragma unroll
        for (int t = 0; t < 2; ++t) {
          const int column = row + t * 8 + lane % 4 * 2;
          const Scale a = now.scale[column], b = now.scale[column + 1];
          const u32 *from_a = now.table + column * kBinStride, *from_b = from_a + kBinStride;
#pragma unroll
          for (int h = 0; h < 2; ++h)
            slopes[2 * t + h] = pack(slope_at(place_of(s[t][2 * h], a), from_a),
                                     slope_at(place_of(s[t][2 * h + 1], b), from_b));
        }
        add_product(sum[i], slopes, now.ws + row * kStride);
      }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kItemTiles; ++i)
#pragma unroll
    for (int f = 0; f < kFactors / 8; ++f)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int item = first + (warp * kItemTiles + i) * 16 + lane / 4 + 8 * h;
        if (item >= items) continue;
        float* to = out + static_cast<i64>(item) * kFactors + f * 8 + lane % 4 * 2;
        to[0] = sum[i][f][2 * h] * *unit, to[1] = sum[i][f][2 * h + 1] * *unit;
      }
}

// to[key] −= Σ own · from[row] over the records of a key. Keys rise; a block serves the key that
// begins at its record, and adds in the order of the records.
extern "C" __global__ void add_records(const int* keys, const int* rows, const float* own,
                                       const float* from, int records, int factors, float* to) {
  const int begin = blockIdx.x, key = keys[begin];
  if (begin > 0 && keys[begin - 1] == key) return;
  int end = begin + 1;
  while (end < records && keys[end] == key) ++end;
  for (int f = threadIdx.x; f < factors; f += blockDim.x) {
    float sum = 0.f;
    for (int r = begin; r < end; ++r)
      sum = fmaf(own[r], from[static_cast<i64>(rows[r]) * factors + f], sum);
    to[static_cast<i64>(key) * factors + f] -= sum;
  }
}

// One step of Adam on the numbers of V; `decay` of its row is added to the gradient.
extern "C" __global__ void adam(float* V, float* first, float* second, const float* gradient,
                                const float* decay, int factors, int rows, float share, float b1,
                                float b2, float rate, float correction) {
  const i64 i = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= static_cast<i64>(rows) * factors) return;
  const float g = fmaf(share * decay[i / factors], V[i], gradient[i]);
  const float f = first[i] = fmaf(b1, first[i], (1.f - b1) * g);
  const float s = second[i] = fmaf(b2, second[i], (1.f - b2) * g * g);
  V[i] -= rate * f / (sqrtf(s * correction) + 1e-8f);
}

// One step of row-wise Adagrad on rows of a block (a warp a row); sums and decays are the users'.
extern "C" __global__ void adagrad(float* rows, const float* slopes, const i64* users,
                                   const float* decay, float* sums, int factors, int n,
                                   float rate) {
  const int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  if (row >= n) return;
  const i64 user = users[row];
  float* own = rows + static_cast<i64>(row) * factors;
  const float* slope = slopes + static_cast<i64>(row) * factors;
  float square = 0.f;
  for (int f = threadIdx.x % 32; f < factors; f += 32) {
    const float g = fmaf(decay[user], own[f], slope[f]);
    square = fmaf(g, g, square);
  }
  const float sum = sums[user] + sum_of_warp(square) / factors;
  __syncwarp();
  if (threadIdx.x % 32 == 0) sums[user] = sum;
  const float step = rate / (sqrtf(sum) + 1e-8f);
  for (int f = threadIdx.x % 32; f < factors; f += 32)
    own[f] -= step * fmaf(decay[user], own[f], slope[f]);
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

// The items of users whose scores lie at a place from `least` on, in no order; `cursor` is where
// the user's begin in `found`.
extern "C" __global__ __launch_bounds__(kThreads, 1) void collect_scores(
    const u16* U, const u16* V, const Scale* scales, const float* least, int users, int items,
    int range, int* cursor, int* found) {
  extern __shared__ __align__(16) unsigned char memory[];
  u16* us = reinterpret_cast<u16*>(memory);
  u16* tiles = us + kRows * kStride;
  const int first_user = blockIdx.x * kRows;
  const int first = blockIdx.y * range, last = min(items, first + range);
  load_rows<kRows>(us, U, first_user, users);
  const Place at;
  Scale scale[2];
  float bound[2];
  for (int h = 0; h < 2; ++h) {
    const int user = first_user + at.row + at.low + 8 * h;
    scale[h] = user < users ? scales[user] : Scale{0.f, 0.f};
    bound[h] = user < users ? least[user] : 3e38f;
  }
  for_each_tile(tiles, V, first, last, [&](const u16* tile, int item) {
    float s[kTiles][4];
    scores<kTiles / 2>(s, us + at.row * kStride, tile + at.item * kStride);
    const int own = item + at.item + threadIdx.x % 4 * 2;
#pragma unroll
    for (int t = 0; t < kTiles; ++t)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int this_item = own + t * 8 + (e & 1), h = e >> 1;
        if (fmaxf(place_of(s[t][e], scale[h]), 0.f) >= bound[h] && this_item < last) {
          const int user = first_user + at.row + at.low + 8 * h;
          found[atomicAdd(cursor + user, 1)] = this_item;
        }
      }
  });
}
