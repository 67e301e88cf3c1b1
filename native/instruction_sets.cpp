// Which instruction set's kernels run: the best one that this machine supports, chosen when the
// module is loaded, until another one is asked for.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "bindings.h"
#include "kernels/kernels.h"

namespace nb = nanobind;
using namespace robirank;

namespace {

#define ROBIRANK_TABLE(set) {#set, set::list_kernels, set::tile_kernels, set::sgd_kernels}
const Kernels baseline_table = ROBIRANK_TABLE(baseline);
#ifdef ROBIRANK_X86
const Kernels avx2_table = ROBIRANK_TABLE(avx2), avx512_table = ROBIRANK_TABLE(avx512);
#endif

// From the most general to the fastest.
std::vector<const Kernels*> supported_tables() {
  std::vector<const Kernels*> found = {&baseline_table};
#ifdef ROBIRANK_X86
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("bmi2")) {
    found.push_back(&avx2_table);
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
      found.push_back(&avx512_table);
  }
#endif
  return found;
}

const Kernels* in_use = supported_tables().back();

std::vector<std::string> instruction_sets() {
  std::vector<std::string> names;
  for (const Kernels* table : supported_tables()) names.emplace_back(table->name);
  return names;
}

void use_instruction_set(const std::string& name) {
  for (const Kernels* table : supported_tables())
    if (name == table->name) {
      in_use = table;
      return;
    }
  throw std::invalid_argument("this machine cannot run instruction set '" + name + "'");
}

}  // namespace

const Kernels& robirank::kernels() { return *in_use; }

void bind_instruction_sets(nb::module_& m) {
  m.def("instruction_sets", &instruction_sets,
        "The instruction sets that this machine can run, the fastest one last.");
  m.def(
      "instruction_set", [] { return std::string(kernels().name); },
      "The instruction set whose kernels run.");
  m.def("use_instruction_set", &use_instruction_set, nb::arg("name"),
        "Run the kernels of another instruction set from now on.");
}
