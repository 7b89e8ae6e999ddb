// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda_module.h"

#include <dlfcn.h>
#include <motley/error.h>

#include <cstdlib>
#include <filesystem>

namespace motley {
namespace {

namespace fs = std::filesystem;

// Places of the module: beside the library (or program) that contains this function, if installed; in the build tree where it is
// built (tests are one or two folders deeper). $MOTLEY_CUDA names another file.
std::vector<fs::path> places(const char* named) {
  if (named != nullptr) return {named};
  Dl_info here{};
  if (dladdr(reinterpret_cast<void*>(&cuda_facts), &here) == 0 || here.dli_fname == nullptr) return {"motley_cuda.so"};
  const fs::path folder = fs::absolute(here.dli_fname).parent_path();
  const fs::path built = "kernels/cuda/motley_cuda.so";
  return {folder / "motley_cuda.so", folder / built, folder / ".." / built, folder / "../.." / built};
}

struct Opened {
  const CudaModule* module = nullptr;
  std::string why{};
};

Opened open_module() {
  const char* named = std::getenv("MOTLEY_CUDA");
  std::string why = named != nullptr
                        ? "MOTLEY_CUDA in the environment names \"" + std::string(named) + "\", which does not exist"
                        : "motley_cuda.so is not here; build with CUDA 12 or newer and cuDNN 9: meson setup build -Dcuda=enabled";
  for (const fs::path& file : places(named)) {
    if (!fs::exists(file)) continue;
    void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);  // stays loaded: its backends outlive this call
    if (library == nullptr) {
      why = std::string("motley_cuda.so cannot be opened: ") + dlerror();
      continue;
    }
    const auto entry = reinterpret_cast<CudaModuleEntry>(dlsym(library, "motley_cuda_module"));
    if (entry != nullptr) return {entry(), ""};
    why = file.string() + " is not a CUDA module of motley";
  }
  return {nullptr, why};
}

}  // namespace

CudaFacts cuda_facts() {
  const Opened opened = open_module();
  return opened.module != nullptr ? opened.module->facts() : CudaFacts{"", opened.why, {}};
}

std::unique_ptr<Backend> open_cuda_backend(const Device& device) {
  const Opened opened = open_module();
  if (opened.module == nullptr) throw DeviceError("device \"" + device.name + "\" is a CUDA device, but " + opened.why);
  return opened.module->open(device);
}

}  // namespace motley
