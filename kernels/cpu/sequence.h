// SPDX-License-Identifier: Apache-2.0
// What a oneDNN kernel does in run(): primitives in order, on memory objects that are created once; run() only sets pointers.
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "kernels/cpu/dnnl_compat.h"

namespace motley::cpu {

class Sequence {
 public:
  // Where bytes are stored: in an operand of run(), or at an offset in the workspace.
  struct Place {
    int operand = -1;  // -1: the workspace
    std::size_t offset = 0;
  };
  struct Argument {
    int name;  // DNNL_ARG_...
    dnnl::memory::desc desc;
    Place place;
  };
  using Work = std::function<void(void* a, void* b)>;

  explicit Sequence(const dnnl::engine& engine) : engine_(engine), stream_(engine) {}
  Place reserve(std::size_t bytes);  // in the workspace, 64-byte aligned
  void add(const dnnl::primitive& primitive, const dnnl::memory::desc& scratchpad, const std::vector<Argument>& arguments);
  void add_reorder(const dnnl::memory::desc& from, Place from_place, const dnnl::memory::desc& to, Place to_place);
  void add_work(Place a, Place b, Work work);  // our own code, on the bytes at two places
  std::size_t workspace_bytes() const;
  void run(std::span<void* const> operands, void* workspace);  // DeviceError

 private:
  struct Memory {
    dnnl::memory memory;
    Place place;
  };
  struct Step {
    dnnl::primitive primitive{};
    std::vector<dnnl_exec_arg_t> arguments{};
    std::vector<Memory> memories{};
    Work work{};  // used instead of a primitive
    Place a{}, b{};
  };
  dnnl::engine engine_;
  dnnl::stream stream_;
  std::vector<Step> steps_{};
  std::size_t reserved_ = 0, scratchpad_ = 0;  // bytes; all scratchpads share the end of the workspace
};

}  // namespace motley::cpu
