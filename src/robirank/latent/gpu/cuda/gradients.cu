// From the counts of scores to losses and tables of derivatives, and the visits to all scores that
// multiply derivatives by rows of factors into gradients.

// log2(1 + 2^z), its derivative 1 / (1 + 2^−z), and its own derivative, which is ln 2 times `bend`.
struct Pair {
  float value, derivative, bend;
};
__device__ __forceinline__ Pair pair_at(float z) {
  const float p = ex2_approx(-fabsf(z)), inverse = rcp_approx(1.f + p);
  const float small = p * fmaf(p, fmaf(p, 0.48089835f, -0.72134752f), 1.44269504f);
  const float log = p < 0.015625f ? small : lg2_approx(1.f + p);
  return {fmaxf(z, 0.f) + log, z >= 0.f ? inverse : p * inverse, p * inverse * inverse};
}

enum Rho { kIdentity = 0, kLog = 1, kType2 = 2 };

constexpr int kNodeThreads = kBins + 32;  // a line has two ends
static_assert(kTableThreads == 2 * kNodeThreads, "as in kernels.py");

// A user's lines are rotated, so that the same place of eight neighbours is in different banks when
// their tables are copied as they are.
constexpr int kRotation = 4;  // words a row
__device__ __forceinline__ int rotated(int line, int row) {
  return (line + row % 8 * kRotation) % kBins;
}

// From the counts of one user (blockIdx.x) to losses, the user's table of derivatives, and what
// each relevant item gets beside it. `largest` becomes the largest of the users' units. Blocks
// beyond the users fill up with tables of zeros. A user whose scores spread too far for a grid has
// no part in any of them: zeros everywhere.
//
// The scores of a bin are taken as spread evenly over it, and lines are those nearest to the
// derivatives over all places and not at their ends: the second derivative corrects both.
extern "C" __global__ __launch_bounds__(kTableThreads) void user_tables(
    int users, const int* counts, const int* sums, const float* excess, int ranges,
    const Grid* grids, const i64* starts, const float* points, const float* weights, int rho,
    float* losses, float* own, float* firsts, u32* tables, float* unit, float* largest) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const i64 user = static_cast<i64>(blockIdx.z) * users + blockIdx.x;
  tables += (blockIdx.z * padded(users) + blockIdx.x) * kBins;
  if (blockIdx.x >= users) {
    if (threadIdx.x < kBins) tables[threadIdx.x] = 0;
    return;
  }
  const i64 from = starts[blockIdx.x], to = starts[blockIdx.x + 1];
  const i64 before = static_cast<i64>(blockIdx.z) * starts[users];
  points += before, losses += before, own += before, firsts += before;
  const Grid grid = grids[user];
  if (grid.inverse_width == 0.f) {
    if (threadIdx.x < kBins) tables[threadIdx.x] = 0;
    for (i64 y = from + threadIdx.x; y < to; y += kTableThreads) losses[y] = own[y] = 0.f;
    if (threadIdx.x == 0) unit[user] = 0.f;
    return;
  }
  constexpr float kLn2 = 0.69314718f;
  __shared__ float amount[kBins], middle[kBins], point[kTableThreads], first[kTableThreads];
  __shared__ float nodes[2][kNodeThreads], alls[2];
  const float width = 1.f / grid.inverse_width, begin = -grid.shift * width;
  for (int b = threadIdx.x; b < kBins; b += kTableThreads) {
    const int n = counts[user * kBins + b];
    const float sum = sums[user * kBins + b];
    amount[b] = n;
    middle[b] = begin + width * ((b * kParts + (n ? sum / n : 0.f)) / kPlaces);
  }
  float over = 0.f;
  for (int r = 0; r < ranges; ++r)
    over += excess[(static_cast<i64>(blockIdx.z) * ranges + r) * users + blockIdx.x];
  over *= width;
  __syncthreads();
  const float bin = width * (kParts / kPlaces);
  const float spread = kLn2 * bin * bin / 24.f, chord = kLn2 * kLn2 * bin * bin / 12.f;
  for (i64 y = from + warp; y < to; y += kTableThreads / 32) {
    const float s = points[y];
    float t = 0.f, h = 0.f;
    for (int b = lane; b < kBins; b += 32)
      if (amount[b] > 0.f) {
        const Pair at = pair_at(middle[b] - s);
        const float bend = spread * at.bend;
        t = fmaf(amount[b], at.value + bend, t);
        h = fmaf(amount[b], fmaf(kLn2 * bend, 1.f - 2.f * at.derivative, at.derivative), h);
      }
    t = sum_of_warp(t), h = sum_of_warp(h);
    if (lane == 0) {
      t = fmaxf(t - 1.f, 0.f) + over;
      const float w = weights[y];
      float value = t, derivative = 1.f;
      if (rho == kLog) {
        value = log2f(1.f + t);
        derivative = 1.44269504f / (1.f + t);
      } else if (rho == kType2) {
        const float log = log2f(2.f + t);
        value = 1.f - 1.f / log;
        derivative = 1.44269504f / ((t + 2.f) * log * log);
      }
      losses[y] = w * value;
      firsts[y] = w * derivative;
      own[y] = w * derivative * h;
    }
  }
  // Two threads share a node, each with every second interaction.
  const int node = threadIdx.x % kNodeThreads, half = threadIdx.x / kNodeThreads;
  const float place = begin + bin * node;
  float sum = 0.f, all = 0.f;
  for (i64 y = from; y < to; y += kTableThreads) {
    const int n = min(static_cast<i64>(kTableThreads), to - y);
    __syncthreads();
    if (threadIdx.x < n) {
      point[threadIdx.x] = points[y + threadIdx.x];
      first[threadIdx.x] = firsts[y + threadIdx.x];
    }
    __syncthreads();
#pragma unroll 4
    for (int i = half; i < n; i += 2) {
      all += first[i];
      const float z = place - point[i];
      const float p = ex2_approx(-fabsf(z)), inverse = rcp_approx(1.f + p);
      const float derivative = z >= 0.f ? inverse : p * inverse;
      const float bend = p * inverse * inverse * (1.f - 2.f * derivative);
      sum = fmaf(first[i], fmaf(-chord, bend, derivative), sum);
    }
  }
  nodes[half][node] = sum;
  if (node == 0) alls[half] = all;
  __syncthreads();
  // All derivatives are at most `all`; in units of it over 2^14 they keep their digits as halves.
  all = alls[0] + alls[1];
  const float one = all > 0.f ? exp2f(ceilf(log2f(all)) - 14.f) : 1.f;
  if (threadIdx.x < kBins) {
    const float value = nodes[0][node] + nodes[1][node];
    const float next = nodes[0][node + 1] + nodes[1][node + 1];
    tables[rotated(node, blockIdx.x)] = cvt_f16x2(value / one, (next - value) / (one * kParts));
  }
  if (threadIdx.x == 0) {
    unit[user] = all > 0.f ? one : 0.f;
    if (all > 0.f) raise(largest + blockIdx.z, __float_as_int(one));
  }
}

// The derivatives at two places, from their lines: (value, rise of a part) as two halves each.
__device__ __forceinline__ u32 derivatives_at(u32 a, u32 line_a, u32 b, u32 line_b) {
  constexpr u32 kBoth = (kParts - 1) * 0x10001u, kHalf1024 = 0x64006400u;
  u32 parts = (__byte_perm(a, b, 0x5410) & kBoth) | kHalf1024;  // 1024 + part
  parts = sub_f16x2(parts, kHalf1024);
  return fma_f16x2(parts, __byte_perm(line_a, line_b, 0x7632), __byte_perm(line_a, line_b, 0x5410));
}

// Σ derivative · V of users (blockIdx.x: which tile) over items (blockIdx.y: which range), in each
// user's unit. Groups of warps and ranges leave parts[part][user][factor].
extern "C" __global__ __launch_bounds__(kUserThreads, 1) void gradient_of_users(
    const u16* U, const u16* V, const Grid* grids, const u32* tables, int users, int items,
    int range, float* parts) {
  extern __shared__ __align__(1024) unsigned char memory[];
  u32* table = reinterpret_cast<u32*>(memory);
  Tiles<kGroupWarps, kUserColumns> tiles(table + 2 * kRows * kBins);
  const int warp = threadIdx.x / 32, row = threadIdx.x % 32 / 4, first_user = blockIdx.x * kRows;
  const int first_row = first_row_of<kGroupWarps, kUserTiles>();
  const int first = blockIdx.y * range, last = min(items, first + range);
  const i64 before = static_cast<i64>(blockIdx.z) * users;
  U += before * kFactors, V += blockIdx.z * padded(items) * kFactors;
  grids += before, tables += blockIdx.z * padded(users) * kBins;
  for (int i = threadIdx.x; i < kRows * kBins; i += blockDim.x) {
    const int own = i % 8 + i / (8 * kBins) * 8, bin = i / 8 % kBins;
    const u32 line = first_user + own < users
                         ? tables[static_cast<i64>(first_user + own) * kBins + rotated(bin, own)]
                         : 0;
    u32* twice = table + word_of(own) + bin * kBinWords;
    twice[0] = twice[1] = line;
  }
  Left rows[kUserTiles];
  Grid grid[kUserTiles][2];
#pragma unroll
  for (int i = 0; i < kUserTiles; ++i) {
    rows[i].load(U, first_user + first_row + 16 * i, users);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int user = first_user + first_row + 16 * i + row + 8 * h;
      grid[i][h] = user < users ? grids[user] : Grid{0.f, 0.f};
    }
  }
  const char* lines =
      reinterpret_cast<const char*>(table + word_of(first_row + row) + threadIdx.x % 4 / 2);
  __syncthreads();
  float sum[kUserTiles][kFactors / 8][4] = {};
  const auto look_up = [&](u32(&derivatives)[kColumns / 16][4], const float (&s)[kColumns / 8][4],
                           int i) {
#pragma unroll
    for (int t = 0; t < kColumns / 8; ++t)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const char* own = lines + 4 * word_of(16 * i + 8 * h);
        const u32 a = place_of(s[t][2 * h], grid[i][h]), b = place_of(s[t][2 * h + 1], grid[i][h]);
        derivatives[t / 2][2 * (t % 2) + h] =
            derivatives_at(a, *reinterpret_cast<const u32*>(own + (a & kBinBytes)), b,
                           *reinterpret_cast<const u32*>(own + (b & kBinBytes)));
      }
  };
  for_each_tile(tiles, V, first, last, [&](const u16* tile, int) {
    if constexpr (kTogether) {
      constexpr int kTileParts = kUserColumns / kColumns;
      float s[kTileParts][kColumns / 8][4];
      u32 derivatives[kTileParts][kColumns / 16][4];
#pragma unroll
      for (int part = 0; part < kTileParts; ++part)
        begin_scores(s[part], rows[0], tile + part * kColumns * kStride);
#pragma unroll
      for (int part = 0; part < kTileParts; ++part) {
        wgmma_wait_group<kTileParts - 1>(s[part]);
        look_up(derivatives[part], s[part], 0);
        begin_sums(sum[0], derivatives[part], tile + part * kColumns * kStride);
      }
      wgmma_wait_group<0>(sum[0]);
    } else {
      float s[kUserTiles][kColumns / 8][4];
      u32 derivatives[kUserTiles][kColumns / 16][4];
      scores(s, rows, tile);
#pragma unroll
      for (int i = 0; i < kUserTiles; ++i) look_up(derivatives[i], s[i], i);
      add_products(sum, derivatives, tile);
    }
  });
  const i64 range_number = static_cast<i64>(blockIdx.z) * gridDim.y + blockIdx.y;
  const i64 part = range_number * kUserGroups + warp / kGroupWarps;
#pragma unroll
  for (int i = 0; i < kUserTiles; ++i)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int user = first_user + first_row + 16 * i + row + 8 * h;
      if (user >= users) continue;
      float2* to = reinterpret_cast<float2*>(parts + (part * users + user) * kFactors);
#pragma unroll
      for (int f = 0; f < kFactors / 8; ++f)
        to[f * 4 + threadIdx.x % 4] = {sum[i][f][2 * h], sum[i][f][2 * h + 1]};
    }
}

// What gradient_of_items needs of some users, in shared memory.
struct __align__(kTogether ? 1024 : 16) Users {
  u32 table[kStepUsers * kBins];
  u16 us[kStepUsers * kStride];     // the rows that scores are taken with
  u16 right[kStepUsers * kStride];  // the rows that derivatives are multiplied by, if they differ
  Grid grid[kStepUsers];
  u16 unit[kStepUsers];  // as a share of the largest
  u64 arrival;           // of the table, where one thread brings it
};
// The items of a block: in registers, or in shared memory, where sums leave too few registers.
template <bool>
struct ItemSide {
  static constexpr int kShared = 0;
  Left tiles[kItemTiles];
  __device__ __forceinline__ void load(const u16* V, int items, void*) {
#pragma unroll
    for (int i = 0; i < kItemTiles; ++i) tiles[i].load(V, item(i), items);
  }
  // The item of row 0 of a warp's tile.
  static __device__ __forceinline__ int item(int tile) {
    return blockIdx.x * kBlockItems + (threadIdx.x / 32 * kItemTiles + tile) * 16;
  }
};
template <>
struct ItemSide<true> {
  static constexpr int kShared = kBlockItems;
  SharedLeft tiles[kItemTiles];
  __device__ __forceinline__ void load(const u16* V, int, void* memory) {
    __shared__ u64 arrival;
    u16* rows = static_cast<u16*>(memory);
    if (threadIdx.x == 0) {
      mbarrier_init(arrival);
      fence_proxy_async();
      mbarrier_expect_tx(arrival, 2 * kBlockItems * kFactors);
      cp_async_bulk(rows, V + static_cast<i64>(blockIdx.x) * kBlockItems * kFactors,
                    2 * kBlockItems * kFactors, arrival);
    }
    __syncthreads();
    mbarrier_wait(arrival, 0);
#pragma unroll
    for (int i = 0; i < kItemTiles; ++i)
      tiles[i].rows = rows + (threadIdx.x / 128 * kItemTiles + i) * 64 * kStride;
  }
  static __device__ __forceinline__ int item(int tile) {
    return blockIdx.x * kBlockItems + (threadIdx.x / 128 * kItemTiles + tile) * 64 +
           threadIdx.x / 32 % 4 * 16;
  }
};

static_assert(2 * sizeof(Users) + 2 * ItemSide<kTogether>::kShared * kStride == kStepBytes,
              "as in layout.py");

struct UserRows {
  const u16 *U, *right;
  const Grid* grids;
  const u32* tables;
  const float* units;
  int users;
};

__device__ __forceinline__ void load_users(Users& to, const UserRows& from, int first,
                                           float inverse_largest) {
  const u32* tables = from.tables + static_cast<i64>(first) * kBins;
  if constexpr (kTogether) {
    if (threadIdx.x == 0) {
      mbarrier_expect_tx(to.arrival, sizeof(to.table));
      cp_async_bulk(to.table, tables, sizeof(to.table), to.arrival);
    }
  } else {
    for (int i = threadIdx.x; i < kStepUsers * kBins / 4; i += blockDim.x)
      cp_async_16(to.table + 4 * i, tables + 4 * i, first + i * 4 / kBins < from.users);
  }
  load_rows<kStepUsers, kItemThreads>(to.us, from.U, first, from.users);
  if (from.right != from.U)
    load_rows<kStepUsers, kItemThreads>(to.right, from.right, first, from.users);
  if (threadIdx.x < kStepUsers) {
    const int user = first + threadIdx.x;
    const bool there = user < from.users;
    to.grid[threadIdx.x] = there ? from.grids[user] : Grid{0.f, 0.f};
    to.unit[threadIdx.x] = cvt_f16x2(there ? from.units[user] * inverse_largest : 0.f, 0.f);
  }
}

// The derivatives of items' scores with kColumns users from `row` on.
__device__ __forceinline__ void look_up(u32 (&derivatives)[kItemTiles][kColumns / 16][4],
                                        const float (&s)[kItemTiles][kColumns / 8][4],
                                        const Users& users, int row) {
  const int column = threadIdx.x % 4 * 2, turn = column * kRotation;
  const auto line_at = [](const u32* lines, u32 place, int turn) {
    return lines[((place >> kPartBits) + turn) & (kBins - 1)];
  };
#pragma unroll
  for (int t = 0; t < kColumns / 8; ++t) {
    const int own = row + t * 8 + column;
    const Grid a = users.grid[own], b = users.grid[own + 1];
    const u32 *from_a = users.table + own * kBins, *from_b = from_a + kBins;
    const u32 units = *reinterpret_cast<const u32*>(users.unit + own);
#pragma unroll
    for (int i = 0; i < kItemTiles; ++i)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const u32 x = place_of(s[i][t][2 * h], a), y = place_of(s[i][t][2 * h + 1], b);
        const u32 line_x = line_at(from_a, x, turn), line_y = line_at(from_b, y, turn + kRotation);
        derivatives[i][t / 2][2 * (t % 2) + h] =
            mul_f16x2(units, derivatives_at(x, line_x, y, line_y));
      }
  }
}

// Σ derivative · right of items (blockIdx.x: which tile) over all users, whose scores are U Vᵀ; U
// itself may be the right side. Derivatives are in units of the users' `largest`.
extern "C" __global__ __launch_bounds__(kItemThreads, 1) void gradient_of_items(
    const u16* U, const u16* right, const u16* V, const Grid* grids, const u32* tables,
    const float* units, int users, int items, const float* largest, int factors, float* out) {
  extern __shared__ __align__(1024) unsigned char memory[];
  Users* steps = reinterpret_cast<Users*>(memory);
  const i64 before = static_cast<i64>(blockIdx.z) * users;
  const UserRows from = {U + before * kFactors, right + before * kFactors,
                         grids + before,        tables + blockIdx.z * padded(users) * kBins,
                         units + before,        users};
  out += static_cast<i64>(blockIdx.z) * items * factors;
  const float one = largest[blockIdx.z], inverse = one > 0.f ? 1.f / one : 0.f;
  if (kTogether && threadIdx.x == 0)
    mbarrier_init(steps[0].arrival), mbarrier_init(steps[1].arrival);
  ItemSide<kTogether> rows;
  rows.load(V + blockIdx.z * padded(items) * kFactors, items, steps + 2);
  load_users(steps[0], from, 0, inverse);
  float sum[kItemTiles][kFactors / 8][4] = {};
  for (int step = 0; step * kStepUsers < users; ++step) {
    cp_async_wait_all();
    __syncthreads();
    if ((step + 1) * kStepUsers < users)
      load_users(steps[(step + 1) % 2], from, (step + 1) * kStepUsers, inverse);
    Users& now = steps[step % 2];
    if (kTogether) mbarrier_wait(now.arrival, step / 2);
    const u16* factor = right == U ? now.us : now.right;
#pragma unroll 1
    for (int row = 0; row < kStepUsers; row += kColumns) {
      float s[kItemTiles][kColumns / 8][4];
      u32 derivatives[kItemTiles][kColumns / 16][4];
      scores(s, rows.tiles, now.us + row * kStride);
      look_up(derivatives, s, now, row);
      add_products(sum, derivatives, factor + row * kStride);
    }
  }
  const int column = threadIdx.x % 4 * 2;
#pragma unroll
  for (int i = 0; i < kItemTiles; ++i)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int item = rows.item(i) + threadIdx.x % 32 / 4 + 8 * h;
      if (item >= items) continue;
      float* to = out + static_cast<i64>(item) * factors;
#pragma unroll
      for (int f = 0; f < kFactors / 8; ++f)
#pragma unroll
        for (int e = 0; e < 2; ++e)
          if (f * 8 + column + e < factors) to[f * 8 + column + e] = sum[i][f][2 * h + e] * one;
    }
}
