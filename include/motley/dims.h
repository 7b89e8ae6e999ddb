// SPDX-License-Identifier: Apache-2.0
/// @file
/// Named sizes, and boxes of global indices.
#pragma once
#include <algorithm>
#include <compare>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

/// Everything that motley declares.
namespace motley {
/// @addtogroup network
/// @{

using Index = std::int64_t;  ///< Sizes, positions and bytes.

/// A named size. Where an op takes a Dim only its name counts, except where the op declares it (`out`, an input's dims).
struct Dim {
  std::string name{};                           ///< `[A-Za-z_][A-Za-z0-9_-]*`
  Index size = 0;                               ///< elements; 0 where an op may compute it
  bool operator==(const Dim&) const = default;  // name and size
};

/// Ordered dims with unique names.
class Shape {
 public:
  Shape() = default;
  /// UserError: a name that repeats or is not a valid name, a negative size, more than 2^53 elements.
  Shape(std::initializer_list<Dim> dims) : Shape(std::vector<Dim>(dims)) {}
  /// The same, from a list made at run time.
  explicit Shape(std::vector<Dim> dims);
  const std::vector<Dim>& dims() const { return dims_; }                      ///< in order
  std::size_t rank() const { return dims_.size(); }                           ///< number of dims
  const Dim& operator[](std::size_t i) const { return dims_[i]; }             ///< the i-th dim, unchecked
  std::optional<std::size_t> find(const std::string& name) const;             ///< position of a dim, if the shape has it
  bool has(const std::string& name) const { return find(name).has_value(); }  ///< whether it has a dim of that name
  std::size_t position(const std::string& name) const;                        ///< position of a dim. UserError with a suggestion
  Index size_of(const std::string& name) const { return dims_[position(name)].size; }  ///< size of a dim. UserError
  Index elements() const;                                                              ///< product of the sizes; 1 for a scalar
  bool operator==(const Shape&) const = default;

 private:
  std::vector<Dim> dims_;
};

/// A half-open range of global indices.
struct Range {
  Index begin = 0;  ///< the first index
  Index end = 0;    ///< one after the last
  auto operator<=>(const Range&) const = default;
  Index size() const { return end > begin ? end - begin : 0; }  ///< number of indices
};

/// One range per dim, in the shape's order. A scalar's box is {} and holds one element. A sequence of ranges like a vector of
/// them; up to 8 are stored in place: planning makes and compares millions of boxes.
class Box {
 public:
  using value_type = Range;             ///< as of a container
  using iterator = Range*;              ///< as of a container
  using const_iterator = const Range*;  ///< as of a container
  Box() = default;
  Box(std::initializer_list<Range> ranges) : Box(ranges.begin(), ranges.end()) {}  ///< these ranges
  /// `count` times the same range.
  explicit Box(std::size_t count, Range range = {}) {
    reserve(count);
    for (std::size_t i = 0; i < count; i++) push_back(range);
  }
  /// The ranges from `first` to before `last`.
  template <class It>
  Box(It first, It last) {
    reserve(static_cast<std::size_t>(last - first));
    for (; first != last; ++first) push_back(*first);
  }
  Box(const Box& other) : Box(other.begin(), other.end()) {}  ///< a copy
  Box(Box&& other) noexcept { take(other); }                  ///< `other` is empty then
  Box& operator=(const Box& other) {                          ///< a copy
    if (this == &other) return *this;
    size_ = 0;
    reserve(other.size_);
    std::copy(other.begin(), other.end(), begin());
    size_ = other.size_;
    return *this;
  }
  Box& operator=(Box&& other) noexcept {  ///< `other` is empty then
    if (this != &other) take(other);
    return *this;
  }
  std::size_t size() const { return size_; }                                  ///< number of dims
  bool empty() const { return size_ == 0; }                                   ///< whether it is a scalar's
  Range* begin() { return outside_ ? outside_.get() : inside_; }              ///< the first range
  Range* end() { return begin() + size_; }                                    ///< after the last range
  const Range* begin() const { return outside_ ? outside_.get() : inside_; }  ///< the first range
  const Range* end() const { return begin() + size_; }                        ///< after the last range
  Range& operator[](std::size_t i) { return begin()[i]; }                     ///< the i-th range, unchecked
  const Range& operator[](std::size_t i) const { return begin()[i]; }         ///< the i-th range, unchecked
  Range& front() { return *begin(); }                                         ///< the first range
  const Range& front() const { return *begin(); }                             ///< the first range
  Range& back() { return end()[-1]; }                                         ///< the last range
  const Range& back() const { return end()[-1]; }                             ///< the last range
  /// Adds a range at the end.
  void push_back(Range range) {
    if (size_ == capacity_) reserve(2 * size_);
    begin()[size_++] = range;
  }
  /// Removes all ranges.
  void clear() { size_ = 0; }
  /// Makes room for so many ranges.
  void reserve(std::size_t count) {
    if (count <= capacity_) return;
    auto larger = std::make_unique<Range[]>(count);
    std::copy(begin(), end(), larger.get());
    outside_ = std::move(larger);
    capacity_ = static_cast<std::uint32_t>(count);
  }
  bool operator==(const Box& other) const { return std::equal(begin(), end(), other.begin(), other.end()); }  ///< all ranges
  /// Lexicographic.
  auto operator<=>(const Box& other) const {
    return std::lexicographical_compare_three_way(begin(), end(), other.begin(), other.end());
  }

 private:
  static constexpr std::uint32_t kInside = 8;
  void take(Box& other) {
    outside_ = std::move(other.outside_);
    capacity_ = outside_ ? other.capacity_ : kInside;
    if (!outside_) std::copy(other.begin(), other.end(), inside_);
    size_ = other.size_;
    other.size_ = 0;
    other.capacity_ = kInside;
  }
  std::uint32_t size_ = 0, capacity_ = kInside;
  std::unique_ptr<Range[]> outside_{};
  Range inside_[kInside];
};

Range intersect(Range a, Range b);                  ///< Indices in both; empty results are {x, x}.
Box intersect(const Box& a, const Box& b);          ///< Elements in both boxes of one tensor.
Index volume(const Box& box);                       ///< Number of elements.
bool contains(const Box& outer, const Box& inner);  ///< Whether all of `inner` is in `outer`; an empty inner box always is.
Box hull(const Box& a, const Box& b);               ///< The smallest box that contains both; an empty one adds nothing.
Box whole(const Shape& shape);                      ///< The box of all elements.
std::string to_string(const Box& box);              ///< As `[0,3)x[2,5)`.

/// Whether the text may name a dim, an axis, a layer or an input: `[A-Za-z_][A-Za-z0-9_-]*`.
bool is_name(const std::string& text);
/// A name, or names and at least one number joined by dots, as members of lists are called in PyTorch: "layer1.0.conv1".
bool is_layer_name(const std::string& text);
/// Which of `right` was probably meant (typing errors, and what other systems call it); empty: none is similar.
std::string probably_meant(const std::string& wrong, const std::vector<std::string>& right);
/// The end of an error message: `; did you mean "x"?`, or ` (known: a, b)` where no name is similar.
std::string did_you_mean(const std::string& wrong, const std::vector<std::string>& right);

/// @}
}  // namespace motley
