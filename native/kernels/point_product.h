// The inner sums of a few users whose scores are computed here and, as a rule, never leave the
// first-level cache.
// A part of list_kernels.cpp, which includes it inside the namespace of an instruction set.
#pragma once

// Multiplying and counting use different units of a core: registers and multipliers the one, loads
// and stores the other. So they are interleaved: while a tile is multiplied, the scores of the tile
// before are counted, a few after every factor.

constexpr int kCountsAFactor = tile::kItems / 8;
static_assert(tile::kItems % kCountsAFactor == 0, "a user's places are counted in whole groups");

// Where the scores of a tile fall in the grids of their users.
struct Places {
  uint32_t of[tile::kUsers][tile::kItems];
};

// What turns scores into places: the begin of a user's grid and its last place.
struct Ruler {
  float begin, limit;
};

inline __attribute__((always_inline)) void count_place(uint32_t place, uint64_t* counts) {
  counts[place >> kFractionBits] += kOneItem + place;
}

// Counts the first n places of every user, `stride` counters per user.
inline void count_places(const Places& places, int n, uint64_t* counts, int64_t stride) {
  for (int i = 0; i < tile::kUsers; ++i)
    for (int j = 0; j < n; ++j) count_place(places.of[i][j], counts + i * stride);
}

inline __attribute__((always_inline)) void to_places(const tile::Scores<tile::kUsers>& scores,
                                                     const Ruler* rulers, Places* places) {
#pragma GCC unroll 8  // otherwise the sums would have to live in memory
  for (int i = 0; i < tile::kUsers; ++i) {
    float s[tile::kItems];
    for (int j = 0; j < tile::kVectors; ++j) tile::store(s + j * tile::kLanes, scores.sum[i][j]);
#pragma omp simd
    for (int j = 0; j < tile::kItems; ++j)
      places->of[i][j] = place_of(s[j], rulers[i].begin, rulers[i].limit);
  }
}

// Multiplies one tile; meanwhile counts the places of the tile before and puts the new ones there.
void multiply_and_count(const float* __restrict users, const float* __restrict items, int64_t d,
                        const Ruler* rulers, Places* places, uint64_t* __restrict counts,
                        int64_t stride) {
  tile::Scores<tile::kUsers> scores;
  int64_t k = 0;
  for (int i = 0; i < tile::kUsers; ++i, counts += stride) {
    const int64_t end = (i + 1) * d / tile::kUsers;
    const uint32_t* place = places->of[i];
    const uint32_t* const last = place + tile::kItems;
    for (; k < end && place < last; ++k, place += kCountsAFactor) {
      scores.add(users, items, k);
#pragma GCC unroll 8
      for (int a = 0; a < kCountsAFactor; ++a) count_place(place[a], counts);
    }
    for (; k < end; ++k) scores.add(users, items, k);
    for (; place < last; ++place) count_place(*place, counts);
  }
  to_places(scores, rulers, places);
}

void multiply(const float* users, const float* items, int64_t d, const Ruler* rulers,
              Places* places) {
  tile::Scores<tile::kUsers> scores;
  for (int64_t k = 0; k < d; ++k) scores.add(users, items, k);
  to_places(scores, rulers, places);
}

// Counts the scores of the users of a tile with n > 0 items.
void count_product(const float* users, const float* items, int64_t n, int64_t d,
                   const PointRow* rows, uint64_t* counts, int64_t stride) {
  Ruler rulers[tile::kUsers];
  for (int i = 0; i < tile::kUsers; ++i) {
    const Grid<float> grid = grid_of(rows[i]);
    rulers[i] = {grid.begin, last_place(grid)};
  }
  Places places;
  multiply(users, items, d, rulers, &places);
  int64_t begin = tile::kItems;
  for (; begin < n; begin += tile::kItems)
    multiply_and_count(users, items + begin * d, d, rulers, &places, counts, stride);
  count_places(places, n - (begin - tile::kItems), counts, stride);
}

// The scores of one user of a tile with n items.
void score_row(const float* user, const float* items, int64_t n, int64_t d, float* out) {
  for (int64_t begin = 0; begin < n; begin += tile::kItems) {
    tile::Scores<1> scores;
    for (int64_t k = 0; k < d; ++k) scores.add(user, items + begin * d, k);
    float s[tile::kItems];
    for (int j = 0; j < tile::kVectors; ++j) tile::store(s + j * tile::kLanes, scores.sum[0][j]);
    const int64_t count = n - begin < tile::kItems ? n - begin : tile::kItems;
    memcpy(out + begin, s, count * sizeof(float));
  }
}

inline void add_counted(const float* users, const float* items, int64_t n, int64_t d,
                        PointRow* rows, uint64_t* counts, int64_t stride, float* scores) {
  count_product(users, items, n, d, rows, counts, stride);
  for (int i = 0; i < tile::kUsers; ++i, counts += stride) {
    if (rows[i].k == 0) {
      memset(counts, 0, rows[i].cells * kFinePerCell * sizeof(uint64_t));
      continue;
    }
    if (any_outside(rows[i], counts)) {  // the scores are needed after all
      score_row(users + i, items, n, d, scores);
      recount(scores, n, rows + i, counts);
    }
    fold_row(rows + i, counts);
  }
}

void add_product(const float* users, const float* items, int64_t n, int64_t d, PointRow* rows,
                 uint64_t* counts, int64_t stride, float* scores, const Scratch& scratch) {
  bool counting = true;  // unless items are few, or a user of the tile has no grid
  for (int i = 0; i < tile::kUsers; ++i)
    counting = counting && worth_counting(n, Method::automatic, rows[i]);
  if (counting) return add_counted(users, items, n, d, rows, counts, stride, scores);
  for (int i = 0; i < tile::kUsers; ++i) {
    if (rows[i].k == 0) continue;
    score_row(users + i, items, n, d, scores);
    add_to_row(scores, n, Method::automatic, rows + i, scratch);
  }
}
