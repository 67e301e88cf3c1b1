// The exact solver's visits to all scores of a block of users, without writing a score to memory.
//
// Compiled at run time for a number of factors (kFactors, a multiple of 16, rows padded with zeros)
// and a number of users of a tile (kRows: 16, 32 or 64). Factors are half-precision numbers, sums
// are float. A score has a place on its user's grid, from 0 to 1; what is outside is clamped.
//
// Fragments are those of mma.m16n8k16: lane l holds rows l / 4 and l / 4 + 8 of a 16 × 8 tile, at
// the columns 2 (l % 4) and 2 (l % 4) + 1. The left side of products stays in registers; groups of
// warps bring the right side to shared memory for themselves, and wait for no other group.
//
// Several models (blockIdx.z: which) can be served at once: their users and records are the same,
// and arrays of one model follow those of another.

typedef unsigned int u32;
typedef unsigned short u16;  // a half-precision number
typedef long long i64;

constexpr bool kLarge = kFactors <= 64 && kRows > 16;        // more fits into a block
constexpr int kWarps = kLarge ? 16 : 8, kThreads = 32 * kWarps;
constexpr int kRowTiles = kRows / 16;
constexpr int kSteps = kFactors / 16;
constexpr int kStride = kFactors + 8;                        // halves between rows: no bank twice
constexpr int kTileItems = 16;
// slopes_to_users: tiles of users of a warp, and warps that share items.
constexpr int kUserTiles = kRows > 16 && kFactors <= 128 ? 2 : 1;
constexpr int kGroupWarps = kRowTiles / kUserTiles;
// slopes_to_items: tiles of items of a warp, and users of a step.
constexpr int kItemTiles = kLarge ? 2 : 1;
constexpr int kBlockItems = 16 * kItemTiles * kWarps;
constexpr int kStepUsers = kLarge ? 32 : 16;

// Places are integers in the low bits of a float from 2^23 on: a bin (or line) and a part of it.
constexpr int kPartBits = 6, kParts = 1 << kPartBits;
constexpr int kSumBits = 19;                                 // a counter: 13 bits items, 19 bits parts
constexpr int kMostItems = 8191 / (kTileItems * kWarps) * kTileItems * kWarps;  // between flushes
constexpr float kPlaces = kBins * kParts - 1;
constexpr float kInteger = 8388608.f;  // 2^23

// Bins and lines of eight rows stand side by side, each row's twice, for two lanes of four: so no
// more than two lanes meet in a bank. The bits of a place above its part are the bytes to go.
constexpr int kBinWords = 16;
static_assert(4 * kBinWords == kParts, "a bin is as many bytes as it has parts");
constexpr u32 kBinBytes = (kBins - 1) * 4 * kBinWords;
__device__ __forceinline__ int word_of(int row) { return row / 8 * kBins * kBinWords + row % 8 * 2; }

static_assert(8 * kRows * kBins + 4 * kWarps * kTileItems * kStride == kCountBytes,
              "as in kernels.py");
static_assert(kWarps / kGroupWarps == kExpectedGroups, "as in kernels.py");
static_assert(kBlockItems == kExpectedBlockItems, "as in kernels.py");

// A score s is at the place s · slope + shift. No slope: the grid would be too coarse.
struct Scale {
  float shift, slope;
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

// 16 rows of a matrix from row `first` on as the left side of products; zeros from row `end` on.
struct Left {
  u32 at[kSteps][4];
  __device__ __forceinline__ void load(const u16* rows, int first, int end) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = first + lane / 4 + 8 * h;
      const u32* from =
          reinterpret_cast<const u32*>(rows + static_cast<i64>(row) * kFactors) + lane % 4;
#pragma unroll
      for (int k = 0; k < kSteps; ++k) {
        at[k][h] = row < end ? from[8 * k] : 0;
        at[k][2 + h] = row < end ? from[8 * k + 4] : 0;
      }
    }
  }
};

// Copies n rows of a matrix with kFactors columns to shared memory; zeros from row `end` on.
template <int n, int threads>
__device__ __forceinline__ void load_rows(u16* to, const u16* from, int first, int end) {
  constexpr int kChunks = kFactors / 8;
  for (int i = threadIdx.x % threads; i < n * kChunks; i += threads) {
    const int row = i / kChunks, chunk = i % kChunks;
    const bool there = first + row < end;
    copy16(to + row * kStride + chunk * 8,
           from + (there ? static_cast<i64>(first + row) : 0) * kFactors + chunk * 8, there);
  }
}

// Scores of 16 · tiles rows with 16 rows of b.
template <int tiles>
__device__ __forceinline__ void scores(float (&s)[tiles][2][4], const Left* left, const u16* b) {
  const int lane = threadIdx.x % 32;
  const u16* from = b + ((lane & 7) + ((lane >> 4) << 3)) * kStride + ((lane >> 3) & 1) * 8;
#pragma unroll
  for (int i = 0; i < tiles; ++i)
#pragma unroll
    for (int e = 0; e < 8; ++e) s[i][e / 4][e % 4] = 0.f;
#pragma unroll
  for (int k = 0; k < kSteps; ++k) {
    u32 right[4];
    load4(right, from + 16 * k);
#pragma unroll
    for (int i = 0; i < tiles; ++i) {
      multiply(s[i][0], left[i].at[k], right[0], right[1]);
      multiply(s[i][1], left[i].at[k], right[2], right[3]);
    }
  }
}

// sum += (16 × 16 slopes) · (16 rows of b), for tiles of slopes.
template <int tiles>
__device__ __forceinline__ void add_products(float (&sum)[tiles][kFactors / 8][4],
                                             const u32 (&slopes)[tiles][4], const u16* b) {
  const int lane = threadIdx.x % 32;
  const u16* from = b + (lane & 15) * kStride + (lane >> 4) * 8;
#pragma unroll
  for (int f = 0; f < kSteps; ++f) {
    u32 right[4];
    load4_transposed(right, from + f * 16);
#pragma unroll
    for (int i = 0; i < tiles; ++i) {
      multiply(sum[i][2 * f], slopes[i], right[0], right[1]);
      multiply(sum[i][2 * f + 1], slopes[i], right[2], right[3]);
    }
  }
}

// The place of a score in parts of bins; one of 2^23's digits stands above it.
__device__ __forceinline__ u32 place_of(float s, Scale scale) {
  float place;
  asm("fma.rn.sat.f32 %0, %1, %2, %3;" : "=f"(place) : "f"(s), "f"(scale.slope), "f"(scale.shift));
  return __float_as_uint(fmaf(place, kPlaces, kInteger));
}

// The slopes at two places, from their lines: (value, rise of a part) as two halves each.
__device__ __forceinline__ u32 slopes_at(u32 a, u32 line_a, u32 b, u32 line_b) {
  constexpr u32 kBoth = (kParts - 1) * 0x10001u, kHalf1024 = 0x64006400u;
  u32 parts = (__byte_perm(a, b, 0x5410) & kBoth) | kHalf1024;  // 1024 + part
  asm("sub.rn.f16x2 %0, %0, %1;" : "+r"(parts) : "r"(kHalf1024));
  u32 slopes;
  asm("fma.rn.f16x2 %0, %1, %2, %3;"
      : "=r"(slopes)
      : "r"(parts), "r"(__byte_perm(line_a, line_b, 0x7632)),
        "r"(__byte_perm(line_a, line_b, 0x5410)));
  return slopes;
}

template <int warps>
__device__ __forceinline__ void wait_for_group(int group) {
  if (warps == 1)
    __syncwarp();
  else
    asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "n"(32 * warps) : "memory");
}

// `work(tile, first)` for the tiles of a range of items, which groups of warps share out; the next
// tile of a group is loaded while it works.
template <int warps, class Work>
__device__ __forceinline__ void for_each_tile(u16* tiles, const u16* V, int first, int last,
                                              const Work& work) {
  constexpr int kSize = kTileItems * kStride, kAll = kTileItems * (kWarps / warps);
  const int group = threadIdx.x / (32 * warps);
  u16* own = tiles + group * 2 * kSize;
  int item = first + group * kTileItems, at = 0;
  load_rows<kTileItems, 32 * warps>(own, V, item, last);
  commit();
  for (; item < last; item += kAll, at ^= 1) {
    wait<0>();
    wait_for_group<warps>(group);
    if (item + kAll < last)
      load_rows<kTileItems, 32 * warps>(own + (at ^ 1) * kSize, V, item + kAll, last);
    commit();
    work(own + at * kSize, item);
  }
  wait<0>();
  wait_for_group<warps>(group);
}

// The records of users (blockIdx.x: which) from all records: their item, their weight, and their
// row in blocks of `size` users.
extern "C" __global__ void take_records(const i64* users, const i64* starts, const i64* begins,
                                        const int* items, const float* weights, int size, int* rows,
                                        int* taken_items, float* taken_weights) {
  const i64 from = begins[users[blockIdx.x]], to = starts[blockIdx.x];
  const int n = starts[blockIdx.x + 1] - to;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    rows[to + i] = blockIdx.x % size;
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

// most = max(most, the number that has these bits); neither is negative.
__device__ __forceinline__ void raise(float* most, int bits) {
  int* to = reinterpret_cast<int*>(most);
  if (bits > *reinterpret_cast<volatile int*>(to)) atomicMax(to, bits);
}

// Rows in half precision, filled up with zeros; `longest`, where it is given, becomes the largest
// of it and the rows' lengths.
extern "C" __global__ void to_halves(const float* rows, int n, int factors, u16* out,
                                     float* longest) {
  const i64 before = static_cast<i64>(blockIdx.z) * n;
  const int warps = gridDim.x * (blockDim.x / 32);
  int most = 0;  // bits: numbers that are not negative rise as they do
  for (int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; row < n; row += warps) {
    const float* from = rows + (before + row) * factors;
    u32* to = reinterpret_cast<u32*>(out + (before + row) * kFactors);
    float square = 0.f;
    for (int f = threadIdx.x % 32 * 2; f < kFactors; f += 64) {
      const float a = f < factors ? from[f] : 0.f, b = f + 1 < factors ? from[f + 1] : 0.f;
      to[f / 2] = pack(a, b);
      square = fmaf(a, a, fmaf(b, b, square));
    }
    most = max(most, __float_as_int(sqrtf(sum_of_warp(square))));
  }
  if (longest && threadIdx.x % 32 == 0) raise(longest + blockIdx.z, most);
}

// The scores of a user's relevant items (blockIdx.x: which user), and the grid that covers them
// and `margin` beyond, as far as |u| · longest reaches; the place of that is `tops`. `too_wide`
// becomes 1 where the grid would be too coarse.
extern "C" __global__ void user_grids(const u16* U, const u16* V, const i64* starts,
                                      const int* items, const float* longest, float margin,
                                      float most_width, int n_items, float* points, Scale* scales,
                                      float* tops, int* too_wide) {
  constexpr int kGroup = kGridThreads / 32;
  __shared__ float lows[kGroup], highs[kGroup];
  const int user = blockIdx.x, users = gridDim.x, warp = threadIdx.x / 32;
  const i64 own = static_cast<i64>(blockIdx.z) * users + user;
  const u16* u = U + own * kFactors;
  V += static_cast<i64>(blockIdx.z) * n_items * kFactors;
  points += static_cast<i64>(blockIdx.z) * starts[users];
  longest += blockIdx.z;
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
  const float slope = fits ? 1.f / width : 0.f;
  scales[own] = {-begin * slope, slope};
  tops[own] = (reach - begin) * slope;
  if (!fits) *too_wide = 1;
}

__device__ __forceinline__ void flush(u32* bins, int* counts, int* sums, int users) {
  __syncthreads();
  for (int i = threadIdx.x; i < kRows * kBins; i += kThreads) {
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

// Scores of a tile's rows with 16 items of which `left` are there, counted; and where some may lie
// above the grid, how far.
template <bool above>
__device__ __forceinline__ void count_tile(u32* bins, const Left* rows, const Scale (&scale)[kRowTiles][2],
                                           const u16* tile, int left, float (&over)[kRowTiles][2]) {
  constexpr int kAtOnce = kRowTiles > 1 ? 2 : 1;
  const int row = threadIdx.x % 32 / 4, first = threadIdx.x % 4 * 2;
  char* own = reinterpret_cast<char*>(bins + word_of(row) + threadIdx.x % 4 / 2);
#pragma unroll
  for (int i = 0; i < kRowTiles; i += kAtOnce) {
    float s[kAtOnce][2][4];
    scores<kAtOnce>(s, rows + i, tile);
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j)
#pragma unroll
      for (int t = 0; t < 2; ++t)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int h = e >> 1;
          if (first + t * 8 + (e & 1) >= left) continue;
          const u32 place = place_of(s[j][t][e], scale[i + j][h]);
          char* row_bins = own + 4 * word_of(16 * (i + j) + 8 * h);
          atomicAdd(reinterpret_cast<u32*>(row_bins + (place & kBinBytes)),
                    (1u << kSumBits) | (place & (kParts - 1)));
          if (above)
            over[i + j][h] += fmaxf(
                fmaf(s[j][t][e], scale[i + j][h].slope, scale[i + j][h].shift) - 1.f, 0.f);
        }
  }
}

// Counts the scores of users (blockIdx.x: which tile) with items (blockIdx.y: which range) into
// bins: how many, and the sum of their parts of a bin. `excess` gets the sum of what lies above
// the grid for each range; nothing does where `tops` are at most 1, or not given.
extern "C" __global__ __launch_bounds__(kThreads, 1) void count_scores(
    const u16* U, const u16* V, const Scale* scales, const float* tops, int users, int items,
    int range, int* counts, int* sums, float* excess) {
  extern __shared__ __align__(16) unsigned char memory[];
  u32* bins = reinterpret_cast<u32*>(memory);
  u16* tiles = reinterpret_cast<u16*>(bins + 2 * kRows * kBins);
  const int first_user = blockIdx.x * kRows, lane = threadIdx.x % 32;
  const int first = blockIdx.y * range, last = min(items, first + range);
  const i64 before = static_cast<i64>(blockIdx.z) * users;
  U += before * kFactors, V += static_cast<i64>(blockIdx.z) * items * kFactors;
  scales += before, tops += tops ? before : 0;
  counts += (before + first_user) * kBins, sums += (before + first_user) * kBins;
  excess += (static_cast<i64>(blockIdx.z) * gridDim.y + blockIdx.y) * users;
  for (int i = threadIdx.x; i < 2 * kRows * kBins; i += kThreads) bins[i] = 0;
  Left rows[kRowTiles];
  Scale scale[kRowTiles][2];
  float over[kRowTiles][2] = {};
  bool may_exceed = false;
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i) {
    rows[i].load(U, first_user + 16 * i, users);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int user = first_user + 16 * i + lane / 4 + 8 * h;
      scale[i][h] = user < users ? scales[user] : Scale{0.f, 0.f};
      may_exceed |= tops && user < users && tops[user] > 1.0001f;
    }
  }
  may_exceed = __syncthreads_or(may_exceed);
  for (int begin = first; begin < last; begin += kMostItems) {
    const int end = min(last, begin + kMostItems);
    if (may_exceed)
      for_each_tile<1>(tiles, V, begin, end, [&](const u16* tile, int item) {
        count_tile<true>(bins, rows, scale, tile, end - item, over);
      });
    else
      for_each_tile<1>(tiles, V, begin, end, [&](const u16* tile, int item) {
        count_tile<false>(bins, rows, scale, tile, end - item, over);
      });
    flush(bins, counts, sums, users - first_user);
  }
  float* above = reinterpret_cast<float*>(memory);  // of a warp and a row
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float sum = over[i][h];
      sum += __shfl_xor_sync(~0u, sum, 1);
      sum += __shfl_xor_sync(~0u, sum, 2);
      if (lane % 4 == 0) above[threadIdx.x / 32 * kRows + 16 * i + 8 * h + lane / 4] = sum;
    }
  __syncthreads();
  for (int row = threadIdx.x; row < kRows && first_user + row < users; row += kThreads) {
    float sum = 0.f;
    for (int w = 0; w < kWarps; ++w) sum += above[w * kRows + row];
    excess[first_user + row] = sum;
  }
}

// log2(1 + 2^z), its slope 1 / (1 + 2^−z), and the slope's, which is ln 2 times `bend`.
struct Pair {
  float value, slope, bend;
};
__device__ __forceinline__ Pair pair_at(float z) {
  const float p = exp2_fast(-fabsf(z)), inverse = inverse_fast(1.f + p);
  const float small = p * fmaf(p, fmaf(p, 0.48089835f, -0.72134752f), 1.44269504f);
  const float log = p < 0.015625f ? small : log2_fast(1.f + p);
  return {fmaxf(z, 0.f) + log, z >= 0.f ? inverse : p * inverse, p * inverse * inverse};
}

enum Rho { kIdentity = 0, kLog = 1, kType2 = 2 };

constexpr int kNodeThreads = kBins + 32;  // a line has two ends
static_assert(kTableThreads == 2 * kNodeThreads, "as in kernels.py");

// From the counts of one user (blockIdx.x) to losses, the user's table of slopes, and what each
// relevant item gets beside it. `largest` becomes the largest number of U in the users' units.
//
// The scores of a bin are taken as spread evenly over it, and lines are those nearest to the slopes
// over all places and not at their ends: the second derivative corrects both.
extern "C" __global__ __launch_bounds__(kTableThreads) void user_tables(
    const int* counts, const int* sums, const float* excess, int ranges, const Scale* scales,
    const i64* starts, const float* points, const float* weights, const u16* U, int rho,
    float* losses, float* own, float* firsts, u32* tables, float* unit, float* largest) {
  const int users = gridDim.x, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const i64 user = static_cast<i64>(blockIdx.z) * users + blockIdx.x;
  const i64 from = starts[blockIdx.x], to = starts[blockIdx.x + 1];
  const i64 before = static_cast<i64>(blockIdx.z) * starts[users];
  points += before, losses += before, own += before, firsts += before;
  constexpr float kLn2 = 0.69314718f;
  __shared__ float amount[kBins], middle[kBins], point[kTableThreads], first[kTableThreads];
  __shared__ float nodes[2][kNodeThreads], alls[2];
  const Scale scale = scales[user];
  const float width = scale.slope > 0.f ? 1.f / scale.slope : 0.f, begin = -scale.shift * width;
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
        h = fmaf(amount[b], fmaf(kLn2 * bend, 1.f - 2.f * at.slope, at.slope), h);
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
  // Two threads share a node, each with every second record.
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
      const float p = exp2_fast(-fabsf(z)), inverse = inverse_fast(1.f + p);
      const float slope = z >= 0.f ? inverse : p * inverse;
      const float bend = p * inverse * inverse * (1.f - 2.f * slope);
      sum = fmaf(first[i], fmaf(-chord, bend, slope), sum);
    }
  }
  nodes[half][node] = sum;
  if (node == 0) alls[half] = all;
  __syncthreads();
  // All slopes are at most `all`; in units of it over 2^14 they keep their digits as halves.
  all = alls[0] + alls[1];
  const float one = all > 0.f ? exp2f(ceilf(log2f(all)) - 14.f) : 1.f;
  if (threadIdx.x < kBins) {
    const float value = nodes[0][node] + nodes[1][node];
    const float next = nodes[0][node + 1] + nodes[1][node + 1];
    tables[user * kBins + node] = pack(value / one, (next - value) / (one * kParts));
  }
  if (threadIdx.x < kFactors / 2) {
    const u32 both = reinterpret_cast<const u32*>(U + user * kFactors)[threadIdx.x];
    const float most = fmaxf(fabsf(low_half(both)), fabsf(high_half(both)));
    raise(largest + blockIdx.z, __float_as_int(most * one));
  }
  if (threadIdx.x == 0) unit[user] = one;
}

// A power of two that brings numbers to 2^14 at most: small ones keep digits as halves.
__device__ __forceinline__ float power_for(float largest) {
  return exp2f(14.f - ceilf(log2f(fmaxf(largest, 1e-30f))));
}

// The rows of U in the users' units (a warp a row), times a power of two.
extern "C" __global__ void to_units(const float* U, const float* unit, const float* largest, int n,
                                    int factors, u16* out) {
  const int warp = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  if (warp >= n) return;
  const i64 row = static_cast<i64>(blockIdx.z) * n + warp;
  const float* from = U + row * factors;
  const float one = unit[row] * power_for(largest[blockIdx.z]);
  for (int f = threadIdx.x % 32 * 2; f < kFactors; f += 64)
    reinterpret_cast<u32*>(out + row * kFactors)[f / 2] =
        pack(f < factors ? from[f] * one : 0.f, f + 1 < factors ? from[f + 1] * one : 0.f);
}

// Σ slope · V of users (blockIdx.x: which tile) over items (blockIdx.y: which range), in each
// user's unit. Groups of warps and ranges leave parts[part][user][factor].
extern "C" __global__ __launch_bounds__(kThreads, 1) void slopes_to_users(
    const u16* U, const u16* V, const Scale* scales, const u32* tables, int users, int items,
    int range, float* parts) {
  extern __shared__ __align__(16) unsigned char memory[];
  u32* table = reinterpret_cast<u32*>(memory);
  u16* tiles = reinterpret_cast<u16*>(table + 2 * kRows * kBins);
  constexpr int kGroups = kWarps / kGroupWarps;
  const int warp = threadIdx.x / 32, row = threadIdx.x % 32 / 4, first_user = blockIdx.x * kRows;
  const int first_row = warp % kGroupWarps * 16 * kUserTiles;
  const int first = blockIdx.y * range, last = min(items, first + range);
  const i64 before = static_cast<i64>(blockIdx.z) * users;
  U += before * kFactors, V += static_cast<i64>(blockIdx.z) * items * kFactors;
  scales += before, tables += before * kBins;
  for (int i = threadIdx.x; i < kRows * kBins; i += blockDim.x) {
    const int own = i % 8 + i / (8 * kBins) * 8, bin = i / 8 % kBins;
    const u32 line = first_user + own < users
                         ? tables[static_cast<i64>(first_user + own) * kBins + bin] : 0;
    u32* twice = table + word_of(own) + bin * kBinWords;
    twice[0] = twice[1] = line;
  }
  Left rows[kUserTiles];
  Scale scale[kUserTiles][2];
#pragma unroll
  for (int i = 0; i < kUserTiles; ++i) {
    rows[i].load(U, first_user + first_row + 16 * i, users);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int user = first_user + first_row + 16 * i + row + 8 * h;
      scale[i][h] = user < users ? scales[user] : Scale{0.f, 0.f};
    }
  }
  const char* lines =
      reinterpret_cast<const char*>(table + word_of(first_row + row) + threadIdx.x % 4 / 2);
  __syncthreads();
  float sum[kUserTiles][kFactors / 8][4] = {};
  for_each_tile<kGroupWarps>(tiles, V, first, last, [&](const u16* tile, int) {
    float s[kUserTiles][2][4];
    scores<kUserTiles>(s, rows, tile);
    u32 slopes[kUserTiles][4];
#pragma unroll
    for (int i = 0; i < kUserTiles; ++i)
#pragma unroll
      for (int t = 0; t < 2; ++t)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const char* own = lines + 4 * word_of(16 * i + 8 * h);
          const u32 a = place_of(s[i][t][2 * h], scale[i][h]);
          const u32 b = place_of(s[i][t][2 * h + 1], scale[i][h]);
          slopes[i][2 * t + h] =
              slopes_at(a, *reinterpret_cast<const u32*>(own + (a & kBinBytes)), b,
                        *reinterpret_cast<const u32*>(own + (b & kBinBytes)));
        }
    add_products<kUserTiles>(sum, slopes, tile);
  });
  const i64 range_number = static_cast<i64>(blockIdx.z) * gridDim.y + blockIdx.y;
  const i64 part = range_number * kGroups + warp / kGroupWarps;
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
#pragma unroll 4
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

// What slopes_to_items needs of some users, in shared memory. Rows of lines are rotated, so that the
// same place of eight neighbouring rows is in different banks.
constexpr int kRotation = 4;  // words a row
struct __align__(16) Users {
  u32 table[kStepUsers * kBins];
  u16 us[kStepUsers * kStride], ws[kStepUsers * kStride];
  Scale scale[kStepUsers];
};

static_assert(2 * sizeof(Users) == kStepBytes, "as in kernels.py");

__device__ __forceinline__ void load_users(Users& to, const u16* U, const u16* W,
                                           const Scale* scales, const u32* tables, int first,
                                           int users) {
  constexpr int kChunks = kBins / 4;
  for (int i = threadIdx.x; i < kStepUsers * kChunks; i += blockDim.x) {
    const int row = i / kChunks, chunk = i % kChunks;
    const bool there = first + row < users;
    copy16(to.table + row * kBins + (chunk * 4 + row % 8 * kRotation) % kBins,
           tables + (there ? static_cast<i64>(first + row) : 0) * kBins + chunk * 4, there);
  }
  load_rows<kStepUsers, kThreads>(to.us, U, first, users);
  load_rows<kStepUsers, kThreads>(to.ws, W, first, users);
  if (threadIdx.x < kStepUsers)
    to.scale[threadIdx.x] =
        first + threadIdx.x < users ? scales[first + threadIdx.x] : Scale{0.f, 0.f};
}

// Σ slope · W of items (blockIdx.x: which tile) over all users; the rows of W are those of U in
// the users' units, times a power of two, which the result is divided by.
extern "C" __global__ __launch_bounds__(kThreads, 1) void slopes_to_items(
    const u16* U, const u16* W, const u16* V, const Scale* scales, const u32* tables, int users,
    int items, const float* largest, int factors, float* out) {
  extern __shared__ __align__(16) unsigned char memory[];
  Users* steps = reinterpret_cast<Users*>(memory);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int first = blockIdx.x * kBlockItems + warp * 16 * kItemTiles;
  const i64 before = static_cast<i64>(blockIdx.z) * users;
  const i64 items_before = static_cast<i64>(blockIdx.z) * items;
  U += before * kFactors, W += before * kFactors, V += items_before * kFactors;
  scales += before, tables += before * kBins, out += items_before * factors;
  Left rows[kItemTiles];
#pragma unroll
  for (int i = 0; i < kItemTiles; ++i) rows[i].load(V, first + 16 * i, items);
  load_users(steps[0], U, W, scales, tables, 0, users);
  commit();
  const int column = lane % 4 * 2, turn = column * kRotation;
  // The line of a place in a row that is rotated by `turn` words.
  const auto line_at = [](const u32* row, u32 place, int turn) {
    return row[((place >> kPartBits) + turn) & (kBins - 1)];
  };
  float sum[kItemTiles][kFactors / 8][4] = {};
  int at = 0;
  for (int user = 0; user < users; user += kStepUsers, at ^= 1) {
    wait<0>();
    __syncthreads();
    if (user + kStepUsers < users)
      load_users(steps[at ^ 1], U, W, scales, tables, user + kStepUsers, users);
    commit();
    const Users& now = steps[at];
#pragma unroll 1
    for (int row = 0; row < kStepUsers; row += 16) {
      float s[kItemTiles][2][4];
      scores<kItemTiles>(s, rows, now.us + row * kStride);
      u32 slopes[kItemTiles][4];
#pragma unroll
      for (int t = 0; t < 2; ++t) {
        const Scale a = now.scale[row + t * 8 + column], b = now.scale[row + t * 8 + column + 1];
        const u32 *from_a = now.table + (row + t * 8 + column) * kBins, *from_b = from_a + kBins;
#pragma unroll
        for (int i = 0; i < kItemTiles; ++i)
#pragma unroll
          for (int h = 0; h < 2; ++h) {
              const u32 x = place_of(s[i][t][2 * h], a), y = place_of(s[i][t][2 * h + 1], b);
              slopes[i][2 * t + h] = slopes_at(x, line_at(from_a, x, turn), y,
                                               line_at(from_b, y, turn + kRotation));
          }
      }
      add_products<kItemTiles>(sum, slopes, now.ws + row * kStride);
    }
  }
  const float back = 1.f / power_for(largest[blockIdx.z]);
#pragma unroll
  for (int i = 0; i < kItemTiles; ++i)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int item = first + 16 * i + lane / 4 + 8 * h;
      if (item >= items) continue;
      float* to = out + static_cast<i64>(item) * factors;
#pragma unroll
      for (int f = 0; f < kFactors / 8; ++f)
#pragma unroll
        for (int e = 0; e < 2; ++e)
          if (f * 8 + column + e < factors) to[f * 8 + column + e] = sum[i][f][2 * h + e] * back;
    }
}

// to[item] −= Σ own · from[row] over the records of an item. `order` puts items in rising order; a
// block serves the item that begins at its place, and adds in that order.
extern "C" __global__ void add_records(const int* items, const int* rows, const i64* order,
                                       const float* own, const float* from, int records,
                                       int factors, int n_from, int n_to, float* to) {
  const int begin = blockIdx.x, item = items[order[begin]];
  if (begin > 0 && items[order[begin - 1]] == item) return;
  own += static_cast<i64>(blockIdx.z) * records;
  from += static_cast<i64>(blockIdx.z) * n_from * factors;
  to += static_cast<i64>(blockIdx.z) * n_to * factors;
  int end = begin + 1;
  while (end < records && items[order[end]] == item) ++end;
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

// One step of Adam on the numbers of V; `decay` of its row is added to the gradient.
extern "C" __global__ void adam(float* V, float* first, float* second, const float* gradient,
                                const float* decay, int factors, int rows, float share, float b1,
                                float b2, float rate, float correction) {
  const i64 i = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x;  // of all models
  if (i >= static_cast<i64>(rows) * factors) return;
  const float g = fmaf(share * decay[i / factors], V[i], gradient[i]);
  const float f = first[i] = fmaf(b1, first[i], (1.f - b1) * g);
  const float s = second[i] = fmaf(b2, second[i], (1.f - b2) * g * g);
  V[i] -= rate * f / (sqrtf(s * correction) + 1e-8f);
}

// One step of row-wise Adagrad on rows of a block (a warp a row); sums, of which so much is kept,
// and decays are the users'.
extern "C" __global__ void adagrad(float* rows, const float* slopes, const i64* users,
                                   const float* decay, float* sums, int factors, int n,
                                   int n_users, float rate, float keep) {
  const int warp = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  if (warp >= n) return;
  const i64 row = static_cast<i64>(blockIdx.z) * n + warp;
  const i64 user = static_cast<i64>(blockIdx.z) * n_users + users[warp];
  float* own = rows + row * factors;
  const float* slope = slopes + row * factors;
  float square = 0.f;
  for (int f = threadIdx.x % 32; f < factors; f += 32) {
    const float g = fmaf(decay[user], own[f], slope[f]);
    square = fmaf(g, g, square);
  }
  const float sum = fmaf(keep, sums[user], sum_of_warp(square) / factors);
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

// The items of users whose scores lie in the bin `least` or above, in no order; `cursor` is where
// the user's begin in `found`.
extern "C" __global__ __launch_bounds__(kThreads, 1) void collect_scores(
    const u16* U, const u16* V, const Scale* scales, const int* least, int users, int items,
    int range, int* cursor, int* found) {
  extern __shared__ __align__(16) unsigned char memory[];
  const int first_user = blockIdx.x * kRows, row = threadIdx.x % 32 / 4;
  const int first = blockIdx.y * range, last = min(items, first + range);
  Left rows[kRowTiles];
  Scale scale[kRowTiles][2];
  int bound[kRowTiles][2];
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i) {
    rows[i].load(U, first_user + 16 * i, users);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int user = first_user + 16 * i + row + 8 * h;
      scale[i][h] = user < users ? scales[user] : Scale{0.f, 0.f};
      bound[i][h] = user < users ? least[user] : kBins;
    }
  }
  for_each_tile<1>(reinterpret_cast<u16*>(memory), V, first, last, [&](const u16* tile, int item) {
    const int own = item + threadIdx.x % 4 * 2;
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
      float s[1][2][4];
      scores<1>(s, rows + i, tile);
#pragma unroll
      for (int t = 0; t < 2; ++t)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int this_item = own + t * 8 + (e & 1), h = e >> 1;
          const int bin = place_of(s[0][t][e], scale[i][h]) >> kPartBits & (kBins - 1);
          if (bin >= bound[i][h] && this_item < last) {
            const int user = first_user + 16 * i + row + 8 * h;
            found[atomicAdd(cursor + user, 1)] = this_item;
          }
        }
    }
  });
}
