// SPDX-License-Identifier: Apache-2.0
// Random KernelSpecs with their operands.
#include <motley/error.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "graph/compiled.h"
#include "kernels/operands.h"
#include "tests/support/backend_law.h"
#include "tests/support/formulas.h"
#include "tests/support/random.h"

namespace motley::testing {
namespace {

constexpr double kMostFlops = 6e5;  // per case, so that a thousand cases take seconds

Index extent(Random& random, std::initializer_list<Index> list) {
  return random.one_in(40) ? 0 : random.of(list);
}

Format format(Random& random) {
  return random.of({Format::plain, Format::channels_last});
}

Formula epilogue(Random& random, LawMode mode) {
  if (random.one_in(4)) return {};
  if (mode == LawMode::exact)  // the second one is in no library
    return random.one_in(3) ? formula({operand(0) + operand(0)}) : forward_of("relu");
  const std::vector<std::string> names = Pointwise::names();
  if (random.one_in(8)) return formula({0.25 * operand(0) * operand(0)});
  return forward_of(names[static_cast<std::size_t>(random.in(0, static_cast<Index>(names.size()) - 1))]);
}

// One direction of a window op: rows (0) or columns (1).
struct Direction {
  Index size, window, stride, dilation, before, after, outputs;
};

Direction any_direction(Random& random, bool pool) {
  Direction d{};
  d.size = extent(random, {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 14, 17});
  if (random.one_in(12)) d.size = random.of<Index>({24, 30, 33, 40, 57, 70});
  d.window = random.one_in(60) ? 0 : random.of<Index>({1, 1, 2, 3, 3, 4, 5, 6});
  d.stride = random.of<Index>({1, 1, 1, 2, 2, 3, 4});
  d.dilation = random.one_in(pool ? 10 : 4) ? random.in(2, 3) : 1;
  const Index reach = (d.window - 1) * d.dilation + 1;  // rows of x under one window
  const auto padding = [&]() -> Index {
    if (random.one_in(8)) return -random.in(1, 3);                              // rows of x that no window reaches
    if (random.one_in(12)) return random.in(0, std::max<Index>(reach, 1) + 2);  // windows wholly in the padding
    return random.one_in(2) ? 0 : random.in(0, std::max<Index>(reach - 1, 0));
  };
  d.before = padding();
  d.after = padding();
  const Index room = d.size + d.before + d.after - reach;
  if (room < 0) return d;
  d.outputs = room / d.stride + 1;
  if (random.one_in(2)) d.after -= room % d.stride;  // as a plan says it: the last window ends at the last padded row
  if (random.one_in(50)) d.outputs = 0;
  return d;
}

// Mostly one with outputs.
Direction direction(Random& random, bool pool) {
  for (;;) {
    const Direction d = any_direction(random, pool);
    if (d.outputs > 0 || random.one_in(10)) return d;
  }
}

KernelSpec window_spec(Random& random, KernelOp op, LawMode mode) {
  KernelSpec spec;
  spec.op = op;
  const bool conv = op == KernelOp::conv2d;
  spec.pass = conv ? random.of({PassKind::forward, PassKind::backward_data, PassKind::backward_filter})
                   : random.of({PassKind::forward, PassKind::backward_data});
  spec.x_format = spec.w_format = spec.y_format = format(random);
  if (random.one_in(2)) spec.w_format = Format::plain;
  if (random.one_in(3)) {
    spec.x_format = format(random);
    spec.w_format = format(random);
    spec.y_format = format(random);
  }
  if (!conv) spec.w_format = Format::plain;
  do {
    const Direction rows = direction(random, !conv), cols = direction(random, !conv);
    spec.roles = {};
    spec.roles.n = extent(random, {1, 1, 2, 3, 5});
    spec.roles.c = extent(random, {1, 2, 3, 5, 7, 8, 11, 13, 16, 17, 24, 31, 32, 33});
    if (conv) spec.roles.f = extent(random, {1, 2, 3, 5, 7, 8, 11, 13, 16, 17, 24, 31, 32, 33});
    if (conv && random.one_in(3)) {  // by groups, half of them depthwise
      spec.roles.g = extent(random, {2, 3, 4, 7, 8, 15, 16, 17, 32, 33});
      spec.roles.c = random.one_in(2) ? 1 : extent(random, {1, 2, 3, 5, 8, 16, 17});
      spec.roles.f = random.one_in(2) ? 1 : extent(random, {1, 2, 3, 5, 8, 16, 17});
    }
    spec.roles.h = rows.size;
    spec.roles.w = cols.size;
    spec.roles.r = rows.window;
    spec.roles.s = cols.window;
    spec.roles.p = rows.outputs;
    spec.roles.q = cols.outputs;
    spec.stride = {rows.stride, cols.stride};
    spec.dilation = {rows.dilation, cols.dilation};
    spec.padding = {rows.before, rows.after, cols.before, cols.after};
    if (!conv && random.one_in(3))
      for (Index& m : spec.halo) m = random.one_in(2) ? 0 : random.in(1, 3);
  } while (flops(spec) > kMostFlops);
  if (conv && spec.pass == PassKind::forward) {
    spec.bias = random.one_in(2);
    spec.accumulate = random.one_in(3);
    spec.epilogue = epilogue(random, mode);
  }
  return spec;
}

KernelSpec dense_spec(Random& random, LawMode mode) {
  KernelSpec spec;
  spec.op = KernelOp::dense;
  spec.pass = random.of({PassKind::forward, PassKind::backward_data, PassKind::backward_filter});
  do {
    spec.roles.n = extent(random, {1, 2, 3, 5, 8, 13, 17, 32});
    spec.roles.c = extent(random, {1, 2, 3, 7, 10, 16, 31, 33, 64, 97, 128, 257, 1025, 2100});
    spec.roles.f = extent(random, {1, 2, 3, 7, 10, 16, 31, 33, 64, 97, 128, 257});
    spec.roles.g = random.one_in(3) ? extent(random, {2, 3, 5, 8, 13}) : 1;
  } while (flops(spec) > 4 * kMostFlops);
  if (spec.pass == PassKind::forward) {
    spec.bias = spec.roles.g == 1 && random.one_in(2);
    spec.epilogue = epilogue(random, mode);
  }
  return spec;
}

KernelSpec attention_spec(Random& random) {
  KernelSpec spec;
  spec.op = KernelOp::attention;
  spec.pass = random.of({PassKind::forward, PassKind::backward_data});
  spec.made = random.in(1, spec.pass == PassKind::forward ? 3 : 7);
  do {
    spec.roles.n = extent(random, {1, 2, 3, 5, 8, 17, 32, 67, 130});
    spec.roles.f = extent(random, {1, 2, 3, 5, 8, 17, 32, 67, 130});
    spec.roles.c = extent(random, {1, 2, 3, 5, 8, 16, 17, 32});
    spec.roles.g = extent(random, {1, 2, 3, 4, 6});
  } while (flops(spec) > 4 * kMostFlops);
  spec.scale = random.of({1.0, 0.125, 0.3, -0.5});
  if (random.one_in(2)) do
      spec.heads = random.in(1, 6);
    while (spec.roles.g % spec.heads != 0);
  spec.causal = random.one_in(2);
  if (spec.causal) spec.origin = {random.in(0, 20), random.one_in(2) ? 0 : random.in(0, 30)};
  if (random.one_in(2)) do
      spec.share = random.in(1, 6);
    while (spec.roles.g % spec.share != 0);
  return spec;
}

// A view that has the indices in `has`, dims in some order in memory, sometimes with gaps.
std::vector<Index> view(Random& random, const std::vector<Index>& extents, const std::vector<bool>& has) {
  std::vector<std::size_t> order(extents.size());  // innermost first
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  if (random.one_in(2))
    for (std::size_t i = order.size(); i > 1; i--)
      std::swap(order[i - 1], order[static_cast<std::size_t>(random.in(0, static_cast<Index>(i) - 1))]);
  std::vector<Index> strides(extents.size(), 0);
  Index next = random.one_in(6) ? random.in(2, 3) : 1;
  for (const std::size_t dim : order) {
    if (!has[dim]) continue;
    strides[dim] = next;
    next *= std::max<Index>(extents[dim], 1);
    if (random.one_in(5)) next += random.in(1, 5);
  }
  return strides;
}

std::vector<Index> map_extents(Random& random, bool at_least_one) {
  std::vector<Index> extents;
  do {
    extents.assign(static_cast<std::size_t>(random.in(at_least_one ? 1 : 0, 6)), 0);
    for (Index& e : extents)
      e = extents.size() > 3 ? extent(random, {1, 2, 3, 4, 5, 8}) : extent(random, {1, 2, 3, 5, 8, 16, 17, 31, 64, 67});
  } while (std::accumulate(extents.begin(), extents.end(), 1.0, [](double a, Index b) { return a * static_cast<double>(b); }) >
           20000);
  return extents;
}

// An expression of so many operands: what no library and no op has, so that it is interpreted.
Value any_value(Random& random, LawMode mode, int operands, int depth) {
  const auto leaf = [&]() -> Value {
    if (random.one_in(4)) return mode == LawMode::exact ? random.of({0.5, 2.0, -1.0}) : random.real(-2, 2);
    if (random.one_in(10)) return scalar(operands);
    return operand(static_cast<int>(random.in(0, operands - 1)));
  };
  if (depth == 0) return leaf();
  const auto a = [&] { return any_value(random, mode, operands, depth - 1); };
  if (mode == LawMode::tolerance && random.one_in(3)) {
    switch (random.in(0, 7)) {
      case 0: return exp(a());
      case 1: return expm1(a());
      case 2: return tanh(a());
      case 3: return erf(a());
      case 4: return sqrt(a() * 0.125 + 3.0);
      case 5: return log(exp(a()) + 0.5);
      case 6: return log1p(exp(a()));
      default: return a() / (1.5 + tanh(a()));
    }
  }
  switch (random.in(0, 4)) {
    case 0: return a() + a();
    case 1: return a() - a();
    case 2: return a() * leaf();
    case 3: return select(leaf() < leaf(), a(), a());
    default: return select(leaf() <= leaf(), a(), leaf());
  }
}

// Results may be operands as they are, and the same value twice.
Formula any_formula(Random& random, LawMode mode) {
  for (;;) {
    const int operands = static_cast<int>(random.in(1, 4));
    std::vector<Value> results{any_value(random, mode, operands, static_cast<int>(random.in(0, 3)))};
    while (random.one_in(4) && results.size() < 3)
      results.push_back(random.one_in(3) ? results.front() : any_value(random, mode, operands, static_cast<int>(random.in(0, 1))));
    Formula f = formula(results);
    if (!f.code.empty()) return f;
  }
}

bool is_exact(const Formula& f) {
  return std::all_of(f.code.begin(), f.code.end(), [](const Instruction& s) {
    const bool fraction = s.op == Opcode::constant && s.value * 8 != std::round(s.value * 8);
    return s.op <= Opcode::select && s.op != Opcode::div && !fraction;
  });
}

// Rows of operand 1 that operand 0 names, or what is added to them (kernels/one_hot.h).
Formula rows_by_number(int extent) {
  return formula({select(matches(position(extent), integer(0)), operand(1), 0.0)});
}

// One that an op makes, mostly; in exact mode of additions and products alone.
Formula map_formula(Random& random, LawMode mode) {
  if (random.one_in(3)) return {};
  if (random.one_in(12)) return rows_by_number(static_cast<int>(random.in(0, 2)));
  if (random.one_in(3)) return any_formula(random, mode);
  const std::vector<CompiledFormula>& all = compiled_formulas();
  for (;;) {
    const CompiledFormula& one = all[static_cast<std::size_t>(random.in(0, static_cast<Index>(all.size()) - 1))];
    if (one.width == Width::f32 && (mode == LawMode::tolerance || is_exact(one.formula))) return one.formula;
  }
}

KernelSpec map_spec(Random& random, LawMode mode) {
  KernelSpec spec;
  spec.op = KernelOp::map;
  spec.formula = map_formula(random, mode);
  int positions = 0;  // extents that it needs
  for (const Instruction& s : spec.formula.code)
    if (s.op == Opcode::position) positions = std::max(positions, s.a + 1);
  do spec.extents = map_extents(random, positions > 0);
  while (static_cast<int>(spec.extents.size()) < positions);
  const std::size_t results = result_count(spec);
  spec.combine =
      results > 1 ? random.of({Combine::set, Combine::add}) : random.of({Combine::set, Combine::set, Combine::add, Combine::max});
  if (positions > 0 && spec.formula == rows_by_number(positions - 1) && !random.one_in(4)) spec.combine = Combine::add;
  const bool many = positions == 0 && random.one_in(6);  // more than one group of a backend's
  if (many) spec.extents.resize(std::min(spec.extents.size(), std::size_t{2}));
  const std::vector<Index>& extents = spec.extents;
  const bool sums = !is_integer_operand(spec.formula, 0) && !is_scalar_operand(spec.formula, 0) && (many || random.one_in(3));
  if (sums) spec.summands = many ? random.of<Index>({15, 16, 17, 56, 64, 65, 130}) : random.in(0, 5);
  const std::size_t inputs = input_count(spec);
  for (std::size_t i = 0; i < inputs; i++) {
    std::vector<bool> has(extents.size());
    for (std::size_t d = 0; d < has.size(); d++) has[d] = i == 0 || random.one_in(2);
    MapOperand operand{DType::f32, view(random, extents, has)};
    if (is_scalar(spec, i)) operand = {DType::f64, std::vector<Index>(extents.size(), 0)};
    if (is_integer(spec, i))
      operand.dtype = DType::i32;
    else if (random.one_in(8))
      operand.dtype = DType::f64;
    spec.operands.push_back(std::move(operand));
  }
  std::vector<bool> kept(extents.size(), true);
  if (spec.combine != Combine::set)
    for (std::size_t d = 0; d < kept.size(); d++) kept[d] = random.one_in(2);
  const DType wide = random.one_in(8) ? DType::f64 : DType::f32;
  for (std::size_t k = 0; k < results; k++) spec.operands.push_back({k == 0 ? wide : DType::f32, view(random, extents, kept)});
  if (positions > 0)
    for (std::size_t d = 0; d < extents.size(); d++) spec.origin.push_back(random.of<Index>({0, 0, 3, 7}));
  if ((results == 1 || spec.combine == Combine::add) && random.one_in(3))
    spec.scale = mode == LawMode::exact ? random.of({0.5, 0.25, 2.0, -1.0}) : random.of({1.0 / 7, 0.125, -3.0});
  if (is_copy(spec) && random.one_in(4)) spec.operands[0].dtype = spec.operands[1].dtype = DType::i32;
  return spec;
}

// In place, where the result reduces nothing: a float operand takes the result's strides.
int alias_of(Random& random, KernelSpec& spec) {
  if (spec.op != KernelOp::map || input_count(spec) == 0 || !random.one_in(4)) return -1;
  const MapOperand& result = spec.operands.back();
  for (std::size_t d = 0; d < result.strides.size(); d++)
    if (result.strides[d] == 0) return -1;
  const Index at = random.in(0, static_cast<Index>(input_count(spec)) - 1);
  MapOperand& operand = spec.operands[static_cast<std::size_t>(at)];
  if (operand.dtype != result.dtype || is_scalar(spec, static_cast<std::size_t>(at))) return -1;
  operand.strides = result.strides;
  return static_cast<int>(at);
}

double element(Random& random, const KernelSpec& spec, std::size_t i, LawMode mode) {
  if (spec.op == KernelOp::map && spec.operands[i].dtype == DType::i32) return static_cast<double>(random.in(0, 12));
  if (mode == LawMode::exact) {
    // 3600 is divided by every product of two numbers up to 6: the sizes of clipped windows.
    return static_cast<double>(random.in(-4, 4) * (spec.op == KernelOp::avg_pool2d ? 3600 : 1));
  }
  return random.real(-1, 1);
}

}  // namespace

LawCase law_case(std::uint64_t seed, int number, LawMode mode) {
  Random random(seed, number);
  LawCase one;
  switch (random.in(0, mode == LawMode::exact ? 10 : 11)) {
    case 0:
    case 1:
    case 2: one.spec = window_spec(random, KernelOp::conv2d, mode); break;
    case 3: one.spec = dense_spec(random, mode); break;
    case 4: one.spec = window_spec(random, KernelOp::max_pool2d, mode); break;
    case 5: one.spec = window_spec(random, KernelOp::avg_pool2d, mode); break;
    case 11: one.spec = attention_spec(random); break;  // exponentials are not exact
    default: one.spec = map_spec(random, mode);
  }
  one.options.alias = alias_of(random, one.spec);
  one.options.times = 2;
  if (one.spec.op == KernelOp::map) one.options.offset = static_cast<int>(random.in(0, 5));
  const std::vector<OperandUse> uses = operands_of(one.spec);
  for (std::size_t i = 0; i < uses.size(); i++) {
    one.images.emplace_back();
    if (!uses[i].read) continue;
    for (Index j = 0; j < uses[i].elements; j++)
      one.images[i].push_back(static_cast<double>(static_cast<float>(element(random, one.spec, i, mode))));
  }
  return one;
}

}  // namespace motley::testing
