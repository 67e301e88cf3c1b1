// Random choices of entries within each row of a table.
#include <cstdint>
#include <memory>

#include "arrays.h"
#include "bindings.h"
#include "checks.h"
#include "parallel.h"
#include "streams.h"

namespace nb = nanobind;
using namespace robirank;

namespace {

// For each row, mark `take` of its entries, every set of that size being as likely as any other
// (selection sampling: Knuth, The Art of Computer Programming 2, algorithm 3.4.2S).
Result<uint8_t> sample_rows(Vector<int64_t> indptr, Vector<int64_t> take, uint64_t seed,
                            int num_threads) {
  check_offsets("indptr", indptr);
  const int64_t rows = static_cast<int64_t>(indptr.shape(0)) - 1, n = indptr.data()[rows];
  check_length("take", take.shape(0), rows);
  auto chosen = allocate<uint8_t>(n);
  {
    nb::gil_scoped_release released;
    const int threads = thread_count(num_threads, rows, 5.0 * n);
    parallel_for(threads, rows, 1024, [&](int64_t u) {
      Stream random(seed, u);
      int64_t remaining = indptr.data()[u + 1] - indptr.data()[u], to_mark = take.data()[u];
      for (int64_t i = indptr.data()[u]; i < indptr.data()[u + 1]; ++i, --remaining) {
        chosen[i] = random.below(remaining) < to_mark;
        to_mark -= chosen[i];
      }
    });
  }
  return hand_over(std::move(chosen), n);
}

}  // namespace

void bind_sample_rows(nb::module_& m) {
  m.def("sample_rows", &sample_rows, nb::arg("indptr"), nb::arg("take"), nb::kw_only(),
        nb::arg("seed"), nb::arg("num_threads"),
        "A mark for each entry of a ragged array: take[u] random ones of row u are 1.");
}
