// SPDX-License-Identifier: Apache-2.0
// How close are the CPU kernels to the bare oneDNN primitive, and the memory-bound ones to memcpy?
// With --depthwise: how fast are our own loops for depthwise convolutions?
// With --libraries: how much slower is Eigen than oneDNN on the convolutions of the quickstart and of VGG-11?
// With --gpu [--batch N]... [--tf32]: what does choosing a GPU's engines by measurement gain, and how close are its own kernels to
// a copy within the device? --own: these alone.
#include <fmt/core.h>
#include <motley/backend.h>
#include <motley/error.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <ctime>
#include <fstream>
#include <limits>

#include "bench/support/gpu_kernels.h"
#include "bench/support/memory_bound.h"
#include "kernels/cpu/convolution_choice.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/weights.h"
#include "kernels/eigen/contraction.h"
#include "kernels/kernel_names.h"
#include "kernels/loops/depthwise_kernel.h"
#include "kernels/operands.h"

namespace {

using namespace motley;
using Desc = dnnl::memory::desc;
using Tag = dnnl::memory::format_tag;

struct Options {
  bool quick = false;
  std::string json{}, isa{};
  int threads = 1;
  bool gpu = false, own = false, tf32 = false, libraries = false, depthwise = false;
  std::vector<Index> batches{};
};

// This thread's processor time: what others do on the machine counts less. With more threads: the wall clock.
bool one_thread = true;
double now() {
  timespec t{};
  clock_gettime(one_thread ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

// Memory of one operand, 64-byte aligned, small numbers in it.
class Block {
 public:
  explicit Block(std::size_t bytes) : words_(bytes / sizeof(float) + 32) {
    unsigned seed = 1;
    for (float& word : words_) word = static_cast<float>((seed = seed * 1664525u + 1013904223u) >> 25) / 128.0f - 0.5f;
  }
  void* data() {
    const auto at = reinterpret_cast<std::uintptr_t>(words_.data());
    return reinterpret_cast<void*>((at + 63) / 64 * 64);
  }

 private:
  std::vector<float> words_;
};

// One of our kernels with its memory.
class Ours {
 public:
  Ours(Backend& backend, const KernelSpec& spec) : Ours(backend.compile(spec), spec) {}
  Ours(std::unique_ptr<Kernel> kernel, const KernelSpec& spec)
      : kernel_(std::move(kernel)), workspace_(kernel_->workspace_bytes()) {
    for (const OperandUse& use : operands_of(spec)) blocks_.emplace_back(static_cast<std::size_t>(use.bytes()));
    for (Block& block : blocks_) operands_.push_back(block.data());
  }
  void run() { kernel_->run(operands_, workspace_.data()); }
  std::string implementation() const { return kernel_->implementation(); }

 private:
  std::unique_ptr<Kernel> kernel_;
  Block workspace_;
  std::vector<Block> blocks_{};
  std::vector<void*> operands_{};
};

// A bare primitive with its memory; empty: oneDNN has none, or only its reference.
struct Bare {
  dnnl::primitive primitive{};
  std::unordered_map<int, dnnl::memory> arguments{};
  Desc weights{};
  void run(dnnl::stream& stream) {
    primitive.execute(stream, arguments);
    stream.wait();
  }
};

struct Minimum {
  double seconds = std::numeric_limits<double>::infinity();
  template <class Call>
  void time(Call&& call) {
    const double start = now();
    call();
    seconds = std::min(seconds, now() - start);
  }
};

// ---- convolutions
struct Layer {
  Index c, f, size, window;
};

std::vector<Layer> layers_of(const std::string& net) {
  if (net == "quickstart") return {{1, 40, 28, 3}, {40, 64, 14, 3}};
  if (net == "cifar")  // the paper's CIFAR net
    return {{3, 60, 32, 3},   {60, 60, 32, 3},  {60, 120, 16, 3}, {120, 120, 16, 3},
            {120, 240, 8, 3}, {240, 240, 8, 3}, {240, 480, 4, 3}, {480, 480, 4, 3}};
  return {{3, 64, 32, 3},   {64, 128, 16, 3}, {128, 256, 8, 3}, {256, 256, 8, 3},
          {256, 512, 4, 3}, {512, 512, 4, 3}, {512, 512, 2, 3}, {512, 512, 2, 3}};
}

KernelSpec spec_of(const Layer& layer, PassKind pass, Format format, Format weights, Index batch = 32) {
  KernelSpec spec;
  spec.pass = pass;
  spec.roles = {batch, layer.c, layer.size, layer.size, layer.f, layer.window, layer.window, layer.size, layer.size};
  spec.padding.fill(layer.window / 2);
  spec.x_format = spec.y_format = format;
  if (layer.c < 8) spec.x_format = Format::channels_last;  // images
  spec.w_format = weights;
  return spec;
}

Tag tag_of(Format format) {
  constexpr Tag kTags[] = {Tag::abcd, Tag::acdb};
  return kTags[static_cast<std::size_t>(format)];
}

template <class Pd, class Primitive>
Bare bare_of(const dnnl::engine& engine, const Pd& pd, Primitive primitive, const std::vector<std::pair<int, Desc>>& operands) {
  Bare bare;
  if (std::string(pd.impl_info_str()).find("ref") == 0) return bare;  // minutes
  bare.primitive = primitive;
  for (const auto& [name, desc] : operands) {
    bare.arguments[name] = dnnl::memory(desc, engine);
    const Block numbers(desc.get_size());
    std::memcpy(bare.arguments[name].get_data_handle(), const_cast<Block&>(numbers).data(), desc.get_size());
  }
  bare.arguments[DNNL_ARG_SCRATCHPAD] = dnnl::memory(pd.scratchpad_desc(), engine);
  bare.weights = operands[1].second;
  return bare;
}

// any: oneDNN picks x's and y's layouts too.
Bare bare_convolution(const dnnl::engine& engine, const KernelSpec& spec, bool any) {
  namespace vendor = motley::cpu::vendor;
  const Roles& e = spec.roles;
  const auto f32 = dnnl::memory::data_type::f32;
  vendor::ConvolutionDescs d;
  d.x = Desc({e.n, e.c, e.h, e.w}, f32, any ? Tag::any : tag_of(spec.x_format));
  d.w = Desc({e.f, e.c, e.r, e.s}, f32, Tag::any);
  d.y = Desc({e.n, e.f, e.p, e.q}, f32, any ? Tag::any : tag_of(spec.y_format));
  d.window = {{1, 1}, {0, 0}, {spec.padding[0], spec.padding[2]}, {spec.padding[1], spec.padding[3]}};
  try {
    const auto attr = vendor::attributes();
    const auto forward = vendor::forward(engine, d, attr);
    if (spec.pass == PassKind::forward) {
      const auto& pd = forward->pd;
      return bare_of(engine, pd, dnnl::convolution_forward(pd),
                     {{DNNL_ARG_SRC, pd.src_desc()}, {DNNL_ARG_WEIGHTS, pd.weights_desc()}, {DNNL_ARG_DST, pd.dst_desc()}});
    }
    if (spec.pass == PassKind::backward_data) {
      const auto pd = vendor::backward<dnnl::convolution_backward_data>(engine, d, attr, forward).pd;
      return bare_of(engine, pd, dnnl::convolution_backward_data(pd),
                     {{DNNL_ARG_DIFF_DST, pd.diff_dst_desc()},
                      {DNNL_ARG_WEIGHTS, pd.weights_desc()},
                      {DNNL_ARG_DIFF_SRC, pd.diff_src_desc()}});
    }
    const auto pd = vendor::backward<dnnl::convolution_backward_weights>(engine, d, attr, forward).pd;
    return bare_of(
        engine, pd, dnnl::convolution_backward_weights(pd),
        {{DNNL_ARG_SRC, pd.src_desc()}, {DNNL_ARG_DIFF_WEIGHTS, pd.diff_weights_desc()}, {DNNL_ARG_DIFF_DST, pd.diff_dst_desc()}});
  } catch (const dnnl::error&) {
    return {};
  }
}

// The step of a convolution that packs its weights (or unpacks their gradient), alone.
class Packing {
 public:
  Packing(const motley::cpu::Vendor& vendor, const KernelSpec& spec) : sequence_(vendor.engine) {
    const Roles& e = spec.roles;
    const motley::cpu::vendor::Window window{
        {1, 1}, {0, 0}, {spec.padding[0], spec.padding[2]}, {spec.padding[1], spec.padding[3]}};
    const auto choice = motley::cpu::choose_convolution(spec, vendor, {e.n, e.c, e.h, e.w}, window);
    const motley::cpu::Sequence::Place packed = sequence_.reserve(choice.w.get_size());
    motley::cpu::add_packing(sequence_, spec, vendor, choice.w, {0, 0}, packed);
    weights_ = std::make_unique<Block>(static_cast<std::size_t>(e.f * e.c * e.r * e.s) * sizeof(float));
    workspace_ = std::make_unique<Block>(sequence_.workspace_bytes());
  }
  void run() {
    void* const operands[] = {weights_->data()};
    sequence_.run(operands, workspace_->data());
  }

 private:
  motley::cpu::Sequence sequence_;
  std::unique_ptr<Block> weights_{}, workspace_{};
};

struct ConvolutionRow {
  Layer layer{};
  KernelSpec spec{};
  std::unique_ptr<Ours> ours{};
  Bare same{}, any{};
  std::unique_ptr<Packing> packing{};
  Minimum ours_time{}, same_time{}, any_time{}, packing_time{};
};

std::string facts(Backend& backend) {
  return fmt::format(R"("machine": "{}", "isa": "{}", "library": "{}", "threads": {})", backend.model(), backend.isa(),
                     backend.library(), backend.threads());
}

std::string seconds_or_null(double seconds) {
  return std::isinf(seconds) ? "null" : fmt::format("{:.7f}", seconds);
}

const motley::cpu::Loops& loops_for(const std::string& isa) {
  using namespace motley::cpu;
  return isa.rfind("avx512", 0) == 0 ? kLoopsAvx512 : isa.rfind("avx2", 0) == 0 ? kLoopsAvx2 : kLoopsSse41;
}

// Each round runs the whole net's kernels in the order of a step, ours, then the bare ones, so that caches are as in a step.
void convolutions(Backend& backend, const std::string& net, Format format, Format weights, const Options& options,
                  std::vector<std::string>& json) {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  motley::cpu::Vendor vendor;
  vendor.loops = &loops_for(backend.isa());
  vendor.threads = backend.threads();
  std::vector<ConvolutionRow> rows;
  const std::vector<Layer> layers = layers_of(net);
  const auto add = [&](const Layer& layer, PassKind pass) {
    ConvolutionRow& row = rows.emplace_back();
    row.layer = layer;
    row.spec = spec_of(layer, pass, format, weights);
    row.ours = std::make_unique<Ours>(backend, row.spec);
    row.packing = std::make_unique<Packing>(vendor, row.spec);
    row.same = bare_convolution(engine, row.spec, false);
    row.any = bare_convolution(engine, row.spec, true);
  };
  for (const Layer& layer : layers) add(layer, PassKind::forward);
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
    add(*layer, PassKind::backward_filter);
    if (layer->c > 3) add(*layer, PassKind::backward_data);
  }
  for (int round = 0; round < (options.quick ? 4 : 12); round++) {
    for (ConvolutionRow& row : rows) row.ours_time.time([&] { row.ours->run(); });
    for (ConvolutionRow& row : rows) row.packing_time.time([&] { row.packing->run(); });
    for (ConvolutionRow& row : rows)
      if (row.same.primitive) row.same_time.time([&] { row.same.run(stream); });
    for (ConvolutionRow& row : rows)
      if (row.any.primitive) row.any_time.time([&] { row.any.run(stream); });
  }
  fmt::print("\n{} batch 32, {} activations, {} weights: ms; ratio: motley / (packing + the faster bare one)\n", net,
             to_string(format), to_string(weights));
  fmt::print("{:>22} {:16} {:>8} {:>8} {:>8} {:>8}  {:>6}  {}\n", "layer", "pass", "motley", "packing", "same", "any", "ratio",
             "implementation");
  double sums[4] = {0, 0, 0, 0};
  const auto ratio = [](double ours, double packing, double same, double any) { return ours / (packing + std::min(same, any)); };
  for (const ConvolutionRow& row : rows) {
    const double ours = row.ours_time.seconds, packing = row.packing_time.seconds, same = row.same_time.seconds,
                 any = row.any_time.seconds;
    const std::string layer = fmt::format("{} -> {} {}x{}", row.layer.c, row.layer.f, row.layer.size, row.layer.size);
    fmt::print("{:>22} {:16} {:8.3f} {:8.3f} {:8.3f} {:8.3f}  {:6.3f}  {}\n", layer, name_of(row.spec.pass), ours * 1e3,
               packing * 1e3, same * 1e3, any * 1e3, ratio(ours, packing, same, any), row.ours->implementation());
    sums[0] += ours, sums[1] += packing, sums[2] += same, sums[3] += any;
    json.push_back(
        fmt::format(R"({{"kernel": "conv2d", "net": "{}", "layer": "{}", "pass": "{}", "format": "{}", "w_format": "{}", )"
                    R"("motley_seconds": {:.7f}, "packing_seconds": {:.7f}, "bare_seconds": {}, "bare_any_seconds": {}, )"
                    R"("implementation": "{}", {}}})",
                    net, layer, name_of(row.spec.pass), to_string(format), to_string(weights), ours, packing, seconds_or_null(same),
                    seconds_or_null(any), row.ours->implementation(), facts(backend)));
  }
  fmt::print("{:>22} {:16} {:8.2f} {:8.2f} {:8.2f} {:8.2f}  {:6.3f}\n", "all", "", sums[0] * 1e3, sums[1] * 1e3, sums[2] * 1e3,
             sums[3] * 1e3, ratio(sums[0], sums[1], sums[2], sums[3]));
}

// ---- oneDNN beside Eigen: all kernels of a net's convolutions in the order of a step, by one and by the other, in turn
void libraries(const Options& options, std::vector<std::string>& json) {
  const std::array<std::unique_ptr<Backend>, 2> backends{
      open_backend({.name = "onednn", .isa = options.isa, .library = "onednn", .threads = options.threads}),
      open_backend({.name = "eigen", .isa = options.isa, .library = "eigen", .threads = options.threads})};
  fmt::print("How much slower is {} than {}?\n{}, isa {} and {}, {} threads; ms of all convolutions of a step\n",
             backends[1]->library(), backends[0]->library(), backends[0]->model(), backends[1]->isa(), backends[0]->isa(),
             options.threads);
  fmt::print("{:>12} {:14} {:16} {:>9} {:>9} {:>6}  {}\n", "net", "activations", "pass", "oneDNN", "Eigen", "ratio", "layers");
  struct Row {
    Layer layer{};
    KernelSpec spec{};
    std::array<std::unique_ptr<Ours>, 2> kernels{};
    std::array<Minimum, 2> times{};
    double ratio() const { return times[1].seconds / times[0].seconds; }
  };
  for (const std::string net : {"quickstart", "vgg11"})
    for (const Format format : {Format::channels_last, Format::plain}) {
      std::vector<Row> rows;
      const std::vector<Layer> layers = layers_of(net);
      const auto add = [&](const Layer& layer, PassKind pass) {
        Row& row = rows.emplace_back();
        row.layer = layer;
        row.spec = spec_of(layer, pass, format, format, net == "quickstart" ? 64 : 32);
        for (std::size_t i = 0; i < 2; i++) row.kernels[i] = std::make_unique<Ours>(*backends[i], row.spec);
      };
      for (const Layer& layer : layers) add(layer, PassKind::forward);
      for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
        add(*layer, PassKind::backward_filter);
        if (layer->c > 3) add(*layer, PassKind::backward_data);
      }
      for (int round = 0; round < (options.quick ? 4 : 12); round++)
        for (std::size_t i = 0; i < 2; i++)
          for (Row& row : rows) row.times[i].time([&] { row.kernels[i]->run(); });
      for (const PassKind pass : {PassKind::forward, PassKind::backward_data, PassKind::backward_filter}) {
        double sums[2] = {0, 0};
        std::string each;
        for (const Row& row : rows) {
          if (row.spec.pass != pass) continue;
          for (std::size_t i = 0; i < 2; i++) sums[i] += row.times[i].seconds;
          each += fmt::format(" {:.1f}", row.ratio());
          json.push_back(fmt::format(
              R"({{"kernel": "conv2d", "net": "{}", "layer": "{} -> {} {}x{}", "pass": "{}", "format": "{}", "batch": {}, )"
              R"("onednn_seconds": {:.7f}, "eigen_seconds": {:.7f}, "eigen_over_onednn": {:.3f}, "onednn_implementation": "{}", {}}})",
              net, row.layer.c, row.layer.f, row.layer.size, row.layer.size, name_of(pass), to_string(format), row.spec.roles.n,
              row.times[0].seconds, row.times[1].seconds, row.ratio(), row.kernels[0]->implementation(), facts(*backends[1])));
        }
        fmt::print("{:>12} {:14} {:16} {:9.2f} {:9.2f} {:6.2f} {}\n", net, to_string(format), name_of(pass), sums[0] * 1e3,
                   sums[1] * 1e3, sums[1] / sums[0], each);
      }
    }
}

// ---- depthwise convolutions: our own loops, oneDNN, Eigen's matrix products
void depthwise(Backend& backend, const Options& options, std::vector<std::string>& json) {
  struct Shape {
    Index channels, size, stride, window;
  };
  motley::cpu::Vendor vendor;
  vendor.loops = &loops_for(backend.isa());
  vendor.threads = options.threads;
  fmt::print("How fast are our own loops for depthwise convolutions? Batch 8, channels last; ms\n{}, {}, {}, {} threads\n",
             backend.model(), backend.isa(), backend.library(), options.threads);
  fmt::print("{:>26} {:16} {:>8} {:>8} {:>8} {:>8}  {}\n", "layer", "pass", "motley", "oneDNN", "Eigen", "ratio",
             "used with oneDNN");
  for (const Shape& shape : {Shape{32, 112, 1, 3},
                             {96, 112, 2, 3},
                             {144, 56, 1, 3},
                             {144, 56, 2, 3},
                             {192, 28, 1, 3},
                             {384, 14, 1, 3},
                             {576, 14, 2, 3},
                             {960, 7, 1, 3},
                             {64, 28, 1, 5},
                             {96, 56, 1, 7}})
    for (const PassKind pass : {PassKind::forward, PassKind::backward_data, PassKind::backward_filter}) {
      KernelSpec spec;
      spec.pass = pass;
      const Index outputs = shape.size / shape.stride;
      spec.roles = {.n = 8,
                    .h = shape.size,
                    .w = shape.size,
                    .r = shape.window,
                    .s = shape.window,
                    .p = outputs,
                    .q = outputs,
                    .g = shape.channels};
      spec.stride = {shape.stride, shape.stride};
      spec.padding.fill(shape.window / 2);
      spec.x_format = spec.w_format = spec.y_format = Format::channels_last;
      std::array<Ours, 3> by{Ours(motley::cpu::depthwise_kernel(spec, *vendor.loops, options.threads), spec),
                             Ours(motley::cpu::convolution_kernel(spec, vendor), spec),
                             Ours(eigen::contraction(spec, {vendor.loops->simd, options.threads}), spec)};
      std::array<Minimum, 3> times{};
      for (int round = 0; round < (options.quick ? 4 : 12); round++)
        for (std::size_t i = 0; i < 3; i++) times[i].time([&] { by[i].run(); });
      const std::string layer = fmt::format("{}, {}x{}, {}x{}{}", shape.channels, shape.size, shape.size, shape.window,
                                            shape.window, shape.stride > 1 ? ", stride 2" : "");
      const double own = times[0].seconds, vendors = times[1].seconds, eigens = times[2].seconds;
      const std::string used = backend.compile(spec)->implementation();
      fmt::print("{:>26} {:16} {:8.3f} {:8.3f} {:8.3f} {:8.2f}  {}\n", layer, name_of(pass), own * 1e3, vendors * 1e3, eigens * 1e3,
                 own / std::min(vendors, eigens), used);
      json.push_back(fmt::format(R"({{"kernel": "depthwise", "layer": "{}", "pass": "{}", "motley_seconds": {:.7f}, )"
                                 R"("onednn_seconds": {:.7f}, "eigen_seconds": {:.7f}, "used": "{}", {}}})",
                                 layer, name_of(pass), own, vendors, eigens, used, facts(backend)));
    }
}

// ---- memory-bound kernels
void memory_kernels(Backend& backend, const Options& options, std::vector<std::string>& json) {
  fmt::print(
      "\nmemory-bound kernels, 8 MiB per operand of 64 channels: GB/s read and written, beside memcpy of as many bytes\n{:>40} "
      "{:>8} {:>8} "
      "{:>6}\n",
      "kernel", "motley", "memcpy", "ratio");
  for (const bench::MemoryBound& one : bench::memory_bound(32)) {
    Ours ours(backend, one.spec);
    const auto bytes = static_cast<std::size_t>(bytes_touched(one.spec));
    Block from(bytes / 2), to(bytes / 2);
    Minimum kernel, copy;
    for (int round = 0; round < (options.quick ? 5 : 25); round++) {
      kernel.time([&] { ours.run(); });
      copy.time([&] { std::memcpy(to.data(), from.data(), bytes / 2); });
    }
    const double rate = static_cast<double>(bytes) / kernel.seconds, memcpy_rate = static_cast<double>(bytes) / copy.seconds;
    fmt::print("{:>40} {:8.1f} {:8.1f} {:6.2f}\n", one.name, rate * 1e-9, memcpy_rate * 1e-9, rate / memcpy_rate);
    json.push_back(
        fmt::format(R"({{"kernel": "{}", "bytes": {}, "motley_bytes_per_second": {:.4g}, "memcpy_bytes_per_second": {:.4g}, {}}})",
                    one.name, bytes, rate, memcpy_rate, facts(backend)));
  }
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i++) {
    const std::string flag = argv[i];
    const auto value = [&]() -> std::string {
      if (i + 1 == argc) throw UserError(flag + " needs a value", Exit::usage);
      return argv[++i];
    };
    if (flag == "--quick")
      options.quick = true;
    else if (flag == "--json")
      options.json = value();
    else if (flag == "--isa")
      options.isa = value();
    else if (flag == "--threads")
      options.threads = std::stoi(value());
    else if (flag == "--gpu")
      options.gpu = true;
    else if (flag == "--libraries")
      options.libraries = true;
    else if (flag == "--depthwise")
      options.depthwise = true;
    else if (flag == "--own")
      options.own = true;
    else if (flag == "--tf32")
      options.tf32 = true;
    else if (flag == "--batch")
      options.batches.push_back(std::stoi(value()));
    else
      throw UserError(
          "unknown option " + flag +
              " (known: --quick, --json FILE, --isa NAME, --threads N, --libraries, --depthwise, --gpu, --own, --tf32, --batch N)",
          Exit::usage);
  }
  if (!options.gpu && (options.own || options.tf32)) throw UserError("--own and --tf32 go with --gpu", Exit::usage);
  return options;
}

void write(const Options& options, const std::vector<std::string>& json) {
  if (options.json.empty()) return;
  std::ofstream file(options.json);
  file << "[\n";
  for (std::size_t i = 0; i < json.size(); i++) file << "  " << json[i] << (i + 1 < json.size() ? ",\n" : "\n");
  file << "]\n";
  if (!file) throw UserError("cannot write " + options.json, Exit::io);
}

void run_gpu(const Options& options) {
  Device device;
  device.name = "gpu";
  device.kind = DeviceKind::cuda;
  device.tf32 = options.tf32;
  const auto backend = open_backend(device);
  fmt::print("{}, {}, {}\n", backend->model(), backend->isa(), backend->library());
  std::vector<std::string> json;
  bench::own_kernels(*backend, options.quick, json);
  if (!options.own)
    bench::gpu_kernels(*backend, options.batches.empty() ? std::vector<Index>{32, 256} : options.batches, options.quick, json);
  write(options, json);
}

void run(const Options& options) {
  Device device;
  device.name = "cpu";
  device.isa = options.isa;
  device.threads = options.threads;
  one_thread = options.threads == 1;
  if (options.libraries) {
    std::vector<std::string> json;
    libraries(options, json);
    return write(options, json);
  }
  const auto backend = open_cpu_backend(device);
  if (options.depthwise) {
    std::vector<std::string> json;
    depthwise(*backend, options, json);
    return write(options, json);
  }
  fmt::print(
      "How close are the CPU kernels to the bare oneDNN primitive, and the memory-bound ones to memcpy?\n{}, {}, {}, {} threads\n",
      backend->model(), backend->isa(), backend->library(), backend->threads());
  std::vector<std::string> json;
  for (const std::string net : {"cifar", "vgg11"})
    for (const Format format : {Format::channels_last, Format::plain})
      for (const Format weights : {Format::channels_last, Format::plain})
        if (weights == Format::channels_last || !options.quick) convolutions(*backend, net, format, weights, options, json);
  memory_kernels(*backend, options, json);
  write(options, json);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Options options = parse(argc, argv);
    options.gpu ? run_gpu(options) : run(options);
    return 0;
  } catch (const motley::Error& error) {
    fmt::print(stderr, "kernels: {}\n", error.what());
    return static_cast<int>(error.code());
  }
}
