// The inner sums of a batch of users for Python, while the items pass by.
//
// Items are taken a chunk at a time, packed once for all users of the batch; then a few users at a
// time are multiplied with the chunk, which stays in a cache. As a rule no score leaves the
// first-level cache.
#include <algorithm>
#include <memory>
#include <vector>

#include "arrays.h"
#include "bindings.h"
#include "checks.h"
#include "kernels/kernels.h"
#include "scratch.h"

namespace nb = nanobind;
using namespace robirank;

namespace {

constexpr int64_t kChunkBytes = 1 << 22;                     // packed items
constexpr int64_t kMinChunk = 1 << 11, kMaxChunk = 1 << 15;  // items
static_assert(kMinChunk / 2 > kFewItems, "a chunk is worth counting, whatever its tiles");
static_assert(kMaxChunk <= kMaxCount, "a chunk is counted without a fold in between");

// t[p] = Σ_y log2(1 + 2^(⟨U_b, V_y⟩ − points[p])) over all items y for the points
// offsets[b]:offsets[b + 1] of every user b. The bits depend on the order of the items, but not on
// how many come at a time, unless the sums are asked for in between. For one thread at a time.
class InnerSums {
 public:
  InnerSums(Matrix<float> U, Vector<int64_t> offsets, Vector<float> points)
      : lists_(kernels().lists),
        tiles_(kernels().tiles),
        d_(U.shape(1)),
        padded_(round_up(U.shape(0), tiles_.users)),
        chunk_(chunk_items(d_, tiles_.items)),
        offsets_(offsets.data(), offsets.data() + offsets.shape(0)),
        points_(points.data(), points.data() + points.shape(0)),
        t_(points_.size(), 0.0),
        users_(allocate_lines(padded_ * d_)),
        items_(allocate_lines(chunk_ * d_)),
        waiting_(allocate<float>(chunk_ * d_)),
        scores_(allocate<float>(chunk_)),
        scratch_(0) {
    check_length("offsets", offsets.shape(0), U.shape(0) + 1);
    check_offsets("offsets", offsets, points.shape(0));
    open_rows();
    tiles_.pack(U.data(), nullptr, nullptr, U.shape(0), d_, tiles_.users, users_.get());
  }

  void add(Matrix<float> V) {
    check_columns("V", V.shape(1), d_);
    if (rows_.empty()) return;
    nb::gil_scoped_release released;
    const float* at = V.data();
    for (int64_t left = V.shape(0), taken; left > 0; left -= taken, at += taken * d_) {
      taken = std::min(left, chunk_ - n_waiting_);
      if (taken == chunk_) {
        visit(at, taken);
        continue;
      }
      std::copy_n(at, taken * d_, waiting_.get() + n_waiting_ * d_);
      n_waiting_ += taken;
      if (n_waiting_ == chunk_) visit_waiting();
    }
  }

  Result<double> sums() {
    auto t = allocate<double>(t_.size());
    {
      nb::gil_scoped_release released;
      visit_waiting();
      for (size_t b = 0; b + 1 < offsets_.size(); ++b)
        lists_.close_row(rows_[b], t.get() + offsets_[b], scratch_.view());
    }
    return hand_over(std::move(t), t_.size());
  }

 private:
  static int64_t chunk_items(int64_t d, int width) {
    const int64_t bytes = std::max<int64_t>(d, 1) * sizeof(float);
    const int64_t items = std::clamp(kChunkBytes / bytes, kMinChunk, kMaxChunk);
    return items / width * width;
  }

  // Rows beyond the users have no points: they fill up the last tile.
  void open_rows() {
    const int64_t n = offsets_.size() - 1;
    int64_t cells = 0;
    int most = 0;
    for (int64_t b = 0; b < padded_; ++b) {
      const int64_t begin = offsets_[std::min(b, n)], end = offsets_[std::min(b + 1, n)];
      rows_.push_back(lists_.open_row(points_.data() + begin, end - begin));
      rows_[b].t = t_.data() + begin;
      cells += rows_[b].cells;
      most = std::max(most, rows_[b].cells);
    }
    moments_.assign(4 * cells, 0.0);
    double* next = moments_.data();
    for (PointRow& row : rows_) row.moments = next, next += 4 * row.cells;
    stride_ = most * kFinePerCell + 8;  // one cache line more, so that it is no power of two
    counts_.assign(tiles_.users * stride_, 0);
    std::fill_n(scratch_.view().counts, most * kFinePerCell, 0);
  }

  void visit(const float* items, int64_t n) {
    tiles_.pack(items, nullptr, nullptr, n, d_, tiles_.items, items_.get());
    for (int64_t b = 0; b < padded_; b += tiles_.users)
      lists_.add_product(users_.get() + b * d_, items_.get(), n, d_, rows_.data() + b,
                         counts_.data(), stride_, scores_.get(), scratch_.view());
  }

  void visit_waiting() {
    if (n_waiting_ > 0) visit(waiting_.get(), n_waiting_);
    n_waiting_ = 0;
  }

  const ListKernels& lists_;
  const TileKernels& tiles_;
  int64_t d_, padded_, chunk_, stride_ = 0, n_waiting_ = 0;
  std::vector<int64_t> offsets_;
  std::vector<float> points_;
  std::vector<double> t_, moments_;
  std::vector<uint64_t> counts_;
  std::vector<PointRow> rows_;
  Lines users_, items_;
  std::unique_ptr<float[]> waiting_, scores_;
  ThreadScratch scratch_;
};

}  // namespace

void bind_inner_sums(nb::module_& m) {
  nb::class_<InnerSums>(m, "InnerSums",
                        "Sums over all items for the points offsets[b]:offsets[b + 1] of every "
                        "user b, while the items pass by. For one thread at a time.")
      .def(nb::init<Matrix<float>, Vector<int64_t>, Vector<float>>(), nb::arg("U").noconvert(),
           nb::arg("offsets"), nb::arg("points").noconvert())
      .def("add", &InnerSums::add, nb::arg("V").noconvert(), "Add some items.")
      .def("sums", &InnerSums::sums, "The sums over the items so far, one for each point.");
}
