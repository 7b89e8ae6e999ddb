// SPDX-License-Identifier: Apache-2.0
// A backend that forwards to another one, except for what a derived class overrides.
#pragma once
#include <motley/backend.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace motley {

class WrappedBackend : public Backend {
 public:
  explicit WrappedBackend(std::shared_ptr<Backend> inner) : inner_(std::move(inner)) {}
  DeviceMemory* device_memory() override { return inner_->device_memory(); }
  bool supports(const KernelSpec& spec) const override { return inner_->supports(spec); }
  std::unique_ptr<Kernel> compile(const KernelSpec& spec) override { return inner_->compile(spec); }
  std::vector<std::string> implementations(const KernelSpec& spec) override { return inner_->implementations(spec); }
  std::unique_ptr<Kernel> compile_as(const KernelSpec& spec, const std::string& implementation) override {
    return inner_->compile_as(spec, implementation);
  }
  std::string model() const override { return inner_->model(); }
  std::string isa() const override { return inner_->isa(); }
  std::string library() const override { return inner_->library(); }
  int threads() const override { return inner_->threads(); }
  Index memory_bytes() const override { return inner_->memory_bytes(); }
  std::string condition() const override { return inner_->condition(); }
  bool repeats() const override { return inner_->repeats(); }

 protected:
  Backend& inner() const { return *inner_; }
  const std::shared_ptr<Backend>& shared_inner() const { return inner_; }

 private:
  std::shared_ptr<Backend> inner_;
};

}  // namespace motley
