// SPDX-License-Identifier: Apache-2.0
#include "tests/support/kernel_runner.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <stdexcept>

#include "kernels/operands.h"

namespace motley::testing {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kDeviceWorkspace = 256;  // what cuBLASLt asks of its workspace's address
constexpr std::byte kGuard{0xA5};
constexpr std::size_t kFar = 1 << 16;  // a library's kernel was seen to write so far behind its workspace

// Bytes aligned to 64 (plus an offset) between two guards of 64 bytes and more, the second of `behind` more; on a device their
// image, there aligned to `alignment`.
class Memory {
 public:
  Memory(std::size_t bytes, std::size_t offset, DeviceMemory* device, std::size_t alignment = kAlignment, std::size_t behind = 0)
      : raw_(bytes + offset + 3 * kAlignment + behind, kGuard), bytes_(bytes), device_(device) {
    void* at = raw_.data() + kAlignment;
    std::size_t space = raw_.size() - kAlignment;
    begin_ = static_cast<std::byte*>(std::align(kAlignment, bytes + offset, at, space)) + offset;
    if (device_ == nullptr) return;
    there_ = device_->allocate(raw_.size() + alignment);
    const std::size_t first =
        reinterpret_cast<std::uintptr_t>(there_.get()) + static_cast<std::size_t>(begin_ - offset - raw_.data());
    shift_ = static_cast<std::ptrdiff_t>((alignment - first % alignment) % alignment);
  }
  // Where kernels find it: as far after a multiple of the alignment as begin_.
  void* place() const {
    if (device_ == nullptr) return begin_;
    return there_.get() + (begin_ - raw_.data()) + shift_;
  }
  void upload() const {
    if (device_ != nullptr) copy_and_wait(*device_, there_.get() + shift_, raw_.data(), raw_.size());
  }
  void download() {
    if (device_ != nullptr) copy_and_wait(*device_, raw_.data(), there_.get() + shift_, raw_.size());
  }
  Memory(const Memory&) = delete;
  Memory(Memory&&) = default;
  void* data() const { return begin_; }
  bool guards_hold() const {
    const auto is_guard = [](std::byte b) { return b == kGuard; };
    return std::all_of(raw_.data(), static_cast<const std::byte*>(begin_), is_guard) &&
           std::all_of(static_cast<const std::byte*>(begin_ + bytes_), raw_.data() + raw_.size(), is_guard);
  }

 private:
  std::vector<std::byte> raw_;
  std::size_t bytes_;
  std::byte* begin_;
  DeviceMemory* device_;
  DeviceMemory::Block there_{};
  std::ptrdiff_t shift_ = 0;
};

template <class T>
void write_as(void* data, const Image& image) {
  std::transform(image.begin(), image.end(), static_cast<T*>(data), [](double v) { return static_cast<T>(v); });
}
template <class T>
Image read_as(const void* data, std::size_t elements) {
  const T* first = static_cast<const T*>(data);
  Image image(elements);
  std::transform(first, first + elements, image.begin(), [](T v) { return static_cast<double>(v); });
  return image;
}

void write(const OperandUse& use, void* data, const Image& image) {
  switch (use.dtype) {
    case DType::f32: return write_as<float>(data, image);
    case DType::f64: return write_as<double>(data, image);
    case DType::i32: return write_as<std::int32_t>(data, image);
    case DType::bf16: return write_as<Bf16>(data, image);
  }
}

Image read(const OperandUse& use, const void* data) {
  const auto elements = static_cast<std::size_t>(use.elements);
  switch (use.dtype) {
    case DType::f32: return read_as<float>(data, elements);
    case DType::f64: return read_as<double>(data, elements);
    case DType::i32: return read_as<std::int32_t>(data, elements);
    case DType::bf16: return read_as<Bf16>(data, elements);
  }
  return {};
}

// i32 has no NaN.
double nothing_of(DType dtype) {
  return dtype == DType::i32 ? -123456789 : kNothing;
}

}  // namespace

std::vector<Image> run_kernel(Backend& backend, const KernelSpec& spec, std::vector<Image> images, const RunOptions& options) {
  const std::vector<OperandUse> uses = operands_of(spec);
  if (images.size() + 1 == uses.size()) images.emplace_back();
  if (images.size() != uses.size()) throw std::runtime_error(summary(spec) + ": expected one image per operand");
  DeviceMemory* device = backend.device_memory();
  const std::unique_ptr<Kernel> kernel =
      options.implementation.empty() ? backend.compile(spec) : backend.compile_as(spec, options.implementation);
  std::vector<Memory> memories;
  std::vector<void*> operands;
  for (std::size_t i = 0; i < uses.size(); i++) {
    if (images[i].empty()) images[i].assign(static_cast<std::size_t>(uses[i].elements), nothing_of(uses[i].dtype));
    if (images[i].size() != static_cast<std::size_t>(uses[i].elements))
      throw std::runtime_error(summary(spec) + ": operand " + std::to_string(i) + " has " + std::to_string(uses[i].elements) +
                               " elements, its image " + std::to_string(images[i].size()));
    const std::size_t size = bytes_of(uses[i].dtype);
    memories.emplace_back(images[i].size() * size, static_cast<std::size_t>(options.offset) * size, device);
    operands.push_back(memories.back().place());
    write(uses[i], memories[i].data(), images[i]);
  }
  if (options.alias >= 0) operands.back() = operands[static_cast<std::size_t>(options.alias)];
  Memory workspace(kernel->workspace_bytes(), 0, device, device == nullptr ? kAlignment : kDeviceWorkspace, kFar);
  for (int i = 0; i < options.times; i++) {
    std::memset(workspace.data(), 0xFF, kernel->workspace_bytes());  // f32 and f64 NaN
    if (i > 0)
      for (std::size_t j = 0; j < uses.size(); j++) write(uses[j], memories[j].data(), images[j]);
    for (const Memory& memory : memories) memory.upload();
    workspace.upload();
    kernel->run(operands, workspace.place());
    for (Memory& memory : memories) memory.download();
    workspace.download();
  }
  for (std::size_t i = 0; i < uses.size(); i++) {
    if (!memories[i].guards_hold()) throw std::runtime_error("writes outside of operand " + std::to_string(i));
    images[i] = read(uses[i], memories[i].data());
  }
  if (!workspace.guards_hold()) throw std::runtime_error("writes outside of its workspace");
  return images;
}

Image result_of(Backend& backend, const KernelSpec& spec, std::vector<Image> images, const RunOptions& options) {
  return run_kernel(backend, spec, std::move(images), options).back();
}

}  // namespace motley::testing
