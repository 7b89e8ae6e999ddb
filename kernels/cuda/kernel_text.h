// SPDX-License-Identifier: Apache-2.0
// motley's own kernels are texts, made for one KernelSpec and compiled when a rank opens its GPU (NVRTC, rtc.h): sizes, strides and
// the formula are constants in them. Making a text is pure; tests compile texts for the host.
#pragma once
#include <motley/dims.h>
#include <motley/dtype.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace motley::cuda {

// A compiled text. All of its kernels take the same arguments, 8 bytes each: addresses, then numbers.
class Loaded {
 public:
  virtual ~Loaded() = default;
  // Runs a kernel of 256 threads per block, in the order of the calls.
  virtual void launch(std::size_t kernel, Index blocks_x, Index blocks_y, std::span<const std::uint64_t> arguments) const = 0;
};

// Compiles texts and keeps them: equal texts are compiled once. names: of the kernels in the text, in the order of their numbers.
class TextCompiler {
 public:
  virtual ~TextCompiler() = default;
  virtual std::shared_ptr<const Loaded> load(const std::string& text, const std::vector<std::string>& names) = 0;
};

constexpr Index kBlockThreads = 256;
// What Loaded::launch takes in one direction: x 2^31 - 1, y 65535. Larger maps are not supported.
constexpr Index kMostBlocksX = 0x7fffffff, kMostBlocksY = 65535;

const std::string& prelude_text();  // text/prelude.inc
const std::string& window_text();   // text/window.inc

// "float", "double", "int", "Bf16"
inline const char* type_text(DType dtype) {
  switch (dtype) {
    case DType::f64: return "double";
    case DType::i32: return "int";
    case DType::bf16: return "Bf16";
    default: return "float";
  }
}

}  // namespace motley::cuda
