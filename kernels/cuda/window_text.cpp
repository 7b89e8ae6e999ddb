// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/window_text.h"

#include <fmt/format.h>
#include <motley/error.h>

#include <algorithm>

#include "kernels/cuda/formula_text.h"
#include "kernels/cuda/kernel_text.h"
#include "kernels/operands.h"

namespace motley::cuda {
namespace {

struct Types {
  DType in0 = DType::f32, in1 = DType::f32, bias = DType::f32, out = DType::f32;
  bool small = true;  // indices fit 32 bits
};

std::string types_text(const Types& t) {
  const bool wide = t.out == DType::f64;
  return fmt::format(
      "typedef {} Index;\ntypedef {} In0;\ntypedef {} In1;\ntypedef {} Bias;\ntypedef {} Out;\ntypedef {} Value;\n"
      "struct Arguments {{\nconst In0* in0;\nconst In1* in1;\nconst Bias* bias;\nOut* out;\nlong long n, first, samples;\n}};\n",
      t.small ? "int" : "long long", type_text(t.in0), type_text(t.in1), type_text(t.bias), type_text(t.out),
      wide ? "double" : "float");
}

bool is_small(std::initializer_list<const Slice*> slices) {
  return std::all_of(slices.begin(), slices.end(), [](const Slice* s) { return s->elements < (Index{1} << 30); });
}

std::string slice_text(const char* name, const Slice& s) {
  return fmt::format("typedef Slice<{}, {}, {}, {}, {}, {}, {}, {}> {};\n", s.extents[1], s.extents[2], s.extents[3], s.strides[0],
                     s.strides[1], s.strides[2], s.strides[3], s.channels_last, name);
}

std::string epilogue_function(const Formula& epilogue) {
  const FormulaText text =
      formula_text(epilogue, true, {[](int) { return "v"; }, [](int) { return "0"; }, [](int) { return "0"; }});
  return "DEVICE double epilogue(double v) {\n" + text.statements + "return " + text.results.front() + ";\n}\n";
}

std::string constants_text(const std::vector<std::pair<const char*, Index>>& constants) {
  std::string out;
  for (const auto& [name, value] : constants) out += fmt::format("constexpr Index {} = {};\n", name, value);
  return out;
}

std::string each_element(const std::string& statements) {
  return "KERNEL(run) {\nEACH_THREAD {\nconst long long element = (long long)BLOCK_X * 256 + thread;\nif (element < a.n) {\n"
         "const Index i = (Index)element;\n" +
         statements + "}\n}\n}\n";
}

// The constants of slices alone: what moves need of window.inc.
std::string no_window() {
  return constants_text({{"kStrideRows", 1},
                         {"kStrideCols", 1},
                         {"kDilationRows", 1},
                         {"kDilationCols", 1},
                         {"kPaddingTop", 0},
                         {"kPaddingLeft", 0},
                         {"kAbove", 0},
                         {"kLeft", 0},
                         {"kWindowRows", 1},
                         {"kWindowCols", 1},
                         {"kC", 1},
                         {"kF", 1}});
}

// window.inc with its constants around it: the slices' template comes first.
std::string with_slices(const std::string& types, const std::string& slices, const std::string& constants) {
  const std::string& all = window_text();
  const std::string mark = "// x[n gc h w]";
  const std::size_t at = all.find(mark);
  check(at != std::string::npos, "text/window.inc has slices first, then windows");
  return prelude_text() + types + all.substr(0, at) + slices + constants + all.substr(at);
}

}  // namespace

Slice slice_of(Format format, const std::vector<Index>& extents) {
  Slice slice;
  const std::vector<Index> strides = strides_of(format, extents);
  for (std::size_t d = 0; d < 4; d++) {
    slice.extents[d] = extents[d];
    slice.strides[d] = strides[d];
  }
  slice.elements = extents[0] * extents[1] * extents[2] * extents[3];
  slice.channels_last = format == Format::channels_last;
  return slice;
}

DType input_dtype(const KernelSpec& spec) {
  return spec.dtype;
}
DType result_dtype(const KernelSpec& spec) {
  if (spec.dtype != DType::bf16) return spec.dtype;
  return is_pool(spec.op) ? DType::bf16 : spec.result;
}

Slices slices_of(const KernelSpec& spec) {
  const Roles& e = spec.roles;
  const Index one = 1;
  if (spec.op == KernelOp::dense)  // as a convolution of one element: x[gn c 1 1], w[gf c 1 1], y[gn f 1 1]
    return {slice_of(Format::plain, {e.g * e.n, e.c, one, one}), slice_of(Format::plain, {e.g * e.f, e.c, one, one}),
            slice_of(Format::plain, {e.g * e.n, e.f, one, one})};
  return {slice_of(spec.x_format, {e.n, e.g * e.c, e.h, e.w}), slice_of(spec.w_format, {e.g * e.f, e.c, e.r, e.s}),
          slice_of(spec.y_format, {e.n, e.g * (is_pool(spec.op) ? e.c : e.f), e.p, e.q})};
}

std::string window_kernel_text(const KernelSpec& spec) {
  const Roles& e = spec.roles;
  const Slices s = slices_of(spec);
  const bool dense = spec.op == KernelOp::dense, forward = spec.pass == PassKind::forward, max = spec.op == KernelOp::max_pool2d;
  const std::array<Index, 4>& m = spec.halo;
  const Slice whole = slice_of(spec.x_format, {e.n, e.c, e.h + m[0] + m[1], e.w + m[2] + m[3]});
  Types types{spec.dtype, spec.dtype, spec.dtype == DType::f64 ? DType::f64 : DType::f32, result_dtype(spec),
              is_small({&s.x, &s.w, &s.y, &whole})};
  std::vector<std::pair<const char*, Index>> constants{{"kStrideRows", dense ? 1 : spec.stride[0]},
                                                       {"kStrideCols", dense ? 1 : spec.stride[1]},
                                                       {"kDilationRows", dense ? 1 : spec.dilation[0]},
                                                       {"kDilationCols", dense ? 1 : spec.dilation[1]},
                                                       {"kPaddingTop", dense ? 0 : spec.padding[0]},
                                                       {"kPaddingLeft", dense ? 0 : spec.padding[2]},
                                                       {"kAbove", m[0]},
                                                       {"kLeft", m[2]},
                                                       {"kWindowRows", dense ? 1 : e.r},
                                                       {"kWindowCols", dense ? 1 : e.s},
                                                       {"kC", e.c},
                                                       {"kF", e.f}};
  const std::string slices = slice_text("X", s.x) + slice_text("W", s.w) + slice_text("Y", s.y) + slice_text("Whole", whole);
  std::string out = with_slices(types_text(types), slices, constants_text(constants));
  const std::string at = forward ? "Y::locate(i)" : spec.pass == PassKind::backward_data ? "X::locate(i)" : "W::locate(i)";
  if (is_pool(spec.op)) {
    const std::string call = max ? (forward ? "max_forward(a.in0, {})" : "max_backward(a.in0, a.in1, {})")
                                 : (forward ? "mean_forward(a.in0, {})" : "mean_backward(a.in0, {})");
    return out + each_element("put(a.out[i], " + fmt::format(fmt::runtime(call), at) + ");\n");
  }
  if (spec.pass == PassKind::backward_data)
    return out + each_element("put(a.out[i], convolution_backward_data(a.in0, a.in1, " + at + "));\n");
  if (spec.pass == PassKind::backward_filter)
    return out + each_element("put(a.out[i], convolution_backward_filter(a.in0, a.in1, " + at + ", (Index)a.samples));\n");
  std::string body = "const At at = " + at + ";\ndouble sum = convolution_forward(a.in0, a.in1, at);\n";
  if (spec.accumulate) body += "sum += (double)get(a.out[i]);\n";
  if (spec.bias) body += "sum += (double)get(a.bias[at.b]);\n";
  return out + epilogue_function(spec.epilogue) + each_element(body + "put(a.out[i], epilogue(sum));\n");
}

std::string move_text(const MoveOptions& o, DType dtype) {
  const std::string slices =
      slice_text("X", o.from) + slice_text("W", o.from) + slice_text("Y", o.to) + slice_text("Whole", o.from);
  return with_slices(types_text({dtype, dtype, dtype, dtype, is_small({&o.from, &o.to})}), slices, no_window()) +
         each_element(fmt::format("const At at = Y::locate(i);\nconst Index c = at.c + {}, d = at.d + {};\n"
                                  "a.out[i] = real(c, d) ? a.in0[X::offset(at.a, at.b, c, d)] : Out{{}};\n",
                                  o.below, o.right));
}

std::string epilogue_text(const EpilogueOptions& o) {
  const DType bias = o.result == DType::f64 ? DType::f64 : DType::f32;
  const std::string slices =
      slice_text("X", o.from) + slice_text("W", o.from) + slice_text("Y", o.to) + slice_text("Whole", o.from);
  std::string body = "const At at = Y::locate(i);\ndouble v = (double)get(a.in0[X::offset(at.a, at.b, at.c, at.d)]);\n";
  if (o.accumulate) body += "v += (double)get(a.out[i]);\n";
  if (o.bias) body += "v += (double)get(a.bias[at.b]);\n";
  return with_slices(types_text({o.sum, o.sum, bias, o.result, is_small({&o.from, &o.to})}), slices, no_window()) +
         epilogue_function(o.epilogue) + each_element(body + "put(a.out[i], epilogue(v));\n");
}

std::string conversion_text(DType from, DType to) {
  return prelude_text() + types_text({from, from, DType::f32, to, false}) + each_element("put(a.out[i], get(a.in0[i]));\n");
}

}  // namespace motley::cuda
