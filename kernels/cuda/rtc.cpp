// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/rtc.h"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

#include "base/hash.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/machine_code.h"

namespace motley::cuda {
namespace {

class Library final : public Loaded {
 public:
  Library(const std::vector<char>& code, const std::vector<std::string>& names, cudaStream_t stream) : stream_(stream) {
    MOTLEY_CUDA(cudaLibraryLoadData(&raw_, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
    try {
      for (const std::string& name : names) MOTLEY_CUDA(cudaLibraryGetKernel(&kernels_.emplace_back(), raw_, name.c_str()));
    } catch (...) {
      cudaLibraryUnload(raw_);
      throw;
    }
  }
  ~Library() override { cudaLibraryUnload(raw_); }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  void launch(std::size_t kernel, Index blocks_x, Index blocks_y, std::span<const std::uint64_t> arguments) const override {
    // One argument: the struct that the addresses and numbers are in.
    void* whole[] = {const_cast<std::uint64_t*>(arguments.data())};
    MOTLEY_CUDA(cudaLaunchKernel(static_cast<const void*>(kernels_[kernel]),
                                 dim3(static_cast<unsigned>(blocks_x), static_cast<unsigned>(blocks_y)),
                                 dim3(static_cast<unsigned>(kBlockThreads)), whole, 0, stream_));
  }

 private:
  cudaStream_t stream_;
  cudaLibrary_t raw_ = nullptr;
  std::vector<cudaKernel_t> kernels_{};
};

}  // namespace

Rtc::Rtc(std::string architecture, cudaStream_t stream, std::filesystem::path kept_in)
    : architecture_(std::move(architecture)), stream_(stream), kept_in_(std::move(kept_in)) {}

std::shared_ptr<const Loaded> Rtc::load(const std::string& text, const std::vector<std::string>& names) {
  std::shared_ptr<const Loaded>& known = loaded_[text];
  if (known != nullptr) return known;
  const std::filesystem::path file = kept_in_.empty() ? kept_in_ : kept_in_ / file_name(text);
  if (std::ifstream in(file, std::ios::binary); !file.empty() && in) try {
      const std::vector<char> code((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
      return known = std::make_shared<Library>(code, names, stream_);
    } catch (const DeviceError&) {  // a damaged file is written again
      static_cast<void>(cudaGetLastError());
    }
  const std::vector<char> code = compiled(text, architecture_);
  known = std::make_shared<Library>(code, names, stream_);
  if (!file.empty()) keep(code, file);
  return known;
}

// Of everything that decides the machine code.
std::string Rtc::file_name(const std::string& text) const {
  const std::string key = compiler_of(architecture_) + "\n" + text;
  return fmt::format("{:016x}{:016x}.cubin", hash_bytes(key), hash_bytes(key + "\n"));
}

// Written beside its name first, so that no rank reads a part of it. What cannot be written only costs the next run's compilation.
void Rtc::keep(const std::vector<char>& code, const std::filesystem::path& file) const {
  std::error_code failed;
  std::filesystem::create_directories(kept_in_, failed);
  const std::filesystem::path beside = file.string() + fmt::format(".{}", getpid());
  std::ofstream out(beside, std::ios::binary);
  out.write(code.data(), static_cast<std::streamsize>(code.size()));
  out.close();
  if (out) std::filesystem::rename(beside, file, failed);
  if (!out || failed) std::filesystem::remove(beside, failed);
}

}  // namespace motley::cuda
