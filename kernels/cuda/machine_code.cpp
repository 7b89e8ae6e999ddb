// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/machine_code.h"

#include <fmt/format.h>
#include <motley/error.h>
#include <nvrtc.h>

#include <iterator>

namespace motley::cuda {
namespace {

// No fused multiply-adds: a formula has the same bits on all devices, but for the functions of libraries.
constexpr const char* kOptions[] = {"--std=c++17", "--fmad=false", "--extra-device-vectorization"};

class Program {
 public:
  explicit Program(const std::string& text) { call(nvrtcCreateProgram(&raw_, text.c_str(), "motley.cu", 0, nullptr, nullptr)); }
  ~Program() { nvrtcDestroyProgram(&raw_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  nvrtcProgram raw() const { return raw_; }
  static void call(nvrtcResult status) {
    if (status != NVRTC_SUCCESS) throw DeviceError(std::string("NVRTC: ") + nvrtcGetErrorString(status));
  }
  std::string log() const {
    std::size_t bytes = 0;
    call(nvrtcGetProgramLogSize(raw_, &bytes));
    std::string out(bytes, ' ');
    call(nvrtcGetProgramLog(raw_, out.data()));
    return out;
  }

 private:
  nvrtcProgram raw_ = nullptr;
};

}  // namespace

std::vector<char> compiled(const std::string& text, const std::string& architecture) {
  const Program program(text);
  const std::string target = "--gpu-architecture=" + architecture;
  std::vector<const char*> options(std::begin(kOptions), std::end(kOptions));
  options.push_back(target.c_str());
  if (nvrtcCompileProgram(program.raw(), static_cast<int>(options.size()), options.data()) != NVRTC_SUCCESS)
    throw InternalError("NVRTC refuses a kernel for " + architecture + ": " + program.log() + "\n" + text);
  std::size_t bytes = 0;
  Program::call(nvrtcGetCUBINSize(program.raw(), &bytes));
  std::vector<char> code(bytes);
  Program::call(nvrtcGetCUBIN(program.raw(), code.data()));
  return code;
}

std::string compiler_of(const std::string& architecture) {
  int major = 0, minor = 0;
  Program::call(nvrtcVersion(&major, &minor));
  std::string out = fmt::format("{} {}.{}", architecture, major, minor);
  for (const char* option : kOptions) out += std::string(" ") + option;
  return out;
}

}  // namespace motley::cuda
