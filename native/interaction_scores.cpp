// The scores of a part's interactions with the items of a block.
#include <cstdint>

#include "arrays.h"
#include "bindings.h"
#include "checks.h"
#include "kernels/kernels.h"
#include "task.h"

namespace nb = nanobind;
using namespace robirank;

namespace {

// out[r] = <U_x, V_y> for the interactions of the part that lie in the block.
void interaction_scores(Matrix<float> U, Matrix<float> V, const UserItems& user_items,
                        Vector<int32_t> position, int64_t first, MutableVector<float> out) {
  const int64_t width = U.shape(1);
  check_row_width("U", width);
  check_columns("V", V.shape(1), width);
  check_length("U", U.shape(0), user_items.n_users());
  check_length("position", position.shape(0), user_items.n_items());
  check_length("out", out.shape(0), user_items.n());
  const Block block(position, first, V.shape(0), kMaxCell);
  nb::gil_scoped_release released;
  block.visit(user_items, [&](int64_t r, int32_t x, uint32_t place) {
    out.data()[r] = kernels().sgd.dot(U.data() + x * width, V.data() + place * width, width);
  });
}

}  // namespace

void bind_interaction_scores(nb::module_& m) {
  m.def("interaction_scores", &interaction_scores, nb::kw_only(), nb::arg("U"), nb::arg("V"),
        nb::arg("user_items"), nb::arg("position"), nb::arg("first"), nb::arg("out").noconvert(),
        "Write the score of every interaction whose item lies in the block to out.");
}
