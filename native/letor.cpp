#include "bindings.h"
void bind_letor(nanobind::module_&) {}
