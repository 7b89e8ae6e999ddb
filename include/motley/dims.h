// SPDX-License-Identifier: Apache-2.0
// Named sizes, and boxes of global indices.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

namespace motley {

using Index = std::int64_t;

// A named size. Where an op takes a Dim only its name counts, except where the op declares it (`out`, an input's dims).
struct Dim {
  std::string name{};
  Index size = 0;
  bool operator==(const Dim&) const = default;  // name and size
};

// Ordered dims with unique names. Errors: UserError when a name repeats, is no name, or the elements pass 2^53.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<Dim> dims) : Shape(std::vector<Dim>(dims)) {}
  explicit Shape(std::vector<Dim> dims);
  const std::vector<Dim>& dims() const { return dims_; }
  std::size_t rank() const { return dims_.size(); }
  const Dim& operator[](std::size_t i) const { return dims_[i]; }
  std::optional<std::size_t> find(const std::string& name) const;
  bool has(const std::string& name) const { return find(name).has_value(); }
  std::size_t position(const std::string& name) const;  // UserError with did-you-mean
  Index size_of(const std::string& name) const { return dims_[position(name)].size; }
  Index elements() const;
  bool operator==(const Shape&) const = default;

 private:
  std::vector<Dim> dims_;
};

// A half-open range of global indices.
struct Range {
  Index begin = 0, end = 0;
  auto operator<=>(const Range&) const = default;
  Index size() const { return end > begin ? end - begin : 0; }
};

// One range per dim, in the shape's order. A scalar's box is {} and holds one element.
using Box = std::vector<Range>;

Range intersect(Range a, Range b);  // empty results are {x, x}
Box intersect(const Box& a, const Box& b);
Index volume(const Box& box);
bool contains(const Box& outer, const Box& inner);  // an empty inner box is in every box
Box hull(const Box& a, const Box& b);               // smallest box that holds both; an empty one adds nothing
Box whole(const Shape& shape);
std::string to_string(const Box& box);  // [0,3)x[2,5)

// [A-Za-z_][A-Za-z0-9_-]*
bool is_name(const std::string& text);
// `; did you mean "x"?` (typing errors, and what other systems call it), or ` (known: a, b)` where nothing is near.
std::string did_you_mean(const std::string& wrong, const std::vector<std::string>& right);

}  // namespace motley
