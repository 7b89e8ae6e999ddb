// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/cudnn_graph.h"

#include <algorithm>
#include <array>
#include <bit>

#include "kernels/cuda/check.h"
#include "kernels/operands.h"
#include "kernels/value.h"

namespace motley::cuda {

Descriptor::Descriptor(cudnnBackendDescriptorType_t type) {
  MOTLEY_CUDA(cudnnBackendCreateDescriptor(type, &raw_));
}
Descriptor::~Descriptor() {
  if (raw_ != nullptr) cudnnBackendDestroyDescriptor(raw_);
}
Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
                            const void* value) {
  MOTLEY_CUDA(cudnnBackendSetAttribute(raw_, name, type, count, value));
  return *this;
}
Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, const std::vector<std::int64_t>& values) {
  return set(name, CUDNN_TYPE_INT64, static_cast<std::int64_t>(values.size()), values.data());
}
Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, const Descriptor& value) {
  return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value.raw_);
}
Descriptor& Descriptor::finish() {
  MOTLEY_CUDA(cudnnBackendFinalize(raw_));
  return *this;
}

Descriptor described_device(const std::string& json) {
  Descriptor device(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  device.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, static_cast<std::int64_t>(json.size()), json.data())
      .finish();
  return device;
}

std::int64_t workspace_limit(std::int64_t device_bytes) {
  return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(std::max<std::int64_t>(device_bytes, 0)) / 16));
}

namespace {

using Dims = std::array<Index, 4>;

cudnnDataType_t type_of(DType dtype) {
  return dtype == DType::f64 ? CUDNN_DATA_DOUBLE : dtype == DType::bf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
}

Descriptor tensor(std::int64_t id, DType dtype, const Dims& d, bool inside = false) {
  const cudnnDataType_t type = type_of(dtype);
  Descriptor t(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  t.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, {id})
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, {kDeviceAlignment})
      .set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
  t.set(CUDNN_ATTR_TENSOR_DIMENSIONS, {d[0], d[1], d[2], d[3]})
      .set(CUDNN_ATTR_TENSOR_STRIDES, {d[1] * d[2] * d[3], 1, d[1] * d[3], d[1]});
  t.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &inside).finish();
  return t;
}

// The operations of one pass, in order, with the tensors between them.
class Operations {
 public:
  // result: what the last tensor is stored as. Between operations, in sums and in a bias numbers are f32 (f64).
  Operations(const KernelSpec& spec, const Reach& reach, DType result, bool bias, bool epilogue, bool onto = false)
      : dtype_(spec.dtype),
        compute_(spec.dtype == DType::f64 ? DType::f64 : DType::f32),
        onto_(onto),
        convolution_(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR) {
    const Roles& e = spec.roles;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const cudnnDataType_t compute = type_of(compute_);
    convolution_.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, {2})
        .set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute)
        .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode)
        .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, {reach.before[0], reach.before[1]})
        .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, {reach.after[0], reach.after[1]})
        .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, {spec.stride[0], spec.stride[1]})
        .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, {spec.dilation[0], spec.dilation[1]})
        .finish();
    // For cuDNN the number of groups is x's channels divided by w's.
    const Dims x{e.n, e.g * e.c, reach.h, reach.w}, w{e.g * e.f, e.c, e.r, e.s}, y{e.n, e.g * e.f, e.p, e.q};
    const bool data = spec.pass == PassKind::backward_data, filter = spec.pass == PassKind::backward_filter;
    const std::int64_t x_at = add(kX, x, data ? result : dtype_), w_at = add(kW, w, filter ? result : dtype_);
    if (spec.pass != PassKind::forward) {
      backward(spec.pass, x_at, w_at, add(kY, y, dtype_));
      return;
    }
    const auto next = [&](std::int64_t inside, bool more) { return add(more ? inside : kY, y, more ? compute_ : result, more); };
    std::int64_t last = next(kInside, bias || epilogue);
    forward(x_at, w_at, last);
    if (bias) {
      const std::int64_t b = add(kB, {1, e.g * e.f, 1, 1}, compute_), sum = next(kInside + 1, epilogue);
      pointwise(CUDNN_POINTWISE_ADD, last, b, sum);
      last = sum;
    }
    if (epilogue) pointwise(CUDNN_POINTWISE_RELU_FWD, last, -1, next(0, false));
  }
  Descriptor graph(cudnnHandle_t handle) const {
    std::vector<cudnnBackendDescriptor_t> raw;
    for (const Descriptor& op : operations_) raw.push_back(op.raw());
    Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<std::int64_t>(raw.size()), raw.data());
    if (handle != nullptr) graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    graph.finish();
    return graph;
  }

 private:
  std::int64_t add(std::int64_t id, const Dims& dims, DType dtype, bool inside = false) {
    tensors_.push_back(tensor(id, dtype, dims, inside));
    return static_cast<std::int64_t>(tensors_.size()) - 1;
  }
  const Descriptor& at(std::int64_t i) const { return tensors_[static_cast<std::size_t>(i)]; }
  void scaled(Descriptor& op, cudnnBackendAttributeName_t alpha, cudnnBackendAttributeName_t beta) const {
    const double one = 1, old = onto_ ? 1 : 0;
    const float one_f = 1, old_f = onto_ ? 1 : 0;
    const bool wide = compute_ == DType::f64;
    op.set(alpha, wide ? CUDNN_TYPE_DOUBLE : CUDNN_TYPE_FLOAT, 1, wide ? static_cast<const void*>(&one) : &one_f);
    op.set(beta, wide ? CUDNN_TYPE_DOUBLE : CUDNN_TYPE_FLOAT, 1, wide ? static_cast<const void*>(&old) : &old_f);
  }
  void forward(std::int64_t x, std::int64_t w, std::int64_t y) {
    Descriptor op(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
    op.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, convolution_).set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, at(x));
    op.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, at(w)).set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, at(y));
    scaled(op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA);
    operations_.push_back(std::move(op.finish()));
  }
  void backward(PassKind pass, std::int64_t x, std::int64_t w, std::int64_t y) {
    const bool data = pass == PassKind::backward_data;
    Descriptor op(data ? CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR
                       : CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR);
    op.set(data ? CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC : CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
           convolution_);
    op.set(data ? CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX : CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, at(x));
    op.set(data ? CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W : CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, at(w));
    op.set(data ? CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY : CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, at(y));
    if (data)
      scaled(op, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA);
    else
      scaled(op, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA);
    operations_.push_back(std::move(op.finish()));
  }
  void pointwise(cudnnPointwiseMode_t mode, std::int64_t x, std::int64_t b, std::int64_t y) {
    const cudnnDataType_t compute = type_of(compute_);
    const cudnnNanPropagation_t nan = CUDNN_PROPAGATE_NAN;
    Descriptor function(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    function.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode)
        .set(CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_TYPE_NAN_PROPOGATION, 1, &nan)
        .set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &compute)
        .finish();
    Descriptor op(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    op.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, function).set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, at(x));
    if (b >= 0) op.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, at(b));
    op.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, at(y));
    operations_.push_back(std::move(op.finish()));
  }

  DType dtype_, compute_;
  bool onto_;  // y is added to
  Descriptor convolution_;
  std::vector<Descriptor> tensors_{}, operations_{};
};

std::int64_t number(const Descriptor& of, cudnnBackendAttributeName_t name) {
  std::int64_t value = 0, count = 0;
  MOTLEY_CUDA(cudnnBackendGetAttribute(of.raw(), name, CUDNN_TYPE_INT64, 1, &count, &value));
  return value;
}

// "_k2=7_k5=1"
std::string knobs_of(const Descriptor& configuration) {
  std::vector<Descriptor> knobs;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (int i = 0; i < CUDNN_KNOB_TYPE_COUNTS; i++) raw.push_back(knobs.emplace_back(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR).raw());
  std::int64_t count = 0;
  MOTLEY_CUDA(cudnnBackendGetAttribute(configuration.raw(), CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                       CUDNN_KNOB_TYPE_COUNTS, &count, raw.data()));
  std::string text;
  for (std::int64_t i = 0; i < count; i++) {
    const Descriptor& knob = knobs[static_cast<std::size_t>(i)];
    cudnnBackendKnobType_t type{};
    std::int64_t one = 0;
    MOTLEY_CUDA(cudnnBackendGetAttribute(knob.raw(), CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &one, &type));
    text += "_k" + std::to_string(static_cast<int>(type)) + "=" + std::to_string(number(knob, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE));
  }
  return text;
}

std::vector<Descriptor> configurations(const Descriptor& graph, const Target& target, cudnnBackendHeurMode_t mode) {
  Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph).set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  if (target.described != nullptr)
    heuristics.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &target.described);
  std::vector<Descriptor> out;
  if (cudnnBackendFinalize(heuristics.raw()) != CUDNN_STATUS_SUCCESS) return out;  // it has no engine for such a graph
  std::int64_t count = 0;
  MOTLEY_CUDA(
      cudnnBackendGetAttribute(heuristics.raw(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr));
  std::vector<cudnnBackendDescriptor_t> raw;
  for (std::int64_t i = 0; i < count; i++) raw.push_back(out.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).raw());
  MOTLEY_CUDA(cudnnBackendGetAttribute(heuristics.raw(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count,
                                       &count, raw.data()));
  out.erase(out.begin() + static_cast<std::ptrdiff_t>(count), out.end());
  return out;
}

// "cudnn:eng12_k2=7": number and knobs. Empty if its results may vary or lose bits.
std::string fitting_engine(const Descriptor& configuration, DType dtype, const PlanOptions& options) {
  Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t raw = engine.raw();
  std::int64_t count = 0;
  MOTLEY_CUDA(
      cudnnBackendGetAttribute(configuration.raw(), CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &raw));
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
  MOTLEY_CUDA(cudnnBackendGetAttribute(engine.raw(), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                       static_cast<std::int64_t>(notes.size()), &count, notes.data()));
  count = std::min(count, static_cast<std::int64_t>(notes.size()));  // a newer library may have further notes
  for (std::int64_t i = 0; i < count; i++) switch (notes[static_cast<std::size_t>(i)]) {
      case CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP: break;
      case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
        if (dtype == DType::f32 && !options.tf32) return "";
        break;
      case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:  // may compute in f16, which overflows at 65504: more than tf32 allows
        if (dtype == DType::f32) return "";
        break;
      case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
        if (options.deterministic) return "";
        break;
      default: return "";  // a shorter sum, FFT, Winograd
    }
  return "cudnn:eng" + std::to_string(number(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX)) + knobs_of(configuration);
}

// cuDNN 9.19's engine 1 takes the padding before x for the padding after it too in the gradient of weights: what it then reads of
// dy is wrong, or not dy (seen on an H200; tests/laws/cuda_law_test.cpp).
bool is_wrong(const KernelSpec& spec, const Reach& reach, const std::string& engine) {
  const bool equal = reach.before[0] == reach.after[0] && reach.before[1] == reach.after[1];
  return spec.pass == PassKind::backward_filter && !equal && (engine == "cudnn:eng1" || engine.starts_with("cudnn:eng1_"));
}

// Which operations one graph has.
struct Fusion {
  DType result = DType::f32;  // what y is stored as
  bool bias = false, epilogue = false, onto = false;
  const char* suffix() const { return onto ? " onto" : bias || epilogue ? " inside" : ""; }
};

// Adds plans that fit and can be built, at most `options.most`.
void add_plans(const KernelSpec& spec, const Reach& reach, const Fusion& fusion, const Target& target, const PlanOptions& options,
               std::vector<ConvolutionPlan>& out) {
  struct MadeFrom {
    std::shared_ptr<const Operations> operations{};
    Descriptor graph;
    std::vector<Descriptor> configurations{};
  };
  auto operations = std::make_shared<const Operations>(spec, reach, fusion.result, fusion.bias, fusion.epilogue, fusion.onto);
  const auto from = std::make_shared<MadeFrom>(MadeFrom{operations, operations->graph(target.handle)});
  const std::size_t end = out.size() + options.most;
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK})
    for (Descriptor& configuration : configurations(from->graph, target, mode)) {
      if (out.size() == end) return;
      std::string engine = fitting_engine(configuration, spec.dtype, options);
      if (engine.empty() || is_wrong(spec, reach, engine)) continue;
      engine += fusion.suffix();
      const auto same = [&](const ConvolutionPlan& p) { return p.engine == engine; };
      if ((!options.only.empty() && engine != options.only) || std::any_of(out.begin(), out.end(), same)) continue;
      ConvolutionPlan made;
      if (target.described != nullptr)
        made.plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &target.described);
      if (target.handle != nullptr) made.plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &target.handle);
      made.plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
      if (cudnnBackendFinalize(made.plan.raw()) != CUDNN_STATUS_SUCCESS) continue;  // so cuDNN says that this engine cannot do it
      made.workspace_bytes = number(made.plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
      if (made.workspace_bytes > options.most_workspace_bytes) continue;
      made.engine = std::move(engine);
      made.result = fusion.result;
      made.bias = fusion.bias;
      made.epilogue = fusion.epilogue;
      made.sum = fusion.onto;
      from->configurations.push_back(std::move(configuration));
      made.made_from = from;
      out.push_back(std::move(made));
    }
}

// CUDNN_POINTWISE_RELU_FWD as a formula.
const Formula& rectifier() {
  static const Formula f = formula({select(operand(0) <= 0.0, 0.0, operand(0))});
  return f;
}

bool is_rounded(const KernelSpec& spec) {
  return spec.dtype == DType::bf16 && spec.result == DType::bf16;
}
DType unrounded(const KernelSpec& spec) {
  return spec.dtype == DType::f64 ? DType::f64 : DType::f32;
}
bool leaves_work(const KernelSpec& spec) {
  return spec.bias || !spec.epilogue.code.empty();
}

}  // namespace

std::vector<ConvolutionPlan> plan_convolution(const KernelSpec& spec, const Target& target, const PlanOptions& options) {
  std::vector<ConvolutionPlan> out;
  const Reach reach = reach_of(spec);
  if (!reach.possible) return out;
  const bool onto = spec.accumulate && spec.y_format == Format::channels_last && !(is_rounded(spec) && leaves_work(spec));
  const bool fuses = options.fuses && !spec.accumulate, bias = fuses && spec.bias,
             rectifies = fuses && spec.epilogue == rectifier();
  if (bias || rectifies || onto) {
    // A bf16 result is rounded once: what an engine leaves to do is done with f32.
    const bool all = onto || (bias == spec.bias && rectifies == !spec.epilogue.code.empty());
    add_plans(spec, reach, {is_rounded(spec) && all ? DType::bf16 : unrounded(spec), bias, rectifies, onto}, target, options, out);
    if (!out.empty() && options.most == 1) return out;
  }
  const bool more = leaves_work(spec) || spec.accumulate;
  add_plans(spec, reach, {is_rounded(spec) && !more ? DType::bf16 : unrounded(spec)}, target, options, out);
  return out;
}

}  // namespace motley::cuda
