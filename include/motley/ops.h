// SPDX-License-Identifier: Apache-2.0
// The functions a model is written with. Each names its output (`.name`, or `<op>_<position>` counted over all op calls of the
// graph) and its parameters `<name>.weight`, `<name>.bias`. Dims match by name. UserError: what does not fit, and what would.
#pragma once
#include <motley/graph.h>

#include <array>
#include <string>
#include <vector>

namespace motley {

// A number for both, or {rows, cols}.
struct Extent2 {
  Index rows = 1, cols = 1;
  constexpr Extent2() = default;
  constexpr Extent2(Index both) : rows(both), cols(both) {}
  constexpr Extent2(Index r, Index c) : rows(r), cols(c) {}
  bool operator==(const Extent2&) const = default;
};

struct Padding {
  enum class Kind : std::uint8_t { valid, same, sizes };
  Kind kind = Kind::valid;
  Index top = 0, bottom = 0, left = 0, right = 0;
  constexpr Padding() = default;
  constexpr explicit Padding(Kind k) : kind(k) {}
  constexpr Padding(Index all) : kind(Kind::sizes), top(all), bottom(all), left(all), right(all) {}
  constexpr Padding(std::array<Index, 2> rows, std::array<Index, 2> cols)
      : kind(Kind::sizes), top(rows[0]), bottom(rows[1]), left(cols[0]), right(cols[1]) {}
  bool operator==(const Padding&) const = default;
};
inline constexpr Padding same{Padding::Kind::same};    // ceil(size / stride) outputs, the odd one at the end
inline constexpr Padding valid{Padding::Kind::valid};  // none

struct Conv2dOptions {
  Dim in{};                   // contracted; empty: the dim before the slid-over ones
  Dim out{};                  // takes the place of `in`
  std::array<Dim, 2> over{};  // slid over, rows first; empty: the last two
  Extent2 window{}, stride{}, dilation{};
  Padding padding{};
  bool bias = true;
  std::string name{};
};
struct Pool2dOptions {
  std::array<Dim, 2> over{};
  Extent2 window{};
  Extent2 stride{0};  // 0: the window
  Padding padding{};
  std::string name{};
};
struct DenseOptions {
  std::vector<Dim> in{};    // contracted; empty: all but the first dim and `keep`
  std::vector<Dim> out{};   // one or more; take the place of the first of `in`
  std::vector<Dim> keep{};  // instead of `in`
  bool bias = true;
  std::string name{};
};
struct NameOption {
  std::string name{};
};
struct ReshapeOptions {
  std::vector<Dim> in{};   // gone; numbered row-major in this order
  std::vector<Dim> out{};  // come in the place of the first of `in`; one size may be left open (0)
  std::string name{};
};
struct SliceOptions {
  Dim in{};
  Range range{};  // begin..end-1
  Dim out{};      // takes the place of `in`: a dim has one size in the whole model
  std::string name{};
};
struct PadOptions {
  Dim in{};
  Index before = 0, after = 0;  // zeros
  Dim out{};
  std::string name{};
};
struct ConcatOptions {
  std::vector<Dim> in{};  // one for all tensors, or one for each
  Dim out{};              // as long as all of `in` together
  std::string name{};
};
struct StackOptions {
  Dim out{};  // as long as there are tensors; stands second, behind the batch
  std::string name{};
};

// y[n f p q] = sum over c r s of x[n c p*stride-before+r*dilation ..] * w[f c r s] + b[f]
Tensor conv2d(const Tensor& x, const Conv2dOptions& options);
Tensor max_pool2d(const Tensor& x, const Pool2dOptions& options);
Tensor avg_pool2d(const Tensor& x, const Pool2dOptions& options);
Tensor global_avg_pool2d(const Tensor& x, const Pool2dOptions& options = {});  // the slid-over dims are gone
Tensor dense(const Tensor& x, const DenseOptions& options);
Tensor relu(const Tensor& x, const NameOption& options = {});
Tensor sigmoid(const Tensor& x, const NameOption& options = {});
Tensor tanh(const Tensor& x, const NameOption& options = {});
Tensor elu(const Tensor& x, const NameOption& options = {});
Tensor add(const Tensor& a, const Tensor& b, const NameOption& options = {});
Tensor add(const std::vector<Tensor>& terms, const NameOption& options = {});
Tensor flatten(const Tensor& x, const std::string& into, const NameOption& options = {});  // all dims but the first become `into`
// Changes of shape. Dims that they make (sizes may be left 0) are cut as the dims they come from unless a rule says otherwise; concat's
// and stack's are not cut without a rule.
Tensor reshape(const Tensor& x, const ReshapeOptions& options);  // row-major over `in` = row-major over `out`: splits, merges
Tensor rename(const Tensor& x, const Dim& in, const Dim& out, const NameOption& options = {});
Tensor transpose(const Tensor& x, const std::vector<Dim>& order, const NameOption& options = {});
Tensor slice(const Tensor& x, const SliceOptions& options);
Tensor pad(const Tensor& x, const PadOptions& options);
Tensor concat(const std::vector<Tensor>& parts, const ConcatOptions& options);
Tensor stack(const std::vector<Tensor>& parts, const StackOptions& options);
Tensor sum(const Tensor& x, const std::vector<Dim>& over = {}, const NameOption& options = {});   // empty: all dims
Tensor mean(const Tensor& x, const std::vector<Dim>& over = {}, const NameOption& options = {});
// One loss per element of the logits without `over`; labels[first dim of the logits] in 0..size-1, i32.
Tensor softmax_cross_entropy(const Tensor& logits, const Tensor& labels, const Dim& over, const NameOption& options = {});

}  // namespace motley
