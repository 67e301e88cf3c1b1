// Zeroed memory that is returned to the system piece by piece.
//
// What a file holds is kept in pieces until its size is known, then copied into the result. To keep
// the peak near the size of the result, pieces must really be given back while the result fills up;
// small allocations would stay in the heap. A slab is large enough for the C library to map and
// unmap it on its own.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>

namespace letor {

// Some bytes of a slab; the slab is freed with its last piece.
struct SlabPiece {
  void* data = nullptr;
  std::shared_ptr<void> slab;
};

class SlabPool {
 public:
  // Zeroed bytes; safe to call from several threads.
  SlabPiece take(std::size_t bytes) {
    bytes = (bytes + 63) & ~std::size_t{63};
    const std::lock_guard<std::mutex> lock(mutex_);
    if (slab_ == nullptr || bytes > left_) {
      const std::size_t size = std::max(bytes, kSlab);
      void* const memory = std::calloc(size, 1);
      if (memory == nullptr) throw std::bad_alloc();
      slab_ = std::shared_ptr<void>(memory, std::free);
      next_ = static_cast<char*>(memory);
      left_ = size;
    }
    SlabPiece piece{next_, slab_};
    next_ += bytes;
    left_ -= bytes;
    return piece;
  }

  // No more pieces come from the current slab, so that it can be freed with its last piece.
  void close() {
    slab_.reset();
    left_ = 0;
  }

 private:
  // Above the largest size (32 MiB) for which glibc may use the heap.
  static constexpr std::size_t kSlab = (std::size_t{32} << 20) + (std::size_t{1} << 16);
  std::mutex mutex_;
  std::shared_ptr<void> slab_;
  char* next_ = nullptr;
  std::size_t left_ = 0;
};

}  // namespace letor
