// Sampled updates of the factors, compiled once for each instruction set. Nothing here may emit a
// symbol that other files share (see kernels.h).

#include <math.h>
#include <string.h>

#include "kernels.h"

namespace robirank {
namespace ROBIRANK_ISA {
namespace {

// In this order: each builds on those before (empty comments keep clang-format from sorting them).
#include "sgd_vector.h"
//
#include "sgd_rows.h"
//
#include "sgd_draws.h"
//
#include "sgd_robirank.h"
#include "sgd_warp.h"

// Common widths get code of their own, with U_x in registers, and so do rows without centres.
template <bool kCentred>
CellReport robirank_of(const Cell& cell, const RobirankRule& rule) {
  switch (cell.width) {
    case 16:
      return robirank_cell<16, kCentred>(cell, rule);
    case 32:
      return robirank_cell<32, kCentred>(cell, rule);
    case 64:
      return robirank_cell<64, kCentred>(cell, rule);
    case 128:
      return robirank_cell<128, kCentred>(cell, rule);
    case 256:
      return robirank_cell<256, kCentred>(cell, rule);
    default:
      return robirank_cell<0, kCentred>(cell, rule);
  }
}

CellReport robirank(const Cell& cell, const RobirankRule& rule) {
  return cell.centre_u ? robirank_of<true>(cell, rule) : robirank_of<false>(cell, rule);
}

template <bool kCentred>
CellReport warp_of(const Cell& cell, const WarpRule& rule) {
  switch (cell.width) {
    case 32:
      return warp_cell<32, kCentred>(cell, rule);
    case 64:
      return warp_cell<64, kCentred>(cell, rule);
    case 128:
      return warp_cell<128, kCentred>(cell, rule);
    default:
      return warp_cell<0, kCentred>(cell, rule);
  }
}

CellReport warp(const Cell& cell, const WarpRule& rule) {
  return cell.centre_u ? warp_of<true>(cell, rule) : warp_of<false>(cell, rule);
}

float dot(const float* a, const float* b, int64_t width) {
  vec sum = {};
  for (int64_t j = 0; j < width; j += kLanes) sum += load(a + j) * load(b + j);
  return add_lanes(sum);
}

}  // namespace

const SgdKernels sgd_kernels = {robirank, warp, draw, dot};

}  // namespace ROBIRANK_ISA
}  // namespace robirank
