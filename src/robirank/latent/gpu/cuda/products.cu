// Copies to shared memory, and products on the tensor cores. A function that stands for one
// instruction has its name.
//
// Fragments are those of mma.m16n8k16: lane l holds rows l / 4 and l / 4 + 8 of a 16 × 8 tile, at
// the columns 2 (l % 4) and 2 (l % 4) + 1. The left side of products stays in registers, but for
// SharedLeft; groups of warps bring the right side to shared memory for themselves, and wait for no
// other group. Where kTogether (Hopper), four warps multiply together by wgmma, which takes the
// right side from shared memory, and holds fragments of the same form.

__device__ __forceinline__ u32 shared_address(const void* p) {
  return static_cast<u32>(__cvta_generic_to_shared(p));
}
__device__ __forceinline__ void cp_async_16(void* to, const void* from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(there ? 16 : 0));
}
// What this thread wrote to shared memory is seen by wgmma and by bulk copies.
__device__ __forceinline__ void fence_proxy_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
// Until all copies of this thread are there, also for wgmma.
__device__ __forceinline__ void cp_async_wait_all() {
  asm volatile("cp.async.wait_all;" ::: "memory");
  if (kTogether) fence_proxy_async();
}

// Copies of many bytes by one thread; who needs them waits at `arrival`, which counts turns. It has
// to be shown to copies when it is prepared.
__device__ __forceinline__ void mbarrier_init(u64& arrival) {
  asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(shared_address(&arrival)) : "memory");
}
__device__ __forceinline__ void mbarrier_expect_tx(u64& arrival, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared_address(&arrival)),
               "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void cp_async_bulk(void* to, const void* from, int bytes, u64& arrival) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(&arrival))
      : "memory");
}
__device__ __forceinline__ void mbarrier_wait(u64& arrival, u32 turn) {
  u32 there;
  do {
    asm volatile(
        "{.reg .pred there; mbarrier.try_wait.parity.shared.b64 there, [%1], %2;\n"
        "selp.u32 %0, 1, 0, there;}"
        : "=r"(there)
        : "r"(shared_address(&arrival)), "r"(turn & 1)
        : "memory");
  } while (!there);
}

__device__ __forceinline__ void ldmatrix_x4(u32 (&r)[4], const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(p)));
}
__device__ __forceinline__ void ldmatrix_x4_trans(u32 (&r)[4], const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(p)));
}
__device__ __forceinline__ void mma_m16n8k16(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ u32 cvt_f16x2(float low, float high) {
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
__device__ __forceinline__ u32 sub_f16x2(u32 a, u32 b) {
  u32 both;
  asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(both) : "r"(a), "r"(b));
  return both;
}
__device__ __forceinline__ u32 mul_f16x2(u32 a, u32 b) {
  u32 both;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(both) : "r"(a), "r"(b));
  return both;
}
__device__ __forceinline__ u32 fma_f16x2(u32 a, u32 b, u32 c) {
  u32 both;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(both) : "r"(a), "r"(b), "r"(c));
  return both;
}
// a · b + c, clamped to [0, 1].
__device__ __forceinline__ float fma_sat(float a, float b, float c) {
  float x;
  asm("fma.rn.sat.f32 %0, %1, %2, %3;" : "=f"(x) : "f"(a), "f"(b), "f"(c));
  return x;
}
__device__ __forceinline__ float ex2_approx(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float lg2_approx(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float rcp_approx(float x) {
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
    cp_async_16(to + 8 * place_of_chunk(row, chunk, kStride),
                from + (there ? static_cast<i64>(first + row) : 0) * kFactors + chunk * 8, there);
  }
}

// Rows as the left side of products that are in shared memory, as only wgmma takes them.
struct SharedLeft {
  const u16* rows;
};

// wgmma: four warps together multiply 64 rows by 32 columns, or by 64.
#define FOUR(c) "+f"((c)[0]), "+f"((c)[1]), "+f"((c)[2]), "+f"((c)[3])
__device__ __forceinline__ void wgmma_m64n32k16(float (&c)[4][4], const u32 (&a)[4], u64 b,
                                                int add) {
  asm volatile(
      "{.reg .pred add; setp.ne.b32 add, %21, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,"
      "%12,%13,%14,%15}, {%16,%17,%18,%19}, %20, add, 1, 1, 0;}"
      : FOUR(c[0]), FOUR(c[1]), FOUR(c[2]), FOUR(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));
}
__device__ __forceinline__ void wgmma_m64n32k16(float (&c)[4][4], u64 a, u64 b, int add) {
  asm volatile(
      "{.reg .pred add; setp.ne.b32 add, %18, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,"
      "%12,%13,%14,%15}, %16, %17, add, 1, 1, 0, 0;}"
      : FOUR(c[0]), FOUR(c[1]), FOUR(c[2]), FOUR(c[3])
      : "l"(a), "l"(b), "r"(add));
}
__device__ __forceinline__ void wgmma_m64n64k16(float (*c)[4], const u32 (&a)[4], u64 b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,"
      "%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, "
      "{%32,%33,%34,%35}, %36, 1, 1, 1, 1;"
      : FOUR(c[0]), FOUR(c[1]), FOUR(c[2]), FOUR(c[3]), FOUR(c[4]), FOUR(c[5]), FOUR(c[6]),
        FOUR(c[7])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
// How wgmma finds rows in pieces (see `place_of_chunk`); the next eight are kFactors chunks on.
__device__ __forceinline__ u64 wgmma_descriptor(const u16* rows) {
  return (shared_address(rows) & 0x3FFFF) >> 4 | 1ull << 16 | static_cast<u64>(kFactors) << 32 |
         1ull << 62;
}
// The same from the factor 16 · step on.
__device__ __forceinline__ u64 wgmma_descriptor(const u16* rows, int step) {
  return wgmma_descriptor(rows) + step / 4 * 64 + step % 4 * 2;
}
__device__ __forceinline__ void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void wgmma_commit_group() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Until these are there, and all that began before the `later` last.
template <int later, int n>
__device__ __forceinline__ void wgmma_wait_group(float (&c)[n][4]) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(later) : "memory");
#pragma unroll
  for (int i = 0; i < n; ++i) asm volatile("" : FOUR(c[i])::"memory");
}
template <int n>
__device__ __forceinline__ void begin_scores(float (&s)[n][4], const Left& left, const u16* b) {
  wgmma_fence();
#pragma unroll
  for (int k = 0; k < kSteps; ++k) wgmma_m64n32k16(s, left.at[k], wgmma_descriptor(b, k), k);
  wgmma_commit_group();
}
template <int n>
__device__ __forceinline__ void begin_scores(float (&s)[n][4], SharedLeft left, const u16* b) {
  wgmma_fence();
#pragma unroll
  for (int k = 0; k < kSteps; ++k)
    wgmma_m64n32k16(s, wgmma_descriptor(left.rows, k), wgmma_descriptor(b, k), k);
  wgmma_commit_group();
}
template <int n, int m>
__device__ __forceinline__ void begin_sums(float (&sum)[n][4], const u32 (&derivatives)[m][4],
                                           const u16* b) {
  wgmma_fence();
#pragma unroll
  for (int c = 0; c < m; ++c)
#pragma unroll
    for (int k = 0; k < kSteps; k += 4)
      wgmma_m64n64k16(sum + 2 * k, derivatives[c], wgmma_descriptor(b + 16 * c * kStride, k));
  wgmma_commit_group();
}

// mma: a warp multiplies 16 · tiles rows by 16.
template <int tiles>
__device__ __forceinline__ void multiply_rows(float (&s)[tiles][2][4], const Left* left,
                                              const u16* b) {
  const int lane = threadIdx.x % 32;
  const u16* from = b + ((lane & 7) + ((lane >> 4) << 3)) * kStride + ((lane >> 3) & 1) * 8;
#pragma unroll
  for (int i = 0; i < tiles; ++i)
#pragma unroll
    for (int e = 0; e < 8; ++e) s[i][e / 4][e % 4] = 0.f;
#pragma unroll
  for (int k = 0; k < kSteps; ++k) {
    u32 right[4];
    ldmatrix_x4(right, from + 16 * k);
#pragma unroll
    for (int i = 0; i < tiles; ++i) {
      mma_m16n8k16(s[i][0], left[i].at[k], right[0], right[1]);
      mma_m16n8k16(s[i][1], left[i].at[k], right[2], right[3]);
    }
  }
}
template <int tiles>
__device__ __forceinline__ void add_rows(float (&sum)[tiles][kFactors / 8][4],
                                         const u32 (&derivatives)[tiles][1][4], const u16* b) {
  const int lane = threadIdx.x % 32;
  const u16* from = b + (lane & 15) * kStride + (lane >> 4) * 8;
#pragma unroll
  for (int f = 0; f < kSteps; ++f) {
    u32 right[4];
    ldmatrix_x4_trans(right, from + f * 16);
#pragma unroll
    for (int i = 0; i < tiles; ++i) {
      mma_m16n8k16(sum[i][2 * f], derivatives[i][0], right[0], right[1]);
      mma_m16n8k16(sum[i][2 * f + 1], derivatives[i][0], right[2], right[3]);
    }
  }
}

// Scores of tiles of rows with kColumns rows of b.
template <int tiles, int n, class Side>
__device__ __forceinline__ void scores(float (&s)[tiles][n][4], const Side* left, const u16* b) {
  if constexpr (kTogether) {
#pragma unroll
    for (int i = 0; i < tiles; ++i) begin_scores(s[i], left[i], b);
#pragma unroll
    for (int i = 0; i < tiles; ++i) wgmma_wait_group<0>(s[i]);
  } else {
    multiply_rows(s, left, b);
  }
}

// sum += derivatives · (kColumns rows of b), for tiles of derivatives.
template <int tiles, int m>
__device__ __forceinline__ void add_products(float (&sum)[tiles][kFactors / 8][4],
                                             const u32 (&derivatives)[tiles][m][4], const u16* b) {
  if constexpr (kTogether) {
#pragma unroll
    for (int i = 0; i < tiles; ++i) begin_sums(sum[i], derivatives[i], b);
#pragma unroll
    for (int i = 0; i < tiles; ++i) wgmma_wait_group<0>(sum[i]);
  } else {
    add_rows(sum, derivatives, b);
  }
}

// The first row of a warp, of a tile that a group of warps shares.
template <int warps, int tiles>
__device__ __forceinline__ int first_row_of() {
  return threadIdx.x / 32 % warps * 16 * tiles;
}

// Room for tiles of so many items in shared memory, two for each group of warps.
template <int warps, int rows>
struct Tiles {
  u16* at;
  u64* arrivals;  // of wgmma's tiles, behind them
  u32 turn = 0;
  __device__ __forceinline__ explicit Tiles(void* memory) {
    const int all = blockDim.x / (32 * warps) * 2;
    at = reinterpret_cast<u16*>(memory);
    arrivals = reinterpret_cast<u64*>(at + all * rows * kStride);
    if (kTogether && threadIdx.x == 0) {
      for (int i = 0; i < all; ++i) mbarrier_init(arrivals[i]);
      fence_proxy_async();
    }
  }
};

template <int warps>
__device__ __forceinline__ void wait_for_group(int group) {
  if (warps == 1)
    __syncwarp();
  else
    asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "n"(32 * warps) : "memory");
}

// `work(tile, first)` for the tiles of a range of items, which groups of warps share out; the next
// tile of a group is loaded while it works.
template <int warps, int rows, class Work>
__device__ __forceinline__ void for_each_tile(Tiles<warps, rows>& tiles, const u16* V, int first,
                                              int last, const Work& work) {
  constexpr int kSize = rows * kStride;
  const int group = threadIdx.x / (32 * warps), all = rows * (blockDim.x / (32 * warps));
  u16* own = tiles.at + 2 * group * kSize;
  u64* arrivals = tiles.arrivals + 2 * group;
  const auto load = [&](int from, u32 turn) {
    u16* to = own + turn % 2 * kSize;
    if (from >= last) return;
    if constexpr (!kTogether) {
      load_rows<rows, 32 * warps>(to, V, from, last);
    } else if (threadIdx.x % (32 * warps) == 0) {
      mbarrier_expect_tx(arrivals[turn % 2], 2 * kSize);
      cp_async_bulk(to, V + static_cast<i64>(from) * kFactors, 2 * kSize, arrivals[turn % 2]);
    }
  };
  int item = first + group * rows;
  load(item, tiles.turn);
  for (; item < last; item += all, ++tiles.turn) {
    if (!kTogether) cp_async_wait_all();
    wait_for_group<warps>(group);  // all are done with the tile before
    load(item + all, tiles.turn + 1);
    if (kTogether) mbarrier_wait(arrivals[tiles.turn % 2], tiles.turn / 2);
    work(own + tiles.turn % 2 * kSize, item);
  }
}

__device__ __forceinline__ float sum_of_warp(float x) {
  for (int step = 16; step; step >>= 1) x += __shfl_xor_sync(~0u, x, step);
  return x;
}

// most = max(most, the number that has these bits); neither is negative.
__device__ __forceinline__ void raise(float* most, int bits) {
  int* to = reinterpret_cast<int*>(most);
  if (bits > *reinterpret_cast<volatile int*>(to)) atomicMax(to, bits);
}
