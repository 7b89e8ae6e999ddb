// SPDX-License-Identifier: Apache-2.0
// Functions of a KernelSpec: hash, work, operands, a line for people.
#include <motley/error.h>
#include <motley/kernel_spec.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <sstream>

#include "base/hash.h"
#include "kernels/kernel_names.h"
#include "kernels/kernel_spec_fields.h"
#include "kernels/operands.h"

namespace motley {
namespace {

Index product_of(const std::vector<Index>& extents) {
  return std::accumulate(extents.begin(), extents.end(), Index{1}, std::multiplies<>());
}

OperandUse dense_operand(DType dtype, Format format, std::vector<Index> extents) {
  const Index elements = product_of(extents);
  return {dtype, format, std::move(extents), elements, elements};
}
OperandUse dense_operand(const KernelSpec& spec, Format format, std::vector<Index> extents) {
  return dense_operand(spec.dtype, format, std::move(extents));
}
OperandUse bias_operand(const KernelSpec& spec) {
  return dense_operand(spec.dtype == DType::bf16 ? DType::f32 : spec.dtype, Format::plain, {spec.roles.g * spec.roles.f});
}

// Elements of a map's operand that are really read or written.
Index touched_by(const MapOperand& operand, const std::vector<Index>& extents) {
  check(operand.strides.size() == extents.size(), "a map's operand has one stride per extent");
  Index touched = 1;
  for (std::size_t i = 0; i < extents.size(); i++)
    if (operand.strides[i] != 0) touched *= extents[i];
  return touched;
}

OperandUse map_operand(const MapOperand& operand, const std::vector<Index>& extents) {
  const Index touched = touched_by(operand, extents);
  Index last = 0;
  for (std::size_t i = 0; i < extents.size(); i++)
    if (operand.strides[i] != 0) last += (extents[i] - 1) * operand.strides[i];
  const Index elements = touched == 0 ? 0 : last + 1;
  return {operand.dtype, Format::plain, {elements}, elements, touched};
}

// x, w, y in the order in which the pass reads and writes them.
std::vector<OperandUse> window_operands(const KernelSpec& spec) {
  const Roles& e = spec.roles;
  const bool conv = spec.op == KernelOp::conv2d;
  const Index groups = conv ? e.g : 1;
  const OperandUse x = dense_operand(spec, spec.x_format, {e.n, groups * e.c, e.h, e.w});
  const OperandUse w = dense_operand(spec, spec.w_format, {groups * e.f, e.c, e.r, e.s});
  const OperandUse y = dense_operand(spec, spec.y_format, {e.n, groups * (conv ? e.f : e.c), e.p, e.q});
  if (!conv) {
    if (spec.pass == PassKind::forward) return {x, y};
    const std::array<Index, 4>& m = spec.halo;
    if (spec.op == KernelOp::max_pool2d)
      return {y, dense_operand(spec, spec.x_format, {e.n, e.c, e.h + m[0] + m[1], e.w + m[2] + m[3]}), x};
    return {y, x};
  }
  switch (spec.pass) {
    case PassKind::forward:
      if (spec.bias) return {x, w, bias_operand(spec), y};
      return {x, w, y};
    case PassKind::backward_data: return {y, w, x};
    case PassKind::backward_filter: return {x, y, w};
  }
  return {};
}

std::vector<OperandUse> dense_operands(const KernelSpec& spec) {
  const Roles& e = spec.roles;
  check(e.g == 1 || !spec.bias, "a batch of products adds no bias");
  const OperandUse x = dense_operand(spec, Format::plain, {e.g * e.n, e.c}),
                   w = dense_operand(spec, Format::plain, {e.g * e.f, e.c}),
                   y = dense_operand(spec, Format::plain, {e.g * e.n, e.f});
  switch (spec.pass) {
    case PassKind::forward:
      if (spec.bias) return {x, w, bias_operand(spec), y};
      return {x, w, y};
    case PassKind::backward_data: return {y, w, x};
    case PassKind::backward_filter: return {x, y, w};
  }
  return {};
}

std::vector<OperandUse> attention_operands(const KernelSpec& spec) {
  check_attention(spec);
  const Roles& e = spec.roles;
  const bool forward = spec.pass == PassKind::forward, narrow = spec.dtype == DType::bf16;
  const auto dense = [](DType dtype, std::vector<Index> extents) {
    return dense_operand(dtype, Format::plain, std::move(extents));
  };
  const auto by_query = [&](DType dtype) { return dense(dtype, {e.g * e.n, e.c}); };
  const auto by_key = [&](DType dtype) { return dense(dtype, {e.g * e.f, e.c}); };
  const DType single = narrow ? DType::f32 : spec.dtype, made = narrow ? spec.result : spec.dtype;
  const OperandUse one = dense(single, {e.g * e.n});
  std::vector<OperandUse> out{by_query(spec.dtype), by_key(spec.dtype), by_key(spec.dtype)};
  if (!forward) out.insert(out.end(), {by_query(spec.dtype), one, one});
  if (spec.share > 0) out.push_back(dense(single, {e.g / spec.share, e.f}));
  const std::array<OperandUse, 3> results{by_query(made), forward ? one : by_key(made), by_key(made)};
  for (std::size_t k = 0; k < results.size(); k++)
    if ((spec.made >> k & 1) != 0) {
      out.push_back(results[k]);
      out.back().read = false;
      out.back().written = true;
    }
  return out;
}

// Number of pairs of a query and a key that counts for it, without regard to a mask.
double pairs_of(const KernelSpec& spec) {
  const auto real = [](Index v) { return static_cast<double>(v); };
  const Roles& e = spec.roles;
  if (!spec.causal) return real(e.g) * real(e.n) * real(e.f);
  // Query i has clamp(first + i, 0, f) keys: first none, then one more from each query to the next, then all.
  const Index first = spec.origin[0] + 1 - spec.origin[1], none = std::clamp<Index>(-first, 0, e.n),
              rising = std::clamp<Index>(e.f - first, none, e.n);
  const double mean = (real(first + none) + real(first + rising - 1)) / 2;
  return real(e.g) * (real(rising - none) * mean + real(e.n - rising) * real(e.f));
}

double products_of(const KernelSpec& spec) {
  const auto made = static_cast<double>(result_count(spec));
  if (spec.pass == PassKind::forward) return (spec.made & kMakesOutput) != 0 ? 2 : 1;
  return 1 + made + ((spec.made & (kMakesQuery | kMakesKey)) != 0 ? 1 : 0);
}

}  // namespace

// An extent of 0 counts as 1, so that no stride is 0: in a map a stride of 0 would mean that the operand does not have the index.
std::vector<Index> strides_of(Format format, const std::vector<Index>& extents) {
  std::vector<Index> strides(extents.size());
  const std::size_t channels = format == Format::channels_last && extents.size() > 2 ? 1 : extents.size();  // the innermost dim
  Index next = 1;
  const auto lay = [&](std::size_t i) {
    strides[i] = next;
    next *= std::max<Index>(1, extents[i]);
  };
  if (channels < extents.size()) lay(channels);
  for (std::size_t i = extents.size(); i-- > 0;)
    if (i != channels) lay(i);
  return strides;
}

std::vector<OperandUse> operands_of(const KernelSpec& spec) {
  std::vector<OperandUse> uses;
  if (spec.op == KernelOp::map) {
    const std::size_t results = result_count(spec);
    for (const MapOperand& operand : spec.operands) uses.push_back(map_operand(operand, spec.extents));
    check(uses.size() >= results, "a map has its results");
    for (std::size_t i = uses.size() - results; i < uses.size(); i++) {
      uses[i].read = false;
      uses[i].written = true;
    }
    return uses;
  }
  if (spec.op == KernelOp::attention) return attention_operands(spec);
  uses = spec.op == KernelOp::dense ? dense_operands(spec) : window_operands(spec);
  uses.back().read = spec.accumulate;
  if (spec.dtype == DType::bf16 && !is_pool(spec.op)) uses.back().dtype = spec.result;
  uses.back().written = true;
  return uses;
}

KernelSpec in_f32(KernelSpec spec) {
  spec.dtype = spec.result = DType::f32;
  return spec;
}

void check_map(const KernelSpec& spec) {
  check(spec.dtype != DType::bf16, "a map's operands have types of their own");
  check(spec.pass == PassKind::forward, "a map has one pass");
  check(spec.summands == 1 || (spec.summands >= 0 && !is_integer_operand(spec.formula, 0) && !is_scalar_operand(spec.formula, 0)),
        "a sum is a real number");
  const std::size_t inputs = input_count(spec), results = result_count(spec);
  check(spec.operands.size() == inputs + results, "a map has the operands of its formula");
  for (const MapOperand& operand : spec.operands)
    check(operand.strides.size() == spec.extents.size(), "a map's operand has one stride per extent");
  const bool copies = is_copy(spec);
  for (std::size_t i = 0; i < spec.operands.size(); i++) {
    const bool integer = i < inputs && is_integer(spec, i);
    check((spec.operands[i].dtype == DType::i32) == integer || (copies && spec.operands[0].dtype == spec.operands[1].dtype),
          "a map's operand is i32 where its formula reads an integer");
    if (i < inputs && is_scalar(spec, i))
      check(spec.operands[i].dtype == DType::f64 &&
                std::all_of(spec.operands[i].strides.begin(), spec.operands[i].strides.end(), [](Index s) { return s == 0; }),
            "a scalar is one f64 element");
  }
  if (reads_position(spec.formula, -1))
    check(spec.origin.size() == spec.extents.size(), "a map that reads positions has an origin");
  for (const Instruction& s : spec.formula.code)
    check(s.op != Opcode::position || (s.a >= 0 && static_cast<std::size_t>(s.a) < spec.extents.size()),
          "a map's formula reads positions along its extents");
  check(results == 1 || spec.combine == Combine::add || (spec.combine == Combine::set && spec.scale == 1),
        "a map with several results adds, or neither reduces nor scales");
  for (std::size_t d = 0; d < spec.extents.size(); d++)
    for (std::size_t k = 0; k < results; k++) {
      const bool reduced = spec.operands[inputs + k].strides[d] == 0;
      check(!reduced || spec.extents[d] <= 1 || spec.combine != Combine::set, "set has no reduced index");
      check(spec.extents[d] == 1 || reduced == (spec.operands[inputs].strides[d] == 0),
            "all results of a map reduce the same indices");
    }
}

void check_attention(const KernelSpec& spec) {
  const Index most = spec.pass == PassKind::forward ? 4 : 8;
  check(spec.pass != PassKind::backward_filter && spec.made > 0 && spec.made < most, "attention makes some of its results");
  check(spec.share == 0 || spec.roles.g % spec.share == 0, "each row of a mask is for as many heads");
  check(spec.heads > 0 && spec.roles.g % spec.heads == 0, "heads that are side by side are whole groups");
  check(!spec.causal || spec.origin.size() == 2, "causal attention has an origin");
}

int operand_count(const KernelSpec& spec) {
  switch (spec.op) {
    case KernelOp::conv2d:
    case KernelOp::dense: return spec.pass == PassKind::forward && spec.bias ? 4 : 3;
    case KernelOp::max_pool2d: return spec.pass == PassKind::forward ? 2 : 3;
    case KernelOp::avg_pool2d: return 2;
    case KernelOp::map: return static_cast<int>(spec.operands.size());
    case KernelOp::attention:
      return (spec.pass == PassKind::forward ? 3 : 6) + (spec.share > 0 ? 1 : 0) + static_cast<int>(result_count(spec));
  }
  return 0;
}

double flops(const KernelSpec& spec) {
  const auto real = [](Index v) { return static_cast<double>(v); };
  const Roles& e = spec.roles;
  switch (spec.op) {
    case KernelOp::conv2d: return 2 * real(e.g) * real(e.n) * real(e.f) * real(e.p) * real(e.q) * real(e.c) * real(e.r) * real(e.s);
    case KernelOp::dense: return 2 * real(e.g) * real(e.n) * real(e.f) * real(e.c);
    case KernelOp::max_pool2d:
    case KernelOp::avg_pool2d: return real(e.n) * real(e.c) * real(e.p) * real(e.q) * real(e.r) * real(e.s);
    case KernelOp::map: return real(product_of(spec.extents)) * real(static_cast<Index>(spec.operands.size()));
    case KernelOp::attention: return 2 * pairs_of(spec) * real(e.c) * products_of(spec);
  }
  return 0;
}

Index bytes_touched(const KernelSpec& spec) {
  Index bytes = 0;
  if (spec.op == KernelOp::map) {  // no lists are made: planning counts the bytes of millions of maps
    for (const MapOperand& operand : spec.operands)
      bytes += touched_by(operand, spec.extents) * static_cast<Index>(bytes_of(operand.dtype));
    return bytes;
  }
  for (const OperandUse& use : operands_of(spec))
    bytes += use.touched * static_cast<Index>(bytes_of(use.dtype)) * (Index{use.read} + Index{use.written});
  return bytes;
}

std::size_t hash_of(const KernelSpec& spec) {
  Hash hash;
  hash.add(spec);
  return hash.value();
}

namespace {

std::string by(Index a, Index b) {
  return std::to_string(a) + "x" + std::to_string(b);
}

std::string joined(const std::vector<Index>& extents) {
  std::string text;
  for (const Index extent : extents) text += (text.empty() ? "" : "x") + std::to_string(extent);
  return text.empty() ? "scalar" : text;
}

std::string by_groups(const Roles& e) {
  return e.g == 1 ? "" : " g" + std::to_string(e.g);
}

// conv2d and pools; only what is not the default: " stride 2x2 padding 1,1,1,1 channels_last"
std::string window_summary(const KernelSpec& spec) {
  const Roles& e = spec.roles;
  const bool conv = spec.op == KernelOp::conv2d;
  std::string text = by_groups(e) + " n" + std::to_string(e.n) + " c" + std::to_string(e.c) + " " + by(e.h, e.w) + " -> " +
                     (conv ? "f" + std::to_string(e.f) + " " : "") + by(e.r, e.s);
  if (spec.stride != KernelSpec{}.stride) text += " stride " + by(spec.stride[0], spec.stride[1]);
  if (spec.dilation != KernelSpec{}.dilation) text += " dilation " + by(spec.dilation[0], spec.dilation[1]);
  if (spec.padding != KernelSpec{}.padding) {
    text += " padding";
    for (std::size_t i = 0; i < 4; i++) text += (i == 0 ? " " : ",") + std::to_string(spec.padding[i]);
  }
  if (spec.halo != KernelSpec{}.halo) {
    text += " halo";
    for (std::size_t i = 0; i < 4; i++) text += (i == 0 ? " " : ",") + std::to_string(spec.halo[i]);
  }
  const bool same = spec.x_format == spec.y_format && (!conv || spec.w_format == spec.x_format);
  if (!same) {
    text += " x:" + to_string(spec.x_format) + (conv ? " w:" + to_string(spec.w_format) : "") + " y:" + to_string(spec.y_format);
  } else if (spec.x_format != Format::plain) {
    text += " " + to_string(spec.x_format);
  }
  return text;
}

std::string map_summary(const KernelSpec& spec) {
  std::string text = " ";
  if (spec.summands != 1) text += "sum of " + std::to_string(spec.summands) + (spec.formula.code.empty() ? "" : ", ");
  if (!spec.formula.code.empty()) text += summary(spec.formula);
  if (text == " ") text += "copy";
  if (spec.scale != 1) text += " * " + (std::ostringstream() << spec.scale).str();
  text += ", " + joined(spec.extents);
  if (spec.combine == Combine::set) return text;
  std::vector<Index> kept;
  for (std::size_t i = 0; i < spec.extents.size(); i++)
    if (spec.operands.back().strides[i] != 0) kept.push_back(spec.extents[i]);
  return text + " -> " + name_of(spec.combine) + " " + joined(kept);
}

// " g64 n128 x f128 c32 causal masked -> dq dk dv"
std::string attention_summary(const KernelSpec& spec) {
  static const std::array<std::array<const char*, 3>, 2> kNames{{{" y", " lse", ""}, {" dq", " dk", " dv"}}};
  const Roles& e = spec.roles;
  std::string text = by_groups(e) + " n" + std::to_string(e.n) + " x f" + std::to_string(e.f) + " c" + std::to_string(e.c);
  if (spec.causal) text += " causal from " + std::to_string(spec.origin[0]) + "," + std::to_string(spec.origin[1]);
  if (spec.share > 0) text += " masked";
  if (spec.heads > 1) text += " " + std::to_string(spec.heads) + " side by side";
  text += " ->";
  for (std::size_t k = 0; k < 3; k++)
    if ((spec.made >> k & 1) != 0) text += kNames[spec.pass == PassKind::forward ? 0 : 1][k];
  return text;
}

}  // namespace

std::string summary(const KernelSpec& spec) {
  std::string text = name_of(spec.op);
  if (spec.op != KernelOp::map) text += " " + name_of(spec.pass);
  switch (spec.op) {
    case KernelOp::dense:
      text += by_groups(spec.roles) + " n" + std::to_string(spec.roles.n) + " c" + std::to_string(spec.roles.c) + " -> f" +
              std::to_string(spec.roles.f);
      break;
    case KernelOp::map: text += map_summary(spec); break;
    case KernelOp::attention: text += attention_summary(spec); break;
    default: text += window_summary(spec);
  }
  if (spec.bias) text += " bias";
  if (spec.accumulate) text += " added";
  if (!spec.epilogue.code.empty()) text += " then " + summary(spec.epilogue);
  if (spec.dtype != DType::f32) text += " " + to_string(spec.dtype);
  if (spec.dtype == DType::bf16 && !is_pool(spec.op) && spec.result != spec.dtype) text += " to " + to_string(spec.result);
  return text;
}

}  // namespace motley
