// How the kernels cut users, items and factors. Compiled at run time for a number of factors
// (kFactors, a multiple of 16, rows padded with zeros) and a number of users of a tile (kRows: 16,
// 32 or 64); layout.py has these and how blocks of threads are used. Factors are half-precision
// numbers, sums are float.
//
// Several models (blockIdx.z: which) can be served at once: their users and interactions are the
// same, and arrays of one model follow those of another.

typedef unsigned int u32;
typedef unsigned short u16;  // a half-precision number
typedef long long i64;
typedef unsigned long long u64;

constexpr int kRowTiles = kRows / 16;
constexpr int kSteps = kFactors / 16;
// Halves from a row of the right side to the next in shared memory. Rows of mma have a gap, so that
// no bank is met twice. wgmma has none; see `place_of_chunk`.
constexpr int kStride = kTogether ? kFactors : kFactors + 8;
constexpr int kColumns = kTogether ? 32 : 16;  // users or items of one product's right side
// count_scores and collect_scores: tiles of users of a warp, and warps that share items.
constexpr int kCountTiles = kTogether ? 1 : kRowTiles;
constexpr int kCountWarps = kRowTiles / kCountTiles;
constexpr int kCountGroups = kCountThreads / 32 / kCountWarps;
// gradient_of_users: the same.
constexpr int kUserTiles = !kTogether && kRows > 16 && kFactors <= 128 ? 2 : 1;
constexpr int kGroupWarps = kRowTiles / kUserTiles;
constexpr int kUserGroups = kUserThreads / 32 / kGroupWarps;
constexpr int kBlockItems = 16 * kItemTiles * kItemThreads / 32;

// Places are integers in the low bits of a float from 2^23 on: a bin (or line) and a part of it.
constexpr int kPartBits = 6, kParts = 1 << kPartBits;
constexpr int kSumBits = 19;  // a counter: 13 bits items, 19 bits parts
constexpr int kMostItems = 8191 / kRangeUnit * kRangeUnit;  // between flushes
constexpr float kPlaces = kBins * kParts - 1;
constexpr float kInteger = 8388608.f;  // 2^23

// The bins (or lines) of eight rows lie side by side in shared memory, a word each, and each row's
// twice: lanes 0 and 1 of the four that share a row use the first, lanes 2 and 3 the second. So no
// more than two lanes of a warp meet in a bank.
//
//   word    0     1     2     3          14    15  |  16    17  …
//   row     0     0     1     1    …      7     7  |   0     0
//   bin     0     0     0     0           0     0  |   1     1
//
// A bin is 64 bytes and has 64 parts. So the place of a score in parts of bins, without its six
// lowest bits (the part), is the offset of its bin in bytes.
constexpr int kBinWords = 16;
static_assert(4 * kBinWords == kParts, "a bin is as many bytes as it has parts");
constexpr u32 kBinBytes = (kBins - 1) * 4 * kBinWords;
__device__ __forceinline__ int word_of(int row) {
  return row / 8 * kBins * kBinWords + row % 8 * 2;
}

static_assert(8 * kRows * kBins + 2 * kCountGroups * (2 * kColumns * kStride + 8) == kCountBytes,
              "as in layout.py");
static_assert(8 * kRows * kBins + 2 * kExpectedGroups * (2 * kUserColumns * kStride + 8) ==
                  kToUsersBytes,
              "as in layout.py");
static_assert(kUserGroups == kExpectedGroups, "as in layout.py");
static_assert(kBlockItems == kExpectedBlockItems, "as in layout.py");
static_assert(kRangeUnit % kUserColumns == 0 && kMostItems % kRangeUnit == 0,
              "tiles do not reach into the next range");

__device__ __forceinline__ i64 padded(int rows) {
  return kTogether ? (rows + kBlockItems - 1) / kBlockItems * static_cast<i64>(kBlockItems) : rows;
}
// Where a chunk of 8 factors (16 bytes) of a row is, counted in chunks, in rows of `stride` halves.
// wgmma reads pieces of 8 rows and 64 factors, 1024 bytes, whose chunks are permuted (its swizzle
// of 128 bytes); the pieces of 8 rows follow each other. V is stored so, and padded to whole
// blocks: one thread can copy a tile.
__device__ __forceinline__ i64 place_of_chunk(i64 row, int chunk, int stride) {
  if (!kTogether) return row * (stride / 8) + chunk;
  return row / 8 * kFactors + chunk / 8 * 64 + row % 8 * 8 + (chunk ^ row % 8) % 8;
}

// A user's grid: a score s is at the place s · inverse_width + shift, from 0 to 1. Where the grid
// would be too coarse, inverse_width is 0.
struct Grid {
  float shift, inverse_width;
};
