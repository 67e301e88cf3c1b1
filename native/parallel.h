// Loops on several threads.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>

namespace robirank {

// body(i, memory) for i = 0 … n − 1, `chunk` of them at a time, on so many threads. Each thread has
// a memory of its own, which make_memory() gives. What a thread throws, such as bad_alloc, ends the
// loop and is thrown to the caller: an exception must not leave an OpenMP region by itself.
template <class Make, class Body>
void parallel_for([[maybe_unused]] int threads, int64_t n, int64_t chunk, const Make& make_memory,
                  const Body& body) {
  std::atomic<int64_t> next{0};
  std::exception_ptr error;
#pragma omp parallel num_threads(threads)
  {
    try {
      auto memory = make_memory();
      for (int64_t first; (first = next.fetch_add(chunk, std::memory_order_relaxed)) < n;)
        for (int64_t i = first; i < std::min(n, first + chunk); ++i) body(i, memory);
    } catch (...) {
#pragma omp critical
      if (!error) error = std::current_exception();
      next = n;
    }
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace robirank
