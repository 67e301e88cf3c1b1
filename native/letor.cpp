// The LETOR / SVMlight reader: chunks of text in, arrays out.
//
// Python reads (and unpacks) the file and feeds chunks of whole lines; the lines of a chunk are
// shared between threads, and what each thread has read is kept as a segment, in the order of the
// file. At the end Python allocates the arrays and has them filled. So neither the number of
// threads nor the size of the chunks changes the result.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "arrays.h"
#include "bindings.h"
#include "checks.h"
#include "letor_lines.h"
#include "letor_slab.h"
#include "letor_workers.h"

namespace nb = nanobind;
using namespace robirank;

namespace {

using letor::BadLine;
using letor::Options;
using letor::Segment;

using Texts = nb::typed<nb::list, nb::bytes>;

// A view of any bytes-like object; the object cannot be resized while it lasts.
class BytesView {
 public:
  explicit BytesView(nb::handle object) {
    if (PyObject_GetBuffer(object.ptr(), &buffer_, PyBUF_SIMPLE) != 0) throw nb::python_error();
  }
  ~BytesView() { PyBuffer_Release(&buffer_); }
  BytesView(const BytesView&) = delete;
  BytesView& operator=(const BytesView&) = delete;
  const char* begin() const { return static_cast<const char*>(buffer_.buf); }
  const char* end() const { return begin() + buffer_.len; }

 private:
  Py_buffer buffer_;
};

template <typename T>
class Parser {
 public:
  Parser(bool sparse, std::int64_t n_features, bool zero_based, bool skip, int num_threads,
         std::int64_t piece_bytes)
      : options_{sparse, zero_based, skip, n_features},
        workers_(num_threads),
        piece_bytes_(std::max<std::int64_t>(1, piece_bytes)),
        scratch_(static_cast<std::size_t>(workers_.size())) {}

  // False where a bad line ends the reading.
  bool feed(nb::handle chunk) {
    if (taken_) throw nb::value_error("the features have been taken already");
    const BytesView text(chunk);
    if (text.begin() == text.end()) return true;
    if (text.end()[-1] != '\n') throw nb::value_error("a chunk must end with a line end");
    const nb::gil_scoped_release release;

    const std::vector<const char*> cuts = cut(text.begin(), text.end());
    std::vector<Segment<T>> pieces(cuts.size() - 1);
    workers_.run(static_cast<std::int64_t>(pieces.size()), [&](std::int64_t i, int worker) {
      const std::size_t k = static_cast<std::size_t>(i);
      letor::PieceParser<T>(options_, &scratch_[static_cast<std::size_t>(worker)], &pieces[k])
          .parse(cuts[k], cuts[k + 1], &pool_);
    });
    for (Segment<T>& piece : pieces) {
      if (!add(std::move(piece))) return false;
    }
    return true;
  }

  std::int64_t n_rows() const { return n_rows_; }
  std::int64_t n_stored() const { return n_stored_; }
  std::int64_t n_lines() const { return n_lines_; }
  std::int64_t n_skipped() const { return n_skipped_; }
  std::int64_t width() const { return options_.n_features < 0 ? width_ : options_.n_features; }

  // (line, reason, token, index of the feature before or -1)
  std::optional<std::tuple<std::int64_t, std::string, nb::bytes, std::int64_t>> first_bad() const {
    if (!first_bad_) return std::nullopt;
    const nb::bytes token(first_bad_->token.data(), first_bad_->token.size());
    return std::tuple(first_bad_->line, std::string(first_bad_->reason), token,
                      first_bad_->previous);
  }

  void fill_labels(MutableVector<float> out) const {
    check_length("labels", out.shape(0), n_rows_);
    float* next = out.data();
    for (const Segment<T>& s : segments_) {
      next = std::copy(s.labels.begin(), s.labels.end(), next);
    }
  }

  // Fills in the query ids if all are integers; otherwise a number for each distinct id, and
  // returns the ids that the numbers stand for.
  std::optional<Texts> fill_qids(MutableVector<std::int64_t> out) const {
    check_length("qids", out.shape(0), n_rows_);
    std::int64_t* next = out.data();
    const bool any_text = std::any_of(segments_.begin(), segments_.end(),
                                      [](const auto& s) { return !s.text_qids.empty(); });
    if (!any_text) {
      for (const Segment<T>& s : segments_) next = std::copy(s.qids.begin(), s.qids.end(), next);
      return std::nullopt;
    }
    Texts names;
    std::unordered_map<std::string, std::int64_t> numbers;
    for (const Segment<T>& s : segments_) {
      auto text = s.text_qids.begin();
      for (std::size_t row = 0; row < s.qids.size(); ++row) {
        const bool is_text = text != s.text_qids.end() && text->first == row;
        const std::string name = is_text ? (text++)->second : std::to_string(s.qids[row]);
        const auto found = numbers.emplace(name, static_cast<std::int64_t>(numbers.size()));
        if (found.second) names.append(nb::bytes(name.data(), name.size()));
        *next++ = found.first->second;
      }
    }
    return names;
  }

  // The length of the longest document id, 0 where no line has one.
  std::int64_t longest_doc_id() const {
    std::uint32_t longest = 0;
    for (const Segment<T>& s : segments_) {
      for (const std::uint32_t size : s.doc_id_sizes) longest = std::max(longest, size);
    }
    return longest;
  }

  std::int64_t doc_id_bytes() const {
    std::int64_t bytes = 0;
    for (const Segment<T>& s : segments_) bytes += static_cast<std::int64_t>(s.doc_ids.size());
    return bytes;
  }

  bool ascii_doc_ids() const {
    return std::all_of(segments_.begin(), segments_.end(),
                       [](const auto& s) { return s.ascii_doc_ids; });
  }

  // One character per number, as numpy's str arrays keep them; `out` must be zero before.
  void fill_doc_ids(MutableMatrix<std::uint32_t> out) {
    check_length("doc_ids", out.shape(0), n_rows_);
    check_columns("doc_ids", out.shape(1), longest_doc_id());
    std::uint32_t* const places = out.data();
    const std::size_t length = out.shape(1);
    const nb::gil_scoped_release release;
    for_each_segment([&](const Segment<T>& s, std::int64_t first_row, std::int64_t) {
      std::uint32_t* row = places + static_cast<std::size_t>(first_row) * length;
      const char* text = s.doc_ids.data();
      for (const std::uint32_t size : s.doc_id_sizes) {
        std::copy(text, text + size, row);
        text += size;
        row += length;
      }
    });
  }

  Texts doc_ids() const {
    Texts ids;
    for (const Segment<T>& s : segments_) {
      const char* text = s.doc_ids.data();
      for (std::size_t row = 0; row < s.labels.size(); ++row) {
        const std::size_t size = s.doc_id_sizes.empty() ? 0 : s.doc_id_sizes[row];
        ids.append(nb::bytes(text, size));
        text += size;
      }
    }
    return ids;
  }

  // Moves the features into `out`, which must be zero before; works only once.
  void fill_dense(MutableMatrix<T> out) {
    check_length("out", out.shape(0), n_rows_);
    check_columns("out", out.shape(1), width());
    take_features();
    T* const cells = out.data();
    const std::size_t stride = out.shape(1);
    const nb::gil_scoped_release release;
    for_each_segment([&](Segment<T>& s, std::int64_t first_row, std::int64_t) {
      T* row = cells + static_cast<std::size_t>(first_row) * stride;
      const T* values = static_cast<const T*>(s.values.data);
      if (s.dense && static_cast<std::size_t>(s.width) == stride) {
        if (stride != 0) std::copy(values, values + s.labels.size() * stride, row);
      } else if (s.dense) {
        for (std::int64_t i = 0; i < s.n_rows(); ++i, row += stride, values += s.width) {
          std::copy(values, values + s.width, row);
        }
      } else {
        const std::int32_t* columns = static_cast<const std::int32_t*>(s.columns.data);
        for (const std::uint32_t size : s.row_sizes) {
          for (std::uint32_t k = 0; k < size; ++k) row[*columns++] = *values++;
          row += stride;
        }
      }
      s.values = {};
      s.columns = {};
    });
  }

  // Moves the features into the three arrays of a CSR matrix; works only once.
  void fill_sparse(MutableVector<T> values, MutableVector<std::int32_t> columns,
                   MutableVector<std::int64_t> offsets) {
    check_length("values", values.shape(0), n_stored_);
    check_length("columns", columns.shape(0), n_stored_);
    check_length("offsets", offsets.shape(0), n_rows_ + 1);
    take_features();
    T* const all_values = values.data();
    std::int32_t* const all_columns = columns.data();
    std::int64_t* const all_offsets = offsets.data();
    const nb::gil_scoped_release release;
    all_offsets[0] = 0;
    for_each_segment([&](Segment<T>& s, std::int64_t first_row, std::int64_t first_stored) {
      std::int64_t offset = first_stored;
      for (std::int64_t i = 0; i < s.n_rows(); ++i) {
        offset += s.row_sizes[static_cast<std::size_t>(i)];
        all_offsets[first_row + i + 1] = offset;
      }
      std::copy_n(static_cast<const T*>(s.values.data), s.n_stored, all_values + first_stored);
      std::copy_n(static_cast<const std::int32_t*>(s.columns.data), s.n_stored,
                  all_columns + first_stored);
      s.values = {};
      s.columns = {};
    });
  }

 private:
  void take_features() {
    if (taken_) throw nb::value_error("the features have been taken already");
    taken_ = true;
    pool_.close();
  }

  // The places where pieces begin, and the end: whole lines, about piece_bytes_ each.
  std::vector<const char*> cut(const char* begin, const char* end) const {
    std::vector<const char*> cuts{begin};
    while (end - cuts.back() > piece_bytes_) {
      const char* const from = cuts.back() + piece_bytes_ - 1;
      cuts.push_back(1 + static_cast<const char*>(
                             std::memchr(from, '\n', static_cast<std::size_t>(end - from))));
    }
    if (cuts.back() != end) cuts.push_back(end);
    return cuts;
  }

  bool add(Segment<T>&& piece) {
    if (piece.first_bad && !first_bad_) {
      first_bad_ = std::move(piece.first_bad);
      first_bad_->line += n_lines_;
    }
    n_lines_ += piece.n_lines;
    n_skipped_ += piece.n_skipped;
    if (first_bad_ && !options_.skip) return false;
    n_rows_ += piece.n_rows();
    n_stored_ += piece.n_stored;
    width_ = std::max(width_, piece.width);
    if (piece.n_rows() > 0) segments_.push_back(std::move(piece));
    return true;
  }

  // Calls visit(segment, its first row, its first stored feature) for all segments, on all threads.
  template <typename Visit>
  void for_each_segment(const Visit& visit) {
    std::vector<std::pair<std::int64_t, std::int64_t>> first(segments_.size() + 1);
    for (std::size_t i = 0; i < segments_.size(); ++i) {
      first[i + 1] = {first[i].first + segments_[i].n_rows(),
                      first[i].second + segments_[i].n_stored};
    }
    workers_.run(static_cast<std::int64_t>(segments_.size()), [&](std::int64_t i, int) {
      const std::size_t k = static_cast<std::size_t>(i);
      visit(segments_[k], first[k].first, first[k].second);
    });
  }

  Options options_;
  letor::Workers workers_;
  std::int64_t piece_bytes_;
  std::vector<letor::Scratch<T>> scratch_;
  letor::SlabPool pool_;
  std::vector<Segment<T>> segments_;
  bool taken_ = false;
  std::int64_t n_rows_ = 0;
  std::int64_t n_stored_ = 0;
  std::int64_t n_lines_ = 0;
  std::int64_t n_skipped_ = 0;
  std::int64_t width_ = 0;
  std::optional<BadLine> first_bad_;
};

template <typename T>
void bind_parser(nb::module_& m, const char* name) {
  using P = Parser<T>;
  nb::class_<P>(m, name, "Reads chunks of LETOR lines; see robirank.load_letor.")
      .def(nb::init<bool, std::int64_t, bool, bool, int, std::int64_t>(), nb::kw_only(),
           nb::arg("sparse"), nb::arg("n_features"), nb::arg("zero_based"), nb::arg("skip"),
           nb::arg("num_threads"), nb::arg("piece_bytes"))
      .def("feed", &P::feed, nb::arg("chunk"),
           nb::sig("def feed(self, chunk: bytes | bytearray | memoryview) -> bool"),
           "Read a chunk of whole lines; False where a bad line ends the reading.")
      .def_prop_ro("n_rows", &P::n_rows)
      .def_prop_ro("n_stored", &P::n_stored)
      .def_prop_ro("n_lines", &P::n_lines)
      .def_prop_ro("n_skipped", &P::n_skipped)
      .def_prop_ro("width", &P::width)
      .def_prop_ro("first_bad", &P::first_bad)
      .def_prop_ro("longest_doc_id", &P::longest_doc_id)
      .def_prop_ro("doc_id_bytes", &P::doc_id_bytes)
      .def_prop_ro("ascii_doc_ids", &P::ascii_doc_ids)
      .def("fill_labels", &P::fill_labels, nb::arg("out").noconvert())
      .def("fill_qids", &P::fill_qids, nb::arg("out").noconvert())
      .def("fill_doc_ids", &P::fill_doc_ids, nb::arg("out").noconvert())
      .def("doc_ids", &P::doc_ids)
      .def("fill_dense", &P::fill_dense, nb::arg("out").noconvert())
      .def("fill_sparse", &P::fill_sparse, nb::arg("values").noconvert(),
           nb::arg("columns").noconvert(), nb::arg("offsets").noconvert());
}

}  // namespace

void bind_letor(nb::module_& m) {
  bind_parser<float>(m, "LetorParser");
  bind_parser<double>(m, "LetorParser64");
}
