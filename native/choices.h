// Arguments that are one of a few names, such as rho="log".
#pragma once
#include <nanobind/nanobind.h>

#include <stdexcept>
#include <string>

#include "kernels/kernels.h"

namespace robirank {

// The names of an enum's values, in their order; a null pointer stands for None.
template <class E>
struct Names;

template <>
struct Names<Rho> {
  static constexpr const char* argument = "rho";
  static constexpr const char* all[] = {"log", "identity", "type2"};
  static constexpr auto type =
      nanobind::detail::const_name("typing.Literal['log', 'identity', 'type2']");
};

template <>
struct Names<Method> {
  static constexpr const char* argument = "method";
  static constexpr const char* all[] = {"auto", "direct", "grid"};
  static constexpr auto type =
      nanobind::detail::const_name("typing.Literal['auto', 'direct', 'grid']");
};

template <>
struct Names<Hessian> {
  static constexpr const char* argument = "hessian";
  static constexpr const char* all[] = {nullptr, "exact", "majorant"};
  static constexpr auto type = nanobind::detail::const_name("typing.Literal['exact', 'majorant']");
};

// Accepts any object, so that the error can show it.
template <class E>
class Choice {
 public:
  nanobind::handle given;

  E value() const {
    std::string allowed;
    int place = 0;
    for (const char* name : Names<E>::all) {
      if (name ? is_text(name) : given.is_none()) return static_cast<E>(place);
      allowed += (place++ ? ", " : "") + (name ? "'" + std::string(name) + "'" : "None");
    }
    throw std::invalid_argument(std::string(Names<E>::argument) + " must be one of [" + allowed +
                                "]; got " + nanobind::repr(given).c_str());
  }

 private:
  bool is_text(const char* text) const {
    return PyUnicode_Check(given.ptr()) && PyUnicode_CompareWithASCIIString(given.ptr(), text) == 0;
  }
};

}  // namespace robirank

template <class E>
struct nanobind::detail::type_caster<robirank::Choice<E>> {
  NB_TYPE_CASTER(robirank::Choice<E>, robirank::Names<E>::type)
  bool from_python(handle src, uint8_t, cleanup_list*) noexcept {
    value.given = src;
    return true;
  }
};
