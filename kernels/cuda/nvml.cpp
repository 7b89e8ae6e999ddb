// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/nvml.h"

#include <dlfcn.h>

namespace motley::cuda {
namespace {

struct Nvml {
  using Device = struct nvmlDevice_st*;
  static constexpr int kSmClock = 1, kGpuTemperature = 0;  // nvmlClockType_t, nvmlTemperatureSensors_t
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  int (*device_by_bus)(const char*, Device*) = find<int (*)(const char*, Device*)>("nvmlDeviceGetHandleByPciBusId_v2");
  int (*clock)(Device, int, unsigned*) = find<int (*)(Device, int, unsigned*)>("nvmlDeviceGetClockInfo");
  int (*power)(Device, unsigned*) = find<int (*)(Device, unsigned*)>("nvmlDeviceGetPowerUsage");  // milliwatts
  int (*temperature)(Device, int, unsigned*) = find<int (*)(Device, int, unsigned*)>("nvmlDeviceGetTemperature");
  bool ready = false;

  Nvml() {
    auto* init = find<int (*)()>("nvmlInit_v2");
    ready = init != nullptr && device_by_bus != nullptr && init() == 0;
  }

 private:
  template <class Function>
  Function find(const char* name) const {
    return library == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(library, name));
  }
};

}  // namespace

std::string condition_of(const std::string& bus) {
  static const Nvml nvml;
  Nvml::Device device = nullptr;
  if (!nvml.ready || nvml.device_by_bus(bus.c_str(), &device) != 0) return "";
  std::string text;
  const auto add = [&](unsigned value, const char* unit) { text += (text.empty() ? "" : ", ") + std::to_string(value) + unit; };
  unsigned value = 0;
  if (nvml.clock != nullptr && nvml.clock(device, Nvml::kSmClock, &value) == 0) add(value, " MHz");
  if (nvml.power != nullptr && nvml.power(device, &value) == 0) add(value / 1000, " W");
  if (nvml.temperature != nullptr && nvml.temperature(device, Nvml::kGpuTemperature, &value) == 0) add(value, " C");
  return text;
}

}  // namespace motley::cuda
