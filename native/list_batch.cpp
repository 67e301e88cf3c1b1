#include "list_batch.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "bindings.h"
#include "checks.h"

namespace nb = nanobind;

namespace robirank {

ListBatch::ListBatch(Vector<int64_t> offsets, Vector<int64_t> starts, Vector<int32_t> relevant,
                     Vector<double> weight)
    : offsets_(offsets), starts_(starts), relevant_(relevant), weight_(weight) {
  check_offsets("offsets", offsets);
  check_length("starts", starts.shape(0), offsets.shape(0));
  check_offsets("starts", starts, n_relevant());
  check_length("weight", weight.shape(0), n_relevant());
  for (int64_t q = 0; q < n_lists(); ++q) {
    for (int64_t i = relevant_begin(q); i < relevant_begin(q + 1); ++i)
      if (relevant.data()[i] < 0 || relevant.data()[i] >= size(q))
        throw std::invalid_argument("relevant must hold places within the lists; list " +
                                    std::to_string(q) + " has " + std::to_string(size(q)) +
                                    " items, and relevant[" + std::to_string(i) + "] is " +
                                    std::to_string(relevant.data()[i]));
    longest_ = std::max(longest_, size(q));
    most_relevant_ = std::max(most_relevant_, relevant_size(q));
    work_ += static_cast<double>(size(q)) * (1 + relevant_size(q));
  }
}

}  // namespace robirank

using namespace robirank;

void bind_list_batch(nb::module_& m) {
  nb::class_<ListBatch>(
      m, "ListBatch",
      "Lists for the listwise kernel. List q has the scores offsets[q]:offsets[q + 1] and the "
      "relevant items relevant[starts[q]:starts[q + 1]] (places within the list), with weights.")
      .def(nb::init<Vector<int64_t>, Vector<int64_t>, Vector<int32_t>, Vector<double>>(),
           nb::kw_only(), nb::arg("offsets"), nb::arg("starts"), nb::arg("relevant"),
           nb::arg("weight"));
}
