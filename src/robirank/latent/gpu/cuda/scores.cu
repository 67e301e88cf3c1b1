// The visits to all scores of a block of users, none of which is written to memory. A score has a
// place on its user's grid, from 0 to 1; what is outside is clamped.

// The place of a score in parts of bins; one of 2^23's digits stands above it.
__device__ __forceinline__ u32 place_of(float s, Grid grid) {
  const float place = fma_sat(s, grid.inverse_width, grid.shift);
  return __float_as_uint(fmaf(place, kPlaces, kInteger));
}

// A row, shared out over the lanes of a warp.
struct Spread {
  static constexpr int kWords = (kFactors + 63) / 64;  // of two factors, of a lane
  u32 at[kWords];
  // `place(chunk)`: where a chunk is, counted in chunks.
  template <class Place>
  __device__ __forceinline__ void load(const u16* from, const Place& place) {
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      const int f = threadIdx.x % 32 + 32 * i;
      at[i] = f < kFactors / 2 ? reinterpret_cast<const u32*>(from)[place(f / 4) * 4 + f % 4] : 0;
    }
  }
};
// The lane's share of an inner product.
__device__ __forceinline__ float partial_product(const Spread& a, const Spread& b) {
  float sum = 0.f;
#pragma unroll
  for (int i = 0; i < Spread::kWords; ++i) {
    sum = fmaf(low_half(a.at[i]), low_half(b.at[i]), sum);
    sum = fmaf(high_half(a.at[i]), high_half(b.at[i]), sum);
  }
  return sum;
}

// The scores of a user's relevant items (blockIdx.x: which user), and the grid that covers them
// and `margin` beyond, as far as |u| · longest reaches; the place of that is `tops`. `too_wide`
// becomes 1 where the grid would be too coarse.
extern "C" __global__ void user_grids(const u16* U, const u16* V, const i64* starts,
                                      const int* items, const float* longest, float margin,
                                      float most_width, int n_items, float* points, Grid* grids,
                                      float* tops, int* too_wide) {
  constexpr int kGroup = kGridThreads / 32, kAtOnce = 4;
  __shared__ float lows[kGroup], highs[kGroup];
  const int user = blockIdx.x, users = gridDim.x, warp = threadIdx.x / 32;
  const i64 own = static_cast<i64>(blockIdx.z) * users + user;
  Spread u;
  u.load(U + own * kFactors, [](int chunk) { return chunk; });
  V += blockIdx.z * padded(n_items) * kFactors;
  points += static_cast<i64>(blockIdx.z) * starts[users];
  longest += blockIdx.z;
  float low = 3e38f, high = -3e38f;
  bool finite = true;
  const i64 last = starts[user + 1] - 1;
  for (i64 first = starts[user] + warp * kAtOnce; first <= last; first += kGroup * kAtOnce) {
    Spread v[kAtOnce];  // one again and again, where fewer are left
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const i64 item = items[min(first + i, last)];
      v[i].load(V, [item](int chunk) { return place_of_chunk(item, chunk, kFactors); });
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const float s = sum_of_warp(partial_product(u, v[i]));
      if (threadIdx.x % 32 == 0) points[min(first + i, last)] = s;
      finite &= s - s == 0.f;
      low = fminf(low, s), high = fmaxf(high, s);
    }
  }
  if (threadIdx.x % 32 == 0) lows[warp] = low, highs[warp] = finite ? high : 1.f / 0.f;
  __syncthreads();
  // No score is longer than |u| · longest, but for the rounding of both to half precision, which
  // changes a length by 2^-11 of it at most, and of the sums; 1.002 is about 1 + 4 · 2^-11.
  const float reach = 1.002f * *longest * sqrtf(sum_of_warp(partial_product(u, u)));
  if (threadIdx.x) return;
  for (int w = 1; w < kGroup; ++w) low = fminf(low, lows[w]);
  high = highs[0];
  for (int w = 1; w < kGroup; ++w) high = fmaxf(high, highs[w]);
  const float begin = fmaxf(low - margin, -reach), end = fminf(high + margin, reach);
  const float width = fmaxf(end - begin, 1.f / 1024);
  const bool fits = width <= most_width && high - low <= most_width && *longest <= 65504.f;
  const float inverse_width = fits ? 1.f / width : 0.f;
  grids[own] = {-begin * inverse_width, inverse_width};
  tops[own] = (reach - begin) * inverse_width;
  if (!fits) *too_wide = 1;
}

__device__ __forceinline__ void flush(u32* bins, int* counts, int* sums, int users) {
  __syncthreads();
  for (int i = threadIdx.x; i < kRows * kBins; i += kCountThreads) {
    const int row = i % 8 + i / (8 * kBins) * 8, bin = i / 8 % kBins;
    u32* twice = bins + word_of(row) + bin * kBinWords;
    const u32 found = twice[0] + twice[1];
    if (!found) continue;
    twice[0] = twice[1] = 0;
    if (row >= users) continue;
    atomicAdd(counts + row * kBins + bin, static_cast<int>(found >> kSumBits));
    atomicAdd(sums + row * kBins + bin, static_cast<int>(found & ((1u << kSumBits) - 1)));
  }
  __syncthreads();
}

// Scores of a tile's rows with items of which `left` are there, counted; and where some may lie
// above the grid, how far.
template <bool above>
__device__ __forceinline__ void count_tile(u32* bins, const Left* rows,
                                           const Grid (&grid)[kCountTiles][2], const u16* tile,
                                           int left, float (&over)[kCountTiles][2]) {
  constexpr int kAtOnce = kCountTiles > 1 ? 2 : 1;
  const int row = first_row_of<kCountWarps, kCountTiles>() + threadIdx.x % 32 / 4;
  const int first = threadIdx.x % 4 * 2;
  char* own = reinterpret_cast<char*>(bins + word_of(row) + threadIdx.x % 4 / 2);
#pragma unroll
  for (int i = 0; i < kCountTiles; i += kAtOnce) {
    float s[kAtOnce][kColumns / 8][4];
    scores(s, rows + i, tile);
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j)
#pragma unroll
      for (int t = 0; t < kColumns / 8; ++t)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int h = e >> 1;
          if (first + t * 8 + (e & 1) >= left) continue;
          const u32 place = place_of(s[j][t][e], grid[i + j][h]);
          char* row_bins = own + 4 * word_of(16 * (i + j) + 8 * h);
          atomicAdd(reinterpret_cast<u32*>(row_bins + (place & kBinBytes)),
                    (1u << kSumBits) | (place & (kParts - 1)));
          if (above)
            over[i + j][h] += fmaxf(
                fmaf(s[j][t][e], grid[i + j][h].inverse_width, grid[i + j][h].shift) - 1.f, 0.f);
        }
  }
}

// Counts the scores of users (blockIdx.x: which tile) with items (blockIdx.y: which range) into
// bins: how many, and the sum of their parts of a bin. `excess` gets the sum of what lies above
// the grid for each range; nothing does where `tops` are at most 1, or not given.
extern "C" __global__ __launch_bounds__(kCountThreads, 1) void count_scores(
    const u16* U, const u16* V, const Grid* grids, const float* tops, int users, int items,
    int range, int* counts, int* sums, float* excess) {
  extern __shared__ __align__(1024) unsigned char memory[];
  u32* bins = reinterpret_cast<u32*>(memory);
  Tiles<kCountWarps, kColumns> tiles(bins + 2 * kRows * kBins);
  const int first_user = blockIdx.x * kRows, lane = threadIdx.x % 32;
  const int first_row = first_row_of<kCountWarps, kCountTiles>();
  const int first = blockIdx.y * range, last = min(items, first + range);
  const i64 before = static_cast<i64>(blockIdx.z) * users;
  U += before * kFactors, V += blockIdx.z * padded(items) * kFactors;
  grids += before, tops += tops ? before : 0;
  counts += (before + first_user) * kBins, sums += (before + first_user) * kBins;
  excess += (static_cast<i64>(blockIdx.z) * gridDim.y + blockIdx.y) * users;
  for (int i = threadIdx.x; i < 2 * kRows * kBins; i += kCountThreads) bins[i] = 0;
  Left rows[kCountTiles];
  Grid grid[kCountTiles][2];
  float over[kCountTiles][2] = {};
  bool may_exceed = false;
#pragma unroll
  for (int i = 0; i < kCountTiles; ++i) {
    rows[i].load(U, first_user + first_row + 16 * i, users);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int user = first_user + first_row + 16 * i + lane / 4 + 8 * h;
      grid[i][h] = user < users ? grids[user] : Grid{0.f, 0.f};
      may_exceed |= tops && user < users && tops[user] > 1.0001f;
    }
  }
  may_exceed = __syncthreads_or(may_exceed);
  for (int begin = first; begin < last; begin += kMostItems) {
    const int end = min(last, begin + kMostItems);
    if (may_exceed)
      for_each_tile(tiles, V, begin, end, [&](const u16* tile, int item) {
        count_tile<true>(bins, rows, grid, tile, end - item, over);
      });
    else
      for_each_tile(tiles, V, begin, end, [&](const u16* tile, int item) {
        count_tile<false>(bins, rows, grid, tile, end - item, over);
      });
    flush(bins, counts, sums, users - first_user);
  }
  // `above` lies where the bins were. The barrier at the end of flush would do, but racecheck
  // reports hazards across it (threads leave flush's loop one by one); one more barrier costs
  // nothing here.
  __syncthreads();
  float* above = reinterpret_cast<float*>(memory);  // of a group of warps and a row
#pragma unroll
  for (int i = 0; i < kCountTiles; ++i)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float sum = over[i][h];
      sum += __shfl_xor_sync(~0u, sum, 1);
      sum += __shfl_xor_sync(~0u, sum, 2);
      if (lane % 4 == 0)
        above[threadIdx.x / (32 * kCountWarps) * kRows + first_row + 16 * i + 8 * h + lane / 4] =
            sum;
    }
  __syncthreads();
  for (int row = threadIdx.x; row < kRows && first_user + row < users; row += kCountThreads) {
    float sum = 0.f;
    for (int g = 0; g < kCountGroups; ++g) sum += above[g * kRows + row];
    excess[first_user + row] = sum;
  }
}

// The items of users whose scores lie in the bin `least` or above, in no order; `cursor` is where
// the user's begin in `found`.
extern "C" __global__ __launch_bounds__(kCountThreads,
                                        1) void collect_scores(const u16* U, const u16* V,
                                                               const Grid* grids, const int* least,
                                                               int users, int items, int range,
                                                               int* cursor, int* found) {
  extern __shared__ __align__(1024) unsigned char memory[];
  const int first_user = blockIdx.x * kRows + first_row_of<kCountWarps, kCountTiles>();
  const int row = threadIdx.x % 32 / 4;
  const int first = blockIdx.y * range, last = min(items, first + range);
  Left rows[kCountTiles];
  Grid grid[kCountTiles][2];
  int bound[kCountTiles][2];
#pragma unroll
  for (int i = 0; i < kCountTiles; ++i) {
    rows[i].load(U, first_user + 16 * i, users);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int user = first_user + 16 * i + row + 8 * h;
      grid[i][h] = user < users ? grids[user] : Grid{0.f, 0.f};
      bound[i][h] = user < users ? least[user] : kBins;
    }
  }
  Tiles<kCountWarps, kColumns> tiles(memory);
  __syncthreads();
  for_each_tile(tiles, V, first, last, [&](const u16* tile, int item) {
    const int own = item + threadIdx.x % 4 * 2;
#pragma unroll
    for (int i = 0; i < kCountTiles; ++i) {
      float s[1][kColumns / 8][4];
      scores(s, rows + i, tile);
#pragma unroll
      for (int t = 0; t < kColumns / 8; ++t)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int this_item = own + t * 8 + (e & 1), h = e >> 1;
          const int bin = place_of(s[0][t][e], grid[i][h]) >> kPartBits & (kBins - 1);
          if (bin >= bound[i][h] && this_item < last) {
            const int user = first_user + 16 * i + row + 8 * h;
            found[atomicAdd(cursor + user, 1)] = this_item;
          }
        }
    }
  });
}
