// SPDX-License-Identifier: Apache-2.0
#include "tests/support/host_texts.h"

#include <dlfcn.h>
#include <motley/error.h>

#include <cstdlib>
#include <fstream>
#include <stdexcept>

#include "kernels/operands.h"
#include "tests/support/directory.h"

namespace motley::testing {

class HostTexts::Host final : public cuda::Loaded {
 public:
  using Entry = void (*)(unsigned, unsigned, const std::uint64_t*);
  Host(std::size_t number, std::vector<std::string> names) : number_(number), names_(std::move(names)) {}
  // From the last block to the first: none may lean on one before it.
  void launch(std::size_t kernel, Index blocks_x, Index blocks_y, std::span<const std::uint64_t> arguments) const override {
    check(kernel < entries_.size(), "this text was not compiled");
    for (Index y = blocks_y; y-- > 0;)
      for (Index x = blocks_x; x-- > 0;) entries_[kernel](static_cast<unsigned>(x), static_cast<unsigned>(y), arguments.data());
  }
  std::size_t number() const { return number_; }
  void find(void* library) {
    for (const std::string& name : names_) {
      void* const found = dlsym(library, ("text" + std::to_string(number_) + "_" + name).c_str());
      if (found == nullptr) throw std::runtime_error("no kernel " + name);
      entries_.push_back(reinterpret_cast<Entry>(found));
    }
  }

 private:
  std::size_t number_;
  std::vector<std::string> names_;
  std::vector<Entry> entries_{};
};

HostTexts::~HostTexts() {
  loaded_.clear();
  if (library_ != nullptr) dlclose(library_);
}

std::shared_ptr<const cuda::Loaded> HostTexts::load(const std::string& text, const std::vector<std::string>& names) {
  std::shared_ptr<Host>& known = loaded_[text];
  if (known == nullptr) {
    if (library_ != nullptr) throw std::runtime_error("a text that was not loaded before compile():\n" + text);
    known = std::make_shared<Host>(loaded_.size(), names);
  }
  return known;
}

void HostTexts::compile() {
  const Directory folder;
  const std::filesystem::path source = folder.path / "texts.cpp", library = folder.path / "texts.so", log = folder.path / "log";
  std::ofstream out(source);
  out << "#include <cmath>\n#include <cstring>\n";
  for (const auto& [text, host] : loaded_)
    out << "#undef NAMED\n#define NAMED(name) text" << host->number()
        << "_##name\n#undef DEVICE\n#undef KERNEL\n#undef EACH_THREAD\n"
        << "#undef SHARED\n#undef SYNC\n#undef UNROLL\n#undef UNROLL_4\nnamespace n" << host->number() << " {\n"
        << text << "}\n";
  out.close();
  const std::string command = std::string(HOST_COMPILER) + " -std=c++17 -shared -fPIC -w -ffp-contract=off -o " + library.string() +
                              " " + source.string() + " > " + log.string() + " 2>&1";
  if (std::system(command.c_str()) != 0) {
    std::ifstream in(log);
    throw std::runtime_error("the texts do not compile:\n" + std::string(std::istreambuf_iterator<char>(in), {}).substr(0, 4000));
  }
  library_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library_ == nullptr) throw std::runtime_error(dlerror());
  for (const auto& [text, host] : loaded_) host->find(library_);
}

namespace {

class HostEngine {
 public:
  explicit HostEngine(const KernelSpec& spec) : pass_(spec.pass) {
    const cuda::Reach reach = cuda::reach_of(spec);
    KernelSpec taken = spec;
    taken.roles.h = reach.h;
    taken.roles.w = reach.w;
    taken.padding = {reach.before[0], reach.after[0], reach.before[1], reach.after[1]};
    taken.x_format = taken.w_format = taken.y_format = Format::channels_last;
    taken.bias = taken.accumulate = false;
    taken.epilogue = {};
    // As cuDNN's engines: a result that is bf16 after more work is f32 before it.
    const bool more = spec.bias || spec.accumulate || !spec.epilogue.code.empty();
    if (taken.dtype == DType::bf16 && more) taken.result = DType::f32;
    result_ = cuda::result_dtype(taken);
    kernel_ = taken.dtype == DType::bf16 ? converted(taken, reference_backend()->compile(in_f32(taken)), plain_conversion())
                                         : reference_backend()->compile(taken);
  }
  std::string name() const { return "host"; }
  std::size_t scratch_bytes() const { return kernel_->workspace_bytes(); }
  DType result() const { return result_; }
  bool takes_bias() const { return false; }
  bool takes_epilogue() const { return false; }
  bool takes_sum() const { return false; }
  void execute(void* const (&data)[3], const void*, void* scratch) {
    const auto [x, w, y] = data;
    std::vector<void*> operands{x, w, y};
    if (pass_ == PassKind::backward_data) operands = {y, w, x};
    if (pass_ == PassKind::backward_filter) operands = {x, y, w};
    kernel_->run(operands, scratch);
  }

 private:
  PassKind pass_;
  DType result_ = DType::f32;
  std::unique_ptr<Kernel> kernel_{};
};

}  // namespace

std::unique_ptr<Kernel> TextBackend::compile(const KernelSpec& spec) {
  if (convolutions_ == Convolutions::as_for_cudnn && spec.op == KernelOp::conv2d && cuda::reach_of(spec).possible && supports(spec))
    return std::make_unique<cuda::StagedConvolution<HostEngine>>(spec, HostEngine(spec), texts_);
  if (spec.op != KernelOp::attention) return cuda::own_kernel(spec, texts_);
  if (!supports(spec)) throw DeviceError("not supported");
  if (spec.dtype == DType::bf16) return converted(spec, compile(in_f32(spec)), cuda::conversion_by(texts_));
  // So few scores at once that there are several parts.
  return cuda::attention_in_parts(
      spec, [this](const KernelSpec& part, bool) { return cuda::own_kernel(part, texts_); }, 200);
}

std::unique_ptr<Kernel> Recording::compile(const KernelSpec& spec) {
  backend_.compile(spec);
  throw DeviceError("recorded");
}

}  // namespace motley::testing
