// SPDX-License-Identifier: Apache-2.0
// The CUDA backend's own kernels on the host, without a GPU: their texts are compiled by the compiler that builds the tests, all of
// a test's at once. Convolutions are moved and padded as for cuDNN, with the reference in its place.
#pragma once
#include <map>

#include "kernels/cuda/attention_in_parts.h"
#include "kernels/cuda/staged_convolution.h"

namespace motley::testing {

// Texts that are loaded before compile() do nothing yet; after it, only these can be loaded.
class HostTexts final : public cuda::TextCompiler {
 public:
  ~HostTexts() override;
  std::shared_ptr<const cuda::Loaded> load(const std::string& text, const std::vector<std::string>& names) override;
  void compile();  // std::runtime_error: what the compiler says
  std::size_t count() const { return loaded_.size(); }

 private:
  class Host;
  std::map<std::string, std::shared_ptr<Host>> loaded_{};
  void* library_ = nullptr;
};

// Convolutions by our own text, or around an engine as for cuDNN.
class TextBackend final : public Backend {
 public:
  enum class Convolutions : std::uint8_t { direct, as_for_cudnn };
  explicit TextBackend(HostTexts& texts, Convolutions convolutions = Convolutions::direct)
      : texts_(texts), convolutions_(convolutions) {}
  bool supports(const KernelSpec& spec) const override { return cuda::supports_own_kernel(spec); }
  std::unique_ptr<Kernel> compile(const KernelSpec& spec) override;
  std::string model() const override { return "texts"; }
  std::string isa() const override { return "generic"; }
  std::string library() const override { return "none"; }
  int threads() const override { return 1; }
  Index memory_bytes() const override { return 0; }

 private:
  HostTexts& texts_;
  Convolutions convolutions_;
};

// Makes all texts of a law's cases without running any.
class Recording final : public Backend {
 public:
  explicit Recording(TextBackend& backend) : backend_(backend) {}
  bool supports(const KernelSpec& spec) const override { return backend_.supports(spec); }
  std::unique_ptr<Kernel> compile(const KernelSpec& spec) override;  // DeviceError, always
  std::string model() const override { return "recording"; }
  std::string isa() const override { return ""; }
  std::string library() const override { return ""; }
  int threads() const override { return 1; }
  Index memory_bytes() const override { return 0; }

 private:
  TextBackend& backend_;
};

}  // namespace motley::testing
