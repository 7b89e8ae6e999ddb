// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda_module.h"

#include <dlfcn.h>
#include <elf.h>
#include <motley/error.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "base/files.h"
#include "base/version.h"
#include "kernels/cuda/module_note.h"

namespace motley {
namespace {

namespace fs = std::filesystem;

// $MOTLEY_CUDA, else beside the library (or program) that contains this function: installed, and in the build tree.
fs::path place(const char* named) {
  if (named != nullptr) return named;
  Dl_info here{};
  const bool known = dladdr(reinterpret_cast<void*>(&cuda_facts), &here) != 0 && here.dli_fname != nullptr;
  return known ? fs::absolute(here.dli_fname).parent_path() / "motley_cuda.so" : fs::path();
}

// The version in the module's note; nothing: it has none, or is no ELF file of this machine. Loading runs code, so it is read
// first.
std::optional<std::string> version_in(const fs::path& path) {
  constexpr std::uint64_t kMost = 4096;
  const InputFile file(path);
  const auto at = [&](std::uint64_t offset, auto& out) { file.read(offset, std::as_writable_bytes(std::span(&out, 1))); };
  Elf64_Ehdr header{};
  if (file.size() < sizeof header) return std::nullopt;
  at(0, header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64) return std::nullopt;
  for (unsigned i = 0; i < header.e_phnum; i++) {
    Elf64_Phdr part{};
    at(header.e_phoff + i * sizeof part, part);
    if (part.p_type != PT_NOTE || part.p_filesz > kMost) continue;
    const std::string notes = file.text(part.p_offset, part.p_filesz), name(kNoteName.data(), kNoteName.size());
    const std::size_t found = notes.find(name);
    if (found != std::string::npos) return std::string(notes.substr(found + name.size()).c_str());
  }
  return std::nullopt;
}

struct Opened {
  const CudaModule* module = nullptr;
  std::string why{};
};

Opened open_module() {
  const char* named = std::getenv("MOTLEY_CUDA");
  const fs::path file = place(named);
  if (std::error_code ignored; !fs::exists(file, ignored))
    return {nullptr, named != nullptr
                         ? "MOTLEY_CUDA in the environment names \"" + std::string(named) + "\", which does not exist"
                         : "motley_cuda.so is not here; build with CUDA 12 or newer and cuDNN 9: meson setup build -Dcuda=enabled"};
  std::optional<std::string> version;
  try {
    version = version_in(file);
  } catch (const UserError& e) {
    return {nullptr, e.what()};
  }
  if (!version) return {nullptr, file.string() + " is not a CUDA module of motley"};
  if (*version != kMotleyVersion)
    return {nullptr, file.string() + " is of motley " + *version + ", this is " + kMotleyVersion + "; build both together"};
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);  // stays loaded: its backends outlive this call
  if (library == nullptr) return {nullptr, std::string("motley_cuda.so cannot be opened: ") + dlerror()};
  const auto entry = reinterpret_cast<CudaModuleEntry>(dlsym(library, "motley_cuda_module"));
  if (entry == nullptr) return {nullptr, file.string() + " is not a CUDA module of motley"};
  return {entry(), ""};
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
