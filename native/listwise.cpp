#include "bindings.h"
void bind_listwise(nanobind::module_&) {}
