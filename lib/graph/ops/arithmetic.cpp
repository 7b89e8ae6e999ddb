// SPDX-License-Identifier: Apache-2.0
// Ops of one or two operands that are maps of a short formula, and the operators.
#include <fmt/format.h>
#include <motley/error.h>

#include <cfloat>
#include <cmath>

#include "graph/compiled.h"
#include "graph/layer_kind.h"
#include "graph/ops/map.h"
#include "graph/pointwise.h"

namespace motley {

namespace {

// As a formula has it.
std::string number(const std::string& op, double value) {
  if (!(std::abs(value) <= static_cast<double>(FLT_MAX)))
    throw UserError(fmt::format("{}: found the number {}; expected one between {:.3g} and {:.3g}", op, value, -FLT_MAX, FLT_MAX));
  return fmt::format("{}", value);
}
Tensor unary(const std::string& op, const Tensor& x, const NameOption& o) {
  return map_as(op, op + "(t0)", {x}, o.name);
}
Tensor binary(const std::string& op, const Tensor& a, const Tensor& b, const NameOption& o) {
  return map_as(op, op + "(t0, t1)", {a, b}, o.name);
}
Tensor binary(const std::string& op, const Tensor& a, double b, const NameOption& o) {
  return map_as(op, op + "(t0, " + number(op, b) + ")", {a}, o.name);
}

}  // namespace

// A compiled loop on every ISA. The other words become machine code (kernels/loops/assemble.h); on AVX-512 the logarithms are
// interpreted.
static const Compiled kExpCompiled(Pointwise::formulas([](const Value& x) { return exp(x); }));

Tensor exp(const Tensor& x, const NameOption& o) {
  return unary("exp", x, o);
}
Tensor log(const Tensor& x, const NameOption& o) {
  return unary("log", x, o);
}
Tensor log1p(const Tensor& x, const NameOption& o) {
  return unary("log1p", x, o);
}
Tensor sqrt(const Tensor& x, const NameOption& o) {
  return unary("sqrt", x, o);
}
Tensor abs(const Tensor& x, const NameOption& o) {
  return unary("abs", x, o);
}
Tensor sub(const Tensor& a, const Tensor& b, const NameOption& o) {
  return map_as("sub", "t0 - t1", {a, b}, o.name);
}
Tensor div(const Tensor& a, const Tensor& b, const NameOption& o) {
  return map_as("div", "t0 / t1", {a, b}, o.name);
}
Tensor max(const Tensor& a, const Tensor& b, const NameOption& o) {
  return binary("max", a, b, o);
}
Tensor min(const Tensor& a, const Tensor& b, const NameOption& o) {
  return binary("min", a, b, o);
}
Tensor pow(const Tensor& a, const Tensor& b, const NameOption& o) {
  return binary("pow", a, b, o);
}
Tensor max(const Tensor& a, double b, const NameOption& o) {
  return binary("max", a, b, o);
}
Tensor min(const Tensor& a, double b, const NameOption& o) {
  return binary("min", a, b, o);
}
Tensor pow(const Tensor& a, double b, const NameOption& o) {
  return binary("pow", a, b, o);
}

Tensor operator+(const Tensor& a, const Tensor& b) {
  return add(a, b);
}
Tensor operator-(const Tensor& a, const Tensor& b) {
  return sub(a, b);
}
Tensor operator*(const Tensor& a, const Tensor& b) {
  return mul(a, b);
}
Tensor operator/(const Tensor& a, const Tensor& b) {
  return div(a, b);
}
Tensor operator+(const Tensor& a, double b) {
  return map_as("add", "t0 + " + number("add", b), {a}, "");
}
Tensor operator-(const Tensor& a, double b) {
  return map_as("sub", "t0 - " + number("sub", b), {a}, "");
}
Tensor operator*(const Tensor& a, double b) {
  return map_as("mul", "t0 * " + number("mul", b), {a}, "");
}
Tensor operator/(const Tensor& a, double b) {
  return map_as("div", "t0 / " + number("div", b), {a}, "");
}
Tensor operator+(double a, const Tensor& b) {
  return b + a;
}
Tensor operator-(double a, const Tensor& b) {
  return map_as("sub", number("sub", a) + " - t0", {b}, "");
}
Tensor operator*(double a, const Tensor& b) {
  return b * a;
}
Tensor operator/(double a, const Tensor& b) {
  return map_as("div", number("div", a) + " / t0", {b}, "");
}
Tensor operator-(const Tensor& x) {
  return map_as("sub", "-t0", {x}, "");
}

namespace {

using OfOne = Tensor (*)(const Tensor&, const NameOption&);
using OfTwo = Tensor (*)(const Tensor&, const Tensor&, const NameOption&);

struct UnaryKind : LayerKind {
  UnaryKind(const char* op_name, OfOne op)
      : LayerKind(op_name, 1, {}, [op](const LayerArguments& l) { return op(l.in(), {l.name}); }) {}
};
struct BinaryKind : LayerKind {
  BinaryKind(const char* op_name, OfTwo op)
      : LayerKind(op_name, 2, {}, [op](const LayerArguments& l) { return op(l.x[0], l.x[1], {l.name}); }) {}
};
const UnaryKind kExpKind("exp", exp), kLogKind("log", log), kLog1pKind("log1p", log1p), kSqrtKind("sqrt", sqrt),
    kAbsKind("abs", abs);
const BinaryKind kSubKind("sub", sub), kDivKind("div", div), kMaxKind("max", max), kMinKind("min", min), kPowKind("pow", pow);

}  // namespace

}  // namespace motley
