// From text to rows: `label qid:ID index:value ... # comment`, a piece of a file at a time.
#pragma once
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "letor_number.h"
#include "letor_slab.h"

namespace letor {

// What is wrong with a line. The name is what Python's table of messages is keyed by.
struct BadLine {
  std::int64_t line;  // 1-based
  const char* reason;
  std::string token;      // the offending token, shortened
  std::int64_t previous;  // the index before it, -1 for none
};

struct Options {
  bool sparse;
  bool zero_based;
  bool skip;
  std::int64_t n_features;  // -1: as many as there are
};

// Columns and their number both fit into 32 bits.
inline constexpr std::int64_t kLargestIndex = std::numeric_limits<std::int32_t>::max() - 1;

// The rows of one piece of text. Features stay dense where that is smaller than index and value of
// everything that is not zero (never for sparse output), so that all segments together are about
// as large as the result.
template <typename T>
struct Segment {
  std::vector<float> labels;
  std::vector<std::int64_t> qids;
  std::vector<std::pair<std::uint32_t, std::string>> text_qids;  // row and text: not an integer
  std::vector<std::uint32_t> doc_id_sizes;
  std::string doc_ids;  // one after the other
  bool ascii_doc_ids = true;

  std::vector<std::uint32_t> row_sizes;  // features that are not zero
  std::int64_t n_stored = 0;             // their sum
  std::int64_t width = 0;                // largest column + 1, zeros included
  bool dense = false;
  SlabPiece values;   // dense: rows × width; otherwise n_stored
  SlabPiece columns;  // not dense: n_stored

  std::int64_t n_lines = 0;
  std::int64_t n_skipped = 0;
  std::optional<BadLine> first_bad;  // its line counts from the start of this piece

  std::int64_t n_rows() const { return static_cast<std::int64_t>(labels.size()); }
};

// Where a thread puts the features of a piece before their number is known; used again and again.
template <typename T>
struct Scratch {
  std::unique_ptr<std::int32_t[]> columns;
  std::unique_ptr<T[]> values;
  std::size_t capacity = 0;

  // A feature takes four bytes at least ("1:0 "), so no check is needed for each.
  void reserve_for_text(std::size_t bytes) {
    const std::size_t needed = bytes / 4 + 1;
    if (needed <= capacity) return;
    columns.reset(new std::int32_t[needed]);
    values.reset(new T[needed]);
    capacity = needed;
  }
};

enum CharKind : unsigned char { kToken = 0, kBlank, kEnd };

struct CharKinds {
  CharKind kind[256] = {};
  constexpr CharKinds() {
    for (const char c : {' ', '\t', '\r', '\v', '\f'}) kind[static_cast<int>(c)] = kBlank;
    kind[static_cast<int>('\n')] = kEnd;
    kind[static_cast<int>('#')] = kEnd;
  }
  constexpr CharKind operator[](char c) const { return kind[static_cast<unsigned char>(c)]; }
};
inline constexpr CharKinds kKinds;

inline const char* skip_blanks(const char* p) {
  while (kKinds[*p] == kBlank) ++p;
  return p;
}

inline const char* skip_token(const char* p) {
  while (kKinds[*p] == kToken) ++p;
  return p;
}

// Parses a piece of text of whole lines, each with its line end.
template <typename T>
class PieceParser {
 public:
  PieceParser(const Options& options, Scratch<T>* scratch, Segment<T>* segment)
      : options_(options), scratch_(*scratch), segment_(*segment) {}

  void parse(const char* begin, const char* end, SlabPool* pool) {
    scratch_.reserve_for_text(static_cast<std::size_t>(end - begin));
    end_ = end;
    for (const char* p = begin; p != end;) {
      ++segment_.n_lines;
      const std::int64_t n_stored = segment_.n_stored;
      const std::int64_t width = segment_.width;
      const char* const next = parse_line(p);
      if (next != nullptr) {
        p = next;
        continue;
      }
      if (!options_.skip) return;
      ++segment_.n_skipped;
      segment_.n_stored = n_stored;
      segment_.width = width;
      p = line_end(p) + 1;
    }
    keep_features(pool);
  }

 private:
  const char* line_end(const char* p) const {
    return static_cast<const char*>(std::memchr(p, '\n', static_cast<std::size_t>(end_ - p)));
  }

  // Notes what is wrong with the line, if it is the first such line, and returns nullptr.
  const char* bad(const char* reason, const char* token, std::int64_t previous = -1) {
    constexpr std::ptrdiff_t kLongest = 60;
    if (!segment_.first_bad) {
      const char* stop = skip_token(token);
      if (stop - token > kLongest) {  // cut before a character, not within it
        stop = token + kLongest;
        while (stop > token && (static_cast<unsigned char>(*stop) & 0xC0) == 0x80) --stop;
      }
      segment_.first_bad = BadLine{segment_.n_lines, reason, std::string(token, stop),
                                   previous < 0 ? -1 : previous + (options_.zero_based ? 0 : 1)};
    }
    return nullptr;
  }

  // The start of the next line, or nullptr where this one is bad. Nothing but the scratch, the
  // width and n_stored has been changed then.
  const char* parse_line(const char* p) {
    p = skip_blanks(p);
    if (kKinds[*p] == kEnd) return line_end(p) + 1;

    const char* token = p;
    double label = 0;
    p = parse_number(p, end_, &label);
    if (p == nullptr || kKinds[*p] == kToken || !std::isfinite(label)) {
      return bad(std::strncmp(token, "qid:", 4) == 0 ? "label missing" : "label", token);
    }
    if (!std::isfinite(static_cast<float>(label))) return bad("label range", token);

    p = skip_blanks(p);
    if (kKinds[*p] == kEnd) return bad("qid missing", token);
    token = p;
    if (std::strncmp(p, "qid:", 4) != 0) return bad("qid misplaced", token);
    const char* const qid = p + 4;
    p = skip_token(qid);
    const char* const qid_end = p;
    if (!is_name(qid, qid_end)) return bad("qid", token);

    const std::int64_t stored_before = segment_.n_stored;
    p = parse_features(p);
    if (p == nullptr) return nullptr;

    const char* const stop = line_end(p);
    if (segment_.n_rows() == 0) guess_rows(stop - token);
    segment_.labels.push_back(static_cast<float>(label));
    segment_.row_sizes.push_back(static_cast<std::uint32_t>(segment_.n_stored - stored_before));
    add_qid(qid, qid_end);
    add_doc_id(p, stop);
    return stop + 1;
  }

  // The '#' or line end after the features, or nullptr.
  const char* parse_features(const char* p) {
    const std::int64_t base = options_.zero_based ? 0 : 1;
    const std::int64_t limit = options_.n_features < 0 ? kLargestIndex + 1 : options_.n_features;
    std::int32_t* const columns = scratch_.columns.get();
    T* const values = scratch_.values.get();
    std::int64_t n_stored = segment_.n_stored;
    std::int64_t previous = -1;
    for (;;) {
      p = skip_blanks(p);
      if (kKinds[*p] == kEnd) break;
      const char* const token = p;
      std::int64_t index = 0;
      while (is_digit(*p)) {
        index = index * 10 + (*p++ - '0');
        if (index > kLargestIndex) return bad(index_reason(token), token);
      }
      if (*p != ':' || p == token) return bad(index_reason(token), token);
      const std::int64_t column = index - base;
      if (column <= previous) {
        return bad(column < 0           ? "index zero"
                   : column == previous ? "duplicate"
                                        : "order",
                   token, previous);
      }
      if (column >= limit) return bad("n_features", token);
      double value = 0;
      p = parse_number(p + 1, end_, &value);
      if (p == nullptr || kKinds[*p] == kToken) return bad("value", token);
      const T stored = static_cast<T>(value);
      if (!std::isfinite(stored)) return bad(std::isfinite(value) ? "value range" : "value", token);
      previous = column;
      columns[n_stored] = static_cast<std::int32_t>(column);
      values[n_stored] = stored;
      n_stored += stored != 0;
    }
    segment_.n_stored = n_stored;
    if (previous >= segment_.width) segment_.width = previous + 1;
    return p;
  }

  static const char* index_reason(const char* token) {
    const char* const stop = skip_token(token);
    const void* const colon = std::memchr(token, ':', static_cast<std::size_t>(stop - token));
    return colon == nullptr                      ? "no colon"
           : std::strncmp(token, "qid:", 4) == 0 ? "second qid"
                                                 : "index";
  }

  static bool is_name(const char* begin, const char* end) {
    for (const char* p = begin; p != end; ++p) {
      if (static_cast<unsigned char>(*p) < 0x20 || *p == 0x7F) return false;
    }
    return begin != end;
  }

  void guess_rows(std::ptrdiff_t line_bytes) {
    const std::size_t rows = scratch_.capacity * 4 / static_cast<std::size_t>(line_bytes + 1) + 1;
    segment_.labels.reserve(rows);
    segment_.qids.reserve(rows);
    segment_.row_sizes.reserve(rows);
  }

  // An integer is kept as such only if writing it gives the same text again: "007" is not 7.
  void add_qid(const char* p, const char* end) {
    std::int64_t value = 0;
    const auto read = std::from_chars(p, end, value);
    const char* const digits = p + (*p == '-');
    const bool integer =
        read.ec == std::errc() && read.ptr == end && (*digits != '0' || end - p == 1);
    if (!integer) {
      segment_.text_qids.emplace_back(static_cast<std::uint32_t>(segment_.qids.size()),
                                      std::string(p, end));
    }
    segment_.qids.push_back(value);
  }

  // Looks for `docid = ID` in the comment between p and stop. Rows without one get an empty id;
  // they are written down only once some row has one.
  void add_doc_id(const char* p, const char* stop) {
    const char* begin = nullptr;
    const char* end = nullptr;
    while (p != stop) {
      p = static_cast<const char*>(std::memchr(p, 'd', static_cast<std::size_t>(stop - p)));
      if (p == nullptr || stop - p < 7) break;  // "docid=x"
      const bool starts_word = !is_word(p[-1]);
      if (!starts_word || std::memcmp(p, "docid", 5) != 0) {
        ++p;
        continue;
      }
      p = skip_blanks(p + 5);
      if (*p != '=') continue;
      begin = skip_blanks(p + 1);
      for (end = begin; static_cast<unsigned char>(*end) > ' ';) ++end;
      break;
    }
    const std::size_t size = static_cast<std::size_t>(end - begin);
    std::vector<std::uint32_t>& sizes = segment_.doc_id_sizes;
    if (size == 0 && sizes.empty()) return;
    sizes.reserve(segment_.labels.capacity());
    sizes.resize(segment_.labels.size() - 1, 0);
    sizes.push_back(static_cast<std::uint32_t>(size));
    if (size != 0) segment_.doc_ids.append(begin, size);
    for (const char* q = begin; q != end; ++q) segment_.ascii_doc_ids &= (*q & 0x80) == 0;
  }

  static bool is_word(char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  }

  void keep_features(SlabPool* pool) {
    Segment<T>& s = segment_;
    const std::size_t n_stored = static_cast<std::size_t>(s.n_stored);
    const double dense_bytes =
        static_cast<double>(s.n_rows()) * static_cast<double>(s.width) * sizeof(T);
    s.dense = !options_.sparse && dense_bytes <= static_cast<double>(n_stored * (sizeof(T) + 4));
    if (!s.dense) {
      s.values = pool->take(n_stored * sizeof(T));
      s.columns = pool->take(n_stored * sizeof(std::int32_t));
      if (n_stored == 0) return;
      std::memcpy(s.values.data, scratch_.values.get(), n_stored * sizeof(T));
      std::memcpy(s.columns.data, scratch_.columns.get(), n_stored * sizeof(std::int32_t));
      return;
    }
    s.values = pool->take(static_cast<std::size_t>(dense_bytes));  // comes zeroed
    T* row = static_cast<T*>(s.values.data);
    std::size_t k = 0;
    for (const std::uint32_t size : s.row_sizes) {
      for (const std::size_t stop = k + size; k < stop; ++k) {
        row[scratch_.columns[k]] = scratch_.values[k];
      }
      row += s.width;
    }
  }

  const Options& options_;
  Scratch<T>& scratch_;
  Segment<T>& segment_;
  const char* end_ = nullptr;
};

}  // namespace letor
