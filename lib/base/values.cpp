// SPDX-License-Identifier: Apache-2.0
// Names of the small values, and the errors' texts.
#include <motley/device.h>
#include <motley/dtype.h>
#include <motley/error.h>

namespace motley {

std::string to_string(DType t) {
  switch (t) {
    case DType::f32: return "f32";
    case DType::f64: return "f64";
    case DType::i32: return "i32";
    case DType::bf16: return "bf16";
  }
  return "?";
}

std::string to_string(Format f) {
  switch (f) {
    case Format::plain: return "plain";
    case Format::channels_last: return "channels_last";
  }
  return "?";
}

std::string to_string(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::cpu: return "cpu";
    case DeviceKind::cuda: return "cuda";
    case DeviceKind::emulated: return "emulated";
    case DeviceKind::modelled: return "modelled";
  }
  return "?";
}

const Device& driven(const Device& device) {
  return device.of ? driven(*device.of) : device;
}

bool has_own_memory(const Device& device) {
  const DeviceKind real = driven(device).kind;
  return real == DeviceKind::cuda || real == DeviceKind::modelled;
}

const std::vector<std::string>& isa_names() {
  static const std::vector<std::string> names{"generic",          "sse41",           "avx", "avx2", "avx2_vnni", "avx512_core",
                                              "avx512_core_vnni", "avx512_core_bf16"};
  return names;
}

const std::vector<std::string>& cpu_library_names() {
  static const std::vector<std::string> names{"onednn", "eigen"};
  return names;
}

const std::vector<std::string>& cpu_libraries() {
#ifdef MOTLEY_ONEDNN
  return cpu_library_names();
#else
  static const std::vector<std::string> built{"eigen"};
  return built;
#endif
}

InternalError::InternalError(const std::string& text, const char* file, int line)
    : Error(Exit::internal, text + " (" + file + ":" + std::to_string(line) + "; please report this)") {}

void check(bool holds, const char* what, const char* file, int line) {
  if (!holds) throw InternalError(std::string("broken inside: ") + what, file, line);
}

}  // namespace motley
